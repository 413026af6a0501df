"""The check of a simulated cluster sees each promise broken about backfills."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasecron import JobOptions, RunContext
from leasecron.backends import backfills, claims
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.model import (
    Advance,
    AdvanceAnswer,
    BackfillState,
    Claim,
    ClaimAnswer,
    Ending,
    LeaseState,
    NewBackfill,
    Overlap,
    to_ms,
)
from leasecron.testing import Cluster, FakeClock
from leasecron.testing.witness import Witness

START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = JobOptions(lease=8, heartbeat=2, jitter=0)
SLOT = datetime(2025, 12, 31, tzinfo=UTC)
NEXT = SLOT + timedelta(minutes=1)


# What a store is told and answers


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def witness(clock: FakeClock) -> Witness:
    witness = Witness(clock)
    say(witness, "add_backfill", NewBackfill("sync", SLOT, NEXT, 2, "people"), None)
    return witness


def say(witness: Witness, operation: str, asked: Any, answer: Any) -> None:
    witness.hears(operation, (asked,), answer, witness.asks(operation, (asked,)))


def advance(witness: Witness, slot: datetime | None, answer: AdvanceAnswer = "waiting") -> None:
    say(witness, "advance", Advance("sync", START, None, slot), answer)


def claim(
    witness: Witness,
    slot: datetime,
    answer: ClaimAnswer,
    *,
    overlap: Overlap = "skip",
    token: str = "",
) -> None:
    asked = Claim("sync", slot, token or f"{slot}", "instance-0", 8, overlap, 3, 300)
    say(witness, "claim", [asked], [answer])


def finish(witness: Witness, slot: datetime, token: str = "") -> None:
    say(witness, "finish", [Ending("sync", slot, token or f"{slot}", "success")], [True])


def test_slots_that_are_run_one_after_the_other_pass(witness: Witness, clock: FakeClock) -> None:
    for fence, slot in enumerate((SLOT, NEXT), 1):
        clock.jump(wall=1, monotonic=1)
        advance(witness, slot)
        clock.jump(wall=5, monotonic=5)
        claim(witness, slot, ClaimAnswer("won", 1, fence))
        finish(witness, slot)
    clock.jump(wall=1, monotonic=1)
    advance(witness, None, "ended")
    clock.jump(wall=5, monotonic=5)

    assert witness.broken == []
    (backfill,) = witness.backfills
    gaps = backfill.gaps_until(clock.now())
    assert [(end - begin).total_seconds() for begin, end in gaps] == [1, 1, 1]


def test_one_that_goes_on_before_its_run_has_ended_is_found(witness: Witness) -> None:
    advance(witness, SLOT)
    claim(witness, SLOT, ClaimAnswer("won", 1, 1), overlap="allow")
    advance(witness, NEXT)
    claim(witness, NEXT, ClaimAnswer("won", 1, 2), overlap="allow")

    before, beside = witness.broken
    assert before.startswith("a backfill went on before its run had ended: job 'sync' to slot 2025")
    assert beside.startswith("run beside another slot of a backfill: job 'sync' slot 20")


def test_a_slot_that_succeeded_and_is_won_again_is_found(witness: Witness) -> None:
    claim(witness, SLOT, ClaimAnswer("won", 1, 1))
    finish(witness, SLOT)
    claim(witness, SLOT, ClaimAnswer("won", 1, 2), token="another")
    advance(witness, SLOT)

    again, put_in = witness.broken[0], witness.broken[1]
    assert again.startswith("won again after it had succeeded: job 'sync' slot 2025-12-31")
    assert put_in.startswith("run again after it had succeeded: job 'sync' slot 2025")


def test_a_slot_that_is_put_in_again_while_it_is_run_is_found(
    witness: Witness, clock: FakeClock
) -> None:
    claim(witness, SLOT, ClaimAnswer("won", 1, 1))
    clock.jump(wall=7, monotonic=7)
    advance(witness, SLOT)
    (found,) = witness.broken
    assert found.startswith("put in again while it was run: job 'sync' slot 2025")


def test_one_that_ends_before_its_run_is_found(witness: Witness) -> None:
    advance(witness, SLOT)
    advance(witness, None, "ended")

    (found,) = witness.broken
    assert found.startswith("a backfill went on before its run had ended: job 'sync' to slot None")


def test_the_attempts_of_a_slot_that_is_run_again_are_told_apart(witness: Witness) -> None:
    claim(witness, SLOT, ClaimAnswer("won", 1, 5))
    say(witness, "finish", [Ending("sync", SLOT, f"{SLOT}", "failed")], [True])
    advance(witness, SLOT)
    claim(witness, SLOT, ClaimAnswer("won", 1, 9), token="another")

    assert [witness.begun_anew("sync", SLOT, fence) for fence in (5, 6, 9)] == [0, 1, 1]
    assert witness.begun_anew("sync", NEXT, 9) == witness.begun_anew("sync", SLOT, None) == 0
    assert witness.broken == []
    assert [run.filled for run in witness.all_runs()] == [False, True]


def test_a_run_of_a_backfill_is_replaced_by_nothing_but_its_cancellation(witness: Witness) -> None:
    advance(witness, SLOT)
    claim(witness, SLOT, ClaimAnswer("done"))
    (found,) = witness.broken
    assert found.startswith("asked for, and closed without an end: job 'sync' slot 2025-12-31")

    advance(witness, NEXT)
    say(witness, "cancel_backfill", "sync", True)
    claim(witness, NEXT, ClaimAnswer("done"))
    assert len(witness.broken) == 1


# Stores and instances that break a promise: the whole chain


class Hasty(MemoryBackend):
    """Tells nobody that a run of a backfill goes on."""

    def asked_for(self) -> list[LeaseState]:
        return [state for state in super().asked_for() if not state.attempt]


class Amnesic(MemoryBackend):
    """Forgets what has succeeded."""

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        return []

    def advance(self, asked: Advance) -> AdvanceAnswer:
        assert self._tables is not None
        found = asked.slot and self._tables.row(asked.job, to_ms(asked.slot))
        if found:
            found.state = "failed"
        return super().advance(asked)


class Idle(MemoryBackend):
    """Goes on with no backfill."""

    def advance(self, asked: Advance) -> AdvanceAnswer:
        return "stale"


class Discreet(MemoryBackend):
    """Tells nobody of backfills."""

    def backfills(self) -> list[BackfillState]:
        return []


class Deaf(MemoryBackend):
    """Tells nobody of the runs of a backfill."""

    def asked_for(self) -> list[LeaseState]:
        return []


def story(lasts: float = 5, overlap: Overlap = "skip", before: str = "11m") -> Any:
    """Return the story of a backfill of two slots, and of two more that have succeeded."""

    def told(cluster: Cluster) -> None:
        def handler(ctx: RunContext) -> None:
            ctx.sleep(lasts)

        cluster.every("sync", "10m", handler, overlap=overlap)
        cluster.advance(before)
        cluster.backfill("sync", START - timedelta(minutes=25), START + timedelta(minutes=11))
        cluster.advance("9m")

    return told


Story = Callable[[Cluster], None]
BESIDE = story(lasts=45, before="1195s")
STORIES = {
    "alone": story(),
    "allow": story(lasts=20, overlap="allow"),
    "beside the schedule": BESIDE,
}


@pytest.mark.parametrize(
    ("store", "rule", "story", "said"),
    [
        (
            Hasty,
            (backfills, "_is_at_work"),
            STORIES["allow"],
            "run beside another slot of a backfill",
        ),
        (Hasty, (backfills, "_is_at_work"), STORIES["alone"], "before its run had ended"),
        (Amnesic, None, STORIES["alone"], "a slot that succeeded was run again"),
        (Amnesic, None, STORIES["alone"], "run again after it had succeeded"),
        (Idle, None, STORIES["alone"], "a backfill did not go on from"),
        (Discreet, None, STORIES["alone"], "a backfill did not go on from"),
        (Deaf, None, STORIES["alone"], "asked for, and not begun"),
        (MemoryBackend, (backfills, "_has_to_wait"), BESIDE, "went before a slot that waits"),
        (MemoryBackend, (claims, "_is_behind_backfill"), BESIDE, "older run to end, and not begun"),
    ],
)
def test_a_store_that_breaks_a_promise_is_found_out(
    store: type[MemoryBackend],
    rule: tuple[Any, str] | None,
    story: Story,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if rule is not None:
        monkeypatch.setattr(*rule, lambda *_arguments: False)
    with Cluster(3, store(), 3, defaults=LEASE) as cluster:
        story(cluster)
        with pytest.raises(AssertionError, match=said):
            cluster.check()


@pytest.mark.parametrize("name", STORIES)
def test_the_same_with_an_honest_store_passes(name: str) -> None:
    with Cluster(3, MemoryBackend(), 3, defaults=LEASE) as cluster:
        STORIES[name](cluster)
        cluster.check()
        filled = [attempt for attempt in cluster.attempts if attempt.trigger == "backfill"]
        assert len(filled) == 2


# What a test of an application does


def test_a_test_can_ask_for_a_backfill_and_wait_for_it() -> None:
    with Cluster(3, "memory://", 1, defaults=LEASE) as cluster:
        cluster.every("sync", "10m", lambda: None)
        cluster.crash(0)
        cluster.advance("1s")
        ended = cluster.backfill("sync", START - timedelta(hours=1)).wait(timeout=60)

        assert ended is not None
        assert (ended.succeeded, ended.failed) == (6, 0)
        filled = [a.slot for a in cluster.attempts if a.trigger == "backfill"]
        assert filled == [START - timedelta(minutes=10 * i) for i in range(6, 0, -1)]
        cluster.check()
