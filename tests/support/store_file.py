"""The file of a SQLite store, seen from outside by a process that runs no scheduler."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class StoreFile:
    """Reads the store, checks it, and holds its write lock as a foreign program would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def runs(self, job: str) -> list[Row]:
        """Return the rows of a job's runs by slot."""
        return self._rows("SELECT * FROM runs WHERE job = ? ORDER BY slot", job)

    def results(self, job: str) -> list[Row]:
        """Return the history of a job, oldest first."""
        return self._rows("SELECT * FROM results WHERE job = ? ORDER BY fence", job)

    def integrity(self) -> str:
        """Return what SQLite says of the whole file: ``ok``."""
        return str(self._rows("PRAGMA integrity_check")[0]["integrity_check"])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file as a shell with an open transaction does."""
        with closing(self._connect(timeout=30.0)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            yield
            connection.execute("COMMIT")

    def is_locked(self) -> bool:
        """Say whether somebody is in the middle of a transaction that writes."""
        with closing(self._connect(timeout=0.3)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
            return False

    def _rows(self, statement: str, *values: object) -> list[Row]:
        with closing(self._connect(timeout=30.0)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(statement, values).fetchall()]

    def _connect(self, timeout: float) -> sqlite3.Connection:
        # It must be there: a look from outside must not make the file.
        return sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None
        )
