"""The checker of the chaos run: what an outage of a server explains, and what it does not."""

import pytest

from chaos.check_claims import begun_in_an_outage, fences_fall, won_again
from chaos.check_holders import not_told
from chaos.check_records import wrong_statuses
from chaos.check_slots import EXPLAINED, LOST, WITHOUT_A_WITNESS, Slots
from chaos.check_takeovers import left_behind
from chaos.kept import Claimed
from chaos.script import Script, ms
from chaos.violation import whats


def outage(script: Script, since: float, until: float, kind: str = "server-kill") -> None:
    script.note("fault", until, kind=kind, since=since, until=until)
    script.note("fault", until, kind="down", since=since + 0.01, until=until - 0.01)


def judged(script: Script, job: str = "quick") -> str:
    """Return what became of the only slot that was not run."""
    slots = Slots(script.story(), script.kept)
    wrong = [each.what for each in slots.lost() if f"of {job}," in each.what]
    if wrong:
        return LOST
    return EXPLAINED if slots.found[EXPLAINED] else WITHOUT_A_WITNESS


@pytest.fixture
def alone() -> Script:
    """One process that has run all slots of a job but that of the twelfth second."""
    script = Script()
    script.process(1, until=30.0)
    script.every_slot("quick", 60.0, but=12.0)
    return script


# Slots


@pytest.mark.parametrize("kind", ["server-kill", "server-restart", "server-freeze"])
@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        (11.5, 12.5, LOST),
        (11.5, 15.4, LOST),
        (11.5, 15.6, WITHOUT_A_WITNESS),
        (5.0, 11.9, LOST),
        (14.9, 18.0, WITHOUT_A_WITNESS),
        (15.1, 18.0, LOST),
    ],
)
def test_a_slot_is_to_be_run_once_the_server_is_back_unless_it_is_too_late_then(
    alone: Script, kind: str, since: float, until: float, found: str
) -> None:
    outage(alone, since, until, kind)
    assert judged(alone) == found


def test_two_outages_in_a_row_may_be_too_long_together(alone: Script) -> None:
    outage(alone, 11.5, 13.0)
    assert judged(alone) == LOST
    outage(alone, 15.2, 16.0)
    assert judged(alone) == WITHOUT_A_WITNESS


def test_what_befalls_a_process_before_the_server_is_back_explains_it(alone: Script) -> None:
    outage(alone, 11.5, 15.0)
    alone.note("frozen", 16.0, 1)
    alone.note("thawed", 18.0, 1)
    assert judged(alone) == WITHOUT_A_WITNESS


@pytest.mark.parametrize(("until", "found"), [(15.4, LOST), (17.5, WITHOUT_A_WITNESS)])
def test_who_comes_too_late_is_explained_only_by_an_outage_that_lasts(
    alone: Script, until: float, found: str
) -> None:
    outage(alone, 12.0, until)
    alone.skip("quick", 12.0, 18.5, "late")
    assert judged(alone) == found


@pytest.mark.parametrize(("killed", "found"), [(None, LOST), (12.6, EXPLAINED)])
def test_who_has_won_a_slot_and_not_been_told_is_to_ask_again_unless_it_dies(
    alone: Script, killed: float | None, found: str
) -> None:
    alone.process(3, killed=killed, until=30.0)
    outage(alone, 12.0, 13.0)
    alone.skip("quick", 12.0, 14.0, "taken")
    alone.kept.claims["quick", ms(12.0)] = Claimed("token", "0-3")
    assert judged(alone) == found


@pytest.mark.parametrize(("kind", "found"), [("clock", LOST), ("frozen", EXPLAINED)])
def test_a_wrong_clock_does_not_keep_a_winner_from_its_run(
    alone: Script, kind: str, found: str
) -> None:
    alone.process(3, until=30.0)
    if kind == "clock":
        alone.note("clock", 11.0, number=3, offset=5)
    else:
        alone.note("frozen", 12.05, 3)
        alone.note("thawed", 14.0, 3)
    alone.skip("quick", 12.0, 12.1, "taken")
    alone.kept.claims["quick", ms(12.0)] = Claimed("token", "0-3")
    assert judged(alone) == found


@pytest.mark.parametrize(("number", "found"), [(1, WITHOUT_A_WITNESS), (2, LOST)])
def test_who_has_a_wrong_clock_may_skip_a_slot_and_nobody_else_may(
    alone: Script, number: int, found: str
) -> None:
    alone.note("clock", 11.0, number=number, offset=30)
    alone.skip("quick", 12.0, 11.5, "late")
    assert judged(alone) == found


