"""Where a PostgreSQL store is: what libpq is told, and what may be shown of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import conninfo

from leasecron.backends.redaction import shown_url
from leasecron.errors import ConfigurationError

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
DEFAULT_SCHEMA = "leasecron"
_LONGEST_NAME = 63  # bytes of an identifier, after which PostgreSQL cuts it off


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database; ``conninfo`` may hold a password, the rest never does."""

    conninfo: str = field(repr=False)
    schema: str
    description: str
    listens: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart; raise ConfigurationError where it is none of a PostgreSQL database."""
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        schemas = [value for name, value in options if name == "schema"]
        schema = schemas[0] if schemas else DEFAULT_SCHEMA
        if len(schemas) > 1 or not 0 < len(schema.encode()) <= _LONGEST_NAME or "\0" in schema:
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
            raise ConfigurationError(
                f"store {shown_url(url)} is not a URL of a PostgreSQL database: right is"
                " postgresql://user:password@host:port/database, with options as libpq has them"
                " and ?schema="
            )
        return cls(plain, schema, _described(known, schema), listen != ["off"])


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
