"""Many rows in one statement.

At every step of a statement sqlite3 lets go of the interpreter, and beside a handler that computes
it gets it back 5 milliseconds later. A statement for each row would so cost a batch of a thousand
five seconds; here a batch costs a few statements of one step each.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

_LARGEST = 512
"""Rows of one statement: with the columns of a run far from SQLite's limit of parameters."""


def execute_rows(
    connection: sqlite3.Connection,
    statement: str,
    rows: Sequence[Sequence[Any]],
    first: Sequence[Any] = (),
) -> list[Any]:
    """Execute ``statement``, whose ``{rows}`` become the given ones, and return the rows it finds.

    ``first`` are the parameters before those of the rows. A statement that finds anything selects
    :func:`columns`.
    """
    return execute_columns(connection, statement, [*zip(*rows, strict=True)], first)


def execute_columns(
    connection: sqlite3.Connection,
    statement: str,
    given: Sequence[Sequence[Any]],
    first: Sequence[Any] = (),
) -> list[Any]:
    """Do what :func:`execute_rows` does, of rows that are given by column, which is quicker."""
    found: list[Any] = []
    for text, values in in_batches(statement, given, first):
        for answer in connection.execute(text, values).fetchall():
            found += in_rows(answer)
    return found


def in_batches(
    statement: str, given: Sequence[Sequence[Any]], first: Sequence[Any] = ()
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the texts to execute, each with its parameters."""
    width = len(given)
    rows = len(given[0]) if given else 0
    start = 0
    while start < rows:
        # Powers of two, so that few texts serve all lengths, and stay compiled.
        size = min(_LARGEST, 1 << ((rows - start).bit_length() - 1))
        values: list[Any] = [None] * (width * size)
        for place, column in enumerate(given):
            values[place::width] = column[start : start + size]
        yield with_rows(statement, size, width), [*first, *values]
        start += size


def columns(*expressions: str) -> str:
    """Return what selects one JSON array for each column: one step, and quickly read."""
    return f"json_array({', '.join(f'json_group_array({each})' for each in expressions)})"


def in_rows(answer: Sequence[str]) -> list[Any]:
    """Return as rows what was selected by :func:`columns`."""
    return [*zip(*json.loads(answer[0]), strict=True)]


@lru_cache(maxsize=256)
def with_rows(statement: str, rows: int, columns: int) -> str:
    """Return ``statement`` with the parameters of so many rows."""
    row = f"({', '.join('?' * columns)})"
    return statement.format(rows=", ".join([row] * rows))
