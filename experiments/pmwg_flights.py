"""Adaptive questions about the flights of 2013, day by day: 20,000 under one promise.

    python -m experiments.pmwg_flights [--quick] [--seed N]

N = 20,736 cells (origin, carrier, month, hour block, delay), January to April at first (about 110,000 flights), then
a day at a time to the end of the year; ε = 1, δ = 10^-9, α = 0.05, β = 0.05. Half of the questions are random; the
other half are drawn around those that surprised most: where the answer was farthest from what the public histogram
said before, both of which are public. Claimed: every error within its bound, every bound within α, every question
answered. By the theorem an accuracy claim fails with probability at most β.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

import treering as tr
from experiments.claims import Claims
from experiments.flights_stream import LAST_DAY, START_DAY, stream_of_flights
from experiments.options import QUICK_BETA, options
from experiments.stream import Tally, spent_share
from treering.demo.flights import SCHEMA
from treering.domain.workload import random_conjunctions

EPSILON, DELTA, ALPHA, BETA = 1.0, 1e-9, 0.05, 0.05
QUERIES, QUICK_QUERIES = 20_000, 1_500


class Analyst:
    """Someone who digs where the answers surprise."""

    REMEMBERED: Final = 50

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._asked = 0
        self._surprises: list[tuple[float, int, tr.Query]] = []
        self.distinct: set[tr.Query] = set()

    def question(self) -> tr.Query:
        """The next question: random, or one of the greatest surprises again, narrowed or widened."""
        while True:
            fresh = random_conjunctions(SCHEMA, 1, self._generator)[0]
            if not self._surprises or self._generator.random() < 0.5:
                return fresh
            _, _, old = self._surprises[self._generator.integers(len(self._surprises))]
            query = (old, old & fresh, old | fresh)[self._generator.integers(3)]
            if not query.constant:
                return query

    def learn(self, query: tr.Query, surprise: float) -> None:
        """Remember how far the answer was from what the public histogram said."""
        self._asked += 1
        self.distinct.add(query)
        entry = (surprise, self._asked, query)
        if len(self._surprises) < self.REMEMBERED:
            heapq.heappush(self._surprises, entry)
        else:
            heapq.heappushpop(self._surprises, entry)


def run(queries: int, beta: float, seed: int) -> tuple[Tally, tr.PMWG, Analyst]:
    """Stream the rest of the year, questions spread evenly over its days; ends early if the budget does."""
    analyst, tally = Analyst(np.random.default_rng(seed)), Tally()
    mechanism: tr.PMWG | None = None
    for day, stream in enumerate(stream_of_flights()):
        if mechanism is None:
            mechanism = tr.PMWG(stream.database, EPSILON, DELTA, alpha=ALPHA, beta=beta)
        wanted = queries * (day + 1) // (LAST_DAY - START_DAY + 1)
        while tally.answered < wanted:
            query = analyst.question()
            before = mechanism.hypothesis.answer(query)
            try:
                answer = mechanism.ask(query)
            except tr.BudgetExceeded:
                return tally, mechanism, analyst
            tally.add([answer], stream.shares([query]))
            analyst.learn(query, abs(answer.value - before))
    assert mechanism is not None
    return tally, mechanism, analyst


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and check the claims."""
    given = options(__doc__, arguments)
    queries, beta = (QUICK_QUERIES, QUICK_BETA) if given.quick else (QUERIES, BETA)
    tally, mechanism, analyst = run(queries, beta, given.seed)
    print(
        f"flights: {tally.answered:,} of {queries:,} questions answered, {len(analyst.distinct):,} of them different; "
        f"spent {spent_share(mechanism):.2%}; worst error {tally.worst_error:.4f}; {tally.describe_kinds()}"
    )
    claims = Claims()
    claims.accurate("flights", tally, ALPHA)
    claims.at_most("flights: questions not answered", queries - tally.answered, 0)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
