"""How a thread of this process stands, seen from another thread.

A thread that blocks outside the clock cannot say so. What can be seen from outside is the stack it
stands at and, on Linux, whether the kernel has let it run since.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
from types import CodeType, FrameType

Stack = tuple[tuple[CodeType, int], ...]
Pulse = tuple[str, ...]

_looking = threading.Lock()
_PULSE = re.compile(r"^(?:State|(?:non)?voluntary_ctxt_switches):\s*(\w+)", re.MULTILINE)


def stack_of(thread: threading.Thread) -> Stack:
    """Return each frame's code and instruction, innermost first; empty when there is no frame."""
    frame = _frames().get(thread.ident or 0)
    stack: list[tuple[CodeType, int]] = []
    while frame is not None:
        try:
            stack.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        except AttributeError:
            # The thread has gone on meanwhile, and what was a frame is none (seen on Python 3.11).
            return ()
    return tuple(stack)


def pulse_of(thread: threading.Thread) -> Pulse | None:
    """Return the state of the thread and its context switches; None where the kernel hides them.

    It changes in the very moment in which a sleeping thread is woken, before that thread gets the
    interpreter lock and can move its stack.
    """
    try:
        with open(f"/proc/self/task/{thread.native_id}/status", encoding="ascii") as file:
            return tuple(_PULSE.findall(file.read()))
    except (OSError, UnicodeDecodeError):
        return None


def _frames() -> dict[int, FrameType]:
    # Python 3.11 can collect garbage inside this call, which holds the lock of the list of threads.
    # A threading.local in that garbage wants the same lock, and the process stops for ever.
    with _looking:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()  # noqa: SLF001 (the documented way to see other stacks)
        finally:
            if collects:
                gc.enable()
