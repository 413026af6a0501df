"""One instance of a chaos run: ``python -m chaos.instance``, told what to do by its environment."""

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from chaos.handlers import handle
from chaos.jobs import parts, works_for
from chaos.log import Log, path_of_part
from leasecron import BackendError, Event, Once, Scheduler
from leasecron.model import to_ms

PATIENCE = 20.0  # seconds that a stop waits for handlers
PLACES = 200
A_SWIFT_RUN = 0.25
"""Seconds for which the claim and the run of a swift job take a place, or more, under load."""

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
    scheduler = Scheduler(
        os.environ["CHAOS_STORE"],
        instance=f"{os.environ['CHAOS_NUMBER']}-{life}",
        max_running=PLACES + round(int(os.environ["CHAOS_RATE"]) * A_SWIFT_RUN),
    )
    _declare(scheduler, log, life)
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


def _declare(scheduler: Scheduler, log: Log, life: int) -> None:
    """Declare the jobs; the swift ones, of which much is to be read, write to logs of their own."""
    began = float(os.environ["CHAOS_BEGAN"])
    for work in works_for(leases=os.environ["CHAOS_LEASES"] == "1"):
        handler = partial(handle, work, log)
        if work.once is not None:
            scheduler.at(work.name, work.instant(began, life), handler, **work.options)
        else:
            scheduler.add(work.name, work.schedule, handler, **work.options)
    logs: dict[str | None, Log] = {}
    for number, works in enumerate(parts(int(os.environ["CHAOS_RATE"]))):
        of_part = Log(path_of_part(Path(os.environ["CHAOS_LOG"]), number), life)
        for work in works:
            logs[work.name] = of_part
            scheduler.add(work.name, work.schedule, partial(handle, work, of_part), **work.options)
    scheduler.on("*", partial(_note_event, log, logs))


def _pulse(scheduler: Scheduler, log: Log) -> None:
    """Note when the scheduler is up, and each time for which this process has not run.

    And when the jobs that run once do so, as far as it knows, whenever that has changed.
    """
    up = False
    before = time.monotonic()
    instants: dict[str, int] = {}
    while True:
        time.sleep(PULSE)
        now = time.monotonic()
        if now - before > GAP:
            log.note("gap", since=before, until=now)
        before = now
        if scheduler.running and not up:
            up = True
            log.note("up")
        for job in [*scheduler.jobs.values()] if up else ():
            if isinstance(job.schedule, Once):
                slot = to_ms(job.schedule.instant)
                if instants.get(job.name) != slot:
                    instants[job.name] = slot
                    log.note("fixed", job=job.name, slot=slot)


def _note_event(log: Log, logs: Mapping[str | None, Log], event: Event) -> None:
    if event.job in logs and event.name not in ("start", "skip"):
        return  # nobody asks for the others, and there are too many
    result = getattr(event, "result", None)
    exception = getattr(event, "exception", None)
    logs.get(event.job, log).note(
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
