"""What the parts of the benchmarks measure with: figures, rounds and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measuring import Figure, Settings, rounds


def test_a_figure_is_the_median_with_its_spread() -> None:
    figure = Figure("claims", "/s", (3.0, 1.0, 2.0, 10.0, 2.5))

    assert (figure.low, figure.median, figure.high) == (1.0, 2.5, 10.0)


@pytest.mark.parametrize(
    ("at_least", "at_most", "met"),
    [
        (None, None, None),
        (2.0, None, True),
        (2.1, None, False),
        (None, 2.0, True),
        (None, 1.9, False),
        (1.0, 3.0, True),
        (1.0, 1.5, False),
    ],
)
def test_the_median_is_held_against_the_target(
    at_least: float | None, at_most: float | None, met: bool | None
) -> None:
    assert Figure("claims", "/s", (0.0, 2.0, 9.0), at_least, at_most).met is met


def test_a_round_for_warm_up_comes_first_and_does_not_count(tmp_path: Path) -> None:
    told: list[str] = []
    values = iter([100, 1, 2, 3])

    found = rounds(Settings(tmp_path, rounds=3, progress=told.append), lambda: next(values))

    assert found == [1, 2, 3]
    assert told == ["warm-up", "round 1 of 3", "round 2 of 3", "round 3 of 3"]


def test_quick_counts_are_a_tenth_and_never_nothing(tmp_path: Path) -> None:
    assert [Settings(tmp_path).count(full) for full in (1000, 1)] == [1000, 1]
    assert [Settings(tmp_path, quick=True).count(full) for full in (1000, 1)] == [100, 1]


def test_each_store_has_a_fresh_folder_which_is_removed_with_all_that_is_in_it(
    tmp_path: Path,
) -> None:
    settings = Settings(tmp_path)

    with settings.store("claims") as one, settings.store("claims") as other:
        assert one.parent == other.parent == tmp_path
        assert one != other
        (one / "deep").mkdir()
        (one / "deep" / "file").touch()

    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_removed_when_a_measurement_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Settings(tmp_path).store("claims"):
        raise ZeroDivisionError

    assert list(tmp_path.iterdir()) == []
