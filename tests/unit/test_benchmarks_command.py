"""``python -m benchmarks``: what it takes, what it writes, and a part that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import fresh, parts
from benchmarks.__main__ import main
from benchmarks.measuring import Curve, Figure, Measured, Settings
from benchmarks.parts import runs

ROOT = Path(__file__).parents[2]
FOUND = Measured((Figure("what was measured", "/s", (1.0,), at_least=2.0),))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Settings]]:
    """Let no part measure anything, and ``slot`` fail; returns what was asked for."""
    asked: list[tuple[str, Settings]] = []

    def measure(part: str, settings: Settings) -> Measured:
        asked.append((part, settings))
        settings.progress("round 1 of 1")
        if part == "slot":
            raise TimeoutError("999 of 1000 runs")
        return FOUND

    monkeypatch.setattr(parts, "measure", measure)
    return asked


def test_a_part_measures_and_reports_as_a_table_and_as_json(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks", "footprint", "--quick", "--json", str(file)]

    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "stores")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "idle scheduler" in done.stdout
    assert "footprint (1 of 1): round 1 of 1" in done.stderr
    said = json.loads(file.read_text())
    assert said["quick"] is True
    assert [part["name"] for part in said["parts"]] == ["footprint"]
    assert all(figure["median"] > 0 for figure in said["parts"][0]["figures"])
    assert list((tmp_path / "stores").iterdir()) == []


def test_all_parts_are_measured_in_their_order_unless_some_are_named(
    measured: list[tuple[str, Settings]], tmp_path: Path
) -> None:
    arguments = ["--folder", str(tmp_path), "--rounds", "3", "--seconds", "0.5"]

    CliRunner().invoke(main, arguments)
    CliRunner().invoke(main, ["runs", "claims", "runs", *arguments])

    assert [part for part, _ in measured] == [*parts.PARTS, "runs", "claims"]
    asked = measured[0][1]
    assert (asked.rounds, asked.seconds, asked.quick) == (3, 0.5, False)
    assert asked.folder == tmp_path


def test_a_missed_target_is_no_error(measured: list[tuple[str, Settings]], tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["claims", "--folder", str(tmp_path)])

    assert done.exit_code == 0
    assert ">= 2/s" in done.stdout
    assert done.stderr.startswith("claims (1 of 1): round 1 of 1\n")


def test_a_part_that_fails_does_not_keep_the_others_from_being_reported(
    measured: list[tuple[str, Settings]], tmp_path: Path
) -> None:
    file = tmp_path / "report.json"

    done = CliRunner().invoke(
        main, ["slot", "claims", "--folder", str(tmp_path), "--json", str(file)]
    )

    assert done.exit_code == 1
    assert "what was measured" in done.stdout
    assert "999 of 1000 runs" in done.stderr
    assert done.stderr.endswith("Error: could not be measured: slot\n")
    assert [part["name"] for part in json.loads(file.read_text())["parts"]] == ["claims"]


def test_the_folder_that_nobody_asked_for_is_in_the_working_directory_and_removed(
    measured: list[tuple[str, Settings]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    CliRunner().invoke(main, ["claims"])

    assert measured[0][1].folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--json", "--plots", "--folder"])
def test_what_cannot_be_written_is_refused_before_anything_is_measured(
    measured: list[tuple[str, Settings]], tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").touch()

    done = CliRunner().invoke(main, ["claims", option, str(tmp_path / "file" / "below")])

    assert done.exit_code == 2
    assert option in done.stderr
    assert measured == []


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_seconds_that_are_no_time_are_refused(
    measured: list[tuple[str, Settings]], seconds: str
) -> None:
    done = CliRunner().invoke(main, ["claims", f"--seconds={seconds}"])

    assert done.exit_code == 2
    assert "--seconds" in done.stderr
    assert measured == []


def test_a_file_that_cannot_be_written_later_costs_no_part(
    measured: list[tuple[str, Settings]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    file = tmp_path / "report.json"
    arguments = ["claims", "runs", "--folder", str(tmp_path), "--json", str(file)]

    done = CliRunner().invoke(main, arguments)

    assert [part for part, _ in measured] == ["claims", "runs"]
    assert done.stdout.count("what was measured") == 2
    assert "No space left" in done.stderr


def test_a_peer_that_cannot_be_imported_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "benchmarks.peers.huey_peer", None)
    kept = [peer.name for peer in runs.PEERS if runs._imports(peer)]
    assert "huey" not in kept


def test_plots_without_matplotlib_are_refused_before_anything_is_measured(
    measured: list[tuple[str, Settings]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    done = CliRunner().invoke(main, ["claims", "--plots", str(tmp_path / "plots")])

    assert done.exit_code == 2
    assert "pip install" in done.stderr
    assert measured == []


def test_the_curves_are_drawn(
    measured: list[tuple[str, Settings]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    curve = Curve("late", "Lateness", "ms", "%", "all", ((1, 2.0), (2, 3.0)))
    monkeypatch.setattr(parts, "measure", lambda _part, _settings: Measured((), (curve,)))

    CliRunner().invoke(main, ["claims", "--folder", str(tmp_path), "--plots", str(tmp_path / "p")])

    assert sorted(file.name for file in (tmp_path / "p").iterdir()) == ["late.png", "late.svg"]


def test_each_part_has_a_title_of_one_line() -> None:
    done = CliRunner().invoke(main, ["--list"])

    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*parts.PARTS]
    assert all(line.endswith(".") and 20 < len(line) <= 110 for line in lines)


def test_a_fresh_process_answers_or_says_why_not() -> None:
    assert fresh.call("operator:add", 2, 3) == 5
    with pytest.raises(fresh.MeasurementFailed, match="ZeroDivisionError"):
        fresh.call("operator:floordiv", 1, 0)
