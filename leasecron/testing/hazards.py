"""What can befall the instances of a simulated cluster, and what people do to its jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from leasecron import durations
from leasecron.asked import Run
from leasecron.backfill import MOST_SLOTS, Backfill
from leasecron.durations import TEN_YEARS, Duration
from leasecron.errors import ConfigurationError, SchedulerStateError, shown
from leasecron.scheduler import Scheduler
from leasecron.schedules import Schedule
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.instance import Instance
from leasecron.testing.trouble import Trouble


class Hazards(ABC):
    """The part of a cluster that harms its instances, or acts through one of them."""

    clock: FakeClock
    _instances: Sequence[Instance]
    _trouble: Trouble
    _done: list[str]

    @abstractmethod
    def start(self) -> None:
        """Start all instances; harmless when started."""

    @abstractmethod
    def _set_up(self, instance: Instance) -> None:
        """Declare in a new process what is declared in all."""

    # What befalls an instance

    def crash(self, i: int) -> None:
        """Kill an instance, as SIGKILL would. A handler of its own that calls this goes no further.

        Its threads stand still until :meth:`close`, which lets them end by an exception.
        """
        self._note(f"crash({i})")
        self._at(i).crash()

    def freeze(self, i: int, seconds: Duration) -> None:
        """Let an instance stand still for so long, as SIGSTOP and SIGCONT would."""
        self._note(f"freeze({i}, {seconds})")
        self._at(i).freeze(simulated("freeze", seconds))

    def skew(self, i: int, seconds: float) -> None:
        """Set the wall clock of an instance so many seconds ahead of the others'; 0 sets it right.

        Its monotonic clock goes on as before. The step is noticed within a minute.
        """
        if not isinstance(seconds, (int, float)) or not abs(seconds) <= TEN_YEARS:
            raise ConfigurationError(f"skew is {shown(seconds)}; right are seconds, up to 10 years")
        self._note(f"skew({i}, {seconds})")
        self._at(i).skew(seconds)

    def partition(self, i: int) -> None:
        """Let all calls that an instance makes of the store fail, until :meth:`heal`.

        A call that is under way has reached the store or not, as :meth:`slow_store` has it.
        """
        self._note(f"partition({i})")
        self._at(i).cut(cut=True)

    def heal(self, i: int) -> None:
        """Let an instance reach the store again."""
        self._note(f"heal({i})")
        self._at(i).cut(cut=False)

    def slow_store(self, seconds: Duration) -> None:
        """Let each call of the store take so long, half of it before it is made; 0 ends that."""
        self._note(f"slow_store({seconds})")
        delay = simulated("slow_store", seconds)
        for instance in self._instances:
            instance.slow(delay)

    def restart(self, i: int) -> None:
        """Put a new process in an instance's place, and start it.

        A live one is told to stop, as on SIGTERM, and killed after 10 s. Raises what
        ``Scheduler.start`` raises.
        """
        self.start()
        self._note(f"restart({i})")
        instance = self._at(i)
        instance.replace()
        self._set_up(instance)
        instance.start()

    def trouble(
        self, seconds: Duration, *, every: Duration = 3600, longest: Duration = 900
    ) -> None:
        """Let ``seconds`` pass, and something go wrong ``every`` so long on average.

        What goes wrong, where, and for how long (from a second to ``longest``) is drawn from the
        seed: crashes, freezes, skewed clocks, partitions, a slow store, restarts. It is all mended
        at the end.
        """
        self.start()
        self._trouble.play(
            simulated("trouble", seconds),
            durations.seconds(every, what="trouble: every", minimum=1.0),
            durations.seconds(longest, what="trouble: longest", minimum=1.0),
        )

    # What people do

    def trigger(self, name: str) -> Run:
        """Have a job run once now, as ``Scheduler.trigger`` does, through an instance that is up.

        Raises what that raises, here and below, and :class:`SchedulerStateError` where none is up.
        """
        return self._act(f"trigger({name!r})").trigger(name)

    def pause(self, name: str, note: str = "") -> None:
        """Let no run of a job begin until it is resumed, as ``Scheduler.pause`` does."""
        self._act(f"pause({name!r})").pause(name, note)

    def resume(self, name: str) -> None:
        """Let runs of a job begin again, as ``Scheduler.resume`` does."""
        self._act(f"resume({name!r})").resume(name)

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime | None = None,
        *,
        most: int = MOST_SLOTS,
        schedule: Schedule | None = None,
    ) -> Backfill:
        """Have every slot of a range run that never succeeded, as ``Scheduler.backfill`` does."""
        scheduler = self._act(f"backfill({name!r}, {start!r}, {end!r})")
        return scheduler.backfill(name, start, end, most=most, schedule=schedule)

    def _act(self, what: str) -> Scheduler:
        """Return the scheduler to act through: one that answers, if there is one."""
        self.start()
        self._note(what)
        up = sorted(
            (each for each in self._instances if each.up), key=lambda each: not each.answers
        )
        if not up:
            raise SchedulerStateError(f"{what}: no instance is up; restart one first")
        return up[0].scheduler

    def _at(self, i: int) -> Instance:
        if type(i) is not int or not 0 <= i < len(self._instances):
            last = len(self._instances) - 1
            raise ConfigurationError(
                f"instance {shown(i)} is wrong; right is an int from 0 to {last}"
            )
        return self._instances[i]

    def _note(self, what: str) -> None:
        self._done.append(f"{self.clock.now().isoformat()} {what}")


def simulated(what: str, value: Duration) -> float:
    """Return a length of simulated time in seconds; raises :class:`ConfigurationError`."""
    return durations.seconds(value, what=what, minimum=1e-6, zero=True)
