"""``leasecron trigger``, ``pause`` and ``resume``: what they do, print and refuse."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from nasty_texts import NASTY, is_harmless
from support.stores import PostgresView, RedisView

from leasecron import BackendError, ConfigurationError, Run, RunResult, Scheduler
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli import main, stores
from leasecron.model import Status

LIMIT = 60.0
HOSTILE = f"{NASTY}\u200f\u2066"
AN_INSTANT = datetime(2026, 11, 29, 12, 0, 0, 1000, tzinfo=UTC)


def command(*words: str, **environment: str) -> Result:
    unset = {"LEASECRON_STORE": None}
    return CliRunner().invoke(main, words, env={**unset, **environment})


def refused(*words: str) -> str:
    """Return the error of a command that did nothing."""
    done = command(*words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert "Error: " in done.stderr
    assert is_harmless(done.stderr)
    return done.stderr


def fail() -> None:
    raise ValueError(HOSTILE)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def made(url: str) -> str:
    """The URL of a store in which there is nothing."""
    backend = SqliteBackend(url.removeprefix("sqlite:///"))
    backend.open()
    backend.close()
    return url


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    """One that runs, with jobs whose slots are far away."""
    scheduler = Scheduler(url, instance="web-1")
    scheduler.every("report", "30d", lambda: None)
    scheduler.every("broken", "30d", fail)
    scheduler.every(HOSTILE, "30d", lambda: None)
    with scheduler:
        for name in scheduler.jobs:
            scheduler.resume(name)  # by now the store knows it
        yield scheduler


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever declares a job has less time to take note of what is asked for."""
    monkeypatch.setattr("leasecron.known_jobs.NOTICED_WITHIN", 0.3)


