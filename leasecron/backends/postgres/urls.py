"""Where a PostgreSQL store is: what libpq is told, and what may be shown of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import conninfo, pq

from leasecron.backends.redaction import shown_url, wrong_options
from leasecron.errors import ConfigurationError, shown

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
DEFAULT_SCHEMA = "leasecron"
_NO_NAME = re.compile("[\0\ud800-\udfff]|[$]body[$]")  # the last ends the text of a function
_HOST = re.compile(r"(\[[^]@]*\]|[^:@\[\]]*)(:[0-9]*)?")
_LONGEST_NAME = 63  # bytes of an identifier, after which PostgreSQL cuts it off


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database; ``conninfo`` may hold a password, the rest never does."""

    conninfo: str = field(repr=False)
    schema: str
    description: str
    listens: bool
    user: str | None

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart; raise ConfigurationError where it is none of a PostgreSQL database."""
        parts = _parts(url)
        if parts is None:
            raise _wrong(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        schemas = [value for name, value in options if name == "schema"]
        schema = schemas[0] if schemas else DEFAULT_SCHEMA
        length = len(schema.encode(errors="replace"))
        if len(schemas) > 1 or not 0 < length <= _LONGEST_NAME or _NO_NAME.search(schema):
            raise ConfigurationError(
                f"store {shown_url(url)}: schema must be one name of 1 to {_LONGEST_NAME} bytes"
            )
        listen = [value for name, value in options if name == "listen"]
        if listen not in ([], ["on"], ["off"]):
            raise ConfigurationError(f"store {shown_url(url)}: listen must be on or off")
        rest = [item for item in options if item[0] not in {"schema", "listen"}]
        others = urlencode(rest, quote_via=quote)
        plain = urlunsplit(("postgresql", parts.netloc, parts.path, others, ""))
        if not parts.netloc:  # which urlunsplit leaves out with its slashes
            plain = f"postgresql://{parts.path}" + (f"?{others}" if others else "")
        known = _taken_apart(plain)
        if known is None:
            raise _wrong_option(url, rest) or _wrong(url)
        user = str(known["user"]) if known.get("user") else None
        return cls(plain, schema, _described(known, schema), listen != ["off"], user)


def _parts(url: str) -> SplitResult | None:
    """Take a URL apart where it can be meant in one way only: what is none may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    hosts = parts.netloc.rpartition("@")[2].split(",")
    is_clear = "#" not in url and "@" not in parts.path and parts.netloc.count("@") < 2
    if not url.isprintable():
        return None
    return parts if is_clear and all(map(_HOST.fullmatch, hosts)) else None


def _wrong(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"store {shown_url(url)} is not a URL of a PostgreSQL database: right is"
        " postgresql://user:password@host:port/database, with what is special in a password as"
        " %40 and the like, with options as libpq has them and ?schema="
    )


def _wrong_option(url: str, options: Sequence[tuple[str, str]]) -> ConfigurationError | None:
    keywords = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    wrong = wrong_options(url, options, keywords)
    if not wrong:
        return None
    return ConfigurationError(
        f"store {shown_url(url)}: {shown(wrong[0])} is not an option: right are schema=, listen=on"
        " or off, and those of libpq, such as sslmode=require"
    )


def _taken_apart(plain: str) -> Mapping[str, object] | None:
    try:
        return conninfo.conninfo_to_dict(plain)
    except psycopg.ProgrammingError:  # whose text may hold the URL, and so the password
        return None


def _described(known: Mapping[str, object], schema: str) -> str:
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    host = known.get("host") or known.get("hostaddr") or ""
    text = f"postgresql://{user}{host}{port}/{known.get('dbname') or ''}"
    return text if schema == DEFAULT_SCHEMA else f"{text}?schema={schema}"
