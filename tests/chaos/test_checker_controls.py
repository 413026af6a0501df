"""What is retried, paused, asked for and made to wait is judged by what was promised of it."""

import pytest

from chaos.check_claims import begun_in_an_outage, early, won_again
from chaos.check_controls import (
    at_two_instants,
    begun_in_a_pause,
    controls,
    not_cancelled,
    not_run,
    out_of_order,
    wrong_tries,
)
from chaos.check_holders import beside_a_kept_lease, not_told
from chaos.check_lateness import Lateness
from chaos.check_records import wrong_statuses
from chaos.check_slots import Slots
from chaos.check_takeovers import Takeovers
from chaos.checker import check, check_jobs
from chaos.jobs import WORKS, work_of, works_for
from chaos.kept import Claimed
from chaos.script import Script, ms
from chaos.story import Attempt, Run, Story
from chaos.violation import whats


def by_run(story: Story) -> dict[Run, list[Attempt]]:
    found: dict[Run, list[Attempt]] = {}
    for attempt in story.attempts:
        found.setdefault(attempt.run, []).append(attempt)
    return found


def test_a_store_of_claims_alone_is_given_no_job_that_needs_more() -> None:
    assert works_for(leases=True) == WORKS
    left = works_for(leases=False)
    assert {work.overlap for work in left} == {"skip", "allow"}
    assert not any(work.retries or work.once is not None for work in left)


# Retries


def tried(script: Script, *, last: str = "returned", retries: int = 1) -> None:
    """Let a run fail, and be tried again in the same attempt."""
    script.attempt("retried", 0, 0.1, 0.2, fence=7, how="raised", record=None)
    for retry in range(1, retries + 1):
        m = retry * 2.0
        end = last if retry == retries else "raised"
        script.attempt("retried", 0, m, m + 0.1, fence=7, how=end, record=None, retry=retry)
    status = "success" if last == "returned" else "failed"
    script.attempt("retried", 0, fence=7, record=status)


@pytest.mark.parametrize(("last", "retries"), [("returned", 1), ("returned", 2), ("raised", 2)])
def test_tries_of_an_attempt_are_right(script: Script, last: str, retries: int) -> None:
    tried(script, last=last, retries=retries)
    story = script.story()
    assert whats(wrong_tries(by_run(story).values())) == []
    assert whats(wrong_statuses(story, script.kept)) == []
    assert whats(won_again(story, script.kept)) == []
    assert whats(not_told(story)) == []


def test_a_run_that_is_recorded_as_failed_with_retries_left_is_found(script: Script) -> None:
    tried(script, last="raised", retries=1)
    (found,) = whats(wrong_statuses(script.story(), script.kept))
    assert found == "an attempt is recorded as failed; right is interrupted"


def test_more_tries_than_there_may_be_are_found(script: Script) -> None:
    tried(script, retries=3)
    (found,) = whats(wrong_tries(by_run(script.story()).values()))
    assert found == "a run was tried again more than 2 times"


@pytest.mark.parametrize(
    ("number", "fence", "retry", "how", "said"),
    [
        (1, 7, 1, "returned", "a try after one that did not fail"),
        (1, 7, 0, "raised", "a try that does not follow the one before"),
        (1, 7, 2, "raised", "a try that does not follow the one before"),
    ],
)
def test_a_try_that_does_not_follow_is_found(
    script: Script, number: int, fence: int, retry: int, how: str, said: str
) -> None:
    script.attempt("retried", 0, 0.1, 0.2, fence=7, how=how, record=None)
    script.attempt("retried", 0, 2.1, 2.2, number=number, fence=fence, retry=retry)
    assert whats(wrong_tries(by_run(script.story()).values())) == [said]


def test_a_count_that_a_takeover_has_lost_is_found(script: Script) -> None:
    script.attempt("retried", 0, 0.1, how=None, record="lost", retry=2)
    script.attempt("retried", 0, 9.1, 9.2, life=2, number=2, retry=1)
    found = whats(wrong_tries(by_run(script.story()).values()))
    assert found == ["a try that does not follow the one before"]


