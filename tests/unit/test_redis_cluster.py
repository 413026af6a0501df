"""A Redis Cluster: a store is at one node of it, which is found, and found again."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from redis.crc import key_slot
from redis_support import Server, claim, until

from leasecron.backends.redis.backend import RedisBackend
from leasecron.errors import BackendUnavailable

SLOTS = ((0, 8191), (8192, 16383))


class Cluster:
    """Two masters, and a replica of the one that has the store."""

    def __init__(self) -> None:
        self.nodes = [_node() for _ in range(3)]
        for node, (first, last) in zip(self.nodes, SLOTS, strict=False):
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in self.nodes[1:]:
            host, port = self.nodes[0].place.split(":")
            bus = self.nodes[0].client.config_get("cluster-port")["cluster-port"]
            node.client.execute_command("CLUSTER", "MEET", host, port, bus)
        slot = key_slot(b"leasecron")
        self.owner = self.nodes[0 if slot <= SLOTS[0][1] else 1]
        self.other = self.nodes[1 if self.owner is self.nodes[0] else 0]
        self.replica = self.nodes[2]
        until(lambda: all(_is_whole(node) for node in self.nodes))
        name = self.owner.client.execute_command("CLUSTER", "MYID")
        self.replica.client.execute_command("CLUSTER", "REPLICATE", name)
        until(lambda: self.replica.client.info()["role"] == "slave")
        until(lambda: self.replica.client.info()["master_link_status"] == "up")
        until(lambda: all(len(_ports(node)) == 3 for node in self.nodes))

    def fail_over(self) -> None:
        """Let the replica take the place of its master, without asking anybody."""
        self.owner.client.wait(1, 1000)
        self.replica.client.execute_command("CLUSTER", "FAILOVER", "TAKEOVER")
        until(lambda: self.replica.client.info()["role"] == "master")
        self.owner, self.replica = self.replica, self.owner


def _node() -> Server:
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        bus = chosen.getsockname()[1]
    return Server(**{"cluster-enabled": "yes", "cluster-port": bus, "cluster-node-timeout": 1000})


def _is_whole(node: Server) -> bool:
    return b"cluster_state:ok" in node.client.execute_command("CLUSTER", "INFO")


def _ports(node: Server) -> set[int]:
    """Return the ports of all nodes of which one of them tells its clients."""
    ranges = node.client.execute_command("CLUSTER", "SLOTS")
    return {found[1] for each in ranges for found in each[2:]}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    for node in made.nodes:
        node.end()


@pytest.mark.slow  # nodes take seconds to know each other
def test_a_store_is_found_from_any_node_and_after_a_failover(cluster: Cluster) -> None:
    backends = [RedisBackend(node.url) for node in cluster.nodes]
    for backend in backends:
        backend.open()
    assert claim(backends[0], "a").outcome == "won"
    assert [claim(backend, "b").outcome for backend in backends] == ["running"] * 3
    assert "in a cluster" in backends[0].checks()[0].found

    cluster.fail_over()
    cluster.replica.kill()
    for backend in backends:
        with pytest.raises(BackendUnavailable):
            claim(backend, "b")
        assert claim(backend, "b").outcome == "running"

    cluster.other.kill()
    for backend in backends:  # of which none has its node of the URL, but for one
        backend.suspend()
        assert claim(backend, "b").outcome == "running"
        backend.close()
