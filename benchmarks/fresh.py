"""Measurements in a process of their own: nothing that was measured before is in its memory."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]


class MeasurementFailed(Exception):
    """The process of a measurement ended without an answer; what it wrote is shown."""


def call(function: str, *arguments: Any) -> Any:
    """Call ``package.module:function`` in a fresh interpreter and return what it returns.

    Arguments and answer are plain values, since they travel as JSON. Raises
    :class:`MeasurementFailed`.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fresh", function, json.dumps(arguments)],
        cwd=_ROOT,  # where the interpreter finds this package
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MeasurementFailed(f"{function}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _main() -> None:
    where, _, name = sys.argv[1].partition(":")
    answer = getattr(importlib.import_module(where), name)(*json.loads(sys.argv[2]))
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
