"""What comes from outside is shown as one printable line of bounded length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nasty_texts import NAMES, NASTY, Rude, fail, is_harmless

import leasecron.errors
from leasecron import BackendError, ConfigurationError, LeasecronError, Scheduler
from leasecron.errors import MOST, printable, shown
from leasecron.jobs import MOST_OF_NAME

# The one place


@settings(max_examples=50, derandomize=True)
@given(st.text(max_size=60), st.integers(1, 50))
def test_a_printable_text_is_one_line_without_anything_else(text: str, most: int) -> None:
    made = printable(text, most)
    assert is_harmless(made)
    assert "\n" not in made
    assert len(made) <= 10 * most + 40
    if text.isprintable() and len(text) <= most:
        assert made == text


def test_a_text_that_is_cut_says_how_long_it_was() -> None:
    assert printable("x" * 20, 5) == "xxxxx... (20 characters)"
    assert printable("x" * 3 * MOST, 2 * MOST) == "x" * 2 * MOST + "... (30,000 characters)"


@pytest.mark.parametrize("name", NAMES)
def test_what_people_write_is_not_escaped_in_an_error(name: str, tmp_path: Path) -> None:
    assert not name.isprintable()
    assert printable(f"{name}\n\x1b") == f"{name}\\n\\x1b"
    path = tmp_path / name / "store.db"
    with pytest.raises(BackendError) as caught:
        Scheduler(path).start()
    assert str(path) in str(caught.value)


def test_what_cannot_be_seen_in_a_wrong_value_is_escaped() -> None:
    with pytest.raises(ConfigurationError, match=r"'0\\xa03 \* \* \*'"):
        Scheduler("memory://").cron("job", "0\u00a03 * * *", print)


@pytest.mark.parametrize(
    "value",
    [
        *(NASTY, Rude(lambda: NASTY), Rude(fail), Rude(lambda: "x" * 10**7), 10**5000),
        *("x" * 10**7, [NASTY] * 10_000, NASTY.encode()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_shown_in_one_line_of_bounded_length(value: object) -> None:
    assert shown(value).isprintable()
    assert len(shown(value)) < 10_100


@pytest.mark.parametrize("kind", [LeasecronError, ConfigurationError, BackendError])
def test_the_text_of_every_error_is_one_line(kind: type[LeasecronError]) -> None:
    assert str(kind(f"the store {NASTY} failed")).isprintable()
    assert len(str(kind("x" * 10**7))) < MOST + 100
    assert str(kind("as it is")) == "as it is"


def test_no_error_of_the_package_has_a_text_of_its_own() -> None:
    own = vars(leasecron.errors).values()
    kinds = [kind for kind in own if isinstance(kind, type) and issubclass(kind, LeasecronError)]
    assert len(kinds) > 5
    assert {kind.__str__ for kind in kinds} == {LeasecronError.__str__}


# Bounded lengths


def as_options(name: str) -> Any:
    return {name: 1}


def test_a_name_is_at_most_a_thousand_bytes_long() -> None:
    scheduler = Scheduler("memory://", instance="i" * MOST_OF_NAME)
    scheduler.every("j" * MOST_OF_NAME, "10s", print)
    with pytest.raises(ConfigurationError, match=r"too long \(1001 bytes.* at most 1000"):
        scheduler.every("j" * (MOST_OF_NAME + 1), "10s", print)
    with pytest.raises(ConfigurationError, match=r"instance is 'iii.* 1 to 1000 bytes"):
        Scheduler("memory://", instance="i" * (MOST_OF_NAME + 1))
    scheduler.every("\N{ROCKET}" * (MOST_OF_NAME // 4), "10s", print)
    with pytest.raises(ConfigurationError, match=r"too long \(1004 bytes of UTF-8\)"):
        scheduler.every("\N{ROCKET}" * (MOST_OF_NAME // 4 + 1), "10s", print)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda huge: Scheduler(huge),
        lambda huge: Scheduler(f"sqlite://{huge}"),
        lambda huge: Scheduler(f"sqlite:///x.db?{huge}"),
        lambda huge: Scheduler(f"lockdir:////{huge}"),
        lambda huge: Scheduler(f"lockdir:////x?{huge}"),
        lambda huge: Scheduler("memory://", instance=huge),
        lambda huge: Scheduler("memory://", tz=huge),
        lambda huge: Scheduler("memory://").every(huge, "10s", print),
        lambda huge: Scheduler("memory://").every("job", huge, print),
        lambda huge: Scheduler("memory://").cron("job", huge, print),
        lambda huge: Scheduler("memory://").every("job", "10s", print, lease=huge),
        lambda huge: Scheduler("memory://").every("job", "10s", print, **as_options(huge)),
        lambda huge: Scheduler("memory://").on(huge, print),
        lambda huge: Scheduler("memory://").remove(huge),
        lambda huge: Scheduler("memory://").history(huge),
    ],
)
def test_a_megabyte_that_is_wrong_makes_no_message_of_a_megabyte(
    wrong: Callable[[Any], object],
) -> None:
    for huge in ("x" * 1_000_000, NASTY * 10_000):
        with pytest.raises(ConfigurationError) as caught:
            wrong(huge)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < MOST + 100
