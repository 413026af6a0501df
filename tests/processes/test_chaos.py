"""Less than a minute of chaos with six instances, on each kind of store."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.command import main

SEED = "9472"  # all that can befall a SQLite store or an instance is in its plan

SERVER_SEED = "7807"  # the same for a server

STORES = {
    "sqlite-wal": ("sqlite:///{}/store/leasecron.db", "wal"),
    "sqlite-rollback": ("sqlite:///{}/store/leasecron.db", "delete"),
    "lockdir": ("lockdir:///{}/store", "auto"),
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that can be made in memory: a disk may be busy for longer than a lease."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder) / "disk"


@pytest.mark.slow
@pytest.mark.parametrize(("store", "journal"), STORES.values(), ids=STORES)
def test_a_short_chaos_breaks_no_promise(disk: Path, store: str, journal: str) -> None:
    where = ["--store", store.format(disk), "--journal", journal]
    assert main([*where, "--minutes", "0.4", "--quiet", "12", "--seed", SEED]) == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_a_short_chaos_on_a_server_breaks_no_promise(store: str) -> None:
    play = ["--rate", "100", "--minutes", "0.67", "--quiet", "12", "--seed", SERVER_SEED]
    assert main(["--store", store, *play]) == 0
