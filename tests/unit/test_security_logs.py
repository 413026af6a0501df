"""Nothing that comes from outside makes a line of its own in a log."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from nasty_texts import FORGED, NAMES, NASTY, Rude, fail, is_harmless
from runs_support import Fleet

from leasecron import BackendError
from leasecron.errors import MOST
from leasecron.logs import REPEAT_AFTER

STAMP = "2026-"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What an application writes into its log file, as it is usually set up."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter(f"{STAMP} %(levelname)s %(message)s"))
    logger = logging.getLogger("leasecron")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield written
    logger.setLevel(level)
    logger.removeHandler(handler)


def check(log: io.StringIO, lines: int | None = None) -> list[str]:
    """Return the lines of a log, which must all be the logger's own or parts of a traceback."""
    text = log.getvalue()
    assert is_harmless(text)
    found = text.splitlines()
    own = [line for line in found if line.startswith(STAMP)]
    others = [line for line in found if line not in own and line[:1].strip()]
    assert set(others) <= {"Traceback (most recent call last):"}
    assert not any(line.startswith(FORGED) for line in found)
    assert lines is None or len(own) == lines
    return own


def run_once(fleet: Fleet, handler: Callable[[], object], *, name: str = "sync") -> None:
    one = fleet.instance(f"web {NASTY}")
    one.every(10, handler, name=name, max_attempts=1)
    fleet.start()
    fleet.until(12)


class Loud(Exception):
    """Says what it is told, and more in its notes."""

    def __init__(self, text: str, *notes: str) -> None:
        super().__init__(text)
        for note in notes:
            self.add_note(note)


def raise_(error: BaseException, cause: BaseException | None = None) -> NoReturn:
    raise error from cause


@pytest.mark.parametrize(
    "error",
    [
        lambda: Loud(NASTY),
        lambda: Loud("quiet", NASTY),
        lambda: ExceptionGroup(NASTY, [Loud(NASTY), ValueError(NASTY)]),
        lambda: ExceptionGroup("quiet", [Loud("quiet", f"note\n{FORGED}")]),
        lambda: SyntaxError(NASTY, ("file", 1, 1, f"\n{FORGED}")),
        lambda: UnicodeDecodeError("utf-8", b"\xff\x1b", 0, 1, NASTY),
        lambda: SystemExit(NASTY),
        lambda: ValueError("x" * 10_000_000),
        lambda: ValueError(f"{FORGED}\n" * 100_000),
    ],
)
@pytest.mark.parametrize("as_cause", [False, True])
def test_the_text_of_a_handlers_error_forges_no_line_of_a_log(
    fleet: Fleet, log: io.StringIO, error: Callable[[], BaseException], *, as_cause: bool
) -> None:
    quiet = ValueError("quiet")
    run_once(fleet, lambda: raise_(quiet, error()) if as_cause else raise_(error()))
    assert any("run failed job=sync" in line for line in check(log))
    assert len(log.getvalue()) < 200_000


def test_an_ordinary_traceback_is_logged_as_always(fleet: Fleet, log: io.StringIO) -> None:
    run_once(fleet, lambda: raise_(KeyError("ü"), ValueError("no")))
    text = log.getvalue()
    assert "\nKeyError: 'ü'\n" in text
    assert "\nValueError: no\n\nThe above exception was the direct cause" in text


def test_the_handlers_of_an_application_still_get_the_exception(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    error = Loud(NASTY)
    run_once(fleet, lambda: raise_(error))
    (record,) = [r for r in caplog.records if r.exc_info]
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_names_forge_no_line_of_a_log(fleet: Fleet, log: io.StringIO) -> None:
    run_once(fleet, lambda: None, name=f"job {NASTY}")
    assert len([line for line in check(log) if "job=job a\\n" in line]) == 2


@pytest.mark.parametrize("name", NAMES)
def test_what_people_write_is_not_escaped_in_a_log(
    fleet: Fleet, log: io.StringIO, name: str
) -> None:
    run_once(fleet, lambda: raise_(ValueError(f"no {name}"), ValueError(name)), name=name)
    assert is_harmless(log.getvalue())
    assert f"run failed job={name} slot=" in log.getvalue()
    assert f"\nValueError: no {name}\n" in log.getvalue()


def test_a_tab_in_a_traceback_is_still_space(fleet: Fleet, log: io.StringIO) -> None:
    run_once(fleet, lambda: raise_(ValueError("first\n\tsecond\n\x1b\tthird")))
    assert "\n  ValueError: first\n          second\n  \\x1b       third\n" in log.getvalue()
    check(log)


@pytest.mark.parametrize("length", [MOST // 2, 10_000_000])
def test_what_a_store_says_at_length_is_logged_and_hides_nothing(
    fleet: Fleet, log: io.StringIO, length: int
) -> None:
    one = fleet.instance()
    one.every(10, lambda: None, name="j" * 1000)
    one.store.faults["claim"] = lambda: BackendError("x" * length)
    fleet.start()
    fleet.until(12 + REPEAT_AFTER)
    first, *_, last = [line for line in check(log) if "claim failed" in line]
    assert first.count("x") >= min(length, MOST - 100)
    assert len(first) < MOST + 1500
    assert last.endswith("times more since the last line)")


def test_what_a_store_says_forges_no_line_of_a_log(fleet: Fleet, log: io.StringIO) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.faults["claim"] = lambda: BackendError(NASTY)
    fleet.start()
    fleet.until(12)
    assert any("claim failed" in line for line in check(log))


def test_a_holder_that_another_instance_named_forges_no_line_of_a_log(
    fleet: Fleet, log: io.StringIO
) -> None:
    for name in (f"one {NASTY}", f"two {NASTY}"):
        fleet.instance(name).every(10, lambda: fleet.nap(3))
    fleet.start()
    fleet.until(12)
    assert any("holder=" in line and "reason=taken" in line for line in check(log))


@pytest.mark.parametrize("answer", [lambda: NASTY, fail], ids=["nasty", "fails"])
def test_a_listener_that_cannot_be_shown_forges_no_line_and_loses_none(
    fleet: Fleet, log: io.StringIO, answer: Callable[[], str]
) -> None:
    class Listener(Rude):
        def __call__(self, _event: object) -> NoReturn:
            raise Loud(NASTY)

    one = fleet.instance()
    one.every(10, lambda: None)
    one.scheduler.on("success", Listener(answer))
    fleet.start()
    fleet.until(12)
    assert any("a listener failed" in line for line in check(log))


def test_a_program_without_logging_prints_errors_in_printable_text(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    run_once(fleet, lambda: raise_(Loud(NASTY)))
    assert "run failed" in written.getvalue()
    assert is_harmless(written.getvalue())
