"""What an instance of the demo tells the process that started it, as lines of JSON."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal

from leasecron.model import from_ms

Kind = Literal[
    "ready", "start", "call", "heartbeat", "success", "failure", "interrupted", "skip", "error"
]
Run = tuple[str, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that happened in an instance, by default just now.

    ``monotonic`` is comparable between the processes of one machine and does not jump. ``call``
    comes from the handler itself, so that its runs are counted without help from the store.
    ``detail`` is the trigger of a start, the reason of a skip, the answer to a heartbeat and so on.
    """

    instance: str
    kind: Kind
    wall: float = field(default_factory=time.time)
    monotonic: float = field(default_factory=time.monotonic)
    job: str = ""
    slot_ms: int = 0
    attempt: int = 0
    holder: str = ""
    detail: str = ""

    @property
    def run(self) -> Run:
        """Name the run that the message is about."""
        return self.job, from_ms(self.slot_ms)


def encode(message: Message) -> bytes:
    """Return the line of a message."""
    return json.dumps(asdict(message)).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Return the message of a line; None where somebody else wrote to the pipe."""
    try:
        return Message(**json.loads(line))
    except (ValueError, TypeError):
        return None
