"""Forks of a process whose scheduler runs: it loses nothing, and its child runs nothing unasked."""

import pytest
from support.instances import Instances, instances_on_every_store
from support.run_log import slots_between

instances = instances_on_every_store

STEP = 200

UNDER_LOAD = """
import gc, multiprocessing, os, sys, time
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    time.sleep(0.02)

for n in range(5):
    scheduler.every(f"job-{n}", "200ms", work, overlap="allow", jitter="50ms")
"""

FORKING = """
def fork(count):
    '''Return the exit codes of children, or None in a child that shall come to a normal end.'''
    children = []
    for n in range(count):
        child = os.fork()
        if not child:
            if scheduler.running:
                os._exit(9)
            if n % 4 == 0:
                return None
            if n % 4 == 1:
                sys.exit(0)
            if n % 4 == 2:
                del globals()["scheduler"]
                gc.collect()
            else:
                scheduler.history()
            os._exit(0)
        children.append(child)
        time.sleep(0.03)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

def multiply(count):
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=gc.collect) for _ in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]

scheduler.start()
say("up")
codes = fork(50)
if codes is not None:
    say("forked", codes=codes)
    say("multiplied", codes=multiply(20))
    serve(scheduler)
"""


JOBS = [f"job-{n}" for n in range(5)]


def check_no_slot_lost(instances: Instances) -> None:
    """From its first slot to its last, each job ran at every slot, once, and never in a child."""
    last = max(line.slot for line in instances.log.lines())
    instances.wait_until(lambda: all(last + STEP in instances.log.slots(job) for job in JOBS))
    for job in JOBS:
        slots = instances.log.slots(job)
        assert slots == slots_between(slots[0], slots[-1], STEP)
    assert {line.pid for line in instances.log.lines()} == {i.pid for i in instances.all}
    for instance in instances.all:
        assert instance.said("error", "interrupted", "failure") == []
        assert instance.said("skip", reason="late") == []
    assert instances.store.integrity() == "ok"


@pytest.mark.slow
def test_fifty_children_that_exit_in_any_way_cost_no_slot(instances: Instances) -> None:
    instances.spawn_all(1, UNDER_LOAD + "serve(scheduler)")
    parent = instances.spawn(UNDER_LOAD + FORKING)
    assert parent.wait_for("forked")["codes"] == [0] * 50
    assert parent.wait_for("multiplied")["codes"] == [0] * 20
    check_no_slot_lost(instances)


A_CHILD_STARTS = """
import os, threading
scheduler = new_scheduler(ARGUMENTS)
scheduler.every("tick", "200ms", note, overlap="allow", jitter="100ms")
scheduler.start()
say("up", instance=scheduler.instance)
scheduler.on("start", lambda event: say("ran"))
if os.fork():
    serve(scheduler)
else:
    STARTS
    say("child", running=scheduler.running, instance=scheduler.instance)
    threading.Event().wait(60)
"""


@pytest.mark.parametrize(
    ("arguments", "starts"),
    [("", "scheduler.start()"), ("after_fork='restart'", "pass")],
    ids=["start", "restart"],
)
def test_a_child_can_be_an_instance_of_its_own(
    instances: Instances, arguments: str, starts: str
) -> None:
    program = A_CHILD_STARTS.replace("ARGUMENTS", arguments).replace("STARTS", starts)
    parent = instances.spawn(program)
    child = parent.wait_for("child")
    assert child["running"] is True
    assert child["instance"] != parent.wait_for("up")["instance"]
    # Each of the two wins some slots and is told by the store that the other won the rest.
    for pid in (parent.pid, child["pid"]):
        parent.wait_for("skip", reason="taken", pid=pid)
        parent.wait_for("ran", pid=pid)
    assert instances.log.doubles() == []
    assert instances.store.integrity() == "ok"


FORKING_HANDLERS = """
import multiprocessing, os, time
scheduler = new_scheduler()
processes = multiprocessing.get_context("fork")

def forks(ctx):
    note(ctx)
    child = os.fork()
    if not child:
        if ENDS:
            os._exit(0)
        return  # the thread of the handler is the only one here, and ends with it
    say("reaped", code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

def multiplies(ctx):
    note(ctx)
    child = processes.Process(target=time.sleep, args=(0.05,))
    child.start()
    child.join()
    say("reaped", code=child.exitcode)

scheduler.every("job", "200ms", HANDLER, overlap="allow")
serve(scheduler)
"""


@pytest.mark.parametrize(
    ("handler", "ends"),
    [
        pytest.param("forks", "True", id="os._exit", marks=pytest.mark.slow),
        pytest.param("forks", "False", id="return"),
        pytest.param("multiplies", "", id="multiprocessing", marks=pytest.mark.slow),
    ],
)
def test_a_handler_may_fork(instances: Instances, handler: str, ends: str) -> None:
    program = FORKING_HANDLERS.replace("HANDLER", handler).replace("ENDS", ends or "None")
    parent = instances.spawn(program)
    instances.wait_until(lambda: len(parent.said("success")) >= 5)
    assert {report["code"] for report in parent.said("reaped")} == {0}
    assert {report["pid"] for report in parent.said("start", "success")} == {parent.pid}
    assert {line.pid for line in instances.log.lines()} == {parent.pid}
    assert parent.ask("scheduler.stop(10)") is True
    assert parent.end() == 0
    slots = instances.log.slots("job")
    assert slots == slots_between(slots[0], slots[-1], STEP)
    assert parent.said("error", "interrupted", "failure") == []
    assert instances.store.integrity() == "ok"
