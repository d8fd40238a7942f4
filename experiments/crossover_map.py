"""Which mechanism wins where: the planner's prediction beside what was measured.

    python -m experiments.crossover_map [--quick] [--seed N]

Tables of 2^7, 2^12 and 2^17 cells that grow from n to 2n rows in four steps; 10, 100 or 300 different questions,
random conjunctions of one to three attributes, a fifth of them at each size; ε = 1, δ = 10^-6. Every mechanism has the
whole promise, and answers the same questions about the same rows. Rings are told the number of questions as their pace,
and PMWG is given the alpha that the planner says it can promise for ever. *Measured* is the mean error as a share of
the rows, *predicted* the planner's typical error, which is no guarantee: of a first answer about one group for Rings,
of a question about half of all cells for histograms, and half of alpha for PMWG.

Claimed: at every place of the map the mechanism that the planner recommends (the smallest error that is *guaranteed*
for ever) has at most `FACTOR` times the measured error of the best of them, and what is predicted for Rings is right
within a factor of `RIGHT`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

import numpy as np
import numpy.typing as npt

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from experiments.record import Record, Row, Values, column, where
from experiments.stream import Stream
from treering.domain.workload import random_conjunctions
from treering.errors import GuaranteeError
from treering.pictures.svg import Line, Panel

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
SHAPES = {2**7: (2,) * 7, 2**12: (4,) * 6, 2**17: (8, 8, 8, 16, 16)}
QUESTIONS, SIZES, GROWTH = (10, 100, 300), (10_000, 100_000, 1_000_000), 4
QUICK = ((2**7, 10, 10_000), (2**7, 100, 10_000))
FACTOR, RIGHT = 3.0, 4.0
RINGS, CONTINUAL, SCHEDULED, PMWG = "Rings", "ContinualHistogram", "BBScheduler over HistogramBox", "PMWG"

Mechanism = tr.Rings | tr.ContinualHistogram | tr.BBScheduler | tr.PMWG


@dataclass(frozen=True)
class Place:
    """One place of the map."""

    cells: int
    questions: int
    size: int

    @property
    def key(self) -> Mapping[str, int]:
        """What says which place it is."""
        return {"cells": self.cells, "questions": self.questions, "size": self.size}

    @cached_property
    def plan(self) -> tr.Plan:
        """What the planner says."""
        return tr.plan(self.cells, self.size, EPSILON, DELTA, BETA, self.questions, 2 * self.size)

    @cached_property
    def makes(self) -> Mapping[str, Callable[[tr.GrowingDatabase], Mechanism]]:
        """The mechanisms that are compared."""
        promise = tr.Promise(EPSILON, DELTA)
        return {
            RINGS: lambda db: tr.Rings(db, promise, beta=BETA, pace=self.questions),
            CONTINUAL: lambda db: tr.ContinualHistogram(db, promise, beta=BETA),
            SCHEDULED: lambda db: tr.BBScheduler(db, tr.HistogramBox(), promise, beta=BETA),
            PMWG: lambda db: tr.PMWG(db, promise, alpha=self.plan.row(PMWG).alpha, beta=BETA),
        }

    def measured(self, name: str, seed: int) -> Values:
        """The mean error of one mechanism, or why it has none."""
        row = self.plan.row(name)
        best = self.plan.best
        said: dict[str, str | float] = {
            "guaranteed": row.alpha,
            "predicted": math.nan if row.expected is None else row.expected,
            "recommended": "yes" if best is not None and best.name == name else "no",
        }
        with suppress(GuaranteeError):
            if row.alpha < math.inf:
                return said | {"measured": self._error(self.makes[name], seed), "refused": ""}
        return said | {"measured": math.nan, "refused": "no guarantee"}

    def _error(self, make: Callable[[tr.GrowingDatabase], Mechanism], seed: int) -> float:
        generator = np.random.default_rng([seed, self.cells, self.questions, self.size])
        schema = tr.Schema({f"a{place}": tr.integers(1, width) for place, width in enumerate(SHAPES[self.cells])})
        asked = different(schema, self.questions, generator)
        stream, errors = Stream(schema), list[float]()
        mechanism: Mechanism | None = None
        for stage in range(GROWTH + 1):
            stream.append(rows(schema, self.size // (1 if stage == 0 else GROWTH), generator))
            mechanism = make(stream.database) if mechanism is None else mechanism
            batch = asked[stage :: GROWTH + 1]
            answers = [answer for query in batch for answer in mechanism.ask_many([query])]
            errors += np.abs(np.array([answer.value for answer in answers]) - stream.shares(batch)).tolist()
        return float(np.mean(errors))


def different(schema: tr.Schema, questions: int, generator: np.random.Generator) -> list[tr.Query]:
    """Different random questions."""
    asked: dict[tr.Query, None] = {}
    while len(asked) < questions:
        asked |= dict.fromkeys(random_conjunctions(schema, questions - len(asked), generator, ways=(1, 3)))
    return list(asked)


def rows(schema: tr.Schema, count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Random rows as cells: small values are frequent, and an attribute often has the value of the one before."""
    values = np.empty((len(schema.shape), count), dtype=np.int64)
    for place, width in enumerate(schema.shape):
        shares = 1 / np.arange(1, width + 1)
        values[place] = generator.choice(width, size=count, p=shares / shares.sum())
        if place:
            copied = generator.random(count) < 0.4
            values[place, copied] = np.minimum(values[place - 1, copied], width - 1)
    return np.asarray(np.ravel_multi_index(tuple(values), schema.shape), dtype=np.int64)


