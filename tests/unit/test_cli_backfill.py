"""``leasecron backfill``: what it does, prints and refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from nasty_texts import NASTY, is_harmless

from leasecron import RunContext, Scheduler
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli import main

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
WEEK_AGO = f"{TODAY - timedelta(days=7):%Y-%m-%d}"
YESTERDAY = f"{TODAY - timedelta(days=1):%Y-%m-%d}"
DAYS = [(TODAY - timedelta(days=days)).isoformat() for days in range(7, 1, -1)]
HOSTILE = f"{NASTY}\u200f"


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["backfill", *words], env={"LEASECRON_STORE": None})


def refused(*words: str) -> str:
    done = command(*words)
    assert done.exit_code == 2, done.output
    assert is_harmless(done.stderr)
    return done.stderr


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


class Own:
    """A schedule of the application's own."""

    def next_after(self, t: datetime) -> datetime:
        return t + timedelta(days=300)

    def latest_at(self, t: datetime) -> None:
        return None


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    """One that runs, whose job fails on one day."""

    def report(ctx: RunContext) -> None:
        if ctx.slot.isoformat() == DAYS[2]:
            raise ValueError("no")

    scheduler = Scheduler(url, instance="web-1")
    scheduler.cron("report", "0 0 * * *", report, catch_up=0)
    scheduler.every("good", "1d", lambda: None, catch_up=0)
    scheduler.every(HOSTILE, "1d", lambda: None, catch_up=0)
    scheduler.add("own", Own(), lambda: None, catch_up=0)
    with scheduler:
        for name in scheduler.jobs:
            scheduler.resume(name)  # by now the store knows it
        yield scheduler


RANGE = ("--start", WEEK_AGO, "--end", YESTERDAY)


@pytest.mark.usefixtures("scheduler")
def test_a_dry_run_of_many_slots_says_how_many_there_are_first(url: str) -> None:
    long_ago = ("report", "--store", url, "--start", "1990-01-01", "--end", WEEK_AGO)
    done = command(*long_ago, "--dry-run")
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.search(r"it has about 1\d,\d{3} slots, and most is 10,000", done.stderr)
    assert len(command(*long_ago, "--dry-run", "--yes").stdout.splitlines()) > 10_000


@pytest.mark.usefixtures("scheduler")
def test_a_dry_run_lists_the_slots_and_changes_nothing(url: str) -> None:
    done = command("report", "--store", url, *RANGE, "--dry-run")

    assert (done.exit_code, done.stdout.split()) == (0, DAYS)
    assert done.stderr == "6 slots\n"
    assert "no backfill of job 'report' goes on" in refused("report", "--store", url, "--cancel")


@pytest.mark.usefixtures("scheduler")
def test_it_waits_for_the_end_and_says_how_that_was(url: str) -> None:
    done = command("report", "--store", url, *RANGE, "--wait")

    assert done.stdout.splitlines() == [
        "begun: 6 slots of job 'report'",
        "5 slots succeeded, 1 failed",
    ]
    assert done.exit_code == 1
    done = command("report", "--store", url, *RANGE, "--dry-run")
    assert done.stdout.split() == [DAYS[2]]


@pytest.mark.usefixtures("scheduler")
def test_without_an_end_the_range_ends_now(url: str) -> None:
    done = command("good", "--store", url, "--start", WEEK_AGO, "--wait")

    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "8 slots succeeded, 0 failed")
    done = command("good", "--store", url, "--start", f"{WEEK_AGO}T00:00:00.000007", "--dry-run")
    assert done.stdout == ""


@pytest.mark.usefixtures("scheduler")
def test_where_every_slot_succeeds_the_exit_code_says_so(url: str) -> None:
    done = command("good", "--store", url, *RANGE, "--wait")

    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "6 slots succeeded, 0 failed")
    done = command("good", "--store", url, *RANGE, "--wait")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "begun: 0 slots of job 'good'")


def test_one_that_goes_on_is_not_begun_again_and_can_be_cancelled(
    url: str, scheduler: Scheduler
) -> None:
    scheduler.pause("good")
    backend = SqliteBackend(url.removeprefix("sqlite:///"))
    backend.open()
    try:
        assert "is paused since" in refused("good", "--store", url, *RANGE)
        scheduler.resume("good")
        begun = scheduler.backfill("good", TODAY - timedelta(days=7), TODAY, most=10)
        scheduler.pause("good")
        done = command("good", "--store", url, "--cancel")
        assert done.stdout.startswith("cancelled: ") or done.exit_code == 2
        assert begun.wait(timeout=10) is not None
    finally:
        backend.close()


@pytest.mark.usefixtures("scheduler")
def test_a_large_range_is_refused_with_its_size(url: str) -> None:
    said = refused("report", "--store", url, "--start", "1900-01-01", "--end", "2000-01-01")

    assert "slots, and most is 10,000; name a shorter range" in said
    assert "about 36,5" in said


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "--start", "soon"), "right is a day or an instant, such as 2026-01-31"),
        (("report",), "say where the range begins, with --start, or --cancel"),
        (("report", "--start", WEEK_AGO, "--cancel"), "--cancel goes with no other option"),
        (("report", "--start", WEEK_AGO, "--dry-run", "--wait"), "--dry-run begins nothing"),
        (("report", "--start", YESTERDAY, "--end", WEEK_AGO), "which is not after start"),
        (("report", "--start", YESTERDAY, "--end", "2999-01-01"), "which is still to come"),
        (("synk", *RANGE), "the store knows no job 'synk'; it knows "),
        (("own", *RANGE), "is known to the application alone; call scheduler.backfill() there"),
    ],
)
def test_what_is_wrong_is_said(url: str, words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words, "--store", url)


@pytest.mark.usefixtures("scheduler")
def test_a_name_from_outside_leaves_the_terminal_unharmed(url: str) -> None:
    done = command(HOSTILE, "--store", url, *RANGE, "--wait")

    assert done.exit_code == 0
    assert is_harmless(done.stdout)
    assert is_harmless(done.stderr)


def test_a_store_that_is_missing_is_not_made(url: str, tmp_path: Path) -> None:
    assert "there is no store" in refused("report", "--store", url, *RANGE)
    assert [*tmp_path.iterdir()] == []


def test_nobody_declares_the_job(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasecron.known_jobs.NOTICED_WITHIN", 0.3)
    gone = Scheduler(url)
    gone.every("report", "1d", lambda: None, catch_up=0)
    with gone:
        gone.resume("report")

    said = refused("report", "--store", url, *RANGE)

    assert "no instance that declares job 'report' has taken note of the backfill within" in said
    assert "no backfill of job 'report' goes on" in refused("report", "--store", url, "--cancel")
