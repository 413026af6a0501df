"""The jobs of the demo, and the moments at which something is done to them. All pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from leasecron.schedules import Cron, Every, Schedule

INSTANCES: Final = ("A", "B", "C")

TICK: Final = "tick"
REPORT: Final = "report"
EXPORT: Final = "export"
TICK_INTERVAL: Final = "2s"
REPORT_EXPRESSION: Final = "*/5 * * * * *"

SECONDS: Final = 18
"""How long the instances run, if nobody asks for more."""

LEASE: Final = 2.0
HEARTBEAT: Final = LEASE / 4
TICK_WORK: Final = 0.1
REPORT_WORK: Final = 0.2
EXPORT_WORK: Final = 5.0
KILL_AFTER: Final = 1.5
"""Seconds of the long run before its holder is killed: long enough for heartbeats to be seen."""

_SETTLED = timedelta(seconds=0.7)  # jitter and work of the short jobs come to less than this
_AHEAD = timedelta(seconds=0.3)


def short_jobs() -> dict[str, Schedule]:
    """Return the schedules of the jobs that run again and again."""
    return {TICK: Every(TICK_INTERVAL), REPORT: Cron(REPORT_EXPRESSION, "UTC")}


def export_slot(ready: datetime) -> datetime:
    """Return the slot of the long job, a few seconds after all instances are ready."""
    return ready.replace(microsecond=0) + timedelta(seconds=4)


def once_a_day(slot: datetime) -> str:
    """Return the cron expression (UTC) whose slot of that day is ``slot``.

    No other slot comes near, so nothing replaces a run of it that lost its instance.
    """
    return f"{slot.second} {slot.minute} {slot.hour} * * *"


def quiet_moment(after: datetime, schedules: Iterable[Schedule]) -> datetime:
    """Return the first instant from ``after`` on that lies clear of every slot.

    An instance that is killed then holds the long run and no other, and what is killed by chance
    does not blur what the demo shows.
    """
    schedules = tuple(schedules)
    moment = after
    while (moved := _moved(moment, schedules)) != moment:
        moment = moved
    return moment


def _moved(moment: datetime, schedules: tuple[Schedule, ...]) -> datetime:
    for schedule in schedules:
        latest, following = schedule.latest_at(moment), schedule.next_after(moment)
        if latest is not None and moment < latest + _SETTLED:
            return latest + _SETTLED
        if following is not None and moment > following - _AHEAD:
            return following + _SETTLED
    return moment


def slots_between(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """Return the slots later than ``after`` and not later than ``until``."""
    slots = []
    slot = schedule.next_after(after)
    while slot is not None and slot <= until:
        slots.append(slot)
        slot = schedule.next_after(slot)
    return slots


def expected_slots(
    schedules: Mapping[str, Schedule], after: datetime, until: datetime
) -> dict[str, list[datetime]]:
    """Return the slots of each job that must have run."""
    return {job: slots_between(schedule, after, until) for job, schedule in schedules.items()}
