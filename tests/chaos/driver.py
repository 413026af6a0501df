"""Runs the instances of a chaos run and lets happen to them what the plan says."""

import importlib.util
import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from support.wall_clock import WallClock

from chaos.any_place import AnyPlace, faults_of
from chaos.jobs import WORKS
from chaos.log import Log
from chaos.machine import Processors
from chaos.member import Member, People
from chaos.plan import INSTANCES, WITH_CLOCKS, Fault, Kind
from chaos.server_place import ServerPlace

STALL = 0.5
"""Seconds; whenever this process was not run for longer, the checker is to know of it."""

SHORTEST_LEASE = min(work.lease for work in WORKS)
_TICK = 0.05
_LOOK_AT_PROCESSORS = 1.0
_ONCE_A_SECOND = {"FAKETIME_NO_CACHE": "0", "FAKETIME_CACHE_DURATION": "1"}
"""How often a process looks how wrong its clock is; at each reading, it would do little else."""

_LONGEST_END = 60.0


def kinds_to_be_had(place: AnyPlace) -> tuple[list[Kind], list[str]]:
    """Return what can befall a run on this machine, and a line for each thing that cannot.

    The store must be there.
    """
    of_place, lacks = place.kinds()
    kinds: list[Kind] = ["kill", "kill-all", "term", *of_place]
    if sys.platform == "linux" and importlib.util.find_spec("libfaketime") is not None:
        kinds.append("clock")
    else:
        lacks.append("no clock is ever wrong: the package libfaketime is not to be had")
    return kinds, lacks


class Chaos:
    """The instances, their clocks and their store; all is written down in ``folder``."""

    def __init__(
        self, place: AnyPlace, folder: Path, *, rate: int, with_clocks: bool, seed: int
    ) -> None:
        self.log_path = folder / "log"
        self._log = Log(self.log_path)
        self._place = place
        self._store = faults_of(place, self._log)
        self._to_undo: list[tuple[float, Callable[[], None]]] = []
        self._clocks: dict[int, WallClock] = {}
        self._members: list[Member] = []
        lives = itertools.count(1)
        for number in range(INSTANCES):
            environment = {
                "CHAOS_STORE": place.url_of(number),
                "CHAOS_LOG": str(self.log_path),
                "CHAOS_RATE": str(rate),
                "CHAOS_LEASES": str(int(place.leases)),
                "CHAOS_BEGAN": str(time.time()),
            }
            if with_clocks and number in WITH_CLOCKS:
                self._clocks[number] = clock = WallClock(folder / f"clock-{number}")
                environment |= {**clock.environment(), **_ONCE_A_SECOND}
            errors = folder / f"errors-{number}"
            self._members.append(Member(number, lives, environment, errors, self._log))
        self._people = People(place, self.log_path, folder / "errors-people", seed)

    def run(self, faults: Sequence[Fault], seconds: float, quiet: float) -> None:
        """Let the faults happen for ``seconds``, then nothing for ``quiet``, then stop all."""
        ended = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        watchdog.start()
        self._log.note("clocks", wall=time.time())
        try:
            for member in self._members:
                member.spawn()
            self._people.spawn()
            began = time.monotonic()
            for fault in faults:
                self._let_pass(began + fault.at)
                if self._do(fault):
                    self._log.note("did", kind=_name(fault))
            self._let_pass(began + seconds)
            self._become_calm()
            self._let_pass(time.monotonic() + quiet)
            self._end()
        finally:
            self._people.reap()
            for member in self._members:
                member.reap()
            self._store.end()
            ended.set()
            watchdog.join()
            self._log.note("over")
            self._log.close()

    def _do(self, fault: Fault) -> bool:
        match fault.kind, fault.victim:
            case "kill", int(victim):
                return self._members[victim].kill(fault.length)
            case "term", int(victim):
                return self._members[victim].tell(fault.length)
            case "freeze", int(victim):
                member = self._members[victim]
                done = member.freeze(self._store)
                if done:
                    self._undo_in(fault.length, member.thaw)
                return done
            case "clock", int(victim):
                self._step(victim, fault.amount)
                return True
            case "kill-all", None:
                killed = [member.kill(fault.length) for member in self._members]
                return any(killed)
            case "cut-request" | "cut-answer", None:
                assert isinstance(self._place, ServerPlace)
                return self._place.cut(fault.kind, fault.amount)
            case kind, _:
                done = self._store.begin(kind)
                if done:
                    self._undo_in(fault.length, self._store.end)
                return done

    def _undo_in(self, seconds: float, undo: Callable[[], None]) -> None:
        self._to_undo.append((time.monotonic() + seconds, undo))

    def _step(self, number: int, offset: int) -> None:
        self._log.note("clock", number=number, offset=offset)
        self._clocks[number].step(offset)

    def _let_pass(self, until: float) -> None:
        while (now := time.monotonic()) < until:
            due = [undo for at, undo in self._to_undo if at <= now]
            self._to_undo = [(at, undo) for at, undo in self._to_undo if at > now]
            for undo in due:
                undo()
            for member in self._members:
                member.look()
            time.sleep(min(_TICK, max(0.0, until - time.monotonic())))

    def _become_calm(self) -> None:
        for _, undo in self._to_undo:
            undo()
        self._to_undo = []
        for number in self._clocks:
            self._step(number, 0)
        self._people.tell()
        self._log.note("calm")

    def _end(self) -> None:
        """Tell all to stop, those too that are still to be started anew."""
        give_up = time.monotonic() + _LONGEST_END
        while time.monotonic() < give_up and not all(member.gone for member in self._members):
            for member in self._members:
                member.tell(None)
                member.follow_no_more()
            self._let_pass(time.monotonic() + _TICK)

    def _watch(self, ended: threading.Event) -> None:
        """Note each time for which the machine has not let this process run, or was busy."""
        processors = Processors()
        asked = before = time.monotonic()
        while not ended.wait(0.1):
            now = time.monotonic()
            if now - before > STALL:
                self._log.note("stall", since=before, until=now)
            if now - asked > _LOOK_AT_PROCESSORS:
                if processors.were_busy():
                    self._log.note("busy", since=asked, until=now)
                asked = now
            before = now


def _name(fault: Fault) -> str:
    long = fault.kind == "freeze" and fault.length > SHORTEST_LEASE
    return "freeze for longer than a lease" if long else fault.kind
