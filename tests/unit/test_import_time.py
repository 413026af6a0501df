"""What importing the package costs, and what it leaves alone."""

import json
import os
import subprocess
import sys

STANDARD = "contextvars, dataclasses, inspect, json, logging, queue, sqlite3, typing, zoneinfo"
MOST = 3.5
"""Importing the package takes less than this many times what those modules take that it needs.

They take 28 ms on the machine where this was set, so that the package stays under 100 ms there.
"""
HEAVY = ("click", "cronsim.explain", "django", "flask", "rich", "sqlite_utils")

IMPORT = """
import json, sys, time
began = time.process_time()
import {modules}
took = time.process_time() - began
print(json.dumps([took, sorted(sys.modules)]))
"""


# An installed package is compiled; here the first import shall compile it for the others.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def imported(modules: str) -> tuple[float, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT.format(modules=modules)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
    )
    took, loaded = json.loads(done.stdout)
    return took, loaded


def test_importing_the_package_takes_little_more_than_the_standard_library_that_it_needs() -> None:
    # What else the machine does can only add to a measurement, so the shortest ones count.
    reference, package = float("inf"), float("inf")
    for _ in range(10):
        reference = min(reference, imported(STANDARD)[0])
        package = min(package, imported("leasecron")[0])
    print(f"package {package * 1000:.0f} ms, standard library {reference * 1000:.0f} ms")
    assert package < MOST * reference


def test_importing_the_package_leaves_the_heavy_ones_alone() -> None:
    _, modules = imported("leasecron")
    assert "leasecron.scheduler" in modules
    assert [name for name in HEAVY if name in modules] == []