def a_result(status: Status, error: str | None = None, retries: int = 0) -> RunResult:
    end = AN_INSTANT + timedelta(seconds=2.5)
    return RunResult(
        *("report", AN_INSTANT, 2, 7, "web-2", "manual", status, AN_INSTANT, end, 2.5),
        error=error,
        retries=retries,
    )


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Have the run that is asked for end with a result, or the waiting for it with an error."""

    def set_end(end: object) -> None:
        def wait(_run: Run, _timeout: float | None = None) -> object:
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(Run, "wait", wait)

    return set_end


# trigger


def test_the_run_that_is_asked_for_is_named_by_job_and_slot(scheduler: Scheduler, url: str) -> None:
    ended = threading.Event()
    scheduler.on("success", lambda _event: ended.set())

    done = command("trigger", "report", "--store", url)

    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert ended.wait(LIMIT)
    (record,) = scheduler.history("report")
    assert record.trigger == "manual"
    assert done.stdout == f"asked for a run of job 'report', slot {record.slot.isoformat()}\n"
    assert record.slot.isoformat().endswith("+00:00")


def test_one_who_waits_is_told_how_it_ended(scheduler: Scheduler, url: str) -> None:
    done = command("trigger", "report", "--store", url, "--wait")

    assert done.exit_code == 0, done.output
    _asked, end = done.stdout.splitlines()
    assert re.fullmatch(r"success: attempt 1, by web-1, took (\d+s)?(\d+ms)?", end)


def test_a_run_that_fails_exits_with_1_and_its_error(scheduler: Scheduler, url: str) -> None:
    done = command("trigger", "broken", "--store", url, "--wait")

    assert done.exit_code == 1, done.output
    _asked, end = done.stdout.splitlines()
    assert end.startswith("failed: attempt 1, by web-1, took ")
    assert ": ValueError: a\\n" in end
    assert is_harmless(done.output)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("status", ["failed", "lost", "interrupted"])
def test_whatever_is_no_success_exits_with_1(
    url: str, ending: Callable[[object], None], status: Status
) -> None:
    ending(a_result(status, HOSTILE + "x" * 20_000, retries=3))

    done = command("trigger", "report", "--store", url, "--wait")

    assert done.exit_code == 1
    end = done.stdout.splitlines()[1]
    assert end.startswith(f"{status}: attempt 2, retry 3, by web-2, took 2s500ms: a\\n")
    assert is_harmless(end)
    assert len(end) < 12_000


def test_a_run_that_has_not_ended_in_time_exits_with_3_and_goes_on(
    scheduler: Scheduler, url: str
) -> None:
    gate, ended = threading.Event(), threading.Event()
    scheduler.every("long", "30d", lambda: gate.wait(LIMIT))
    scheduler.on("success", lambda _event: ended.set())

    done = command("trigger", "long", "--store", url, "--wait", "--timeout", "50ms")
    gate.set()

    assert done.exit_code == 3
    assert done.stderr == "not ended within 50ms: the run is not taken back\n"
    assert len(done.stdout.splitlines()) == 1
    assert ended.wait(LIMIT)


@pytest.mark.usefixtures("scheduler")
def test_ctrl_c_in_the_waiting_leaves_the_run_to_itself(
    url: str, ending: Callable[[object], None]
) -> None:
    ending(KeyboardInterrupt())

    done = command("trigger", "report", "--store", url, "--wait")

    assert done.exit_code == 130
    assert done.stderr == "interrupted: the run is not taken back\n"


def test_ctrl_c_in_the_asking_says_that_it_may_have_been_asked_for(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Scheduler, "trigger", interrupt)

    done = command("trigger", "report", "--store", made)

    assert done.exit_code == 130
    assert done.stderr == "interrupted: the run may have been asked for already\n"
    assert done.stdout == ""


@pytest.mark.usefixtures("scheduler")
def test_an_end_that_the_store_cannot_tell_is_no_failed_run(
    url: str, ending: Callable[[object], None]
) -> None:
    ending(BackendError(f"the disk is broken {HOSTILE}"))

    done = command("trigger", "report", "--store", url, "--wait")

    assert done.exit_code == 2
    assert "the run was asked for, and how it ended is not known: the disk" in done.stderr
    assert is_harmless(done.output)


@pytest.mark.usefixtures("hurried", "scheduler")
def test_a_job_that_nobody_declares_is_refused_with_those_that_are_known(url: str) -> None:
    error = refused("trigger", "reprot", "--store", url)

    assert "no instance that declares job 'reprot' has taken note" in error
    assert "'report'" in error


@pytest.mark.usefixtures("hurried")
def test_a_job_of_an_application_that_does_not_run_is_refused(
    scheduler: Scheduler, url: str
) -> None:
    scheduler.stop()

    assert "no instance that declares job 'report'" in refused("trigger", "report", "--store", url)


def test_a_job_that_is_paused_is_refused(scheduler: Scheduler, url: str) -> None:
    scheduler.pause("report", HOSTILE)

    error = refused("trigger", "report", "--store", url)

    assert "job 'report' is paused since 2" in error
    assert "resume it first" in error


@pytest.mark.parametrize(
    "value", ["", "600", "5 minutes", "-5s", "0s", "1e9w", HOSTILE, "9" * 10_000 + "s"]
)
def test_what_is_no_duration_is_refused(made: str, value: str) -> None:
    error = refused("trigger", "report", "--store", made, "--wait", "--timeout", value)

    assert "Invalid value for '--timeout': " in error
    assert "right is text such as 30s, 10m or 1h30m" in error
    assert len(error) < 2000


def test_a_timeout_without_a_wait_is_refused(made: str) -> None:
    assert "give --wait too" in refused("trigger", "report", "--store", made, "--timeout", "10m")


# pause and resume


def test_a_job_is_paused_and_resumed(scheduler: Scheduler, url: str) -> None:
    first = command("pause", "report", "--store", url, "--note", "the bank is closed")
    second = command("pause", "report", "--store", url, "--note", "again")
    with pytest.raises(ConfigurationError, match="is paused"):
        scheduler.trigger("report")
    third = command("resume", "report", "--store", url)
    fourth = command("resume", "report", "--store", url)

    for done in (first, second, third, fourth):
        assert (done.exit_code, done.stderr) == (0, ""), done.output
    match = re.fullmatch(r"job 'report' is paused (since (\S+) \(.*\))\n", first.stdout)
    assert match is not None
    since, instant = match.groups()
    assert datetime.fromisoformat(instant).utcoffset() == timedelta(0)
    assert since.endswith(" (the bank is closed)")
    assert second.stdout == f"job 'report' was paused already, {since}; this pause goes on\n"
    assert third.stdout == f"job 'report' is resumed; it was paused {since}\n"
    assert fourth.stdout == "job 'report' is not paused\n"
    assert scheduler.trigger("report").wait(LIMIT) is not None


@pytest.mark.usefixtures("scheduler")
def test_a_pause_after_a_pause_is_a_new_one_and_needs_no_note(url: str) -> None:
    command("pause", "report", "--store", url, "--note", "the bank is closed")
    command("resume", "report", "--store", url)

    done = command("pause", "report", "--store", url)

    assert re.fullmatch(r"job 'report' is paused since \S+\n", done.stdout)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("act", ["pause", "resume"])
def test_a_job_that_the_store_does_not_know_is_refused(url: str, act: str) -> None:
    error = refused(act, "reprot", "--store", url)

    assert f"{act}: the store knows no job 'reprot'; it knows " in error


@pytest.mark.usefixtures("scheduler")
def test_a_note_that_is_too_long_is_refused(url: str) -> None:
    error = refused("pause", "report", "--store", url, "--note", "x" * 10_000)

    assert "right is text of up to 1000 characters" in error
    assert len(error) < 2000


def test_a_note_that_is_no_text_is_refused(made: str) -> None:
    error = refused("pause", "report", "--store", made, "--note", "caf\udce9")

    assert "Invalid value for '--note': 'caf\\udce9'; right is text in UTF-8" in error


# Names and notes that would harm


@pytest.mark.usefixtures("scheduler")
def test_a_hostile_job_is_told_of_in_printable_text(url: str) -> None:
    for words in (
        ["trigger", HOSTILE, "--wait"],
        ["pause", HOSTILE, "--note", HOSTILE],
        ["pause", HOSTILE],
        ["resume", HOSTILE],
        ["resume", HOSTILE],
    ):
        done = command(*words, "--store", url)
        assert done.exit_code == 0, done.output
        assert is_harmless(done.output)
        assert "\\x1b[2J" in done.output
        assert len(done.output.splitlines()) == (2 if "--wait" in words else 1)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("act", ["trigger", "pause", "resume"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "must not be empty"),
        ("x" * 10_000, "is too long"),
        ("caf\udce9", "cannot be written as UTF-8"),
        (HOSTILE, "\\u202e"),
    ],
    ids=["empty", "long", "no text", "hostile"],
)
def test_a_name_that_no_job_has_is_refused(made: str, act: str, name: str, said: str) -> None:
    error = refused(act, name, "--store", made)

    assert said in error
    assert len(error) < 2000


# The store


@pytest.fixture(params=["trigger", "pause", "resume"])
def act(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.usefixtures("scheduler")
def test_the_store_may_come_from_the_environment(act: str, url: str) -> None:
    done = command(act, "report", LEASECRON_STORE=url)

    assert done.exit_code == 0, done.output


def test_a_command_without_a_store_says_how_to_name_one(act: str) -> None:
    error = refused(act, "report")

    assert "--store" in error
    assert "LEASECRON_STORE" in error


@pytest.mark.parametrize("store", ["mysql://host/db", "store", HOSTILE])
def test_a_wrong_url_is_refused_with_the_right_forms(act: str, store: str) -> None:
    assert "right are sqlite:" in refused(act, "report", "--store", store)


def test_a_file_that_is_missing_or_empty_is_refused_and_not_made(
    act: str, url: str, tmp_path: Path
) -> None:
    missing = refused(act, "report", "--store", url)
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "store.db").touch()
    empty = refused(act, "report", "--store", url)

    assert missing == empty
    assert f"there is no store {url}" in missing
    assert f"leasecron init {url}" in missing
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("store.db", 0)]


def test_a_folder_that_is_missing_is_not_made(act: str, tmp_path: Path) -> None:
    error = refused(act, "report", "--store", f"sqlite:///{tmp_path}/missing/store.db")

    assert f"{tmp_path}/missing" in error
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_is_removed_meanwhile_is_not_made_anew(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasecron.lifecycle._ASK_WAIT", 0.1)
    pause = Scheduler.pause

    def pause_later(scheduler: Scheduler, name: str, note: str = "") -> None:
        (tmp_path / "store.db").unlink()
        pause(scheduler, name, note)

    monkeypatch.setattr(Scheduler, "pause", pause_later)

    assert "store.db is gone" in refused("pause", "report", "--store", made)
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize("kind", [PostgresView, RedisView], ids=["postgres", "redis"])
def test_a_store_that_is_missing_in_a_server_is_refused_and_not_made(
    act: str, kind: type[PostgresView | RedisView], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "check_control", lambda *_: None)  # what it can do comes later
    view = kind()

    first, second = (refused(act, "report", "--store", view.url) for _ in range(2))

    assert first == second
    assert "leasecron init" in first
    view.drop()


@pytest.mark.parametrize(
    "store", ["postgresql:///x?host=/nowhere", "redis://:secret@127.0.0.1:1/0"]
)
def test_a_server_that_is_not_there_is_an_error_without_its_password(
    act: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "check_control", lambda *_: None)

    assert "secret" not in refused(act, "report", "--store", store)


def test_a_store_in_memory_has_no_outside(act: str) -> None:
    assert "begins and ends with the process" in refused(act, "report", "--store", "memory://")


def test_a_lock_directory_cannot_do_it(act: str, tmp_path: Path) -> None:
    error = refused(act, "report", "--store", f"lockdir:///{tmp_path}/locks")

    assert f"{act} needs a store such as sqlite:////path" in error
    assert "locks cannot do it" in error
    assert [*tmp_path.iterdir()] == []


def test_a_file_of_another_kind_is_left_as_it_is(act: str, url: str, tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("precious " * 1000)

    assert "not a database" in refused(act, "report", "--store", url)
    assert (tmp_path / "store.db").read_text() == "precious " * 1000


def test_ctrl_c_exits_with_130(act: str, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SqliteBackend, "open", interrupt)

    done = command(act, "report", "--store", made)

    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


# Help


def test_the_examples_in_the_help_work(scheduler: Scheduler, url: str) -> None:
    example = re.compile(r"^ +leasecron ((?:trigger|pause|resume) .*sqlite:.*)$", re.MULTILINE)
    tried = set()
    for words in (["--help"], *([act, "--help"] for act in ("trigger", "pause", "resume"))):
        found = example.findall(command(*words).stdout)
        assert found != []
        for line in found:
            act, *rest = shlex.split(line)
            done = command(act, *(url if word.startswith("sqlite:") else word for word in rest))
            assert done.exit_code == 0, done.output
            tried.add(act)
        scheduler.resume("report")
    assert tried == {"trigger", "pause", "resume"}
