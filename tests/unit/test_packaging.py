"""What the package promises to those who install it."""

import re
import sys
import tomllib
from importlib.metadata import distributions, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from support.requirements import require

import leasecron

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
WHEEL: dict[str, Any] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]

SUPPORTED = ("3.11", "3.12", "3.13")


def required(lines: list[str]) -> list[str]:
    return [Requirement(line).name for line in lines]


def test_python_has_a_floor_and_no_ceiling() -> None:
    assert PROJECT["requires-python"] == ">=3.11"
    versions = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"]]
    assert [version for version in versions if re.fullmatch(r"3\.\d+", version)] == [*SUPPORTED]


def test_nothing_else_is_needed_to_run_it() -> None:
    assert sorted(required(PROJECT["dependencies"])) == [
        "click",
        "cronsim",
        "durationpy",
        "filelock",
        "portalocker",
        "sqlite-utils",
    ]


def test_no_dependency_has_a_ceiling() -> None:
    lines = [*PROJECT["dependencies"], *EXTRAS["cli"], *EXTRAS["test"]]
    lines += [*EXTRAS["postgres"], *EXTRAS["redis"], *EXTRAS["engines"][1:]]
    operators = {spec.operator for line in lines for spec in Requirement(line).specifier}
    assert operators == {">="}


def test_the_extras_are_the_drawing_the_drivers_the_tests_and_the_benchmarks() -> None:
    assert EXTRAS.keys() == {"bench", "cli", "engines", "postgres", "redis", "test"}
    assert {"APScheduler", "huey", "pyncette", "matplotlib"} <= {*required(EXTRAS["bench"])}
    assert required(EXTRAS["cli"]) == ["rich"]
    assert Requirement(EXTRAS["test"][0]) == Requirement("leasecron[cli,engines]")
    assert required(EXTRAS["redis"]) == ["redis"]
    assert required(EXTRAS["postgres"]) == ["psycopg"]
    assert Requirement(EXTRAS["engines"][0]) == Requirement("leasecron[postgres,redis]")


@pytest.mark.parametrize(
    ("system", "machine", "version", "wanted"),
    [
        ("linux", "x86_64", "3.11", True),
        ("linux", "aarch64", "3.13", True),
        ("darwin", "arm64", "3.12", True),
        ("linux", "riscv64", "3.12", False),
        ("linux", "x86_64", "3.15", False),
        ("win32", "AMD64", "3.12", False),
    ],
)
def test_uwsgi_is_wanted_only_where_it_needs_no_compiler(
    system: str, machine: str, version: str, wanted: bool
) -> None:
    line = next(line for line in EXTRAS["test"] if line.startswith("pyuwsgi"))
    marker = Requirement(line).marker
    assert marker is not None
    place = {"sys_platform": system, "platform_machine": machine, "python_version": version}
    assert marker.evaluate(place) is wanted


def test_types_and_licence_are_shipped() -> None:
    assert WHEEL == {"packages": ["leasecron"]}
    assert (Path(leasecron.__file__).parent / "py.typed").read_text() == ""
    assert PROJECT["license"] == "MIT"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def test_the_version_is_read_from_the_package() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["hatch"]["version"] == {"path": "leasecron/__init__.py"}
    assert PYPROJECT["build-system"]["build-backend"] == "hatchling.build"


def test_the_command_is_where_the_metadata_says() -> None:
    module, _, function = PROJECT["scripts"]["leasecron"].partition(":")
    __import__(module)
    assert callable(getattr(sys.modules[module], function))


def test_what_is_installed_says_the_same() -> None:
    require(
        [*distributions(name="leasecron")],
        "leasecron is imported from its directory and not installed",
    )
    installed = metadata("leasecron")
    assert installed["Version"] == leasecron.__version__
    assert SpecifierSet(installed["Requires-Python"]) == SpecifierSet(">=3.11")
    assert installed["License-Expression"] == "MIT"
