"""Short plays of retries, of slots that wait, and of what people do to jobs."""

from __future__ import annotations

from faults.stage import VICTIM, Polled, Stage
from leasecron import RunContext


def retried(stage: Stage) -> None:
    """Tries that fail: in time, too late, without the store, and with a stop while one waits."""

    def fails_once(ctx: RunContext) -> None:
        if not ctx.retry:
            raise ValueError("on purpose")

    def deaf_once(ctx: RunContext) -> None:
        if not ctx.retry:
            stage.deaf(2)

    def fails_for_good(_ctx: RunContext) -> None:
        raise ValueError("on purpose")

    def fails_alone(ctx: RunContext) -> None:
        ctx.sleep(1)
        fails_once(ctx)

    def fails_late(ctx: RunContext) -> None:
        fails_once(ctx)

    stage.job("2", fails_once, retries=2, backoff=1)
    stage.job("3", deaf_once, timeout=1, retries=1, backoff=1)
    stage.job("4", fails_for_good, pause_on_failure=True)
    stage.job("8", fails_alone, retries=1, backoff=1)
    stage.job("16", fails_late, retries=1, backoff=15)
    stage.start()
    stage.until(8.5)
    stage.partition(VICTIM)
    stage.until(14)
    stage.heal(VICTIM)
    stage.until(18)
    stage.end_victim()
    stage.until(20)


def queued(stage: Stage) -> None:
    """Slots that wait for the end of an older run, or have it make way."""

    def waits(ctx: RunContext) -> None:
        ctx.sleep(4)

    def waits_elsewhere(ctx: RunContext) -> None:
        ctx.sleep(4)

    def makes_way(ctx: RunContext) -> None:
        ctx.sleep(8)

    stage.job("2,4", waits, overlap="queue")
    stage.job("3,5", waits_elsewhere, first=1, overlap="queue")
    stage.job("10,12", makes_way, overlap="cancel")
    stage.start()
    stage.until(16)
    stage.end_victim()
    stage.until(18)


def asked(stage: Stage) -> None:
    """A job that runs once, a pause, and runs that another instance asks for."""

    def once(ctx: RunContext) -> None:
        ctx.sleep(1)

    def by_hand(ctx: RunContext) -> None:
        ctx.sleep(3)

    def held(ctx: RunContext) -> None:
        ctx.sleep(4)

    def paused(_ctx: RunContext) -> None:
        """Take no time."""

    def removed(_ctx: RunContext) -> None:
        """Take no time."""

    stage.one_off(3, once)
    stage.job("50", by_hand)
    stage.job("20", held, first=1)
    stage.job("17", paused)
    stage.job("51", removed)
    stage.start()
    stage.until(4)
    stage.ask_for("by_hand")
    stage.until(4.5)
    stage.ask_for("by_hand")
    stage.until(6)
    stage.schedulers[1].pause("by_hand")
    stage.until(12)
    stage.schedulers[1].resume("by_hand")
    stage.until(14)
    stage.schedulers[VICTIM].remove("removed")
    stage.ask_for("removed")
    stage.until(16)
    stage.schedulers[1].pause("paused")
    stage.until(18)
    stage.schedulers[1].resume("paused")
    stage.until(21)
    stage.restart(1)
    stage.until(23)
    stage.ask_for("by_hand")
    stage.until(24)
    stage.ask_for("by_hand")
    stage.until(24.5)
    stage.end_victim()
    stage.until(27)


def filled(stage: Stage) -> None:
    """Two backfills, of which the second finds some slots done, and a store that refuses."""
    refused: set[str] = set()
    assert isinstance(stage.store, Polled)
    stage.store.refuses = lambda name: name in refused and stage.in_victim()

    def fills(ctx: RunContext) -> None:
        ctx.sleep(1)

    stage.job("50", fills)
    stage.start()
    stage.until(2)
    stage.fill("fills", 2)
    stage.until(8)
    refused.add("succeeded")
    stage.fill("fills", 4)
    stage.leave_alone()
    stage.until(9)
    refused.clear()
    refused.add("advance")
    stage.until(11)
    refused.clear()
    stage.until(16)
    stage.end_victim()
    stage.until(18)
