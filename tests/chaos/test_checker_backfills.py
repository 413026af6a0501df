"""What is backfilled is judged by what was promised of it."""

import pytest

from chaos.check_backfills import backfills, left_alone, run_after_success
from chaos.check_claims import too_many_lost, without_a_claim, won_again
from chaos.check_controls import controls
from chaos.check_lateness import Lateness
from chaos.check_slots import Slots
from chaos.check_takeovers import left_behind
from chaos.checker import check
from chaos.jobs import FILLED, work_of
from chaos.kept import Claimed
from chaos.script import Script, ms
from chaos.violation import whats


def run(script: Script, m: float, *, how: str = "returned", record: str = "success") -> None:
    """Let a backfill run the slot 0."""
    script.attempt(FILLED, 0, m, m + 0.1, how=how, record=record, trigger="backfill")


def looked(script: Script, m: float, succeeded: int, failed: int, *, ended: bool = False) -> None:
    """Let people look at a backfill of the slots 0 and 6."""
    counts = {"total": 2, "succeeded": succeeded, "failed": failed, "ended": ended}
    script.note("backfill", m, job=FILLED, asked=7, start=ms(0), end=ms(12), **counts)


def seen_through(script: Script) -> None:
    """Let both slots be run, the older one again since it had failed."""
    script.attempt(FILLED, 0, 0.1, 0.2, how="raised", record="failed")
    looked(script, 19.0, 0, 0)
    run(script, 20.0)
    script.attempt(FILLED, 6, 21.0, 21.1, trigger="backfill")
    looked(script, 22.0, 2, 0, ended=True)


def test_a_slot_that_is_run_again_is_another_run(script: Script) -> None:
    seen_through(script)
    story = script.story()
    for found in (
        won_again(story, script.kept),
        without_a_claim(story, script.kept),
        too_many_lost(story, script.kept),
        controls(story, script.kept),
        backfills(story, script.kept),
        Lateness(story).late(),
    ):
        assert whats(found) == []


def test_of_any_other_job_it_is_not(script: Script) -> None:
    script.attempt("quick", 0, 0.1, 0.2, how="raised", record="failed")
    script.attempt("quick", 0, 20.0, 20.1, trigger="backfill")
    assert whats(won_again(script.story(), script.kept)) == [
        "a run with two ends",
        "two attempts have one number",
    ]


def test_a_slot_that_is_run_again_after_its_success_is_found(script: Script) -> None:
    run(script, 20.0)
    run(script, 30.0)
    found = whats(run_after_success(script.story(), script.kept))
    assert found == ["a slot that succeeded was run again"]


def test_within_a_run_that_is_made_again_everything_is_as_ever(script: Script) -> None:
    seen_through(script)
    script.attempt(FILLED, 0, 30.0, 30.1, number=2, trigger="takeover")
    assert whats(won_again(script.story(), script.kept)) == [
        "a run with two ends",
        "a run was begun again after its end",
    ]


def test_lost_attempts_are_counted_by_run(script: Script) -> None:
    for m in (1.0, 31.0):
        for number in (1, 2, 3):
            at = m + number
            script.attempt(FILLED, 0, at, how=None, record="lost", number=number)
    assert whats(too_many_lost(script.story(), script.kept)) == []
    script.attempt(FILLED, 0, 36.0, how=None, record="lost", number=4)
    assert len(whats(too_many_lost(script.story(), script.kept))) == 1


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([(0, 0), (1, 0), (1, 1)], None),
        ([(0, 1), (1, 0)], "a backfill went back"),
        ([(1, 0), (0, 1)], "a backfill went back"),
        ([(2, 1)], "a backfill has counted more than its slots"),
    ],
)
def test_counts_that_cannot_be_are_found(
    script: Script, counts: list[tuple[int, int]], found: str | None
) -> None:
    for m, (succeeded, failed) in enumerate(counts):
        looked(script, m, succeeded, failed)
    assert whats(backfills(script.story(), script.kept)) == ([found] if found else [])


def test_a_backfill_that_goes_on_after_its_end_is_found(script: Script) -> None:
    seen_through(script)
    looked(script, 23.0, 2, 0)
    assert whats(backfills(script.story(), script.kept)) == ["a backfill went back"]


@pytest.mark.parametrize(("cancelled", "found"), [(True, 0), (False, 1)])
def test_a_backfill_that_ends_without_a_slot_is_found_unless_it_was_cancelled(
    script: Script, *, cancelled: bool, found: int
) -> None:
    run(script, 20.0)
    if cancelled:
        script.note("cancelling", 21.0, job=FILLED, asked=7)
    looked(script, 22.0, 1, 0, ended=True)
    assert len(whats(backfills(script.story(), script.kept))) == found


@pytest.mark.parametrize(("state", "found"), [("abandoned", 0), ("released", 1)])
def test_a_slot_that_has_not_ended_with_its_backfill_is_found(
    script: Script, state: str, found: int
) -> None:
    seen_through(script)
    script.kept.claims[FILLED, ms(6)] = Claimed("", "people-0", 0, state, 9)
    assert len(whats(backfills(script.story(), script.kept))) == found


@pytest.mark.parametrize(
    ("ended", "busy", "found"), [(False, False, 1), (False, True, 0), (True, False, 0)]
)
def test_a_backfill_that_does_not_end_in_the_calm_is_found(
    script: Script, *, ended: bool, busy: bool, found: int
) -> None:
    script.note("calm", 100.0)
    if busy:
        script.note("busy", 120.0, since=100.0, until=120.0)
    looked(script, 119.0, 1, 0, ended=ended)
    script.note("filled", 120.0, job=FILLED)
    assert len(whats(left_alone(script.story()))) == found


def test_a_slot_that_waits_to_be_run_again_is_nobody_s_claim(script: Script) -> None:
    first = script.attempt(FILLED, 0, 0.1, 0.2, how="raised", record="failed")
    script.kept.claims[FILLED, ms(0)] = Claimed("", "people-0", 0, "replaced", first.fence)
    script.skip(FILLED, 6, 6.1, "overlap")
    story = script.story()
    assert whats(without_a_claim(story, script.kept)) == []
    assert whats(left_behind(story, script.kept)) == []
    slots = Slots(story, script.kept, [work_of(FILLED)])
    assert len([*slots._judge(work_of(FILLED), ms(6))]) == 1  # nothing stood in its way


def test_a_slot_that_came_when_a_newer_one_waited_is_explained(script: Script) -> None:
    script.skip(FILLED, 12.0, 12.1, "taken")
    script.kept.claims[FILLED, ms(12.0)] = Claimed("", "0-1", 0, "replaced")
    slots = Slots(script.story(), script.kept, [work_of(FILLED)])
    assert [*slots._judge(work_of(FILLED), ms(12.0))] == []


def test_the_checker_finds_all_of_that(script: Script) -> None:
    run(script, 20.0)
    run(script, 30.0)
    looked(script, 31.0, 2, 1)
    found = {"a slot that succeeded was run again", "a backfill has counted more than its slots"}
    assert found <= {*whats(check(script.story(), script.kept).violations)}
