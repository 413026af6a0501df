"""Texts that would harm, and what tells that they did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from leasecron.errors import READABLE

FORGED = "2026-01-01 00:00:00 CRITICAL forged"
NASTY = f"a\n{FORGED}\r{FORGED}\x1b[2J\x9b31m\u202e\u2028{FORGED}\x85%s%(x)d{{0}}"
"""What would clear a screen, turn text around, add lines to a log, or be taken for a format."""

NAMES = ["می\u200cشود", "日次\u3000集計", "👩\u200d💻", "rapport\u00a0: été"]
"""What people write, though Python holds a character in each for one that does not print."""


def is_harmless(text: str) -> bool:
    """Say whether a text has no character that a terminal obeys, but the ends of its lines."""
    return all(c.isprintable() or c in READABLE or c == "\n" for c in text)


class Rude:
    """Answers a repr as told."""

    def __init__(self, answer: Callable[[], str]) -> None:
        self._answer = answer

    def __repr__(self) -> str:
        return self._answer()


def fail() -> NoReturn:
    raise ZeroDivisionError
