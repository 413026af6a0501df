"""What a handler is given: the signal that tells it to end, and the facts of its run."""

from __future__ import annotations

import pickle
import threading
from functools import partial

import pytest
from runs_support import SEEDS, at, seconds

from leasecron import AbortSignal, ConfigurationError, RunAborted
from leasecron.leases import Lease
from leasecron.model import Claim
from leasecron.testing import FakeClock, make_context


@pytest.fixture
def clock(seed: int) -> FakeClock:
    return FakeClock(at(0), seed=seed)


@pytest.fixture
def signal(clock: FakeClock) -> AbortSignal:
    return AbortSignal(clock)


def test_a_signal_that_nobody_set_is_not_set(clock: FakeClock, signal: AbortSignal) -> None:
    assert (signal.is_set(), signal.reason) == (False, None)
    signal.raise_if_set()
    assert signal.wait(2.5) is False
    assert seconds(clock) == 2.5
    assert signal.wait(0) is False
    assert signal.wait(-1) is False
    assert seconds(clock) == 2.5


def test_the_first_reason_stays(signal: AbortSignal) -> None:
    assert signal.set("takeover") is True
    assert signal.set("stop") is False
    assert (signal.is_set(), signal.reason) == (True, "takeover")
    assert signal.wait() is True


@pytest.mark.parametrize("seed", SEEDS)
def test_all_who_wait_are_woken(clock: FakeClock, signal: AbortSignal) -> None:
    woken: list[tuple[bool, float]] = []

    def wait(timeout: float | None) -> None:
        answer = signal.wait(timeout)
        woken.append((answer, seconds(clock)))

    for timeout in (None, 100, 1):
        clock.start_thread(partial(wait, timeout), "waiter")
    clock.advance(5)
    signal.set("stop")
    clock.settle()
    assert sorted(woken) == [(False, 1), (True, 5), (True, 5)]


def test_a_set_signal_raises_with_its_reason(signal: AbortSignal) -> None:
    signal.set("timeout")
    with pytest.raises(RunAborted) as caught:
        signal.raise_if_set()
    assert caught.value.reason == "timeout"
    assert str(caught.value) == "the run was told to end: timeout"


def a_lease(clock: FakeClock) -> Lease:
    claim = Claim("job", at(0), "token", "one", 10.0, "skip", 3, 60.0)
    return Lease(claim, 2.5, clock.monotonic())


def test_whoever_asks_is_told_of_a_lease_that_is_over(clock: FakeClock) -> None:
    lease = a_lease(clock)
    signal = AbortSignal(clock)
    signal.look_at(lease)
    clock.jump(monotonic=8.9)
    assert not signal.is_set()
    clock.jump(monotonic=0.2)  # and nobody has told it
    assert not signal.told

    assert (signal.is_set(), signal.wait(0)) == (True, True)
    lease.renewed(clock.monotonic())  # by a heartbeat that comes too late
    assert (signal.reason, signal.told) == ("lease-lost", True)
    with pytest.raises(RunAborted, match="lease-lost"):
        signal.raise_if_set()


def test_a_run_that_is_over_is_told_of_nothing(clock: FakeClock) -> None:
    signal = AbortSignal(clock)
    signal.look_at(a_lease(clock))
    signal.look_at(None)
    clock.jump(monotonic=60)

    assert signal.reason is None


def test_a_reason_that_was_told_outlives_the_lease(clock: FakeClock) -> None:
    signal = AbortSignal(clock)
    signal.look_at(a_lease(clock))
    signal.set("stop")
    clock.jump(monotonic=60)

    assert signal.reason == "stop"


def test_an_abort_is_not_eaten_by_except_exception(signal: AbortSignal) -> None:
    signal.set("stop")
    guarded: list[Exception] = []

    def handler() -> None:
        try:
            signal.raise_if_set()
        except Exception as error:
            guarded.append(error)

    with pytest.raises(RunAborted):
        handler()
    assert guarded == []
    assert RunAborted.__bases__ == (BaseException,)


def test_an_abort_can_be_copied_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(RunAborted("stop")))
    assert (copy.reason, str(copy)) == ("stop", "the run was told to end: stop")


def test_sleep_sleeps_and_raises_as_soon_as_the_run_shall_end(
    clock: FakeClock, signal: AbortSignal
) -> None:
    ctx = make_context(signal=signal)
    ctx.sleep(3)
    assert seconds(clock) == 3
    ctx.sleep(0)
    ctx.sleep(-5)
    assert seconds(clock) == 3

    def set_after_two_seconds() -> None:
        signal.wait(2)
        signal.set("lease-lost")

    clock.start_thread(set_after_two_seconds, "setter")
    with pytest.raises(RunAborted) as caught:
        ctx.sleep(100)
    assert caught.value.reason == "lease-lost"
    assert seconds(clock) == 5
    with pytest.raises(RunAborted):
        ctx.sleep(0)


def test_a_fence_is_a_number_and_its_lack_is_an_error_that_names_the_stores() -> None:
    assert make_context(fence=7).fence == 7
    with pytest.raises(ConfigurationError, match=r"'sync'.*sqlite:////.*memory://"):
        _ = make_context(job="sync", fence=None).fence


def test_a_context_has_the_facts_of_its_run() -> None:
    ctx = make_context(
        job="sync",
        slot=at(10),
        attempt=2,
        fence=3,
        token="t",
        instance="one",
        trigger="takeover",
        lateness=1.5,
    )
    assert (ctx.job, ctx.slot, ctx.attempt, ctx.fence) == ("sync", at(10), 2, 3)
    assert (ctx.token, ctx.instance, ctx.trigger, ctx.lateness) == ("t", "one", "takeover", 1.5)
    assert not ctx.signal.is_set()
    assert repr(ctx) == "<RunContext 'sync' 2026-01-01T00:00:10+00:00 attempt 2>"


def test_a_signal_works_with_the_clocks_of_the_machine() -> None:
    signal = make_context().signal
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(signal.wait(10))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert signal.wait(0.001) is False
    assert signal.set("stop")
    for thread in threads:
        thread.join(10)
    assert woken == [True] * 8
