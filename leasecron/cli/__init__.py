"""The command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from leasecron import __version__
from leasecron.cli.copy import copy
from leasecron.cli.demo import demo
from leasecron.cli.doctor import doctor
from leasecron.cli.init import init
from leasecron.cli.pausing import pause, resume
from leasecron.cli.trigger import trigger
from leasecron.errors import printable


@contextmanager
def _errors_printable() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message)  # it is declared final
        raise


class Commands(click.Group):
    """The commands. What they print of a refusal is printable, whatever the arguments hold."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the arguments."""
        with _errors_printable():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Do the command."""
        with _errors_printable():
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leasecron")
def main() -> None:
    """Every due run of every job, executed by exactly one instance of your application.

    The application runs its jobs itself, with a scheduler in each of its processes. These commands
    are for the store that its processes share, and act on its jobs from outside.

    \b
    Examples:
      leasecron doctor sqlite:////var/lib/app/jobs.db
      leasecron trigger report --store sqlite:////var/lib/app/jobs.db --wait
      leasecron pause report --store sqlite:////var/lib/app/jobs.db
      leasecron resume report --store sqlite:////var/lib/app/jobs.db

    Each has a --help of its own.
    """


main.add_command(init)
main.add_command(doctor)
main.add_command(trigger)
main.add_command(pause)
main.add_command(resume)
main.add_command(copy)
main.add_command(demo)