def test_a_try_beside_the_one_before_is_found(script: Script) -> None:
    script.attempt("retried", 0, 0.1, 1.0, 5.0, fence=7, how="raised", record=None)
    script.attempt("retried", 0, 2.1, 2.2, fence=7, retry=1)
    assert len(whats(not_told(script.story()))) == 1


def test_a_try_may_begin_while_no_claim_can_be_won(script: Script) -> None:
    script.note("fault", 9.0, kind="lock", since=1.0, until=9.0)
    script.attempt("retried", 0, 0.1, 0.2, fence=7, how="raised", record=None)
    script.attempt("retried", 0, 5.1, 5.2, fence=7, retry=1)
    assert whats(begun_in_an_outage(script.story())) == []


# Pauses


@pytest.mark.parametrize(
    ("begun", "number", "found"),
    [
        (12.1, 1, "a run of a job that was paused"),
        (15.1, 1, "a run of a job that was paused"),
        (16.1, 1, "a slot of a pause was begun after it"),
        (16.1, 2, None),
    ],
)
def test_a_slot_of_a_pause_that_is_begun_is_found(
    script: Script, begun: float, number: int, found: str | None
) -> None:
    script.pause("paused", 10.0, 16.0)
    script.attempt("paused", 12.0, begun, begun + 0.1, number=number)
    assert whats(begun_in_a_pause(script.story())) == ([found] if found else [])


@pytest.mark.parametrize(("begun", "found"), [(10.1, 0), (13.0, 0), (15.0, 1)])
def test_a_takeover_in_a_pause_is_found_unless_it_may_have_been_won_before(
    script: Script, begun: float, found: int
) -> None:
    script.pause("paused", 10.0, 20.0)  # its leases are 4 seconds long
    script.attempt("paused", 5.0, begun, begun + 0.1, number=2)
    assert len(whats(begun_in_a_pause(script.story()))) == found


@pytest.mark.parametrize(("begun", "found"), [(13.0, 0), (15.0, 1), (21.0, 0)])
def test_whose_clock_is_ahead_may_have_won_before_the_pause_and_the_slot(
    script: Script, begun: float, found: int
) -> None:
    script.note("clock", 9.0, number=1, offset=1)
    script.pause("paused", 10.0, 20.0)
    script.attempt("paused", 11.0, begun, begun + 0.1)
    assert len(whats(begun_in_a_pause(script.story()))) == found


def test_of_a_pause_that_may_not_have_been_made_nothing_is_asked(script: Script) -> None:
    script.note("pausing", 10.0, job="paused")
    script.note("resuming", 16.0, job="paused")
    script.note("resumed", 16.0, job="paused")
    script.attempt("paused", 12.0, 12.1, 12.2)
    assert whats(begun_in_a_pause(script.story())) == []


@pytest.mark.parametrize(("until", "found"), [(16.0, 0), (11.0, 1)])
def test_a_slot_is_skipped_for_a_pause_if_there_is_one(until: float, found: int) -> None:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("paused", 30.0, but=12.0)
    script.pause("paused", 10.0, until)
    script.skip("paused", 12.0, 12.1, "paused")
    slots = Slots(script.story(), script.kept, [work_of("paused")])
    assert len([*slots.lost()]) == found


@pytest.mark.parametrize(("paused", "found"), [(True, 0), (False, 1)])
def test_nobody_takes_over_a_run_of_a_job_that_is_paused(paused: bool, found: int) -> None:
    script = Script()
    script.process(1, killed=20.0)
    script.process(2)
    script.attempt("patient", 19.5, 19.6, 19.9, how=None, record=None)
    script.skip("patient", 19.5, 19.7, "taken", life=2)
    if paused:
        script.pause("patient", 19.8, 60.0)
    assert len([*Takeovers(script.story(), script.kept).missing()]) == found


# Slots that wait


def test_a_queued_slot_that_is_begun_before_the_end_of_an_older_run_is_found(
    script: Script,
) -> None:
    script.attempt("queued", 0, 0.1, how=None, record="lost")
    script.attempt("queued", 4, 6.0, 6.5)
    script.attempt("queued", 0, 9.0, 9.5, life=2, number=2)
    story = script.story()
    found = whats(out_of_order(story, by_run(story)))
    assert found == ["a queued slot was begun before the end of an older run"]


