"""The tables and functions of a PostgreSQL store, their version, and how they come to be.

The files ``*.sql`` are the newest version whole. A store of an earlier one is brought up
to date by the changes that led from it to this one, and by all functions as they are now, in one
transaction, under an advisory lock.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from leasecron.backends.claims import ABANDONED
from leasecron.backends.postgres.errors import DENIED
from leasecron.backends.postgres.wire import ServerError, Wire
from leasecron.errors import BackendError, BackendMismatch

LOCK_TIMEOUT = "500ms"
"""What a call may wait for others, who hold rows for the milliseconds of a batch."""

# By statistics that are of yesterday, a table of a million rows may be read whole.
_SETTINGS = (
    f"SET lock_timeout = '{LOCK_TIMEOUT}' "
    "SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off"
)
_MIGRATION = 60.0
ASK = 2.0
"""Seconds to wait for a server that is asked a small thing."""

_ADVISORY = 0x6C656173
_THERE_ALREADY = frozenset({"42P07", "42710", "42723"})  # a table, a type, a function

# The catalogs themselves are asked: what a session knows of a name that was missing is of the
# beginning of its transaction, and so of before it has waited for the lock.
_HAS_SCHEMA = "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = $1"
_HAS_META = """
    SELECT c.relname FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'meta'
"""
_VERSION = "SELECT value FROM {schema}.meta WHERE key = 'schema_version'"
_MAKE = "CREATE SCHEMA {schema};\n"
_NOTE = "UPDATE {schema}.meta SET value = {version} WHERE key = 'schema_version';\n"
_FIRST_NOTE = """INSERT INTO {schema}.meta
VALUES ('schema_version', {version}), ('server_started', {schema}.server_started());
"""
_BY_HAND = "BEGIN;\n{script}COMMIT;\n\n-- What a role needs that shall use it:\n{grants}"
_GRANTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role};",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};",
    "GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};",
)
_PLACEHOLDER = re.compile(r"\{(schema|settings|channel|fences|abandoned|version)\}")
_TABLES = ("tables",)
_FUNCTIONS = (
    *("pauses", "deciding", "claims", "holders", "asking", "backfills", "history", "pruning"),
    "absorbing",
)

# How many rows are new is answered since version 2, and what a function returns cannot be replaced;
# on which server it gave fences, a store of version 1 does not know.
_TO_VERSION_2 = """
DROP FUNCTION {schema}.absorb_jobs, {schema}.absorb_runs, {schema}.absorb_results;
INSERT INTO {schema}.meta VALUES ('server_started', 0);
"""

# Instances of version 2 that are running can still end their runs: what they do not send to those
# functions has a default. They cannot claim, since they do not know all answers. Whoever was let
# use the tables is let use the new ones.
_TO_VERSION_3 = """
ALTER TABLE {schema}.jobs ADD COLUMN paused_until bigint, ADD COLUMN once_at bigint;
ALTER TABLE {schema}.runs
    ADD COLUMN retries integer NOT NULL DEFAULT 0,
    ADD COLUMN origin text NOT NULL DEFAULT 'scheduled',
    ADD COLUMN cancelled boolean NOT NULL DEFAULT false;
ALTER TABLE {schema}.results ADD COLUMN retries integer NOT NULL DEFAULT 0;
CREATE INDEX runs_asked_for ON {schema}.runs (slot, job)
WHERE origin <> 'scheduled' AND state IN ('claimed', 'released');
CREATE TABLE {schema}.pauses (
    job text NOT NULL,
    paused_at bigint NOT NULL,
    resumed_at bigint,
    note text NOT NULL,
    PRIMARY KEY (job, paused_at)
);
CREATE TABLE {schema}.backfills (
    job text PRIMARY KEY,
    since bigint NOT NULL,
    until bigint NOT NULL,
    total bigint NOT NULL,
    instance text NOT NULL,
    asked_at bigint NOT NULL,
    cursor bigint,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    ended_at bigint
);
CREATE INDEX backfills_open ON {schema}.backfills (job) WHERE ended_at IS NULL;
DO $body$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT
            a.privilege_type AS what,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
            AS who
        FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = {channel}
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.relname = 'runs'
    LOOP
        EXECUTE format(
            'GRANT %1$s ON %2$I.pauses, %2$I.backfills TO %3$s', given.what, {channel}, given.who
        );
    END LOOP;
END
$body$;
ALTER TYPE {schema}.asked_claim ADD ATTRIBUTE pause_on_failure boolean;
ALTER TYPE {schema}.claim_answer ADD ATTRIBUTE retries integer, ADD ATTRIBUTE trigger text;
DROP FUNCTION IF EXISTS {schema}.claim, {schema}.finish, {schema}.save_results,
    {schema}.absorb_jobs, {schema}.absorb_runs, {schema}.absorb_results;
