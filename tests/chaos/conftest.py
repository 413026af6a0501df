"""Fixtures of the tests of the checker."""

import pytest

from chaos.script import Script


@pytest.fixture
def script() -> Script:
    """What two lives of a process did, with leases."""
    script = Script()
    for life in (1, 2):
        script.process(life)
    return script


@pytest.fixture
def claims() -> Script:
    """The same without leases."""
    script = Script(leases=False)
    for life in (1, 2):
        script.process(life)
    return script
