"""Random walks by Hypothesis: where stores are put, and how a walk is made that can be replayed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SHM = Path("/dev/shm")


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder where writing costs little, if this machine has one."""
    return tempfile.TemporaryDirectory(dir=SHM if SHM.is_dir() else None)


def walk(
    machine: type[RuleBasedStateMachine], seed_: int, *, examples: int, most_steps: int
) -> None:
    """Walk so many times from the start. The seed decides everything, and nothing is remembered."""
    print(f"seed {seed_}, {examples} walks of up to {most_steps} steps")
    seeded = seed(seed_)(type(machine.__name__, (machine,), {}))
    run_state_machine_as_test(
        seeded,
        settings=settings(
            max_examples=examples,
            stateful_step_count=most_steps,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
