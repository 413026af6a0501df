"""What the source says: where the store is called, and which lines there are."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

from faults.lines import Point

_CALLS = {"submit", "submit_other", "drop_claims", "ask"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class CallSite:
    """The lines of one call of the store, by way of its thread or in it."""

    file: str
    first: int
    last: int

    def is_next_to(self, point: Point) -> bool:
        """Say whether the line is where the call begins, or the one after it."""
        return point.file == self.file and point.line in (self.first, self.last + 1)

    def has(self, point: Point) -> bool:
        """Say whether the line is one of the call."""
        return point.file == self.file and self.first <= point.line <= self.last


def call_sites(files: Collection[str]) -> list[CallSite]:
    """Return all calls of the store."""
    return [
        CallSite(file, node.lineno, node.end_lineno or node.lineno)
        for file in files
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Call) and _is_of_the_store(node.func)
    ]


def unreached(files: Collection[str], reached: Collection[Point]) -> set[tuple[str, str]]:
    """Return function and text of each line that is not among the points.

    What is done about an error that nobody expects is left out: no scene has one.
    """
    lines = {(point.file, point.line) for point in reached}
    return {
        (_function_of(file, line), linecache.getline(file, line).strip())
        for file in files
        for line in _executable(compile(Path(file).read_text(), file, "exec"))
        if (file, line) not in lines and line not in _unexpected(file)
    }


def _function_of(file: str, line: int) -> str:
    found = [
        (node.lineno, name)
        for name, node in _functions(_tree(file), "")
        if node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(found)[1]


@cache
def _unexpected(file: str) -> set[int]:
    """Return the lines of all ``except Exception`` and ``except BaseException``."""
    return {
        line
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.ExceptHandler)
        and isinstance(node.type, ast.Name)
        and node.type.id in ("Exception", "BaseException")
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _is_of_the_store(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "call_backend"
    if not (isinstance(called, ast.Attribute) and called.attr in _CALLS):
        return False
    return isinstance(called.value, ast.Attribute) and called.value.attr in ("store", "_store")


def _functions(node: ast.AST, owner: str) -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{child.name}.")
        elif isinstance(child, _Function):
            yield f"{owner}{child.name}", child


def _executable(code: CodeType, *, inside: bool = False) -> set[int]:
    """Return the lines of the functions in ``code``, without those that only define them."""
    lines = {line for _, _, line in code.co_lines() if line} if inside else set()
    lines.discard(code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_function = bool(constant.co_flags & 2)  # which the body of a class is not
            lines |= _executable(constant, inside=is_function)
    return lines


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text())
