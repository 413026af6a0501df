"""The mutation check: lines that carry the guarantee, broken one at a time; fast tests must see it.

``python tests/mutants.py`` from the root of the repository breaks every line that ``mutants.toml``
lists, each in a copy of its own, and says which fast test failed. It ends with 1 where a mutant
survives, where nothing could be said of it, or where the list no longer fits the code. A hang and
a crash of the interpreter count as failures of a test, and are named as what they are.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
ALL_FAST = ("tests/unit", "tests/contract")

_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "dist", "build"
)
_LIMIT = 90.0  # seconds for the named tests of one mutant: more is a hang
_LIMIT_OF_ALL = 900.0
_STOPPED_AFTER = 30  # seconds for one test
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_OTHER_CODE = 97
# An editable install would lead back to the working tree, whose lines are whole. The package is not
# imported to see where it is: pytest must be the first to do that.
_PROGRAM = f"""
import importlib.util, pathlib, sys
import pytest
found = importlib.util.find_spec("leasecron")
if not pathlib.Path(found.origin).resolve().is_relative_to(sys.argv[1]):
    sys.exit({_OTHER_CODE})
sys.exit(pytest.main(sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken line: ``old``, which is in ``file`` once, becomes ``new``.

    ``killed_by`` are the tests that are run to see it, files or node ids from the root.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    killed_by: tuple[str, ...]

    def broken(self, source: str) -> str:
        """Return the source with the line broken; raises ValueError where it is not there once."""
        found = source.count(self.old)
        if found != 1:
            raise ValueError(
                f"{self.name}: its old text is {found} times in {self.file}, right is once"
            )
        return source.replace(self.old, self.new)

    def apply(self, root: Path) -> None:
        """Break the line in the tree at ``root``; raises ValueError and OSError."""
        path = root / self.file
        path.write_text(self.broken(path.read_text(encoding="utf-8")), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests said of one mutant. ``trouble`` holds their output where that was nothing."""

    killed: bool
    by: str
    seconds: float
    trouble: str = ""


def load() -> list[Mutant]:
    """Return the list."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "killed_by": tuple(entry["killed_by"])}) for entry in entries]


def rotten(mutants: Iterable[Mutant], root: Path) -> list[str]:
    """Return what in the list does not fit the code at ``root`` any more."""
    found = []
    for mutant in mutants:
        try:
            mutant.broken((root / mutant.file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            found.append(str(error))
    return found


def verdict(
    whole: Path, tests: Sequence[str], limit: float, mutant: Mutant | None = None
) -> Verdict:
    """Run tests in a copy of a tree, with one line broken or none; any failure kills."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="leasecron-mutant-") as folder:
        root = Path(folder).resolve() / "tree"
        shutil.copytree(whole, root)
        if mutant is not None:
            mutant.apply(root)
        code, output = _pytest(root, tests, limit)
    seconds = time.monotonic() - began
    failed = _FAILED.search(output)
    if code == 0:
        return Verdict(killed=False, by="nothing failed", seconds=seconds)
    if code is None:
        return Verdict(killed=True, by=f"a hang of {limit:g} s", seconds=seconds)
    if code < 0:
        return Verdict(killed=True, by=f"a crash with signal {-code}", seconds=seconds)
    if code == 1 and failed is not None:
        return Verdict(killed=True, by=failed[1], seconds=seconds)
    trouble = f"pytest ended with {code}:\n{output[-2000:]}"
    return Verdict(killed=False, by="nothing could be run", seconds=seconds, trouble=trouble)


def _pytest(root: Path, tests: Sequence[str], limit: float) -> tuple[int | None, str]:
    """Return the exit code of pytest, None where it took longer than the limit, and its output."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"timeout={_STOPPED_AFTER}"]
    # Without compiled files: a line that is broken within the second of its copy would not count.
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(root), *options, *tests],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _kill_all_of(process)
            return None, process.communicate()[0]
        finally:
            _kill_all_of(process)
    return process.returncode, output


def _kill_all_of(process: subprocess.Popen[str]) -> None:
    """Kill what is left of a process and its children: a test that failed may leave some."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def judge(mutant: Mutant, *, whole: Path, all_fast: bool) -> Verdict:
    """Say whether a mutant is killed by the tests that it names, or by any fast one at all."""
    said = verdict(whole, mutant.killed_by, _LIMIT, mutant)
    if said.killed or said.trouble or not all_fast:
        return said
    return verdict(whole, ALL_FAST, _LIMIT_OF_ALL, mutant)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and print its table; return the exit code."""
    parser = argparse.ArgumentParser(description="Break one line at a time; a fast test must fail.")
    parser.add_argument("names", nargs="*", help="the mutants to try; all without a name")
    parser.add_argument("--all-fast", action="store_true", help="try all tests on survivors")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    options = parser.parse_args(arguments)
    mutants = load()
    unknown = {*options.names} - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"no mutant has the name {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    with tempfile.TemporaryDirectory(prefix="leasecron-whole-") as folder:
        whole = Path(folder) / "tree"
        shutil.copytree(ROOT, whole, ignore=_NOT_COPIED)  # once: somebody may be at work in it
        if problems := rotten(mutants, whole):
            print("the list does not fit the code:", *problems, sep="\n  ")
            return 1
        return 0 if _all_are_killed(whole, chosen, options.jobs, all_fast=options.all_fast) else 1


def _all_are_killed(whole: Path, mutants: Sequence[Mutant], jobs: int, *, all_fast: bool) -> bool:
    tests = {test for mutant in mutants for test in mutant.killed_by}
    if not _whole_tree_passes(whole, sorted(tests.union(ALL_FAST if all_fast else ()))):
        return False
    killed = 0
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = pool.map(partial(judge, whole=whole, all_fast=all_fast), mutants)
        for mutant, said in zip(mutants, verdicts, strict=True):
            killed += said.killed
            _print_row(mutant, said)
    print(f"{killed} of {len(mutants)} mutants killed")
    return killed == len(mutants)


def _whole_tree_passes(whole: Path, tests: Sequence[str]) -> bool:
    """Say whether the same tests pass where nothing is broken; else they would prove nothing."""
    said = verdict(whole, tests, _LIMIT_OF_ALL)
    if said.killed or said.trouble:
        print(f"the tests fail without a mutant: {said.by}", said.trouble, sep="\n")
        return False
    print(f"without a mutant the {len(tests)} named tests pass ({said.seconds:.0f} s)", flush=True)
    return True


def _print_row(mutant: Mutant, said: Verdict) -> None:
    word = "killed by" if said.killed else "NO VERDICT:" if said.trouble else "SURVIVED:"
    print(f"{mutant.name:40} {word} {said.by} ({said.seconds:.1f} s)", flush=True)
    if not said.killed:
        print(f"    {mutant.file}: {mutant.why}", said.trouble, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
