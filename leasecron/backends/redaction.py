"""URLs as they may be shown: without the password that is in them."""

from __future__ import annotations

import re

from leasecron.errors import shown

# All that may be one: a name and a password before the host, of which any may hold an @ or a slash
# that somebody forgot to encode, and those of the options that libpq and redis-py know.
_SECRETS = re.compile(r"(?<=://).*@|(?<=[?&]password=)[^&]*|(?<=[?&]sslpassword=)[^&]*")


def shown_url(url: str) -> str:
    """Return a URL for a message, with stars in place of whoever it is for and the password."""
    return shown(_SECRETS.sub(lambda found: "***@" if found[0].endswith("@") else "***", url))
