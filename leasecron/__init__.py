"""Runs every due slot of every job in exactly one copy of your application."""

from leasecron.asked import Run
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backfill import Backfill
from leasecron.clock import Clock, SystemClock
from leasecron.context import AbortSignal, RunContext
from leasecron.cron import Cron
from leasecron.errors import (
    BackendError,
    BackendMismatch,
    BackendUnavailable,
    ConfigurationError,
    GiveUp,
    LeasecronError,
    RunAborted,
    SchedulerStateError,
)
from leasecron.events import (
    Event,
    RunFailed,
    RunInterrupted,
    RunSkipped,
    RunStarted,
    RunSucceeded,
    StoreFailed,
)
from leasecron.jobs import Job
from leasecron.model import RunResult
from leasecron.options import JobOptionArgs, JobOptions
from leasecron.scheduler import Scheduler
from leasecron.schedules import Every, Once, Schedule

__version__ = "0.1.0"

__all__ = [
    "AbortSignal",
    "BackendError",
    "BackendMismatch",
    "BackendUnavailable",
    "Backfill",
    "Clock",
    "ConfigurationError",
    "Cron",
    "Event",
    "Every",
    "GiveUp",
    "Job",
    "JobOptionArgs",
    "JobOptions",
    "LeasecronError",
    "LockDirBackend",
    "MemoryBackend",
    "Once",
    "Run",
    "RunAborted",
    "RunContext",
    "RunFailed",
    "RunInterrupted",
    "RunResult",
    "RunSkipped",
    "RunStarted",
    "RunSucceeded",
    "Schedule",
    "Scheduler",
    "SchedulerStateError",
    "SqliteBackend",
    "StoreFailed",
    "SystemClock",
]
