"""The line before a turnstile: who came first gets in first, and nobody is waited for too long."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasecron.backends.sqlite import turnstile as module
from leasecron.backends.sqlite.places import Bytes, Whole
from leasecron.backends.sqlite.turnstile import Turnstile

Another = Callable[[], Turnstile]

LONG = 30.0

needs_places = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has places")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db-turnstile")


@pytest.fixture
def another(path: str) -> Iterator[Another]:
    """Make turnstiles on the one file, as different processes have them."""
    made: list[Turnstile] = []

    def make() -> Turnstile:
        made.append(turnstile(path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def turnstile(path: str) -> Turnstile:
    return Turnstile(path, mode=0o600, owner=(os.getuid(), os.getgid()))


def is_taken(path: str, place: int) -> bool:
    """Ask whether anybody has a place, without having it for a moment oneself."""
    import fcntl  # noqa: PLC0415 - with what Linux alone has

    with open(path, "r+b") as file:
        asked = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked)
    kind: int = struct.unpack("hhqqi0q", answer)[0]
    return kind != fcntl.F_UNLCK


def wait_until_taken(path: str, place: int) -> None:
    deadline = time.monotonic() + LONG
    while not is_taken(path, place):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def wait_until_free(path: str, place: int) -> None:
    deadline = time.monotonic() + LONG
    while is_taken(path, place):
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Waiter:
    """A writer of its own thread, as one of another process would be."""

    def __init__(self, path: str, order: list[str], name: str) -> None:
        self._own = turnstile(path)
        self._order = order
        self._name = name
        self._thread = threading.Thread(target=self._pass_through)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def _pass_through(self) -> None:
        if self._own.enter(LONG):
            self._order.append(self._name)
            self._own.leave()
        self._own.close()


@contextlib.contextmanager
def in_line(path: str, place: int = 1) -> Iterator[subprocess.Popen[str]]:
    """Have a process that waits for its turn in a place."""
    program = (
        "import os, sys\n"
        "from leasecron.backends.sqlite.turnstile import Turnstile\n"
        "Turnstile(sys.argv[1], mode=0o600, owner=(os.getuid(), os.getgid())).enter(600.0)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, path], text=True)
    try:
        wait_until_taken(path, place)
        if place + 1 < Bytes.count:  # whoever comes has all places behind his for a moment
            wait_until_free(path, place + 1)
        yield child
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def stopped_in_line(path: str, holder: Turnstile, stopped: int) -> Iterator[None]:
    """Have so many processes stopped in their places behind a turn that is free."""
    assert holder.enter(0.0)
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(in_line(path, n)) for n in range(1, stopped + 1)]
        for child in children:
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        holder.leave()
        yield


@needs_places
def test_those_who_wait_get_in_in_the_order_they_came(
    path: str, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOVES", LONG)
    order: list[str] = []
    holder = another()
    assert holder.enter(0.0)
    waiters = []
    for place, name in enumerate("abcdef", start=1):
        waiters.append(Waiter(path, order, name))
        wait_until_taken(path, place)

    holder.leave()

    for waiter in waiters:
        waiter.join()
    assert order == list("abcdef")


@needs_places
def test_who_comes_back_at_once_stands_behind_those_who_wait(
    path: str, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOVES", LONG)
    order: list[str] = []
    holder = another()
    assert holder.enter(0.0)
    waiter = Waiter(path, order, "who waited")
    wait_until_taken(path, 1)

    holder.leave()
    assert holder.enter(LONG)
    order.append("who came back")

    waiter.join()
    assert order == ["who waited", "who came back"]


@pytest.mark.parametrize("kind", [pytest.param(Bytes, marks=needs_places), Whole])
def test_more_than_there_are_places_get_in_one_by_one(
    path: str, another: Another, kind: type[Bytes | Whole], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Bytes", kind)
    monkeypatch.setattr(module, "Whole", kind)
    order: list[str] = []
    holder = another()
    assert holder.enter(0.0)
    waiters = [Waiter(path, order, str(number)) for number in range(Bytes.count + 5)]
    assert not another().enter(0.0)
    assert order == []

    holder.leave()

    for waiter in waiters:
        waiter.join()
    assert len(order) == len(waiters)


@needs_places
def test_who_is_killed_in_the_line_is_waited_for_by_nobody(path: str, another: Another) -> None:
    order: list[str] = []
    holder = another()
    assert holder.enter(0.0)
    with in_line(path) as child:
        waiter = Waiter(path, order, "next")
        wait_until_taken(path, 2)
        child.kill()
        holder.leave()
        waiter.join()

    assert order == ["next"]


@needs_places
@pytest.mark.parametrize("stopped", [1, 2, 7, 8])
def test_those_who_are_stopped_in_the_line_are_passed_by(
    path: str, another: Another, stopped: int
) -> None:
    order: list[str] = []
    first = another()
    with stopped_in_line(path, another(), stopped):
        assert first.enter(LONG)
        assert not another().enter(0.0)
        waiter = Waiter(path, order, "next")
        assert order == []
        first.leave()
        waiter.join()

    assert order == ["next"]


@needs_places
def test_those_behind_one_who_is_stopped_keep_their_order(
    path: str, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STAGGER", LONG)
    order: list[str] = []
    holder, first = another(), another()
    with stopped_in_line(path, holder, 1):
        assert first.enter(LONG)
        waiters = []
        for place, name in enumerate("abcd", start=2):
            waiters.append(Waiter(path, order, name))
            wait_until_taken(path, place)
        first.leave()
        for waiter in waiters:
            waiter.join()

    assert order == list("abcd")


@needs_places
def test_one_who_was_found_to_be_stopped_is_passed_by_at_once(
    path: str, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = another()
    with stopped_in_line(path, another(), 2):
        monkeypatch.setattr(module, "_REMEMBER", 600.0)
        assert again.enter(LONG)
        again.leave()
        monkeypatch.setattr(module, "_MOVES", LONG)
        assert again.enter(LONG / 2)


@needs_places
def test_one_who_is_passed_by_and_wakes_gets_in_later(path: str, another: Another) -> None:
    order: list[str] = []
    holder, first = another(), another()
    assert holder.enter(0.0)
    with in_line(path) as child:
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        holder.leave()
        assert first.enter(LONG)
        child.send_signal(signal.SIGCONT)
        first.leave()
        wait_until_free(path, 1)  # it has its turn
        assert is_taken(path, 0)
        waiter = Waiter(path, order, "next")
        wait_until_taken(path, 1)
        child.kill()
        waiter.join()

    assert order == ["next"]


class Scripted:
    """Places and a clock: at certain moments others take them and leave them."""

    count = 9

    def __init__(self, held: set[int], *script: tuple[float, set[int]]) -> None:
        self.now = 100.0
        self.mine: set[int] = set()
        self.way: list[int] = []
        self._held = held
        self._script = [(self.now + after, places) for after, places in script]

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        while self._script and self._script[0][0] <= self.now:
            self._held = self._script.pop(0)[1]

    def take(self, _file: int, first: int, end: int) -> bool:
        if self._held & {*range(first, end)}:
            return False
        self.mine |= {*range(first, end)}
        self.way.append(first)
        return True

    def free(self, _file: int, first: int, end: int) -> None:
        self.mine -= {*range(first, end)}

    def free_before(self, _file: int, place: int) -> int | None:
        return max({*range(place)} - self._held, default=None)


def way_of(scripted: Scripted, monkeypatch: pytest.MonkeyPatch, path: str) -> list[int]:
    """Return the places that were had, one after the other, on the way to the turn."""
    own = turnstile(path)
    monkeypatch.setattr(own, "_places", scripted)
    monkeypatch.setattr(module, "time", scripted)
    assert own.enter(LONG)
    assert scripted.mine == {0}
    own.close()
    return scripted.way


def test_those_who_move_slowly_are_not_passed_by(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, long = 0.9 * module._MOVES, 10 * module._MOVES
    script, at = [], 0.0
    for held, lasts in (
        ({0, 1, 2}, long),
        ({1, 2}, slow),  # the turn is free, and the one at 1 takes a while to see it
        ({1}, slow),  # it had a short turn, all have moved, and the next one takes a while, too
        ({0}, long),
        (set[int](), long),
    ):
        script.append((at, held))
        at += lasts
    scripted = Scripted({0, 1, 2}, *script)
    assert way_of(scripted, monkeypatch, path) == [3, 2, 1, 0]


def test_a_look_of_long_ago_says_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted({0, 1}, (0.001, {1}))
    sleep, seen = scripted.sleep, 0

    def stopped_at_times(seconds: float) -> None:
        nonlocal seen
        seen += 1
        sleep(2 * module._MOVES if seen < 50 else seconds)
        if seen == 60:
            scripted._held = set()

    monkeypatch.setattr(scripted, "sleep", stopped_at_times)
    assert way_of(scripted, monkeypatch, path) == [2, 1, 0]


@pytest.mark.parametrize("others", [{1}, {1, 2}, {1, 2, 3, 4, 5, 6, 7}])
def test_those_who_never_move_are_passed_by(
    path: str, monkeypatch: pytest.MonkeyPatch, others: set[int]
) -> None:
    scripted = Scripted({0, *others}, (0.001, others))
    began = scripted.now
    assert way_of(scripted, monkeypatch, path) == [max(others) + 1, 0]
    assert scripted.now - began < module._STUCK


@needs_places
def test_who_is_stopped_with_the_turn_is_waited_for_once_in_a_while(
    path: str, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, behind, later = another(), another(), another()
    assert stopped.enter(0.0)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_AVOID", 600.0)
        assert not behind.enter(module._STUCK + 0.05)
        patched.setattr("time.sleep", pytest.fail)
        assert not behind.enter(LONG)
    assert not is_taken(path, 1)
    monkeypatch.setattr(module, "_AVOID", 0.0)
    assert not later.enter(module._STUCK + 0.05)
    stopped.leave()

    assert later.enter(LONG)


def test_whoever_is_interrupted_leaves_the_line(
    another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    holder, interrupted = another(), another()
    assert holder.enter(0.0)
    with monkeypatch.context() as patched:
        patched.setattr("time.sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            interrupted.enter(LONG)

    holder.leave()
    assert another().enter(0.0)


def test_a_filesystem_without_locks_keeps_nobody(
    another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> bool:
        raise OSError("No locks available")

    alone = another()
    monkeypatch.setattr(alone._places, "take", refuse)

    assert not alone.enter(LONG)


@pytest.mark.parametrize("kind", [pytest.param(Bytes, marks=needs_places), Whole])
def test_a_turn_that_cannot_be_left_is_given_up(
    another: Another, kind: type[Bytes | Whole], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Bytes", kind)
    monkeypatch.setattr(module, "Whole", kind)

    def refuse(*_arguments: object) -> None:
        raise OSError("No locks available")

    held = another()
    assert held.enter(0.0)
    monkeypatch.setattr(held._places, "free", refuse)
    held.leave()

    assert another().enter(0.0)
