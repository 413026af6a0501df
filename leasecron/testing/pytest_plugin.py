"""The fixture ``leasecron_cluster``; pytest finds it wherever leasecron is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from leasecron.testing.cluster import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that replays a failure."""
    parser.getgroup("leasecron").addoption(
        "--leasecron-seed",
        type=int,
        default=0,
        help="seed of the simulated clusters whose test gives them none (default: 0)",
    )


@pytest.fixture
def leasecron_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Make a :class:`~leasecron.testing.Cluster`; takes what that takes, and closes it at the end.

    Without a ``seed`` it has that of ``--leasecron-seed``. What a failed test shows names it.
    """
    with ExitStack() as clusters:

        def make(*arguments: Any, **options: Any) -> Cluster:
            if len(arguments) < 3:
                options.setdefault("seed", request.config.getoption("--leasecron-seed"))
            cluster = Cluster(*arguments, **options)
            clusters.callback(cluster.close)
            print(f"replay with --leasecron-seed={cluster.clock.seed}: {cluster!r}")
            return cluster

        yield make
