"""The check of a simulated cluster sees each promise broken about what is retried, paused, asked
for and made to wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from queue import Empty
from random import Random
from typing import Any

import pytest

from leasecron import GiveUp, JobOptions, RunContext, RunResult, Scheduler, SchedulerStateError
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.context import AbortSignal
from leasecron.executor import Executor
from leasecron.model import (
    Advance,
    AdvanceAnswer,
    Claim,
    ClaimAnswer,
    Ending,
    HeartbeatAnswer,
    LeaseRef,
    LeaseState,
    NewRun,
    OneOff,
    Outcome,
    Overlap,
    Reason,
)
from leasecron.runs import LiveRun
from leasecron.testing import Attempt, Cluster, FakeClock, make_context
from leasecron.testing.attempts import Attempts
from leasecron.testing.control_findings import control_findings
from leasecron.testing.evidence import Evidence
from leasecron.testing.findings import findings
from leasecron.testing.witness import Witness

SLOT = datetime(2026, 1, 1, 1, tzinfo=UTC)
NEXT = SLOT + timedelta(minutes=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = JobOptions(lease=8, heartbeat=2, jitter=0)
CLOCK = FakeClock(SLOT)


# Evidence


def attempt(
    number: int = 1,
    retry: int = 0,
    exception: Exception | None = None,
    told: Reason | None = None,
    ended: float | None = 1,
) -> Attempt:
    signal = AbortSignal(CLOCK)
    if told is not None:
        signal.set(told)
    return Attempt(
        job="sync",
        slot=SLOT,
        attempt=number,
        fence=number,
        instance=f"instance-{number}",
        trigger="scheduled",
        began=SLOT,
        retry=retry,
        ended=None if ended is None else SLOT + timedelta(seconds=ended),
        exception=exception,
        context=make_context(signal=signal),
        process=CLOCK.process(),
    )


def failed(number: int = 1, retries: int = 0) -> RunResult:
    return RunResult(
        "sync", SLOT, number, number, "x", "scheduled", "failed", SLOT, SLOT, 0.0, "no", retries
    )


def evidence(
    attempts: Sequence[Attempt], results: Sequence[RunResult] = (), witness: Witness | None = None
) -> Evidence:
    scheduler = Scheduler("memory://", clock=CLOCK)
    scheduler.every("sync", "1h", print, retries=2, retry_on=ValueError)
    return Evidence(
        attempts=attempts,
        clashes=[],
        results=results,
        is_narrow=False,
        skips=[],
        told=[],
        faults=[],
        jobs={"sync": (scheduler.jobs["sync"], SLOT)},
        now=SLOT + timedelta(hours=1),
        was_skewed=lambda _since, _until: False,
        was_well=lambda _since, _until: True,
        witness=witness or Witness(CLOCK),
    )


NO = ValueError("no")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (evidence([attempt(), attempt(retry=2)]), "retry 2 came after retry 0"),
        (evidence([attempt(retry=1), attempt(retry=0)]), "retry 0 came after retry 1"),
        (evidence([attempt(retry=2), attempt(2, retry=1)]), "retry 1 came after retry 2"),
        (evidence([attempt(2, retry=3)]), "tried again more than 2 times"),
        (evidence([attempt(exception=NO)], [failed()]), "failed for good with retries left"),
    ],
)
def test_tries_that_do_not_follow_each_other_are_found(seen: Evidence, said: str) -> None:
    (found,) = control_findings(seen)
    assert said in found
    assert "job 'sync' slot 2026-01-01T01:00:00+00:00" in found


@pytest.mark.parametrize(
    "seen",
    [
        evidence([attempt(), attempt(retry=1), attempt(2, retry=1), attempt(2, retry=2)]),
        evidence([attempt(2, retry=1), attempt()]),
        evidence([attempt(), attempt(2, retry=2)]),
        evidence([attempt(retry=2, exception=NO)], [failed(retries=2)]),
        evidence([attempt(exception=KeyError())], [failed()]),
        evidence([attempt(exception=GiveUp())], [failed()]),
        evidence([attempt(exception=NO, told="timeout")], [failed()]),
    ],
)
def test_tries_that_follow_each_other_pass(seen: Evidence) -> None:
    assert [*control_findings(seen)] == []


def test_a_try_that_begins_beside_another_one_of_its_attempt_is_found() -> None:
    scheduler = Scheduler("memory://", clock=CLOCK)
    attempts, process = Attempts(CLOCK.now), CLOCK.process()
    ctx = make_context(job="sync", slot=SLOT)
    ctx.signal.set("timeout")
    calls = 0

    @scheduler.every("sync", "1h", overlap="allow")
    def handler(_ctx: RunContext) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # deaf to its timeout, when the next try begins
            scheduler.declared("sync").call(ctx)

    attempts.observe(scheduler.declared("sync"), process, leases=True)
    scheduler.declared("sync").call(ctx)

    assert len(attempts.clashes) == 1


def test_a_job_that_runs_once_is_missed_at_the_instant_that_the_store_has_fixed() -> None:
    scheduler, witness = Scheduler("memory://", clock=CLOCK), Witness(CLOCK)
    scheduler.at("sync", SLOT + timedelta(minutes=10), print)
    jobs = {"sync": (scheduler.jobs["sync"], SLOT)}
    one_offs = [OneOff("sync", SLOT + timedelta(minutes=20))]
    witness.hears("fix", (one_offs,), [one_offs[0].at], witness.asks("fix", (one_offs,)))

    (found,) = findings(replace(evidence([], witness=witness), jobs=jobs))
    assert found == "neither run nor skipped: job 'sync' slot 2026-01-01T01:20:00+00:00"


# What a store is told and answers


def claim(slot: datetime, overlap: Overlap = "queue", token: str | None = None) -> Claim:
    return Claim("sync", slot, token or f"{slot}", "instance-0", 8, overlap, 3, 300)


def say(witness: Witness, asked: Claim, outcome: Outcome, fence: int = 1) -> None:
    number = witness.asks("claim", ([asked],))
    answer = ClaimAnswer(outcome, 1, fence) if outcome == "won" else ClaimAnswer(outcome)
    witness.hears("claim", ([asked],), [answer], number)


def test_of_two_slots_that_wait_the_older_one_must_not_begin() -> None:
    witness = Witness(CLOCK)
    say(witness, claim(SLOT), "overlap")
    say(witness, claim(NEXT), "overlap")
    say(witness, claim(SLOT), "won")

    (found,) = witness.broken
    assert found.startswith("begun in place of a newer slot that waited: job 'sync' slot 2026-01")


def test_of_two_slots_that_wait_the_newer_one_may_begin_and_once_at_most() -> None:
    witness = Witness(CLOCK)
    say(witness, claim(SLOT), "overlap")
    say(witness, claim(NEXT), "overlap")
    say(witness, claim(NEXT), "won")
    say(witness, claim(NEXT), "won")  # the answer was lost

    assert witness.broken == []
    assert [len(run.holdings) for run in witness.runs.values()] == [0, 1]


def test_a_queued_slot_must_not_begin_before_the_end_of_a_run_whose_holder_is_gone() -> None:
    clock = FakeClock(SLOT)
    witness, older = Witness(clock), claim(SLOT)
    say(witness, older, "won")
    clock.jump(wall=60, monotonic=60)  # its lease is over
    say(witness, claim(NEXT), "won", 2)

    (found,) = witness.broken
    assert found.startswith(
        "begun before the run of 2026-01-01T01:00:00+00:00 had ended: job 'sync'"
    )


@pytest.mark.parametrize("end", ["finish", "done"])
def test_it_may_begin_after_that(end: str) -> None:
    clock = FakeClock(SLOT)
    witness, older = Witness(clock), claim(SLOT)
    say(witness, older, "won")
    if end == "finish":
        endings = [Ending("sync", SLOT, older.token, "success")]
        witness.hears("finish", (endings,), [True], witness.asks("finish", (endings,)))
    else:
        clock.jump(wall=60, monotonic=60)
        say(witness, claim(SLOT, token="another"), "done")
    say(witness, claim(NEXT), "won", 2)

    assert witness.broken == []


@pytest.mark.parametrize(("abandoned", "found"), [(True, 0), (False, 1)])
def test_a_run_that_was_asked_for_is_replaced_by_nothing(abandoned: bool, found: int) -> None:
    witness, new = Witness(CLOCK), [NewRun("sync", SLOT, "people")]
    witness.hears("add_runs", (new,), [True], witness.asks("add_runs", (new,)))
    say(witness, claim(SLOT), "won")
    asked = [replace(claim(SLOT, token="another"), mode="takeover")]
    answer = ClaimAnswer("done", abandoned=abandoned)
    witness.hears("claim", (asked,), [answer], witness.asks("claim", (asked,)))

    assert [each.partition(":")[0] for each in witness.broken] == [
        "asked for, and closed without an end"
    ] * found


def test_a_backfill_that_is_cancelled_is_waited_for_no_longer() -> None:
    clock = FakeClock(SLOT)
    witness, asked = Witness(clock), Advance("sync", SLOT, None, SLOT)
    witness.hears("advance", (asked,), "waiting", witness.asks("advance", (asked,)))
    clock.jump(wall=3600, monotonic=3600)
    seen = evidence([], witness=witness)
    assert [line.partition(",")[0] for line in control_findings(seen)] == ["asked for"]
    cancelled = ("sync", clock.now())
    witness.hears("cancel_backfill", cancelled, True, witness.asks("cancel_backfill", cancelled))
    assert [*control_findings(seen)] == []
    say(witness, claim(SLOT), "done")
    assert witness.broken == []


def test_calls_that_are_under_way_at_once_are_not_held_to_each_other() -> None:
    witness, asked = Witness(CLOCK), claim(SLOT)
    number = witness.asks("claim", ([asked],))
    witness.hears("pause", ("sync", ""), True, witness.asks("pause", ("sync", "")))
    witness.hears("claim", ([asked],), [ClaimAnswer("won", 1, 1)], number)
    assert witness.broken == []
    say(witness, claim(NEXT, "allow"), "won", 2)

    (found,) = witness.broken
    assert found.startswith("begun while its job was paused: job 'sync' slot 2026-01-01T01:01:00")


def test_a_handler_that_goes_on_though_its_instance_was_told_is_found() -> None:
    clock = FakeClock(SLOT)
    witness, held = Witness(clock), claim(SLOT, "cancel")
    say(witness, held, "won")
    refs = [LeaseRef("sync", SLOT, held.token, 8)]
    for _ in range(2):
        clock.jump(wall=2, monotonic=2)
        number = witness.asks("heartbeat", (refs,))
        witness.hears("heartbeat", (refs,), ["replaced"], number)
        witness.arrives("heartbeat", (refs,), ["replaced"])

    (found,) = control_findings(evidence([attempt(ended=5)], witness=witness))
    assert found.startswith("went on when a newer slot waited: job 'sync' slot 2026-01-01T01:00")
    for honest in (attempt(ended=3), attempt(ended=5, told="replaced")):
        assert [*control_findings(evidence([honest], witness=witness))] == []


# Stores and instances that break a promise: the whole chain


class Wakeful(MemoryBackend):
    """Pauses nothing."""

    def pause(self, job: str, note: str) -> bool:
        return True


class Shut(MemoryBackend):
    """Takes every job for paused."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return [ClaimAnswer("paused") for _ in claims]


