"""A user-space NFS server on loopback, for as long as a block lasts."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HOST = "127.0.0.1"
LIMIT = 30.0
RPC_PORT, NFS_PORT, MOUNT_PORT, LOCK_PORT = 111, 22049, 22050, 22051

_CONFIGURATION = """
NFS_CORE_PARAM {{
    Protocols = {protocols};
    NFS_Port = {NFS_PORT};
    MNT_Port = {MOUNT_PORT};
    NLM_Port = {LOCK_PORT};
    Enable_UDP = false;
    Enable_NLM = false;
}}
NFSV4 {{
    Graceless = true;
    RecoveryBackend = fs;
    Lease_Lifetime = 60;
    Only_Numeric_Owners = true;
}}
EXPORT {{
    Export_Id = 1;
    Path = {folder};
    Pseudo = /exported;
    Access_Type = RW;
    Squash = None;
    SecType = sys;
    FSAL {{ Name = VFS; }}
}}
"""


class NotServedError(Exception):
    """The server could not be started; the text says why."""


def in_a_namespace_of_its_own(command: Sequence[str]) -> int:
    """Run a command where loopback ports and mounts are its own; return its exit code."""
    inside = 'ip link set lo up && exec "$@"'
    return subprocess.call(["unshare", "--net", "--mount", "sh", "-c", inside, "sh", *command])


def url(folder: Path, version: int) -> str:
    """Return what a client mounts of a server that exports ``folder``."""
    path = "/exported" if version == 4 else str(folder)
    return f"nfs://{HOST}{path}?version={version}&nfsport={NFS_PORT}&mountport={MOUNT_PORT}"


@contextmanager
def served(folder: Path, scratch: Path, version: int) -> Iterator[None]:
    """Export ``folder`` over NFS, version 3 or 4.

    The server registers at a port mapper, which has a fixed port: this wants a network namespace of
    one's own, see :func:`in_a_namespace_of_its_own`.
    """
    configuration, log = scratch / "ganesha.conf", scratch / "ganesha.log"
    values = {name: globals()[name] for name in ("NFS_PORT", "MOUNT_PORT", "LOCK_PORT")}
    protocols = "4" if version == 4 else "3, 4"
    configuration.write_text(_CONFIGURATION.format(protocols=protocols, folder=folder, **values))
    files = ["-f", str(configuration), "-L", str(log), "-p", str(scratch / "pid")]
    with ExitStack() as stack:
        stack.enter_context(_running(["rpcbind", "-f"], RPC_PORT))
        try:
            stack.enter_context(_running(["ganesha.nfsd", "-F", *files], NFS_PORT))
        except NotServedError as error:
            said = log.read_text(errors="replace") if log.exists() else ""
            raise NotServedError(f"{error}\n{said}") from None
        yield


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[None]:
    """Run a server, from when it answers on its port."""
    if shutil.which(command[0]) is None:
        raise NotServedError(f"{command[0]} is not installed")
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            raise NotServedError(f"port {port} is in use already")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(process, port)
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT)
        process.kill()
        process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.1)
    raise NotServedError(f"{process.args!r} does not answer on port {port}")
