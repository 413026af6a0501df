"""Events as values, and the listeners that are told of them."""

from __future__ import annotations

import dataclasses
import logging
import threading
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from runs_support import SEEDS, Fleet, at, seconds

from leasecron import (
    ConfigurationError,
    RunFailed,
    RunInterrupted,
    RunResult,
    RunSkipped,
    RunStarted,
    RunSucceeded,
    Scheduler,
    StoreFailed,
)
from leasecron.events import EVENT_NAMES, Event, EventBus, EventName
from leasecron.logs import EventLog
from leasecron.model import Reason, SkipReason, Status, Trigger
from leasecron.testing import EventRecorder, FakeClock

COMMON = {"at": datetime, "job": str, "slot": datetime, "instance": str}
FIELDS: dict[type[Any], dict[str, Any]] = {
    RunStarted: {
        **COMMON,
        "attempt": int,
        "fence": int | None,
        "trigger": Trigger,
        "lateness": float,
        "retry": int,
    },
    RunSucceeded: {**COMMON, "result": RunResult},
    RunFailed: {
        **COMMON,
        "result": RunResult,
        "exception": BaseException | None,
        "will_retry": bool,
    },
    RunInterrupted: {**COMMON, "result": RunResult, "reason": Reason},
    RunSkipped: {**COMMON, "reason": SkipReason, "holder": str | None},
    StoreFailed: {
        **COMMON,
        "job": str | None,
        "slot": datetime | None,
        "operation": str,
        "exception": BaseException | None,
    },
    RunResult: {
        "job": str,
        "slot": datetime,
        "attempt": int,
        "fence": int | None,
        "instance": str,
        "trigger": Trigger,
        "status": Status,
        "started_at": datetime,
        "ended_at": datetime,
        "duration": float,
        "error": str | None,
        "retries": int,
    },
}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_value_has_these_fields_of_these_types(kind: type[Any]) -> None:
    hints = typing.get_type_hints(kind)
    assert {field.name: hints[field.name] for field in dataclasses.fields(kind)} == FIELDS[kind]


def an_event() -> RunSkipped:
    return RunSkipped(at=at(0), job="sync", slot=at(0), instance="one", reason="late")


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_value_is_frozen(kind: type[Any]) -> None:
    value = kind(**dict.fromkeys(FIELDS[kind], None))
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.job = "other"
    with pytest.raises((AttributeError, TypeError)):
        value.something = 1


def test_words_and_classes_go_together() -> None:
    names = {kind: kind.name for kind in FIELDS if kind is not RunResult}
    assert names == {
        RunStarted: "start",
        RunSucceeded: "success",
        RunFailed: "failure",
        RunInterrupted: "interrupted",
        RunSkipped: "skip",
        StoreFailed: "error",
    }
    assert set(names.values()) == set(EVENT_NAMES)
    assert set(names) == set(typing.get_args(Event))


def test_words_are_these() -> None:
    assert set(typing.get_args(Trigger)) == {
        "scheduled",
        "catch-up",
        "takeover",
        "manual",
        "backfill",
    }
    assert set(typing.get_args(Status)) == {"success", "failed", "interrupted", "lost"}
    assert set(typing.get_args(Reason)) == {
        "stop",
        "takeover",
        "lease-lost",
        "timeout",
        "replaced",
    }
    assert set(typing.get_args(SkipReason)) == {"late", "taken", "overlap", "paused"}


def check_instants_and_durations(value: Any) -> None:
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if isinstance(content, datetime):
            assert content.tzinfo is UTC, field.name
            assert content.microsecond % 1000 == 0, field.name
        elif field.name in {"lateness", "duration"}:
            assert type(content) is float
        elif isinstance(content, RunResult):
            check_instants_and_durations(content)