def test_a_queued_slot_that_is_begun_after_that_is_right(script: Script) -> None:
    script.attempt("queued", 0, 0.1, how=None, record="lost")
    script.attempt("queued", 0, 9.0, 9.5, life=2, number=2)
    script.skip("queued", 4, 4.1, "overlap")
    script.skip("queued", 8, 8.1, "overlap")
    script.attempt("queued", 8, 9.6, 9.9)
    story = script.story()
    assert whats(out_of_order(story, by_run(story))) == []
    assert [*Lateness(story).late()] == []


@pytest.mark.parametrize(("begun", "found"), [(9.0, 0), (13.0, 1)])
def test_a_slot_that_is_begun_instead_of_a_newer_one_is_found(
    script: Script, begun: float, found: int
) -> None:
    script.attempt("queued", 0, 0.1, 8.5)  # its leases are 4 seconds long
    script.skip("queued", 4, 4.1, "overlap")
    script.skip("queued", 8, 8.1, "overlap")
    script.attempt("queued", 4, begun, begun + 0.1)
    story = script.story()
    assert len(whats(out_of_order(story, by_run(story)))) == found


@pytest.mark.parametrize("job", ["queued", "cancelled"])
def test_a_slot_that_runs_beside_the_one_it_waits_for_is_found(script: Script, job: str) -> None:
    script.attempt(job, 0, 0.1, 3.0, 6.0, 9.0)
    script.attempt(job, 6, 7.0, 8.0, life=2)
    assert len(whats(not_told(script.story()))) == 1


def test_a_slot_that_runs_beside_one_that_was_told_and_goes_on_is_found(script: Script) -> None:
    script.attempt("stubborn", 0, 0.1, 11.0, 13.0, 14.0, told=(11.0, "replaced"))
    script.attempt("stubborn", 10, 12.0, 13.5, life=2)
    (found,) = whats(beside_a_kept_lease(script.story()))
    assert found == "a run beside a handler that was told (replaced) and goes on"


@pytest.mark.parametrize(("told", "found"), [(7.0, 0), (9.5, 1), (None, 1)])
def test_a_run_that_is_not_told_to_make_way_is_found(
    script: Script, told: float | None, found: int
) -> None:
    looks = [0.1, *(second + 0.2 for second in range(12))]
    how = None if told is None else (told, "replaced")
    script.attempt("stubborn", 0, *looks, told=how)
    script.skip("stubborn", 5, 5.1, "overlap", life=2)
    story = script.story()
    assert len(whats(not_cancelled(story, by_run(story)))) == found


def test_one_that_is_frozen_is_told_later(script: Script) -> None:
    script.note("frozen", 5.0, 1)
    script.note("thawed", 9.0, 1)
    script.attempt("stubborn", 0, 0.1, 4.9, 9.1, 9.2, told=(9.2, "replaced"))
    script.skip("stubborn", 5, 5.1, "overlap", life=2)
    story = script.story()
    assert whats(not_cancelled(story, by_run(story))) == []


def test_a_run_that_made_way_is_recorded_as_interrupted(script: Script) -> None:
    told = (2.0, "replaced")
    script.attempt("cancelled", 0, 0.1, 2.0, told=told, how="aborted", record="interrupted")
    assert whats(wrong_statuses(script.story(), script.kept)) == []


@pytest.mark.parametrize(("at", "found"), [(9.0, 0), (40.0, 1)])
def test_a_queued_slot_waits_for_a_takeover(at: float, found: int) -> None:
    script = Script()
    script.process(1, killed=1.0)
    script.process(2, since=-50.0)
    script.attempt("queued", 0, 0.1, 0.9, how=None, record="lost")
    slot = at - at % 4
    script.skip("queued", slot, at, "overlap", life=2)
    slots = Slots(script.story(), script.kept, [work_of("queued")])
    assert len([*slots._judge(work_of("queued"), ms(slot))]) == found


