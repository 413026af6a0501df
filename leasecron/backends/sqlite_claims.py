"""The claims of a call of a SQLite store: those that a read answers, and then the others.

An instance that loses is to cost little, so the read asks first how the runs stand that have a row:
once for all that stand alike, as those do that one call has won. What more must be known, such as
what else of a job is open, is loaded for the other claims alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leasecron.backends.claims import (
    answer_by_row,
    answer_free,
    answer_unchanged,
    decide,
    first_attempt,
)
from leasecron.backends.rows import Moment, Standing
from leasecron.backends.sqlite_batches import columns, execute_rows
from leasecron.backends.sqlite_runs import Key, LoadedRuns
from leasecron.model import Claim, ClaimAnswer

Asked = tuple[Claim, int]
"""A claim and its slot in milliseconds."""

_OF_STANDING = ", ".join(Standing._fields)
_STANDINGS = f"""
    WITH asked(place, job, slot, given) AS (VALUES {{rows}})
    SELECT {columns("json(places)", "own", *Standing._fields)} FROM (
        SELECT json_group_array(asked.place) AS places, runs.token = asked.given AS own,
        {_OF_STANDING} FROM asked CROSS JOIN runs
        ON runs.slot = asked.slot AND runs.job = asked.job GROUP BY own, {_OF_STANDING}
    )
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a read gave: the answers so far, and the places of the claims that need the lock."""

    answers: list[ClaimAnswer | None]
    left: Sequence[int]
    table: LoadedRuns


def read_claims(connection: sqlite3.Connection, moment: Moment, asked: Sequence[Asked]) -> Reading:
    """Answer what can be answered without the write lock."""
    answers: list[ClaimAnswer | None] = [None] * len(asked)
    for places, own, standing in _standings(connection, asked):
        answer = answer_by_row(standing, moment, own=own)
        for place in places:
            answers[place] = answer
    left = [place for place, answer in enumerate(answers) if answer is None]
    table = LoadedRuns(connection, moment)
    # A row that does not answer alone is of a run that has not ended, so its job has it open.
    table.load_jobs([_key(asked[place]) for place in left])
    if table.is_blank:
        for place in left:
            answers[place] = answer_free(*asked[place], moment)
    else:
        for place in left:
            answers[place] = answer_unchanged(*asked[place], table, moment)
    # Claims of one job see each other in their order, as if they had come one by one.
    jobs = {asked[place][0].job for place in left if answers[place] is None}
    return Reading(answers, [place for place in left if asked[place][0].job in jobs], table)


def decide_claims(
    connection: sqlite3.Connection, moment: Moment, asked: Sequence[Asked], reading: Reading
) -> None:
    """Decide, under the write lock, the claims that are left, and put in their answers."""
    table, keys = reading.table, [_key(asked[place]) for place in reading.left]
    if table.holds(keys):
        table.see(moment)
    else:
        table = LoadedRuns(connection, moment)
        table.load(keys)
        table.load_jobs(keys)
    jobs = {job for job, _slot in keys}
    win = _win_free if table.is_blank and len(jobs) == len(keys) else decide
    for place in reading.left:
        reading.answers[place] = win(*asked[place], table, moment)
    table.flush()


def _win_free(claim: Claim, slot: int, table: LoadedRuns, moment: Moment) -> ClaimAnswer:
    """Decide as ``decide`` does, where nothing that is in the table bears on the claim.

    Nor do the other claims of the call, each of which is of another job.
    """
    answer = answer_free(claim, slot, moment)
    if answer is not None:
        return answer
    fence = table.next_fence()
    table.add(first_attempt(claim, slot, fence, moment))
    return ClaimAnswer("won", 1, fence)


def _standings(
    connection: sqlite3.Connection, asked: Sequence[Asked]
) -> Iterator[tuple[list[int], bool, Standing]]:
    """Yield the places of claims whose runs stand alike, and whether by tokens of their own."""
    rows = [(place, claim.job, slot, claim.token) for place, (claim, slot) in enumerate(asked)]
    for places, own, *standing in execute_rows(connection, _STANDINGS, rows):
        yield places, bool(own), Standing(*standing)


def _key(item: Asked) -> Key:
    claim, slot = item
    return claim.job, slot
