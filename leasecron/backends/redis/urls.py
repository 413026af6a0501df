"""Where a Redis store is: what redis-py is told, and what may be shown of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import redis
from redis import connection as redis_connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from leasecron.backends.redaction import shown_url, wrong_options
from leasecron.errors import ConfigurationError, shown

SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
"""What a URL may begin with, and what redis-py calls it."""

DEFAULT_PREFIX = "leasecron"
LONGEST_PREFIX = 100
CALL = 2.0
"""Seconds that a server may be silent before its connection is given up, unless the URL says so."""

_FORBIDDEN = re.compile(r"[{}\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DATABASE = re.compile("/?|/[0-9]+")
_parse_url: Callable[[str], dict[str, Any]] = redis_connection.parse_url
_OF_POOLS = ("connection_class", "max_connections", "timeout")

Node = tuple[str, int]
"""Host and port of one of the nodes of a cluster."""


@dataclass(frozen=True, slots=True)
class Address:
    """A prefix in a database; ``options`` may hold a password, the rest never does."""

    kind: type[Any] = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    prefix: str
    description: str
    listens: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart; raise ConfigurationError where it is none of a Redis database."""
        taken = _taken_apart(url)
        if taken is None:
            raise _wrong(url)
        parts, asked, options = taken
        prefixes = [value for name, value in asked if name == "prefix"] or [DEFAULT_PREFIX]
        prefix = prefixes[0]
        if len(prefixes) > 1 or not 0 < len(prefix) <= LONGEST_PREFIX or _FORBIDDEN.search(prefix):
            raise ConfigurationError(
                f"store {shown_url(url)}: prefix must be one text of 1 to {LONGEST_PREFIX}"
                " characters, without braces and control characters"
            )
        listen = [value for name, value in asked if name == "listen"]
        if listen not in ([], ["on"], ["off"]):
            raise ConfigurationError(f"store {shown_url(url)}: listen must be on or off")
        kind = options.get("connection_class", redis.Connection)
        options = {name: value for name, value in options.items() if name not in _OF_POOLS}
        # What is to be tried again, and when, is up to whoever calls; and all answers are bytes.
        options |= {"retry": Retry(NoBackoff(), 0), "retry_on_timeout": False, "retry_on_error": []}
        options |= {"decode_responses": False, "encoding": "utf-8", "protocol": 2}
        options.setdefault("socket_timeout", CALL)
        options.setdefault("socket_connect_timeout", options["socket_timeout"])
        name = _described(parts.scheme, options, prefix)
        address = cls(kind, options, prefix, name, listen != ["off"])
        _check_options(url, asked, kind)
        if not address.is_possible():
            raise _wrong(url)
        return address

    def is_possible(self) -> bool:
        """Say whether redis-py takes the options; its text may hold a part of the password."""
        try:
            self.connection()
        except (ValueError, TypeError, AttributeError, redis.RedisError):
            return False
        return True

    def connection(self, node: Node | None = None) -> Any:
        """Return a connection that is still to be made, to another node of a cluster if need be."""
        if node is None:
            return self.kind(**self.options)
        return self.kind(**{**self.options, "host": node[0], "port": node[1]})


def _taken_apart(
    url: str,
) -> tuple[SplitResult, list[tuple[str, str]], dict[str, Any]] | None:
    """Return the parts of a URL, its options, and what redis-py makes of those that are its own."""
    try:
        parts = urlsplit(url)
        parts = parts._replace(scheme=SCHEMES[parts.scheme])
        asked = parse_qsl(parts.query, keep_blank_values=True)
        rest = [item for item in asked if item[0] not in {"prefix", "listen"}]
        others = urlencode(rest, quote_via=quote)
        options = _parse_url(f"{parts.scheme}://{parts.netloc}{parts.path}?{others}")
    except (ValueError, KeyError):  # whose text may hold a part of the password
        return None
    if parts.fragment or not url.isprintable() or not _DATABASE.fullmatch(parts.path):
        return None
    return parts, asked, options


def _check_options(url: str, options: Sequence[tuple[str, str]], kind: type[Any]) -> None:
    own = {"prefix", "listen", *_OF_POOLS}
    of_driver = {
        name
        for each in kind.__mro__
        if "__init__" in vars(each)
        for name in inspect.signature(vars(each)["__init__"]).parameters
    }
    wrong = wrong_options(url, options, own | of_driver)
    if wrong:
        raise ConfigurationError(
            f"store {shown_url(url)}: {shown(wrong[0])} is not an option: right are prefix=,"
            " listen=on or off, and those of redis-py for connections of this kind, such as"
            " socket_timeout=2"
        )


def _described(scheme: str, options: Mapping[str, Any], prefix: str) -> str:
    host = options.get("host", "localhost")
    user = quote(options["username"]) + "@" if options.get("username") else ""
    place = f"[{host}]" if ":" in host else host
    text = f"{scheme}://{user}{place}:{options.get('port', 6379)}/{options.get('db', 0)}"
    return text if prefix == DEFAULT_PREFIX else f"{text}?prefix={prefix}"


def _wrong(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"store {shown_url(url)} is not a URL of a Redis database: right is"
        " redis://user:password@host:port/number, or rediss:// with TLS, or valkey:// and"
        " valkeys://, with options as redis-py has them and ?prefix="
    )
