"""What can be asked of the store thread: one item for the backend, and whom to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from leasecron.backends.base import Backend, ControlBackend
from leasecron.clock import Waker
from leasecron.logger import logger
from leasecron.model import LeaseState, RunResult

Kind = Literal[
    "heartbeat",
    "finish",
    "release",
    "retry",
    "claim",
    "save_results",
    "declare",
    "fix",
    "unfinished",
    "other",
]

ORDER: tuple[Kind, ...] = (
    "heartbeat",
    "finish",
    "release",
    "retry",
    "claim",
    "save_results",
    "declare",
    "fix",
    "unfinished",
    "other",
)
"""What a pass takes first: a lease that runs out costs more than a claim that waits."""

NEVER_GIVEN_UP: frozenset[Kind] = frozenset({"finish", "release", "retry"})
"""A run that ended must be recorded as ended, whatever the store says at the moment; and one that
is tried again must be counted first."""

Reply = Callable[..., None]
"""Takes the answer, or the exception, and the monotonic time read just before the call.

What it was submitted with beside them comes first: a batch is answered without a closure a call.
"""


@dataclass(slots=True, eq=False)
class Call:
    """One item for the backend, and whom to tell.

    ``record`` is saved once the backend has said True to an end: the second write follows the first
    without a question in between, and it is what is answered then.
    """

    kind: Kind
    item: Any
    reply: Reply
    context: tuple[Any, ...] = ()
    record: RunResult | None = None
    give_up: float | None = None
    operation: str | None = None
    awaited: bool = False
    tries: int = 0
    answered: bool = False

    @property
    def name(self) -> str:
        """What events and log lines call it."""
        return self.operation or self.kind

    def answer(self, answer: Any, asked_at: float) -> None:
        """Hand over the answer; whoever cannot take it costs nobody else in the batch theirs."""
        self.answered = True
        try:
            self.reply(*self.context, answer, asked_at)
        except Exception:
            logger.exception("the answer to %s could not be handed over", self.name)


@dataclass(slots=True, eq=False)
class Close:
    """A request to end the thread."""

    closed: Callable[[], None]


@dataclass(slots=True, eq=False)
class DropClaims:
    """A request to take back the claims that have not been made."""

    dropped: Callable[[list[Any]], None]


@dataclass(slots=True, eq=False)
class Rest:
    """A request to come to rest before a fork."""

    resting: Waker
    resume: Waker


def call_backend(backend: Backend, kind: Kind, items: list[Any]) -> list[Any]:
    """Make one call of the backend for all items, and return an answer for each."""
    store = cast("ControlBackend", backend)
    match kind:
        case "heartbeat":
            answers: list[Any] = list(store.heartbeat(items))
        case "finish":
            answers = list(store.finish(items))
        case "release":
            answers = list(store.release(items))
        case "retry":
            answers = list(store.retry(items))
        case "claim":
            answers = list(store.claim(items))
        case "declare":
            answers = list(store.declare(items))
        case "fix":
            answers = list(store.fix(items))
        case "save_results":
            store.save_results(items)
            answers = [None] * len(items)
        case "unfinished":
            states: dict[str, list[LeaseState]] = {job: [] for job in items}
            for state in store.unfinished([*states]):
                states[state.job].append(state)
            answers = [states[job] for job in items]
        case "other":
            answers = [items[0](store)]
    if len(answers) != len(items):
        raise RuntimeError(f"{kind} answered {len(answers)} of {len(items)} items")
    return answers
