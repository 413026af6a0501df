"""The checker of the chaos run finds what it is there for, and nothing else."""

import pytest

from chaos.check_claims import (
    begun_in_an_outage,
    early,
    in_a_child,
    too_many_lost,
    without_a_claim,
    won_again,
)
from chaos.checker import check
from chaos.plan import plan
from chaos.script import Script, ms
from chaos.violation import whats

# Claims


def test_an_attempt_that_the_store_knows_nothing_of_is_found(script: Script) -> None:
    script.attempt("quick", 0, 0.1, 0.2, claimed=False, record=None)
    script.attempt("quick", 1, 1.1, 1.2)
    assert whats(without_a_claim(script.story(), script.kept)) == [
        "an attempt of a run that nobody has claimed"
    ]


def test_an_attempt_that_is_neither_the_latest_nor_recorded_is_found(script: Script) -> None:
    script.attempt("quick", 0, 0.1, 0.2, life=1, record=None)
    script.attempt("quick", 0, 0.3, 0.4, life=2, number=2)
    assert whats(without_a_claim(script.story(), script.kept)) == [
        "an attempt of which the store knows nothing"
    ]


def test_one_that_was_given_back_and_then_killed_may_be_without_a_record() -> None:
    script = Script()
    script.process(1, killed=0.25)
    script.process(2)
    script.attempt("quick", 0, 0.1, 0.2, life=1, record=None)
    script.attempt("quick", 0, 0.3, 0.4, life=2, number=2)
    assert whats(without_a_claim(script.story(), script.kept)) == []


def test_a_claim_of_another_token_is_found_on_either_kind_of_store(
    script: Script, claims: Script
) -> None:
    for each in (script, claims):
        each.attempt("quick", 0, 0.1, 0.2, fence=7)
        right = each.kept.claims["quick", ms(0)]
        each.attempt("quick", 0, 0.1, 0.2, life=2, fence=7)
        assert each.kept.claims["quick", ms(0)] != right
        assert len(whats(without_a_claim(each.story(), each.kept))) == 1


def test_two_successes_of_a_run_are_found(script: Script) -> None:
    script.attempt("quick", 0, 0.1, 0.2)
    script.attempt("quick", 0, 0.3, 0.4, life=2, number=2)
    found = whats(won_again(script.story(), script.kept))
    assert found == ["a run with two ends", "a run was begun again after its end"]


def test_a_run_that_is_begun_again_after_its_failure_is_found(script: Script) -> None:
    script.attempt("failing", 0, 0.1, 0.2, how="raised", record="failed")
    script.attempt("failing", 0, 0.3, 0.4, life=2, number=2, how=None, record="lost")
    found = whats(won_again(script.story(), script.kept))
    assert found == ["a run was begun again after its end"]


def test_fences_that_fall_and_numbers_that_come_twice_are_found(script: Script) -> None:
    script.attempt("quick", 0, 0.1, how=None, record="lost", fence=9)
    script.attempt("quick", 0, 5.1, 5.2, life=2, number=2, fence=8)
    script.attempt("quick", 7, 7.1, how=None, record="lost", fence=10)
    script.attempt("quick", 7, 9.1, 9.2, life=2, fence=11)
    found = whats(won_again(script.story(), script.kept))
    assert found == [
        "the fences of a run do not rise with its attempts",
        "two attempts have one number",
    ]


def test_a_second_attempt_on_a_store_without_leases_is_found(claims: Script) -> None:
    claims.attempt("quick", 0, 0.1, how=None, record=None)
    claims.attempt("quick", 0, 5.1, 5.2, life=2, number=2)
    assert "no second ones" in whats(won_again(claims.story(), claims.kept))[0]


def test_an_attempt_after_the_last_that_there_may_be_is_found(script: Script) -> None:
    for number in (1, 2, 3):
        script.attempt("long", 0, number * 5.0, number=number, how=None, record="lost")
    assert len(whats(too_many_lost(script.story(), script.kept))) == 1
    script.kept.records.pop()
    assert whats(too_many_lost(script.story(), script.kept)) == []


@pytest.mark.parametrize(("kind", "found"), [("lock", 1), ("away", 1), ("full", 0), ("held", 0)])
def test_a_run_begun_while_no_claim_could_be_won_is_found(
    script: Script, kind: str, found: int
) -> None:
    script.note("fault", 9.0, kind=kind, since=1.0, until=9.0)
    script.attempt("quick", 0, 1.1, 1.2)  # it was won just before
    script.attempt("quick", 5, 5.1, 5.2)
    assert len(whats(begun_in_an_outage(script.story()))) == found


