"""The tools of servers make the claims that a backend makes, and who has none is told so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.requirements import require
from support.stores import PostgresView, RedisView

from benchmarks import limits
from benchmarks.measuring import Settings
from benchmarks.parts import servers
from benchmarks.servers import ENGINES
from benchmarks.sides import fresh_claims, job
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.model import Declaration, to_ms

BATCH, CALLS = 5, 3
FIELDS = ("slot", "token", "attempt", "instance", "trigger", "state")


@pytest.fixture
def pgbench() -> str:
    tool = limits.pgbench()
    require(tool, "pgbench is not installed")
    assert tool is not None
    return tool


@pytest.fixture
def redis_benchmark() -> str:
    tool = limits.redis_benchmark()
    require(tool, "redis-benchmark is not installed")
    assert tool is not None
    return tool


@pytest.fixture
def postgres() -> Iterator[tuple[PostgresBackend, PostgresView]]:
    view = PostgresView()
    backend = PostgresBackend(view.url)
    backend.open()
    backend.declare([Declaration(job(place), "every 1s") for place in range(BATCH)])
    yield backend, view
    backend.close()
    view.drop()


@pytest.fixture
def redis() -> Iterator[tuple[RedisBackend, RedisView]]:
    view = RedisView()
    backend = RedisBackend(view.url)
    backend.open()
    backend.claim(fresh_claims(1, 0))  # by which the server knows the script
    yield backend, view
    backend.close()
    view.drop()


def test_pgbench_makes_the_claims_of_the_next_slots(
    postgres: tuple[PostgresBackend, PostgresView], pgbench: str
) -> None:
    backend, view = postgres

    assert limits.by_pgbench(pgbench, backend, BATCH, CALLS, 7) > 0

    for place in range(BATCH):
        expected = [fresh_claims(BATCH, 8 + call)[place] for call in range(CALLS)]
        assert [[run[name] for name in FIELDS] for run in view.runs(job(place))] == [
            [to_ms(claim.slot), claim.token, 1, claim.instance, claim.trigger, "success"]
            for claim in expected
        ]


def test_redis_benchmark_makes_the_claims_of_other_jobs(
    redis: tuple[RedisBackend, RedisView], redis_benchmark: str
) -> None:
    backend, view = redis

    assert limits.by_redis_benchmark(redis_benchmark, backend, BATCH, CALLS) > 0

    (claim, *_others) = fresh_claims(BATCH, 0)
    with backend._server.usable() as wire:
        places = [each.decode() for each in wire.command("HKEYS", backend._server.keys[2])]
    jobs = {place.split(":")[1] for place in places} - {job(0)}
    assert len(jobs) == BATCH * CALLS
    for name in jobs:
        (run,) = view.runs(name)
        assert [run[field] for field in ("slot", "attempt", "instance", "state")] == [
            to_ms(claim.slot),
            1,
            claim.instance,
            "claimed",
        ]


def test_claims_that_are_not_won_are_no_limit(
    postgres: tuple[PostgresBackend, PostgresView], pgbench: str
) -> None:
    limits.by_pgbench(pgbench, postgres[0], BATCH, CALLS, 7)

    with pytest.raises(limits.ToolFailed, match=f"0 of {BATCH * CALLS} claims were won"):
        limits.by_pgbench(pgbench, postgres[0], BATCH, CALLS, 7)


def test_a_tool_that_fails_is_told_with_what_it_says(
    redis: tuple[RedisBackend, RedisView], tmp_path: Path
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 'no such server' >&2\nexit 1\n")
    tool.chmod(0o755)

    with pytest.raises(limits.ToolFailed, match="tool: no such server"):
        limits.by_redis_benchmark(str(tool), redis[0], BATCH, CALLS)


def test_a_tool_that_is_missing_is_said_to_be_so_and_the_rest_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rates = {(name, what): 1.0 for name in ENGINES for what in ("claims", "calls", "runs")}
    rates["PostgreSQL", "tool"] = 2.0
    absent: Any = ("redis-benchmark", lambda: None, "redis-tools")
    present: Any = ("pgbench", lambda: "/bin/pgbench", "postgresql-contrib")
    monkeypatch.setattr(servers, "_TOOLS", {"Valkey": absent, "PostgreSQL": present})
    monkeypatch.setattr(servers, "find_spec", lambda _module: True)
    monkeypatch.setattr(servers, "_round", lambda _settings, _there: rates)

    measured = servers.measure(Settings(tmp_path, rounds=1))

    named = [figure.what for figure in measured.figures]
    assert any(what.endswith("of pgbench") for what in named)
    assert not any("redis-benchmark" in what for what in named)
    assert sum(what.startswith("Valkey") for what in named) == 4
    assert measured.notes == (
        "redis-benchmark is not installed (apt install redis-tools): no limit of Valkey",
    )
