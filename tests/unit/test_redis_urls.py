"""URLs of Redis stores: what is understood, and that a password is never shown."""

from __future__ import annotations

import sys

import pytest

from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.urls import Address
from leasecron.backends.urls import backend_for
from leasecron.errors import ConfigurationError

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "description"),
    [
        ("redis://", "redis://localhost:6379/0"),
        ("redis:///3", "redis://localhost:6379/3"),
        ("redis://host", "redis://host:6379/0"),
        ("redis://host:1234/7", "redis://host:1234/7"),
        ("redis://host/", "redis://host:6379/0"),
        ("redis://host?db=3", "redis://host:6379/3"),
        ("valkey://host/1?prefix=x", "redis://host:6379/1?prefix=x"),
        ("valkeys://ann:s3cr3t@host/1", "rediss://ann@host:6379/1"),
        ("rediss://ann:s3cr3t@host/1", "rediss://ann@host:6379/1"),
        ("redis://:s3cr3t@host", "redis://host:6379/0"),
        ("redis://host?username=ann&password=s3cr3t", "redis://ann@host:6379/0"),
        ("redis://[::1]:1234", "redis://[::1]:1234/0"),
        ("redis://host?prefix=test", "redis://host:6379/0?prefix=test"),
        ("redis://host?prefix=leasecron", "redis://host:6379/0"),
        ("redis://host?prefix=my%20app&socket_timeout=1", "redis://host:6379/0?prefix=my app"),
    ],
)
def test_a_url_is_described_by_its_place(url: str, description: str) -> None:
    backend = backend_for(url)
    assert isinstance(backend, RedisBackend)
    assert backend.description == description


def test_options_of_redis_py_are_taken() -> None:
    address = Address.of("redis://host?socket_timeout=0.5&socket_keepalive=yes&max_connections=3")
    assert address.options["socket_timeout"] == address.options["socket_connect_timeout"] == 0.5
    assert address.options["socket_keepalive"] is True


def test_a_server_may_be_silent_for_two_seconds_unless_the_url_says_otherwise() -> None:
    options = Address.of("redis://host?socket_connect_timeout=1").options
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (2.0, 1.0)


def test_nothing_is_repeated_behind_the_back_of_the_store() -> None:
    connection = Address.of("redis://host?retry_on_timeout=yes").connection()
    assert connection.retry._retries == 0


def test_a_password_is_taken_as_it_was_quoted() -> None:
    assert Address.of("redis://:a%2Fb%40c@host").options["password"] == "a/b@c"


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cr3t@host/a-name",
        "redis://:s3cr3t@host/1/2",
        "redis://:s3cr3t@host:port",
        "redis://:s3cr3t@host/0#part",
        "redis://:s3cr3t@host?socket_timeout=soon",
        "redis://:s3cr3t@host?no_such_option=1",
        "redis://:s3cr3t/s3cr3t@host",
        "redis://:s3cr3t?s3cr3t@host",
        "redis://:s3cr3t#s3cr3t@host",
        "redis://:@s3cr3t@host:port",
        "redis://host/x?password=s3cr3t&db=1",
        "redis://:s3cr3t@host?prefix=",
        "redis://:s3cr3t@host?prefix=a&prefix=b",
        "redis://:s3cr3t@host?prefix=a{b",
        "redis://:s3cr3t@host?prefix=}",
        "redis://:s3cr3t@host?prefix=a%00b",
        "redis://:s3cr3t@host?prefix=a%0Ab",
        "redis://:s3cr3t@host?prefix=" + "x" * 101,
        "redis+other://:s3cr3t@host",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        backend_for(url)
    error: BaseException | None = raised.value
    assert "redis" in str(error)
    while error is not None:
        assert SECRET not in f"{error} {error!r}"
        assert error.__context__ is None or error.__suppress_context__
        error = error.__cause__


@pytest.mark.parametrize("option", ["prefx=x", "sokcet_timeout=1", "ssl_ca_certs=/x", "prefx="])
def test_a_wrong_option_is_named(option: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        backend_for(f"redis://:s3cr3t@host/0?socket_timeout=1&{option}&prefix=y")
    assert f"'{option.partition('=')[0]}' is not an option: right are prefix=" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_may_be_a_part_of_a_password_is_not_named_as_an_option() -> None:
    for url in ("redis://:12?cret=1@host/0", "redis://h:12?se=1&cret=1@host/0"):
        with pytest.raises(ConfigurationError) as refused:
            backend_for(url)
        assert "is not an option" not in str(refused.value)


def test_nothing_that_can_be_printed_has_the_password() -> None:
    backend = RedisBackend("rediss://ann:s3cr3t@host?ssl_password=s3cr3t")
    for text in (repr(backend), str(backend), repr(backend.address), backend.description):
        assert SECRET not in text


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    for name in [name for name in sys.modules if name.startswith("leasecron.backends.redis.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigurationError, match=r"pip install 'leasecron\[redis\]'"):
        backend_for("redis://host")