class Careless(MemoryBackend):
    """Does not keep when a pause was that is over."""

    def resume(self, job: str) -> bool:
        known = super().resume(job)
        assert self._tables is not None
        self._tables.pauses.clear()
        return known


class Impatient(MemoryBackend):
    """Lets a slot run beside those that it has to wait for."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return super().claim([replace(claim, overlap="allow") for claim in claims])


class Discreet(MemoryBackend):
    """Tells no run to make way."""

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        answers = super().heartbeat(leases)
        return ["ok" if answer == "replaced" else answer for answer in answers]


class Stubborn(MemoryBackend):
    """Lets what waits wait for ever."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        answers = super().claim([each for each in claims if each.mode == "claim"])
        return [
            answers.pop(0) if each.mode == "claim" else ClaimAnswer("overlap") for each in claims
        ]


class Deaf(MemoryBackend):
    """Tells nobody of what was asked for."""

    def asked_for(self) -> list[LeaseState]:
        return []


class Forgetful(MemoryBackend):
    """Forgets how often a run was tried again."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return [replace(answer, retries=0) for answer in super().claim(claims)]


class Fickle(MemoryBackend):
    """Fixes an instant anew for each who asks."""

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        return [job.at for job in jobs]


class Repetitive(MemoryBackend):
    """Has a backfill run what has succeeded."""

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        return []

    def advance(self, asked: Advance) -> AdvanceAnswer:
        assert self._tables is not None
        for row in self._tables.runs.get(asked.job, {}).values():
            row.state = "failed" if row.state == "success" else row.state
        return super().advance(asked)


Story = Callable[[Cluster], object]


def paused(cluster: Cluster) -> None:
    cluster.every("sync", "1m", print)
    cluster.pause("sync")
    cluster.advance("10m")


def resumed(cluster: Cluster) -> None:
    cluster.every("sync", "10m", print, catch_up="10m")
    cluster.advance("1s")
    cluster.pause("sync")
    cluster.advance("11m")
    cluster.resume("sync")
    cluster.advance("1m")
    cluster.restart(0)
    cluster.advance("1m")


def long(overlap: Overlap, lasts: float = 150) -> Story:
    def story(cluster: Cluster) -> None:
        def deaf() -> None:
            with suppress(Empty):
                cluster.clock.waker().get(lasts)

        cluster.every("sync", "1m", deaf, overlap=overlap)
        cluster.advance("10m")

    return story


def asked(cluster: Cluster) -> None:
    cluster.every("sync", "1h", print)
    cluster.trigger("sync")
    cluster.advance("10m")


def waiting(cluster: Cluster) -> None:
    def first_long(ctx: RunContext) -> None:
        ctx.sleep(700 if ctx.slot == START + timedelta(minutes=10) else 1)

    cluster.every("sync", "10m", first_long, overlap="queue")
    cluster.advance("29m")


def retried(cluster: Cluster) -> None:
    def fails() -> None:
        raise NO

    cluster.every("sync", "1h", fails, retries=2, backoff=120)
    cluster.advance("3605s")
    cluster.crash(int(cluster.attempts[-1].instance.partition("-")[2]))
    cluster.advance("10m")


def once(cluster: Cluster) -> None:
    cluster.setup(lambda scheduler: scheduler.at("sync", "1m", print))
    cluster.advance("30s")
    cluster.restart(0)
    cluster.advance("5m")


def backfilled(cluster: Cluster) -> None:
    chance = Random(1)

    def fails(ctx: RunContext) -> None:
        ctx.sleep(3)
        if ctx.trigger != "backfill" and chance.random() < 0.5:
            raise NO

    cluster.every("sync", "1m", fails, overlap="queue", retries=1, backoff=1)
    cluster.advance("10m")
    cluster.pause("sync")
    cluster.advance("5m")
    cluster.resume("sync")
    now = cluster.clock.now()
    cluster.schedulers[0].backfill("sync", now - timedelta(minutes=14), now)
    cluster.advance("10m")
    assert len([a for a in cluster.attempts if a.trigger == "backfill"]) > 5


@pytest.mark.parametrize(
    ("store", "story", "said"),
    [
        (Repetitive, backfilled, "run again after it had succeeded"),
        (Wakeful, paused, "begun while its job was paused"),
        (Shut, lambda cluster: (cluster.every("sync", "1m", print), cluster.advance("5m")),
         "refused as paused, and its job was not"),
        (Careless, resumed, "begun after the pause in which it was due"),
        (Impatient, long("queue"), "won beside a lease"),
        (Impatient, long("cancel"), "won beside a lease"),
        (Discreet, long("cancel"), "not told to make way"),
        (Stubborn, waiting, "waiting for an older run to end, and not begun"),
        (Deaf, asked, "asked for, and not begun"),
        (Forgetful, retried, "of 1 retries the store knows 0"),
        (Fickle, once, "fixed anew"),
        (Fickle, once, "run at another instant"),
    ],
)  # fmt: skip
def test_a_store_that_breaks_a_promise_is_found_out(
    store: type[MemoryBackend], story: Story, said: str
) -> None:
    with Cluster(3, store(), 3, defaults=LEASE) as cluster:
        story(cluster)
        with pytest.raises(AssertionError, match=said):
            cluster.check()


@pytest.mark.parametrize(
    "story",
    [paused, resumed, long("queue"), long("cancel"), asked, waiting, retried, once, backfilled],
)
def test_the_same_with_an_honest_store_passes(story: Story) -> None:
    with Cluster(3, MemoryBackend(), 3, defaults=LEASE) as cluster:
        story(cluster)
        cluster.check()


def test_an_instance_that_does_not_tell_its_handler_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tell = Executor.tell

    def discreet(self: Executor, run: LiveRun, reason: Reason) -> None:
        if reason != "replaced":
            tell(self, run, reason)

    monkeypatch.setattr(Executor, "tell", discreet)
    with Cluster(3, MemoryBackend(), 3, defaults=LEASE) as cluster:
        long("cancel")(cluster)
        with pytest.raises(AssertionError, match="went on when a newer slot waited"):
            cluster.check()


# What a test of an application does


@pytest.fixture
def cluster() -> Any:
    start = START + timedelta(seconds=5)
    with Cluster(3, "memory://", 1, start=start, defaults=LEASE) as cluster:
        cluster.every("sync", "10m", lambda: None)
        yield cluster


def test_a_test_can_ask_for_a_run_and_wait_for_it(cluster: Cluster) -> None:
    cluster.crash(0)
    run = cluster.trigger("sync")
    result = run.wait(timeout=10)

    assert result is not None
    assert (result.status, result.trigger) == ("success", "manual")
    assert [(a.trigger, a.slot) for a in cluster.attempts] == [("manual", run.slot)]
    cluster.check()


def test_a_test_can_pause_a_job_and_let_it_go_on(cluster: Cluster) -> None:
    cluster.partition(0)
    cluster.freeze(1, "1h")
    cluster.pause("sync", "by a test")
    cluster.advance("25m")
    assert cluster.attempts == []
    cluster.resume("sync")
    cluster.advance("10m")

    assert [a.slot for a in cluster.attempts] == [START + timedelta(minutes=30)]
    cluster.check()


def test_somebody_must_be_up_to_act_through(cluster: Cluster) -> None:
    for i in range(3):
        cluster.crash(i)

    with pytest.raises(SchedulerStateError, match=r"pause\('sync'\): no instance is up; restart"):
        cluster.pause("sync")
