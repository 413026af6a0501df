"""The checker of the chaos run: slots that are lost, and such as could not run."""

import pytest

from chaos.check_slots import WITHOUT_A_WITNESS, Slots
from chaos.kept import Claimed
from chaos.script import Script, ms


def lost(script: Script, job: str = "quick") -> int:
    slots = Slots(script.story(), script.kept)
    return sum(f"of {job}," in each.what for each in slots.lost())


@pytest.fixture
def short() -> Script:
    script = Script()
    for life in (1, 2):
        script.process(life, until=30.0)
    script.every_slot("quick", 60.0, but=12.0)
    return script


def test_a_slot_that_nobody_has_answered_is_lost(short: Script) -> None:
    assert lost(short) == 1


@pytest.mark.parametrize("reason", ["late", "taken", "overlap"])
def test_an_answer_that_is_not_true_explains_nothing(short: Script, reason: str) -> None:
    short.skip("quick", 12.0, 12.1, reason)
    assert lost(short) == 1


@pytest.mark.parametrize(("since", "found"), [(12.0, 0), (17.0, 1)])
def test_one_that_is_late_on_a_machine_without_time_to_spare_is_explained(
    short: Script, since: float, found: int
) -> None:
    short.note("busy", 19.0, since=since, until=19.0)
    short.skip("quick", 12.0, 18.5, "late")
    assert lost(short) == found


@pytest.mark.parametrize(("latest", "found"), [(13.0, 0), (14.0, 1)])
def test_a_witness_may_not_have_come_to_a_slot_yet_on_such_a_machine(
    short: Script, latest: float, found: int
) -> None:
    short.note("busy", 19.0, since=10.0, until=19.0)
    short.skip("quick", latest, 19.0, "late")
    assert lost(short) == found


def test_a_slot_that_was_taken_by_one_that_died_is_explained(short: Script) -> None:
    short.process(3, killed=12.05)
    short.skip("quick", 12.0, 12.1, "taken")
    short.kept.claims["quick", ms(12.0)] = Claimed("token", "0-3")
    assert lost(short) == 0


def test_a_slot_that_overlaps_is_explained() -> None:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("steady", 60.0, but=12.0)
    script.attempt("steady", 10.5, 10.6, 12.5)
    script.skip("steady", 12.0, 12.1, "overlap")
    assert lost(script, "steady") == 0


@pytest.mark.parametrize(("busy", "found"), [(True, 0), (False, 1)])
def test_an_end_is_stored_late_where_the_machine_has_no_time_to_spare(
    busy: bool, found: int
) -> None:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("steady", 60.0, but=12.0)
    script.kept.claims.clear()
    script.attempt("steady", 9.5, 9.6, 10.4)
    script.skip("steady", 12.0, 12.1, "overlap")
    if busy:
        script.note("busy", 11.0, since=10.0, until=11.0)
    assert lost(script, "steady") == found


@pytest.mark.parametrize(("killed", "found"), [(11.0, 0), (2.0, 1)])
def test_a_slot_that_meets_the_lease_of_one_that_died_at_its_claim_is_explained(
    killed: float, found: int
) -> None:
    script = Script()
    script.process(1, until=30.0)
    script.process(3, killed=killed)
    script.every_slot("steady", 60.0, but=12.0)
    script.kept.claims["steady", ms(-20.0)] = Claimed("token", "0-3", 1, "replaced", 1)
    script.skip("steady", 12.0, 12.1, "overlap")
    assert lost(script, "steady") == found


@pytest.mark.parametrize("trouble", ["frozen", "killed", "fault", "stall", "clock"])
def test_a_slot_that_could_not_run_is_not_lost(trouble: str) -> None:
    script = Script()
    script.process(1, killed=11.0 if trouble == "killed" else None, until=30.0)
    script.every_slot("quick", 60.0, but=12.0)
    match trouble:
        case "frozen":
            script.note("frozen", 11.5, 1)
            script.note("thawed", 13.5, 1)
        case "fault":
            script.note("fault", 13.0, kind="lock", since=11.5, until=13.0)
        case "stall":
            script.note("stall", 13.0, since=11.5, until=13.0)
        case "clock":
            script.note("clock", 11.0, number=1, offset=30)
    slots = Slots(script.story(), script.kept)
    assert not any("of quick," in each.what for each in slots.lost())
    assert slots.found[WITHOUT_A_WITNESS] >= 1
