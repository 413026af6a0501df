"""What is logged of a run, at which level, and how often."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from runs_support import Fleet, at

from leasecron import BackendError, BackendUnavailable, RunContext, StoreFailed
from leasecron.logs import MOST_FAULTS, REPEAT_AFTER, EventLog
from leasecron.model import Claim, ClaimAnswer
from leasecron.testing import FakeClock


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "leasecron")
    return caplog


def lines(log: pytest.LogCaptureFixture, word: str) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage())
        for record in log.records
        if record.name == "leasecron" and word in record.getMessage()
    ]


def test_a_run_that_succeeds_is_two_lines(fleet: Fleet, log: pytest.LogCaptureFixture) -> None:
    one = fleet.instance()
    one.every(10, lambda: fleet.nap(1.5))
    fleet.start()
    fleet.until(12)
    slot = "job=sync slot=2026-01-01T00:00:10+00:00 attempt=1"
    assert lines(log, "run ") == [
        ("INFO", f"run started {slot} trigger=scheduled late=0.000s"),
        ("INFO", f"run succeeded {slot} duration=1.500s"),
    ]


def test_a_run_that_a_dead_instance_left_is_told_of_once(
    fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    dead = fleet.instance("dead")
    for instance in (dead, fleet.instance(), fleet.instance()):
        instance.every(600, lambda: fleet.nap(100))
    dead.start()
    fleet.until(610)
    dead.store.cut()
    fleet.start()
    fleet.until(700)
    slot = "job=sync slot=2026-01-01T00:10:00+00:00"
    assert lines(log, "run lost") == [
        ("WARNING", f"run lost {slot} attempt=1 instance=dead: its lease ran out")
    ]
    assert len(lines(log, f"run started {slot} attempt=2 trigger=takeover")) == 1


def test_a_run_that_fails_is_an_error_line(fleet: Fleet, log: pytest.LogCaptureFixture) -> None:
    def handler() -> None:
        raise ValueError("no")

    one = fleet.instance()
    one.every(10, handler)
    fleet.start()
    fleet.until(12)
    assert lines(log, "run failed") == [
        (
            "ERROR",
            "run failed job=sync slot=2026-01-01T00:00:10+00:00 attempt=1 error=ValueError: no",
        )
    ]


def test_an_interruption_by_stop_is_info_and_any_other_a_warning(
    fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    one = fleet.instance()
    one.every(600, lambda ctx: ctx.sleep(100))
    fleet.start()
    fleet.until(601)
    one.store.break_("heartbeat")
    fleet.until(608)
    one.store.heal()
    fleet.until(615)
    one.scheduler.stop()
    slot = "job=sync slot=2026-01-01T00:10:00+00:00"
    assert lines(log, "interrupted") == [
        ("WARNING", f"run interrupted {slot} attempt=1 reason=lease-lost"),
        ("INFO", f"run interrupted {slot} attempt=2 reason=stop"),
    ]


def test_a_slot_taken_by_another_is_debug_and_any_other_skip_a_warning(
    fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    answers = [
        ClaimAnswer("running", holder="other"),
        ClaimAnswer("overlap", holder="other", other=at(10)),
        ClaimAnswer("late"),
    ]

    def answer(claims: list[Claim]) -> list[ClaimAnswer] | None:
        return [answers.pop(0)] if answers and claims[0].mode == "claim" else None

    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.scripts["claim"] = answer
    fleet.start()
    fleet.until(31)
    start = "run skipped job=sync slot=2026-01-01T00:00:"
    assert lines(log, "run skipped") == [
        ("DEBUG", f"{start}10+00:00 reason=taken holder=other"),
        ("WARNING", f"{start}20+00:00 reason=overlap holder=other"),
        ("WARNING", f"{start}30+00:00 reason=late"),
    ]


def test_the_same_fault_is_logged_once_a_minute_with_its_repetitions(
    fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.break_("claim")
    fleet.start()
    fleet.until(10 + 2 * REPEAT_AFTER + 1)
    faults = lines(log, "claim failed")
    assert [level for level, _ in faults] == ["ERROR"] * 3
    repeats = [text.partition(" (and ")[2] for _, text in faults]
    assert repeats == ["", *["5 times more since the last line)"] * 2]
    assert len(one.of("error")) == 13  # every one of them is an event


def test_an_unlucky_declaration_is_advised_against_once(
    fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    one = fleet.instance()
    one.every(2, lambda: None)
    fleet.start()
    fleet.until(20)
    (advice,) = lines(log, "shorter than its lease")
    assert advice[0] == "WARNING"
    assert "job 'sync'" in advice[1]


def test_the_log_hears_every_event_before_the_listeners(
    fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []
    one = fleet.instance()
    one.every(10, lambda: None)
    one.scheduler.on("start", lambda _: heard.append(len(lines(log, "run started"))))
    fleet.start()
    fleet.until(11)
    assert heard == [1]


SCRIPT = """
import logging, sys, threading
{setup}
from leasecron import RunContext, Scheduler
from leasecron.testing import FakeClock

