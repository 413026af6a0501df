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
)
from leasecron.backends.rows import Keys, Moment, Standing, milliseconds
from leasecron.backends.sqlite.batches import columns, execute_columns
from leasecron.backends.sqlite.runs import (
    LoadedRuns,
    insert_first_attempts,
    next_fence,
    set_next_fence,
)
from leasecron.model import Claim, ClaimAnswer

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


def read_claims(
    connection: sqlite3.Connection, moment: Moment, claims: Sequence[Claim], keys: Keys
) -> Reading:
    """Answer what can be answered without the write lock."""
    answers: list[ClaimAnswer | None] = [None] * len(claims)
    for places, own, standing in _standings(connection, claims, keys):
        answer = answer_by_row(standing, moment, own=own)
        for place in places:
            answers[place] = answer
    unknown = [place for place, answer in enumerate(answers) if answer is None]
    table = LoadedRuns(connection, moment)
    # A row that does not answer alone is of a run that has not ended, so its job has it open.
    table.load_jobs(keys.at(unknown))
    slots = keys.slots
    if table.is_blank:
        for place in unknown:
            answers[place] = answer_free(claims[place], slots[place], moment)
    else:
        for place in unknown:
            answers[place] = answer_unchanged(claims[place], slots[place], table, moment)
    left = [place for place in unknown if answers[place] is None]
    if len(left) < len(unknown):
        # Claims of one job see each other in their order, as if they had come one by one.
        jobs = {keys.jobs[place] for place in left}
        left = [place for place in unknown if keys.jobs[place] in jobs]
    return Reading(answers, left, table)


def decide_claims(
    connection: sqlite3.Connection,
    moment: Moment,
    claims: Sequence[Claim],
    keys: Keys,
    reading: Reading,
) -> None:
    """Decide, under the write lock, the claims that are left, and put in their answers."""
    table, left = reading.table, keys.at(reading.left)
    if table.holds(left):
        table.see(moment)
    else:
        table = LoadedRuns(connection, moment)
        table.load(left)
        table.load_jobs(left)
    # Where nothing that is in the table bears on the claims, nor one of them on another.
    if table.is_blank and len({*left.jobs}) == len(left.jobs):
        _win_free(connection, moment, claims, keys, reading)
        return
    for place, slot in zip(reading.left, left.slots, strict=True):
        reading.answers[place] = decide(claims[place], slot, table, moment)
    table.flush()


def _win_free(
    connection: sqlite3.Connection,
    moment: Moment,
    claims: Sequence[Claim],
    keys: Keys,
    reading: Reading,
) -> None:
    """Decide as ``decide`` does, where no run of the jobs is open and no slot was pruned."""
    slots, answers = keys.slots, reading.answers
    for place in reading.left:
        answers[place] = answer_free(claims[place], slots[place], moment)
    places = [place for place in reading.left if answers[place] is None]
    if not places:
        return
    won = [claims[place] for place in places]
    first = next_fence(connection)
    fences = range(first, first + len(won))
    attempts = (
        *keys.at(places),
        [claim.token for claim in won],
        fences,
        [claim.instance for claim in won],
        [claim.trigger for claim in won],
        [milliseconds(claim.lease) for claim in won],
    )
    insert_first_attempts(connection, attempts, moment)
    set_next_fence(connection, fences.stop)
    for place, fence in zip(places, fences, strict=True):
        answers[place] = ClaimAnswer("won", 1, fence)


def _standings(
    connection: sqlite3.Connection, claims: Sequence[Claim], keys: Keys
) -> Iterator[tuple[list[int], bool, Standing]]:
    """Yield the places of claims whose runs stand alike, and whether by tokens of their own."""
    given = (range(len(claims)), *keys, [claim.token for claim in claims])
    for places, own, *standing in execute_columns(connection, _STANDINGS, given):
        yield places, bool(own), Standing(*standing)
