"""The program that races and locks as the other process of a trial, called in this one."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import IO

import pytest

from leasecron.doctor import rival


def test_a_slow_filesystem_ends_the_race_before_all_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(folder: str, name: str, slot: int) -> bool:
        if slot == 2:
            monkeypatch.setattr(rival, "ENOUGH", -1.0)  # by now, it is
        return slot != 1

    monkeypatch.setattr(rival, "_create", take)

    assert rival.race("create", str(tmp_path), "a", 500, time.monotonic()) == (3, [0, 2])


@pytest.mark.parametrize("how", ["create", "link"])
def test_a_slot_that_was_taken_is_lost(tmp_path: Path, how: str) -> None:
    assert rival.race(how, str(tmp_path), "a", 3, time.monotonic()) == (3, [0, 1, 2])
    assert rival.race(how, str(tmp_path), "b", 4, time.monotonic()) == (4, [3])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("first", [True, False])
def test_a_link_whose_answer_was_lost_is_won_if_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool, hidden: bool
) -> None:
    target = tmp_path / "0"
    if not first:
        target.write_text("other")
    link = os.link

    def lose_the_answer(private: str, path: str) -> None:
        if first:
            link(private, path)
        raise FileExistsError(errno.EEXIST, "File exists")

    def hide(path: str, mode: str = "r", *, encoding: str) -> IO[str]:
        if path == str(target):  # as a client does that still believes that it is absent
            raise FileNotFoundError(errno.ENOENT, "No such file")
        return open(path, mode, encoding=encoding)

    monkeypatch.setattr(os, "link", lose_the_answer)
    if hidden:
        monkeypatch.setattr(rival, "open", hide, raising=False)

    assert rival.race("link", str(tmp_path), "a", 1, time.monotonic()) == (1, [0] if first else [])


def test_what_the_system_refuses_is_an_answer() -> None:
    answer = rival._obey('["lock", "flock", "/no/such/file"]')

    assert answer["errno"] == errno.ENOENT
    assert "/no/such/file" in answer["error"]
