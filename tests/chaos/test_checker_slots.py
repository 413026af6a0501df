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


def test_one_that_says_late_before_it_is_late_explains_nothing(short: Script) -> None:
    short.note("busy", 19.0, since=10.0, until=19.0)
    short.skip("quick", 12.0, 17.5, "late")
    assert lost(short) == 1


@pytest.mark.parametrize(("held", "found"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("since", [11.5, 15.2])
def test_a_slot_that_is_late_is_explained_by_one_that_was_frozen_with_the_stores_lock(
    short: Script, since: float, held: bool, found: int
) -> None:
    short.process(3, until=30.0)
    short.note("frozen", since, 3)
    short.note("stopped", since, 3, locks=[], held=held)
    short.note("thawed", 19.0, 3)
    if held:
        short.note("fault", 19.0, kind="held", since=since, until=19.0)
    short.skip("quick", 12.0, 19.1, "late")
    assert lost(short) == found


def test_the_times_that_a_witness_was_kept_are_added_up_and_none_twice(short: Script) -> None:
    short.note("busy", 15.0, since=12.0, until=15.0)
    short.note("busy", 15.0, since=12.0, until=15.0)
    short.skip("quick", 12.0, 18.5, "late")
    assert lost(short) == 1
    short.note("fault", 17.0, kind="held", since=16.0, until=17.0)
    assert lost(short) == 0


def test_a_lock_that_was_held_when_the_slot_had_long_been_due_explains_nothing(
    short: Script,
) -> None:
    short.note("fault", 19.0, kind="held", since=17.0, until=19.0)
    short.skip("quick", 12.0, 19.1, "late")
    assert lost(short) == 1


# Slots that a witness has not answered


def busy(script: Script, since: float, until: float) -> None:
    script.note("busy", until, since=since, until=until)


@pytest.fixture
def alone() -> Script:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("quick", 60.0, but=12.0)
    return script


@pytest.mark.parametrize(("since", "found"), [(10.0, 0), (14.0, 1)])
def test_who_comes_to_a_slot_late_passes_over_what_was_due_until_then(
    alone: Script, since: float, found: int
) -> None:
    busy(alone, since, 19.0)
    alone.skip("quick", 11.0, 13.5, "taken")
    alone.skip("quick", 14.0, 14.1, "taken")
    assert lost(alone) == found


def test_who_was_in_time_with_the_slot_before_has_no_excuse(alone: Script) -> None:
    busy(alone, 10.0, 19.0)
    alone.skip("quick", 11.0, 11.9, "taken")
    alone.skip("quick", 14.0, 14.1, "taken")
    assert lost(alone) == 1


@pytest.mark.parametrize("later", [14.0, 20.0, None])
def test_who_lives_on_and_never_answers_a_slot_has_no_excuse(
    alone: Script, later: float | None
) -> None:
    busy(alone, 0.0, 30.0)
    if later is not None:
        alone.skip("quick", later, later + 0.1, "taken")
    assert lost(alone) == 1


@pytest.mark.parametrize(("killed", "found"), [(16.0, 0), (22.0, 1)])
def test_who_died_before_it_came_to_a_slot_is_excused(killed: float, found: int) -> None:
    script = Script()
    script.process(1, killed=killed)
    script.every_slot("quick", 60.0, but=12.0)
    busy(script, 10.0, 19.0)
    assert lost(script) == found


@pytest.mark.parametrize("m", [14.1, 15.9])
def test_but_not_who_came_to_a_later_one_before(m: float) -> None:
    script = Script()
    script.process(1, killed=16.0)
    script.every_slot("quick", 60.0, but=12.0)
    busy(script, 10.0, 19.0)
    script.skip("quick", 14.0, m, "taken")
    assert lost(script) == 1


def test_every_witness_needs_an_excuse(short: Script) -> None:
    busy(short, 10.0, 19.0)
    short.skip("quick", 11.0, 13.5, "taken", life=1)
    assert lost(short) == 1
    short.skip("quick", 11.0, 13.5, "taken", life=2)
    assert lost(short) == 0


# Slots that somebody else had


def test_a_slot_that_was_taken_by_one_that_died_is_explained(short: Script) -> None:
    short.process(3, killed=12.05)
    short.skip("quick", 12.0, 12.1, "taken")
    short.kept.claims["quick", ms(12.0)] = Claimed("token", "0-3")
    assert lost(short) == 0


@pytest.mark.parametrize(("killed", "found"), [(12.15, 0), (20.0, 1)])
def test_a_start_is_explained_where_its_process_died_before_the_handler_could_tell(
    short: Script, killed: float, found: int
) -> None:
    short.process(3, killed=killed)
    short.note("event", 12.1, 1, name="start", job="quick", slot=ms(12.0))
    short.kept.claims["quick", ms(12.0)] = Claimed("token", "0-3")
    assert lost(short) == found


def test_a_slot_that_overlaps_is_explained() -> None:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("steady", 60.0, but=12.0)
    script.attempt("steady", 10.5, 10.6, 12.5)
    script.skip("steady", 12.0, 12.1, "overlap")
    assert lost(script, "steady") == 0


@pytest.mark.parametrize(
    ("retry", "how", "found"), [(1, "raised", 0), (1, "returned", 1), (2, "raised", 1)]
)
def test_a_slot_that_meets_a_run_between_its_tries_is_explained(
    retry: int, how: str, found: int
) -> None:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("retried", 60.0, but=12.0)
    script.attempt("retried", 9.0, 10.4, 10.6, how=how, record=None, retry=retry)
    script.skip("retried", 12.0, 12.1, "overlap")
    assert lost(script, "retried") == found


@pytest.mark.parametrize(("number", "begun", "found"), [(2, 19.0, 0), (2, 20.0, 1), (1, 19.0, 1)])
def test_a_slot_that_meets_the_lease_of_one_that_won_and_did_not_begin_is_explained(
    number: int, begun: float, found: int
) -> None:
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("steady", 60.0, but=12.0)
    script.attempt("steady", 45.5, begun, begun + 0.1, number=number)
    script.skip("steady", 12.0, 12.1, "overlap")
    assert lost(script, "steady") == found


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
