"""The chaos run as a command: places, faults, instances, checker, report."""

import argparse
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chaos.checker import check
from chaos.driver import Chaos, kinds_to_be_had
from chaos.kept import read_kept
from chaos.log import read_lines
from chaos.place import Place, PlaceError
from chaos.plan import plan
from chaos.report import defects_told, summary
from chaos.telling import tell
from chaos.violation import violation

QUIET = 25.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 1 if a promise was broken, 2 if it cannot be run like this."""
    given = _parser().parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    try:
        place = Place(given.store, given.journal)
    except PlaceError as error:
        print(error)
        return 2
    print(f"seed: {seed}\nstore: {place.url}\nminutes: {given.minutes:g}", flush=True)
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=memory if memory.is_dir() else None))
    code = 1
    try:
        code = _run(place, folder, seed, given.minutes * 60.0, given.quiet)
    finally:
        if code == 0 and not given.keep:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}")
    return code


def _run(place: Place, folder: Path, seed: int, seconds: float, quiet: float) -> int:
    with place.made():
        kinds, lacks = kinds_to_be_had(place)
        for lack in lacks:
            print(f"not tried: {lack}", flush=True)
        chaos = Chaos(place, folder, with_clocks="clock" in kinds)
        chaos.run(plan(seed, seconds, kinds), seconds, quiet)
        kept = read_kept(place)
        shutil.copytree(place.folder, folder / "store")
    story = tell(read_lines(chaos.log_path), leases=place.kind == "sqlite")
    verdict = check(story, kept)
    for line in defects_told(sorted(folder.glob("errors-*"))):
        verdict.violations.append(violation("an instance met a defect of its own", line))
    if not story.attempts:  # a proof of nothing
        verdict.violations.append(violation("nothing was run", "no handler was ever called"))
    for line in summary(story, kept, verdict):
        print(line)
    return 1 if verdict.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--store",
        required=True,
        metavar="URL",
        help="sqlite:////ABSOLUTE/FOLDER/FILE.db or lockdir:////ABSOLUTE/FOLDER; the folder must"
        " not exist; if the one above does not either, it becomes a small filesystem (as root)",
    )
    parser.add_argument("--journal", choices=("auto", "wal", "delete"), default="auto")
    parser.add_argument("--minutes", type=float, default=5.0, help="for which faults happen")
    parser.add_argument("--seed", type=int, help="of the faults; without it one is drawn")
    parser.add_argument("--quiet", type=float, default=QUIET, help="seconds without faults, after")
    parser.add_argument("--keep", action="store_true", help="keep logs and store in any case")
    return parser
