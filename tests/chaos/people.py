"""What people do to the jobs of a chaos run: ``python -m chaos.people``, told by its environment.

A process of its own, which declares nothing: it pauses a job and lets it go on, asks for runs of
another one, and has slots of a third one run that never succeeded. What it could not do, since the
store was away, it tries again.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaos.jobs import ASKED, FILLED, PAUSED, work_of
from chaos.log import Log
from leasecron import BackendError, Backfill, ConfigurationError, Scheduler, SchedulerStateError
from leasecron.model import BackfillState, from_ms, to_ms

_AGAIN = 0.3
_PAUSE = (2.0, 9.0)
_BETWEEN = (1.0, 4.0)
_LONGEST_AGO, _MOST_SLOTS = 40, 8  # of a backfill, in slots
_PATIENCE = 20.0
"""Seconds for which a backfill is waited for once nothing befalls anybody any more."""


def main() -> None:
    """Go on until SIGTERM, and let no job stay paused."""
    told = False

    def tell(*_: object) -> None:
        nonlocal told
        told = True

    signal.signal(signal.SIGTERM, tell)
    log = Log(Path(os.environ["CHAOS_LOG"]))
    scheduler = Scheduler(os.environ["CHAOS_STORE"], instance="people-0")
    chance = random.Random(os.environ["CHAOS_SEED"])
    filling: Backfill | None = None
    while not told:
        _sleep(chance.uniform(*_BETWEEN), lambda: told)
        act = chance.random()
        if act < 0.35:
            _ask(scheduler, log)
        elif act < 0.75:
            filling = _fill(scheduler, log, chance, filling)
        else:
            log.note("pausing", job=PAUSED)
            if _insist(lambda: scheduler.pause(PAUSED, "by a chaos run"), lambda: told):
                log.note("paused", job=PAUSED)
            _sleep(chance.uniform(*_PAUSE), lambda: told)
            log.note("resuming", job=PAUSED)
            _insist(lambda: scheduler.resume(PAUSED), lambda: False)
            log.note("resumed", job=PAUSED)
    if filling is not None:
        _see_through(filling, log)


def _fill(
    scheduler: Scheduler, log: Log, chance: random.Random, last: Backfill | None
) -> Backfill | None:
    """Have some slots run, or look how far the last backfill has come, or cancel it."""
    work = work_of(FILLED)
    if last is not None and (state := _state(last, log)) is not None and state.ended_at is None:
        if chance.random() < 0.1:
            log.note("cancelling", job=FILLED, asked=to_ms(state.asked_at))
            _insist(last.cancel, lambda: False)
        return last
    end = time.time() - chance.randint(0, _LONGEST_AGO) * work.interval
    start = end - chance.randint(1, _MOST_SLOTS) * work.interval
    since, until = (from_ms(round(each * 1000)) for each in (start, end))
    try:
        begun = scheduler.backfill(FILLED, since, until, schedule=work.schedule)
    except (BackendError, ConfigurationError) as error:  # one goes on, or nobody has seen it
        log.note("not filled", error=str(error))
        with suppress(BackendError, ConfigurationError):
            return scheduler.current_backfill(FILLED)
        return last
    log.note("filling", job=FILLED, start=to_ms(since), end=to_ms(until), total=begun.total)
    return begun


def _state(filling: Backfill, log: Log) -> BackfillState | None:
    try:
        state = filling.state()
    except BackendError:
        return None
    except SchedulerStateError:  # the store knows of a later one alone
        return None
    _note(state, log)
    return state


def _see_through(filling: Backfill, log: Log) -> None:
    """Wait for the end of a backfill, and write down how it stands then."""
    with suppress(BackendError, SchedulerStateError):
        filling.wait(_PATIENCE, lambda state: _note(state, log))
    _state(filling, log)
    log.note("filled", job=FILLED)


def _note(state: BackfillState, log: Log) -> None:
    log.note(
        "backfill",
        job=state.job,
        asked=to_ms(state.asked_at),
        start=to_ms(state.start),
        end=to_ms(state.end),
        total=state.total,
        succeeded=state.succeeded,
        failed=state.failed,
        ended=state.ended_at is not None,
    )


def _ask(scheduler: Scheduler, log: Log) -> None:
    try:
        run = scheduler.trigger(ASKED)
    except (BackendError, ConfigurationError) as error:  # nobody has seen it, or knows of it
        log.note("not asked", error=str(error))
    else:
        log.note("asked", job=run.job, slot=to_ms(run.slot))


def _insist(act: Callable[[], object], enough: Callable[[], bool]) -> bool:
    """Do it, however often it fails, unless it is enough; say whether it was done."""
    while not enough():
        try:
            act()
        except (BackendError, ConfigurationError):  # before anybody has declared the job, too
            time.sleep(_AGAIN)
        else:
            return True
    return False


def _sleep(seconds: float, enough: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not enough():
        time.sleep(0.05)


if __name__ == "__main__":
    main()