clock = FakeClock()
scheduler = Scheduler("memory://", clock=clock)

@scheduler.every("bad", "10s", jitter=0)
def bad():
    raise ValueError("what went wrong")

@scheduler.every("slow", "10s", jitter=0, timeout=100)
def slow(ctx):
    ctx.sleep(15)

scheduler.start()
clock.advance(21)
scheduler.stop()
"""


@pytest.mark.parametrize(
    ("setup", "expected", "unexpected"),
    [
        ("", "run failed job=bad", "run skipped"),
        ("logging.basicConfig(level=logging.WARNING)", "WARNING:leasecron:run skipped", "started"),
        ("logging.basicConfig(level=logging.INFO)", "INFO:leasecron:run started", "taken"),
        (
            "logging.getLogger('leasecron').addHandler(logging.NullHandler())",
            "",
            "run",
        ),
    ],
    ids=["unconfigured", "warning", "info", "its own handler"],
)
def test_what_a_program_prints_without_and_with_logging(
    tmp_path: Path, setup: str, expected: str, unexpected: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(setup=setup)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == ""
    assert expected in done.stderr
    assert unexpected not in done.stderr
    if expected:
        assert done.stderr.count("ValueError: what went wrong") >= 2
        assert done.stderr.count("run failed job=bad") == done.stderr.count("Traceback")


def test_more_kinds_of_faults_than_anybody_reads_are_one_line(
    log: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    write = EventLog(clock)

    def fail(number: int) -> None:
        write(
            StoreFailed(
                at=clock.now(),
                job=None,
                slot=None,
                instance="one",
                operation="claim",
                exception=BackendError(f"fault {number}"),
            )
        )

    for number in range(1500):
        fail(number)
    assert len(lines(log, "claim failed")) == MOST_FAULTS
    assert len(lines(log, "faults of the store were logged")) == 1
    for number in range(1500):  # the same again: all are known, or one too many
        fail(number)
    assert len(lines(log, "")) == MOST_FAULTS + 1
    clock.advance(REPEAT_AFTER + 1)
    fail(7)
    assert len(lines(log, "claim failed")) == MOST_FAULTS + 1


def test_a_flood_of_one_kind_hides_no_other(log: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    write = EventLog(clock)

    def fail(operation: str, exception: Exception) -> None:
        write(
            StoreFailed(
                at=clock.now(),
                job=None,
                slot=None,
                instance="one",
                operation=operation,
                exception=exception,
            )
        )

    for number in range(150):
        fail("claim", BackendError(f"fault {number}"))
    fail("save_results", BackendError("no space"))
    fail("claim", BackendUnavailable("the directory is gone"))
    assert len(lines(log, "no space")) == 1
    assert len(lines(log, "the directory is gone")) == 1


def test_tries_are_told_apart(fleet: Fleet, log: pytest.LogCaptureFixture) -> None:
    one = fleet.instance()
    calls: list[int] = []

    def handler(ctx: RunContext) -> None:
        calls.append(ctx.retry)
        if ctx.retry < 2:
            raise ValueError("no")

    one.every(600, handler, retries=2, backoff=4)
    fleet.start()
    fleet.until(650)

    slot = "job=sync slot=2026-01-01T00:10:00+00:00 attempt=1"
    told = [(record.levelname, record.getMessage()) for record in log.records]
    runs = [(level, text.partition(" trigger")[0]) for level, text in told if slot in text]
    assert [(level, text.partition(" duration")[0]) for level, text in runs] == [
        ("INFO", f"run started {slot}"),
        ("WARNING", f"run failed and will be tried again {slot} error=ValueError: no"),
        ("INFO", f"run started {slot} retry=1"),
        ("WARNING", f"run failed and will be tried again {slot} retry=1 error=ValueError: no"),
        ("INFO", f"run started {slot} retry=2"),
        ("INFO", f"run succeeded {slot} retry=2"),
    ]
