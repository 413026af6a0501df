"""What tests of applications need: time in your hand, recorded events, single runs, a cluster."""

from leasecron.testing.attempts import Attempt
from leasecron.testing.cluster import Cluster
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.recorder import EventRecorder
from leasecron.testing.running import make_context, run_once

__all__ = ["Attempt", "Cluster", "EventRecorder", "FakeClock", "make_context", "run_once"]
