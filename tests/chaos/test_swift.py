"""The many short runs of a chaos run: when they are due, and how they are written and judged."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.servers import redis_url
from support.stores import PostgresView, RedisView

from chaos.check_slots import LOST, RUN
from chaos.checker import check_jobs
from chaos.jobs import WORKS, parts, swift, work_of
from chaos.kept import Contents, ContentsOfFiles
from chaos.kept_in_servers import ContentsOfPostgres, ContentsOfRedis
from chaos.log import Log, path_of_part, read_lines
from chaos.place import Place
from chaos.script import Script
from chaos.verdict import Verdict
from leasecron import RunResult
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.model import Claim, from_ms

AnyBackend = SqliteBackend | LockDirBackend | PostgresBackend | RedisBackend

SWIFT = swift(7)  # 431 ms after the second


@pytest.mark.parametrize("milliseconds", [0, 430, 431, 432, 999, -1])
def test_its_slots_are_those_of_its_schedule(milliseconds: int) -> None:
    schedule, t = SWIFT.schedule, datetime(2026, 3, 1, tzinfo=UTC)
    t += timedelta(milliseconds=milliseconds)
    latest, following = schedule.latest_at(t), schedule.next_after(t)
    assert latest is not None
    assert following is not None
    assert latest <= t < following == schedule.next_after(latest)
    slots = SWIFT.slots(t.timestamp() - 1.0, t.timestamp() + 1.0)
    assert {latest, following} <= {from_ms(slot) for slot in [*slots, slots[-1] + 1000]}


@pytest.mark.parametrize("rate", [10, 100, 1000])
def test_however_many_there_are_they_are_spread_over_the_second(rate: int) -> None:
    offsets = sorted(work.offset for part in parts(rate) for work in part)
    gaps = [b - a for a, b in zip(offsets, [*offsets[1:], offsets[0] + 1000], strict=True)]
    assert max(gaps) <= 2 * 1000 / rate


def test_each_is_in_one_part_and_known_by_its_name() -> None:
    swifts = [work for part in parts(120) for work in part]
    assert swifts == [swift(number) for number in range(120)]
    assert [work_of(work.name) for work in (*WORKS, *swifts)] == [*WORKS, *swifts]
    assert parts(0) == []


# The log


def test_what_a_killed_process_has_not_finished_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Log(path, 1).note("begin", m=2.0, token="a", told=None)
    with path.open("a") as torn:
        torn.write('\n{"what": "end", "m": 3.0, "li')
    Log(path, 2).note("end", m=1.0, token="b")
    assert read_lines(path) == [
        {"what": "end", "m": 1.0, "life": 2, "token": "b"},
        {"what": "begin", "m": 2.0, "life": 1, "token": "a"},
    ]


def test_a_part_has_a_log_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Log(path).note("all")
    Log(path_of_part(path, 3)).note("part")
    assert [line["what"] for line in read_lines(path)] == ["all"]


# The checker


def of_swift_jobs(until: float, *, but: float) -> Script:
    """Let a part of them run in time, but for the slot of one of them."""
    script = Script()
    for life in (1, 2):
        script.process(life, until=until)
    for work in (SWIFT, swift(8)):
        script.every_slot(work.name, until, but=but)
    return script


def judged(script: Script) -> Verdict:
    return check_jobs(script.story_of_part(), script.kept, [SWIFT, swift(8)])


def test_a_part_is_judged_by_what_befell_the_processes() -> None:
    verdict = judged(of_swift_jobs(20.0, but=-1.0))
    assert verdict.violations == []
    assert verdict.slots == {RUN: 40}
    assert verdict.attempts == {"returned": 40}
    assert verdict.records == {"success": 40}


def test_a_slot_of_a_swift_job_that_is_lost_is_found() -> None:
    verdict = judged(of_swift_jobs(20.0, but=12.0 + SWIFT.offset / 1000))
    assert verdict.slots == {RUN: 39, LOST: 1}
    assert [f"of {SWIFT.name}," in each.what for each in verdict.violations] == [True]


def test_a_run_of_a_swift_job_that_is_won_twice_is_found() -> None:
    script = of_swift_jobs(20.0, but=-1.0)
    at = 12.0 + SWIFT.offset / 1000
    script.attempt(SWIFT.name, at, at + 0.015, at + 0.025, life=2, number=2)
    whats = [each.what for each in judged(script).violations]
    assert "a run with two ends" in whats
    assert "a run was begun again after its end" in whats


def test_verdicts_add_up() -> None:
    both, other = judged(of_swift_jobs(20.0, but=-1.0)), Verdict(takeovers=2, given_up=1)
    both.add(judged(of_swift_jobs(20.0, but=12.0 + SWIFT.offset / 1000)))
    both.add(other)
    assert len(both.violations) == 1
    assert both.slots == {RUN: 79, LOST: 1}
    assert both.attempts.total() == both.records.total() == 79
    assert (both.takeovers, both.given_up) == (2, 1)


# The store


@pytest.mark.parametrize("kind", ["sqlite", "lockdir"])
def test_what_a_store_keeps_is_read_in_parts(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "store"
    path = folder / "leasecron.db" if kind == "sqlite" else folder
    place = Place(f"{kind}:///{path}", "auto")
    folder.mkdir()
    backend: SqliteBackend | LockDirBackend
    backend = SqliteBackend(path) if kind == "sqlite" else LockDirBackend(path, create=True)
    _check_parts(backend, ContentsOfFiles(place))


def test_what_a_postgresql_store_keeps_is_read_in_parts() -> None:
    view = PostgresView()
    _check_parts(PostgresBackend(view.url), ContentsOfPostgres(view.url))
    view.drop()


def test_what_a_redis_store_keeps_is_read_in_parts() -> None:
    view = RedisView()
    contents = ContentsOfRedis(redis_url(), view.prefix)
    _check_parts(RedisBackend(view.url), contents)
    view._client.zremrangebyrank(f"{{{view.prefix}}}:slots", 0, 0)
    assert contents.integrity() == "3 are kept, and 2 are listed"
    view.drop()


def _check_parts(backend: AnyBackend, contents: Contents) -> None:
    backend.open()
    slot = datetime.now(UTC).replace(microsecond=0)
    for name in ("swift-1", "swift-2", "quick"):
        _run(backend, name, slot)
    backend.close()
    assert contents.integrity() == "ok"
    for names in (["swift-1", "swift-2"], ["quick"], ["swift-9"]):
        kept = contents.of([work_of(name) for name in names])
        runs = {(name, round(slot.timestamp() * 1000)) for name in names if name != "swift-9"}
        assert kept.claims.keys() == {record.run for record in kept.records} == runs
        assert {claim.token for claim in kept.claims.values()} == {run[0] for run in runs}
        assert {(each.instance, each.attempt) for each in kept.records} <= {("0-1", 1)}


def _run(backend: AnyBackend, name: str, slot: datetime) -> None:
    claim = Claim(
        job=name,
        slot=slot,
        token=name,
        instance="0-1",
        lease=20.0,
        overlap="allow",
        max_attempts=3,
        max_late=60.0,
    )
    (answer,) = backend.claim([claim])
    result = RunResult(
        job=name,
        slot=slot,
        attempt=1,
        fence=answer.fence,
        instance="0-1",
        trigger="scheduled",
        status="success",
        started_at=slot,
        ended_at=slot,
        duration=0.0,
        error=None,
    )
    backend.save_results([result])
