"""What is taken for a machine that has no time to spare."""

from pathlib import Path

import pytest

from chaos import machine
from chaos.machine import Processors


@pytest.fixture
def stat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "stat"
    monkeypatch.setattr(machine, "_STAT", path)
    path.write_text("cpu 100 0 50 1000 20 0 0 0 0 0\ncpu0 1 1 1 1\n")
    return path


@pytest.mark.parametrize(("idle", "busy"), [(1001, True), (1040, False)])
def test_processors_that_are_hardly_ever_idle_are_busy(stat: Path, idle: int, busy: bool) -> None:
    processors = Processors()
    stat.write_text(f"cpu 180 0 90 {idle} 22 0 0 0 0 0\ncpu0 1 1 1 1\n")
    assert processors.were_busy() == busy
    assert not processors.were_busy()  # since then nothing has passed


def test_processors_that_tell_nothing_are_not_busy(stat: Path) -> None:
    stat.unlink()
    assert not Processors().were_busy()
