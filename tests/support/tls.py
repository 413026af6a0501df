"""Servers that are reached by TLS: of Debian's packages, since wheels have some without it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

from support.requirements import require

_READY = 20.0
_HBA = "hostssl all all 127.0.0.1/32 trust\n"


class Certificate:
    """A certificate for localhost that vouches for itself."""

    def __init__(self, folder: Path) -> None:
        self.file, self.key = folder / "cert.pem", folder / "key.pem"
        require(shutil.which("openssl"), "openssl is not installed")
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
                *("-keyout", self.key, "-out", self.file),
            ],
            check=True,
            capture_output=True,
        )


@contextmanager
def redis_over_tls(certificate: Certificate) -> Iterator[int]:
    """Run a Redis server; yield its port, where nothing but TLS is spoken."""
    program = shutil.which("redis-server")
    require(program, "redis-server is not installed")
    assert program is not None
    port = _free_port()
    words = [program, "--port", "0", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    words += ["--tls-port", str(port), "--tls-auth-clients", "no"]
    words += ["--tls-cert-file", str(certificate.file), "--tls-key-file", str(certificate.key)]
    with _running(words, lambda: _answers(port)):
        yield port


@contextmanager
def postgres_over_tls(certificate: Certificate) -> Iterator[int]:
    """Run a PostgreSQL server; yield its port, where nobody is let in without TLS."""
    programs = glob("/usr/lib/postgresql/*/bin/initdb")
    require(programs, "no server of a postgresql package is installed")
    binaries = Path(max(programs)).parent
    port = _free_port()
    # The server is of a user of its own: it refuses to be root's.
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="leasecron-tls-") as name:
        folder = Path(name)
        data = folder / "data"
        for path in (certificate.file, certificate.key):
            shutil.copy(path, folder)
        (folder / "key.pem").chmod(0o600)
        if user is not None:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, user)
        made: list[str | Path] = [
            binaries / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        subprocess.run([*made, "--no-sync"], check=True, capture_output=True, user=user)
        (data / "pg_hba.conf").write_text(_HBA)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": "",
            "ssl": "on",
            "ssl_cert_file": folder / "cert.pem",
            "ssl_key_file": folder / "key.pem",
        }
        words = [str(binaries / "postgres"), "-D", str(data)]
        words += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        ready: list[str | Path] = [
            binaries / "pg_isready",
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
        ]
        with _running(words, lambda: subprocess.run(ready, check=False).returncode == 0, user):
            yield port


@contextmanager
def _running(
    words: list[str], is_ready: Callable[[], bool], user: str | None = None
) -> Iterator[None]:
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd="/"
    )
    try:
        deadline = time.monotonic() + _READY
        while not is_ready():
            assert process.poll() is None, words
            assert time.monotonic() < deadline, words
        yield
    finally:
        process.terminate()
        process.wait(_READY)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port: int = chosen.getsockname()[1]
    return port
