"""The tables of the README hold what the code holds."""

import dataclasses
import inspect
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from support.readme import TEXT, in_code, names, table

import leasecron
from leasecron import AbortSignal, Event, JobOptions, RunResult, Scheduler, StoreFailed
from leasecron.events import EVENT_NAMES
from leasecron.model import Reason, SkipReason, Status, Trigger
from leasecron.testing import Cluster, make_context

OPTIONS = JobOptions()
HOUR = 3600.0

MEANINGS: dict[tuple[str, str], bool] = {
    ("lease", "20 s"): OPTIONS.lease == 20.0,
    ("heartbeat", "lease / 4"): OPTIONS.heartbeat == OPTIONS.lease / 4,
    ("max_late", "5 min"): OPTIONS.max_late == 300.0,
    ("catch_up", "`max_late`, for slots since the job was first seen in the store"): (
        OPTIONS.catch_up == OPTIONS.max_late and OPTIONS.catch_up_since_first_seen
    ),
    ("timeout", "none"): OPTIONS.timeout is None,
    ("jitter", "up to 0.5 s"): OPTIONS.jitter is None and OPTIONS.jitter_for(HOUR) == 0.5,
    ("overlap", '`"skip"`'): OPTIONS.overlap == "skip",
    ("max_attempts", "3"): OPTIONS.max_attempts == 3,
    ("retries", "0"): OPTIONS.retries == 0,
    ("backoff", "10 s"): OPTIONS.backoff == 10.0,
    ("backoff_max", "10 min"): OPTIONS.backoff_max == 600.0,
    ("retry_on", "`Exception`"): OPTIONS.retry_on == (Exception,),
    ("pause_on_failure", "False"): OPTIONS.pause_on_failure is False,
    ("keep", "1000 records and at least 24 h"): (
        (OPTIONS.retention("job").records, OPTIONS.retention("job").age) == (1000, 24 * HOUR)
    ),
}
"""What each default of the table of options says, and whether it is so."""

COMMON = {"at", "job", "slot", "instance"}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def fields(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def test_the_table_of_options_has_every_option_with_its_default() -> None:
    rows = [(names(name)[0], default) for name, default, _ in table("| option |")]
    assert rows == list(MEANINGS)
    assert [row for row, true in MEANINGS.items() if not true] == []
    assert [name for name, _ in rows] == [name for name in fields(JobOptions) if name != "given"]


def test_the_table_of_events_has_every_class_with_its_fields() -> None:
    rows = table("| event |")
    assert tuple(names(event)[0] for event, _, _ in rows) == EVENT_NAMES
    for event, kind, more in rows:
        cls = getattr(leasecron, names(kind)[0])
        assert cls.name == names(event)[0]
        own = [name for name in fields(cls) if name not in COMMON]
        allowed = {*get_args(SkipReason), *(COMMON if cls is StoreFailed else ())}
        assert [name for name in names(more) if name not in allowed] == own
        assert set(fields(cls)) >= COMMON
    assert {names(kind)[0] for _, kind, _ in rows} == {kind.__name__ for kind in get_args(Event)}


def test_the_table_of_skips_and_reasons_names_all_of_them() -> None:
    skip = next(more for event, _, more in table("| event |") if names(event) == ["skip"])
    assert set(names(skip)) - {"reason", "holder"} == set(get_args(SkipReason))
    rows = {names(first)[0]: second for first, second in table("| `ctx.` |")}
    assert set(get_args(Reason)) <= set(names(rows["signal"]))
    assert set(get_args(Trigger)) <= set(names(rows["job"]))


def test_the_table_of_the_context_has_every_attribute() -> None:
    rows = table("| `ctx.` |")
    assert {name for first, _ in rows for name in names(first)} == public(make_context())
    signal = next(second for first, second in rows if names(first) == ["signal"])
    ours = {"set", "told", "look_at"}
    assert set(names(signal)) - set(get_args(Reason)) == public(AbortSignal) - ours


def test_the_methods_of_the_table_exist_with_these_parameters() -> None:
    section = TEXT.partition("### Scheduler")[2].partition("| |")
    signature = in_code(section[0])[0]
    assert signature == f"Scheduler{shown(Scheduler.__init__)}"
    for row in table("| | |"):
        for code in in_code(row[0]):
            name, called, rest = code.partition("(")
            assert hasattr(Scheduler, name), name
            if called:
                known = inspect.signature(getattr(Scheduler, name)).parameters
                for parameter in filter(None, rest.rstrip(")").split(", ")):
                    bare = parameter.partition("=")[0].lstrip("*")
                    assert bare == "" or bare in known, code


def shown(function: Any) -> str:
    """Return the parameters of ``function`` as the page writes them."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in [*inspect.signature(function).parameters.values()][1:]
    ]
    text = str(inspect.Signature(parameters)).replace("'", '"')
    return text.replace("defaults=None", "defaults=JobOptions()")


def test_results_and_statuses_are_those_of_the_code() -> None:
    assert f"`RunResult({', '.join(fields(RunResult))})`" in TEXT
    paragraph = next(part for part in TEXT.split("\n\n") if part.startswith("`RunResult("))
    assert set(get_args(Status)) <= set(in_code(paragraph))


def test_the_names_of_the_events_are_listed_in_order() -> None:
    assert f"`{' '.join(EVENT_NAMES)}`" in TEXT


@pytest.mark.parametrize("name", ["runs", "results", "jobs", "pauses", "backfills"])
def test_the_tables_of_the_store_have_the_columns_that_readers_are_told(
    tmp_path: Path, name: str
) -> None:
    with Scheduler(tmp_path / "store.db"):
        pass
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
    told = re.search(rf"`{name}\(([\w, ]+)\)`", TEXT)
    assert told is not None
    assert sorted(told.group(1).split(", ")) == sorted(columns)


def test_the_table_of_a_cluster_has_all_that_it_has() -> None:
    said = [name for what, _ in table("| `cluster.` |") for name in names(what)]
    assert {"setup"} | {*said} == public(Cluster(1)) - {"start", "close"}
