"""Flights by day, kept current: the continual histogram by square roots beside the trees it had before, in one run.

    python -m experiments.series_flights [--quick] [--seed N]

ε = 1, δ = 10^-6; all cells, a leaf a day from the first day of the year, random conjunctions after every day, the same
for both. The quick run has 60 days and few cells.

Claimed: by square roots the mean error of a cell, over all cells and days of the year, is at most 0.7 of that by trees,
and over the last thirty days at most 0.62; no answer is outside its error; and no row is above the promise, counted
exactly. (Errors are taken before answers are clipped to what is possible: a count that cannot be negative hides the
larger noise of trees.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

import treering as tr
from experiments.claims import Claims
from experiments.flights_stream import LAST_DAY, stream_of_flights
from experiments.options import QUICK_BETA, options
from experiments.stream import Stream, Tally
from treering.demo.flights import SCHEMA
from treering.domain.workload import random_conjunctions
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.series.base import Series
from treering.mechanisms.series.tree import TreeSeries

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
QUICK_SCHEMA = tr.Schema({name: SCHEMA.attributes[name] for name in ("origin", "month")})
QUESTIONS = 20


class ByTrees(ContinualHistogram):
    """The continual histogram as it was: trees under any promise."""

    def _new_series(self) -> Series:
        return TreeSeries(super()._new_series().groups, self._gate.budget)


def year(days: int, schema: tr.Schema) -> Iterator[Stream]:
    """The stream, day by day."""
    for day, stream in enumerate(stream_of_flights(schema, start=1)):
        if day == days:
            return
        yield stream


def largest_excess(histogram: ContinualHistogram) -> Fraction:
    """By how much any row is above the promise: checked for every position, and the next."""
    gate, budget = histogram._gate, histogram._gate.budget
    return (
        max(-gate.left(position) for position in range(1, gate.size + 2)) if gate.spent <= budget.total else gate.spent
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    days, schema, beta = (60, QUICK_SCHEMA, QUICK_BETA) if given.quick else (LAST_DAY, SCHEMA, BETA)
    generator = np.random.default_rng(given.seed)
    errors: dict[str, list[float]] = {"square roots": [], "trees": []}
    tallies = {name: Tally() for name in errors}
    made: dict[str, ContinualHistogram] = {}
    for stream in year(days, schema):
        if not made:
            made = {
                "square roots": ContinualHistogram(stream.database, EPSILON, DELTA, beta),
                "trees": ByTrees(stream.database, EPSILON, DELTA, beta),
            }
        asked = random_conjunctions(schema, QUESTIONS, generator)
        truths = stream.shares(asked)
        for name, histogram in made.items():
            answers = histogram.ask_many(asked)
            tallies[name].add(answers, truths)
            errors[name].append(float(np.mean(np.abs(histogram.counts() - stream.counts))))
    size = made["trees"]._gate.size
    print(f"{days} days, {size:,} rows, {schema.cells:,} cells; mean errors in rows")
    claims = Claims()
    late = slice(-30, None)
    for period, part, limit in (("the whole time", slice(None), 0.7), ("the last 30 days", late, 0.62)):
        roots, trees = (float(np.mean(errors[name][part])) for name in ("square roots", "trees"))
        print(f"  {period}: {roots:.1f} by square roots, {trees:.1f} by trees")
        # Sixty days with few cells are too few for the limits of a year.
        claims.at_most(f"{period}: ratio", roots / trees, 1.0 if given.quick else limit)
    for name, tally in tallies.items():
        claims.accurate(name, tally, 1.0)
    claims.at_most("largest charge of a row above the promise", float(largest_excess(made["square roots"])), 0.0)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
