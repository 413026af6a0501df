"""Two processes race for slots, as instances do: each slot must have one winner."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from leasecron.backends.checks import Check
from leasecron.doctor.rivals import Rivals, TrialFailed
from leasecron.doctor.stakes import Stakes, failed

SLOTS = 500

How = Literal["create", "link"]
WAYS: tuple[How, ...] = get_args(How)
Folders = tuple[str, str]
"""One folder as the one and the other process sees it."""

_RACES = 3
_WARNING = 0.05  # seconds after which both have certainly heard of the race


def check_race(rivals: Rivals, how: How, folders: Folders, stakes: Stakes, where: str) -> Check:
    """Race for :data:`SLOTS` slots; ``where`` completes the name of the check."""
    name = f"{how}{where}"
    try:
        outcome = race(rivals, how, folders, 1)
        for again in range(2, _RACES + 1):  # on a busy machine one may have been away all the time
            if 0 in outcome.shares and not (outcome.double or outcome.nobody):
                outcome = race(rivals, how, folders, again)
    except TrialFailed as error:
        if how == "link" and error.unsupported:
            return failed(name, f"not to be had ({error})", stakes["no link"])
        return failed(name, str(error), stakes[how])
    if outcome.double or outcome.nobody:
        found = (
            f"of {outcome.slots} slots {outcome.double} had two winners and {outcome.nobody} none"
        )
        return failed(name, found, stakes[how])
    shares = " and ".join(map(str, outcome.shares))
    if 0 in outcome.shares:
        reason = "one process was always first, so this was no race: try again on an idle machine"
        return Check(name, "warning", f"{outcome.slots} slots, {shares} won", reason)
    reason = "two processes raced, and each slot had one winner"
    return Check(name, "good", f"{outcome.slots} slots, {shares} won", reason)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a race for ``slots`` slots ended: how many the processes won, two of them, or none."""

    slots: int
    shares: tuple[int, int]
    double: int
    nobody: int


def race(rivals: Rivals, how: How, folders: Folders, number: int) -> Outcome:
    """Let both begin at the same moment; only slots that both have tried count."""
    place = f"{how}-{number}"
    os.mkdir(f"{folders[0]}/{place}")
    begin = time.monotonic() + _WARNING
    for rival, name, folder in zip(rivals.both, "ab", folders, strict=True):
        rival.tell("race", how, f"{folder}/{place}", name, SLOTS, begin)
    (tried, won), (its_tried, its_won) = _answers(rivals)
    return judge(min(tried, its_tried), won, its_won)


def judge(slots: int, won: Collection[int], its_won: Collection[int]) -> Outcome:
    """Count the winners of the slots below ``slots``."""
    mine, its = ({slot for slot in one if slot < slots} for one in (won, its_won))
    return Outcome(slots, (len(mine), len(its)), len(mine & its), slots - len(mine | its))


def _answers(rivals: Rivals) -> list[tuple[int, list[int]]]:
    """Hear both out, also where one has failed: what is not read now would answer the next."""
    answers, error = [], None
    for rival in rivals.both:
        try:
            answers.append(rival.answer())
        except TrialFailed as caught:
            error = caught
    if error is not None:
        raise error
    return answers
