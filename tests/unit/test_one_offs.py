"""``at()``: a job that runs once, in one instance, at the instant that was declared first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from runs_support import SEEDS, Fleet, at, seconds

from leasecron import ConfigurationError, LockDirBackend, Once, Scheduler


@pytest.fixture
def runs() -> list[float]:
    return []


def declare(fleet: Fleet, runs: list[float], when: Any, **options: Any) -> None:
    handler = lambda: runs.append(seconds(fleet.clock))  # noqa: E731
    fleet.instance().scheduler.at("mail", when, handler, **options)


@pytest.mark.parametrize("seed", SEEDS)
def test_four_workers_that_say_in_an_hour_make_one_run(fleet: Fleet, runs: list[float]) -> None:
    for _ in range(4):
        declare(fleet, runs, "1h")
        fleet.instances[-1].start()
        fleet.clock.advance(60)
    fleet.until(2 * 3600)

    assert runs == [4.5 + 3600]
    assert {i.scheduler.jobs["mail"].schedule for i in fleet.instances} == {Once(at(3604.5))}
    assert all(instance.of("error") == [] for instance in fleet.instances)
    fleet.memory.open(fleet.clock)
    assert [job.schedule for job in fleet.memory.jobs()] == [str(Once(at(3604.5)))]  # type: ignore[union-attr]
    fleet.memory.close()


@pytest.mark.parametrize("when", [at(100), timedelta(seconds=95.5), "95s500ms", 95.5])
def test_it_runs_at_an_instant_or_after_a_time(
    fleet: Fleet, runs: list[float], when: object
) -> None:
    declare(fleet, runs, when)
    fleet.start()
    before = fleet.instances[0].scheduler.jobs["mail"]
    fleet.until(500)
    after = fleet.instances[0].scheduler.jobs["mail"]

    assert runs == [100]
    assert (before.next_slot, after.next_slot) == (at(100), None)
    (record,) = fleet.history("mail")
    assert (record.slot, record.trigger) == (at(100), "scheduled")


def test_declared_again_after_it_ran_it_does_nothing(fleet: Fleet, runs: list[float]) -> None:
    declare(fleet, runs, at(100))
    fleet.start()
    fleet.until(200)
    declare(fleet, runs, at(300))
    fleet.instances[-1].start()
    fleet.until(1000)

    assert runs == [100]


def test_an_instant_that_passed_while_all_were_down_is_caught_up(
    fleet: Fleet, runs: list[float]
) -> None:
    declare(fleet, runs, at(100))
    fleet.start()
    fleet.instances[0].scheduler.stop()
    fleet.until(300)
    declare(fleet, runs, at(900))
    fleet.instances[-1].start()
    fleet.until(310)

    assert runs == [300]
    assert fleet.history("mail")[0].trigger == "catch-up"


def test_an_instant_that_passed_too_long_ago_is_not(fleet: Fleet, runs: list[float]) -> None:
    declare(fleet, runs, at(100), catch_up=60)
    fleet.start()
    fleet.instances[0].scheduler.stop()
    fleet.until(300)
    fleet.start()
    fleet.until(1000)

    assert runs == []


def test_an_instant_in_the_past_runs_at_once_in_a_new_store(
    fleet: Fleet, runs: list[float]
) -> None:
    declare(fleet, runs, at(-60))
    fleet.start()
    fleet.until(10)

    assert runs == [4.5]


def test_nothing_is_armed_before_the_store_has_fixed_the_instant(
    fleet: Fleet, runs: list[float]
) -> None:
    declare(fleet, runs, at(100))
    fleet.start()
    declare(fleet, runs, at(50))
    fleet.instances[-1].store.break_("fix")
    fleet.instances[-1].start()
    fleet.until(60)
    assert runs == []
    assert [event.operation for event in fleet.instances[-1].of("error")][:1] == ["fix"]
    fleet.instances[-1].store.heal()
    fleet.until(110)

    assert runs == [100]
    assert fleet.instances[-1].scheduler.jobs["mail"].schedule == Once(at(100))


def test_it_is_a_decorator_too(fleet: Fleet) -> None:
    calls: list[str] = []

    @fleet.instance().scheduler.at("mail", at(100), timeout="5m")
    def send() -> None:
        calls.append("sent")

    fleet.start()
    fleet.until(101)

    assert calls == ["sent"]


@pytest.mark.parametrize(
    "when", [datetime(2026, 1, 1), "tomorrow", -5, None, float("nan"), "1h ago", []]
)
def test_what_is_no_instant_is_refused(fleet: Fleet, when: object) -> None:
    with pytest.raises(ConfigurationError, match="job 'mail': when is"):
        declare(fleet, [], when)


def test_a_store_of_claims_alone_refuses(tmp_path: object) -> None:
    scheduler = Scheduler(LockDirBackend(f"{tmp_path}/locks", create=True))

    with pytest.raises(ConfigurationError, match="job 'mail': a job that runs once needs a store"):
        scheduler.at("mail", "1h", print)


def test_once_is_a_schedule_of_one_slot() -> None:
    slot = datetime(2026, 1, 1, 12, 0, 0, 999_999, tzinfo=UTC)
    once = Once(slot)
    cut = slot.replace(microsecond=999_000)

    assert (once.instant, str(once)) == (cut, "once at 2026-01-01T12:00:00.999000+00:00")
    assert once.next_after(cut - timedelta(milliseconds=1)) == cut
    assert once.next_after(cut) is None
    assert once.latest_at(cut) == cut
    assert once.latest_at(cut - timedelta(milliseconds=1)) is None
    for ask in (once.next_after, once.latest_at):
        with pytest.raises(ConfigurationError):
            ask(datetime(2026, 1, 1))
    far = [datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))]
    far += [datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))]
    for wrong in (datetime(2026, 1, 1), "2026-01-01", None, *far):
        with pytest.raises(ConfigurationError, match="instant is"):
            Once(wrong)  # type: ignore[arg-type]
