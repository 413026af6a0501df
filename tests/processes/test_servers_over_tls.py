"""Stores in servers that are reached by TLS alone."""

from __future__ import annotations

import select
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from support.tls import Certificate, postgres_over_tls, redis_over_tls

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.urls import backend_for
from leasecron.errors import BackendError, BackendUnavailable
from leasecron.model import Ending

LONG = 30.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def postgres(certificate: Certificate) -> Iterator[str]:
    with postgres_over_tls(certificate) as port:
        yield f"postgresql://postgres@localhost:{port}/postgres"


@pytest.fixture(scope="module")
def redis(certificate: Certificate) -> Iterator[str]:
    with redis_over_tls(certificate) as port:
        yield f"rediss://localhost:{port}/0"


def backend_of(url: str) -> PostgresBackend | RedisBackend:
    found = backend_for(url)
    assert isinstance(found, PostgresBackend | RedisBackend)
    return found


def works(*urls: str) -> None:
    """Claim, give back and hear of it, by one connection or two."""
    holder, backup = backends = [backend_of(url) for url in urls]
    for backend in backends:
        backend.open()
    claim = a_claim(round(time.time(), 3) - START, "a")
    assert holder.claim([claim])[0].outcome == "won"
    assert backup.claim([claim])[0].outcome == "won"  # by its token, the same
    assert holder.release([Ending("job", claim.slot, "a", "interrupted")]) == [True]
    assert heard(backup) == [("job", claim.slot)]
    for backend in backends:
        backend.close()


def heard(backend: PostgresBackend | RedisBackend) -> list[tuple[str, datetime]]:
    found: list[tuple[str, datetime]] = []
    backend.hear(lambda job, slot: found.append((job, slot)))
    deadline = time.monotonic() + LONG
    while not found and time.monotonic() < deadline:
        descriptor = backend.listening()
        assert descriptor is not None
        select.select([descriptor], [], [], LONG)
        backend.pass_on()
    return found


def refused(url: str, kind: type[BackendError] = BackendUnavailable) -> str:
    backend = backend_for(url)
    with pytest.raises(kind) as found:
        backend.open()
    return str(found.value)


@pytest.mark.parametrize("mode", ["require", "verify-full&sslrootcert={cert}"])
def test_postgresql_over_tls(postgres: str, certificate: Certificate, mode: str) -> None:
    options = f"sslmode={mode.format(cert=certificate.file)}&schema=s{uuid.uuid4().hex}"
    works(f"{postgres}?{options}", f"{postgres}?{options}")


def test_postgresql_without_tls_where_it_is_needed(postgres: str) -> None:
    said = refused(f"{postgres}?sslmode=disable", BackendError)
    assert "cannot be used" in said
    assert "no encryption" in said


def test_a_postgresql_server_that_nobody_vouches_for(postgres: str, tmp_path: Path) -> None:
    other = Certificate(tmp_path)
    said = refused(f"{postgres}?sslmode=verify-full&sslrootcert={other.file}")
    assert "cannot be reached" in said
    assert "certificate verify failed" in said


@pytest.mark.parametrize("option", ["ssl_ca_certs={cert}", "ssl_cert_reqs=none"])
def test_redis_over_tls(redis: str, certificate: Certificate, option: str) -> None:
    options = f"{option.format(cert=certificate.file)}&prefix={uuid.uuid4().hex}"
    works(f"{redis}?{options}", f"{redis}?{options}".replace("rediss", "valkeys"))


def test_redis_without_tls_where_it_is_needed(redis: str) -> None:
    assert "cannot be reached" in refused(redis.replace("rediss", "redis"))


def test_a_redis_server_that_nobody_vouches_for(redis: str, tmp_path: Path) -> None:
    said = refused(f"{redis}?ssl_ca_certs={Certificate(tmp_path).file}")
    assert "cannot be reached" in said
    assert "CERTIFICATE_VERIFY_FAILED" in said
