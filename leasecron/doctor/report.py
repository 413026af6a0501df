"""What was found out about a store, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from leasecron.backends.checks import Check, Verdict
from leasecron.errors import printable

EXIT_CODES: dict[Verdict, int] = {"good": 0, "warning": 1, "bad": 2}

_CONCLUSIONS: dict[Verdict, str] = {
    "good": "this store can be trusted on this machine",
    "warning": "this store works on this machine, within what the warnings say",
    "bad": "do not trust this store on this machine",
}
_NARROWEST = 30


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one store, in the order in which they are to be read."""

    store: str
    checks: Sequence[Check]

    @property
    def verdict(self) -> Verdict:
        """The worst of the verdicts."""
        return max((check.verdict for check in self.checks), key=EXIT_CODES.__getitem__)

    @property
    def exit_code(self) -> int:
        """0 for good, 1 where there are warnings, 2 where the store is not to be trusted."""
        return EXIT_CODES[self.verdict]

    def as_json(self) -> str:
        """Return one object: store, verdict, checks."""
        checks = [asdict(check) for check in self.checks]
        return json.dumps(
            {"store": self.store, "verdict": self.verdict, "checks": checks}, indent=2
        )

    def as_table(self, width: int) -> str:
        """Return lines of at most ``width`` characters, as far as that leaves room for text."""
        verdicts = max(len(verdict) for verdict in EXIT_CODES)
        names = max(len(check.name) for check in self.checks)
        lines = [f"store {printable(self.store)}", ""]
        for check in self.checks:
            head = f"{check.verdict:<{verdicts}}  {check.name:<{names}}  "
            lines += _wrapped(head, printable(f"{check.found}: {check.reason}"), width)
        return "\n".join([*lines, "", f"{self.verdict}: {_CONCLUSIONS[self.verdict]}"])


def _wrapped(head: str, text: str, width: int) -> list[str]:
    room = max(_NARROWEST, width - len(head))
    # A path or a command is never cut: it may be copied from here.
    first, *more = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False)
    return [head + first, *(" " * len(head) + line for line in more)]
