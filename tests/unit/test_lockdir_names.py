"""Any name of a job is a folder of its own, and none leads out of the directory."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lockdir_bench import backend, claim, clock, locks

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.names import (
    as_day,
    as_slot,
    file_of_instance,
    folder_of_job,
    is_private,
    private_name,
)
from leasecron.errors import ConfigurationError
from leasecron.model import Declaration

__all__ = ["backend", "clock", "locks"]

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(NAMES, NAMES)
def test_two_names_differ_as_folders_whatever_the_case(one: str, two: str) -> None:
    folders = folder_of_job(one).lower(), folder_of_job(two).lower()
    assert (folders[0] == folders[1]) == (one == two)
    for folder in folders:
        assert folder.isascii()
        assert len(folder) <= 143
        assert set(folder) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert not folder.startswith("-")


def test_a_folder_begins_with_what_can_be_read_of_the_name() -> None:
    assert folder_of_job("Nightly Report!").startswith("nightly-report-")
    assert folder_of_job("../é").startswith("job-")
    assert folder_of_job("a" * 300).startswith("a" * 48 + "-")
    assert len({folder_of_job(name) for name in ("é", "e\u0301", "Sync", "sync")}) == 4


@pytest.mark.parametrize("name", ["", "a\0b", "a\ud800b", 5])
def test_what_no_store_can_keep_is_refused_and_makes_nothing(
    backend: LockDirBackend, locks: Path, name: str
) -> None:
    with pytest.raises(ConfigurationError):
        claim(backend, 0, "a", job=name)
    with pytest.raises(ConfigurationError):
        backend.declare([Declaration("good", ""), Declaration(name, "")])
    assert [*(locks / "jobs").iterdir()] == []


@pytest.mark.parametrize("name", ["../../x", "..", "/etc", "a/../../b", "con", ".hidden"])
def test_nothing_is_made_outside_of_the_directory(
    backend: LockDirBackend, tmp_path: Path, locks: Path, name: str
) -> None:
    for token in (name, "T" * 300, "😀"):
        assert claim(backend, 0, token, job=name + token).outcome == "won"
        assert claim(backend, 0, token, job=name + token).outcome == "won"
    assert [*tmp_path.iterdir()] == [locks]
    assert len([*(locks / "jobs").iterdir()]) == 3


def test_private_files_are_told_from_what_others_hide() -> None:
    for name in ("job.json", "leasecron.json", "1790000000000", "-5", "merged"):
        for token in ("abc123", "A/B", "x" * 100):
            private = private_name(name, token)
            assert is_private(private)
            assert "/" not in private
            assert len(private) <= 143
    for name in (".nfs0000000001", ".snapshot", "1790000000000", ".1.2.3", ".", ".hidden.abc"):
        assert not is_private(name)


def test_days_and_slots_are_told_from_other_names() -> None:
    assert as_day("2026-11-29") == date(2026, 11, 29)
    assert [as_day(name) for name in ("20261129", "2026-13-01", "x", "2026-W48-7")] == [None] * 4
    assert as_slot("1790000000000") == 1_790_000_000_000
    assert as_slot("-5") == -5
    assert [as_slot(name) for name in (".1", "1x", "", "\u0661", "1\n")] == [None] * 5


def test_a_history_file_is_of_one_instance_under_one_kernel() -> None:
    files = {
        file_of_instance(*pair) for pair in [("a", "b"), ("a", "c"), ("b", "b"), ("\ud800", "")]
    }
    assert len(files) == 4
    assert not any("." in name for name in files)
