"""Who won a slot: one file per claim, in a folder per job and day.

"Lost" is what the file says, or that it was there first. "Won" needs proof, and the same directory
and a slot that is not late once it is proven. Late and early are judged by the file server's clock.
A folder that was in use and has vanished is not made again: with it the claims are gone that say
which slots were run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from leasecron.backends.lockdir import io
from leasecron.backends.lockdir.clock import ServerClock, now_ms
from leasecron.backends.lockdir.errors import lasting, passing
from leasecron.backends.lockdir.files import OnceFiles, look
from leasecron.backends.lockdir.marker import Directory
from leasecron.backends.lockdir.names import (
    JOB_FILE,
    JOBS,
    LAST,
    as_mark,
    day_of,
    folder_of_job,
    private_name,
)
from leasecron.backends.rows import valid_text
from leasecron.errors import BackendError
from leasecron.model import Claim, ClaimAnswer, Declaration, Outcome, from_ms, to_ms

EARLY = 1000
"""Milliseconds that a slot may lie ahead of the server's clock."""

_DAYS = 4
_LONGEST = 1000


class Folders:
    """The folders of jobs and days that this process has used; made when first used."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._used: dict[str, dict[str, None]] = {}
        self._unsynced: set[str] = set()

    def of_job(self, job: str) -> str:
        """Return the folder of a job."""
        path = self.path_of(job)
        if path in self._used:
            io.check_folder(path)
        else:
            self._make(path)
            self._used[path] = {}
        return path

    def of_day(self, job: str, slot: int) -> str:
        """Return the folder for a slot of a job."""
        folder, day = self.of_job(job), day_of(slot)
        path = os.path.join(folder, day)
        days = self._used[folder]
        if day in days:
            io.check_folder(path)
        else:
            self._make(path)
            days[day] = None
            if len(days) > _DAYS:
                del days[next(iter(days))]
        return path

    def note_claim(self, folder: str) -> None:
        """Remember that something was claimed in a day's folder."""
        self._unsynced.add(folder)

    def path_of(self, job: str) -> str:
        """Return where the folder of a job is, or would be."""
        return os.path.join(self._directory.path, JOBS, folder_of_job(job))

    def sync(self) -> None:
        """Have the names of what was claimed, and of its folders, on the disk."""
        for path in sorted(self._unsynced):
            io.sync_folder(path)
        self._unsynced.clear()

    def _make(self, path: str) -> None:
        io.make_folder(path, self._directory.modes.folder)
        self._unsynced.add(os.path.dirname(path))


