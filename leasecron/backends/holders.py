"""What the holder of a run may still do to it: renew its lease, record its end, give it back.

Everything here needs the token. A token that no longer owns the run is an answer, not an error. A
lease that is over is never renewed, even by its own token: otherwise a paused holder could wake
beside the winner of the next slot.
"""

from __future__ import annotations

from collections.abc import Mapping

from leasecron.backends.rows import (
    ENDED,
    LEASE_ENDED,
    Moment,
    RunRow,
    RunTable,
    alive,
    end_lease,
    renew_lease,
)
from leasecron.model import Ending, HeartbeatAnswer, LeaseRef, Retry, RunResult, Status

_ENDS: Mapping[Status, str] = {
    "success": "success",
    "failed": "failed",
    "lost": "failed",
    "interrupted": "replaced",
}


def heartbeat(ref: LeaseRef, slot: int, table: RunTable, moment: Moment) -> HeartbeatAnswer:
    """Renew a lease that is alive and has the token, whatever the state of its run.

    ``slot`` is in milliseconds, here and below.
    """
    row = table.row(ref.job, slot)
    if row is None or row.token != ref.token or not alive(row, moment):
        return "lost"
    renew_lease(row, ref.lease, moment)
    table.put(row)
    return "replaced" if row.cancelled else "ok"


def retry(item: Retry, slot: int, table: RunTable, moment: Moment) -> bool:
    """Keep how often a held run is tried again; False where the lease is over or another's."""
    row = table.row(item.job, slot)
    if row is None or row.token != item.token or row.state != "claimed" or not alive(row, moment):
        return False
    if row.retries < item.retries:
        row.retries = item.retries
        table.put(row)
    return True


def finish(ending: Ending, slot: int, table: RunTable, moment: Moment) -> bool:
    """Record the end of a run: as ``replaced`` if it was interrupted, else by its status.

    The lease may be over, as long as nobody took the run. A repetition answers the same.
    """
    row = _owned(ending, slot, table)
    if row is None:
        return False
    changed = row.state not in ENDED
    if changed:
        row.state = _ENDS[ending.status]
        if ending.pause is not None and row.state == "failed":
            table.pause(row.job, ending.pause)
    if not ending.keep_lease and row.boot != LEASE_ENDED:
        end_lease(row, moment)
        changed = True
    if changed:
        table.put(row)
    return True


def release(ending: Ending, slot: int, table: RunTable, moment: Moment) -> bool:
    """Give a run back unfinished; of a run that has ended, end the kept lease and nothing else."""
    row = _owned(ending, slot, table)
    if row is None:
        return False
    if row.state == "claimed":
        row.state = "released"
        row.released_fence = row.fence
        row.lost += ending.counted
    elif row.boot == LEASE_ENDED:
        return True
    end_lease(row, moment)
    table.put(row)
    return True


def may_record(result: RunResult, row: RunRow | None) -> bool:
    """Say whether a holder's own record may enter the history.

    It may while the attempt is the run's latest and nobody closed it, or if it was released. An
    earlier attempt without a record was released too: of one that was lost there is a record. Who
    made way for a newer run has ended it himself, and its row still says so.
    """
    if row is None or result.fence is None:
        return False
    if result.fence < row.fence or result.fence == row.released_fence:
        return True
    # In a row that waits, or was closed before it began anew, the fence is of an attempt before.
    closed = row.state in {"abandoned", "replaced"} and not row.cancelled and row.attempt > 0
    return result.fence == row.fence and not closed


def _owned(ending: Ending, slot: int, table: RunTable) -> RunRow | None:
    row = table.row(ending.job, slot)
    return row if row is not None and row.token == ending.token else None
