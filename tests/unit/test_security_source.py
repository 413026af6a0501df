"""What the package never does: unpickle, evaluate text, start a shell, put text into SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import leasecron

PACKAGE = Path(leasecron.__file__).parent

MODULES = frozenset({
    "pickle", "_pickle", "cPickle", "marshal", "shelve", "dbm", "dill", "cloudpickle", "jsonpickle",
    "joblib", "yaml", "ruamel", "multiprocessing", "code", "codeop", "runpy", "imp", "pty",
})  # fmt: skip
"""Modules that make objects or run code from what they read."""

NAMES = frozenset({"eval", "exec", "compile", "__import__", "breakpoint", "input"})
"""Builtins that do."""

ATTRIBUTES = frozenset({
    "import_module", "exec_module", "loads_pickle", "read_pickle", "set_authorizer",
    "enable_load_extension", "load_extension", "create_function", "executescript",
    "system", "popen", "getoutput", "getstatusoutput", "detect_types",
})  # fmt: skip
"""Functions of other modules that do, or that give a database or a shell a hand in it."""

KEYWORDS = frozenset({"shell", "object_hook", "object_pairs_hook", "detect_types"})


def faults(source: str) -> Iterator[str]:
    """Name what a module does of all this."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                modules = {alias.name.partition(".")[0] for alias in names}
                yield from sorted(modules & MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                yield from sorted({module.partition(".")[0]} & MODULES)
                yield from sorted({alias.name for alias in names} & ATTRIBUTES)
            case ast.Name(id=name) if name in NAMES:
                yield name
            case ast.Attribute(attr=name) if name in ATTRIBUTES:
                yield name
            case ast.keyword(arg=str(name)) if name in KEYWORDS:
                yield name


_STATEMENT = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|DROP|ALTER|WITH|BEGIN|ATTACH)\b"
)
_OWN = frozenset({"wanted", "number", "table", "round", "wait", "relaxed"})
"""Names that stand for one of a few words of the program, or for a number."""


def is_made_up(node: ast.AST) -> bool:
    """Say whether a text is an SQL statement in which more is put than constants and numbers."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(head)), *rest]):
            names = {n.id for part in rest for n in ast.walk(part) if isinstance(n, ast.Name)}
            own = {name for name in names if name.isupper() or name in _OWN}
            texts = {n for part in rest for n in ast.walk(part) if isinstance(n, ast.Attribute)}
            return bool(_STATEMENT.match(head) and (names - own or texts))
        case ast.BinOp(left=ast.Constant(value=str(head)), op=ast.Mod() | ast.Add()):
            return bool(_STATEMENT.match(head))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(head)), attr="format")):
            return bool(_STATEMENT.match(head))
    return False


def made_up_statements(source: str) -> Iterator[str]:
    """Name the SQL statements that a function makes of what it was given."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.Lambda):
            yield from (ast.unparse(node) for node in ast.walk(function) if is_made_up(node))


SOURCES = {
    str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}


def test_nothing_in_the_package_makes_objects_or_code_from_what_it_reads() -> None:
    assert len(SOURCES) > 60
    found = {name: [*faults(source)] for name, source in SOURCES.items()}
    assert {name: said for name, said in found.items() if said} == {}


def test_no_text_becomes_part_of_an_sql_statement() -> None:
    found = {name: [*made_up_statements(source)] for name, source in SOURCES.items()}
    assert {name: said for name, said in found.items() if said} == {}


# The checks themselves


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal as m",
        "from shelve import open as o",
        "from multiprocessing.pool import Pool",
        "def f():\n    import yaml",
        "eval(x)",
        "f = exec",
        "__import__('os')",
        "importlib.import_module(x)",
        "from importlib import import_module",
        "os.system(x)",
        "subprocess.run(x, shell=True)",
        "json.loads(x, object_hook=f)",
        "connection.enable_load_extension(True)",
    ],
)
def test_what_is_forbidden_is_found(source: str) -> None:
    assert [*faults(source)] != []


@pytest.mark.parametrize(
    "statement",
    [
        "f'SELECT * FROM runs WHERE job = {job!r}'",
        "'SELECT %s' % job",
        "'SELECT {}'.format(job)",
        "'SELECT ' + job",
        "f'PRAGMA {name(job)}'",
        "f'SELECT {self.job}'",
    ],
)
def test_a_statement_with_text_in_it_is_found(statement: str) -> None:
    assert [*made_up_statements(f"def f(job):\n    text = {statement}")] != []
