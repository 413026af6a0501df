"""The life of a run on a store without leases: claimed for good, run, recorded, or skipped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from claim_memory import ClaimMemory
from runs_support import SEEDS, Fleet, Instance, at

from leasecron import BackendError, ConfigurationError, JobOptions, RunContext, Scheduler
from leasecron.model import Claim, ClaimAnswer


@pytest.fixture
def fleet(seed: int) -> Iterator[Fleet]:
    made = Fleet(seed, ClaimMemory())
    yield made
    made.close()


def skips(instance: Instance) -> list[tuple[float, str, str | None]]:
    return [
        ((skip.slot - at(0)).total_seconds(), skip.reason, skip.holder)
        for skip in instance.of("skip")
    ]


def statuses(fleet: Fleet, job: str = "sync") -> list[tuple[float, str]]:
    """Return slots and ends, oldest first."""
    records = fleet.history(job)[::-1]
    return [((record.slot - at(0)).total_seconds(), record.status) for record in records]


def answering(instance: Instance, *answers: ClaimAnswer) -> None:
    """Let the first claims have these answers."""
    left = [*answers]

    def answer(claims: list[Claim]) -> list[ClaimAnswer] | None:
        return [left.pop(0) for _ in claims] if left else None

    instance.store.scripts["claim"] = answer


@pytest.mark.parametrize("seed", SEEDS)
def test_every_slot_is_run_by_one_instance_and_skipped_as_taken_by_the_others(fleet: Fleet) -> None:
    ran: list[float] = []
    for _ in range(3):
        fleet.instance().every(10, lambda ctx: ran.append((ctx.slot - at(0)).total_seconds()))
    fleet.start()
    fleet.until(101)
    slots = [float(slot) for slot in range(10, 101, 10)]
    assert sorted(ran) == slots
    assert statuses(fleet) == [(slot, "success") for slot in slots]
    winners = {result.slot: result.instance for result in fleet.history()}
    for instance in fleet.instances:
        for skip in instance.of("skip"):
            assert (skip.reason, skip.holder) == ("taken", winners[skip.slot])
    assert sum(len(instance.of("skip")) for instance in fleet.instances) == 2 * len(slots)


def test_nothing_is_renewed_watched_finished_or_given_back(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.instance().every(10, lambda ctx: ctx.sleep(60))
    fleet.start()
    fleet.until(300)
    for instance in fleet.instances:
        asked = {call.operation for call in instance.store.calls}
        assert asked == {"open", "declare", "claim", "save_results", "prune"}
        assert instance.store.of("claim", "takeover") == []


def test_a_run_has_no_fence_and_its_context_says_which_stores_have_one(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda ctx: ctx.fence)
    fleet.start()
    fleet.until(11)
    (failed,) = one.of("failure")
    assert isinstance(failed.exception, ConfigurationError)
    assert "sqlite:///" in str(failed.exception)
    assert one.of("start")[0].fence is None
    assert (failed.result.fence, failed.result.attempt) == (None, 1)


def test_the_slot_that_was_missed_is_caught_up_by_one_instance(fleet: Fleet) -> None:
    triggers: list[str] = []
    for _ in range(3):
        fleet.instance().every(3600, lambda ctx: triggers.append(ctx.trigger), catch_up="1h")
    fleet.start()
    fleet.until(60)
    assert triggers == ["catch-up"]
    assert statuses(fleet) == [(0.0, "success")]


def test_without_a_given_catch_up_a_new_job_catches_nothing_up(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(3600, lambda: None)
    fleet.start()
    fleet.until(60)
    assert one.told == []


def test_a_declaration_that_fails_for_good_leaves_the_job_armed(fleet: Fleet) -> None:
    one = fleet.instance()
    one.store.break_("declare")
    one.every(10, lambda: None)
    fleet.start()
    fleet.until(11)
    assert one.told == ["error", "start", "success"]


def test_a_busy_instance_skips_its_slots_as_overlap_and_leaves_them_to_others(fleet: Fleet) -> None:
    one, two = fleet.instance("one"), fleet.instance("two")
    one.every(10, lambda: fleet.nap(25))
    fleet.start()
    fleet.until(11)
    two.every(10, lambda: None)
    two.start()
    fleet.until(41)
    assert skips(one) == [
        (20.0, "overlap", "one"),
        (30.0, "overlap", "one"),
        (40.0, "taken", "two"),
    ]
    assert statuses(fleet) == [
        (20.0, "success"),
        (30.0, "success"),
        (10.0, "success"),
        (40.0, "success"),
    ]


def test_overlapping_runs_that_are_allowed_all_run(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: fleet.nap(25), overlap="allow")
    fleet.start()
    fleet.until(31)
    assert len(one.of("start")) == 3
    assert skips(one) == []


def test_all_slots_behind_a_claim_that_is_won_are_skipped_at_once(fleet: Fleet) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: fleet.nap(60))
    fleet.start()
    one.store.cut("claim")
    fleet.until(35)
    one.store.heal()
    fleet.until(37)
    assert skips(one) == [(20.0, "overlap", "one"), (30.0, "overlap", "one")]


@pytest.mark.parametrize("answer", [ClaimAnswer("done"), ClaimAnswer("late"), None])
def test_a_claim_that_is_answered_after_a_stop_is_nobodys_business(
    fleet: Fleet, answer: ClaimAnswer | None
) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: None)
    fleet.start()

    def stop() -> None:
        one.scheduler.stop()

    def stopping(_claims: list[Any]) -> list[ClaimAnswer]:
        fleet.clock.start_thread(stop, "stop")
        fleet.nap(1)
        if answer is None:
            raise BackendError("the disk is broken")
        return [answer]

    one.store.scripts["claim"] = stopping
    fleet.until(15)
    assert not one.running()
    assert one.told == []


@pytest.mark.parametrize(("first", "ran"), [("won", 10.0), ("done", 20.0)])
def test_a_slot_waits_for_the_answer_to_the_claim_before_it(
    fleet: Fleet, first: str, ran: float
) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: fleet.nap(60))
    fleet.start()
    one.store.cut("claim")
    fleet.until(25)
    assert one.of("start") == []
    one.store.heal()
    if first == "done":
        answering(one, ClaimAnswer("done", holder="other"))
    fleet.until(27)
    assert [(start.slot - at(0)).total_seconds() for start in one.of("start")] == [ran]
    left = [(20.0, "overlap", "one")] if first == "won" else [(10.0, "taken", "other")]
    assert skips(one) == left


def test_a_run_that_ignores_its_timeout_still_overlaps_until_its_thread_is_back(
    fleet: Fleet,
) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: fleet.nap(25), timeout=5)
    fleet.start()
    fleet.until(41)
    assert [(start.slot - at(0)).total_seconds() for start in one.of("start")] == [10.0, 40.0]
    assert skips(one) == [(20.0, "overlap", "one"), (30.0, "overlap", "one")]
    assert statuses(fleet) == [(10.0, "failed")]
    assert isinstance(one.of("failure")[0].exception, TimeoutError)


def test_a_stopped_run_is_recorded_as_interrupted_and_never_run_again(fleet: Fleet) -> None:
    one, two = fleet.instance("one"), fleet.instance("two")
    one.every(10, lambda ctx: ctx.sleep(60))
    fleet.start()
    fleet.until(11)
    two.every(10, lambda: None, catch_up="1m")
    two.start()
    assert one.scheduler.stop()
    fleet.until(19)
    assert [event.reason for event in one.of("interrupted")] == ["stop"]
    assert statuses(fleet) == [(10.0, "interrupted")]
    assert skips(two) == [(10.0, "taken", "one")]


@pytest.mark.parametrize("how", ["stop", "remove"])
def test_a_claim_that_is_won_too_late_to_run_is_recorded_and_told_of(
    fleet: Fleet, how: str
) -> None:
    one = fleet.instance("one")
    called: list[RunContext] = []
    one.every(10, called.append)
    fleet.start()

    def stop() -> None:
        one.scheduler.stop()

    def end_before_the_answer(_claims: list[Any]) -> None:
        if how == "remove":
            one.scheduler.remove("sync")
        else:
            fleet.clock.start_thread(stop, "stop")
            fleet.nap(1)

    one.store.scripts["claim"] = end_before_the_answer
    fleet.until(15)
    assert called == []
    (told,) = one.of("interrupted")
    assert (told.reason, told.result.status) == ("stop", "interrupted")
    assert "has not been started" in str(told.result.error)
    assert statuses(fleet) == [(10.0, "interrupted")]
    assert one.running() == (how == "remove")


def test_a_won_run_without_a_thread_is_a_failure(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    fleet.start()

    def no_thread(_self: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("leasecron.workers.Workers.reserve", no_thread)
        fleet.until(11)
    assert one.told == ["failure"]
    assert statuses(fleet) == [(10.0, "failed")]
    assert "can't start new thread" in str(fleet.history()[0].error)
    fleet.until(21)
    assert one.told == ["failure", "start", "success"]  # its place was given back too


def test_early_is_asked_again_and_said_once(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    answering(one, ClaimAnswer("early", wait=3.0), ClaimAnswer("early", wait=2.0))
    fleet.start()
    with caplog.at_level(logging.WARNING):
        fleet.until(16)
    assert [call.at for call in one.store.of("claim")] == [10.0, 13.0, 15.0]
    assert one.told == ["start", "success"]
    assert caplog.text.count("clock is 3.0 s ahead") == 1
    assert caplog.text.count("ahead") == 1


def test_late_is_a_skip(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    answering(one, ClaimAnswer("late"))
    fleet.start()
    fleet.until(11)
    assert skips(one) == [(10.0, "late", None)]


def test_a_claim_that_fails_is_an_error_and_never_a_run(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    fleet.start()
    one.store.break_("claim")
    fleet.until(15)
    assert one.told == ["error"]
    assert isinstance(one.of("error")[0].exception, BackendError)
    one.store.heal()
    fleet.until(21)
    assert one.told == ["error", "start", "success"]


def test_a_store_that_is_away_is_asked_again_while_the_slot_is_not_late(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(60, lambda: None, max_late=20)
    fleet.start()
    one.store.cut("claim")
    fleet.until(75)
    one.store.heal()
    fleet.until(77)
    assert statuses(fleet) == [(60.0, "success")]
    one.store.cut("claim")
    fleet.until(145)
    one.store.heal()
    fleet.until(150)
    assert statuses(fleet) == [(60.0, "success")]
    assert one.told[-1] == "error"


def test_an_answer_that_was_lost_is_a_win_all_the_same(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    fleet.start()
    one.store.deaf.add("claim")
    fleet.until(12)
    assert one.of("start") == []
    one.store.heal()
    fleet.until(15)
    assert statuses(fleet) == [(10.0, "success")]


def test_a_record_is_written_when_the_store_is_back(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(60, lambda: None)
    fleet.start()
    one.store.cut("save_results")
    fleet.until(100)
    assert one.told == ["start", "error"]
    one.store.heal()
    fleet.until(105)
    assert one.told == ["start", "error", "success"]
    assert statuses(fleet) == [(60.0, "success")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, []),
        ({"lease": 10}, ["job 'sync': lease means nothing"]),
        ({"heartbeat": 2}, ["job 'sync': heartbeat means nothing"]),
        ({"max_attempts": 5}, ["job 'sync': max_attempts means nothing"]),
        ({"overlap": "skip"}, ["job 'sync': overlap='skip' holds within each instance only"]),
        ({"overlap": "allow"}, []),
        ({"timeout": 5, "max_late": 60, "catch_up": 0, "jitter": 0, "keep": 5}, []),
        ({"lease": 10, "overlap": "skip"}, ["job 'sync': lease", "job 'sync': overlap='skip'"]),
    ],
)
def test_an_option_that_means_nothing_is_one_warning_at_declaration(
    options: dict[str, Any], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(ClaimMemory())
    scheduler.every("sync", 1, lambda: None, **options)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == len(said)
    for warning, begin in zip(warnings, said, strict=True):
        assert warning.startswith(begin)


def test_a_default_that_means_nothing_is_said_once_for_all_jobs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = Scheduler(ClaimMemory(), defaults=JobOptions(lease=10, timeout=60))
    for number in range(3):
        scheduler.every(f"job {number}", 1, lambda: None)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warning.startswith("defaults: lease means nothing")


def test_a_backend_that_lacks_a_part_is_refused_by_name() -> None:
    class Half:
        kind = "claim-only"

        def open(self, clock: object = None) -> None: ...

        def close(self) -> None: ...

    with pytest.raises(ConfigurationError, match="no claim-only store: it has no claim, save_"):
        Scheduler(Half())


def test_many_slots_that_waited_for_an_answer_are_decided_one_after_another(fleet: Fleet) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: fleet.nap(15), max_late="1h")
    fleet.start()
    one.store.cut("claim")
    fleet.until(58)
    one.store.heal()
    answering(one, *[ClaimAnswer("done", holder="other")] * 3)
    fleet.until(61)
    assert skips(one) == [
        (10.0, "taken", "other"),
        (20.0, "taken", "other"),
        (30.0, "taken", "other"),
        (50.0, "overlap", "one"),
        (60.0, "overlap", "one"),
    ]
    assert [(start.slot - at(0)).total_seconds() for start in one.of("start")] == [40.0]


def test_a_run_whose_record_is_not_written_yet_overlaps_nothing(fleet: Fleet) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: None)
    fleet.start()
    one.store.cut("save_results")
    fleet.until(25)
    assert [(start.slot - at(0)).total_seconds() for start in one.of("start")] == [10.0, 20.0]
    one.store.heal()
    fleet.until(29)
    assert statuses(fleet) == [(10.0, "success"), (20.0, "success")]


def test_the_end_of_an_outage_is_a_line_in_the_log(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    fleet.start()
    one.store.cut("claim")
    fleet.until(12)
    one.store.heal()
    fleet.until(19)
    assert "answers again" not in caplog.text  # it was away for two seconds
    one.store.cut("claim")
    fleet.until(50)
    one.store.heal()
    fleet.until(59)
    assert caplog.text.count("answers again, after 31 s") == 1


def places(instance: Instance) -> int:
    """Return how many runs an instance could take on now."""
    engine = instance.scheduler._lifecycle.engine
    assert engine is not None
    return engine.runner._room._free


def test_thousands_of_slots_that_waited_are_decided_in_their_order_and_no_place_is_lost(
    fleet: Fleet,
) -> None:
    one = fleet.instance("one", places=2)
    one.every(2000, lambda: fleet.nap(1500), name="long", catch_up=0)
    one.every(2000, lambda: fleet.nap(1500), name="long too", catch_up=0)
    one.every(1, lambda: fleet.nap(1500), name="sync", max_late="1h", catch_up=0)
    fleet.start()
    fleet.until(4700)
    started = [start for start in one.of("start") if start.job == "sync"]
    skipped = [skip for skip in one.of("skip") if skip.job == "sync"]
    assert len(started) + len(skipped) >= 2000
    assert [skip.slot for skip in skipped] == sorted(skip.slot for skip in skipped)
    one.scheduler.remove("sync")
    fleet.until(7900)
    assert places(one) == 2


def test_every_way_out_of_a_claim_gives_its_place_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fleet.instance("one", places=2)
    one.every(10, lambda: None, max_late="1m")
    fleet.start()
    fleet.until(11)
    assert places(one) == 2
    for answer in (
        ClaimAnswer("done", holder="other"),
        ClaimAnswer("late"),
        ClaimAnswer("early", wait=0.5),
    ):
        answering(one, answer)
        fleet.until((fleet.clock.now() - at(0)).total_seconds() + 10)
        assert places(one) == 2
    one.store.break_("claim")
    fleet.until(51)
    assert places(one) == 2
    one.store.heal()

    def no_thread(_self: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("leasecron.workers.Workers.reserve", no_thread)
        fleet.until(61)
    assert places(one) == 2
    one.store.cut("claim")
    fleet.until(91)  # claims wait behind the first
    assert places(one) == 1
    one.store.heal()
    fleet.until(99)
    assert places(one) == 2
    assert one.of("start")


def test_a_run_that_is_asked_for_twice_takes_one_place(fleet: Fleet) -> None:
    one = fleet.instance("one", places=3)
    one.every(3600, lambda: fleet.nap(5), catch_up=0)
    fleet.start()
    one.store.cut("claim")
    engine = one.scheduler._lifecycle.engine
    assert engine is not None
    for _ in range(2):
        engine.timers.post(engine.runner.run, one.scheduler.declared("sync"), at(0), "catch-up")
    fleet.clock.settle()
    assert places(one) == 2
    one.store.heal()
    fleet.until(8)
    assert places(one) == 2
    fleet.until(60)
    assert places(one) == 3
    assert one.told == ["error", "start", "success"]


def test_a_clock_set_back_while_a_slot_waits_for_room_costs_no_place(fleet: Fleet) -> None:
    one = fleet.instance("one", places=1)
    one.every(3600, lambda: fleet.nap(30), name="long", catch_up="1h")
    one.every(20, lambda: None, catch_up=0)
    fleet.start()
    fleet.until(21)
    fleet.clock.jump(wall=-15)
    fleet.until(19.8)  # the long run has ended, and the slot's time has not come again
    assert places(one) == 1
    assert len(one.of("start")) == 1
    fleet.until(25)
    assert [start.job for start in one.of("start")] == ["long", "sync"]


def test_claims_that_were_dropped_at_a_stop_leave_their_places(fleet: Fleet) -> None:
    one = fleet.instance("one", places=3)
    one.every(10, lambda: None, max_late="1h")
    one.every(10.5, lambda: None, name="other", max_late="1h")
    one.every(3600, lambda: fleet.nap(300), name="deaf", catch_up="1h")  # keeps stop() waiting
    fleet.start()
    fleet.until(9)
    one.store.cut("claim")
    fleet.until(10.5)  # the second claim has not been made: the store thread waits a little
    assert places(one) == 0
    assert not one.scheduler.stop(timeout=60)
    one.store.heal()
    one.start()
    assert one.running()
    assert places(one) == 2


def test_a_claim_whose_answer_was_lost_is_found_out_at_a_stop(fleet: Fleet) -> None:
    one = fleet.instance("one")
    one.every(10, lambda: None)
    fleet.start()
    one.store.deaf.add("claim")
    fleet.until(12)
    one.store.heal()
    assert one.scheduler.stop(timeout=60)
    assert [event.reason for event in one.of("interrupted")] == ["stop"]
    assert statuses(fleet) == [(10.0, "interrupted")]


def test_a_stop_after_an_outage_leaves_a_free_slot_to_the_others(fleet: Fleet) -> None:
    one, two = fleet.instance("one"), fleet.instance("two")
    one.every(3600, lambda: None, catch_up="1h")
    one.store.cut("claim")
    one.start()
    fleet.until(12)
    one.store.heal()
    assert one.scheduler.stop(timeout=60)
    assert one.of("interrupted") == []
    two.every(3600, lambda: None, catch_up="1h")
    two.start()
    fleet.until(20)
    assert two.told == ["start", "success"]
    assert statuses(fleet) == [(0.0, "success")]
