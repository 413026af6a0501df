"""The checker of the chaos run: two valid holders, and leases that are lost for nothing."""

import pytest

from chaos.check_holders import (
    beside_a_kept_lease,
    not_told,
    told_for_nothing,
    twice_in_one_process,
)
from chaos.script import Script
from chaos.violation import whats


def looks(since: float, until: float) -> list[float]:
    return [since + n / 10 for n in range(round((until - since) * 10) + 1)]


def test_a_holder_that_is_not_told_while_another_one_runs_is_found(script: Script) -> None:
    script.attempt("patient", 0, *looks(0, 8), life=1)
    script.attempt("patient", 0, *looks(6, 9), life=2, number=2)
    assert whats(not_told(script.story())) == [
        "two valid holders: the first was seen at 6.100, and not told"
    ]


def test_the_later_of_two_may_be_the_one_that_was_to_be_told(script: Script) -> None:
    script.attempt("steady", 0, *looks(5, 6), life=1, fence=1)  # it was late to begin
    script.attempt("steady", 1, *looks(4, 5), life=2, fence=2)
    assert len(whats(not_told(script.story()))) == 1


def test_two_slots_of_a_job_whose_runs_may_overlap_are_no_two_holders(script: Script) -> None:
    script.attempt("beside", 0, *looks(0, 20), life=1)
    script.attempt("beside", 15, *looks(15, 22), life=2)
    assert whats(not_told(script.story())) == []


def test_a_holder_that_is_told_before_the_other_one_begins_is_right(script: Script) -> None:
    script.attempt("patient", 0, *looks(0, 8), life=1, told=(5.5, "lease-lost"))
    script.attempt("patient", 0, *looks(6, 9), life=2, number=2)
    assert whats(not_told(script.story())) == []


@pytest.mark.parametrize(("told", "found"), [(9.3, 0), (9.9, 1)])
def test_one_that_was_frozen_is_to_be_told_at_once_when_it_runs(
    script: Script, told: float, found: int
) -> None:
    frozen = [*looks(0, 1), *looks(9, 11)]
    script.note("frozen", 1.05, 1)
    script.note("thawed", 9.0, 1)
    script.note("gap", 9.02, 1, since=1.05, until=9.02)
    script.attempt("patient", 0, *frozen, life=1, told=(told, "lease-lost"))
    script.attempt("patient", 0, *looks(6, 10), life=2, number=2)
    assert len(whats(not_told(script.story()))) == found


@pytest.mark.parametrize(("since", "found"), [(-2.0, 0), (-9.0, 1)])
def test_what_costs_a_lease_may_lie_between_the_claim_and_the_beginning(
    script: Script, since: float, found: int
) -> None:
    script.note("gap", since + 1.0, 1, since=since, until=since + 1.0)
    script.attempt("patient", -3, 0.1, 0.2, told=(0.1, "lease-lost"), how="aborted")
    assert len(whats(told_for_nothing(script.story()))) == found


def test_a_run_beside_a_handler_that_ignores_its_timeout_is_found(script: Script) -> None:
    script.attempt("deaf", 0, *looks(0, 4), life=1, told=(1.5, "timeout"))
    script.attempt("deaf", 3, *looks(3, 4), life=2)
    assert len(whats(beside_a_kept_lease(script.story()))) == 1


@pytest.mark.parametrize("kind", ["lock", "full", "away", "held"])
def test_a_run_beside_one_whose_lease_could_not_be_renewed_is_right(
    script: Script, kind: str
) -> None:
    script.attempt("deaf", 0, *looks(0, 4), life=1, told=(1.5, "timeout"))
    script.attempt("deaf", 3, *looks(3, 4), life=2)
    script.note("fault", 2.5, kind=kind, since=1.0, until=2.5)
    assert whats(beside_a_kept_lease(script.story())) == []


@pytest.mark.parametrize(("trouble", "found"), [("lock", 0), ("clock", 1), ("nothing", 1)])
def test_a_lease_that_is_lost_for_nothing_is_found(
    script: Script, trouble: str, found: int
) -> None:
    script.attempt("patient", 0, *looks(0, 6), told=(5.0, "lease-lost"), how="aborted")
    if trouble == "lock":
        script.note("fault", 4.0, kind="lock", since=1.0, until=4.0)
    if trouble == "clock":
        script.note("clock", 1.0, number=1, offset=3600)
    assert len(whats(told_for_nothing(script.story()))) == found


@pytest.mark.parametrize(
    ("since", "until", "found"), [(11.0, 15.0, 0), (13.0, 15.0, 1), (0.0, 11.0, 1)]
)
def test_one_that_is_lost_on_a_machine_without_time_to_spare_is_explained(
    script: Script, since: float, until: float, found: int
) -> None:
    script.attempt("patient", 0, *looks(0, 16), told=(15.0, "lease-lost"), how="aborted")
    script.note("busy", until, since=since, until=until)
    assert len(whats(told_for_nothing(script.story()))) == found


def test_two_runs_of_one_job_in_one_process_are_found_without_leases(claims: Script) -> None:
    claims.attempt("steady", 0, *looks(0, 2), life=1)
    claims.attempt("steady", 1, *looks(1, 1.5), life=1)
    claims.attempt("steady", 2, *looks(2.1, 2.5), life=1)
    claims.attempt("steady", 2.5, *looks(2.2, 2.5), life=2)
    assert len(whats(twice_in_one_process(claims.story()))) == 1
