"""An instance that claims many jobs at one slot in one call of the store, when it is told to."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.workers import child
from benchmarks.workers.claims import claims_of, endings_of, results_of
from benchmarks.workers.transactions import Transactions
from benchmarks.workers.watched import Watched
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.model import Claim, ClaimAnswer


def main() -> None:
    """Claim at the slots that are told; end and record what was won once all others have lost."""
    given = child.arguments()
    transactions = Transactions()
    store = Watched(SqliteBackend(given["store"]))
    store.open()
    names = [f"job-{number}" for number in range(given["jobs"])]
    claims: list[Claim] = []
    answers: list[ClaimAnswer] = []
    child.say(ready=True)
    for order in child.told():
        store.spent.clear()
        transactions.writing = 0
        if "slot" in order:
            claims = claims_of(names, order["slot"], f"instance-{given['number']}")
            with transactions.counting(on=order["counted"]):
                answers = store.claim(claims)
        else:
            store.finish(endings_of(claims))
            store.save_results(results_of(claims, answers))
        outcomes = Counter(answer.outcome for answer in answers)
        child.say(outcomes=outcomes, writing=transactions.writing, **_spent(store))
    store.close()


def _spent(store: Watched) -> dict[str, Any]:
    spent = store.spent.values()
    return {
        "processor": sum(each.processor for each in spent),
        "wall": sum(each.wall for each in spent),
    }


if __name__ == "__main__":
    main()
