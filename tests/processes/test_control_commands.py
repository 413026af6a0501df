"""Jobs are triggered, paused and resumed by commands, beside the process that runs them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.instances import LIMIT, Instances, spawned_instances

instances = spawned_instances

PROGRAM = """
scheduler = new_scheduler(instance="web-1")
scheduler.every("tick", "250ms", note)
scheduler.every("report", "30d", note)

@scheduler.every("broken", "30d")
def broken():
    raise ValueError("the disk is full")

@scheduler.every("long", "30d")
def long():
    gates["long"].wait(60)

serve(scheduler)
scheduler.stop()
"""

Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def started(instances: Instances) -> Iterator[Started]:
    """Starts commands that know the store by their environment."""
    commands: list[subprocess.Popen[str]] = []

    def start(*words: str) -> "subprocess.Popen[str]":
        variables = {"LEASECRON_STORE": instances.url, "PYTHONPATH": os.pathsep.join(sys.path)}
        # A signal that is ignored here, in a shell's background job, would stay so in the command.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            command = subprocess.Popen(
                [sys.executable, "-m", "leasecron", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **variables},
            )
        finally:
            signal.signal(signal.SIGINT, before)
        commands.append(command)
        return command

    yield start
    for command in commands:
        command.kill()
        command.communicate()


def ended(command: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return the exit code of a command and all that it wrote."""
    written = "".join(command.communicate(timeout=LIMIT))
    return command.returncode, written


def test_a_job_is_triggered_from_outside(instances: Instances, started: Started) -> None:
    instances.spawn(PROGRAM).wait_for("up")

    good = started("trigger", "report", "--wait")
    bad = started("trigger", "broken", "--wait", "--timeout", "60s")

    code, written = ended(good)
    assert code == 0, written
    assert "\nsuccess: attempt 1, by web-1, took " in written
    assert len(instances.log.lines("report")) == 1
    code, written = ended(bad)
    assert code == 1, written
    assert written.endswith(": ValueError: the disk is full\n")


def test_ctrl_c_ends_the_waiting_and_not_the_run(instances: Instances, started: Started) -> None:
    instance = instances.spawn(PROGRAM)
    instance.wait_for("up")
    command = started("trigger", "long", "--wait")
    assert command.stdout is not None
    assert command.stdout.readline().startswith("asked for a run of job 'long', slot ")
    instance.wait_for("start", job="long")

    command.send_signal(signal.SIGINT)

    assert ended(command) == (130, "interrupted: the run is not taken back\n")
    instance.ask("gates['long'].set()")
    instance.wait_for("success", job="long")


def test_a_job_is_paused_and_resumed_from_outside(instances: Instances, started: Started) -> None:
    instance = instances.spawn(PROGRAM)
    instance.wait_for("start", job="tick")

    assert ended(started("pause", "tick", "--note", "the bank is closed"))[0] == 0
    paused = instance.wait_for("skip", job="tick", reason="paused")["slot"]
    code, written = ended(started("resume", "tick"))

    assert code == 0, written
    assert "(the bank is closed)" in written
    instances.wait_until(
        lambda: [run for run in instance.said("success", job="tick") if run["slot"] > paused]
    )