@pytest.mark.parametrize("seed", SEEDS)
def test_instants_are_aware_utc_in_milliseconds_and_durations_float_seconds(fleet: Fleet) -> None:
    def handler(ctx: RunResult) -> None:
        if ctx.slot == at(20):
            raise ValueError("no")
        fleet.nap(12.3456 if ctx.slot == at(40) else 1.2345)

    for _ in range(2):
        fleet.instance().every(10, handler, jitter=3, timeout=11)
    fleet.start()
    fleet.until(31)
    fleet.instances[0].store.break_("claim")
    fleet.until(35)
    fleet.instances[0].store.heal()
    fleet.until(80)
    events = [event for instance in fleet.instances for event in instance.events]
    fleet.close()
    assert {event.name for event in events} >= {"start", "success", "failure", "skip"}
    for event in events:
        check_instants_and_durations(event)


def test_an_error_of_a_call_that_served_many_names_no_job(fleet: Fleet) -> None:
    one = fleet.instance("one")
    for name in ("x", "y"):
        one.every(600, lambda ctx: ctx.sleep(30), name=name)
    fleet.start()
    fleet.until(601)
    one.store.cut("heartbeat")
    fleet.until(603)
    one.store.heal()
    (error,) = one.of("error")
    assert isinstance(error, StoreFailed)
    assert (error.job, error.slot, error.operation) == (None, None, "heartbeat")
    assert (error.instance, error.at) == ("one", at(602))


@pytest.mark.parametrize(
    ("operation", "slot"), [("declare", None), ("unfinished", None), ("claim", at(10))]
)
def test_an_error_of_a_call_that_served_one_names_it(
    fleet: Fleet, operation: str, slot: datetime | None
) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.cut(operation)
    fleet.start()
    fleet.until(11)
    one.store.heal()
    assert [(e.operation, e.job, e.slot) for e in one.of("error")] == [(operation, "sync", slot)]


