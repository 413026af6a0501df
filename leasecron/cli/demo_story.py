"""What happens in the demo, from the start of the instances to the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from leasecron.cli import demo_plan as plan
from leasecron.cli.demo_board import Board, line_text, run_text
from leasecron.cli.demo_check import Kill, Verdict, judge
from leasecron.cli.demo_crew import Crew, Instance
from leasecron.cli.demo_messages import Run
from leasecron.cli.demo_screen import Screen
from leasecron.cron import Cron
from leasecron.scheduler import Scheduler

_START_LIMIT = 60.0
_RUN_LIMIT = 60.0
_SETTLE_LIMIT = 10.0
_STOP_LIMIT = 20.0
_FRAME = 0.1


class DemoFailed(Exception):
    """The demo cannot go on; the message says why."""


class Story:
    """The demo; ``takeover`` tells of its takeover once there was one."""

    def __init__(self, screen: Screen, crew: Crew, store: Path) -> None:
        self._screen = screen
        self._crew = crew
        self._store = store
        self._board = Board(plan.INSTANCES)
        self.takeover = ""

    def tell(self, seconds: int) -> Verdict:
        """Let it happen; return what the store says of it."""
        self._tell("-", "demo", f"three instances on {self._store}")
        for name in plan.INSTANCES:
            self._crew.start(name)
        self._wait(self._board.all_ready, _START_LIMIT, "the start of all instances")
        ready = datetime.now(UTC)
        schedules = plan.short_jobs()
        slot = plan.export_slot(ready)
        schedules[plan.EXPORT] = Cron(plan.once_a_day(slot), "UTC")
        self._crew.order(plan.once_a_day(slot))
        kill = self._kill_holder((plan.EXPORT, slot))
        self._await_takeover(kill)
        until = plan.quiet_moment(ready + timedelta(seconds=seconds), schedules.values())
        self._run_until(until)
        expected = plan.expected_slots(schedules, ready, until)
        runs = {(job, slot) for job, slots in expected.items() for slot in slots}
        # Whatever is missing after that is for the verdict to tell.
        self._comes(lambda: runs <= self._board.succeeded, _SETTLE_LIMIT)
        self._stop()
        history = Scheduler(self._store).history(limit=100_000)
        return judge(history, self._board.calls, expected, kill)

    def _kill_holder(self, run: Run) -> Kill:
        """Wait for the middle of the long run, and kill the instance that holds it."""
        self._wait(
            lambda: self._board.holder(run) is not None, _RUN_LIMIT, f"the start of {run_text(run)}"
        )
        middle = datetime.now(UTC) + timedelta(seconds=plan.KILL_AFTER)
        self._run_until(plan.quiet_moment(middle, plan.short_jobs().values()))
        holder = self._board.holder(run)
        if holder is None:
            raise DemoFailed(f"{run_text(run)} ended before its holder could be killed")
        at = self._crew.kill(holder)
        self._board.ended(holder, "killed")
        self._tell(holder, "KILLED", f"SIGKILL in the middle of {run_text(run)}")
        return Kill(holder, run, at)

    def _await_takeover(self, kill: Kill) -> None:
        second = (kill.run, 2)
        self._wait(lambda: second in self._board.started, _RUN_LIMIT, "the takeover")
        start = self._board.started[second]
        took = f"{start.monotonic - kill.monotonic:.2f} s after the kill of {kill.instance}"
        self._tell(start.instance, "TAKEOVER", took)
        promised = plan.LEASE + 2 * plan.HEARTBEAT
        self.takeover = f"by {start.instance}, {took} (lease + 2 heartbeats: {promised:g} s)"
        self._wait(
            lambda: kill.run in self._board.succeeded,
            _RUN_LIMIT,
            f"the end of {run_text(kill.run)}",
        )

    def _run_until(self, instant: datetime) -> None:
        while (left := (instant - datetime.now(UTC)).total_seconds()) > 0:
            self._hear(min(left, _FRAME))

    def _stop(self) -> None:
        self._tell("-", "stop", "SIGTERM to the instances that are left")
        self._crew.stop()
        self._wait(self._crew.all_ended, _STOP_LIMIT, "the end of all instances")

    def _wait(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        if not self._comes(condition, limit):
            raise DemoFailed(f"{what} did not come within {limit:g} s")

    def _comes(self, condition: Callable[[], bool], limit: float) -> bool:
        """Show what happens until the condition holds; False if it does not within the limit."""
        deadline = time.monotonic() + limit
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._hear(_FRAME)
        return True

    def _hear(self, timeout: float) -> None:
        for heard in self._crew.hear(timeout):
            if isinstance(heard, Instance):
                self._ended(heard)
            elif (line := self._board.apply(heard)) is not None:
                self._screen.say(line)
        self._screen.draw(self._board)

    def _ended(self, instance: Instance) -> None:
        name, code = instance.name, instance.process.returncode
        if self._board.rows[name].state == "killed":
            self._board.ended(name, "killed")  # its last messages came after the kill
            return
        self._board.ended(name, "stopped")
        self._tell(name, "ended", f"exit code {code}")
        if code != 0 or not instance.dismissed:
            how = "did not stop cleanly" if instance.dismissed else "ended by itself"
            words = instance.last_words()
            raise DemoFailed(f"instance {name} {how}: exit code {code}\n{words}".rstrip())

    def _tell(self, instance: str, verb: str, rest: str) -> None:
        self._screen.say(line_text(time.time(), instance, verb, rest))
