"""What a checker says of a chaos run."""

from collections import Counter
from dataclasses import dataclass, field

from chaos.violation import Violation


@dataclass(slots=True)
class Verdict:
    """What was found, and how much there was to judge.

    ``slots`` counts them by what became of them, ``attempts`` by how they ended, ``records`` by
    their status; ``takeovers`` are second and later attempts, ``given_up`` the runs that a backup
    was to take over; ``lateness`` counts first attempts by when they were begun, and
    ``back`` is for how many seconds after an outage of the server slots were still late at most.
    """

    violations: list[Violation] = field(default_factory=list)
    slots: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    takeovers: int = 0
    given_up: int = 0
    lateness: Counter[str] = field(default_factory=Counter)
    back: float = 0.0

    def add(self, other: "Verdict") -> None:
        """Take in what was found of other jobs."""
        self.violations += other.violations
        self.slots += other.slots
        self.attempts += other.attempts
        self.records += other.records
        self.takeovers += other.takeovers
        self.given_up += other.given_up
        self.lateness += other.lateness
        self.back = max(self.back, other.back)
