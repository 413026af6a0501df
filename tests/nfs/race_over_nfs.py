"""Race for the slots of a lock directory on a real NFS server.

It exits with 1 unless each slot is won exactly once.

By hand, as root, in a clone that is set up for its tests:

    apt-get install --no-install-recommends fuse3 nfs-ganesha nfs-ganesha-vfs rpcbind libnfs13
    PYTHONPATH=tests .venv/bin/python tests/nfs/race_over_nfs.py --version 4

The server is a user-space one on loopback, in a namespace of its own; two FUSE mounts through
libnfs stand for two hosts, and keep what they have seen for some seconds. Nothing is left behind.
"""

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from support.claim_race import Race, race
from support.mounts import mounted

from leasecron.backends.lockdir.backend import LockDirBackend
from nfs import client
from nfs.ganesha import in_a_namespace_of_its_own, served, url


def main() -> int:
    """Run the race, in a new namespace if this is not one yet."""
    parser = argparse.ArgumentParser(description="Race for slots on a real NFS server.")
    parser.add_argument("--version", type=int, choices=(3, 4), default=4, help="of the protocol")
    parser.add_argument("--slots", type=int, default=500)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.inside:
        return in_a_namespace_of_its_own([sys.executable, *sys.argv, "--inside"])
    ended = _race(asked.version, asked.slots, asked.processes)
    _report(ended, asked.version)
    return int(bool(ended.doubles or ended.unwon))


def _race(version: int, slots: int, processes: int) -> Race:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory()))
        exported = scratch / "exported"
        exported.mkdir()
        stack.enter_context(served(exported, scratch, version))
        mounts = [scratch / "first", scratch / "second"]
        program = [client.__file__, url(exported, version)]
        environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
        for point in mounts:
            stack.enter_context(mounted(point, program, environment))
        # Made on the first mount, so that the second has not seen it yet.
        store = LockDirBackend(mounts[0], create=True)
        store.open()
        store.close()
        return race([mounts[number % 2] for number in range(processes)], slots)


def _report(ended: Race, version: int) -> None:
    print(f"NFS version {version}, 2 mounts, {len(ended.won)} processes, {len(ended.slots)} slots")
    print(f"won by each: {' '.join(str(len(won)) for won in ended.won)}")
    print(f"winners {sum(map(len, ended.won))}, doubles {len(ended.doubles)}", end=", ")
    print(f"without a winner {len(ended.unwon)}, {ended.seconds:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
