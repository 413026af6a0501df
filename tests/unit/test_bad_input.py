"""Wrong arguments are refused where they are given, with the value and what would be right."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from runs_support import at

from leasecron import ConfigurationError, Every, JobOptions, Scheduler, SystemClock
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.testing import FakeClock, make_context, run_once

BAD_NAMES = [None, 5, b"sync", "", "a\0b", "\ud800", ["sync"], Path("sync")]
BAD_INTERVALS = ["0s", "-5s", "", "s", "10", "5 parsecs", "1.5ms", True, None, 0, -1, float("nan")]
BAD_INTERVALS += [
    float("inf"),
    "\u0665s",
    0.0000001,
    10**12,
    timedelta(0),
    timedelta(microseconds=1),
    [],
]
BAD_TZ = ["Mars/Olympus", "", "../UTC", 5, b"UTC", "Europe/Amsterdam\0"]


def handler() -> None: ...


def scheduler() -> Scheduler:
    return Scheduler("memory://", clock=FakeClock(at(4.5)))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize("instance", ["", 5, b"x", "a\0b", "\ud800", ["x"]])
def test_an_instance_is_named_with_text(instance: Any) -> None:
    message = refusal(lambda: Scheduler("memory://", instance=instance))
    assert f"instance is {instance!r}" in message
    assert "right is" in message


@pytest.mark.parametrize("defaults", [{}, {"lease": 5}, 5, JobOptions, "10s"])
def test_defaults_are_job_options(defaults: Any) -> None:
    message = refusal(lambda: Scheduler("memory://", defaults=defaults))
    assert f"defaults is {defaults!r}" in message
    assert "JobOptions(...)" in message


@pytest.mark.parametrize("number", [0, -1, 2.0, "200", None, True, []])
def test_max_running_is_a_number_from_one(number: Any) -> None:
    message = refusal(lambda: Scheduler("memory://", max_running=number))
    assert f"max_running is {number!r}" in message
    assert "right is an int from 1" in message


@pytest.mark.parametrize("word", ["", "start", None, True, ["stop"], "STOP"])
def test_after_fork_is_stop_or_restart(word: Any) -> None:
    message = refusal(lambda: Scheduler("memory://", after_fork=word))
    assert f"after_fork is {word!r}" in message
    assert "'stop' or 'restart'" in message


@pytest.mark.parametrize("tz", [*BAD_TZ, None, timedelta(hours=1)])
def test_the_time_zone_of_a_scheduler_is_known(tz: Any) -> None:
    message = refusal(lambda: Scheduler("memory://", tz=tz))
    assert f"tz is {tz!r}" in message
    assert "Europe/Amsterdam" in message


@pytest.mark.parametrize("clock", [5, "UTC", datetime.now, SystemClock, object(), 0, ""])
def test_a_clock_is_one(clock: Any) -> None:
    message = refusal(lambda: Scheduler("memory://", clock=clock))
    assert f"clock is {clock!r}" in message
    assert "right is" in message


BAD_STORES = [
    "",
    "memory:",
    "memory",
    "memory://x",
    "MEMORY://",
    "sqlite:",
    "sqlite://",
    "sqlite://x.db",
    "sqlite:/x.db",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite:///x\0.db",
    "sqlite:///x.db?mode=ro",
    "sqlite:///x.db?journal",
    "sqlite:///x.db?journal=truncate",
    "sqlite:///x.db?durability=",
    "sqlite3:///x.db",
    "mysql://localhost/x",
    "mysql://localhost",
    "x.txt",
    "/var/lib/app",
    "x.db.bak",
    None,
    5,
    b"/x.db",
    object(),
    MemoryBackend,
    {"url": "memory://"},
    Path("x.txt"),
    Path(),
]


@pytest.mark.parametrize("store", BAD_STORES, ids=repr)
def test_a_store_is_a_url_a_path_or_a_backend(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refusal(lambda: Scheduler(store))
    shown = repr(store)
    if isinstance(store, str) and store.startswith("sqlite:///"):
        shown = repr(store.removeprefix("sqlite:///").partition("?")[0])[1:-1]
    assert shown in message or "durability" in message or "journal" in message
    assert "right" in message or "memory://" in message or "NUL" in message
    assert [*tmp_path.iterdir()] == []


GOOD_STORES = [
    ("memory://", "memory://"),
    ("sqlite:///x.db", "sqlite:///{cwd}/x.db"),
    ("sqlite:///x", "sqlite:///{cwd}/x"),
    ("sqlite:////var/x.db", "sqlite:////var/x.db"),
    ("sqlite:////var/x.db?journal=delete&durability=normal", "sqlite:////var/x.db"),
    ("x.db", "sqlite:///{cwd}/x.db"),
    ("sub/x.SQLITE", "sqlite:///{cwd}/sub/x.SQLITE"),
    ("/var/x.sqlite3", "sqlite:////var/x.sqlite3"),
    (Path("x.db"), "sqlite:///{cwd}/x.db"),
    (Path("/var/x y%20.db"), "sqlite:////var/x y%20.db"),
]


@pytest.mark.parametrize(("store", "place"), GOOD_STORES, ids=repr)
def test_a_path_is_made_absolute_when_the_scheduler_is_built(
    store: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    built = Scheduler(store)
    monkeypatch.chdir("/")
    assert built._lifecycle._backend.description == place.format(cwd=tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
@pytest.mark.parametrize("call", ["every", "cron", "add", "decorator"])
def test_a_job_is_named_with_text(name: Any, call: str) -> None:
    made = scheduler()
    calls: dict[str, Callable[[], object]] = {
        "every": lambda: made.every(name, "10s", handler),
        "cron": lambda: made.cron(name, "* * * * *", handler),
        "add": lambda: made.add(name, Every("10s"), handler),
        "decorator": lambda: made.every(name, "10s"),
    }
    message = refusal(calls[call])
    assert repr(name) in message
    assert "name of" in message
    assert dict(made.jobs) == {}


@pytest.mark.parametrize("interval", BAD_INTERVALS, ids=repr)
def test_an_interval_is_a_length_of_time(interval: Any) -> None:
    made = scheduler()
    message = refusal(lambda: made.every("sync", interval, handler))
    assert message.startswith("job 'sync': interval is ")
    assert repr(interval) in message
    assert "right" in message
    assert message == refusal(lambda: made.every("sync", interval))


@pytest.mark.parametrize("expression", ["", "* * *", "61 * * * *", "0 0 30 2 *", 5, None, "@never"])
def test_an_expression_is_one_of_cron(expression: Any) -> None:
    message = refusal(lambda: scheduler().cron("sync", expression, handler))
    assert message.startswith("job 'sync': ")
    assert repr(expression) in message


@pytest.mark.parametrize("tz", BAD_TZ, ids=repr)
def test_the_time_zone_of_a_job_is_known(tz: Any) -> None:
    message = refusal(lambda: scheduler().cron("sync", "0 3 * * *", handler, tz=tz))
    assert message.startswith("job 'sync': ")
    assert f"tz is {tz!r}" in message


@pytest.mark.parametrize("schedule", ["10s", None, 5, Every, object(), "0 3 * * *"], ids=repr)
def test_a_schedule_is_one(schedule: Any) -> None:
    message = refusal(lambda: scheduler().add("sync", schedule, handler))
    assert message.startswith("job 'sync': schedule is ")
    assert repr(schedule) in message
    assert "next_after" in message


async def coroutine() -> None: ...


@pytest.mark.parametrize("wrong", [5, "handler", coroutine, lambda a, b: None], ids=repr)
def test_a_handler_can_be_called_with_its_context_or_with_nothing(wrong: Any) -> None:
    made = scheduler()
    for call in (
        lambda: made.every("sync", "10s", wrong),
        lambda: made.every("sync", "10s")(wrong),
        lambda: made.cron("sync", "0 3 * * *", wrong),
        lambda: made.add("sync", Every("10s"), wrong),
    ):
        message = refusal(call)
        assert message.startswith("job 'sync': ")
        assert repr(wrong) in message
    assert dict(made.jobs) == {}


def test_a_name_is_taken_once() -> None:
    made = scheduler()
    made.every("sync", "10s", handler)
    for call in (
        lambda: made.every("sync", "20s", handler),
        lambda: made.cron("sync", "0 3 * * *", handler),
        lambda: made.add("sync", Every("10s"), handler),
        lambda: made.every("sync", "20s"),
    ):
        assert "job 'sync' is declared already" in refusal(call)
    first, second = made.every("two", "10s"), made.every("two", "20s")
    first(handler)
    assert "job 'two' is declared already" in refusal(lambda: second(handler))
    assert made.jobs["two"].schedule == Every("10s")


def test_an_unknown_or_wrong_option_names_the_job() -> None:
    made: Any = scheduler()
    for call in (
        lambda: made.every("sync", "10s", handler, leese=5),
        lambda: made.cron("sync", "0 3 * * *", handler, leese=5),
        lambda: made.add("sync", Every("10s"), handler, leese=5),
    ):
        message = refusal(call)
        assert message.startswith("job 'sync': unknown option 'leese'")
        assert "'lease'" in message
    message = refusal(lambda: made.every("sync", "10s", handler, lease="soon"))
    assert message.startswith("job 'sync': option lease is 'soon'")


@pytest.mark.parametrize("name", ["other", *BAD_NAMES], ids=repr)
def test_what_is_removed_is_a_job(name: Any) -> None:
    made = scheduler()
    made.every("sync", "10s", handler)
    message = refusal(lambda: made.remove(name))
    assert repr(name) in message
    assert "'sync'" in message
    assert [*made.jobs] == ["sync"]


@pytest.mark.parametrize("limit", [0, -1, 1.0, "5", None, True])
def test_the_limit_of_a_history_is_a_number_from_one(limit: Any) -> None:
    message = refusal(lambda: scheduler().history(limit=limit))
    assert f"limit is {limit!r}" in message
    assert "right is an int from 1" in message


@pytest.mark.parametrize("job", [5, b"sync", "", ["sync"], "a\0b"])
def test_the_job_of_a_history_is_a_name(job: Any, tmp_path: Path) -> None:
    for store in ("memory://", tmp_path / "x.db"):
        made = Scheduler(store)
        message = refusal(partial(made.history, job))
        assert f"job is {job!r}" in message
        assert "None" in message


def test_a_history_without_end_is_all_of_it(tmp_path: Path) -> None:
    assert Scheduler(tmp_path / "x.db").history(limit=10**30) == []


@pytest.mark.parametrize(
    "timeout", [-1, float("nan"), "30", "30s", True, timedelta(1), [], 10**400]
)
@pytest.mark.parametrize("call", ["stop", "run"])
def test_a_timeout_is_seconds_or_none(timeout: Any, call: str) -> None:
    made = scheduler()
    message = refusal(lambda: getattr(made, call)(timeout=timeout))
    assert f"timeout is {timeout!r}" in message
    assert "right is seconds from 0, or None" in message
    assert not made.running


@pytest.mark.parametrize("slot", [datetime(2026, 1, 1), "2026-01-01", 5])
def test_the_slot_of_a_single_run_is_an_aware_datetime(slot: Any) -> None:
    made = scheduler()
    made.every("sync", "10s", handler)
    message = refusal(lambda: run_once(made, "sync", slot))
    assert message.startswith("job 'sync': slot is ")
    assert repr(slot) in message


def test_a_single_run_is_of_a_job_that_is_declared() -> None:
    made = scheduler()
    made.every("sync", "10s", handler)
    message = refusal(lambda: run_once(made, "synk", datetime(2026, 1, 1, tzinfo=UTC)))
    assert "'synk'" in message
    assert "'sync'" in message


def test_an_unknown_field_of_a_context_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        make_context(colour="red")


def test_a_working_directory_that_is_gone_is_no_reason_to_guess(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    before = Path.cwd()
    os.chdir(gone)
    try:
        gone.rmdir()
        with pytest.raises((ConfigurationError, OSError)):
            Scheduler("x.db")
    finally:
        os.chdir(before)
