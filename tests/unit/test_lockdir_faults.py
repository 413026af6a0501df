"""A claim is won with proof only, and never lost where the link is there, whatever call fails."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from contract.driver import a_claim, at
from contract.hand_clock import HandClock
from contract.server_clock import lock_directory
from lockdir_bench import (
    Fault,
    FaultyOs,
    Killed,
    another,
    backend,
    claim,
    claim_files,
    clock,
    fail,
    kill,
    locks,
    lose_answer,
    private_files,
    system,
    token_in,
)

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.errors import BackendError, BackendUnavailable
from leasecron.model import to_ms

__all__ = ["backend", "clock", "locks", "system"]

MOST_CALLS = 80


def test_a_claim_makes_calls_that_can_fail(backend: LockDirBackend, system: FaultyOs) -> None:
    with system.doing(None) as names:
        assert claim(backend, 0, "a").outcome == "won"
    assert {"mkdir", "open", "write", "fsync", "link", "unlink"} <= set(names)
    assert len(names) < MOST_CALLS


def on(name: str, fault: Callable[[Callable[[], object]], object]) -> Fault:
    """Have a fault in the calls of one name."""
    return lambda _number, called, real: fault(real) if called == name else real()


def then_fail(code: int) -> Callable[[Callable[[], object]], object]:
    """Make the call and say that it failed."""

    def fault(real: Callable[[], object]) -> object:
        real()
        raise OSError(code, "its answer was lost")

    return fault


def only_fail(code: int) -> Callable[[Callable[[], object]], object]:
    """Fail without making the call."""

    def fault(_real: Callable[[], object]) -> object:
        raise OSError(code, "it was not made")

    return fault


def for_each_call(backend: LockDirBackend, system: FaultyOs, fault: Callable[[int], Fault]) -> int:
    """Try a fault in every call of a claim, each with a job of its own; return how many failed."""
    failed = 0
    for number in range(MOST_CALLS):
        job = f"job-{number}"
        won: list[str] = []
        with system.doing(fault(number)) as names:
            try:
                answer = claim(backend, 0, "a", job=job)
                won += ["a"] * (answer.outcome == "won")
                assert answer.outcome == "won", (number, names)
            except BackendError:
                failed += 1
        # Another one asks before the first one does so again: one of them wins, and only one.
        if number % 2:
            other = claim(backend, 0, "b", job=job).outcome
            won += ["b"] * (other == "won")
        if "a" not in won:
            won += ["a"] * (claim(backend, 0, "a", job=job).outcome == "won")
        assert len(won) == 1, (number, names, won)
        assert claim(backend, 0, "c", job=job).outcome == "done"
        assert claim(backend, 0, won[0], job=job).outcome == "won"
        if len(names) < number:
            return failed
    raise AssertionError("a claim makes more calls than were tried")


def test_a_stale_handle_once_changes_nothing(backend: LockDirBackend, system: FaultyOs) -> None:
    assert for_each_call(backend, system, lambda number: fail(number, errno.ESTALE)) == 0


def test_stale_handles_without_end_are_an_error(backend: LockDirBackend, system: FaultyOs) -> None:
    stale = lambda number: fail(number, errno.ESTALE, times=5)  # noqa: E731 - one of its kind
    assert for_each_call(backend, system, stale) > 5


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.ETIMEDOUT, errno.ENOENT])
def test_a_call_that_fails_makes_no_winner_of_two(
    backend: LockDirBackend, system: FaultyOs, code: int
) -> None:
    assert for_each_call(backend, system, lambda number: fail(number, code)) > 5


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.EEXIST, errno.ESTALE])
def test_a_lost_answer_makes_no_winner_of_two(
    backend: LockDirBackend, system: FaultyOs, code: int
) -> None:
    for_each_call(backend, system, lambda number: lose_answer(number, code))


@pytest.mark.parametrize("code", [errno.EIO, errno.EEXIST, errno.ETIMEDOUT])
def test_a_link_that_is_there_wins_whatever_the_call_said(
    backend: LockDirBackend, system: FaultyOs, code: int
) -> None:
    with system.doing(on("link", then_fail(code))):
        assert claim(backend, 0, "a").outcome == "won"
    assert private_files(Path(backend.path)) == []


class Blind:
    """A client that does not see a claim which is there, since it once saw that it was not."""

    def __init__(self, slot_name: str) -> None:
        self._slot_name = slot_name

    def __call__(self, path: str, *args: object, **kwargs: object) -> int:
        if os.path.basename(path) == self._slot_name:
            raise FileNotFoundError(errno.ENOENT, "not to be seen", path)
        return os.open(path, *args, **kwargs)  # type: ignore[arg-type]  # as it was called


def blinded(system: FaultyOs, slot: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "open", Blind(str(to_ms(at(slot)))), raising=False)


def test_a_claim_that_is_not_to_be_seen_is_won_by_its_links(
    backend: LockDirBackend, system: FaultyOs, monkeypatch: pytest.MonkeyPatch
) -> None:
    blinded(system, 0, monkeypatch)
    assert claim(backend, 0, "a").outcome == "won"
    assert claim(backend, 0, "b").outcome == "done"


@pytest.mark.parametrize("code", [errno.EIO, errno.EEXIST])
def test_links_are_proof_where_the_answer_was_lost_and_nothing_is_to_be_seen(
    backend: LockDirBackend, system: FaultyOs, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    blinded(system, 0, monkeypatch)
    with system.doing(on("link", then_fail(code))):
        assert claim(backend, 0, "a").outcome == "won"


def test_nothing_to_be_seen_and_no_answer_is_an_error_until_it_is_known(
    backend: LockDirBackend, system: FaultyOs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        blinded(system, 0, patch)
        with system.doing(on("link", only_fail(errno.EIO))), pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
    assert len(private_files(Path(backend.path))) == 1
    assert claim(backend, 0, "a").outcome == "won"
    assert private_files(Path(backend.path)) == []


def test_an_error_after_the_link_is_found_out_by_the_next_try(
    backend: LockDirBackend, system: FaultyOs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link":
            real()
            system.fault = lambda _number, _name, _real: only_fail(errno.EIO)(_real)
            raise OSError(errno.EIO, "its answer was lost")
        return real()

    with system.doing(fault), pytest.raises(BackendUnavailable):
        claim(backend, 0, "a")
    with monkeypatch.context() as patched:
        blinded(system, 0, patched)
        # The private file may have its second name from a backup: only what is seen tells.
        with pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
        assert claim(backend, 0, "b").outcome == "done"

    assert claim(backend, 0, "a").outcome == "won"


def test_a_backup_of_what_a_failure_left_is_no_proof_when_the_link_fails_again(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    with system.doing(on("link", only_fail(errno.EIO))):
        with pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
        (private,) = private_files(locks)
        (locks / "backup").hardlink_to(private)
        with pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
    assert claim(backend, 0, "b").outcome == "won"
    assert claim(backend, 0, "a").outcome == "done"


def test_more_names_than_a_link_makes_are_no_proof(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link":  # it is not made, and backups by hard links come by
            (private,) = private_files(locks)
            for number in range(2):
                (locks / f"backup-{number}").hardlink_to(private)
            raise OSError(errno.EIO, "it was not made")
        return real()

    with system.doing(fault), pytest.raises(BackendUnavailable):
        claim(backend, 0, "a")
    assert claim(backend, 0, "b").outcome == "won"
    assert claim(backend, 0, "a").outcome == "done"


def test_without_links_an_error_after_the_create_does_not_lose_the_slot(
    backend: LockDirBackend, system: FaultyOs
) -> None:
    failing = [True]

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link":
            raise OSError(errno.EPERM, "no links here")
        if name == "fsync" and failing and claim_files(Path(backend.path)):
            failing.clear()
            raise OSError(errno.EIO, "not kept")
        return real()

    with system.doing(fault):
        with pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
        assert claim(backend, 0, "b").outcome == "done"
        assert claim(backend, 0, "a").outcome == "won"


def test_what_a_file_says_counts_more_than_its_links(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    claim(backend, 0, "b")
    (found,) = claim_files(locks)
    text = found.read_bytes()
    found.unlink()

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link":  # another one wins, and a backup by hard links comes by
            (private,) = private_files(locks)
            (locks / "backup").hardlink_to(private)
            found.write_bytes(text)
        return real()

    with system.doing(fault):
        assert claim(backend, 0, "a").outcome == "done"
    assert claim(backend, 0, "b").outcome == "won"


def test_a_backup_of_what_a_failure_left_makes_no_winner(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    for slot, others in ((0, False), (1, True)):
        with system.doing(on("link", only_fail(errno.EIO))), pytest.raises(BackendUnavailable):
            claim(backend, slot, "a")
        (private,) = private_files(locks)
        (locks / f"backup-{slot}").hardlink_to(private)
        if others:
            assert claim(backend, slot, "b").outcome == "won"
        assert claim(backend, slot, "a").outcome == ("done" if others else "won")
        assert len(claim_files(locks)) == slot + 1


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_without_links_a_file_is_made_in_its_place(
    backend: LockDirBackend, system: FaultyOs, locks: Path, code: int
) -> None:
    with system.doing(on("link", only_fail(code))):
        assert claim(backend, 0, "a").outcome == "won"
        assert claim(backend, 0, "b").outcome == "done"
        assert claim(backend, 0, "a").outcome == "won"
    assert [token_in(path) for path in claim_files(locks)] == ["a"]
    assert private_files(locks) == []


def test_without_links_a_file_that_is_being_written_is_taken(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    claim(backend, 0, "b")
    (found,) = claim_files(locks)
    found.write_bytes(b"")
    with system.doing(on("link", only_fail(errno.EPERM))):
        assert claim(backend, 0, "a").outcome == "done"


def test_without_links_a_file_that_was_made_at_the_last_moment_is_taken(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    claim(backend, 0, "b")
    (found,) = claim_files(locks)
    text = found.read_bytes()
    found.unlink()

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link":  # another one wins just now
            found.write_bytes(text)
            raise OSError(errno.EPERM, "there are no links")
        return real()

    with system.doing(fault):
        assert claim(backend, 0, "a").outcome == "done"
    assert [token_in(path) for path in claim_files(locks)] == ["b"]


def test_without_links_a_claim_that_could_not_be_written_is_finished_later(
    backend: LockDirBackend, system: FaultyOs, locks: Path
) -> None:
    writes = 0

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        nonlocal writes
        if name == "link":
            raise OSError(errno.EPERM, "there are no links")
        writes += name == "write"
        if name == "write" and writes == 2:
            raise OSError(errno.ENOSPC, "full")
        return real()

    with system.doing(fault):
        with pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
        assert claim(backend, 0, "b").outcome == "done"
        assert claim(backend, 0, "a").outcome == "won"
    assert [token_in(path) for path in claim_files(locks)] == ["a"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("links", [True, False], ids=["links", "no-links"])
def test_a_process_that_dies_at_any_call_leaves_its_slot_claimed_or_free(
    tmp_path: Path, clock: HandClock, system: FaultyOs, *, after: bool, links: bool
) -> None:
    ends: set[str] = set()
    locks = tmp_path / "locks"
    survivor = lock_directory(locks, clock)
    survivor.open(clock)
    for number in range(MOST_CALLS):
        job = f"job-{number}"
        dying = another(survivor, clock)
        with system.doing(without_links(kill(number, after=after), links=links)) as names:
            try:
                claim(dying, 0, "dead", job=job, max_late=1e6)
                assert number >= len(names)
                break
            except Killed:
                pass
        before = [token_in(path) for path in claim_files(locks)]
        answer = claim(survivor, 0, "alive", job=job, max_late=1e6)
        after_it = [token_in(path) for path in claim_files(locks)]
        if answer.outcome == "won":
            ends.add("free")
            assert sorted(map(str, after_it)) == sorted(map(str, [*before, "alive"]))
        else:
            ends.add("claimed")
            assert answer.outcome == "done"
            assert after_it == before
        clock.advance(10)
        assert claim(survivor, 10 * (number + 1), "alive", job=job).outcome == "won"
        assert survivor.history() == []
        assert {check.verdict for check in survivor.checks()} == {"good"}
    else:
        raise AssertionError("a claim makes more calls than were tried")
    assert ends == {"free", "claimed"}
    survivor.close()


def without_links(fault: Fault, *, links: bool) -> Fault:
    """Have a fault on a filesystem with or without links."""

    def both(number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link" and not links:

            def refuse() -> object:
                raise OSError(errno.EPERM, "there are no links")

            return fault(number, name, refuse)
        return fault(number, name, real)

    return both


def test_backends_that_race_have_one_winner_for_every_slot(tmp_path: Path) -> None:
    clock = HandClock()
    slots = range(200)
    first = lock_directory(tmp_path / "locks", clock)
    first.open(clock)
    backends = [first, *(another(first, clock) for _ in range(2))]
    start = threading.Barrier(len(backends))
    won: list[list[int]] = [[] for _ in backends]

    def race(number: int) -> None:
        start.wait()
        for slot in slots:
            (answer,) = backends[number].claim([a_claim(-slot, f"t{number}", overlap="allow")])
            if answer.outcome == "won":
                won[number].append(slot)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(len(backends))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(slot for slots_won in won for slot in slots_won) == [*slots]
    for opened in backends:
        opened.close()
    assert private_files(tmp_path / "locks") == []


def test_without_links_the_next_try_goes_on_where_a_taken_name_refuses_a_link(
    backend: LockDirBackend, system: FaultyOs
) -> None:
    failing = [True]

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "link":  # the kernel looks for the name first, and at the filesystem then
            taken = bool(claim_files(Path(backend.path)))
            raise OSError(errno.EEXIST if taken else errno.EPERM, "no link")
        if name == "write" and failing and claim_files(Path(backend.path)):
            failing.clear()
            raise OSError(errno.EIO, "not written")
        return real()

    with system.doing(fault):
        with pytest.raises(BackendUnavailable):
            claim(backend, 0, "a")
        assert claim(backend, 0, "b").outcome == "done"
        assert claim(backend, 0, "a").outcome == "won"
