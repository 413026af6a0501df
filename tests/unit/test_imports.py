"""What importing the package brings into a process, and what it leaves alone."""

import json
import subprocess
import sys

SMALL = {"cronsim", "durationpy", "leasecron"}
"""What an import of the package may bring in, beside the standard library."""

HEAVY = ("asyncio", "cronsim.explain", "hashlib", "secrets", "socket", "subprocess", "urllib")
"""Parts of the standard library, and of others, that cost more than all of this package."""

IMPORT = """
import json, sys
before = set(sys.modules)
import leasecron
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def brought_in() -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True, timeout=60
    )
    modules: list[str] = json.loads(done.stdout)
    assert "leasecron.scheduler" in modules
    return modules


def test_importing_the_package_brings_in_the_standard_library_and_two_small_packages() -> None:
    packages = {name.partition(".")[0] for name in brought_in()}
    # The compiled settings of the interpreter itself are a module of their own name.
    others = {p for p in packages if p not in sys.stdlib_module_names and p[0] != "_"}
    assert others == SMALL


def test_importing_the_package_leaves_the_heavy_ones_alone() -> None:
    assert [name for name in HEAVY if name in brought_in()] == []
