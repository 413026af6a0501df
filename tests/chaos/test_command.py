"""What the chaos run says to a store that it cannot use."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.command import main

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "store",
    ["memory://", "sqlite:///relative/store.db", "lockdir:////tmp", "redis://localhost:6379"],
)
def test_a_store_that_is_not_its_own_is_refused(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--store", store]) == 2
    assert "right " in capsys.readouterr().out


@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_a_server_has_no_journal(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", store, "--journal", "wal"]) == 2
    assert "right " in capsys.readouterr().out


def test_it_is_a_command_of_the_repository() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "--seed" in done.stdout
