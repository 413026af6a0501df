"""What the holder of a run may still do to it: renew its lease, record its end, give it back.

Everything here needs the token. A token that no longer owns the run is an answer, not an error. A
lease that is over is never renewed, even by its own token: otherwise a paused holder could wake
beside the winner of the next slot.
"""

from __future__ import annotations

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
from leasecron.model import Ending, HeartbeatAnswer, LeaseRef, RunResult


def heartbeat(ref: LeaseRef, slot: int, table: RunTable, moment: Moment) -> HeartbeatAnswer:
    """Renew a lease that is alive and has the token, whatever the state of its run.

    ``slot`` is in milliseconds, here and below.
    """
    row = table.row(ref.job, slot)
    if row is None or row.token != ref.token or not alive(row, moment):
        return "lost"
    renew_lease(row, ref.lease, moment)
    table.put(row)
    return "ok"


def finish(ending: Ending, slot: int, table: RunTable, moment: Moment) -> bool:
    """Record the end of a run as ``success``, or as ``failed`` for any other status.

    The lease may be over, as long as nobody took the run. A repetition answers the same.
    """
    row = _owned(ending, slot, table)
    if row is None:
        return False
    changed = row.state not in ENDED
    if changed:
        row.state = "success" if ending.status == "success" else "failed"
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
    earlier attempt without a record was released too: of one that was lost there is a record.
    """
    if row is None or result.fence is None:
        return False
    if result.fence < row.fence or result.fence == row.released_fence:
        return True
    return result.fence == row.fence and row.state not in {"abandoned", "replaced"}


def _owned(ending: Ending, slot: int, table: RunTable) -> RunRow | None:
    row = table.row(ending.job, slot)
    return row if row is not None and row.token == ending.token else None
