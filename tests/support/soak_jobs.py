"""Two jobs that say when they begin and end, for servers that are disturbed for a minute.

They work in the folder that the server was started in.
"""

import atexit
import logging
from pathlib import Path

from leasecron import RunContext, Scheduler
from leasecron.model import to_ms
from support.soak_times import LONG_MS, TICK_MS
from support.span_log import SpanLog

LONG_STEPS = 12
STEP = 0.5  # seconds: the long job takes six in all

logging.basicConfig(level=logging.INFO)
log = SpanLog(Path("spans.log"))


class _Lives(logging.Handler):
    """Notes when the scheduler of this process has started, and when the process shall end."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("the scheduler started"):
            log.write("up")
            # Registered after the scheduler's own, so called before it.
            atexit.register(log.write, "told")


logging.getLogger("leasecron").addHandler(_Lives())
scheduler = Scheduler("sqlite:///leasecron.db")


# Overlap is allowed, so that nothing excuses a slot without a call: a slot that is caught up just
# before the next one would be in its way.
@scheduler.every("tick", TICK_MS / 1000, lease="1800ms", overlap="allow")
def tick(ctx: RunContext) -> None:
    with log.span(ctx):
        ctx.sleep(0.2)


@scheduler.every("long", LONG_MS / 1000, lease="2s")
def long(ctx: RunContext) -> None:
    """Go on where an earlier attempt had to leave off, as long work should."""
    done = Path(f"long-{to_ms(ctx.slot)}")
    with log.span(ctx):
        while not done.exists() or done.stat().st_size < LONG_STEPS:
            ctx.sleep(STEP)
            log.write("step")  # it may be the last that is heard of this process
            with done.open("a") as file:
                file.write(".")
