"""A crash, a pause or an error at any line of what an instance does, in a simulated cluster.

Every line counts that a thread of the victim executes between a slot and the end of its run, for
the first and for the second time and for each kind of call. A failure names scene, point and fault;
``attack(Target(scene, point), fault, folder)`` replays it.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path

import pytest

from faults.attack import ERRORS, FAULTS, FILES, Target, attack, can_raise, sample, targets
from faults.expected import DEAF, MENDED, OTHERS, UNREACHED
from faults.judge import Verdict, judge
from faults.scenes import succeeds, with_leases, with_looks
from faults.source import call_sites, unreached
from leasecron import RunContext
from leasecron.inbox import Inbox
from leasecron.retries import Retries

CHUNKS = 10
SEED = 20261130
FEW = 20  # points that a fast test attacks


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the log of a failure to what matters: threads end by the error that was raised there."""
    caplog.set_level(logging.CRITICAL, "leasecron")
    monkeypatch.setattr(threading, "excepthook", lambda _: None)


@pytest.fixture(scope="module")
def found() -> list[Target]:
    with tempfile.TemporaryDirectory() as folder:
        return targets(Path(folder))


def attack_all(chosen: list[Target], name: str, place: Path) -> None:
    print(f"{len(chosen)} points, {name} at each")
    failed = {}
    for number, target in enumerate(chosen):
        if name in ERRORS and not can_raise(target):
            continue
        verdict = attack(target, FAULTS[name], place / str(number))
        may_be_deaf = name in ERRORS and target.point.function in DEAF
        wrong = verdict.broken if may_be_deaf else verdict.broken + verdict.deaf
        if wrong:
            failed[str(target)] = wrong
    assert failed == {}, f"{name} at {len(failed)} of {len(chosen)} points"


def test_every_call_of_the_store_is_among_the_points(found: list[Target]) -> None:
    sites = call_sites(FILES)
    assert len(sites) >= 10
    assert [site for site in sites if not any(site.has(t.point) for t in found)] == []


def test_no_line_is_forgotten_but_those_with_a_reason(found: list[Target]) -> None:
    print(f"{len(found)} points in {len({(t.point.file, t.point.line) for t in found})} lines")
    left = unreached(FILES, [target.point for target in found])
    assert {function for function, _ in left if function in OTHERS} == set(OTHERS)
    assert {each for each in left if each[0] not in OTHERS} == set(UNREACHED)


def test_a_promise_that_is_broken_once_the_victim_is_alone_is_not_taken_for_deafness(
    place: Path,
) -> None:
    stage = with_leases(place)

    def doubled(_ctx: RunContext) -> None:
        if all(instance.process.killed for instance in stage._instances[1:]):
            stage._attempts.all.append(stage._attempts.all[-1])

    stage.job("2", doubled)
    stage.until(3)
    verdict = judge(stage)
    stage.close()
    assert any("made more than once" in line for line in verdict.broken)
    assert verdict.deaf == []


def test_whoever_looks_no_more_for_what_is_asked_for_is_found_to_be_deaf(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = with_looks(place)
    stage.job("2", succeeds)
    stage.until(3)
    monkeypatch.setattr(Inbox, "_look_in", lambda _self, _seconds: None)
    verdict = judge(stage)
    stage.close()
    assert verdict == Verdict([], ["it does not run succeeds, which it was asked for"])


def test_what_nobody_brings_to_an_end_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = with_leases(place)

    def fails(_ctx: RunContext) -> None:
        raise ValueError("on purpose")

    stage.job("2", fails, retries=1, backoff=1)
    monkeypatch.setattr(Retries, "go_on", lambda _self, _run: None)
    stage.until(3)
    verdict = judge(stage)
    stage.close()
    assert any("nobody brought fails" in line for line in verdict.broken)
    assert any("a lease is kept for ever" in line for line in verdict.broken)


def test_a_recording_replays(found: list[Target], place: Path) -> None:
    assert targets(place) == found


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_or_run_twice_by_a_fault_next_to_a_call_of_the_store(
    name: str, found: list[Target], place: Path
) -> None:
    sites = call_sites(FILES)
    near = [t for t in found if t.point.nth == 1 and any(s.is_next_to(t.point) for s in sites)]
    print(f"seed {SEED}, {FEW} of {len(near)} points")
    attack_all(sample(near, FEW, f"{SEED} {name}"), name, place)


def test_a_handler_is_told_that_its_lease_ran_out_though_telling_it_fails(
    found: list[Target], place: Path
) -> None:
    telling = [t for t in found if t.point.function == "LeaseRunner._tick"]
    chosen = [t for t in telling if t.scene == "outages"]
    assert chosen
    attack_all(chosen, "error", place)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_in_the_middle_of_a_run_is_nobody_elses(
    name: str, found: list[Target], place: Path
) -> None:
    chosen = []
    for function in MENDED:
        inside = [t for t in found if t.point.nth == 1 and t.point.function == function]
        chosen += sample([t for t in inside if can_raise(t)], 1, f"{SEED} {name}")
    print(f"seed {SEED}")
    attack_all(chosen, name, place)


@pytest.mark.slow
@pytest.mark.parametrize("function", [*DEAF])
def test_an_instance_that_is_allowed_to_be_deaf_is(
    function: str, found: list[Target], place: Path
) -> None:
    inside = [t for t in found if t.point.function == function and can_raise(t)]
    faults = [(t, FAULTS[name]) for t in inside for name in ERRORS]
    assert any(attack(t, fault, place / f"{n}").deaf for n, (t, fault) in enumerate(faults))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_or_run_twice_by_a_fault_at_any_line(
    name: str, chunk: int, found: list[Target], place: Path
) -> None:
    chosen = found[chunk::CHUNKS]
    if name == "error_and_stop":  # a stop() tells the same of the second error in a line
        chosen = [target for target in chosen if target.point.nth == 1]
    attack_all(chosen, name, place)