"""

CHANGES: Sequence[str] = (_TO_VERSION_2, _TO_VERSION_3)
"""Entry n leads from version n + 1 to version n + 2; ``{schema}`` stands for the quoted name.

Of tables, rows and types, and of functions that cannot be replaced by those of the newest version.
"""


def newest_version() -> int:
    """Return the version that this program knows."""
    return len(CHANGES) + 1


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    escaped = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{escaped}'"


def version_of(wire: Wire, schema: str) -> int:
    """Return the version of the schema, 0 where there is none that is ours."""
    # Asked first: a statement that fails would end the transaction that it is part of.
    if wire.ask(_HAS_META, [schema], ASK) is None:
        return 0
    found = wire.ask(in_schema(_VERSION, schema), [], ASK)
    return 0 if found is None else int(found)


def check_version(version: int, description: str) -> None:
    """Raise BackendMismatch for a store of a newer program."""
    if version > newest_version():
        raise BackendMismatch(
            f"the store {description} was made by a newer leasecron (schema {version}, this one "
            f"knows {newest_version()}): update leasecron here too"
        )


def make_ready(wire: Wire, schema: str, description: str) -> None:
    """Bring the schema up to date, all versions or none; raise BackendError where it cannot be."""
    version = 0
    wire.run("BEGIN; SET LOCAL statement_timeout = 0", ASK)
    try:
        wire.ask(f"SELECT pg_advisory_xact_lock({_ADVISORY})::text", [], _MIGRATION)
        version = version_of(wire, schema)  # asked again: another one may have been faster
        check_version(version, description)
        if version < newest_version():
            wire.run(_script(version, schema, new=not _exists(wire, schema)), _MIGRATION)
        wire.run("COMMIT", ASK)
    except ServerError as error:
        wire.run("ROLLBACK", ASK)
        refused = _refusal(error, version, description, wire.database)
        if refused is None:
            raise
        raise refused from error
    except BaseException:
        wire.close()
        raise


def _refusal(
    error: ServerError, version: int, description: str, database: str
) -> BackendError | None:
    """Say what has to be done where a store of this version cannot be brought up to date."""
    if error.code == DENIED and version:
        return BackendError(
            f"the store {description} is of an earlier version, and its user may not change that:"
            f" {error}. The role that made it has to run once: leasecron init, with the URL of this"
            " store and its own name in it"
        )
    if error.code == DENIED:
        return BackendError(
            f"the store {description} is not prepared, and its user may not do that: {error}. "
            f"A role that may has to run once: leasecron init --print-sql "
            f"{shlex.quote(description)} | psql -v ON_ERROR_STOP=1 {shlex.quote(database)}, and the"
            " GRANTs at its end"
        )
    if error.code in _THERE_ALREADY:
        return BackendMismatch(
            f"the schema of the store {description} holds tables of another program ({error}); "
            "nothing in it was changed: name another one with ?schema="
        )
    return None


def script_of(schema: str, user: str | None) -> str:
    """Return the SQL that makes a store, for whoever may execute it, in one transaction.

    The rights that ``user`` needs, or else a role called app, follow as comments.
    """
    names = {"schema": quoted(schema), "role": quoted(user) if user else "app"}
    # The end of a line in a name would end the comment, and begin what nobody has asked for.
    grants = [re.sub(r"[\r\n]", " ", grant.format(**names)) for grant in _GRANTS]
    commented = "".join(f"-- {grant}\n" for grant in grants)
    return _BY_HAND.format(script=_script(0, schema, new=True), grants=commented)


def in_schema(statement: str, schema: str) -> str:
    """Return a statement with the quoted name of the schema where ``{schema}`` stands."""
    return statement.replace("{schema}", quoted(schema))


def _exists(wire: Wire, schema: str) -> bool:
    return wire.ask(_HAS_SCHEMA, [schema], ASK) is not None


def _script(version: int, schema: str, *, new: bool) -> str:
    """Return what leads from a version to the newest; ``new`` makes the schema itself as well."""
    if version:
        steps = [*CHANGES[version - 1 :], _parts(_FUNCTIONS), _NOTE]
    else:
        # Only where there is none: the right to make one is asked for even then.
        steps = [*([_MAKE] if new else []), _parts(_TABLES + _FUNCTIONS), _FIRST_NOTE]
    texts = {
        "schema": quoted(schema),
        "settings": _SETTINGS,
        "channel": _literal(schema),
        "fences": _literal(f"{quoted(schema)}.fences"),
        "abandoned": _literal(ABANDONED),
        "version": str(newest_version()),
    }
    # At once: what is put in for one may look like another.
    return _PLACEHOLDER.sub(lambda found: texts[found[1]], "".join(steps))


@cache
def _parts(names: tuple[str, ...]) -> str:
    folder = files("leasecron.backends.postgres")
    parts = [folder.joinpath(f"{name}.sql").read_text("utf-8") for name in names]
    return "\n".join(parts)
