"""URLs as they may be shown: without the password that is in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from leasecron.errors import shown

# Options that libpq and redis-py know, and all after them: an & may be a part of one.
_SECRETS = re.compile(r"(?s)(?:(?<=password=)|(?<=_key=)|(?<=_secret=)).*")

_NAME = re.compile("[a-z_]{1,40}")


def shown_url(url: str) -> str:
    """Return a URL for a message, with stars in place of whoever it is for and the password."""
    # Whatever stands between the first colon and the last @ may be a password: nobody knows which
    # characters somebody forgot to encode.
    head, colon, rest = url.partition(":")
    secret, at, tail = rest.rpartition("@")
    if at:
        slashes = "//" if secret.startswith("//") else ""
        url = f"{head}{colon}{slashes}***@{tail}"
    return shown(_SECRETS.sub("***", url))


def wrong_options(
    url: str, options: Iterable[tuple[str, str]], known: Collection[str]
) -> list[str]:
    """Return the names in a URL that are no options, where they can be nothing else.

    Before an @, after a password, or with other characters, they may be parts of one that nobody
    encoded.
    """
    query = url.partition("?")[2]
    if "@" in query or "password=" in query:
        return []
    return [name for name, _ in options if name not in known and _NAME.fullmatch(name)]
