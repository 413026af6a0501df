"""What the benchmarks call the raw limit writes what the backend writes, and all ways are won."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.raw import RawStore
from benchmarks.sides import Direct, Queued, Side, all_closed, fresh_claims, rates, raw
from leasecron.backends.sqlite.backend import SqliteBackend

MOMENTS = {"claimed_at", "lease_until", "lease_mono", "fence"}
"""The columns that depend on when a claim was made."""


def written(file: Path) -> list[dict[str, Any]]:
    with sqlite3.connect(file) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM runs ORDER BY job").fetchall()
    connection.close()
    return [dict(row) for row in rows]


def noted(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(
            "SELECT name, schedule, newest FROM jobs ORDER BY name"
        ).fetchall()


def test_plain_sqlite3_writes_the_rows_that_the_backend_writes(tmp_path: Path) -> None:
    claims = fresh_claims(3, 0)
    sides: dict[str, Side] = {
        "raw": raw(tmp_path / "raw.db", 3),
        "direct": Direct(tmp_path / "direct.db", 3),
    }

    with all_closed(sides):
        for side in sides.values():
            assert side.claim(claims) > 0

    plain, ours = written(tmp_path / "raw.db"), written(tmp_path / "direct.db")
    assert len(plain) == 3
    assert noted(tmp_path / "raw.db") == noted(tmp_path / "direct.db")
    for row, own in zip(plain, ours, strict=True):
        assert {name for name in row if row[name] != own[name]} <= MOMENTS
        assert [type(value) for value in row.values()] == [type(value) for value in own.values()]
        assert row["lease_until"] - row["claimed_at"] == own["lease_until"] - own["claimed_at"]


def test_the_backend_takes_those_rows_for_runs_that_are_held(tmp_path: Path) -> None:
    claims = fresh_claims(2, 0)
    store = raw(tmp_path / "raw.db", 2)
    backend = SqliteBackend(tmp_path / "raw.db")
    backend.open()

    others = [replace(claim, token="of another") for claim in claims]
    store.claim(claims)
    held = [answer.outcome for answer in backend.claim(others)]
    store.end(claims)
    ended = [answer.outcome for answer in backend.claim(others)]

    assert (held, ended) == (["running"] * 2, ["done"] * 2)
    store.close()
    backend.close()


def test_plain_sqlite3_is_as_durable_as_the_backend(tmp_path: Path) -> None:
    raw(tmp_path / "raw.db", 1).close()
    store = RawStore(tmp_path / "raw.db")

    assert store.durability() == ("wal", 2)
    store.close()


def test_all_ways_take_turns_until_each_was_measured_for_long_enough(tmp_path: Path) -> None:
    ways: dict[str, Callable[[Path, int], Side]] = {
        "raw": raw,
        "direct": Direct,
        "queued": Queued,
    }
    sides = {name: way(tmp_path / f"{name}.db", 10) for name, way in ways.items()}

    with all_closed(sides):
        found = rates(sides, 10, 0.01)

    assert found.keys() == ways.keys()
    assert min(found.values()) > 0
    assert len({len(written(tmp_path / f"{name}.db")) for name in ways}) == 1
    assert {row["state"] for name in ways for row in written(tmp_path / f"{name}.db")} == {
        "success"
    }