@pytest.mark.parametrize(("fence", "found"), [(101, 0), (102, 1)])
def test_a_fence_tells_whether_a_run_that_begins_late_was_won_before_the_store_was_locked(
    script: Script, fence: int, found: int
) -> None:
    script.note("fault", 9.0, kind="lock", since=1.0, until=9.0, next_fence=102)
    script.attempt("quick", 0, 5.1, 5.2, fence=fence)
    assert len(whats(begun_in_an_outage(script.story()))) == found


def test_one_that_was_won_before_and_then_starved_is_right(script: Script) -> None:
    script.note("fault", 9.0, kind="lock", since=1.0, until=9.0)
    script.note("gap", 4.9, 1, since=0.9, until=4.9)
    script.attempt("quick", 0, 5.1, 5.2)
    assert whats(begun_in_an_outage(script.story())) == []


def test_a_run_in_a_forked_child_is_found(script: Script) -> None:
    script.attempt("forking", 0, 0.1, 0.2, life=1, pid=3)
    assert whats(in_a_child(script.story())) == ["a run in a forked child"]


@pytest.mark.parametrize(("ahead", "found"), [(0.1, 0), (0.5, 1)])
def test_a_run_before_its_time_is_found(script: Script, ahead: float, found: int) -> None:
    script.attempt("quick", 5, 5.0 - ahead, 5.1)
    assert len(whats(early(script.story()))) == found


@pytest.mark.parametrize(
    ("leases", "has_clock", "ahead", "found"),
    [(True, False, 4.0, 0), (True, True, 1.0, 0), (True, True, 1.2, 1), (False, True, 1.2, 1)],
)
def test_a_clock_that_is_ahead_explains_it_but_where_the_store_has_one(
    leases: bool, has_clock: bool, ahead: float, found: int
) -> None:
    script = Script(leases=leases, has_clock=has_clock)
    script.process(1)
    script.note("clock", 1.0, number=1, offset=5)
    script.attempt("quick", 6, 6.0 - ahead, 6.1)
    assert len(whats(early(script.story()))) == found


@pytest.mark.parametrize(("until", "found"), [(2.0, 0), (-80.0, 1)])
def test_who_takes_over_what_a_wrong_clock_has_won_does_so_at_once(
    script: Script, until: float, found: int
) -> None:
    script.note("clock", -90.0, number=2, offset=5)
    script.note("clock", until, number=2, offset=0)
    script.attempt("quick", 5, 3.0, 3.1, life=1, number=2)
    assert len(whats(early(script.story()))) == found


def test_the_clock_of_another_process_explains_nothing(script: Script) -> None:
    script.note("clock", 1.0, number=2, offset=5)
    script.attempt("quick", 5, 3.0, 3.1)
    assert len(whats(early(script.story()))) == 1


# The rest of the promises


def test_processes_that_end_otherwise_than_they_were_told_are_found() -> None:
    script = Script()
    script.process(1)
    script.note("spawned", 0.0, 2, number=2, pid=2)
    script.note("gone", 5.0, 2, code=1)
    script.note("spawned", 0.0, 3, number=3, pid=3)
    script.note("told", 5.0, 3)
    script.note("hung", 50.0, 3)
    script.note("gone", 50.1, 3, code=-6)
    script.note("spawned", 0.0, 4, number=4, pid=4)
    script.note("up", 1.0, 4)
    script.note("told", 5.0, 4)
    script.note("gone", 6.0, 4, code=1)
    script.note("forked", 3.0, 1, code=-11)
    found = set(whats(check(script.story(), script.kept).violations))
    assert {text for text in found if "lost" not in text} == {
        "a process ended by itself",
        "a process did not end when it was told to",
        "a process that was told to end failed",
        "a fork in a handler went wrong",
    }


def test_a_damaged_file_is_found(script: Script) -> None:
    script.kept.integrity = "row 7 missing from index runs_open"
    found = whats(check(script.story(), script.kept).violations)
    assert "the store's file is damaged" in found


def test_what_is_put_into_a_folder_that_is_no_store_is_found(claims: Script) -> None:
    claims.note("trespassed", 5.0, names=["jobs"])
    found = whats(check(claims.story(), claims.kept).violations)
    assert "something was put into a folder that is no store" in found


# The plan


def test_a_seed_makes_one_plan_and_only_of_what_can_be_had() -> None:
    both = [plan(7, 600.0, ("kill", "freeze", "clock")) for _ in range(2)]
    assert both[0] == both[1]
    assert {fault.kind for fault in both[0]} == {"kill", "freeze", "clock"}
    assert plan(8, 600.0, ("kill", "freeze", "clock")) != both[0]
