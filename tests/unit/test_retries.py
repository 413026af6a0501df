"""A run that fails is tried again: by its holder, and after a takeover by whoever has it then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, seconds

from leasecron import ConfigurationError, GiveUp, JobOptions, RunContext
from leasecron.runs import LiveRun
from leasecron.workers import Workers


class Failing:
    """A handler that fails so many times, and notes when and as what it was called."""

    def __init__(
        self,
        fleet: Fleet,
        times: int,
        error: Callable[[], BaseException] = lambda: ValueError("no"),
    ) -> None:
        self.fleet = fleet
        self.times = times
        self.error = error
        self.calls: list[tuple[int, int]] = []
        self.began: list[float] = []

    def __call__(self, ctx: RunContext) -> None:
        self.calls.append((ctx.attempt, ctx.retry))
        self.began.append(seconds(self.fleet.clock))
        if len(self.calls) <= self.times:
            raise self.error()


def failures(instance: Instance) -> list[tuple[int, bool]]:
    return [(event.result.retries, event.will_retry) for event in instance.of("failure")]


def by_start(one: Instance, two: Instance) -> tuple[Instance, Instance]:
    """Return the one of two that has begun a run first, and then the other."""
    assert bool(one.of("start")) != bool(two.of("start"))
    return (one, two) if one.of("start") else (two, one)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_fails_is_tried_again_in_its_attempt(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 2)
    one.every(600, handler, retries=2, backoff=10)
    fleet.start()
    fleet.until(700)

    assert handler.calls == [(1, 0), (1, 1), (1, 2)]
    assert one.told == ["start", "failure", "start", "failure", "start", "success"]
    assert failures(one) == [(0, True), (1, True)]
    assert [event.retry for event in one.of("start")] == [0, 1, 2]
    told = [event.at for event in one.events]
    assert told == sorted(told)
    assert told[2] - told[1] >= timedelta(seconds=7.5)
    (record,) = fleet.history()
    assert (record.status, record.attempt, record.retries) == ("success", 1, 2)
    assert record.error == "ValueError: no"
    first, second, third = handler.began
    assert 7.5 <= second - first <= 10
    assert 15 <= third - second <= 20


def test_only_the_last_failure_makes_the_run_failed(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 10)
    one.every(600, handler, retries=1, backoff=10)
    fleet.start()
    fleet.until(700)

    assert failures(one) == [(0, True), (1, False)]
    assert [type(event.exception) for event in one.of("failure")] == [ValueError, ValueError]
    (record,) = fleet.history()
    assert (record.status, record.retries) == ("failed", 1)


def test_without_retries_nothing_is_tried_again(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, Failing(fleet, 10))
    fleet.start()
    fleet.until(700)

    assert failures(one) == [(0, False)]
    assert one.store.of("retry") == []


def test_the_lease_is_kept_while_the_run_waits(fleet: Fleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    handlers = [Failing(fleet, 1), Failing(fleet, 1)]
    for instance, handler in zip((one, two), handlers, strict=True):
        instance.every(600, handler, retries=1, backoff=10 * LEASE)
    fleet.start()
    fleet.until(600 + 11 * LEASE)

    calls = sorted((handler.calls for handler in handlers), key=len)
    assert calls == [[], [(1, 0), (1, 1)]]


def test_the_backoff_doubles_up_to_its_maximum(fleet: Fleet) -> None:
    options = JobOptions(backoff="10s", backoff_max="1m")

    assert [options.retry_delay(n, 0.0) for n in range(1, 6)] == [10, 20, 40, 60, 60]
    assert options.retry_delay(1, 1.0) == 7.5
    assert options.retry_delay(1000, 0.0) == 60


def test_whoever_takes_the_run_over_goes_on_with_the_count(fleet: Fleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    handlers = {instance: Failing(fleet, 10) for instance in (one, two)}
    for instance, handler in handlers.items():
        instance.every(600, handler, retries=2, backoff=30)
    fleet.start()
    fleet.until(610)
    holder, backup = by_start(one, two)
    holder.store.cut()
    fleet.until(610 + LEASE + 2 * HEARTBEAT)

    assert handlers[holder].calls == [(1, 0)]
    assert handlers[backup].calls == [(2, 1)]
    holder.store.heal()
    fleet.until(900)
    assert handlers[backup].calls == [(2, 1), (2, 2)]
    assert [(r.attempt, r.status, r.retries) for r in fleet.history()] == [
        (2, "failed", 2),
        (1, "lost", 1),
    ]
    assert [event.reason for event in holder.of("interrupted")] in (["lease-lost"], ["takeover"])


def test_a_stop_while_the_run_waits_gives_it_back_with_its_count(fleet: Fleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    handlers = {instance: Failing(fleet, 1) for instance in (one, two)}
    for instance, handler in handlers.items():
        instance.every(600, handler, retries=1, backoff=300)
    fleet.start()
    fleet.until(605)
    holder, backup = by_start(one, two)
    assert holder.scheduler.stop(timeout=1)
    (told,) = holder.of("interrupted")
    assert (told.reason, told.result.retries, told.result.error) == ("stop", 1, "ValueError: no")
    fleet.until(605 + 2 * HEARTBEAT)

    assert handlers[backup].calls == [(2, 1)]


def test_a_lease_that_is_lost_while_the_run_waits_ends_the_attempt(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=300)
    fleet.start()
    fleet.until(605)
    one.store.cut("heartbeat")
    fleet.until(605 + LEASE + HEARTBEAT)
    one.store.heal()
    fleet.until(640)

    assert [event.reason for event in one.of("interrupted")] == ["lease-lost"]
    assert handler.calls == [(1, 0), (2, 1)]


def test_no_try_begins_before_the_store_has_counted_it(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=1)
    one.store.cut("retry")
    fleet.start()
    fleet.until(650)
    assert handler.calls == [(1, 0)]
    assert one.told == ["start", "error"]
    one.store.heal()
    fleet.until(655)

    assert handler.calls == [(1, 0), (1, 1)]
    assert one.told == ["start", "error", "failure", "start", "success"]


def test_no_try_follows_a_timeout_before_the_store_has_counted_it(fleet: Fleet) -> None:
    one = fleet.instance()
    began: list[int] = []

    def handler(ctx: RunContext) -> None:
        began.append(ctx.retry)
        ctx.signal.wait(30)

    one.every(600, handler, retries=1, backoff=1, timeout=5)
    one.store.cut("retry")
    fleet.start()
    fleet.until(640)
    assert began == [0]
    one.store.heal()
    fleet.until(643)

    assert began == [0, 1]


def test_a_run_that_is_no_longer_owned_is_not_tried_again(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=1)
    one.store.scripts["retry"] = lambda items: [False] * len(items)
    fleet.start()
    fleet.until(601)

    assert handler.calls == [(1, 0)]
    assert [event.reason for event in one.of("interrupted")] == ["takeover"]


def test_a_handler_may_give_up(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 5, lambda: GiveUp("the account is closed"))
    one.every(600, handler, retries=3)
    fleet.start()
    fleet.until(700)

    assert failures(one) == [(0, False)]
    (record,) = fleet.history()
    assert record.error == "GiveUp: the account is closed"


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        (ConnectionResetError, 2),
        (KeyError, 2),
        (ValueError, 1),
        (KeyboardInterrupt, 1),
    ],
)
def test_only_what_is_worth_it_is_tried_again(
    fleet: Fleet, error: type[BaseException], tried: int
) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 5, error)
    one.every(600, handler, retries=1, backoff=1, retry_on=(OSError, KeyError))
    fleet.start()
    fleet.until(700)

    assert len(handler.calls) == tried


def test_what_ends_a_process_is_not_tried_again_by_default(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 5, SystemExit)
    one.every(600, handler, retries=1, backoff=1)
    fleet.start()
    fleet.until(700)

    assert len(handler.calls) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_timeout_is_tried_again_once_its_thread_is_back(fleet: Fleet) -> None:
    one = fleet.instance()
    began: list[float] = []

    def handler(ctx: RunContext) -> None:
        began.append(seconds(fleet.clock))
        if ctx.retry == 0:
            fleet.nap(50)  # deaf to its timeout
            assert ctx.signal.reason == "timeout"
        assert not ctx.signal.is_set() or ctx.retry == 0

    one.every(600, handler, retries=1, backoff=4, timeout=5)
    fleet.start()
    fleet.until(606)
    assert failures(one) == [(0, True)]
    assert isinstance(one.of("failure")[0].exception, TimeoutError)
    fleet.until(700)

    first, second = began
    assert 53 <= second - first <= 54
    assert one.told == ["start", "failure", "start", "success"]


def test_a_timeout_that_is_not_worth_a_retry_ends_the_run(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(50), retries=1, timeout=5, retry_on=ValueError)
    fleet.start()
    fleet.until(700)

    assert failures(one) == [(0, False)]


def test_a_stop_waits_for_a_thread_that_ran_past_its_timeout(fleet: Fleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    began: list[tuple[int, int, float]] = []

    def handler(ctx: RunContext) -> None:
        began.append((ctx.attempt, ctx.retry, seconds(fleet.clock)))
        if ctx.retry == 0:
            fleet.nap(50)

    for instance in (one, two):
        instance.every(600, handler, retries=1, backoff=4, timeout=5)
    fleet.start()
    fleet.until(610)
    holder, _backup = by_start(one, two)
    assert not holder.scheduler.stop(timeout=5)
    fleet.until(649)
    assert len(began) == 1
    fleet.until(650 + 2 * HEARTBEAT)

    assert [(attempt, retry) for attempt, retry, _ in began] == [(1, 0), (2, 1)]
    assert holder.told == ["start", "failure", "interrupted"]


def test_a_run_that_waits_keeps_its_place(fleet: Fleet) -> None:
    one = fleet.instance(places=1)
    handler = Failing(fleet, 1)
    others: list[float] = []
    one.every(600, handler, retries=1, backoff=30, max_late=100)
    one.scheduler.cron("other", "10 10 0 * * *", lambda: others.append(seconds(fleet.clock)))
    fleet.start()
    fleet.until(680)

    _first, second = handler.began
    assert others == [second]


def test_the_place_of_a_run_that_lost_its_lease_while_it_waited_is_free(fleet: Fleet) -> None:
    one, two = fleet.instance(places=1), fleet.instance()
    others: list[float] = []
    for instance in (one, two):
        instance.every(600, Failing(fleet, 1), retries=1, backoff=300)
    one.scheduler.cron("other", "40 10 0 * * *", lambda: others.append(seconds(fleet.clock)))
    one.start()
    fleet.until(601)
    assert one.of("failure")
    two.start()
    one.store.cut("heartbeat")
    fleet.until(601 + LEASE + HEARTBEAT)
    one.store.heal()
    fleet.until(645)

    assert [event.reason for event in one.of("interrupted")] == ["lease-lost"]
    assert others == [640]


def test_where_no_thread_can_be_had_the_retry_waits_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=10)
    fleet.start()
    fleet.until(605)

    def refuse(_self: Workers) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Workers, "reserve", refuse)
        fleet.until(615)
        (error,) = one.of("error")
        assert error.operation == "start"
    fleet.until(630)

    assert handler.calls == [(1, 0), (1, 1)]
    assert one.told == ["start", "failure", "error", "start", "success"]


def test_a_removed_job_lets_its_run_be_tried_again(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=10)
    fleet.start()
    fleet.until(605)
    one.scheduler.remove("sync")
    fleet.until(700)

    assert handler.calls == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, r"option retries is -1: right is an int from 0 to 1000"),
        ({"retries": True}, r"option retries is True"),
        ({"retries": 1.5}, r"option retries is 1.5"),
        ({"backoff": "1h"}, r"option backoff is 3600.0 s: .* at most backoff_max \(600.0 s\)"),
        ({"backoff_max": 5}, r"option backoff is 10.0 s: .* at most backoff_max \(5.0 s\)"),
        ({"backoff": 0}, r"option backoff is 0"),
        ({"retry_on": "OSError"}, r"option retry_on is 'OSError': right is a class of exceptions"),
        ({"retry_on": (OSError, 5)}, r"option retry_on"),
        ({"retry_on": BaseException}, r"option retry_on"),
        ({"pause_on_failure": 1}, r"option pause_on_failure is 1: right is True or False"),
        (
            {"overlap": "buffer"},
            r"option overlap is 'buffer': right is 'skip', 'allow', 'queue' or 'cancel'",
        ),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_declared(
    fleet: Fleet, options: dict[str, object], message: str
) -> None:
    one = fleet.instance()
    with pytest.raises(ConfigurationError, match=f"job 'sync': {message}"):
        one.every(600, print, **options)  # type: ignore[arg-type]


def test_a_stop_in_the_moment_of_a_failure_loses_no_count(fleet: Fleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    handlers = {instance: Failing(fleet, 1) for instance in (one, two)}
    for instance, handler in handlers.items():
        instance.every(600, handler, retries=1, backoff=300)
        instance.store.cut("retry")
    fleet.start()
    fleet.until(600)
    holder, backup = by_start(one, two)
    holder.store.heal()
    assert holder.scheduler.stop(timeout=5)
    fleet.until(605 + 2 * HEARTBEAT)

    assert handlers[backup].calls == [(2, 1)]
    assert holder.told == ["start", "error", "failure", "interrupted"]
    assert len(holder.store.of("release")) == 1


def test_a_stop_waits_for_a_count_that_has_an_error_of_its_own(fleet: Fleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    handlers = {instance: Failing(fleet, 10) for instance in (one, two)}
    for instance, handler in handlers.items():
        instance.every(600, handler, retries=2, backoff=5)
        instance.store.break_("retry")
    fleet.start()
    fleet.until(601)
    holder, _backup = by_start(one, two)
    holder.scheduler.stop(timeout=5)
    for instance in (one, two):
        instance.store.heal()
    fleet.until(700)

    assert sum(len(handler.calls) for handler in handlers.values()) == 3


def test_a_run_that_is_taken_over_while_it_waits_ends_here(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=300)
    fleet.start()
    fleet.until(601)
    one.store.scripts["heartbeat"] = lambda items: ["lost"] * len(items)
    fleet.until(601 + HEARTBEAT)

    assert [event.reason for event in one.of("interrupted")] == ["takeover"]


def test_a_run_that_is_told_to_end_as_its_next_try_is_due_ends_once(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Failing(fleet, 1)
    one.every(600, handler, retries=1, backoff=8)
    fleet.start()
    fleet.until(601)
    engine = one.scheduler._lifecycle.engine
    assert engine is not None
    (run,) = engine.runner._runs.values()
    executor = engine.runner.executor

    def told_as_it_is_due() -> None:
        executor.tell(run, "replaced")
        executor.tell(run, "replaced")
        executor._retries._try_again(run)

    engine.timers.post(told_as_it_is_due)
    fleet.until(650)

    assert len(handler.calls) == 1
    (told,) = one.of("interrupted")
    assert told.reason == "replaced"


def test_a_defect_between_two_tries_costs_no_place(fleet: Fleet) -> None:
    one = fleet.instance(places=1)
    others: list[float] = []
    one.every(600, Failing(fleet, 1), retries=1, backoff=8)
    one.scheduler.cron("other", "30 10 0 * * *", lambda: others.append(seconds(fleet.clock)))
    fleet.start()
    fleet.until(601)

    def fail(_run: LiveRun) -> None:
        raise ValueError("a defect of ours")

    engine = one.scheduler._lifecycle.engine
    assert engine is not None
    (run,) = engine.runner._runs.values()
    engine.timers.post(engine.runner.step, run, fail)
    fleet.until(650)

    assert others == [630]
