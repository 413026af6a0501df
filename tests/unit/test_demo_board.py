from datetime import UTC, datetime
from typing import Any

import pytest

from leasecron.cli.demo_board import Board
from leasecron.cli.demo_messages import Kind, Message
from leasecron.model import to_ms

SLOT = datetime(2026, 5, 4, 12, 0, 2, tzinfo=UTC)
RUN = ("tick", SLOT)


def message(instance: str, kind: Kind, **facts: Any) -> Message:
    return Message(instance=instance, kind=kind, job="tick", slot_ms=to_ms(SLOT), **facts)


@pytest.fixture
def board() -> Board:
    return Board("ABC")


def test_all_are_ready_when_each_has_said_so(board: Board) -> None:
    for name in "AB":
        board.apply(message(name, "ready"))
    assert not board.all_ready()
    board.apply(message("C", "ready"))
    assert board.all_ready()


def test_the_winner_runs_and_the_others_stand_by_until_it_has_finished(board: Board) -> None:
    board.apply(message("B", "start", attempt=1, detail="scheduled"))
    board.apply(message("A", "skip", holder="B", detail="taken"))
    assert board.holder(RUN) == "B"
    assert board.rows["B"].running == {RUN: 1}
    assert board.rows["A"].standing_by == {RUN}
    board.apply(message("B", "success", attempt=1))
    assert board.holder(RUN) is None
    assert board.rows["A"].standing_by == set()
    assert board.succeeded == {RUN}


def test_a_skip_that_arrives_after_the_end_leaves_nobody_standing_by(board: Board) -> None:
    board.apply(message("B", "success", attempt=1))
    board.apply(message("A", "skip", holder="B", detail="taken"))
    assert board.rows["A"].standing_by == set()
    assert board.rows["A"].skips == 1


def test_a_slot_that_had_ended_leaves_nobody_standing_by(board: Board) -> None:
    board.apply(message("A", "skip", detail="taken"))
    assert board.rows["A"].standing_by == set()


def test_a_backup_that_takes_over_no_longer_stands_by(board: Board) -> None:
    board.apply(message("B", "start", attempt=1, detail="scheduled"))
    board.apply(message("A", "skip", holder="B", detail="taken"))
    board.ended("B", "killed")
    second = message("A", "start", attempt=2, detail="takeover")
    board.apply(second)
    assert board.holder(RUN) == "A"
    assert board.rows["A"].standing_by == set()
    assert board.started[RUN, 2] == second


def test_an_instance_that_is_gone_runs_nothing(board: Board) -> None:
    board.apply(message("B", "start", attempt=1, detail="scheduled"))
    board.ended("B", "killed")
    assert board.holder(RUN) is None
    assert board.rows["B"].state == "killed"


@pytest.mark.parametrize("kind", ["failure", "interrupted"])
def test_a_run_that_ended_badly_is_not_running_and_has_not_succeeded(
    board: Board, kind: Kind
) -> None:
    board.apply(message("B", "start", attempt=1, detail="scheduled"))
    board.apply(message("B", kind))
    assert board.holder(RUN) is None
    assert board.succeeded == set()


def test_calls_of_handlers_are_counted_and_not_told(board: Board) -> None:
    assert board.apply(message("B", "call", attempt=1)) is None
    assert board.apply(message("A", "call", attempt=2)) is None
    assert board.calls[RUN] == 2


def test_heartbeats_are_counted_for_each_instance(board: Board) -> None:
    board.apply(message("B", "heartbeat", detail="ok"))
    board.apply(message("B", "heartbeat", detail="ok"))
    assert [row.heartbeats for row in board.rows.values()] == [0, 2, 0]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (message("B", "ready", detail="pid 5"), ["B", "is up", "pid 5"]),
        (
            message("B", "start", attempt=1, detail="scheduled"),
            ["B", "won ", "attempt 1 (scheduled)"],
        ),
        (message("B", "start", attempt=2, detail="takeover"), ["takes over", "attempt 2"]),
        (message("B", "heartbeat", detail="lost"), ["heartbeat", "tick @", "lost"]),
        (message("B", "success", detail="0.10 s"), ["finished", "tick @", "0.10 s"]),
        (message("B", "failure", detail="OSError"), ["failure", "OSError"]),
        (message("B", "interrupted", detail="stop"), ["interrupted", "stop"]),
        (message("B", "skip", holder="A", detail="taken"), ["stands by", "A has it"]),
        (message("B", "skip", detail="late"), ["skips", "late"]),
        (message("B", "error", detail="claim: locked"), ["error", "claim: locked"]),
    ],
)
def test_every_message_has_its_line(board: Board, told: Message, words: list[str]) -> None:
    line = board.apply(told)
    assert line is not None
    for word in words:
        assert word in line
