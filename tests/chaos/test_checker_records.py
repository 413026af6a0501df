"""The checker of the chaos run: records that do not say what happened, and takeovers."""

import pytest

from chaos.check_records import wrong_statuses
from chaos.check_takeovers import Takeovers, left_behind
from chaos.kept import Claimed, Record
from chaos.script import Script, ms

UNTOLD = None
STOP, TIMEOUT, LOST = (0.2, "stop"), (0.2, "timeout"), (0.2, "lease-lost")


def wrong(script: Script) -> list[str]:
    return [each.what for each in wrong_statuses(script.story(), script.kept)]


@pytest.mark.parametrize(
    ("job", "how", "told", "right"),
    [
        ("quick", "returned", UNTOLD, {"success"}),
        ("quick", "returned", STOP, {"success"}),
        ("quick", "raised", UNTOLD, {"failed"}),
        ("quick", "raised", STOP, {"interrupted"}),
        ("quick", "aborted", STOP, {"interrupted"}),
        ("quick", "aborted", LOST, {"interrupted"}),
        ("quick", None, UNTOLD, set()),
        ("deaf", "returned", UNTOLD, {"success"}),
        ("deaf", "returned", TIMEOUT, {"failed"}),
        ("deaf", None, TIMEOUT, {"failed"}),
        ("quick", "aborted", UNTOLD, set()),
        ("quick", "broken", UNTOLD, set()),
    ],
)
@pytest.mark.parametrize("status", ["success", "failed", "interrupted", "lost", None])
def test_a_record_that_does_not_say_what_happened_is_found(
    script: Script,
    job: str,
    how: str | None,
    told: tuple[float, str] | None,
    right: set[str],
    status: str | None,
) -> None:
    script.attempt(job, 0, 0.1, 0.2, how=how, told=told, record=status)
    assert (wrong(script) == []) == (status in right)


@pytest.mark.parametrize(("status", "found"), [("lost", 0), (None, 0), ("success", 1)])
def test_an_attempt_that_was_killed_is_lost_or_not_recorded(status: str | None, found: int) -> None:
    script = Script()
    script.process(1, killed=0.3)
    script.attempt("quick", 0, 0.1, 0.2, how=None, record=status)
    assert len(wrong(script)) == found


def test_a_lease_may_be_lost_in_an_outage_and_not_else(script: Script) -> None:
    script.note("fault", 9.0, kind="away", since=1.0, until=9.0)
    script.attempt("quick", 0, 0.1, 4.0, record="lost")
    script.attempt("quick", 30, 30.1, 30.2, record="lost")
    assert len(wrong(script)) == 1


@pytest.mark.parametrize(("since", "found"), [(0.0, 0), (3.0, 1)])
def test_a_lease_may_be_lost_on_a_machine_without_time_to_spare_unseen(
    script: Script, since: float, found: int
) -> None:
    script.note("busy", 4.0, since=since, until=4.0)
    script.attempt("quick", 0, 0.1, 4.0, how="raised", record="interrupted")
    assert len(wrong(script)) == found


def test_a_process_that_is_starved_may_run_past_its_timeout_unseen(script: Script) -> None:
    script.note("gap", 1.8, 1, since=0.1, until=1.8)
    script.attempt("deaf", 0, 0.1, 0.2, record="failed")
    assert wrong(script) == []


@pytest.mark.parametrize(("apart", "found"), [(0.6, 0), (2.0, 1)])
def test_a_process_is_starved_by_many_short_gaps_too(
    script: Script, apart: float, found: int
) -> None:
    for place in range(4):
        since = 0.1 + place * apart
        script.note("gap", since + 0.2, 1, since=since, until=since + 0.2)
    script.attempt("quick", 0, 0.1, 0.2, record="lost")
    assert len(wrong(script)) == found


def test_a_record_without_an_attempt_is_of_one_that_was_never_begun(script: Script) -> None:
    script.kept.records.append(Record("quick", ms(0), 1, 5, "0-1", "lost"))
    assert wrong(script) == []
    script.kept.records.append(Record("quick", ms(1), 1, 6, "0-1", "success"))
    assert wrong(script) == ["the end of an attempt that was never begun"]


def test_two_records_of_one_attempt_are_found(script: Script) -> None:
    script.kept.records.append(script.attempt("quick", 0, 0.1, 0.2))
    assert wrong(script) == ["two records of one attempt"]


# Takeovers


def crashed() -> Script:
    script = Script()
    script.process(1, killed=2.0)
    script.process(2)
    script.attempt("patient", 0, 0.1, 1.9, life=1, how=None, record="lost")
    script.skip("patient", 0, 0.2, "taken", life=2)
    return script


def missing(script: Script) -> list[str]:
    return [each.what for each in Takeovers(script.story(), script.kept).missing()]


def test_a_crashed_run_that_is_left_to_itself_is_found() -> None:
    assert "not taken over" in missing(crashed())[0]


def test_a_crashed_run_is_to_be_taken_over_in_time() -> None:
    late, in_time = crashed(), crashed()
    late.attempt("patient", 0, 14.0, 15.0, life=2, number=2)
    in_time.attempt("patient", 0, 8.0, 9.0, life=2, number=2)
    assert "too late" in missing(late)[0]
    assert missing(in_time) == []


def test_a_crashed_run_without_a_backup_or_with_a_newer_slot_is_nobodys_fault() -> None:
    frozen, replaced = crashed(), crashed()
    frozen.note("frozen", 3.0, 2)
    frozen.note("thawed", 9.0, 2)
    replaced.attempt("patient", 5, 5.0, 6.0, life=2)
    assert missing(frozen) == missing(replaced) == []


def test_a_run_that_was_given_back_is_to_be_taken_over_at_once(script: Script) -> None:
    stop = (1.5, "stop")
    script.attempt("patient", 0, 0.1, 1.9, how="aborted", told=stop, record="interrupted")
    script.skip("patient", 0, 0.2, "taken", life=2)
    script.attempt("patient", 0, 8.0, 9.0, life=2, number=2)
    assert "too late" in missing(script)[0]


def test_a_crashed_run_that_the_next_one_has_not_closed_is_found() -> None:
    script = crashed()
    script.attempt("patient", 20, 20.1, 21.0, life=2)
    assert len([*left_behind(script.story(), script.kept)]) == 1
    script.kept.claims["patient", ms(0)] = Claimed("token", "0-1", 1, "replaced", 101)
    assert [*left_behind(script.story(), script.kept)] == []


def test_a_claim_that_a_clean_stop_has_left_is_found(script: Script) -> None:
    script.kept.claims["patient", ms(0)] = Claimed("token", "0-1", 1, "claimed", 5)
    assert "stopped cleanly" in next(left_behind(script.story(), script.kept)).what
