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

from faults.attack import FAULTS, FILES, Target, attack, can_raise, sample, targets
from faults.expected import DEAF, MENDED, UNREACHED
from faults.source import call_sites, function_of, unreached

CHUNKS = 10
SEED = 20261130


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
        if name == "error" and not can_raise(target):
            continue
        wrong = attack(target, FAULTS[name], place / str(number))
        if name == "error" and function_of(target.point) in DEAF:
            wrong = [line for line in wrong if not line.startswith("the victim ")]
        if wrong:
            failed[str(target)] = wrong
    assert failed == {}, f"{name} at {len(failed)} of {len(chosen)} points"


def test_every_call_of_the_store_is_among_the_points(found: list[Target]) -> None:
    sites = call_sites(FILES)
    assert len(sites) >= 12
    assert [site for site in sites if not any(site.has(t.point) for t in found)] == []


def test_no_line_is_forgotten_but_those_with_a_reason(found: list[Target]) -> None:
    print(f"{len(found)} points in {len({(t.point.file, t.point.line) for t in found})} lines")
    assert unreached(FILES, [target.point for target in found]) == set(UNREACHED)


def test_a_recording_replays(found: list[Target], place: Path) -> None:
    assert targets(place) == found


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_or_run_twice_by_a_fault_next_to_a_call_of_the_store(
    name: str, found: list[Target], place: Path
) -> None:
    sites = call_sites(FILES)
    near = [t for t in found if t.point.nth == 1 and any(s.is_next_to(t.point) for s in sites)]
    attack_all(near, name, place)


def test_a_handler_is_told_that_its_lease_ran_out_though_telling_it_fails(
    found: list[Target], place: Path
) -> None:
    telling = [t for t in found if function_of(t.point) == "LeaseRunner._tick"]
    chosen = [t for t in telling if t.scene == "outages"]
    assert chosen
    attack_all(chosen, "error", place)


def test_an_error_in_the_middle_of_a_run_is_nobody_elses(found: list[Target], place: Path) -> None:
    chosen = []
    for name in MENDED:
        inside = [t for t in found if t.point.nth == 1 and function_of(t.point) == name]
        chosen += sample(inside, 2, SEED)
    print(f"seed {SEED}")
    attack_all(chosen, "error", place)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_or_run_twice_by_a_fault_at_any_line(
    name: str, chunk: int, found: list[Target], place: Path
) -> None:
    attack_all(found[chunk::CHUNKS], name, place)
