"""20,000 random questions about a table that doubles: what PMWG spends when it measures first, and when it only guards.

    python -m experiments.pmwg_synthetic [--quick] [--seed N]

N = 4,096 cells (six attributes of four values, skewed and correlated), from 10^6 to 2·10^6 rows, ε = 1, δ = 10^-9,
β = 0.05, random conjunctions of one to three attributes. Claimed: every error within its bound, every bound within
α; at most 3% of the budget spent at α = 0.05, at most 12% at α = 0.02. By the theorem an accuracy claim fails with
probability at most β.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

import treering as tr
from experiments.claims import Claims
from experiments.options import QUICK_BETA, options
from experiments.stream import Stream, Tally, spent_share
from treering.domain.workload import random_conjunctions

EPSILON, DELTA = 1.0, 1e-9
START = 1_000_000
SCHEMA = tr.Schema({f"a{number}": tr.integers(0, 3) for number in range(6)})
VALUES = (0.5, 0.25, 0.15, 0.1)
MOST_SPENT = {0.05: 0.03, 0.02: 0.12}


@dataclass(frozen=True)
class Setting:
    """How long a run is, and with what probability it may fail."""

    queries: int
    batches: int
    beta: float


FULL, QUICK = Setting(20_000, 100, 0.05), Setting(1_000, 10, QUICK_BETA)


def rows(count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Random rows as cells: skewed values, the second attribute often the first, the fourth often the third."""
    values = generator.choice(len(VALUES), size=(count, len(SCHEMA.shape)), p=VALUES)
    values[:, 1] = np.where(generator.random(count) < 0.6, values[:, 0], values[:, 1])
    values[:, 3] = np.where(generator.random(count) < 0.4, values[:, 2], values[:, 3])
    cells: npt.NDArray[np.int64] = np.ravel_multi_index(tuple(values.T), SCHEMA.shape)
    return cells


def run(alpha: float, measure_first: bool, setting: Setting, seed: int) -> tuple[Tally, tr.PMWG]:
    """Stream rows and questions in turn, to the end or until the budget is spent."""
    generator = np.random.default_rng(seed)
    stream, tally = Stream(SCHEMA), Tally()
    stream.append(rows(START, generator))
    mechanism = tr.PMWG(stream.database, EPSILON, DELTA, alpha=alpha, beta=setting.beta, measure_first=measure_first)
    queries = random_conjunctions(SCHEMA, setting.queries, generator)
    cuts = np.linspace(0, setting.queries, setting.batches + 1).astype(int).tolist()
    for number, (first, last) in enumerate(pairwise(cuts)):
        wanted = START + START * number // (setting.batches - 1)
        stream.append(rows(wanted - stream.database.size, generator))
        batch = queries[first:last]
        try:
            tally.add(mechanism.ask_many(batch), stream.shares(batch))
        except tr.BudgetExceeded as refusal:
            released = [answer for answer in refusal.answers if isinstance(answer, tr.Answer)]
            tally.add(released, stream.shares(batch))
            break
    return tally, mechanism


def report(name: str, tally: Tally, mechanism: tr.PMWG, queries: int) -> None:
    """One line of what came out."""
    end = "" if tally.answered == queries else f"; the budget ran out at query {tally.answered + 1:,}"
    print(
        f"{name}: {tally.answered:,} of {queries:,} answered{end}; spent {spent_share(mechanism):.2%}; "
        f"worst error {tally.worst_error:.4f}; {tally.describe_kinds()}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all three and check the claims."""
    given = options(__doc__, arguments)
    setting, claims = QUICK if given.quick else FULL, Claims()
    for alpha, most in MOST_SPENT.items():
        tally, mechanism = run(alpha, True, setting, given.seed)
        name = f"alpha={alpha}, measure first"
        report(name, tally, mechanism, setting.queries)
        claims.accurate(name, tally, alpha)
        claims.at_most(f"{name}: share of the budget spent", spent_share(mechanism), most)
        claims.at_most(f"{name}: queries not answered", setting.queries - tally.answered, 0)
    tally, mechanism = run(0.02, False, setting, given.seed)
    report("alpha=0.02, guard only", tally, mechanism, setting.queries)
    claims.accurate("alpha=0.02, guard only", tally, 0.02)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
