"""How a run is classified, and how its end is recorded."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from runs_support import Fleet, Instance, at

from leasecron import AbortSignal, BackendError, RunAborted, RunContext, RunResult
from leasecron.runs import MAX_ERROR, error_text


def raising(error: BaseException) -> Callable[[], None]:
    def handler() -> None:
        raise error

    return handler


def stop(one: Instance) -> None:
    one.scheduler.stop(timeout=60)


def told_to_end(fleet: Fleet, one: Instance, cause: str) -> None:
    """Let the live run of ``one`` be told to end, for one cause."""
    match cause:
        case "stop":
            fleet.clock.start_thread(partial(stop, one), "stopper")
        case "takeover":
            one.store.scripts["heartbeat"] = lambda leases: ["lost"] * len(leases)
        case "lease-lost":
            one.store.break_("heartbeat")


@pytest.mark.parametrize(
    ("cause", "ends", "status", "name"),
    [
        (None, "returns", "success", "success"),
        (None, "raises", "failed", "failure"),
        (None, "raises RunAborted", "failed", "failure"),
        ("stop", "returns", "success", "success"),
        ("stop", "raises", "interrupted", "interrupted"),
        ("stop", "raises RunAborted", "interrupted", "interrupted"),
        ("takeover", "returns", "success", "success"),
        ("takeover", "raises", "interrupted", "interrupted"),
        ("takeover", "raises RunAborted", "interrupted", "interrupted"),
        ("lease-lost", "returns", "success", "success"),
        ("lease-lost", "raises", "interrupted", "interrupted"),
        ("lease-lost", "raises RunAborted", "interrupted", "interrupted"),
        ("timeout", "returns", "failed", "failure"),
        ("timeout", "raises", "failed", "failure"),
        ("timeout", "raises RunAborted", "failed", "failure"),
    ],
)
def test_how_the_handler_ended_and_the_signal_decide_what_became_of_the_run(
    fleet: Fleet, cause: str | None, ends: str, status: str, name: str
) -> None:
    def handler(ctx: RunContext) -> None:
        fleet.nap(12)
        assert ctx.signal.reason == cause
        if ends == "raises":
            raise ValueError("as it happens")
        if ends == "raises RunAborted":
            raise RunAborted(ctx.signal.reason)

    one = fleet.instance()
    one.every(600, handler, timeout=5 if cause == "timeout" else None)
    fleet.start()
    fleet.until(601)
    told_to_end(fleet, one, cause or "")
    fleet.until(613)
    (event,) = one.of(name)
    (result,) = fleet.history()
    assert event.result == result
    assert (result.status, result.attempt, result.trigger) == (status, 1, "scheduled")
    assert [e for e in one.told if e not in {"start", "error"}] == [name]
    if name == "interrupted":
        assert event.reason == cause
    elif name == "failure":
        expected = {"timeout": TimeoutError}.get(cause or "", (ValueError, RunAborted))
        assert isinstance(event.exception, expected)


@pytest.mark.parametrize("cause", ["stop", "takeover", "lease-lost"])
def test_the_reason_of_a_signal_is_its_first_cause(fleet: Fleet, cause: str) -> None:
    reasons: list[object] = []

    def handler(ctx: RunContext) -> None:
        fleet.nap(40)
        reasons.append(ctx.signal.reason)
        ctx.signal.raise_if_set()

    one = fleet.instance()
    one.every(600, handler, timeout=30)
    fleet.start()
    fleet.until(601)
    told_to_end(fleet, one, cause)
    fleet.until(620)
    for later in ("lease-lost", "takeover", "stop"):
        told_to_end(fleet, one, later)
    fleet.until(639)
    assert one.of("failure") == []  # once it is set, the timeout no longer applies
    fleet.until(642)
    assert reasons == [cause]
    assert [event.reason for event in one.of("interrupted")] == [cause]


THROWN: list[BaseException] = [
    Exception("plain"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration("x"),
    RunAborted("stop"),
    MemoryError(),
    BaseExceptionGroup("several", [ValueError("one"), SystemExit(2)]),
]


@pytest.mark.parametrize("error", THROWN, ids=lambda error: type(error).__name__)
def test_whatever_a_handler_raises_is_a_failed_run_and_the_next_slot_runs(
    fleet: Fleet, error: BaseException
) -> None:
    one = fleet.instance()
    one.every(10, raising(error))
    fleet.start()
    fleet.until(21)
    assert one.told == ["start", "failure"] * 2
    assert [event.exception for event in one.of("failure")] == [error, error]
    results = fleet.history()
    assert [result.status for result in results] == ["failed", "failed"]
    assert all((r.error or "").startswith(type(error).__name__) for r in results)


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")

    def __repr__(self) -> str:
        raise RuntimeError("no repr either")


class OddText(str):
    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise RuntimeError("cannot be formatted")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class OddError(Exception):
    def __str__(self) -> str:
        return OddText("odd")


def test_an_exception_without_a_text_is_a_failed_run(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, raising(NoText()))
    fleet.start()
    fleet.until(21)
    assert one.told == ["start", "failure"] * 2
    assert fleet.history()[0].error == "NoText: (its text cannot be had: str() raised)"


def test_a_text_of_a_megabyte_is_cut_to_valid_text_of_8_kib(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, raising(ValueError("\0\ud800é" + "ü" * 1_000_000)))
    fleet.start()
    fleet.until(21)
    text = fleet.history()[0].error
    assert text is not None
    assert len(text.encode("utf-8")) in {MAX_ERROR, MAX_ERROR - 1}
    assert text.startswith("ValueError: \ufffd?éüü")
    assert one.told == ["start", "failure"] * 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (KeyError("name"), "KeyError: 'name'"),
        (ValueError("a\0b"), "ValueError: a\ufffdb"),
        (ValueError("\ud83d"), "ValueError: ?"),
        (ValueError("line\nline"), "ValueError: line\nline"),
        (OddError(), "OddError: odd"),
        (ValueError("😀" * 5000), "ValueError: " + "😀" * 2045),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_text_of_an_error(error: BaseException, text: str) -> None:
    assert error_text(error) == text


def test_the_traceback_reaches_logging_once(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    one = fleet.instance()
    error = ValueError("what went wrong")
    one.every(600, raising(error))
    fleet.start()
    fleet.until(700)
    records = [record for record in caplog.records if record.exc_info]
    assert [record.name for record in records] == ["leasecron"]
    assert records[0].exc_info is not None
    assert records[0].exc_info[1] is error
    assert records[0].levelno == logging.ERROR
    assert caplog.text.count("in handler") == 1


def test_every_run_has_a_fresh_context_of_context_variables(fleet: Fleet) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set by the one who started")
    seen: list[tuple[str, int]] = []

    def handler(ctx: RunContext) -> None:
        seen.append((variable.get(), len(contextvars.copy_context())))
        variable.set(ctx.job)

    one = fleet.instance()
    one.every(5, handler, lease=4, heartbeat=1)  # soon enough for the same thread to do it all
    fleet.start()
    fleet.until(51)
    assert seen == [("unset", 0)] * 10


def test_a_record_that_cannot_be_written_is_an_error_and_the_run_has_succeeded_all_the_same(
    fleet: Fleet,
) -> None:
    bodies: list[object] = []
    for _ in range(2):
        fleet.instance().every(600, lambda ctx: bodies.append(ctx.slot))
    for instance in fleet.instances:
        instance.store.break_("save_results")
    fleet.start()
    fleet.until(700)
    (holder,) = (instance for instance in fleet.instances if instance.of("start"))
    assert holder.told == ["start", "error", "success"]
    (error,) = holder.of("error")
    assert (error.operation, error.job, error.slot) == ("save_results", "sync", at(600))
    assert isinstance(error.exception, BackendError)
    assert bodies == [at(600)]
    assert fleet.history() == []


def test_a_record_waits_for_a_store_that_is_away(fleet: Fleet) -> None:
    one = fleet.instance()
    signals: list[AbortSignal] = []
    one.every(600, lambda ctx: signals.append(ctx.signal))
    one.store.cut("save_results")
    fleet.start()
    fleet.until(620)
    assert one.told == ["start", "error"]
    # The end is stored, as the first heartbeat hears: nothing is left to be kept or to be told.
    assert len(one.store.of("heartbeat")) == 1
    assert signals[0].reason is None
    one.store.heal()
    fleet.until(622)
    assert one.told == ["start", "error", "success"]


def test_the_guilty_record_of_a_batch_fails_alone(fleet: Fleet) -> None:
    def save(results: list[RunResult]) -> Any:
        if any(result.job == "bad" for result in results):
            raise BackendError("not this one")

    one = fleet.instance()
    for name in ("good", "bad", "fine"):
        one.every(600, lambda: None, name=name)
    one.store.scripts["save_results"] = save
    fleet.start()
    fleet.until(601)
    assert sorted(event.job for event in one.of("success")) == ["bad", "fine", "good"]
    assert [event.job for event in one.of("error")] == ["bad"]


def test_finish_saying_lost_is_a_takeover_without_a_record(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None)
    one.store.scripts["finish"] = lambda endings: [False] * len(endings)
    fleet.start()
    fleet.until(601)
    (event,) = one.of("interrupted")
    assert (event.reason, event.result.status, event.result.error) == (
        "takeover",
        "interrupted",
        None,
    )
    assert one.store.of("save_results") == []


def test_an_interrupted_run_is_released_uncounted_after_a_stop(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda ctx: ctx.sleep(100))
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop()
    (ending,) = one.store.of("release")[0].items
    assert (ending.status, ending.counted, ending.keep_lease) == ("interrupted", False, False)
    assert one.store.of("finish") == []
    (event,) = one.of("interrupted")
    assert (event.reason, event.result.error) == (
        "stop",
        "RunAborted: the run was told to end: stop",
    )


def test_attempts_that_stop_released_are_never_used_up(fleet: Fleet) -> None:
    attempts: list[int] = []

    def handler(ctx: RunContext) -> None:
        attempts.append(ctx.attempt)
        ctx.sleep(100)

    one = fleet.instance()
    one.every(600, handler, max_attempts=1)
    for moment in range(601, 606):
        fleet.start()
        fleet.until(moment)
        assert one.scheduler.stop()
    assert attempts == [1, 2, 3, 4, 5]
    assert {result.status for result in fleet.history()} == {"interrupted"}