def panel(rows: Sequence[Row], cells: int, size: int) -> Panel:
    """Errors over the number of questions, at one size; dashes: predicted."""
    colours = {RINGS: "#2563eb", CONTINUAL: "#059669", SCHEDULED: "#d97706", PMWG: "#dc2626"}
    there = where(rows, cells=cells, size=size)
    series = []
    for name, colour in colours.items():
        found = where(there, mechanism=name)
        for kind, dashes in (("measured", ""), ("predicted", "4 3")):
            known = [None if math.isnan(value) else value for value in column(found, kind)]
            if any(value is not None for value in known):
                series.append(Line(f"{name}, {kind}", column(found, "questions"), known, colour, dashes))
    return Panel(f"{cells:,} cells", "questions", "mean error, as a share", series, x_log=True, y_log=True)


def check(rows: Sequence[Row], places: Sequence[Place]) -> Claims:
    """The claims, at each place."""
    claims, worst, wrong = Claims(), 0.0, 0.0
    for place in places:
        there = where(rows, **place.key)
        measured = {row["mechanism"]: float(row["measured"]) for row in there if row["refused"] == ""}
        chosen = where(there, recommended="yes")
        if chosen and chosen[0]["refused"] == "":
            worst = max(worst, float(chosen[0]["measured"]) / min(measured.values()))
        (ours,) = where(there, mechanism=RINGS)
        wrong = max(wrong, abs(math.log(float(ours["measured"]) / float(ours["predicted"]))))
    claims.at_most("the recommended mechanism's error over that of the best, at any place", worst, FACTOR)
    claims.at_most("Rings: measured over predicted or predicted over measured, at any place", math.exp(wrong), RIGHT)
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure at every place, draw and check the claims."""
    given = options(__doc__, arguments)
    grid = QUICK if given.quick else tuple(product(SHAPES, QUESTIONS, SIZES))
    places, record = [Place(*each) for each in grid], Record("crossover_map", keep=not given.quick, resume=True)
    for place in places:
        print(f"  {place.cells:,} cells, {place.questions:,} questions, {place.size:,} rows and twice that:")
        for name in place.makes:
            row = record.row({**place.key, "mechanism": name}, partial(place.measured, name, given.seed))
            shown = row["refused"] or f"{float(row['measured']):.2e} measured, {float(row['predicted']):.2e} predicted"
            print(f"    {name:<30} {shown}{', recommended' if row['recommended'] == 'yes' else ''}", flush=True)
    size = places[0].size if given.quick else SIZES[1]
    drawn = [panel(record.rows, cells, size) for cells in dict.fromkeys(place.cells for place in places)]
    record.finish(f"Errors by the number of questions, from {size:,} rows to twice that", drawn, aside=True)
    return check(record.rows, places).exit_code()


if __name__ == "__main__":
    sys.exit(main())