def test_on_is_a_function_whose_answer_ends_it(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    starts: list[RunStarted] = []
    every: list[Any] = []
    off = one.scheduler.on("start", starts.append)
    one.scheduler.on("*", every.append)
    fleet.start()
    fleet.until(11)
    off()
    off()
    fleet.until(21)
    assert [event.slot for event in starts] == [at(10)]
    assert [event.name for event in every] == ["start", "success"] * 2


def test_on_is_a_decorator(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    seen: list[str] = []

    @one.scheduler.on("success")
    def listener(event: RunSucceeded) -> None:
        seen.append(event.name)

    assert callable(listener)
    fleet.start()
    fleet.until(11)
    assert seen == ["success"]


def test_a_listener_that_was_added_twice_is_told_twice_until_it_is_taken_off(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    seen: list[Any] = []
    one.scheduler.on("start", seen.append)
    off = one.scheduler.on("start", seen.append)
    fleet.start()
    fleet.until(11)
    off()
    fleet.until(21)
    assert [event.slot for event in seen] == [at(10), at(10), at(20)]


def test_listeners_may_come_and_go_while_events_are_told(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    seen: list[str] = []
    offs: list[Callable[[], None]] = []

    def first(event: Any) -> None:
        seen.append(f"first {event.name}")
        if len(offs) < 2:
            offs.append(one.scheduler.on("*", lambda event: seen.append(f"late {event.name}")))
        else:
            offs.pop(0)()

    one.scheduler.on("*", first)
    fleet.start()
    fleet.until(21)
    assert [text for text in seen if text.startswith("first")] == [
        "first start",
        "first success",
    ] * 2
    assert "late success" in seen


def test_listeners_are_called_in_one_thread_in_the_order_in_which_they_came(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    calls: list[tuple[int, str, str]] = []

    def note(number: int, event: Any) -> None:
        calls.append((number, event.name, threading.current_thread().name))

    for number in range(3):
        one.scheduler.on("*", partial(note, number))
    fleet.start()
    fleet.until(11)
    assert calls == [
        (number, name, "leasecron-events") for name in ("start", "success") for number in range(3)
    ]


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()]
)
def test_a_listener_that_raises_is_logged_and_disturbs_nothing(
    fleet: Fleet, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def bad(_event: object) -> None:
        raise error

    one = fleet.instance()
    one.every(10, lambda: None)
    one.scheduler.on("start", bad)
    seen: list[Any] = []
    one.scheduler.on("start", seen.append)
    fleet.start()
    fleet.until(21)
    assert [event.slot for event in seen] == [at(10), at(20)]
    assert one.told == ["start", "success"] * 2
    records = [record for record in caplog.records if "listener" in record.getMessage()]
    assert [record.exc_info and record.exc_info[1] for record in records] == [error] * 2
    assert [result.status for result in fleet.history()] == ["success"] * 2


def test_a_listener_that_blocks_delays_no_run_and_no_heartbeat(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(20, lambda: fleet.nap(9))
    one.scheduler.on("*", lambda _: fleet.nap(300))
    told: list[tuple[float, Any]] = []
    one.scheduler.on("*", lambda event: told.append((seconds(fleet.clock), event.at)))
    fleet.start()
    fleet.until(100)
    starts = [call.at for call in one.store.of("claim")]
    assert starts == [20, 40, 60, 80, 100]
    assert [call.at for call in one.store.of("heartbeat")][:5] == [22, 24, 26, 28, 42]
    assert [r.status for r in fleet.history()] == ["success"] * 4
    fleet.until(621)
    assert told[:2] == [(320, at(20)), (620, at(29))]


@pytest.mark.parametrize("event", ["", "started", "START", None, 5, ["start"], ("start", "skip")])
def test_an_unknown_event_is_refused_with_the_right_ones(event: Any) -> None:
    scheduler = Scheduler("memory://")
    for call in (lambda: scheduler.on(event, print), lambda: scheduler.on(event)):
        with pytest.raises(ConfigurationError) as caught:
            call()
        message = str(caught.value)
        assert repr(event) in message
        assert all(name in message for name in (*EVENT_NAMES, "*"))


@pytest.mark.parametrize("listener", [5, "print", object()])
def test_a_listener_that_cannot_be_called_is_refused(listener: Any) -> None:
    scheduler = Scheduler("memory://")
    for call in (lambda: scheduler.on("skip", listener), lambda: scheduler.on("skip")(listener)):
        with pytest.raises(ConfigurationError, match="'skip'") as caught:
            call()
        assert repr(listener) in str(caught.value)


@pytest.mark.parametrize("name", EVENT_NAMES)
@pytest.mark.parametrize(
    ("level", "listened_to", "wanted"),
    [
        (logging.WARNING, None, {"failure", "interrupted", "skip", "error"}),
        (logging.INFO, None, set(EVENT_NAMES)),
        (logging.WARNING, "start", {"start", "failure", "interrupted", "skip", "error"}),
        (logging.WARNING, "success", {"success", "failure", "interrupted", "skip", "error"}),
        (logging.WARNING, "*", set(EVENT_NAMES)),
    ],
)
def test_only_what_makes_no_line_and_has_no_listener_is_not_wanted(
    name: EventName,
    level: int,
    listened_to: str | None,
    wanted: set[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(level, "leasecron")
    clock = FakeClock()
    bus = EventBus(clock, lambda: "instance", EventLog(clock))
    if listened_to is not None:
        bus.on(listened_to, print)
    assert bus.wants(name) == (name in wanted)


def test_an_event_that_nobody_hears_is_not_made(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "leasecron")
    emitted: list[str] = []
    monkeypatch.setattr(EventBus, "emit", lambda _self, event: emitted.append(event.name))
    monkeypatch.setattr(EventRecorder, "__init__", lambda *_: None)  # which hears them all
    one = fleet.instance()
    ran: list[float] = []
    one.every(10, lambda: ran.append(seconds(fleet.clock)))
    fleet.start()
    fleet.until(11)
    assert (ran, emitted) == ([10.0], [])
