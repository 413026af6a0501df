"""What a defect of our own costs: one run, and never the job, the place or the end of a stop()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runs_support import SEEDS, Fleet, Instance, at

from leasecron import BackendError, BackendUnavailable
from leasecron.backfilling import Backfilling
from leasecron.inbox import Inbox
from leasecron.lease_runner import LeaseRunner
from leasecron.model import Claim
from leasecron.recovery import Recovery
from leasecron.retries import Retries
from leasecron.runner import Runner

Patch = pytest.MonkeyPatch


@pytest.fixture
def one(fleet: Fleet) -> Instance:
    return fleet.instance(places=2)


def fails_once(patch: Patch, owner: Any, name: str) -> list[str]:
    """Let the next call of a method raise; the answer holds its name once it has."""
    method: Callable[..., object] = getattr(owner, name)
    failed: list[str] = []

    def fail_once(self: object, *args: object, **options: object) -> object:
        if failed:
            return method(self, *args, **options)
        failed.append(name)
        raise RuntimeError("a defect")

    patch.setattr(owner, name, fail_once)
    return failed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Runner, "_claim"),
        (LeaseRunner, "_won"),
        (LeaseRunner, "_tick"),
        (LeaseRunner, "_beaten"),
        (Recovery, "_ask"),
        (Recovery, "_recovered"),
        (Recovery, "_declared"),
    ],
)
def test_a_step_that_fails_costs_one_run_and_nothing_more(
    fleet: Fleet, one: Instance, monkeypatch: Patch, owner: type, name: str
) -> None:
    failed = fails_once(monkeypatch, owner, name)
    one.every(30, lambda: fleet.nap(5))
    fleet.start()
    fleet.until(301)
    assert failed == [name]
    ran = [event.slot for event in one.of("success")]
    assert [at(30 * n) for n in range(3, 10)] == ran[-7:]
    assert len(ran) == len(set(ran))
    one.every(30, lambda: None, name="other")
    one.every(30, lambda: None, name="third")
    fleet.until(340)  # both places are there
    assert {event.job for event in one.of("success")} == {"sync", "other", "third"}
    assert one.scheduler.stop(timeout=30)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Inbox, "_ask"),
        (Inbox, "_found"),
        (Inbox, "_show"),
        (LeaseRunner, "meet"),
        (Backfilling, "go_on"),
        (Backfilling, "_begin"),
        (Backfilling, "_known"),
        (Backfilling, "_advance"),
        (Backfilling, "_advanced"),
    ],
)
def test_a_look_that_fails_is_not_the_last_one(
    fleet: Fleet, one: Instance, monkeypatch: Patch, owner: type, name: str
) -> None:
    one.store.polled = True  # so that nothing but its own looks tells it of what is asked for
    one.every(600, lambda: fleet.nap(2))
    fleet.start()
    fleet.until(100)
    failed = fails_once(monkeypatch, owner, name)
    backfill = one.scheduler.backfill("sync", at(-1800), at(0))
    run = one.scheduler.trigger("sync")  # which has to wait

    ended, result = backfill.wait(timeout=60), run.wait(timeout=60)

    assert failed == [name]
    assert ended is not None
    assert ended.succeeded == 3
    assert result is not None
    assert result.status == "success"


def test_a_retry_that_cannot_be_ended_costs_a_stop_no_other_run(
    fleet: Fleet, one: Instance, monkeypatch: Patch
) -> None:
    def fails() -> None:
        raise ValueError("on purpose")

    for job in ("first", "second"):
        one.every(60, fails, name=job, retries=1, backoff=300)
    fleet.start()
    fleet.until(65)
    failed = fails_once(monkeypatch, Retries, "go_on")

    assert one.scheduler.stop(timeout=30)
    assert failed == ["go_on"]
    (told,) = one.of("interrupted")
    assert told.reason == "stop"


def test_a_claim_that_cannot_be_made_costs_no_other_run_its_end(
    fleet: Fleet, monkeypatch: Patch
) -> None:
    one = fleet.instance(places=1)
    one.every(30, lambda: fleet.nap(5), name="first", lease=60)
    fleet.start()
    fleet.until(31)
    one.every(30, lambda: None, name="waiting", catch_up=60)
    fleet.until(33)
    failed = fails_once(monkeypatch, Runner, "_claim")  # when the first gives its place back
    fleet.until(59)
    assert failed == ["_claim"]
    assert [(r.job, r.status) for r in fleet.history("first")] == [("first", "success")]
    fleet.until(100)
    assert {e.slot for e in one.of("success") if e.job == "waiting"} >= {at(60), at(90)}


def test_a_recovery_whose_answers_all_fail_is_asked_for_at_one_pace(
    fleet: Fleet, one: Instance, monkeypatch: Patch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Recovery, "_declared", fail)
    monkeypatch.setattr(Recovery, "_recovered", fail)
    one.every(30, lambda: None)
    fleet.start()
    fleet.until(44)
    assert 6 <= len(one.store.of("declare")) <= 9


def test_a_start_that_takes_a_stop_over_returns_though_a_recovery_fails(
    fleet: Fleet, one: Instance, monkeypatch: Patch
) -> None:
    one.every(30, lambda: fleet.nap(20))
    fleet.start()
    fleet.until(31)
    assert not one.scheduler.stop(timeout=1)
    failed = fails_once(monkeypatch, Recovery, "_ask")
    one.start()
    fleet.until(200)
    assert failed == ["_ask"]
    assert one.running()
    assert at(180) in [event.slot for event in one.of("success")]


def test_a_stop_in_the_middle_of_single_calls_confuses_nobody(
    fleet: Fleet, one: Instance, caplog: pytest.LogCaptureFixture
) -> None:
    """The store refuses a batch and then one claim; then comes the stop, and the line is cut."""
    answered: list[str] = []
    for name in "abc":
        one.every(30, lambda: None, name=name, jitter=0)

    def refuse(claims: list[Claim]) -> None:
        if len(claims) > 1:
            raise BackendError("one of them")
        answered.append(claims[0].job)
        if len(answered) == 1:
            fleet.clock.start_thread(stop, "stopper")
            fleet.nap(0.1)
            raise BackendError("this one")
        raise BackendUnavailable("gone")

    def stop() -> None:
        one.scheduler.stop(timeout=0)

    one.store.scripts["claim"] = refuse
    fleet.start()
    fleet.until(32)
    one.store.heal()
    fleet.until(60)
    assert one.scheduler.stop(timeout=30)
    assert one.of("start") == []
    assert [line for line in caplog.messages if "does not know" in line] == []
