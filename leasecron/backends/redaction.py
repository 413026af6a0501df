"""URLs as they may be shown: without the password that is in them."""

from __future__ import annotations

import re

from leasecron.errors import shown

# All that may be one: whatever stands between a colon and an @, since nobody knows which characters
# somebody forgot to encode, and the options that libpq and redis-py know.
_SECRETS = re.compile(r"(?s)(?<=:).*@|(?<=password=)[^&\s]*|(?<=scram_client_key=)[^&\s]*")


def shown_url(url: str) -> str:
    """Return a URL for a message, with stars in place of whoever it is for and the password."""
    return shown(_SECRETS.sub(_stars, url))


def _stars(found: re.Match[str]) -> str:
    slashes = "//" if found[0].startswith("//") else ""
    return f"{slashes}***{'@' if found[0].endswith('@') else ''}"
