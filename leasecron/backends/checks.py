"""What was found out about a store on this machine, and whether that is good enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "warning", "bad"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at or tried.

    ``name`` says what, in one or two words; ``found`` what was seen; ``reason`` why that leads to
    the verdict. The reason of a warning is a whole sentence that can stand alone in a log.
    """

    name: str
    verdict: Verdict
    found: str
    reason: str
