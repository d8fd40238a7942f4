"""The same rows and questions for ContinualHistogram, BBScheduler over HistogramBox, and PMWG: an honest comparison.

    python -m experiments.compare_mechanisms [--quick] [--seed N]

ε = 1, δ = 10^-9, β = 0.05 for each mechanism; after every batch fresh random conjunctions, the same for all.

- *few cells*: N = 128 (seven attributes of two values, correlated), from 10^5 to 6·10^5 rows in 50 batches.
- *many cells*: the flights of 2013 over N = 20,736, January to April at first, then a week at a time.

Claimed: every error within its bound, every bound within the guarantee, the budget kept, all questions answered. With
few cells ContinualHistogram has the smallest guaranteed error, and a worst error below PMWG's. With many cells PMWG's
guaranteed error is below those of the other two. By the theorems an accuracy claim fails with probability at most β.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

import treering as tr
from experiments import flights_stream
from experiments.claims import Claims
from experiments.options import QUICK_BETA, options
from experiments.stream import Spender, Stream, Tally, spent_share
from treering.demo.flights import SCHEMA
from treering.domain.workload import random_conjunctions
from treering.protocols import Database

EPSILON, DELTA, BETA = 1.0, 1e-9, 0.05
FEW = tr.Schema({f"a{number}": tr.integers(0, 1) for number in range(7)})
START, BATCH = 100_000, 10_000
CONTINUAL, SCHEDULED = "ContinualHistogram", "BBScheduler, HistogramBox()"


class Mechanism(Spender, Protocol):
    """What is compared."""

    def ask_many(self, queries: Iterable[tr.Query]) -> list[tr.Answer]:
        """Answers to a batch."""

    @property
    def guarantee(self) -> tr.Guarantee:
        """What is promised now."""


Make = Callable[[Database, float], Mechanism]


def pmwg(alpha: float) -> Make:
    """PMWG with this alpha, which its user chooses."""
    return lambda db, beta: tr.PMWG(db, EPSILON, DELTA, alpha=alpha, beta=beta)


BOTH: Mapping[str, Make] = {
    CONTINUAL: lambda db, beta: tr.ContinualHistogram(db, EPSILON, DELTA, beta),
    SCHEDULED: lambda db, beta: tr.BBScheduler(db, tr.HistogramBox(), EPSILON, DELTA, beta),
}


@dataclass
class Outcome:
    """What came of one mechanism."""

    name: str
    alpha: float = 0.0
    """The largest guarantee that it ever stated."""
    tally: Tally = field(default_factory=Tally)
    errors: list[float] = field(default_factory=list)
    spent: float = 0.0

    def add(self, mechanism: Mechanism, queries: Sequence[tr.Query], truths: npt.NDArray[np.float64]) -> None:
        """Ask, and compare."""
        answers = mechanism.ask_many(queries)
        self.alpha = max(self.alpha, mechanism.guarantee.alpha)
        self.tally.add(answers, truths)
        self.errors += np.abs(np.array([answer.value for answer in answers]) - truths).tolist()
        self.spent = spent_share(mechanism)


def few_cells(batches: int, generator: np.random.Generator) -> Iterator[Stream]:
    """A stream over 128 cells, given again after each batch."""
    stream = Stream(FEW)
    stream.append(rows(START, generator))
    yield stream
    for _ in range(batches):
        stream.append(rows(BATCH, generator))
        yield stream


def rows(count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Random rows as cells: every attribute is mostly 0, and often what the one before it is."""
    values = generator.random((count, len(FEW.shape))) < 0.3
    copied = generator.random((count, len(FEW.shape))) < 0.4
    for place in range(1, len(FEW.shape)):
        values[:, place] = np.where(copied[:, place], values[:, place - 1], values[:, place])
    cells: npt.NDArray[np.int64] = np.ravel_multi_index(tuple(values.T.astype(np.int64)), FEW.shape)
    return cells


def compare(
    streams: Iterable[Stream], makes: Mapping[str, Make], queries: int, beta: float, generator: np.random.Generator
) -> list[Outcome]:
    """Stream past all mechanisms, each with a promise of its own."""
    outcomes = [Outcome(name) for name in makes]
    mechanisms: list[Mechanism] = []
    for stream in streams:
        mechanisms = mechanisms or [make(stream.database, beta) for make in makes.values()]
        asked = random_conjunctions(stream.schema, queries, generator)
        truths = stream.shares(asked)
        for outcome, mechanism in zip(outcomes, mechanisms, strict=True):
            outcome.add(mechanism, asked, truths)
    return outcomes


def report(title: str, outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """A table, and the outcomes by name."""
    print(f"{title}: {outcomes[0].tally.answered:,} questions")
    heads = ("guaranteed", "widest bound", "worst error", "mean error", "  spent")
    print(f"  {'mechanism':<28} {' '.join(heads)}")
    for each in outcomes:
        tally, mean = each.tally, float(np.mean(each.errors))
        print(
            f"  {each.name:<28} {each.alpha:>10.4f} {tally.widest_bound:>12.4f} {tally.worst_error:>11.4f} "
            f"{mean:>10.5f} {each.spent:>7.1%}"
        )
    return {each.name: each for each in outcomes}


def claim_all(claims: Claims, outcomes: Sequence[Outcome]) -> None:
    """What holds of every mechanism."""
    for each in outcomes:
        claims.accurate(each.name, each.tally, each.alpha)
        claims.at_most(f"{each.name}: share of the budget spent", each.spent, 1.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both comparisons and check the claims."""
    given = options(__doc__, arguments)
    batches, step, queries, beta = (5, 80, 40, QUICK_BETA) if given.quick else (50, 7, 100, BETA)
    generator, claims = np.random.default_rng(given.seed), Claims()
    makes = {**BOTH, "PMWG, alpha = 0.05": pmwg(0.05), "PMWG, alpha = 0.02": pmwg(0.02)}
    outcomes = compare(few_cells(batches, generator), makes, queries, beta, generator)
    few = report(f"few cells: {FEW.cells}", outcomes)
    claim_all(claims, outcomes)
    others = [each.alpha for name, each in few.items() if name != CONTINUAL]
    claims.at_most(f"{CONTINUAL}: guarantee", few[CONTINUAL].alpha, min(others))
    worst = few["PMWG, alpha = 0.05"].tally.worst_error
    claims.at_most(f"{CONTINUAL}: worst error", few[CONTINUAL].tally.worst_error, worst)

    makes = {**BOTH, "PMWG, alpha = 0.05": pmwg(0.05)}
    outcomes = compare(flights_stream.stream_of_flights(step=step), makes, queries, beta, generator)
    report(f"many cells: {SCHEMA.cells:,}", outcomes)
    claim_all(claims, outcomes)
    claims.at_most("PMWG: alpha", 0.05, min(each.alpha for each in outcomes if each.name in BOTH))
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
