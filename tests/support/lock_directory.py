"""A lock directory, seen from outside by a process that runs no scheduler."""

from pathlib import Path

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.model import MAX_RECORDS, to_ms


class LockDirectory:
    """Makes the directory of a store, and reads what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"lockdir:///{path}"

    def make(self) -> None:
        """Make it a store, as its owner does once."""
        backend = LockDirBackend(self.path, create=True)
        backend.open()
        backend.close()

    def claimed(self) -> set[int]:
        """Return the slots of whatever job that somebody has claimed, in milliseconds."""
        return {int(path.name) for path in self.path.glob("jobs/*/*-*-*/[0-9]*")}

    def recorded(self) -> list[int]:
        """Return the slots of the history, ascending, each as often as it has a record."""
        backend = LockDirBackend(self.path)
        backend.open()
        results = backend.history(limit=MAX_RECORDS)
        backend.close()
        return sorted(to_ms(result.slot) for result in results)

    def everything(self) -> dict[str, bytes | None]:
        """Return what is in it: the content of each file, and None for a folder."""
        return {
            str(path.relative_to(self.path)): path.read_bytes() if path.is_file() else None
            for path in self.path.rglob("*")
        }
