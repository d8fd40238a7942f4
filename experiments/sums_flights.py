"""AVG and SUM of the flights: departure delay, distance and time in the air, by carrier, by month and by both.

    python -m experiments.sums_flights [--quick] [--seed N]

All 336,776 flights, ε = 1, δ = 10^-6, a pace of 25: each column and grouping is a series at the usual price, a 31st of
the promise. Delays are declared as −60 to 600 minutes, distances as 0 to 5,000 miles, times as 0 to 720 minutes, in
whole steps; the truth is that of values clipped to these bounds. The full run makes 20 independent releases, the quick
one 3. Both are free of public randomness: a seed changes nothing.

Claimed: between 94% and 96.5% of the numbers lie within their margins (quick: 90% to 99%), and none is beyond its
error; each margin is at most 1.3 times what theory.md 11.6 gives at the price paid (``theory/sums.py``: Fieller's
interval at the true sum and count, whose deviations are √(2/price) rows). Averages are looked at where a group has at
least 14 times as many flights as the margin of their number: half of the averages at least. (In smaller groups the
interval holds as well, but its width depends on how the noise of the number of flights fell.)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

import treering as tr
from experiments.claims import Claims
from experiments.options import QUICK_BETA, options
from treering.arrays import Floats, Ints
from treering.demo.flights import CARRIERS, flights
from treering.demo.story import DELTA, EPSILON
from treering.domain.language.measures import Count, Mean, Measure, Release, Request, Sum
from treering.domain.sums import Grid
from treering.theory.rings import NORMAL
from treering.theory.sums import fieller

COLUMNS: Final = {
    "delay": tr.numbers(-60, 600, step=1, edges=[-15, 0, 15, 60]),
    "distance": tr.numbers(0, 5000, step=1, edges=[500, 1000, 2000]),
    "air_time": tr.numbers(0, 720, step=1, edges=[60, 120, 240]),
}
SCHEMA: Final = tr.Schema({"carrier": tr.categories(*CARRIERS), "month": tr.integers(1, 12), **COLUMNS})
GROUPINGS: Final = (("carrier",), ("month",), ("carrier", "month"))
BETA, RUNS, QUICK_RUNS, MOST = 0.05, 20, 3, 1.3

ENOUGH: Final = 14
"""How many times the margin of its number of flights a group must have, for its averages to be looked at."""


class Number(NamedTuple):
    """An estimate, beside the truth and the margin that theory gives; ``known``: whether the group is large enough."""

    estimate: tr.Estimate
    truth: float
    theory: float
    known: bool
    average: bool


class Truth:
    """The values of the flights, clipped, and the groups that they are in."""

    def __init__(self, table: pa.Table) -> None:
        self._values = {name: np.asarray(table[name]).astype(np.float64) for name in COLUMNS}
        self._keys = {
            "carrier": np.searchsorted(CARRIERS, np.asarray(table["carrier"]).astype(str)),
            "month": np.asarray(table["month"]).astype(np.int64) - 1,
        }

    def sums(self, by: Sequence[str], column: str) -> tuple[Floats, Ints]:
        """The sum of a column in each group, and how many flights have a value."""
        grid = Grid.of(COLUMNS[column])
        assert grid is not None
        shape = [SCHEMA.shape[SCHEMA.index(name)] for name in by]
        group = np.ravel_multi_index([self._keys[name] for name in by], shape)
        values = self._values[column]
        there = ~np.isnan(values)
        clipped = np.clip(values[there], grid.low, grid.high)
        number = math.prod(shape)
        totals = np.zeros(number)
        np.add.at(totals, group[there], clipped)
        return totals, np.bincount(group[there], minlength=number).astype(np.int64)


def compared(release: Release, by: Sequence[str], truth: Truth, price: float) -> Iterator[Number]:
    """Each sum and average of a release, beside what it should be."""
    deviation = NORMAL * math.sqrt(2 / price)
    for place, measure in enumerate(release.request.measures):
        if isinstance(measure, Sum | Mean):
            grid = Grid.of(COLUMNS[measure.column])
            assert grid is not None
            middle, half = float(grid.middle), (grid.high - grid.low) / 2
            for row, total, rows in zip(release.rows, *truth.sums(by, measure.column), strict=True):
                low, high = fieller((total - middle * rows) / half, float(rows), deviation, deviation, 1.0)
                if isinstance(measure, Sum):
                    yield Number(row[place], float(total), deviation * math.hypot(half, middle), True, False)
                elif rows:
                    known = rows > ENOUGH * deviation
                    mean = float(total / rows)
                    widest = half * max(high - (mean - middle) / half, (mean - middle) / half - low)
                    yield Number(row[place], mean, widest, known, True)


def numbers(runs: int, beta: float) -> tuple[list[Number], float]:
    """All numbers of so many independent releases, and the largest part of the promise that one has spent."""
    table = flights()
    truth, database = Truth(table), tr.GrowingDatabase(SCHEMA)
    database.append(table.select(list(SCHEMA.names)))
    found, spent = list[Number](), 0.0
    for _ in range(runs):
        rings = tr.Rings(database, EPSILON, DELTA, beta)
        for by in GROUPINGS:
            measures: list[Measure] = [Count(), *map(Sum, COLUMNS), *map(Mean, COLUMNS)]
            release = rings.release(Request.of(SCHEMA, measures, by))
            found += compared(release, by, truth, rings.series[-1].price)
        spent = max(spent, rings.spent / (rings.spent + rings.remaining))
    return found, spent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    found, spent = numbers(QUICK_RUNS if given.quick else RUNS, QUICK_BETA if given.quick else BETA)
    known = [each for each in found if each.known]
    inside = sum(each.estimate.low <= each.truth <= each.estimate.high for each in known) / len(known)
    beyond = sum(
        abs(each.estimate.value - each.truth) > each.estimate.error
        for each in known
        if each.estimate.value is not None and each.estimate.error is not None
    )
    ratios = [each.estimate.margin / each.theory for each in known if each.estimate.margin is not None]
    averages = [each.known for each in found if each.average]
    half, many = np.quantile(ratios, [0.5, 0.95])
    print(f"{len(known):,} sums and averages; {np.mean(averages):.0%} of the averages are of groups large enough")
    print(f"margins over theory: {half:.3f} (median), {many:.3f} (95%), {max(ratios):.3f} (largest)")
    claims = Claims()
    least, most = (0.90, 0.99) if given.quick else (0.94, 0.965)
    claims.at_most("part of the numbers outside their margins", 1 - inside, 1 - least)
    claims.at_most("part of the numbers inside their margins", inside, most)
    claims.at_most("numbers beyond their errors", beyond, 0)
    claims.at_most("largest margin over that of theory", max(ratios), MOST)
    claims.at_most("part of the averages of groups that are too small", 1 - float(np.mean(averages)), 0.5)
    claims.at_most("part of the promise that is spent", spent, 0.3)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
