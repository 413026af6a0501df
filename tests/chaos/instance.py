"""One instance of a chaos run: ``python -m chaos.instance``, told what to do by its environment."""

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from chaos.handlers import handle
from chaos.jobs import WORKS
from chaos.log import Log
from leasecron import BackendError, Event, Scheduler
from leasecron.model import to_ms

PATIENCE = 20.0  # seconds that a stop waits for handlers
PULSE = 0.05
GAP = 0.15
"""Seconds for which the process has not run, at least, that are worth a line."""


def main() -> None:
    """Run the scheduler until SIGTERM, however often the store refuses to be opened."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # while it does not run
    faulthandler.enable()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    life = int(os.environ["CHAOS_LIFE"])
    log = Log(Path(os.environ["CHAOS_LOG"]), life)
    instance = f"{os.environ['CHAOS_NUMBER']}-{life}"
    scheduler = Scheduler(os.environ["CHAOS_STORE"], instance=instance)
    for work in WORKS:
        scheduler.every(work.name, work.interval, partial(handle, work, log), **work.options)
    scheduler.on("*", partial(_note_event, log))
    threading.Thread(target=_pulse, args=(scheduler, log), daemon=True).start()
    while True:
        try:
            clean = scheduler.run(timeout=PATIENCE)
        except BackendError as error:
            log.note("refused", error=str(error))
            time.sleep(0.3)
        else:
            log.note("down", clean=clean)
            return


def _pulse(scheduler: Scheduler, log: Log) -> None:
    """Note when the scheduler is up, and each time for which this process has not run."""
    up = False
    before = time.monotonic()
    while True:
        time.sleep(PULSE)
        now = time.monotonic()
        if now - before > GAP:
            log.note("gap", since=before, until=now)
        before = now
        if scheduler.running and not up:
            up = True
            log.note("up")


def _note_event(log: Log, event: Event) -> None:
    result = getattr(event, "result", None)
    exception = getattr(event, "exception", None)
    log.note(
        "event",
        name=event.name,
        job=event.job,
        slot=None if event.slot is None else to_ms(event.slot),
        fence=getattr(event, "fence", getattr(result, "fence", None)),
        reason=getattr(event, "reason", None),
        operation=getattr(event, "operation", None),
        error=None if exception is None else str(exception)[:300],
    )


if __name__ == "__main__":
    main()
