"""What people do to the jobs of a chaos run: ``python -m chaos.people``, told by its environment.

A process of its own, which declares nothing: it pauses a job and lets it go on, and asks for runs
of another one. What it could not do, since the store was away, it tries again.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from chaos.jobs import ASKED, PAUSED
from chaos.log import Log
from leasecron import BackendError, ConfigurationError, Scheduler
from leasecron.model import to_ms

_AGAIN = 0.3
_PAUSE = (2.0, 9.0)
_BETWEEN = (1.0, 4.0)


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
    while not told:
        _sleep(chance.uniform(*_BETWEEN), lambda: told)
        if chance.random() < 0.6:
            _ask(scheduler, log)
        else:
            log.note("pausing", job=PAUSED)
            if _insist(lambda: scheduler.pause(PAUSED, "by a chaos run"), lambda: told):
                log.note("paused", job=PAUSED)
            _sleep(chance.uniform(*_PAUSE), lambda: told)
            log.note("resuming", job=PAUSED)
            _insist(lambda: scheduler.resume(PAUSED), lambda: False)
            log.note("resumed", job=PAUSED)


def _ask(scheduler: Scheduler, log: Log) -> None:
    try:
        run = scheduler.trigger(ASKED)
    except (BackendError, ConfigurationError) as error:  # nobody has seen it, or knows of it
        log.note("not asked", error=str(error))
    else:
        log.note("asked", job=run.job, slot=to_ms(run.slot))


def _insist(act: Callable[[], None], enough: Callable[[], bool]) -> bool:
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
