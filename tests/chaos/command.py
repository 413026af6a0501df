"""The chaos run as a command: places, faults, instances, checker, report."""

import argparse
import resource
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.any_place import AnyPlace, contents_of, place_of
from chaos.checker import check, check_jobs
from chaos.driver import Chaos, kinds_to_be_had
from chaos.jobs import parts, works_for
from chaos.log import path_of_part, read_lines
from chaos.place import SIZE, PlaceError
from chaos.plan import plan
from chaos.report import defects_told, summary
from chaos.story import Story
from chaos.telling import tell, tell_part
from chaos.verdict import Verdict
from chaos.violation import violation

_LOG, _KEPT = 2.0, 0.03
"""Megabytes that a store needs more for each swift run a second, and for each of them and minute.

The first are for the log of a SQLite store, which grows by 25 KB with each run while a process that
was stopped in the middle of it keeps it from being written back. A disk that it fills stays full.
"""

QUIET = 25.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 1 if a promise was broken, 2 if it cannot be run like this."""
    given = _parser().parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    try:
        megabytes = SIZE + round(given.rate * (_LOG + _KEPT * given.minutes))
        place = place_of(given.store, given.journal, megabytes)
    except PlaceError as error:
        print(error)
        return 2
    print(f"seed: {seed}\nstore: {place}\nminutes: {given.minutes:g}", flush=True)
    print(f"runs a second beside the others: {given.rate}", flush=True)
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=memory if memory.is_dir() else None))
    code = 1
    try:
        code = _run(place, folder, seed, given)
    finally:
        if code == 0 and not given.keep:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}")
    return code


def _run(place: AnyPlace, folder: Path, seed: int, given: argparse.Namespace) -> int:
    seconds = given.minutes * 60.0
    with place.made():
        kinds, lacks = kinds_to_be_had(place)
        for lack in lacks:
            print(f"not tried: {lack}", flush=True)
        chaos = Chaos(place, folder, rate=given.rate, with_clocks="clock" in kinds, seed=seed)
        chaos.run(plan(seed, seconds, kinds), seconds, given.quiet)
        began = time.monotonic()
        story, verdict = _judged(chaos.log_path, place, given.rate)
        took = time.monotonic() - began
        place.keep(folder)
    for line in defects_told(sorted(folder.glob("errors-*"))):
        verdict.violations.append(violation("an instance met a defect of its own", line))
    if not verdict.attempts:  # a proof of nothing
        verdict.violations.append(violation("nothing was run", "no handler was ever called"))
    for line in summary(story, verdict):
        print(line)
    print(f"judged in {took:.0f} s, with {_most_memory():.0f} MB at most")
    return 1 if verdict.violations else 0


def _judged(log: Path, place: AnyPlace, rate: int) -> tuple[Story, Verdict]:
    contents = contents_of(place)
    story = tell(read_lines(log), leases=place.leases, has_clock=place.has_clock)
    kept = contents.of(works_for(leases=place.leases))
    kept.integrity = contents.integrity()
    verdict = check(story, kept)
    for number, works in enumerate(parts(rate)):
        part = tell_part(story, read_lines(path_of_part(log, number)))
        verdict.add(check_jobs(part, contents.of(works), works))
    return story, verdict


def _most_memory() -> float:
    """Return the most that this process has had at once, in megabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--store",
        required=True,
        metavar="STORE",
        help="postgres or redis, for a server that is started for this alone, or"
        " sqlite:////ABSOLUTE/FOLDER/FILE.db or lockdir:////ABSOLUTE/FOLDER; the folder must"
        " not exist; if the one above does not either, it becomes a small filesystem (as root)",
    )
    parser.add_argument("--journal", choices=("auto", "wal", "delete"), default="auto")
    parser.add_argument("--minutes", type=float, default=5.0, help="for which faults happen")
    parser.add_argument(
        "--rate",
        type=int,
        default=0,
        metavar="N",
        help="short runs a second in all, beside those of the other jobs",
    )
    parser.add_argument("--seed", type=int, help="of the faults; without it one is drawn")
    parser.add_argument("--quiet", type=float, default=QUIET, help="seconds without faults, after")
    parser.add_argument("--keep", action="store_true", help="keep logs and store in any case")
    return parser
