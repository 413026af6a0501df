"""What can be told of a Redis store in a few milliseconds, without changing anything."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping

from redis.exceptions import MovedError, ResponseError

from leasecron.backends.checks import Check
from leasecron.backends.redis.errors import translated
from leasecron.backends.redis.scripts import OLDER, VERSION, keys_of
from leasecron.backends.redis.urls import Address, Node
from leasecron.backends.redis.wire import Wire
from leasecron.backends.server.checks import check_clock, check_round_trip
from leasecron.errors import BackendError, BackendUnavailable

_RUN_AGAIN = "a run that had ended or was at work may then be run again"


_REDIRECTIONS = 3


def checks_of(wire: Wire, store: str) -> list[Check]:
    """Ask the server once."""
    asked = time.time()
    seconds, microseconds = wire.command("TIME")
    offset = int(seconds) + int(microseconds) / 1e6 - (asked + time.time()) / 2
    info = wire.info()
    fsync = _setting(wire, "appendfsync")
    if fsync == "always" and _setting(wire, "no-appendfsync-on-rewrite") == "yes":
        fsync = "always, but not on rewrite"
    needed = _setting(wire, "min-replicas-to-write")
    return [
        _check_server(info),
        _check_persistence(store, info, fsync),
        _check_replicas(store, info, needed),
        _check_memory(store, info),
        check_clock(offset),
    ]


def stored_version(address: Address) -> str | None:
    """Return the version of what is stored under a prefix, None where there is nothing."""
    with translated(address.description, lambda: False):
        wire, version = _looking(address)
        wire.close()
        return version


def examine(address: Address) -> list[Check]:
    """Look at a server and the store in it by a connection of its own."""
    try:
        with translated(address.description, lambda: False):
            wire, version = _looking(address)
            try:
                return [
                    *checks_of(wire, address.description),
                    check_round_trip(lambda: wire.command("PING")),
                    *_check_contents(wire, address, version),
                ]
            finally:
                wire.close()
    except BackendError as error:
        return [Check("server", "bad", "cannot be used", str(error))]


def _looking(address: Address) -> tuple[Wire, str | None]:
    """Connect to where the store is, or would be, and return what version it has."""
    node: Node | None = None
    for _ in range(_REDIRECTIONS):
        wire = Wire(address, node)
        try:
            found = wire.command("HGET", keys_of(address.prefix)[0], "version")
        except MovedError as error:
            wire.close()
            node = (error.host or str(address.options.get("host", "localhost")), error.port)
        except BaseException:
            wire.close()
            raise
        else:
            return wire, None if found is None else found.decode(errors="replace")
    raise BackendUnavailable(f"the nodes of the store {address.description} do not agree on it")


def _check_contents(wire: Wire, address: Address, version: str | None) -> list[Check]:
    if version is None:
        command = f"leasecron init {shlex.quote(address.description)}"
        reason = f"there is no store yet: the first instance makes it, or {command}"
        return [Check("layout", "bad", "missing", reason)]
    if version in OLDER:
        reason = "the first instance that starts brings it up to date"
        return [Check("layout", "warning", f"version {version}", reason)]
    if version != str(VERSION):
        reason = f"it was made by another version of leasecron, which knows more than {VERSION}"
        return [Check("layout", "bad", f"version {version}", reason)]
    _meta, jobs, runs, _slots, opened, _pruned, records, *_others = keys_of(address.prefix)
    counts = [int(wire.command("HLEN", key)) for key in (jobs, runs, records, opened)]
    found = "{:,} jobs, {:,} runs, {:,} results".format(*counts)
    return [
        Check("layout", "good", f"version {version}", "it is the one that this program knows"),
        Check("rows", "good", found, f"{counts[3]:,} jobs have runs that are open"),
    ]


def _setting(wire: Wire, name: str) -> str | None:
    """Return a setting of the server; None where it may not be asked for."""
    try:
        found = wire.command("CONFIG", "GET", name)
    except ResponseError:
        return None
    return found[1].decode(errors="replace") if len(found) > 1 else None


def _check_server(info: Mapping[str, str]) -> Check:
    name, version = "Redis", info.get("redis_version", "of a version that it does not say")
    if "valkey_version" in info:
        name, version = "Valkey", info["valkey_version"]
    mode = " in a cluster" if info.get("cluster_enabled") == "1" else ""
    return Check("server", "good", f"{name} {version}{mode}", "its scripts are enough")


def _check_persistence(store: str, info: Mapping[str, str], fsync: str | None) -> Check:
    if not info:
        reason = (
            f"whether the store {store} survives a restart of its server could not be asked: where"
            f" it does not, {_RUN_AGAIN}"
        )
        return Check("persistence", "warning", "unknown", reason)
    if info.get("aof_enabled") == "0":
        reason = (
            f"the server of {store} keeps no append-only file (appendonly no): restarted, it comes"
            f" back without its latest writes, or empty, and {_RUN_AGAIN}"
        )
        return Check("persistence", "warning", "appendonly=no", reason)
    found = f"appendonly=yes, appendfsync={fsync or 'unknown'}"
    if fsync == "always":
        return Check("persistence", "good", found, "what was answered survives a loss of power")
    if fsync is None:
        reason = (
            f"how often the server of {store} syncs its append-only file could not be asked: a"
            f" crash of its machine may take back what it answered last, and {_RUN_AGAIN}"
        )
    else:
        span = "its last second" if fsync == "everysec" else "the last half minute and more"
        reason = (
            f"a crash of the machine of {store} may take back {span} (appendfsync {fsync}), and"
            f" {_RUN_AGAIN}"
        )
    return Check("persistence", "warning", found, reason)


def _check_replicas(store: str, info: Mapping[str, str], needed: str | None) -> Check:
    if not info:
        reason = (
            f"whether {store} has replicas could not be asked: they follow late, so a failover may"
            f" take back what was answered last, and {_RUN_AGAIN}"
        )
        return Check("replicas", "warning", "unknown", reason)
    replicas = info.get("connected_slaves", "0")
    if replicas == "0":
        return Check("replicas", "good", "none", "there is no failover that could lose writes")
    found = f"{replicas} connected, min-replicas-to-write={needed or 'unknown'}"
    if needed in {None, "0"}:
        reason = (
            f"the server of {store} answers before its replicas know, and with"
            f" min-replicas-to-write {needed or 'unknown'} it may go on alone: a failover takes"
            f" back what they did not get, and {_RUN_AGAIN}"
        )
        return Check("replicas", "warning", found, reason)
    reason = (
        "a server cut off from its replicas soon takes no more writes; a failover can still take"
        " back those of the last moment"
    )
    return Check("replicas", "good", found, reason)


def _check_memory(store: str, info: Mapping[str, str]) -> Check:
    policy = info.get("maxmemory_policy")
    if policy is None:
        reason = (
            f"whether the server of {store} may evict keys could not be asked: it must not, so let"
            " maxmemory-policy be noeviction"
        )
        return Check("memory", "warning", "unknown", reason)
    if policy == "noeviction" or policy.startswith("volatile-"):
        reason = "no key of the store can be evicted, since none has an end of its own"
        return Check("memory", "good", f"maxmemory-policy={policy}", reason)
    found = f"maxmemory-policy={policy}, maxmemory={info.get('maxmemory', 'unknown')}"
    has_limit = info.get("maxmemory") != "0"
    reason = (
        f"the server of {store} evicts keys when its memory"
        f" {'is full' if has_limit else 'gets a limit'} (maxmemory-policy {policy}), and with a key"
        " of the store it forgets runs: set it to noeviction"
    )
    return Check("memory", "bad" if has_limit else "warning", found, reason)
