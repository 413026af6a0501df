"""URLs of PostgreSQL stores: which are taken, and that no password is ever shown."""

from __future__ import annotations

import sys

import pytest

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.urls import backend_for
from leasecron.errors import ConfigurationError

SECRET = "s3cr3t"


def backend(url: str) -> PostgresBackend:
    found = backend_for(url)
    assert isinstance(found, PostgresBackend)
    return found


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_the_usual_schemes_name_the_same_store(scheme: str) -> None:
    found = backend(f"{scheme}://app:{SECRET}@db.example:5433/jobs")

    assert found.description == "postgresql://app@db.example:5433/jobs"
    assert found.address.conninfo == f"postgresql://app:{SECRET}@db.example:5433/jobs"
    assert found.address.schema == "leasecron"


@pytest.mark.parametrize(
    ("url", "description"),
    [
        ("postgresql:///jobs", "postgresql:///jobs"),
        ("postgresql://", "postgresql:///"),
        ("postgresql://db", "postgresql://db/"),
        ("postgresql:///jobs?host=/run/pg", "postgresql:///run/pg/jobs"),
        ("postgresql://a@/jobs?sslmode=require", "postgresql://a@/jobs"),
        ("postgresql://db/jobs?schema=staging", "postgresql://db/jobs?schema=staging"),
        ("postgresql://db/jobs?schema=a%20b&sslmode=require", "postgresql://db/jobs?schema=a b"),
    ],
)
def test_what_a_store_is_called(url: str, description: str) -> None:
    assert backend(url).description == description


def test_the_options_of_libpq_reach_it() -> None:
    found = backend("postgresql:///jobs?host=%2Frun%2Fpg&schema=x&options=-c%20geqo%3Doff")

    assert "host=%2Frun%2Fpg" in found.address.conninfo
    assert "options=-c%20geqo%3Doff" in found.address.conninfo
    assert "schema" not in found.address.conninfo


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://app:{SECRET}@db/jobs?nonsense=1",
        f"postgresql://app:{SECRET}@db/jobs?schema=",
        f"postgresql://app:{SECRET}@db/jobs?schema=a&schema=b",
        f"postgresql://app:{SECRET}@db/jobs?schema={'x' * 64}",
        f"postgresql://app:{SECRET}@db/jobs?schema=a%00b",
        f"postgresql://app:{SECRET}@db/jobs?schema=%24body%24",
        f"postgresql://app:{SECRET}@db/jobs?schema=\ud800",
        f"postgresql://app:{SECRET}%zz@db/jobs",
        f"postgresql://app:pass/{SECRET}@db/jobs?nonsense=1",
        f"postgresql://db/jobs?password={SECRET}&nonsense=1",
        f"postgresql://db/jobs?password=se&{SECRET}",
        f"postgresql://db/jobs?scram_server_key={SECRET}&nonsense=1",
        f"postgresql://db/jobs?oauth_client_secret={SECRET}&nonsense=1",
        f"postgresql://app:se@{SECRET}@db/jobs",
        f"postgresql://app:se/{SECRET}@db/jobs",
        f"postgresql://app:12/{SECRET}@db/jobs",
        f"postgresql://app:se#{SECRET}@db/jobs",
        f"postgresql://app:p[{SECRET}]@db/jobs",
        f"postgresql://app:pass\uff0f{SECRET}@db/jobs",
        f"postgresql://app:{SECRET}\n@db/jobs",
        f"postgresql:/app:{SECRET}@db/jobs",
        f"mysql:app:{SECRET}@db/jobs",
        f"host=db user=app password={SECRET}",
        f"redis://app:p[{SECRET}]@db/0",
        f"redis://app:pass\uff0f{SECRET}@db/0",
        f"redis://app:{SECRET}\n@db/0",
        f"redis://db/0?ssl_password={SECRET}&prefix=",
        f"redis://db/0?ssl_password=se&{SECRET}&prefix=",
        f"mysql://app:{SECRET}@db/jobs",
        f"postgresql+asyncpg://app:{SECRET}@db/jobs",
    ],
)
def test_a_wrong_one_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        backend_for(url)

    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.__cause__) + repr(refused.value.__context__)


@pytest.mark.parametrize("option", ["shema=x", "sslmod=require", "shema=", "prefix=x"])
def test_a_wrong_option_is_named(option: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        backend_for(f"postgresql://app:{SECRET}@db/jobs?sslmode=require&{option}&schema=y")
    assert f"'{option.partition('=')[0]}' is not an option: right are schema=" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_may_be_a_part_of_a_password_is_not_named_as_an_option() -> None:
    for url in ("postgresql://app:12?cret=1@db/jobs", "postgresql://db/jobs?password=se&cret"):
        with pytest.raises(ConfigurationError) as refused:
            backend_for(url)
        assert "is not an option" not in str(refused.value)


def test_a_password_is_in_nothing_that_is_shown() -> None:
    found = backend(f"postgresql://app:{SECRET}@db/jobs?password={SECRET}")

    shown = f"{found!r} {found} {found.description} {found.address!r} {found.address}"
    assert SECRET not in shown


def test_without_the_driver_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("leasecron.backends.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'leasecron\[postgres\]'") as refused:
        backend_for(f"postgresql://app:{SECRET}@db/jobs")
    assert SECRET not in str(refused.value)
