"""A run that this instance has won: what it is, and how its end is put into words."""

from __future__ import annotations

from datetime import datetime

from leasecron.clock import Clock
from leasecron.context import AbortSignal, RunContext
from leasecron.deadlines import Timer
from leasecron.jobs import DeclaredJob
from leasecron.leases import Lease
from leasecron.model import Claim, Reason, RunResult, Status, from_seconds

MAX_ERROR = 8 * 1024
"""Bytes of an error's text that history keeps."""


Key = tuple[str, datetime]
"""What a run is known by: its job's name and its slot."""


class LiveRun:
    """One attempt, from the won claim until its end is recorded and its thread is back.

    ``key`` is what it is known by, ``lateness`` the seconds between the slot and the start,
    ``lease`` None on a claim-only store.
    """

    __slots__ = (
        "attempt",
        "claim",
        "counting",
        "error",
        "exception",
        "fence",
        "given_up",
        "has_place",
        "job",
        "key",
        "lateness",
        "lease",
        "owned",
        "reason",
        "recorded",
        "result",
        "retries",
        "retry_timer",
        "retrying",
        "running",
        "signal",
        "started",
        "started_at",
        "tick",
        "timeout",
        "tried",
    )

    def __init__(
        self,
        job: DeclaredJob,
        claim: Claim,
        attempt: int,
        fence: int | None,
        lease: Lease | None,
        clock: Clock,
        retries: int = 0,
    ) -> None:
        self.job = job
        self.claim = claim
        self.attempt = attempt
        self.fence = fence
        self.lease = lease
        self.signal = AbortSignal(clock)
        self.key: Key = (claim.job, claim.slot)
        self.started_at = clock.wall()
        self.lateness = max(0.0, self.started_at - claim.slot.timestamp())
        self.started = clock.monotonic()
        self.running = False  # while the handler's thread is not back
        self.has_place = True  # among those that its instance runs
        self.timeout: Timer | None = None
        self.tick: Timer | None = None  # of its heartbeats
        self.tried = False  # in this attempt
        self.retries = retries  # how often it was tried again, in attempts before as well
        self.retrying = False  # from when a try has failed until the next one begins
        self.counting = False  # while the store has not heard of that
        self.retry_timer: Timer | None = None
        self.exception: BaseException | None = None
        self.error: str | None = None
        self.result: RunResult | None = None  # set once it is decided how the run ended
        self.reason: Reason | None = None  # of an interrupted run
        self.recorded = False
        self.owned = True  # False once the store has said that the token owns the run no longer
        self.given_up = False  # a step of it failed: nobody knows how it stands

    @property
    def needs_lease(self) -> bool:
        """Say whether to keep the lease alive: until the end is recorded and the thread is back."""
        return self.owned and (not self.recorded or self.running)

    @property
    def pauses_its_job(self) -> bool:
        """Say whether its end pauses the job: a failure that is for good."""
        failed = self.result is not None and self.result.status == "failed"
        return failed and self.job.options.pause_on_failure

    def context(self) -> RunContext:
        """Return what the handler is given."""
        return RunContext(
            job=self.claim.job,
            slot=self.claim.slot,
            attempt=self.attempt,
            fence=self.fence,
            token=self.claim.token,
            instance=self.claim.instance,
            trigger=self.claim.trigger,
            lateness=self.lateness,
            retry=self.retries,
            signal=self.signal,
        )

    def give_up(self) -> None:
        """Let the lease run out, so that another instance can take the run over."""
        self.given_up = True
        self.owned = self.retrying = False
        self.signal.set("lease-lost")

    def decide(self, status: Status, ended: float) -> None:
        """Settle how the run ended, at the monotonic time ``ended``."""
        self.result = self.result_of(status, ended)

    def result_of(self, status: Status, ended: float) -> RunResult:
        """Return what is told of the attempt if it ended so, at the monotonic time ``ended``.

        Both instants are of the clock at the start, so that a step of the wall clock meanwhile
        neither stretches the run nor ends it before it began.
        """
        started_at = from_seconds(self.started_at)
        ended_at = from_seconds(self.started_at + max(0.0, ended - self.started))
        return RunResult(
            job=self.claim.job,
            slot=self.claim.slot,
            attempt=self.attempt,
            fence=self.fence,
            instance=self.claim.instance,
            trigger=self.claim.trigger,
            status=status,
            started_at=started_at,
            ended_at=ended_at,
            duration=(ended_at - started_at).total_seconds(),
            error=self.error,
            retries=self.retries,
        )


def error_text(exception: BaseException) -> str:
    """Return type and text of an exception, as valid UTF-8 without NUL, of at most 8 KiB.

    Never raises, whatever the exception's own ``__str__`` does.
    """
    try:
        text = str.__str__(str(exception))  # a subclass of str could do whatever it likes below
    except BaseException:  # noqa: BLE001 - the text of an error must not become another error
        text = "(its text cannot be had: str() raised)"
    name: str = type.__dict__["__name__"].__get__(type(exception))  # whatever a metaclass says
    full = f"{name}: {text}" if text else name
    data = full[:MAX_ERROR].replace("\0", "\ufffd").encode("utf-8", "replace")
    return data[:MAX_ERROR].decode("utf-8", "ignore")
