"""The list of the mutation check fits the code; ``mutants.py`` runs the mutants themselves."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from mutants import ROOT, Mutant, load, rotten

MUTANTS = load()
NAMES = [mutant.name for mutant in MUTANTS]
NOT_FAST = ("slow", "servers")

each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)


def test_every_broken_line_is_in_its_file_once() -> None:
    assert rotten(MUTANTS, ROOT) == []


def test_no_two_mutants_share_a_name() -> None:
    assert len(MUTANTS) >= 14
    assert len(set(NAMES)) == len(NAMES)


@each_mutant
def test_a_mutant_is_a_program_that_does_something_else(mutant: Mutant) -> None:
    whole = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(mutant.broken(whole))) != ast.dump(ast.parse(whole))


@each_mutant
def test_the_tests_that_kill_it_exist_and_are_fast(mutant: Mutant) -> None:
    assert mutant.why.endswith(".")
    assert mutant.killed_by
    for test in mutant.killed_by:
        file, _, name = test.partition("::")
        marks = marks_of(ROOT / file)
        assert name in marks, test
        assert not [word for word in NOT_FAST if f"mark.{word}" in marks[name]], test


@pytest.mark.parametrize("source", ["", "a = 1\nb = 2\n", "a = 0\na = 0\n"])
def test_a_line_that_is_not_there_once_is_refused(source: str) -> None:
    mutant = Mutant("name", "file.py", "a = 0", "a = 1", "Why.", ())
    with pytest.raises(ValueError, match=r"name: its old text is [02] times in file\.py"):
        mutant.broken(source)


def test_a_file_that_is_gone_is_found_in_the_list(tmp_path: Path) -> None:
    mutant = Mutant("name", "file.py", "a = 0", "a = 1", "Why.", ())
    (found,) = rotten([mutant], tmp_path)
    assert "file.py" in found


@functools.cache
def marks_of(path: Path) -> dict[str, str]:
    """Return the decorators of each test in a file, as one text."""
    return {
        node.name: " ".join(map(ast.unparse, node.decorator_list))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
