from datetime import UTC, datetime, timedelta

import pytest

from leasecron.cli.demo_check import Kill, judge
from leasecron.model import RunResult, Status

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SLOTS = [NOON + timedelta(seconds=2 * i) for i in range(3)]
EXPORT = ("export", NOON)
KILL = Kill("B", EXPORT, 100.0)
EXPECTED = {"tick": SLOTS, "export": [NOON]}


def result(
    job: str, slot: datetime, instance: str, status: Status = "success", attempt: int = 1
) -> RunResult:
    return RunResult(
        job=job,
        slot=slot,
        attempt=attempt,
        fence=1,
        instance=instance,
        trigger="scheduled",
        status=status,
        started_at=slot,
        ended_at=slot,
        duration=0.0,
    )


TICKS = [result("tick", slot, name) for slot, name in zip(SLOTS, "ABA", strict=True)]
TAKEN_OVER = [
    result("export", NOON, "B", "lost"),
    result("export", NOON, "C", attempt=2),
]


def problems(*history: RunResult, calls: dict[tuple[str, datetime], int] | None = None) -> str:
    counted: dict[tuple[str, datetime], int] = {}
    for record in history:
        run = (record.job, record.slot)
        counted[run] = counted.get(run, 0) + 1
    counted.update(calls or {})
    return "\n".join(judge(history, counted, EXPECTED, KILL).problems)


def test_each_slot_once_and_the_killed_run_finished_elsewhere_is_right() -> None:
    assert problems(*TICKS, *TAKEN_OVER) == ""


def test_the_closing_table_counts_slots_runs_and_lost_attempts() -> None:
    history = [*TICKS, *TAKEN_OVER]
    calls = {("tick", slot): 1 for slot in SLOTS} | {EXPORT: 2}
    tick, export = judge(history, calls, EXPECTED, KILL).rows
    assert (tick.job, tick.slots, tick.once, tick.by) == ("tick", 3, 3, {"A": 2, "B": 1})
    assert tick.lost_attempts == 0
    assert (export.slots, export.once, export.by) == (1, 1, {"C": 1})
    assert export.lost_attempts == 1


def test_a_slot_that_nobody_ran_is_wrong() -> None:
    assert "did not run to its end (no attempt at all)" in problems(*TICKS[1:], *TAKEN_OVER)


def test_a_slot_that_was_lost_and_replaced_is_wrong() -> None:
    lost = result("tick", SLOTS[1], "B", "lost")
    told = problems(TICKS[0], lost, TICKS[2], *TAKEN_OVER)
    assert "did not run to its end (attempt 1 by B: lost)" in told


def test_a_slot_that_ran_twice_is_wrong() -> None:
    twice = result("tick", SLOTS[0], "C", attempt=2)
    told = problems(*TICKS, twice, *TAKEN_OVER)
    assert "ran 2 times (attempt 1 by A: success, attempt 2 by C: success)" in told


def test_a_handler_that_was_called_beside_its_attempts_is_wrong() -> None:
    told = problems(*TICKS, *TAKEN_OVER, calls={("tick", SLOTS[0]): 2})
    assert "1 attempts in the store, and 2 calls" in told


@pytest.mark.parametrize("status", ["lost", "failed", "interrupted"])
def test_an_attempt_that_ended_badly_without_a_kill_is_wrong(status: Status) -> None:
    again = result("tick", SLOTS[0], "C", attempt=2)
    bad = result("tick", SLOTS[0], "A", status)
    assert "ended badly without a kill" in problems(bad, again, *TICKS[1:], *TAKEN_OVER)


def test_another_run_that_the_kill_cut_short_is_right_once_it_is_finished() -> None:
    cut = [result("tick", SLOTS[0], "B", "lost"), result("tick", SLOTS[0], "C", attempt=2)]
    assert problems(*cut, *TICKS[1:], *TAKEN_OVER) == ""


@pytest.mark.parametrize(
    "attempts",
    [
        [],
        [result("export", NOON, "B", "lost")],
        [result("export", NOON, "B")],
        [result("export", NOON, "C")],
        [result("export", NOON, "B", "lost"), result("export", NOON, "B", attempt=2)],
    ],
)
def test_a_killed_run_that_no_other_instance_finished_is_wrong(attempts: list[RunResult]) -> None:
    assert "whose holder B was killed" in problems(*TICKS, *attempts)


def test_a_job_without_a_slot_shows_nothing_and_is_wrong() -> None:
    verdict = judge(TAKEN_OVER, {EXPORT: 2}, {"tick": [], "export": [NOON]}, KILL)
    assert verdict.problems == ("tick had no slot, so nothing was shown",)
