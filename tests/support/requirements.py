"""What a machine may lack: a skip with its reason, or a failure where everything is required."""

import os

import pytest

REQUIRE_ALL = "LEASECRON_REQUIRE_ALL"


def require(condition: object, reason: str) -> None:
    """Skip the test unless ``condition`` holds; fail it where ``LEASECRON_REQUIRE_ALL=1``."""
    if condition:
        return
    if os.environ.get(REQUIRE_ALL) == "1":
        pytest.fail(f"{reason} ({REQUIRE_ALL}=1: a lack is a failure)", pytrace=False)
    pytest.skip(reason)
