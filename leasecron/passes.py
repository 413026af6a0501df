"""The queued calls, and the passes in which the store thread makes them.

A pass makes one backend call per kind, for all items that are queued, and hands out the answers.
Transient faults are retried here and nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

from leasecron.backends.base import Backend, OneUnavailable
from leasecron.calls import NEVER_GIVEN_UP, ORDER, Call, Kind, call_backend
from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable, SchedulerStateError
from leasecron.model import Claim, RunResult
from leasecron.outages import FIRST_DELAY, LONGEST_DELAY, Outages
from leasecron.pace import Pace

BATCH = 1000
FAILURES_IN_A_ROW = 10


class Passes:
    """The calls that wait, by kind. Used by the store thread only.

    ``receive`` takes in what has been handed over meanwhile.
    """

    def __init__(
        self, backend: Backend, clock: Clock, outages: Outages, receive: Callable[[], None]
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._outages = outages
        self._receive = receive
        self._pending: dict[Kind, deque[Call]] = {kind: deque() for kind in ORDER}
        self._delayed: list[tuple[float, Call]] = []
        self._pace = Pace(clock)

    def add(self, call: Call) -> None:
        """Queue a call for the next pass."""
        self._pending[call.kind].append(call)
        if isinstance(call.item, Claim):
            self._pace.add(call.item)

    @property
    def all_recorded(self) -> bool:
        """Whether no end of a run waits to be stored."""
        return not (
            self._delayed
            or any(self._pending[kind] for kind in ("finish", "release", "save_results"))
        )

    def wait_for(self) -> float | None:
        """Return the seconds until the next pass, if any call waits."""
        now = self._clock.monotonic()
        due = [at for at, _ in self._delayed]
        for kind, pending in self._pending.items():
            if pending:
                due.append(self._next_at(kind))
        return max(0.0, min(due) - now) if due else None

    def _next_at(self, kind: Kind) -> float:
        again = self._outages.ask_again_at
        return max(again, self._pace.next_at) if kind == "claim" else again

    def make(self) -> None:
        """Make the calls that wait, heartbeats first."""
        now = self._clock.monotonic()
        self._requeue_delayed(now)
        if now < self._outages.ask_again_at:
            return
        self._give_up(now)
        for kind in ORDER:
            if not self._pending[kind] or self._next_at(kind) > now:
                continue
            self._receive()  # a fork waits at most for one transaction
            if self._pending["heartbeat"] and not self._serve("heartbeat", BATCH):
                return  # one that came meanwhile waits for no other call either
            asked = len(self._pending[kind])
            if kind != "heartbeat" and not self._serve(kind, 1 if kind == "other" else BATCH):
                return
            if kind == "claim" and not self._pending["claim"]:
                self._pace.rest(asked)

    def drop_claims(self) -> list[Any]:
        """Take back the claims; the store is asked once more about those that it may have won."""
        delayed = [call for _, call in self._delayed if call.kind == "claim"]
        self._delayed = [entry for entry in self._delayed if entry[1].kind != "claim"]
        claims = [*self._pending["claim"], *delayed]
        untried = [call.item for call in claims if not call.tries]
        # In its place: a pass that answers items singly may be in the middle of it.
        pending = self._pending["claim"]
        pending.clear()
        pending.extend(call for call in claims if call.tries)
        for call in pending:
            if isinstance(call.item, Claim):  # which wins nothing that is free
                call.item = replace(call.item, mode="takeover")
            call.tries, call.give_up = 0, self._clock.monotonic()
            # At once: somebody waits for the end.
            self._outages.ask_again_at = 0.0
            self._pace.hurry()
        return untried

    def _requeue_delayed(self, now: float) -> None:
        for _, call in [entry for entry in self._delayed if entry[0] <= now]:
            self.add(call)
        self._delayed = [entry for entry in self._delayed if entry[0] > now]

    def _give_up(self, now: float) -> None:
        outage = self._outages.error
        if outage is None:
            return
        for pending in self._pending.values():
            # A call that has met no outage is made: the one noted here may be over by now.
            over = [c for c in pending if c.tries and c.give_up is not None and c.give_up <= now]
            if over:
                gone = {*over}
                kept = [call for call in pending if call not in gone]
                pending.clear()
                pending.extend(kept)
            for call in over:
                call.answer(outage, now)

    def _serve(self, kind: Kind, size: int) -> bool:
        """Attempt some calls; where a defect of ours cuts that short, nobody waits in vain."""
        pending = self._pending[kind]
        batch: list[Call] = []
        try:
            batch += islice(pending, size)
            for _ in batch:  # taken out only now that they are held: none is lost in between
                pending.popleft()
            return not batch or self._attempt(kind, batch)
        except Exception as error:
            now = self._clock.monotonic()
            queued = {call for kind_ in ORDER for call in self._pending[kind_]}
            queued.update(call for _, call in self._delayed)
            for call in batch:
                if call.answered or call in queued:
                    continue
                if kind in NEVER_GIVEN_UP:
                    self._delayed.append((now + FIRST_DELAY, call))
                else:
                    call.answer(error, now)
            raise

    def _attempt(self, kind: Kind, batch: list[Call]) -> bool:
        """Make one backend call; False ends the pass, since the store is not available."""
        asked_at = self._clock.monotonic()
        try:
            answers = call_backend(self._backend, kind, [call.item for call in batch])
        except Exception as error:  # noqa: BLE001 - every error has an end here
            if isinstance(error, BackendUnavailable) and not isinstance(error, OneUnavailable):
                self._unavailable(kind, batch, error)
                return False
            if len(batch) > 1:  # the error belongs to one of the items
                return self._attempt_singly(kind, batch)
            self._failed(batch[0], error, asked_at)
            return True
        self._outages.end(batch[0].name)
        for call, answer in zip(batch, answers, strict=True):
            if call.record is not None and answer is True:
                self._save(call, call.record)
            else:  # by False for whatever is not True: None is the answer to a record
                call.answer(answer if call.record is None else False, asked_at)
        if isinstance(batch[0].item, Claim):
            self._pace.hear(batch[0].item.instance, answers)
        return True

    def _save(self, call: Call, record: RunResult) -> None:
        """Have the record of an end written that the store has taken."""
        call.kind, call.item, call.record = "save_results", record, None
        self._pending["save_results"].append(call)

    def _attempt_singly(self, kind: Kind, batch: list[Call]) -> bool:
        pending = self._pending[kind]
        failures = 0
        for place, call in enumerate(batch):
            delayed = len(self._delayed)
            if not self._attempt(kind, [call]):
                pending.remove(call)  # it was put back alone, before those that came before it
                pending.extendleft(reversed(batch[place:]))
                return False
            failures = failures + 1 if len(self._delayed) > delayed else 0
            if failures == FAILURES_IN_A_ROW:
                # Such as a full disk: the others would hardly fare better, and cost as much.
                later = self._outages.put_off()
                self._delayed[:0] = [(later, other) for other in batch[place + 1 :]]
                break
            self._receive()  # a fork waits at most for one transaction
        return True

    def _unavailable(self, kind: Kind, batch: list[Call], error: BackendUnavailable) -> None:
        self._pending[kind].extendleft(reversed(batch))
        for pending in self._pending.values():
            for call in pending:
                call.tries += 1
        self._outages.go_on(error)
        self._outages.report(batch[0].name, [call.item for call in batch], error)

    def _failed(self, call: Call, error: Exception, asked_at: float) -> None:
        now = self._clock.monotonic()
        transient = isinstance(error, OneUnavailable) and (
            call.give_up is None or now < call.give_up
        )
        if call.kind not in NEVER_GIVEN_UP and not transient:
            call.answer(error, asked_at)
            return
        call.tries += 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(call.tries, 10))
        self._delayed.append((now + delay, call))
        self._outages.report(call.name, [call.item], error)

    def refuse(self) -> None:
        """Answer those who wait for an answer: the thread has ended."""
        for pending in self._pending.values():
            for call in pending:
                if call.awaited:
                    call.answer(stopped(), 0.0)
            pending.clear()


def stopped() -> SchedulerStateError:
    """Return the answer to calls that came too late."""
    return SchedulerStateError("the scheduler was stopped before the store was asked")
