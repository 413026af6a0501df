"""A waker whose reader looks at a descriptor besides."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator

import pytest

from leasecron.clock import WAKING_LATER
from leasecron.polling import PollingWaker

LONG = 30.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_what_was_put_comes_in_its_order(pipe: tuple[int, int]) -> None:
    waker = PollingWaker(lambda: pipe[0])
    for item in "abc":
        waker.put(item)
    assert waker.get() == "a"
    assert waker.drain() == ["b", "c"]
    with pytest.raises(queue.Empty):
        waker.get(0.0)


@pytest.mark.parametrize("descriptor", [True, False])
def test_a_sleeping_reader_is_woken_by_each_put(pipe: tuple[int, int], descriptor: bool) -> None:
    waker, answers = (
        PollingWaker(lambda: pipe[0] if descriptor else None),
        PollingWaker(lambda: None),
    )

    def echo() -> None:
        while (item := waker.get(LONG)) is not None:
            answers.put(item)

    thread = threading.Thread(target=echo)
    thread.start()
    for number in range(2000):
        waker.put(number)
        assert answers.get(LONG) == number
    waker.put(None)
    thread.join(LONG)


def test_a_descriptor_that_can_be_read_ends_the_sleep(pipe: tuple[int, int]) -> None:
    waker = PollingWaker(lambda: pipe[0])
    os.write(pipe[1], b"x")
    with pytest.raises(queue.Empty):
        waker.get(LONG)
    waker.put("first")
    assert waker.get(LONG) == "first"


def test_one_that_is_closed_does_not_hold_up_what_is_put() -> None:
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    waker = PollingWaker(lambda: read)
    waker.put("a")
    assert waker.get(LONG) == "a"


def test_a_batch_wakes_the_reader_at_its_end(pipe: tuple[int, int]) -> None:
    waker, taken = PollingWaker(lambda: pipe[0]), threading.Event()

    def take() -> None:
        waker.get(LONG)
        taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    with WAKING_LATER:
        for number in range(1, 10):
            waker.put(number)
    assert taken.wait(LONG)
    thread.join(LONG)


def test_its_own_descriptors_go_with_it() -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    for _ in range(50):
        PollingWaker(lambda: None)
    after = len(os.listdir("/proc/self/fd")) if before is not None else None
    assert after == before
