"""What looking at a store gives, before anything is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from leasecron.backends.checks import Check
from leasecron.doctor.stakes import Stakes


@dataclass(frozen=True, slots=True)
class Look:
    """The quick checks, where to try more, and what the store holds.

    Without a ``folder`` there is nothing to try: there is no store, or none that can be used.
    """

    checks: Sequence[Check]
    folder: str | None = None
    stakes: Stakes = field(default_factory=dict)
    contents: Sequence[Check] = ()
