"""Waiting until a process that got SIGSTOP does nothing any more."""

import os
import sys


def wait_until_stopped(pid: int) -> None:
    """Wait until no thread of a child runs any more that got SIGSTOP, or until it is dead.

    One of its threads has to come to its turn first; until then the others go on, and take locks.
    """
    if sys.platform == "linux":
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
