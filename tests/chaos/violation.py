"""What a checker finds."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept, and the lines that show it."""

    what: str
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join((self.what, *self.evidence))


def violation(what: str, *evidence: object) -> Violation:
    """Return a violation with its evidence as text."""
    return Violation(what, tuple(map(str, evidence)))


def whats(found: Iterable[Violation]) -> list[str]:
    """Return what is wrong, without the evidence."""
    return [each.what for each in found]
