"""What the handlers of a chaos run do: they write down what they see, and leasecron sees nothing.

While a handler runs it says again and again whether it has been told to end: that is all that
tells a holder who still believes in its lease from one who knows better.
"""

import multiprocessing
import os
import time

from chaos.jobs import FILLED, Work
from chaos.log import Log
from leasecron import ConfigurationError, RunAborted, RunContext
from leasecron.model import to_ms

STEP = 0.1  # seconds between two looks of a handler

_CAN_FORK = "FAKETIME_TIMESTAMP_FILE" not in os.environ
"""libfaketime lets a child wait for ever that was forked while another thread read the clock."""


class PlannedError(Exception):
    """The run ends by an exception, as its job had planned."""


def handle(work: Work, log: Log, ctx: RunContext) -> None:
    """Run one slot of a job, and write down how it began, went on and ended."""
    log.note(
        "begin",
        job=ctx.job,
        slot=to_ms(ctx.slot),
        attempt=ctx.attempt,
        retry=ctx.retry or None,
        trigger=ctx.trigger,
        fence=_fence(ctx),
        token=ctx.token,
        instance=ctx.instance,
        pid=os.getpid(),
        told=ctx.signal.reason,
    )
    how = "broken"
    try:
        _work(work, log, ctx)
        how = "returned"
    except PlannedError:
        how = "raised"
        raise
    except RunAborted:
        how = "aborted"
        raise
    finally:
        retry = ctx.retry or None
        log.note("end", token=ctx.token, retry=retry, how=how, told=ctx.signal.reason)


def _work(work: Work, log: Log, ctx: RunContext) -> None:
    slot = to_ms(ctx.slot)
    until = time.monotonic() + work.length(slot)
    if work.forks and _CAN_FORK:
        _fork(log, slot)
    while (left := until - time.monotonic()) > 0:
        if work.deaf:
            time.sleep(min(STEP, left))
        else:
            ctx.sleep(min(STEP, left))
        if left > STEP:  # else its end says the same
            log.note("alive", token=ctx.token, retry=ctx.retry or None, told=ctx.signal.reason)
    # A slot that a backfill runs again may succeed then.
    if work.raises(slot, (_fence(ctx) or 0) if work.name == FILLED else ctx.retry):
        raise PlannedError


def _fork(log: Log, slot: int) -> None:
    """Have a child, by turns a bare one and one of multiprocessing, and wait for its end."""
    if slot // 3000 % 2:
        child = os.fork()
        if not child:
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    else:
        process = multiprocessing.get_context("fork").Process(target=log.note, args=("child",))
        process.start()
        process.join()
        code = process.exitcode or 0
    log.note("forked", code=code)


def _fence(ctx: RunContext) -> int | None:
    try:
        return ctx.fence
    except ConfigurationError:  # the store has no leases
        return None