@pytest.mark.parametrize(("attempt", "found"), [(0, 0), (1, 1)])
def test_a_slot_that_came_when_a_newer_one_waited_is_explained(attempt: int, found: int) -> None:
    script = Script()
    script.process(1)
    script.skip("queued", 12.0, 12.1, "taken")
    script.kept.claims["queued", ms(12.0)] = Claimed("", "0-1", attempt, "replaced")
    slots = Slots(script.story(), script.kept, [work_of("queued")])
    assert len([*slots._judge(work_of("queued"), ms(12.0))]) == found


@pytest.mark.parametrize(("job", "found"), [("queued", 0), ("steady", 1)])
def test_who_begins_what_a_wrong_clock_has_put_in_to_wait_does_so_at_once(
    script: Script, job: str, found: int
) -> None:
    script.note("clock", 1.0, number=2, offset=60)
    script.attempt(job, 40, 6.0, 6.1)
    assert len(whats(early(script.story()))) == found


# Runs that were asked for


def asked(script: Script, m: float = 5.0) -> None:
    script.note("asked", m, job="asked", slot=ms(5.0))


def test_a_run_that_was_asked_for_and_never_begun_is_found(script: Script) -> None:
    asked(script)
    story = script.story()
    (found,) = whats(not_run(story, script.kept, by_run(story)))
    assert found == "a run that was asked for was never begun"
    script.note("calm", 4.0)
    story = script.story()
    assert whats(not_run(story, script.kept, by_run(story))) == []


@pytest.mark.parametrize(
    ("begun", "record", "found"),
    [
        (6.5, "success", []),
        (6.5, "failed", []),
        (6.5, "lost", ["a run that was asked for has not ended"]),
        (9.5, "success", ["a run that was asked for was begun after 9.000"]),
    ],
)
def test_a_run_that_was_asked_for_is_begun_soon_and_ends(
    script: Script, begun: float, record: str, found: list[str]
) -> None:
    asked(script)
    script.attempt("asked", 5.0, begun, begun + 0.1, record=record, trigger="manual")
    story = script.story()
    assert whats(not_run(story, script.kept, by_run(story))) == found
    assert [*Lateness(story).late()] == []


def test_a_run_that_was_asked_for_in_a_stall_may_be_late(script: Script) -> None:
    script.note("stall", 8.0, since=5.0, until=8.0)
    asked(script)
    script.attempt("asked", 5.0, 9.5, 9.6, trigger="manual")
    story = script.story()
    assert whats(not_run(story, script.kept, by_run(story))) == []


def test_what_was_asked_for_is_no_matter_of_the_swift_jobs(script: Script) -> None:
    asked(script)
    assert check_jobs(script.story_of_part(), script.kept, []).violations == []


# Jobs that run once


def test_a_job_that_runs_once_and_did_so_at_two_instants_is_found(script: Script) -> None:
    script.attempt("once-3", 7, 7.1, 8.0)
    assert whats(at_two_instants(script.story(), script.kept)) == []
    script.attempt("once-3", 9, 9.1, 10.0, life=2)
    (found,) = whats(at_two_instants(script.story(), script.kept))
    assert found == "a job that runs once did so more often: once-3"


@pytest.mark.parametrize(("ran", "found"), [(True, 0), (False, 1)])
def test_a_job_that_was_to_run_once_and_did_not_is_found(ran: bool, found: int) -> None:
    script = Script()
    script.process(1, until=60.0)
    script.note("calm", 30.0)
    script.note("fixed", 2.0, 1, job="once-3", slot=ms(9))  # what it said itself
    script.note("fixed", 2.1, 1, job="once-3", slot=ms(20))
    if ran:
        script.attempt("once-3", 20, 20.1, 21.0)
    slots = Slots(script.story(), script.kept, [work_of("once-3")])
    assert len([*slots.lost()]) == found


# All of it


def test_the_checker_finds_all_of_that(script: Script) -> None:
    asked(script)
    script.pause("paused", 10.0, 16.0)
    script.attempt("paused", 12.0, 12.1, 12.2)
    found = {
        "a run that was asked for was never begun",
        "a run of a job that was paused",
    }
    assert found <= {*whats(controls(script.story(), script.kept))}
    assert found <= {*whats(check(script.story(), script.kept).violations)}
