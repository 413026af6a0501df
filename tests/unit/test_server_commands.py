"""The commands for stores in servers: made once, looked at without a change, and told in SQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import CliRunner, Result
from support.servers import postgres_url
from support.stores import PostgresView, RedisView

from leasecron import Scheduler
from leasecron.backends.postgres.schema import script_of
from leasecron.cli import main
from leasecron.errors import BackendUnavailable

View = PostgresView | RedisView


@pytest.fixture(params=[PostgresView, RedisView], ids=["postgres", "redis"])
def view(request: pytest.FixtureRequest) -> Iterator[View]:
    view: View = request.param()
    yield view
    view.drop()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("command", ["init", "doctor"])
def test_the_help_of_a_command_for_any_store_names_all_kinds(command: str) -> None:
    said = run(command, "--help").stdout
    for scheme in ("sqlite:", "lockdir:", "postgresql:", "redis:"):
        assert scheme in said


def test_a_store_is_made_once(view: View) -> None:
    first, second = run("init", view.url), run("init", view.url)
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    assert first.stdout.startswith("made the store ")
    assert second.stdout.strip().endswith("was there already, and is ready")


def test_the_doctor_makes_nothing_and_says_how_to(view: View) -> None:
    for _ in range(2):
        done = run("doctor", view.url)
        assert done.exit_code == 2
        assert "leasecron init" in " ".join(done.stdout.split())


def test_the_doctor_looks_at_server_and_store(view: View) -> None:
    run("init", view.url)
    done = run("doctor", view.url, "--json")
    assert done.exit_code == 0, done.stdout
    for name in ("server", "clock", "round trip"):
        assert f'"{name}"' in done.stdout


def test_history_is_to_be_had_from_any_process(view: View) -> None:
    assert Scheduler(view.url).history() == []
    assert run("doctor", view.url).exit_code == 2  # and nothing was made by that
    ended = threading.Event()
    scheduler = Scheduler(view.url)
    scheduler.on("success", lambda _event: ended.set())
    scheduler.every("job", "1s", lambda: None, jitter=0)
    with scheduler:
        assert ended.wait(30)
    known = scheduler.history("job")
    assert [result.status for result in known][-1:] == ["success"]
    assert Scheduler(view.url).history("job") == known


@pytest.mark.parametrize("url", ["postgresql:///x?host=/nowhere", "redis://127.0.0.1:1/0"])
def test_history_of_a_server_that_is_not_there_is_an_error(url: str) -> None:
    with pytest.raises(BackendUnavailable):
        Scheduler(url).history()


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    for url in ("postgresql:///x?host=/nowhere", "redis://127.0.0.1:1/0"):
        for command in ("init", "doctor"):
            done = run(command, url)
            assert done.exit_code == 2
            assert "Traceback" not in done.output


def test_what_makes_a_store_is_printed_without_a_server() -> None:
    done = run("init", "--print-sql", "postgresql:///x?host=/nowhere&schema=jobs")
    assert done.exit_code == 0
    assert done.stdout == script_of("jobs", None)
    assert '-- GRANT USAGE ON SCHEMA "jobs" TO app;' in done.stdout


def test_the_rights_that_are_printed_are_of_the_user_of_the_url() -> None:
    done = run("init", "--print-sql", "postgresql://svc-1@nowhere/x?schema=jobs")
    assert '-- GRANT USAGE ON SCHEMA "jobs" TO "svc-1";' in done.stdout


@pytest.mark.parametrize("end", ["%0A", "%0D"])
def test_a_lines_end_in_a_name_begins_no_statement(end: str) -> None:
    url = f"postgresql://a{end}DROP@nowhere/x?schema=b{end}DROP"
    after = run("init", "--print-sql", url).stdout.split("COMMIT;")[1]
    lines = [line for line in re.split(r"[\r\n]", after) if line]
    assert len(lines) == 5
    assert all(line.startswith("-- ") for line in lines)


def test_what_is_printed_makes_a_store() -> None:
    view = PostgresView()
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(run("init", "--print-sql", view.url).stdout.encode())
    done = run("init", view.url)
    assert done.stdout.strip().endswith("was there already, and is ready")
    view.drop()


@pytest.mark.parametrize("url", ["sqlite:///x.db", "memory://", "redis://host/0"])
def test_other_stores_are_not_made_by_sql(url: str) -> None:
    done = run("init", "--print-sql", url)
    assert done.exit_code == 2
    assert "is not made by SQL" in done.stderr
