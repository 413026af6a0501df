"""Texts that would harm, and what tells that they did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

FORGED = "2026-01-01 00:00:00 CRITICAL forged"
NASTY = f"a\n{FORGED}\r{FORGED}\x1b[2J\x9b31m\u202e\u2028{FORGED}\x85%s%(x)d{{0}}"
"""What would clear a screen, turn text around, add lines to a log, or be taken for a format."""


def is_harmless(text: str) -> bool:
    """Say whether a text has no character that a terminal obeys, but the ends of its lines."""
    return text.replace("\n", "").isprintable()


class Rude:
    """Answers a repr as told."""

    def __init__(self, answer: Callable[[], str]) -> None:
        self._answer = answer

    def __repr__(self) -> str:
        return self._answer()


def fail() -> NoReturn:
    raise ZeroDivisionError
