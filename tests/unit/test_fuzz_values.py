"""Whatever is given for a name, a schedule, a zone or a store: the documented errors only.

Each test draws the same values each time. More of them: ``pytest -m slow``; others, or a failure
again: ``--hypothesis-seed=N`` with the seed that a failure prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasecron import ConfigurationError, Cron, Every, JobOptions, Scheduler
from leasecron.backends.urls import backend_for
from leasecron.errors import MOST
from leasecron.schedules import Schedule

fast = settings(max_examples=100, derandomize=True, deadline=2000)
deep = settings(max_examples=1000, deadline=5000, print_blob=True)

ANY_TEXT = st.text(st.characters(codec=None), max_size=40) | st.text(max_size=2000)
NUMBERS = st.integers() | st.floats() | st.integers(0, 10**400)
OBJECTS = st.one_of(
    st.none(), st.booleans(), NUMBERS, ANY_TEXT, st.binary(max_size=20), st.timedeltas(),
    st.datetimes(), st.lists(st.integers(), max_size=3), st.just(object()), st.just(Path("x")),
)  # fmt: skip

_FIELD = st.one_of(
    st.sampled_from(
        ["*", "*/5", "0", "59", "60", "7", "1-5", "5-1", "L", "LW", "5L", "L-3", "MON", "JAN-DEC",
         "MON#5", "1#9", "*/0", "*/-1", "?", "1,2,3", "1,", ",", "-", "/", "W", "15W", "31", "30"]
    ),
    st.integers(-1, 10**6).map(str),
    st.text("0123456789*/-,#LWJANMO@ ", max_size=8),
)  # fmt: skip
EXPRESSIONS = st.one_of(
    st.lists(_FIELD, min_size=4, max_size=7).map(" ".join),
    st.sampled_from(["@daily", "@hourly", "@reboot", "@", "0 0 29 2 *", "0 0 31 2 *"]),
    ANY_TEXT,
)
_PARTS = st.sampled_from(
    ["1", "0", "10", "1.5", "9" * 30, "s", "ms", "m", "h", "d", "w", "us", "y"]
)
DURATIONS = st.lists(_PARTS, max_size=6).map("".join) | OBJECTS
ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "../UTC",
        "/etc/passwd",
        "europe/berlin",
        "",
        ".",
        "posixrules",
        "Europe",
    ]
) | st.text(max_size=300)
_WORDS = st.sampled_from(
    ["sqlite:", "lockdir:", "memory:", "/", "//", "///", "////", "x", ".db", ".sqlite", "..", ".",
     "?", "&", "mode=", "0660", "journal=", "wal", "durability=", "full", "%2e", "#", "\0", "\n",
     "~", "file:", ":memory:", "é", "\udcff", "x" * 3000]
)  # fmt: skip
STORES = st.lists(_WORDS, max_size=8).map("".join) | OBJECTS

NOW = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def handler() -> None: ...


def refused_or(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or None where it says with its error what would be right."""
    try:
        return call()
    except ConfigurationError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) < MOST + 100
        return None


def check_name(name: Any) -> None:
    made = Scheduler("memory://")
    if refused_or(lambda: made.every(name, "10s", handler)) is not None:
        assert [*made.jobs] == [name]
        assert Scheduler("memory://", instance=name).instance == name
        made.remove(name)
    refused_or(lambda: Scheduler("memory://", instance=name))
    refused_or(lambda: made.remove(name))


def check_schedule(schedule: Schedule | None) -> None:
    if schedule is None:
        return
    after, before = schedule.next_after(NOW), schedule.latest_at(NOW)
    assert after is None or after > NOW
    assert before is None or before <= NOW


def check_expression(expression: Any, zone: Any) -> None:
    check_schedule(refused_or(lambda: Cron(expression, zone)))


def check_duration(value: Any) -> None:
    check_schedule(refused_or(lambda: Every(value)))
    for name in ("lease", "heartbeat", "max_late", "catch_up", "timeout", "jitter", "keep"):
        made = refused_or(partial(JobOptions, **{name: value}))
        found = None if made is None else getattr(made, name)
        assert found is None or 0 <= found <= timedelta(days=3653).total_seconds()


def check_store(store: Any, folder: Path) -> None:
    os.chdir(folder)
    backend = refused_or(lambda: backend_for(store))
    assert backend is None or backend.kind in {"lease", "claim-only"}
    assert [*folder.iterdir()] == []


@fast
@given(ANY_TEXT | OBJECTS)
def test_a_name_is_taken_or_refused(name: Any) -> None:
    check_name(name)


@fast
@given(EXPRESSIONS | OBJECTS, ZONES | OBJECTS)
def test_an_expression_and_a_zone_are_taken_or_refused(expression: Any, zone: Any) -> None:
    check_expression(expression, "UTC")
    check_expression("0 3 * * *", zone)


@fast
@given(DURATIONS)
def test_a_duration_is_taken_or_refused(value: Any) -> None:
    check_duration(value)


in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@settings(in_one_folder, max_examples=100, derandomize=True, deadline=2000)
@given(STORES)
def test_a_store_is_taken_or_refused_and_nothing_is_made(folder: Path, store: Any) -> None:
    check_store(store, folder)


@pytest.mark.slow
@settings(deep, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_many_values_are_taken_or_refused(folder: Path, data: st.DataObject) -> None:
    check_name(data.draw(ANY_TEXT | OBJECTS))
    check_expression(data.draw(EXPRESSIONS | OBJECTS), data.draw(ZONES | OBJECTS))
    check_duration(data.draw(DURATIONS))
    check_store(data.draw(STORES), folder)
