"""A module imports only what comes before it: no cycle, no import hidden in a function."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import leasecron

PACKAGE = Path(leasecron.__file__).parent
ROOT = "leasecron"

_ORDER = """
    errors logger clock polling model durations zones cron schedules option_values options jobs
    events logs backends calls outages pace passes store deadlines timers leases context runs
    retries workers executor room backups runner lease_runner claim_only_runner recovery
    backfilling inbox engine forks lifecycle advice declarations asked backfill
    known_jobs backfill_control control scheduler
    __init__ testing doctor cli __main__
"""
ORDER = _ORDER.split()
"""Modules and subpackages; each may import what stands before it, and what is in it."""

MAY_WAIT = {
    "sqlite_utils": "is slow to import, and not needed while the schema is current",
    "filelock": "is needed for the set-up of a store only",
    "portalocker": "is needed by one kind of store only",
    "fcntl": "does not exist on Windows",
    "urllib.parse": "is slow to import",
    "hashlib": "is slow to import, and needed by one kind of store only",
    "ctypes": "is slow to import, and needed in uWSGI's master only",
    "uwsgi": "exists inside uWSGI only",
    "uwsgidecorators": "exists inside uWSGI only",
    "leasecron.cli.demo_drawing": "needs rich, which is optional",
    "leasecron.backends.postgres.backend": "needs psycopg, which is optional",
    "leasecron.backends.redis.backend": "needs redis, which is optional",
}
"""What may be imported inside a function, and why."""


class Module:
    """The imports of one module: those at its top, and those inside of functions."""

    def __init__(self, name: str, source: str, modules: set[str]) -> None:
        self.name = name
        self.top: list[str] = []
        self.hidden: list[str] = []
        self._modules = modules
        tree = ast.parse(source)
        self.mentioned = {word for node in ast.walk(tree) for word in _words(node)}
        self._visit(tree, inside=False)

    @property
    def own(self) -> set[str]:
        """The modules of this package that it imports, wherever it does."""
        return {name for name in self.top + self.hidden if name.split(".")[0] == ROOT}

    def _visit(self, node: ast.AST, *, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            (self.hidden if inside else self.top).extend(self._imported(child))
            self._visit(child, inside=inside or isinstance(child, _FUNCTIONS))

    def _imported(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{self.name}: imports are absolute"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in self._modules else node.module


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _words(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.alias(name=word):
            return [word]
    return []


def read(sources: Mapping[str, str]) -> list[Module]:
    return [Module(name, source, set(sources)) for name, source in sources.items()]


def unit(name: str) -> str:
    """Return the word of ``ORDER`` that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def out_of_order(modules: list[Module]) -> list[str]:
    place = {word: number for number, word in enumerate(ORDER)}
    return [
        f"{module.name} imports {imported}"
        for module in modules
        for imported in sorted(module.own)
        if unit(imported) != unit(module.name) and place[unit(imported)] > place[unit(module.name)]
    ]


def cycle(modules: list[Module]) -> list[str]:
    try:
        graphlib.TopologicalSorter({module.name: module.own for module in modules}).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def hidden(modules: list[Module]) -> list[str]:
    return [
        f"{module.name} imports {name} in a function"
        for module in modules
        for name in module.hidden
        if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_WAIT)
    ]


def for_type_checkers_only(modules: list[Module]) -> list[str]:
    return [module.name for module in modules if "TYPE_CHECKING" in module.mentioned]


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = [ROOT, *path.relative_to(PACKAGE).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        sources[".".join(parts)] = path.read_text(encoding="utf-8")
    assert len(sources) > 30
    return read(sources)


def test_every_module_has_its_place_in_the_order(modules: list[Module]) -> None:
    assert {unit(module.name) for module in modules} == set(ORDER)


def test_a_module_imports_only_what_comes_before_it(modules: list[Module]) -> None:
    assert out_of_order(modules) == []


def test_imports_make_no_circle(modules: list[Module]) -> None:
    assert cycle(modules) == []


def test_only_what_is_optional_or_heavy_is_imported_in_a_function(modules: list[Module]) -> None:
    assert hidden(modules) == []


def test_everything_that_may_wait_does_so_somewhere(modules: list[Module]) -> None:
    waiting = {name for module in modules for name in module.hidden}
    assert set(MAY_WAIT) <= waiting


def test_nothing_is_imported_for_type_checkers_only(modules: list[Module]) -> None:
    assert for_type_checkers_only(modules) == []


# The checks themselves, on packages that break the rules


def test_an_import_of_a_later_module_is_found() -> None:
    broken = {
        "leasecron.errors": "from leasecron.model import Claim",
        "leasecron.model": "import leasecron.scheduler",
        "leasecron.backends.base": "from leasecron.backends import sqlite",
        "leasecron.backends.sqlite.backend": "import leasecron",
        "leasecron.cli": "from leasecron import errors",
    }
    assert out_of_order(read(broken)) == [
        "leasecron.errors imports leasecron.model",
        "leasecron.model imports leasecron.scheduler",
        "leasecron.backends.sqlite.backend imports leasecron",
    ]


def test_a_circle_is_found_even_if_a_function_hides_it() -> None:
    broken = {
        "leasecron.backends.a": "from leasecron.backends import b",
        "leasecron.backends.b": "def f():\n    from leasecron.backends.a import x",
        "leasecron.backends.c": "import leasecron.backends.a",
    }
    assert set(cycle(read(broken))) == {"leasecron.backends.a", "leasecron.backends.b"}


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import json",
        "async def f():\n    from json import loads",
        "class A:\n    def f(self):\n        if self:\n            import json",
        "def g():\n    try:\n        import json\n    finally:\n        pass",
    ],
)
def test_an_import_in_a_function_is_found(source: str) -> None:
    assert hidden(read({"leasecron.x": source})) == ["leasecron.x imports json in a function"]


def test_an_import_under_a_condition_at_the_top_is_none_in_a_function() -> None:
    source = (
        "try:\n    import json\nexcept ImportError:\n    json = None\ndef f():\n    import filelock"
    )
    assert hidden(read({"leasecron.x": source})) == []


@pytest.mark.parametrize(
    "source",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import json",
        "import typing\nif typing.TYPE_CHECKING:\n    import json",
    ],
)
def test_an_import_for_type_checkers_is_found(source: str) -> None:
    assert for_type_checkers_only(read({"leasecron.x": source})) == ["leasecron.x"]
