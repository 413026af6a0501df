"""What a store in a server holds after a chaos run."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import redis

from chaos.jobs import Work
from chaos.kept import Claimed, Kept, Record
from leasecron.backends.postgres.urls import Address
from leasecron.backends.redis.scripts import keys_of
from leasecron.backends.redis.urls import DEFAULT_PREFIX

_RECORDS = """
    SELECT job, slot, attempt, fence, instance, status FROM results
    WHERE job = ANY (%s) ORDER BY fence
"""
_CLAIMS = """
    SELECT job, slot, token, instance, attempt, state, fence, released_fence FROM runs
    WHERE job = ANY (%s)
"""

# By the names of their entries, which begin with the length of the job's, of runs that stand in
# place of no others behind a sign. Rows are packed, without what their names say.
_OF_A_JOB = """
    local _meta, _jobs, runs, slots, _open, _pruned, records, history = unpack(KEYS, 1, 8)
    local head = #ARGV[1] .. ':' .. ARGV[1] .. ':'
    local found = {}
    for _, apart in ipairs({'', '+', '-'}) do
        local first = apart .. head
        local listed = redis.call('ZRANGEBYLEX', slots, '[' .. first, '(' .. first .. ':')
        for _, name in ipairs(listed) do
            local place = string.sub(name, #apart + 1)
            local state, token, attempt, _lost, fence, released, instance =
                cmsgpack.unpack(redis.call('HGET', runs, place))
            local slot = string.sub(place, #head + 1)
            found[#found + 1] = cjson.encode({
                slot, token or '', instance, attempt, state, fence, released or cjson.null
            })
        end
    end
    local known = {}
    for _, place in ipairs(redis.call('ZRANGEBYLEX', history, '[' .. head, '(' .. head .. ':')) do
        known[#known + 1] = redis.call('HGET', records, string.sub(place, #head + 1))
    end
    return {found, known}
"""


class ContentsOfPostgres:
    """A schema of a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        self._address = Address.of(url)

    def integrity(self) -> str:
        """Return ``ok``: the server checks its own pages."""
        return "ok"

    def of(self, works: Sequence[Work]) -> Kept:
        """Return what is kept of these jobs."""
        jobs = [work.name for work in works]
        kept = Kept()
        path = f"-c search_path={self._address.schema}"
        with psycopg.connect(self._address.conninfo, options=path) as connection:
            kept.records += [Record(*row) for row in connection.execute(_RECORDS, [jobs])]
            for job, slot, *row in connection.execute(_CLAIMS, [jobs]):
                kept.claims[job, slot] = Claimed(*row)
        return kept


class ContentsOfRedis:
    """The keys of a Redis database that begin with the prefix of stores."""

    def __init__(self, url: str, prefix: str = DEFAULT_PREFIX) -> None:
        self._client: Any = redis.from_url(url)
        self._keys = keys_of(prefix)

    def integrity(self) -> str:
        """Return ``ok`` where no record and no row is out of reach by the name of its job."""
        _meta, _jobs, runs, slots, _open, _pruned, records, history, *_ = self._keys
        rows = self._client.hlen(runs), self._client.zcard(slots)
        entries = 2 * self._client.hlen(records), self._client.zcard(history)
        for kept, listed in (rows, entries):
            if kept != listed:
                return f"{kept} are kept, and {listed} are listed"
        return "ok"

    def of(self, works: Sequence[Work]) -> Kept:
        """Return what is kept of these jobs."""
        kept = Kept()
        for work in works:
            found, known = self._client.eval(_OF_A_JOB, len(self._keys), *self._keys, work.name)
            for slot, *row in map(json.loads, found):
                kept.claims[work.name, int(slot) - 10**15] = Claimed(*row)
            kept.records += _records(known)
        kept.records.sort(key=lambda record: record.fence or 0)
        return kept


def _records(known: Sequence[bytes]) -> Iterator[Record]:
    for text in known:
        _ended_at, fence, job, slot, attempt, instance, _trigger, status, *_ = json.loads(text)
        yield Record(job, slot, attempt, fence, instance, status)
