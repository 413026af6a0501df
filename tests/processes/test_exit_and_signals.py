"""How a program with a scheduler ends: by itself, by an error, by signals at any moment."""

import random
import signal
import subprocess
import time

import pytest
from support.instances import Instance, Instances, instances_on_every_store

instances = instances_on_every_store

EXIT_LIMIT = 5.0

# A plain script: logging is not set up, and nobody calls stop().
SCRIPT = """
import sys, time
from leasecron import Scheduler

scheduler = Scheduler(store, defaults=DEFAULTS)
scheduler.every("tick", "50ms", note)

@scheduler.every("long", "30d", catch_up="30d", lease="2s")
def long(ctx):
    note(ctx)
    say("begun")
    LONG

scheduler.start()
BODY
say("ends")
ENDING
"""

HEEDS = "ctx.sleep(30)"
IGNORES = "time.sleep(30)"


def script(long: str = "pass", body: str = "time.sleep(0.5)", ending: str = "") -> str:
    return SCRIPT.replace("LONG", long).replace("BODY", body).replace("ENDING", ending)


def check_exit(instance: Instance, code: int = 0, errors: str = "") -> None:
    """The process ends in time, with this exit code and with nothing else on its standard error."""
    ends = instance.wait_for("ends")["monotonic"]
    assert instance.wait() == code
    assert time.monotonic() - ends <= EXIT_LIMIT
    assert instance.stderr().splitlines()[-1:] == ([errors] if errors else [])


def test_a_script_that_ends_without_stop_ends_quietly(instances: Instances) -> None:
    check_exit(instances.spawn(script()))
    assert instances.log.lines("tick") != []
    # A claim that was on its way at the end is given back. Nothing is left to its lease.
    assert {run["state"] for run in instances.store.runs("tick")} <= {"success", "released"}


def test_a_run_that_heeds_its_signal_is_released_at_exit(instances: Instances) -> None:
    check_exit(instances.spawn(script(HEEDS)))
    (run,) = instances.store.runs("long")
    assert (run["state"], run["attempt"], run["lost"]) == ("released", 1, 0)
    assert [row["status"] for row in instances.store.results("long")] == ["interrupted"]


@pytest.mark.slow
def test_a_run_that_ignores_its_signal_keeps_its_lease_until_that_runs_out(
    instances: Instances,
) -> None:
    check_exit(instances.spawn(script(IGNORES)))
    (run,) = instances.store.runs("long")
    assert run["state"] == "claimed"
    assert run["lease_until"] <= time.time() * 1000 + 2000


@pytest.mark.parametrize(
    ("ending", "code", "errors"),
    [
        ("sys.exit(3)", 3, ""),
        pytest.param("sys.exit('no')", 1, "no", marks=pytest.mark.slow),
        pytest.param("raise ValueError('wrong')", 1, "ValueError: wrong", marks=pytest.mark.slow),
    ],
)
def test_the_exit_code_of_the_program_is_kept(
    instances: Instances, ending: str, code: int, errors: str
) -> None:
    instance = instances.spawn(script(HEEDS, ending=ending))
    check_exit(instance, code, errors)
    assert "leasecron" not in instance.stderr()


def test_a_script_may_end_while_start_is_still_at_work(instances: Instances) -> None:
    check_exit(instances.spawn(script(body="pass")))


RUNNING = """
import time
from leasecron import Scheduler

scheduler = Scheduler(store, defaults=DEFAULTS)
scheduler.every("tick", "50ms", note)

@scheduler.every("long", "30d", catch_up="30d", lease="2s")
def long(ctx):
    say("begun")
    LONG

say("ends", clean=scheduler.run())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_ends_with_a_signal_and_exit_code_zero(instances: Instances, number: int) -> None:
    instance = instances.spawn(RUNNING.replace("LONG", HEEDS))
    instance.wait_for("begun")
    instance.signal(number)
    assert instance.wait_for("ends")["clean"] is True
    check_exit(instance)
    (run,) = instances.store.runs("long")
    assert run["state"] == "released"


@pytest.mark.slow
def test_a_second_signal_ends_the_waiting_of_run(instances: Instances) -> None:
    instance = instances.spawn(RUNNING.replace("LONG", IGNORES))
    instance.wait_for("begun")
    instance.signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):  # it waits for the handler
        instance.process.wait(1.0)
    instance.signal(signal.SIGTERM)
    assert instance.wait_for("ends")["clean"] is False
    check_exit(instance)


# The main thread is always inside of some call of ours, so that is what the signals interrupt.
INTERRUPTED = """
import itertools, signal, threading, time
numbers = itertools.count()
scheduler = new_scheduler()
scheduler.every("tick", "50ms", note, overlap="allow")

def stop(*_):
    began = time.monotonic()
    scheduler.stop(timeout=3)
    say("stopped", number=next(numbers), took=time.monotonic() - began)

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGUSR1, lambda *_: going_on.clear())
going_on = threading.Event()
going_on.set()
say("up")
while going_on.is_set():
    scheduler.start()
    scheduler.history()
    scheduler.stop(timeout=3)
say("ends")
"""


@pytest.mark.slow
def test_stop_in_a_signal_handler_returns_whatever_it_interrupted(instances: Instances) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    moments = random.Random(seed)
    instance = instances.spawn(INTERRUPTED)
    instance.wait_for("up")
    for count in range(100):
        time.sleep(moments.uniform(0.0, 0.03))  # so that each hits another line
        instance.signal(signal.SIGTERM)
        instance.wait_for("stopped", number=count)
    instance.signal(signal.SIGUSR1)
    instance.wait_for("ends")
    assert instance.wait() == 0
    assert instance.stderr() == ""
    assert max(report["took"] for report in instance.said("stopped")) <= 5.0
    assert instances.log.doubles() == []
    assert instances.store.integrity() == "ok"
