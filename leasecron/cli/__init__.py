"""The command line."""

from __future__ import annotations

import click

from leasecron import __version__
from leasecron.cli.demo import demo
from leasecron.cli.doctor import doctor
from leasecron.cli.init import init


@click.group()
@click.version_option(__version__, prog_name="leasecron")
def main() -> None:
    """Every due run of every job, executed by exactly one instance of your application."""


main.add_command(init)
main.add_command(doctor)
main.add_command(demo)
