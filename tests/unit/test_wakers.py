"""A waker with many readers, and the wakes that a batch saves."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pytest

from leasecron.clock import WAKING_LATER, SystemWaker

LONG = 10.0  # and well below MAX_WAIT, after which a reader looks by itself


class Readers:
    """Threads that read one waker, and wait in what they have read until they are let go."""

    def __init__(self, number: int) -> None:
        self.waker = SystemWaker()
        self.read: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.go = threading.Event()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(number)]
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while (item := self.waker.get()) is not None:
            self.read.put(item)
            self.go.wait(LONG)

    def end(self) -> None:
        self.go.set()
        for _ in self.threads:
            self.waker.put(None)
        deadline = time.monotonic() + LONG  # of all together
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not any(thread.is_alive() for thread in self.threads)


@pytest.fixture
def readers() -> Iterator[Readers]:
    made = Readers(20)
    yield made
    made.end()


def test_each_item_wakes_a_reader_while_the_others_are_at_work(readers: Readers) -> None:
    for number in range(20):
        readers.waker.put(number)
    assert {readers.read.get(timeout=LONG) for _ in range(20)} == set(range(20))


def test_no_reader_sleeps_beside_an_item_when_many_write_at_once(readers: Readers) -> None:
    readers.go.set()

    def write(first: int) -> None:
        for number in range(first, first + 1000):
            readers.waker.put(number)

    writers = [threading.Thread(target=write, args=(1000 * n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    assert {readers.read.get(timeout=LONG) for _ in range(4000)} == set(range(4000))


def test_a_batch_wakes_its_readers_at_its_end(readers: Readers) -> None:
    with WAKING_LATER:
        for number in range(20):
            readers.waker.put(number)
        with pytest.raises(queue.Empty):
            readers.read.get(timeout=0.05)
    assert {readers.read.get(timeout=LONG) for _ in range(20)} == set(range(20))


def test_a_batch_that_ends_by_an_exception_wakes_its_readers(readers: Readers) -> None:
    def batch() -> None:
        with WAKING_LATER:
            readers.waker.put("item")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch()
    assert readers.read.get(timeout=LONG) == "item"


def test_the_batch_of_one_thread_holds_back_nothing_of_another(readers: Readers) -> None:
    put = threading.Event()
    told = threading.Event()

    def write() -> None:
        readers.waker.put("other")
        put.set()

    def batch() -> None:
        with WAKING_LATER:
            told.set()
            put.wait(LONG)
            assert readers.read.get(timeout=LONG) == "other"  # before this batch has ended

    batching = threading.Thread(target=batch)
    batching.start()
    told.wait(LONG)
    threading.Thread(target=write).start()
    batching.join(LONG)
    assert not batching.is_alive()


def test_after_a_batch_a_put_of_any_thread_wakes_again(readers: Readers) -> None:
    with WAKING_LATER:
        readers.waker.put("in the batch")
    assert readers.read.get(timeout=LONG) == "in the batch"
    threading.Thread(target=readers.waker.put, args=("after it",)).start()
    assert readers.read.get(timeout=LONG) == "after it"


def test_who_waits_inside_a_batch_wakes_first_whom_it_may_wait_for() -> None:
    asked, answered = SystemWaker(), SystemWaker()

    def answer() -> None:
        while (question := asked.get()) is not None:
            answered.put(question)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    for number in range(50):  # of which most find the other one asleep
        with WAKING_LATER:
            asked.put(number)
            assert answered.get(LONG) == number
    asked.put(None)
    thread.join(LONG)
    assert not thread.is_alive()
