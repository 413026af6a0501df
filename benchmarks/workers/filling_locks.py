"""Fills a lock directory with claims of the day, and says when it is done.

The files are empty: what grows are the folders, and no file of a past claim is read. Nothing waits
for the disk meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.workers import child
from benchmarks.workers.claims import now_ms
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.names import JOBS, day_of, folder_of_job

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def main() -> None:
    """Make the lock directory and put the files in, as many for each job."""
    given = child.arguments()
    backend = LockDirBackend(given["store"], create=True)
    backend.open()
    backend.close()
    slots = range(given["claims"] // given["jobs"])
    now = now_ms()
    for number in range(given["jobs"]):
        folder = Path(given["store"], JOBS, folder_of_job(f"job-{number}"), day_of(now))
        folder.mkdir(parents=True)
        for slot in slots:
            os.close(os.open(f"{folder}/{now - 1000 * slot}", _NEW, 0o600))
    child.say(filled=given["claims"])


if __name__ == "__main__":
    main()
