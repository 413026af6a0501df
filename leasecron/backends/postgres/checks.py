"""What can be told of a PostgreSQL store in a few milliseconds, without changing anything."""

from __future__ import annotations

import json
import shlex
import time

from leasecron.backends.checks import Check
from leasecron.backends.postgres.connection import connect
from leasecron.backends.postgres.errors import translated
from leasecron.backends.postgres.schema import (
    ASK,
    check_version,
    newest_version,
    quoted,
    version_of,
)
from leasecron.backends.postgres.urls import Address
from leasecron.backends.postgres.wire import Wire
from leasecron.backends.server.checks import check_clock, check_round_trip
from leasecron.errors import BackendError, BackendMismatch

_FACTS = """
    SELECT json_build_array(
        current_setting('server_version'), current_setting('fsync'),
        current_setting('synchronous_commit'), current_setting('full_page_writes'),
        floor(extract(epoch FROM clock_timestamp()) * 1000)
    )::text
"""
_COUNTS = """
    SELECT json_build_array(
        (SELECT count(*) FROM {schema}.jobs),
        (SELECT count(*) FROM {schema}.runs AS r WHERE NOT lease_ended AND
            lease_until > {schema}.now_ms()),
        (SELECT count(*) FROM {schema}.runs AS r WHERE state IN ('claimed', 'released') AND
            (lease_ended OR lease_until <= {schema}.now_ms()))
    )::text
"""


def checks_of(wire: Wire, description: str) -> list[Check]:
    """Ask the server once."""
    asked = time.time()
    version, fsync, commit, pages, shown = json.loads(wire.ask(_FACTS, [], ASK) or "")
    offset = shown / 1000 - (asked + time.time()) / 2
    return [
        Check("server", "good", f"PostgreSQL {version}", "its functions are enough"),
        _check_durability(description, fsync, commit, pages),
        check_clock(offset),
        _check_session(pooled=wire.is_pooled(ASK)),
    ]


def examine(address: Address) -> list[Check]:
    """Look at a server and the store in it by a connection of its own."""
    description = address.description
    try:
        with translated(description):
            wire = connect(address.conninfo, description, first=True)
            try:
                return [
                    *checks_of(wire, description),
                    check_round_trip(lambda: wire.ask("SELECT 1", [], ASK)),
                    *_check_schema(wire, address),
                ]
            finally:
                wire.close()
    except BackendError as error:
        return [Check("server", "bad", "cannot be used", str(error))]


def _check_schema(wire: Wire, address: Address) -> list[Check]:
    version = version_of(wire, address.schema)
    if not version:
        command = f"leasecron init {shlex.quote(address.description)}"
        reason = f"there is no store yet: make it by {command}"
        return [Check("schema", "bad", "missing", reason)]
    try:
        check_version(version, address.description)
    except BackendMismatch as error:
        return [Check("schema", "bad", f"version {version}", str(error))]
    if version < newest_version():
        reason = "the first instance that starts brings it up to date"
        return [Check("schema", "warning", f"version {version}", reason)]
    name = quoted(address.schema)
    counts = wire.ask(_COUNTS.replace("{schema}", name), [], ASK) or ""
    jobs, live, waiting = json.loads(counts)
    return [
        Check("schema", "good", f"version {version}", "it is the one that this program knows"),
        Check("jobs", "good", f"{jobs:,}", "as many have been declared here"),
        Check("leases", "good", f"{live:,} live", f"{waiting:,} runs wait for a backup"),
    ]


def _check_durability(store: str, fsync: str, commit: str, pages: str) -> Check:
    found = f"fsync={fsync}, synchronous_commit={commit}, full_page_writes={pages}"
    if "off" in {fsync, pages}:
        reason = f"a crash of the server's machine may destroy the store {store}"
        return Check("durability", "bad", found, reason)
    if commit == "off":
        reason = (
            f"a crash of the server of {store} may take back what it committed in the last second:"
            " a finished run is run again"
        )
        return Check("durability", "warning", found, reason)
    return Check("durability", "good", found, "what was committed survives a loss of power")


def _check_session(*, pooled: bool) -> Check:
    if pooled:
        reason = "each transaction has a session of its own, of which nothing is expected"
        return Check("session", "good", "behind a pooler", reason)
    return Check("session", "good", "direct", "the server ends statements that take too long")
