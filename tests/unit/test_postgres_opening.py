"""Opening a PostgreSQL store: what is made, what is refused, and by which words."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from support.postgres_server import OwnServer, own_server

from leasecron.backends.postgres import schema as postgres_schema
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.postgres.schema import newest_version, script_of
from leasecron.errors import BackendError, BackendMismatch, BackendUnavailable
from leasecron.model import (
    LARGEST_INTEGER,
    Declaration,
    Ending,
    NewBackfill,
    OneOff,
    Retention,
    RunResult,
    from_ms,
)

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with own_server() as server:
        server.execute(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'", "CREATE DATABASE jobs")
        server.let_in_by_password(["app"])
        yield server


@pytest.fixture
def schema() -> str:
    return f"s{uuid.uuid4().hex}"


def url_of(
    server: OwnServer,
    schema: str,
    *,
    user: str = "postgres",
    password: str = "",
    database: str = "jobs",
) -> str:
    who = f"{user}:{password}" if password else user
    return f"postgresql://{who}@/{database}?host={server.folder}&schema={schema}"


def refused(url: str, kind: type[BackendError] = BackendError) -> str:
    backend = PostgresBackend(url)
    with pytest.raises(BackendError) as found:
        backend.open()
    assert type(found.value) is kind
    error: BaseException | None = found.value
    while error is not None:
        assert SECRET not in repr(error)
        error = error.__cause__ or error.__context__
    return str(found.value)


def works(url: str) -> None:
    backend = PostgresBackend(url)
    backend.open()
    assert len(backend.declare([Declaration("job", "daily")])) == 1
    backend.close()


def test_a_schema_is_made_and_found_again(server: OwnServer, schema: str) -> None:
    works(url_of(server, schema))
    works(url_of(server, schema))


@pytest.mark.parametrize(
    "name",
    ["Mixed Case", 'quo"ted', "select", "ü", "a.b", "a;b--c", "{schema}", "it's", "a\\b"],
)
def test_a_schema_may_be_called_anything(server: OwnServer, name: str) -> None:
    works(url_of(server, quote(name)))


def test_those_that_open_it_at_once_make_it_once(server: OwnServer, schema: str) -> None:
    backends = [PostgresBackend(url_of(server, schema)) for _ in range(6)]
    errors: list[BaseException] = []

    def opened(backend: PostgresBackend) -> None:
        try:
            backend.open()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=opened, args=(backend,)) for backend in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for backend in backends:
        backend.close()


def test_a_wrong_password_is_refused_at_once(server: OwnServer, schema: str) -> None:
    said = refused(url_of(server, schema, user="app", password=SECRET + "x"))
    assert f"postgresql://app@{server.folder}/jobs" in said
    assert "password authentication failed" in said


def test_a_password_that_was_changed_later_is_waited_for_and_named(
    server: OwnServer, schema: str
) -> None:
    server.execute_in("jobs", f"CREATE SCHEMA {schema} AUTHORIZATION app")
    backend = PostgresBackend(url_of(server, schema, user="app", password=SECRET))
    backend.open()
    server.execute(
        "ALTER ROLE app PASSWORD 'another'",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'",
    )
    errors = []
    for _ in range(2):
        with pytest.raises(BackendUnavailable) as found:
            backend.unfinished(["job"])
        errors.append(str(found.value))
    server.execute(f"ALTER ROLE app PASSWORD '{SECRET}'")

    assert f"postgresql://app@{server.folder}/jobs" in errors[1]
    assert "does not let this user in" in errors[1]
    assert 'password authentication failed for user "app"' in errors[1]
    assert SECRET not in errors[1]
    assert backend.unfinished(["job"]) == []
    backend.close()


def test_a_missing_database_is_refused_at_once(server: OwnServer, schema: str) -> None:
    assert 'database "nowhere" does not exist' in refused(
        url_of(server, schema, database="nowhere")
    )


def test_a_server_that_is_not_there_may_come(schema: str) -> None:
    said = refused(f"postgresql:///jobs?host=/nowhere&schema={schema}", BackendUnavailable)
    assert "cannot be reached" in said


def test_who_may_make_no_schema_is_told_what_to_do(server: OwnServer, schema: str) -> None:
    said = refused(url_of(server, schema, user="app", password=SECRET))
    assert "permission denied" in said
    assert "leasecron init --print-sql" in said
    assert "| psql -v ON_ERROR_STOP=1 jobs, and the GRANTs at its end" in said


def test_who_was_not_given_the_rights_is_told_what_they_are(server: OwnServer, schema: str) -> None:
    with psycopg.connect(url_of(server, schema).partition("&schema")[0], autocommit=True) as made:
        made.execute(script_of(schema, "app").encode())
    said = refused(url_of(server, schema, user="app", password=SECRET))
    assert "permission denied for schema" in said
    assert "needs the GRANTs that leasecron init --print-sql prints at the end" in said


def test_who_may_make_no_tables_can_use_what_was_prepared(server: OwnServer, schema: str) -> None:
    with psycopg.connect(url_of(server, schema).partition("&schema")[0], autocommit=True) as made:
        made.execute(script_of(schema, "app").encode())
        for grant in (
            f"GRANT USAGE ON SCHEMA {schema} TO app",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO app",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO app",
        ):
            made.execute(grant.encode())
    works(url_of(server, schema, user="app", password=SECRET))
    backend = PostgresBackend(url_of(server, schema, user="app", password=SECRET))
    backend.open()
    uses_all(backend)
    backend.close()


def test_a_schema_that_is_there_and_empty_is_used(server: OwnServer, schema: str) -> None:
    with psycopg.connect(url_of(server, schema).partition("&schema")[0], autocommit=True) as made:
        made.execute(f"CREATE SCHEMA {schema} AUTHORIZATION app".encode())
    works(url_of(server, schema, user="app", password=SECRET))


def test_a_schema_of_another_program_is_left_alone(server: OwnServer, schema: str) -> None:
    with psycopg.connect(url_of(server, schema).partition("&schema")[0], autocommit=True) as made:
        made.execute(f"CREATE SCHEMA {schema}".encode())
        made.execute(f"CREATE TABLE {schema}.jobs (name text)".encode())
        said = refused(url_of(server, schema), BackendMismatch)
        assert "tables of another program" in said
        left = made.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = %s", [schema]
        ).fetchone()
    assert left == (1,)


def test_a_newer_schema_is_refused(server: OwnServer, schema: str) -> None:
    works(url_of(server, schema))
    with psycopg.connect(url_of(server, schema).partition("&schema")[0], autocommit=True) as made:
        made.execute(f"UPDATE {schema}.meta SET value = 99 WHERE key = 'schema_version'".encode())
    said = refused(url_of(server, schema), BackendMismatch)
    assert "made by a newer leasecron (schema 99" in said


def test_an_older_schema_is_brought_up_to_date(
    server: OwnServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(url_of(server, schema))
    newest = newest_version()
    change = "CREATE TABLE {schema}.later (name text);\n"
    monkeypatch.setattr(postgres_schema, "CHANGES", (*postgres_schema.CHANGES, change))
    works(url_of(server, schema))
    works(url_of(server, schema))
    with psycopg.connect(url_of(server, schema).partition("&schema")[0], autocommit=True) as made:
        found = made.execute(
            f"SELECT value FROM {schema}.meta WHERE key = 'schema_version'".encode()
        ).fetchall()
        made.execute(f"SELECT * FROM {schema}.later".encode())
    assert found == [(newest + 1,)]


def of_version(version: int, server: OwnServer, schema: str) -> None:
    script = Path(__file__).parents[1] / "cases" / f"postgres_version_{version}.sql"
    server.execute_in("jobs", script.read_text().replace(f"of_version_{version}", schema))


OLDER = pytest.mark.parametrize("version", [1, 2])


@OLDER
def test_a_store_of_an_earlier_version_becomes_as_one_made_anew(
    server: OwnServer, schema: str, version: int
) -> None:
    new = f"{schema}_new"
    of_version(version, server, schema)
    slot = round(time.time(), 3) - START
    before = PostgresBackend(url_of(server, schema))
    server.execute_in(
        "jobs",
        f"INSERT INTO {schema}.jobs VALUES ('job', '', 7, 7, NULL)",
        f"INSERT INTO {schema}.runs VALUES"
        " ('job', 1, 'success', 'x', 2, 1, 6, NULL, 'one', 'takeover', 1, 2, true),"
        " ('job', 2, 'released', 'y', 1, 0, 7, 7, 'two', 'scheduled', 2, 3, true)",
        f"INSERT INTO {schema}.results VALUES (5, 'job', 1, 1, 'one', 'scheduled', 'lost', 1, 2)",
    )

    before.open()
    (won,) = before.claim([a_claim(slot, "a")])

    assert won.outcome == "won"
    assert [record.fence for record in won.closed] == []
    assert before.declare([Declaration("job", "daily")]) == [from_ms(7)]
    assert [(record.fence, record.retries) for record in before.history()] == [(5, 0)]
    states = [before.run_state("job", from_ms(number)) for number in (1, 2)]
    assert [state and (state.state, state.attempt, state.retries) for state in states] == [
        ("success", 2, 0),
        ("replaced", 1, 0),
    ]
    assert before.pause("job", "a note")
    assert [job.note for job in before.jobs()] == ["a note"]
    before.close()
    works(url_of(server, new))
    assert parts_of(server, schema) == parts_of(server, new)


def parts_of(server: OwnServer, schema: str) -> set[str]:
    """Return all that a schema is made of, without its name."""
    query = """
        SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p
        WHERE p.pronamespace = %(n)s::regnamespace
        UNION ALL SELECT format(
            '%%s.%%s %%s %%s %%s %%s', c.relname, a.attname, a.attnum, a.atttypid::regtype,
            a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        )
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
        LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = %(n)s::regnamespace
        UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = %(n)s::text
        UNION ALL SELECT key FROM {schema}.meta
    """
    with psycopg.connect(url_of(server, schema).partition("&schema")[0]) as connection:
        found = connection.execute(query.replace("{schema}", schema).encode(), {"n": schema})
        return {row[0].replace(schema, "") for row in found.fetchall()}


def test_instances_of_the_version_before_can_still_end_their_runs(
    server: OwnServer, schema: str
) -> None:
    of_version(2, server, schema)
    runs = [("over", 9), ("given back", 10)]
    server.execute_in(
        "jobs",
        *(
            f"INSERT INTO {schema}.runs VALUES ('{job}', 1, 'claimed', 'x', 1, 0, {fence}, NULL,"
            f" 'one', 'scheduled', 1, {LARGEST_INTEGER}, false)"
            for job, fence in runs
        ),
    )
    works(url_of(server, schema))

    def asked(call: str) -> object:
        with psycopg.connect(url_of(server, schema).partition("&schema")[0]) as connection:
            found = connection.execute(f"SELECT {schema}.{call}".encode()).fetchone()
            return found and found[0]

    over, given_back = """'["over"]', '[1]', '["x"]'""", """'["given back"]', '[1]', '["x"]'"""
    assert asked(f"heartbeat({over}, '[99]')") == [1]  # which is as good as true
    assert asked(f"finish({over}, '[\"failed\"]', '[false]', '[false]')") == [True]
    assert asked(f"release({given_back}, '[\"interrupted\"]', '[false]', '[false]')") == [True]
    assert asked(f"heartbeat({over}, '[99]')") == [0]
    asked(
        """save_results('[9]', '["over"]', '[1]', '[1]', '["one"]', '["scheduled"]',"""
        """ '["failed"]', '[1]', '[2]', '["no"]')"""
    )
    with pytest.raises(psycopg.errors.UndefinedFunction):
        asked("claim('[]', '[]', '[]', '[]', '[]', '[]', '[]', '[]', '[]', '[]')")
    backend = PostgresBackend(url_of(server, schema))
    backend.open()
    assert [(record.error, record.retries) for record in backend.history()] == [("no", 0)]
    assert [(state.job, state.alive) for state in backend.unfinished(["over", "given back"])] == [
        ("given back", False)
    ]
    backend.close()


def test_who_could_use_a_store_of_an_earlier_version_can_use_what_it_becomes(
    server: OwnServer, schema: str
) -> None:
    of_version(2, server, schema)
    server.execute_in(
        "jobs",
        f"GRANT USAGE ON SCHEMA {schema} TO app",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO app",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO app",
    )
    works(url_of(server, schema))
    backend = PostgresBackend(url_of(server, schema, user="app", password=SECRET))
    backend.open()
    uses_all(backend)
    backend.close()


def uses_all(backend: PostgresBackend) -> None:
    """Write to and remove from each table."""
    claim = a_claim(round(time.time(), 3) - START, "a")
    backend.declare([Declaration("job", "daily")])
    (won,) = backend.claim([claim])
    assert won.outcome == "won"
    now = datetime.now(UTC)
    record = RunResult("job", claim.slot, 1, won.fence, "one", "scheduled", "failed", now, now, 0.0)
    assert backend.finish([Ending("job", claim.slot, "a", "failed", pause="it failed")]) == [True]
    backend.save_results([record])
    assert backend.resume("job")
    begun = backend.add_backfill(NewBackfill("job", claim.slot, claim.slot, 0, "one"))
    assert backend.cancel_backfill("job", begun.asked_at)
    assert backend.fix([OneOff("job", claim.slot)]) == [claim.slot]
    assert not backend.prune([Retention("job", -1e6, 0, -1e6)])
    assert backend.pauses("job") == []
    assert backend.history() == []


def test_who_does_not_own_an_older_schema_is_told_what_to_do(
    server: OwnServer, schema: str
) -> None:
    of_version(1, server, schema)
    server.execute_in(
        "jobs",
        f"GRANT USAGE ON SCHEMA {schema} TO app",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO app",
    )
    said = refused(url_of(server, schema, user="app", password=SECRET))
    assert "is of an earlier version, and its user may not change that" in said


def test_sessions_see_what_was_committed_whatever_is_set_for_their_role(
    server: OwnServer, schema: str
) -> None:
    works(url_of(server, schema))
    server.execute("ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'")
    works(url_of(server, schema))
    server.execute("ALTER ROLE postgres RESET default_transaction_isolation")
    works(url_of(server, schema) + "&options=-c%20default_transaction_isolation%3Dserializable")


def test_sessions_that_see_an_older_state_are_refused(
    server: OwnServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasecron.backends.postgres.wire._OPTIONS", "")
    url = url_of(server, schema) + "&options=-c%20default_transaction_isolation%3Dserializable"
    assert "needs sessions at read committed, and these are at serializable" in refused(url)


def test_a_database_that_cannot_keep_all_texts_is_refused(server: OwnServer, schema: str) -> None:
    server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    said = refused(url_of(server, schema, database="latin"))
    assert "encoding is UTF8, and this one's is LATIN1" in said


def test_a_server_that_is_too_old_is_named(
    server: OwnServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasecron.backends.postgres.connection.OLDEST", 99)
    assert "needs PostgreSQL 99 or newer, and the server is of version" in refused(
        url_of(server, schema)
    )


def test_one_that_can_only_be_read_is_refused(server: OwnServer, schema: str) -> None:
    works(url_of(server, schema))
    option = "&options=-c%20default_transaction_read_only%3Don"
    assert "can only be read" in refused(url_of(server, schema) + option)
