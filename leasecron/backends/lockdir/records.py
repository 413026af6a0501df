"""Records of the history as lines of JSON, and their order."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

from leasecron.backends.rows import valid_text
from leasecron.model import RunResult, Status, Trigger, from_ms, to_ms

Order = tuple[int, int, str, int, str]
"""What a record is known by, and sorted by: when it began, then its slot, job, attempt, instance"""

_STATUSES = frozenset(get_args(Status))
_TRIGGERS = frozenset(get_args(Trigger))
_BEGAN = re.compile(rb'"started_at":(-?[0-9]{1,15}),')
_JOB = re.compile(rb'"job":"(?:[^"\\]|\\.)*",')
_SEPARATORS = (",", ":")


def to_line(result: RunResult) -> bytes:
    """Return a record as one line of ASCII with its newline."""
    said = {
        "job": result.job,
        "slot": to_ms(result.slot),
        "attempt": result.attempt,
        "instance": result.instance,
        "trigger": result.trigger,
        "status": result.status,
        "started_at": to_ms(result.started_at),
        "ended_at": to_ms(result.ended_at),
        "error": valid_text(result.error),
    }
    return json.dumps(said, separators=_SEPARATORS).encode("ascii") + b"\n"


def mentions(job: str) -> bytes:
    """Return what every line of a job's record contains."""
    return f'"job":{json.dumps(job)},'.encode("ascii")


def began_at(line: bytes) -> int | None:
    """Return when the run in a line began, in ms; None for a line that was torn, or is not ours.

    A hundred times as fast as reading the record. In a text of the record the quotes are escaped.
    """
    found = _BEGAN.search(line) if line.endswith(b"}") else None
    return None if found is None else int(found[1])


def job_in(line: bytes) -> bytes | None:
    """Return of a line what :func:`mentions` gives for its job, without reading the rest."""
    found = _JOB.match(line, 1)
    return None if found is None else found[0]


def from_line(line: bytes) -> RunResult | None:
    """Return the record in a line; None for one that was torn, or is not ours."""
    try:
        return _from_said(json.loads(line))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def order_of(result: RunResult) -> Order:
    """Return a record's place: newer is greater, and no two records have the same."""
    return (
        to_ms(result.started_at),
        to_ms(result.slot),
        result.job,
        result.attempt,
        result.instance,
    )


def _from_said(said: Any) -> RunResult:
    started_at, ended_at = said["started_at"], said["ended_at"]
    result = RunResult(
        job=said["job"],
        slot=from_ms(said["slot"]),
        attempt=said["attempt"],
        fence=None,
        instance=said["instance"],
        trigger=said["trigger"],
        status=said["status"],
        started_at=from_ms(started_at),
        ended_at=from_ms(ended_at),
        duration=max(0, ended_at - started_at) / 1000,
        error=said["error"],
    )
    known = result.status in _STATUSES and result.trigger in _TRIGGERS
    texts = (result.job, result.instance, "" if result.error is None else result.error)
    if not known or type(result.attempt) is not int or not all(type(t) is str for t in texts):
        raise ValueError(said)
    for text in texts:
        text.encode()  # what is no valid Unicode was not written by us
    return result