@pytest.mark.parametrize(("frozen", "found"), [(True, EXPLAINED), (False, LOST)])
def test_what_one_that_died_had_asked_of_a_frozen_server_is_done_when_that_goes_on(
    frozen: bool, found: str
) -> None:
    script = Script()
    script.process(1, until=30.0)
    script.process(3, killed=5.0)
    script.every_slot("steady", 60.0, but=12.0)
    script.kept.claims["steady", ms(-20.0)] = Claimed("token", "0-3", 1, "replaced", 1)
    script.skip("steady", 12.0, 12.1, "overlap")
    if frozen:
        outage(script, 4.5, 8.5, "server-freeze")
    assert judged(script, "steady") == found


@pytest.mark.parametrize(("since", "until", "found"), [(29.5, 31.0, 0), (20.0, 22.0, 1)])
def test_a_claim_is_left_by_a_clean_stop_that_could_not_ask_the_server(
    alone: Script, since: float, until: float, found: int
) -> None:
    outage(alone, since, until)
    alone.kept.claims["patient", ms(0)] = Claimed("token", "0-1", 1, "claimed", 5)
    assert len([*left_behind(alone.story(), alone.kept)]) == found


# Claims


@pytest.mark.parametrize(("begun", "found"), [(1.5, 0), (2.5, 1), (5.5, 0)])
def test_a_run_begun_while_the_server_was_down_is_found(
    script: Script, begun: float, found: int
) -> None:
    outage(script, 1.0, 5.0)
    script.attempt("quick", begun, begun, begun + 0.1)
    assert len(whats(begun_in_an_outage(script.story()))) == found


def test_one_that_had_won_before_and_was_starved_is_right(script: Script) -> None:
    outage(script, 1.0, 5.0)
    script.note("gap", 2.4, 1, since=0.9, until=2.4)
    script.attempt("quick", 1.0, 2.5, 2.6)
    assert whats(begun_in_an_outage(script.story())) == []


@pytest.mark.parametrize(("since", "found"), [(1.5, 0), (2.0, 1)])
def test_one_that_had_won_before_may_wait_on_a_machine_without_time_to_spare(
    script: Script, since: float, found: int
) -> None:
    outage(script, 1.0, 5.0)
    script.note("busy", 2.5, since=since, until=2.5)
    script.attempt("quick", 1.0, 2.5, 2.6)
    assert len(whats(begun_in_an_outage(script.story()))) == found


@pytest.mark.parametrize(
    ("slot", "fence", "clock", "found"),
    [(6.0, 100, 0, 1), (6.0, 101, 0, 1), (6.0, 103, 0, 0), (4.9, 100, 0, 0), (6.0, 100, 5, 0)],
)
def test_a_fence_of_before_an_outage_is_found(
    script: Script, slot: float, fence: int, clock: int, found: int
) -> None:
    script.attempt("quick", 0.0, 0.1, 0.2, fence=101)
    outage(script, 1.0, 5.0)
    script.note("clock", 0.5, number=2, offset=clock)
    script.attempt("quick", slot, slot + 0.1, slot + 0.2, life=2, fence=fence)
    assert len(whats(fences_fall(script.story()))) == found


# What nothing explains


@pytest.mark.parametrize("kind", ["clock", "server-kill", "server-freeze"])
class TestNothingExplains:
    def befall(self, script: Script, kind: str) -> None:
        if kind == "clock":
            script.note("clock", 0.05, number=1, offset=-30)
        else:
            outage(script, 0.05, 4.0, kind)

    def test_two_ends_of_one_run(self, script: Script, kind: str) -> None:
        self.befall(script, kind)
        script.attempt("quick", 0, 0.1, 0.2)
        script.attempt("quick", 0, 0.3, 0.4, life=2, number=2)
        assert "a run with two ends" in whats(won_again(script.story(), script.kept))

    def test_a_record_that_is_not_true(self, script: Script, kind: str) -> None:
        self.befall(script, kind)
        script.attempt("quick", 0, 0.1, 0.2, how="returned", record="failed")
        assert len([*wrong_statuses(script.story(), script.kept)]) == 1

    def test_two_valid_holders(self, script: Script, kind: str) -> None:
        self.befall(script, kind)
        looks = [n / 10 for n in range(1, 80)]
        script.attempt("patient", 0, *looks, life=1)
        script.attempt("patient", 0, *looks[60:], life=2, number=2)
        assert len(whats(not_told(script.story()))) == 1


@pytest.mark.parametrize(("kind", "found"), [("clock", 1), ("server-freeze", 0)])
def test_a_lease_may_be_lost_with_the_server_and_not_by_a_clock(
    script: Script, kind: str, found: int
) -> None:
    if kind == "clock":
        script.note("clock", 1.0, number=1, offset=30)
    else:
        outage(script, 1.0, 5.0, kind)
    script.attempt("quick", 0, 0.1, 4.5, record="lost")
    assert len([*wrong_statuses(script.story(), script.kept)]) == found