class Claims:
    """The claims of one open lock directory."""

    def __init__(self, directory: Directory, server: ServerClock) -> None:
        self._directory = directory
        self._server = server
        self._folders = Folders(directory)
        self._files = OnceFiles(directory.modes.file)
        self._token = os.urandom(16).hex()

    def decide(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        """Answer each claim. The directory has just been looked at."""
        for claim in claims:
            folder_of_job(claim.job)  # a wrong name is refused before anything is made
        now = now_ms(self._server)
        answers = [self._decide(claim, to_ms(claim.slot), now) for claim in claims]
        if any(answer.outcome == "won" for answer in answers):
            self._folders.sync()
            # Whatever took so long may have taken the directory, or the time to begin the run.
            self._directory.check()
            now = now_ms(self._server)
            answers = [
                self._confirm(claim, now) if answer.outcome == "won" else answer
                for claim, answer in zip(claims, answers, strict=True)
            ]
        return answers

    def _confirm(self, claim: Claim, now: int) -> ClaimAnswer:
        """Answer a proven claim: the slot must still be in time, and never have been pruned."""
        if _is_late(claim, now):
            return ClaimAnswer("late")
        if self._is_pruned(claim.job, to_ms(claim.slot), now):
            return ClaimAnswer("done")
        return ClaimAnswer("won", attempt=1)

    def declare(self, jobs: Sequence[Declaration]) -> list[int]:
        """Note that the jobs exist; return when each was first seen, in Unix milliseconds."""
        for declared in jobs:
            folder_of_job(declared.job)
        now = now_ms(self._server)
        seen = [self._declare(declared, now) for declared in jobs]
        self._folders.sync()
        return seen

    def _decide(self, claim: Claim, slot: int, now: int) -> ClaimAnswer:
        if slot > now + EARLY:
            return ClaimAnswer("early", wait=(slot - now) / 1000)
        with passing(self._directory), lasting(self._directory.path):
            if claim.mode == "takeover":
                return self._ask(claim, slot)
            if _is_late(claim, now):
                return self._decide_late(claim, slot, "late")
            try:
                if self._is_pruned(claim.job, slot, now):
                    return self._decide_late(claim, slot, "done")
                return self._claim(claim, slot, now)
            except FileNotFoundError as error:
                self._blame(claim.job, error)
                raise

    def _ask(self, claim: Claim, slot: int) -> ClaimAnswer:
        """Say whether an earlier try of this very claim has won, and claim nothing."""
        folder = os.path.join(self._folders.path_of(claim.job), day_of(slot))
        found = look(os.path.join(folder, str(slot)), exists=False)
        if found is not None and _said(found, "token") == claim.token:
            return ClaimAnswer("won", attempt=1)
        return ClaimAnswer("done", holder=None if found is None else _holder(found))

    def _decide_late(self, claim: Claim, slot: int, unclaimed: Outcome) -> ClaimAnswer:
        """Answer for a slot that is not to be won any more, also where nobody claimed it."""
        folder = os.path.join(self._folders.path_of(claim.job), day_of(slot))
        found = look(os.path.join(folder, str(slot)), exists=False)
        if found is None or _said(found, "token") == claim.token:
            return ClaimAnswer(unclaimed)
        return ClaimAnswer("done", holder=_holder(found))

    def _is_pruned(self, job: str, slot: int, now: int) -> bool:
        """Say whether claims of the day of a slot were removed; only whole days of the past are."""
        day = from_ms(slot).date()
        if day >= from_ms(now).date():
            return False
        marks = map(as_mark, io.names_in(self._folders.path_of(job)))
        return any(mark is not None and day <= mark for mark in marks)

    def _claim(self, claim: Claim, slot: int, now: int) -> ClaimAnswer:
        folder, name = self._folders.of_day(claim.job, slot), str(slot)
        found = self._files.create(
            os.path.join(folder, name),
            os.path.join(folder, private_name(name, claim.token)),
            _content(claim, now),
        )
        if _said(found, "token") == claim.token:
            self._folders.note_claim(folder)
            return ClaimAnswer("won", attempt=1)
        return ClaimAnswer("done", holder=_holder(found))

    def _declare(self, declared: Declaration, now: int) -> int:
        said = {"name": declared.job, "schedule": declared.schedule, "first_seen": now}
        with passing(self._directory), lasting(self._directory.path):
            try:
                folder = self._folders.of_job(declared.job)
                path = os.path.join(folder, JOB_FILE)
                private = os.path.join(folder, private_name(JOB_FILE, self._token))
                found = self._files.create(path, private, json.dumps(said).encode() + b"\n")
                return _first_seen(found) or io.modified_ms(path) or now
            except FileNotFoundError as error:
                self._blame(declared.job, error)
                raise

    def _blame(self, job: str, error: FileNotFoundError) -> None:
        """Raise what it means that a folder is not there; return if it is everybody's loss."""
        self._directory.check()
        if io.status_of(os.path.join(self._directory.path, JOBS)) is None:
            return
        raise BackendError(
            f"the store {self._directory.path} has lost the folder {self._folders.path_of(job)} of "
            f"job {job!r}, or one in it, while it was in use; it is not made again before the "
            "scheduler is stopped and started, since claims were in it"
        ) from error


def _is_late(claim: Claim, now: int) -> bool:
    return now - to_ms(claim.slot) > claim.max_late * 1000


def _content(claim: Claim, now: int) -> bytes:
    said = {
        "token": claim.token,
        "instance": claim.instance[:_LONGEST],
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "claimed_at": now,
    }
    return json.dumps(said).encode() + b"\n"


def _said(content: bytes, key: str) -> str | None:
    """Return a text from a claim; None where it is not to be had, whatever is in the file."""
    found = _parsed(content).get(key)
    return found if isinstance(found, str) else None


def _holder(content: bytes) -> str | None:
    """Return the instance that a claim names, as text that can be shown and kept."""
    name = _said(content, "instance")
    return None if name is None else valid_text(name[:_LONGEST])


def _first_seen(content: bytes) -> int | None:
    found = _parsed(content).get("first_seen")
    return found if type(found) is int and 0 < found <= LAST else None


def _parsed(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
