"""What is known of the three instances, kept up by their messages; and each message in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from leasecron.cli.demo_messages import Message, Run
from leasecron.errors import printable


@dataclass(slots=True)
class Row:
    """One instance. ``running`` holds the attempt of each run, ``standing_by`` the watched runs."""

    name: str
    state: str = "starting"
    running: dict[Run, int] = field(default_factory=dict)
    standing_by: set[Run] = field(default_factory=set)
    won: int = 0
    heartbeats: int = 0
    skips: int = 0


class Board:
    """The state of the demo as its messages tell it."""

    def __init__(self, names: Iterable[str]) -> None:
        self.rows = {name: Row(name) for name in names}
        self.calls: Counter[Run] = Counter()
        self.succeeded: set[Run] = set()
        self.started: dict[tuple[Run, int], Message] = {}

    def all_ready(self) -> bool:
        """Say whether every instance has started its scheduler."""
        return all(row.state == "up" for row in self.rows.values())

    def holder(self, run: Run) -> str | None:
        """Name the instance that runs it."""
        return next((row.name for row in self.rows.values() if run in row.running), None)

    def ended(self, name: str, state: str) -> None:
        """Note that an instance is gone, and with it what it did."""
        row = self.rows[name]
        row.state = state
        row.running.clear()
        row.standing_by.clear()

    def apply(self, message: Message) -> str | None:
        """Take a message in; return the line that tells it, None where there is nothing to say."""
        row = self.rows[message.instance]
        match message.kind:
            case "ready":
                row.state = "up"
            case "call":
                self.calls[message.run] += 1
                return None
            case "start":
                self._start(row, message)
            case "heartbeat":
                row.heartbeats += 1
            case "success":
                self._success(row, message.run)
            case "failure" | "interrupted":
                row.running.pop(message.run, None)
            case "skip":
                self._skip(row, message)
        return _in_words(message)

    def _start(self, row: Row, message: Message) -> None:
        row.won += 1
        row.running[message.run] = message.attempt
        row.standing_by.discard(message.run)
        self.started[message.run, message.attempt] = message

    def _success(self, row: Row, run: Run) -> None:
        self.succeeded.add(run)
        row.running.pop(run, None)
        for other in self.rows.values():
            other.standing_by.discard(run)

    def _skip(self, row: Row, message: Message) -> None:
        row.skips += 1
        # The messages of two instances may cross, so the run may have ended by now.
        if message.holder and message.run not in self.succeeded:
            row.standing_by.add(message.run)


def clock_text(instant: datetime, *, milliseconds: bool = False) -> str:
    """Return an instant as the local time of day."""
    return instant.astimezone().isoformat(timespec="milliseconds" if milliseconds else "seconds")[
        11 : 23 if milliseconds else 19
    ]


def run_text(run: Run) -> str:
    """Return a run as ``job @ slot``."""
    job, slot = run
    return f"{job} @ {clock_text(slot)}"


def line_text(at: float, instance: str, verb: str, rest: str) -> str:
    """Return one line of the demo's log."""
    when = clock_text(datetime.fromtimestamp(at).astimezone(), milliseconds=True)
    return printable(f"{when}  {instance}  {verb:<11}  {rest}".rstrip())


def _in_words(message: Message) -> str:
    verb, rest = _phrase(message)
    return line_text(message.wall, message.instance, verb, rest)


def _phrase(message: Message) -> tuple[str, str]:
    run = run_text(message.run)
    match message.kind:
        case "ready":
            return "is up", message.detail
        case "start":
            verb = "takes over" if message.detail == "takeover" else "won"
            return verb, f"{run}  attempt {message.attempt} ({message.detail})"
        case "heartbeat":
            return "heartbeat", f"{run}  {message.detail}"
        case "success":
            return "finished", f"{run}  after {message.detail}"
        case "failure" | "interrupted":
            return message.kind, f"{run}  {message.detail}"
        case "skip" if message.holder:
            return "stands by", f"{run}  skip ({message.detail}): {message.holder} has it"
        case "skip":
            return "skips", f"{run}  ({message.detail})"
        case _:
            return "error", message.detail
