"""The checker of the chaos run: runs that are late for nothing."""

import pytest

from chaos.check_lateness import EXPLAINED, IN_TIME, LATE_FOR_NOTHING, Lateness
from chaos.script import Script


def judged(script: Script) -> list[str]:
    lateness = Lateness(script.story())
    violations = [*lateness.late()]
    assert len(violations) == lateness.found[LATE_FOR_NOTHING]
    return sorted(lateness.found.elements())


@pytest.mark.parametrize(("begun", "found"), [(21.4, IN_TIME), (21.6, LATE_FOR_NOTHING)])
def test_a_run_that_is_late_for_nothing_is_found(script: Script, begun: float, found: str) -> None:
    script.attempt("quick", 20, begun, begun + 0.1)
    assert judged(script) == [found]


@pytest.mark.parametrize("kind", ["server-kill", "server-freeze", "lock"])
@pytest.mark.parametrize(("until", "found"), [(15.1, EXPLAINED), (14.9, LATE_FOR_NOTHING)])
def test_all_is_in_time_again_five_seconds_after_an_outage(
    script: Script, kind: str, until: float, found: str
) -> None:
    script.note("fault", until, kind=kind, since=until - 2.0, until=until)
    script.attempt("quick", 20, 22.0, 22.1)
    assert judged(script) == [found]


@pytest.mark.parametrize(
    ("due", "back"),
    [(20.0, 0.0), (21.0, 1.0), (24.0, 4.0), (26.0, 0.0)],
)
def test_how_long_it_takes_to_be_in_time_again_is_told(
    script: Script, due: float, back: float
) -> None:
    script.note("fault", 20.0, kind="server-kill", since=18.0, until=20.0)
    script.attempt("quick", due, due + 1.8, due + 1.9)
    script.note("clock", 27.0, number=2, offset=1)
    script.attempt("quick", 27.0, 28.8, 28.9, life=2)  # which has a reason of its own
    lateness = Lateness(script.story())
    assert len([*lateness.late()]) == (due == 26.0)
    assert lateness.back == pytest.approx(back)


@pytest.mark.parametrize(("life", "found"), [(1, EXPLAINED), (2, LATE_FOR_NOTHING)])
def test_one_that_was_frozen_when_it_had_won_is_explained(
    script: Script, life: int, found: str
) -> None:
    script.note("frozen", 20.0, life)
    script.note("thawed", 21.9, life)
    script.attempt("quick", 20, 22.0, 22.1, life=1)
    assert judged(script) == [found]


@pytest.mark.parametrize(("since", "found"), [(20.5, EXPLAINED), (21.5, LATE_FOR_NOTHING)])
def test_one_on_a_machine_without_time_to_spare_is_explained(
    script: Script, since: float, found: str
) -> None:
    script.note("busy", 23.0, since=since, until=23.0)
    script.attempt("quick", 20, 22.0, 22.1)
    assert judged(script) == [found]


@pytest.mark.parametrize(("since", "found"), [(10.0, EXPLAINED), (3.0, LATE_FOR_NOTHING)])
def test_one_that_has_just_started_catches_up(since: float, found: str) -> None:
    script = Script()
    script.process(1, since=since)
    script.attempt("quick", 20, 22.0, 22.1)
    assert judged(script) == [found]


def test_a_second_attempt_is_not_judged(script: Script) -> None:
    script.attempt("quick", 20, 26.0, 26.1, number=2)
    assert judged(script) == []
