"""What every store promises, those without leases too: one winner per slot, and a history."""

from __future__ import annotations

import pytest

from contract.claim_driver import ClaimDriver, is_lost
from contract.driver import a_claim
from leasecron.errors import SchedulerStateError
from leasecron.model import Declaration, Retention, from_seconds

DAY = 86_400.0
LONG = 1e9
ODD_NAMES = [
    "../x",
    "..",
    ".",
    "a/b",
    "a" * 300,
    "é" * 130,
    "e\u0301" * 130,
    "Sync",
    "sync",
    "SYNC",
    "con",
    "a\nb",
    " ",
    "-",
    "🎉",
    "job.json",
    "leasecron.json",
]


# Claims


def test_a_slot_has_one_winner(claiming: ClaimDriver) -> None:
    assert claiming.claim(0, "a").outcome == "won"
    for token in "bcd":
        assert is_lost(claiming.claim(0, token))


def test_claims_of_instances_with_one_name_have_one_winner(claiming: ClaimDriver) -> None:
    assert claiming.claim(0, "a", instance="web").outcome == "won"
    assert is_lost(claiming.claim(0, "b", instance="web"))


def test_the_winner_makes_the_first_attempt(claiming: ClaimDriver) -> None:
    assert claiming.claim(0, "a").attempt == 1


def test_a_loser_is_told_who_has_the_run(claiming: ClaimDriver) -> None:
    claiming.claim(0, "a")
    assert claiming.claim(0, "b").holder == "instance-a"


def test_the_same_token_wins_again(claiming: ClaimDriver) -> None:
    first = claiming.claim(0, "a")
    claiming.claim(0, "b")
    assert claiming.claim(0, "a") == first


def test_slots_and_jobs_are_won_each_by_itself(claiming: ClaimDriver) -> None:
    assert [claiming.wins(slot, "a") for slot in (0, 0.001, 0.002)] == [True] * 3
    assert claiming.wins(0, "b", job="other")
    assert not claiming.wins(0.001, "b")


def test_the_claims_of_a_batch_are_answered_in_their_order(claiming: ClaimDriver) -> None:
    slots, tokens = (0, 0, 1, -1000, 1), "abacb"
    claims = [
        a_claim(slot, token, overlap="allow") for slot, token in zip(slots, tokens, strict=True)
    ]
    answers = claiming.backend.claim(claims)

    assert [answer.outcome for answer in answers][::2] == ["won", "won", answers[4].outcome]
    assert answers[3].outcome == "late"
    assert is_lost(answers[1])
    assert is_lost(answers[4])


def test_no_claims_have_no_answers(claiming: ClaimDriver) -> None:
    assert claiming.backend.claim([]) == []


def test_a_slot_is_late_once_its_time_is_over(claiming: ClaimDriver) -> None:
    claiming.clock.advance(10)
    assert claiming.claim(0, "a", max_late=9.999).outcome == "late"
    assert claiming.claim(0, "a", max_late=10.0).outcome == "won"


def test_a_late_slot_that_was_run_is_not_run_again(claiming: ClaimDriver) -> None:
    claiming.run(0, "a")
    claiming.clock.advance(1000)
    answer = claiming.claim(0, "b")
    assert (answer.outcome, answer.holder) == ("done", "instance-a")


def test_a_slot_that_was_late_for_one_can_be_won_by_another(claiming: ClaimDriver) -> None:
    claiming.clock.advance(10)
    claiming.claim(0, "a", max_late=1.0)
    assert claiming.wins(0, "b")


def test_a_backup_does_not_take_a_run_from_its_winner(claiming: ClaimDriver) -> None:
    claiming.claim(0, "a")
    assert is_lost(claiming.claim(0, "b", mode="takeover"))


def test_odd_names_are_jobs_of_their_own(claiming: ClaimDriver) -> None:
    for name in ODD_NAMES:
        assert claiming.wins(0, "a", job=name), name
    for name in ODD_NAMES:
        assert not claiming.wins(0, "b", job=name), name
    claiming.clock.advance(10)
    for name in ODD_NAMES:
        assert claiming.wins(10, "a", job=name), name


# Jobs and history


def test_a_job_keeps_when_it_was_first_seen(claiming: ClaimDriver) -> None:
    began = from_seconds(claiming.clock.now)
    assert claiming.backend.declare([Declaration("job", "every 10s")]) == [began]
    claiming.clock.advance(60)

    later = from_seconds(claiming.clock.now)
    jobs = [Declaration("new", "daily"), Declaration("job", "every 20s"), Declaration("Job", "")]
    assert claiming.backend.declare(jobs) == [later, began, later]
    assert claiming.backend.declare([]) == []


def test_a_record_comes_back_as_it_was_saved(claiming: ClaimDriver) -> None:
    saved = claiming.run(0, "a", "failed")
    assert claiming.backend.history() == [saved]
    assert claiming.backend.history("job") == [saved]
    assert claiming.backend.history("other") == []


