"""The summary of a chaos run, in plain lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.check_slots import EXPLAINED, LOST, RUN, WITHOUT_A_WITNESS
from chaos.story import Story
from chaos.verdict import Verdict

_SHOWN = 20

UNKNOWN = (
    "error that it does not know",
    "a step of the scheduler failed",
    "could not be handed over",
    "could not be made",
    "could not be suspended before a fork",
    "could not be restarted after a fork",
    "could not be started in a uWSGI worker",
    "a listener failed",
    "Fatal Python error",
)
"""What an instance writes to its standard error when it meets a defect of its own."""


def defects_told(errors: Sequence[Path]) -> list[str]:
    """Return the lines in which instances told of defects of their own."""
    return [
        f"{path.name}: {line}"
        for path in errors
        for line in path.read_text(errors="replace").splitlines()
        if any(text in line for text in UNKNOWN)
    ]


def summary(story: Story, verdict: Verdict) -> Iterator[str]:
    """Yield what was done and what came of it."""
    slots = verdict.slots
    stalls = [trouble for trouble in story.troubles.of(None) if trouble.kind == "stall"]
    held = [trouble for trouble in story.troubles.of(None) if trouble.kind == "held"]
    yield f"faults: {_counted(story.did)}"
    yield (
        f"processes: {len(story.lives)}, frozen with the store's lock {len(held)} times,"
        f" refused by the store when they started {story.refused} times"
    )
    longest = max((stall.until - stall.since for stall in stalls), default=0.0)
    busy = sum(trouble.until - trouble.since for trouble in story.busy.of(None))
    yield from _of_a_server(story, verdict)
    yield (
        f"stalls of this machine: {len(stalls)}, the longest {longest:.1f} s;"
        f" without time to spare for {busy:.0f} s"
    )
    yield (
        f"slots: {slots.total()}, run {slots[RUN]}, "
        f"skipped for a good reason {slots[EXPLAINED]}, "
        f"with nobody to run them {slots[WITHOUT_A_WITNESS]}, lost {slots[LOST]}"
    )
    yield f"first attempts begun {_counted(verdict.lateness)}"
    yield f"attempts: {verdict.attempts.total()}: {_counted(verdict.attempts)}"
    yield f"recorded: {_counted(verdict.records)}"
    if story.leases:
        yield (
            f"second and later attempts: {verdict.takeovers};"
            f" runs given up, with a backup whom nothing befell: {verdict.given_up}"
        )
    yield f"violations: {len(verdict.violations)}"
    for found in verdict.violations[:_SHOWN]:
        yield f"- {found}"
    if len(verdict.violations) > _SHOWN:
        yield f"- and {len(verdict.violations) - _SHOWN} more"


def _of_a_server(story: Story, verdict: Verdict) -> Iterator[str]:
    outages = [each for each in story.troubles.of(None) if each.kind == "down"]
    if outages:
        longest = max(each.until - each.since for each in outages)
        yield (
            f"outages of the server: {len(outages)}, the longest {longest:.1f} s;"
            f" slots were late for {verdict.back:.1f} s after one at most"
        )


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"
