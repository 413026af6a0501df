"""A waker with many readers, and the wakes that a batch saves."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from leasecron.clock import WAKING_LATER, SystemWaker

LONG = 30.0


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
        for thread in self.threads:
            thread.join(LONG)
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