def test_a_record_that_is_saved_twice_is_there_once(claiming: ClaimDriver) -> None:
    saved = claiming.run(0, "a")
    claiming.backend.save_results([saved, saved])
    claiming.backend.save_results([])
    assert claiming.backend.history() == [saved]


def test_history_is_newest_first_limited_and_goes_on_from_a_record(claiming: ClaimDriver) -> None:
    saved = []
    for slot in range(6):
        saved.append(claiming.run(slot, f"t{slot}", job=f"job-{slot % 2}"))
        claiming.clock.advance(1)
    saved.reverse()
    history = claiming.backend.history

    assert history() == saved
    assert history(limit=2) == saved[:2]
    assert history(limit=2, before=saved[1]) == saved[2:4]
    assert history("job-0", before=saved[1]) == saved[3::2]
    assert history(before=saved[5]) == []
    assert history(limit=0) == []
    assert history(limit=-1) == []


# Pruning


def test_what_is_young_stays(claiming: ClaimDriver) -> None:
    saved = claiming.run(0, "a")
    claiming.clock.advance(10)
    claiming.run(10, "b")
    claiming.clock.advance(DAY - 10)
    assert claiming.backend.prune([Retention("job", DAY, 1, 2 * DAY)]) is False

    assert not claiming.wins(0, "c", max_late=LONG)
    assert saved in claiming.backend.history()


def test_a_run_that_was_pruned_is_not_run_again(claiming: ClaimDriver) -> None:
    claiming.run(0, "a")
    claiming.clock.advance(5 * DAY)
    claiming.run(5 * DAY, "b")
    claiming.clock.advance(5 * DAY)
    assert claiming.backend.prune([Retention("job", DAY, 1, DAY)]) is False

    assert claiming.claim(0, "c").outcome in {"done", "late"}


def test_a_run_that_was_pruned_is_not_run_again_by_whoever_allows_for_more(
    claiming: ClaimDriver,
) -> None:
    claiming.run(0, "a")
    claiming.clock.advance(5 * DAY)
    claiming.run(5 * DAY, "b")
    claiming.clock.advance(5 * DAY)
    assert claiming.backend.prune([Retention("job", DAY, 1, DAY)]) is False

    assert claiming.claim(0, "a", max_late=LONG).outcome == "done"
    assert claiming.claim(0, "c", max_late=LONG).outcome == "done"


def test_the_newest_run_of_a_job_is_never_pruned(claiming: ClaimDriver) -> None:
    claiming.run(0, "a")
    claiming.run(1, "a")
    claiming.clock.advance(1000 * DAY)
    claiming.backend.prune([Retention("job", DAY, 1, DAY)])

    assert not claiming.wins(1, "c", max_late=LONG)


def test_a_job_without_a_retention_keeps_all(claiming: ClaimDriver) -> None:
    runs = [claiming.run(slot, "a", job="other") for slot in (0, 1)]
    claiming.clock.advance(1000 * DAY)
    assert claiming.backend.prune([Retention("job", 0.0, 0, 0.0)]) is False

    assert not claiming.wins(0, "b", job="other", max_late=LONG)
    assert sorted(r.slot for r in claiming.backend.history()) == [r.slot for r in runs]


# Opening and closing


def test_a_store_is_open_until_it_is_closed_as_often_as_opened(claiming: ClaimDriver) -> None:
    claiming.backend.open(claiming.clock)
    claiming.backend.close()
    assert claiming.wins(0, "a")

    claiming.backend.close()
    with pytest.raises(SchedulerStateError):
        claiming.claim(1, "a")
    claiming.backend.close()
    claiming.backend.open(claiming.clock)
    assert not claiming.wins(0, "b")


def test_a_suspended_store_goes_on_with_the_next_call(claiming: ClaimDriver) -> None:
    claiming.run(0, "a")
    for _ in range(2):
        claiming.backend.suspend()
        assert not claiming.wins(0, "b")
    claiming.backend.suspend()
    assert len(claiming.backend.history()) == 1


def test_a_store_that_forgot_is_unopened_and_knows_its_runs(claiming: ClaimDriver) -> None:
    claiming.run(0, "a")
    claiming.backend.suspend()
    claiming.backend.forget()
    with pytest.raises(SchedulerStateError):
        claiming.backend.history()

    claiming.backend.open(claiming.clock)
    assert not claiming.wins(0, "b")


def test_checks_are_to_be_had_while_it_is_open_and_change_nothing(claiming: ClaimDriver) -> None:
    claiming.run(0, "a")
    checks = claiming.backend.checks()
    assert checks
    assert {check.verdict for check in checks} == {"good"}
    assert [*claiming.backend.checks()] == [*checks]
    assert not claiming.wins(0, "b")
