"""URLs as they may be shown: without the password that is in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from leasecron.errors import shown

# All that may be one: whatever stands between a colon and an @, since nobody knows which characters
# somebody forgot to encode, and the options that libpq and redis-py know.
_SECRETS = re.compile(r"(?s)(?<=:).*@|(?<=password=)[^&\s]*|(?<=scram_client_key=)[^&\s]*")

_NAME = re.compile("[a-z_]{1,40}")


def shown_url(url: str) -> str:
    """Return a URL for a message, with stars in place of whoever it is for and the password."""
    return shown(_SECRETS.sub(_stars, url))


def wrong_options(
    url: str, options: Iterable[tuple[str, str]], known: Collection[str]
) -> list[str]:
    """Return the names in a URL that are no options, where they can be nothing else.

    After an @, or with other characters, they may be parts of a password that nobody encoded.
    """
    if "@" in url.partition("?")[2]:
        return []
    return [name for name, _ in options if name not in known and _NAME.fullmatch(name)]


def _stars(found: re.Match[str]) -> str:
    slashes = "//" if found[0].startswith("//") else ""
    return f"{slashes}***{'@' if found[0].endswith('@') else ''}"
