"""What tests of applications need: time in your hand, recorded events, and single runs."""

from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.recorder import EventRecorder
from leasecron.testing.running import make_context, run_once

__all__ = ["EventRecorder", "FakeClock", "make_context", "run_once"]
