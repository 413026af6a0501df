import subprocess
import sys

from click.testing import CliRunner

from leasecron import __version__
from leasecron.cli import main


def test_the_version_is_that_of_the_package() -> None:
    done = CliRunner().invoke(main, ["--version"])
    assert done.exit_code == 0
    assert done.output == f"leasecron, version {__version__}\n"


def test_the_help_names_the_commands() -> None:
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 0
    assert "demo" in done.output


def test_a_demo_that_is_too_short_to_show_anything_is_refused() -> None:
    done = CliRunner().invoke(main, ["demo", "--seconds", "3"])
    assert done.exit_code == 2
    assert "--seconds" in done.output


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leasecron", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: leasecron ")
