"""How much a growing histogram should forget: hard queries while the data stay the same and the database quadruples.

    python -m experiments.pmwg_forgetting [--quick] [--seed N]

When new rows are a share w of the database, PMWG mixes its histogram with the uniform distribution: y ← (1−μ)y + μ/N.
The paper has μ = w, and so forgets half of what it learnt each time the database doubles; the tight profile has μ =
w/8. Here the guard is the tight one without noise, so that only forgetting differs: a query is hard when the histogram
is off by T, and the histogram then moves as `treering.theory.pmwg.hard_target` says. Claimed: μ = w/8 needs at most
half of the hard queries that μ = w needs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from experiments.pmwg_synthetic import SCHEMA, START, rows
from experiments.stream import Stream
from treering.domain.workload import random_conjunctions
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.theory.pmwg import DEFAULT_SHARE, Guard, hard_target

ALPHA = 0.05
GROWTH = 4
FORGETTING = (1.0, 1 / 2, 1 / 8, 1 / 32)
"""μ/w."""


@dataclass(frozen=True)
class Setting:
    """How many questions there are at the start, and then in each of so many steps of growth."""

    learning: int
    steps: int
    queries: int


FULL, QUICK = Setting(20_000, 140, 500), Setting(3_000, 35, 200)


class NoiselessGuard:
    """PMWG's guard and histogram, told the truth."""

    def __init__(self, schema: tr.Schema) -> None:
        self.hypothesis = Hypothesis(schema)
        self._guard = Guard("zcdp", ALPHA, DEFAULT_SHARE["zcdp"])

    def hard(self, queries: Sequence[tr.Query], stream: Stream) -> int:
        """Ask in order; how many were hard."""
        found, truths = 0, stream.shares(queries)
        while queries:
            gaps = np.abs(self.hypothesis.answer_many(queries) - truths)
            crossings = np.flatnonzero(gaps >= self._guard.threshold)
            if not len(crossings):
                break
            first = int(crossings[0])
            self._move(queries[first], float(truths[first]), stream.database.size)
            found += 1
            queries, truths = queries[first + 1 :], truths[first + 1 :]
        return found

    def _move(self, query: tr.Query, truth: float, size: int) -> None:
        estimate, error, gap = self.hypothesis.answer(query), self._guard.error, self._guard.gap
        if truth < estimate:
            target = hard_target(estimate, truth, error, gap, size)
        else:
            target = 1 - hard_target(1 - estimate, 1 - truth, error, gap, size)
        self.hypothesis.project(query, target)


def run(setting: Setting, seed: int) -> tuple[int, list[int]]:
    """How many queries are hard while the histogram is first learnt, and then, for each forgetting, while it grows."""
    generator = np.random.default_rng(seed)
    start, stream = rows(START, generator), Stream(SCHEMA)
    stream.append(start)
    guards = [NoiselessGuard(SCHEMA) for _ in FORGETTING]
    opening = random_conjunctions(SCHEMA, setting.learning, generator)
    learnt = [guard.hard(opening, stream) for guard in guards]
    totals = [0] * len(guards)
    for step in range(1, setting.steps + 1):
        before = stream.database.size
        wanted = round(START * GROWTH ** (step / setting.steps))
        # Stationary: the rows of the start once more, as many as are wanted, so that shares stay as they are.
        stream.append(generator.choice(start, wanted - before))
        queries = random_conjunctions(SCHEMA, setting.queries, generator)
        for index, (guard, forgetting) in enumerate(zip(guards, FORGETTING, strict=True)):
            guard.hypothesis.grow(forgetting * (wanted - before) / wanted)
            totals[index] += guard.hard(queries, stream)
    return learnt[0], totals


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and check the claim."""
    given = options(__doc__, arguments)
    learnt, totals = run(QUICK if given.quick else FULL, given.seed)
    print(f"hard queries at {START:,} rows, to learn the data: {learnt}; then, up to {GROWTH * START:,} rows:")
    for forgetting, total in zip(FORGETTING, totals, strict=True):
        print(f"  mu = {forgetting:<7g} * w: {total:>4}")
    hard = dict(zip(FORGETTING, totals, strict=True))
    claims = Claims()
    claims.at_most("hard queries with mu = w/8, over those with mu = w", hard[1 / 8] / hard[1.0], 0.5)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
