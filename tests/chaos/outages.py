"""Which outages of a server a slot has to outlive.

A claim that a server does not answer is made again until the slot is too late. So an outage that
ends soon enough explains nothing: the slot is to be run when the server is back.
"""

from chaos.jobs import MAX_LATE
from chaos.story import AFTERMATH, Life, Story, Trouble

OF_A_SERVER = frozenset({"server-kill", "server-restart", "server-freeze", "down"})
"""The kinds of trouble that a server can have."""

BEFORE, AFTER = 2.0, 3.0
"""Seconds around a slot in which nothing may befall its witness."""

BACK_IN = 2.5
"""Seconds after which a server that is back has answered all who have waited for it."""


def decided_by(story: Story, at: float) -> float | None:
    """Return by when a slot that is due at ``at`` is decided, whatever the server has suffered.

    None where it may be too late by then: such an outage explains what was not run.
    """
    until = at + AFTER
    for each in of_a_server(story, at - BEFORE - AFTERMATH, at + MAX_LATE):
        if each.since <= until:
            until = max(until, each.until + BACK_IN)
    return until if until <= at + MAX_LATE else None


def without_outlived(story: Story, at: float, troubles: list[Trouble]) -> list[Trouble]:
    """Return the troubles that count for a slot: not those that it was to outlive."""
    if decided_by(story, at) is None:
        return troubles
    return [each for each in troubles if each.kind not in OF_A_SERVER]


def of_a_server(story: Story, since: float, until: float) -> list[Trouble]:
    """Return what the server suffered in that time, at least in part."""
    troubles = story.troubles.between(None, since, until)
    return [each for each in troubles if each.kind in OF_A_SERVER]


def claims_until(story: Story, life: Life) -> float:
    """Return until when a claim may be made for a process that is gone.

    What it has sent to a frozen server is done when that goes on, whoever still wants to know.
    """
    last_words = of_a_server(story, life.gone - AFTERMATH, life.gone)
    return max([life.gone, *(each.until for each in last_words)])


def may_leave_claims(story: Story, life: Life) -> bool:
    """Say whether a process could be gone without a word to the store of what it had won."""
    if life.killed is not None:
        return True
    return life.told is not None and bool(of_a_server(story, life.told - AFTERMATH, life.gone))
