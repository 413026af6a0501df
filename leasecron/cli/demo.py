"""``leasecron demo``: three real processes on one new store, and one of them killed in a run."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import click

from leasecron.cli import demo_plan as plan
from leasecron.cli.demo_crew import Crew
from leasecron.cli.demo_screen import PlainScreen, Screen
from leasecron.cli.demo_story import DemoFailed, Story

HINT = "hint: pip install 'leasecron[cli]' and this is drawn in the terminal"


@click.command()
@click.option(
    "--seconds",
    type=click.IntRange(plan.SECONDS, 600),
    default=plan.SECONDS,
    show_default=True,
    help="How long the instances run; starting and stopping them comes on top.",
)
def demo(seconds: int) -> None:
    """Show three instances, a crash and a takeover, live.

    Starts three processes with the same jobs on a new SQLite store in a temporary folder, kills one
    in the middle of a run, and reads the history back from the store at the end. The exit code is 0
    if each slot ran once and another instance finished the killed run, else 1.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        code = _show(seconds)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        code = 128 + signal.SIGINT
    sys.exit(code)


def _show(seconds: int) -> int:
    screen = choose_screen()
    with tempfile.TemporaryDirectory(prefix="leasecron-demo-") as folder:
        store = Path(folder) / "demo.db"
        try:
            with screen, Crew(Path(folder), store) as crew:
                story = Story(screen, crew, store)
                verdict = story.tell(seconds)
        except DemoFailed as failure:
            screen.say(f"the demo failed: {failure}")
            return 1
    screen.say("\nread back from the store:")
    screen.table(verdict.rows)
    screen.say(f"takeover: {story.takeover}")
    for problem in verdict.problems:
        screen.say(f"wrong: {problem}")
    if verdict.problems:
        return 1
    screen.say("right: each slot ran once, and another instance finished the killed run")
    return 0


def choose_screen() -> Screen:
    """Return the drawn screen where there is a terminal and rich, and plain lines elsewhere."""
    plain = PlainScreen(sys.stdout)
    try:
        # Optional: rich comes with the extra ``cli``. Imported here, it costs the other commands
        # nothing.
        from leasecron.cli.demo_drawing import DrawnScreen  # noqa: PLC0415
    except ImportError:
        plain.say(HINT)
        return plain
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return plain
    return DrawnScreen()
