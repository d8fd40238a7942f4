"""MWEM: multiplicative weights and the exponential mechanism (Hardt, Ligett and McSherry 2012)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.boxes.base import Progress, QueryClass, Release, SchemaBox, declared, silent
from treering.budget.promise import Budget
from treering.domain.language.parse import Question
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.step import Step
from treering.params import probability, whole
from treering.protocols import Gate
from treering.theory.static import MOST_ROUNDS, Rounds, drawn_radius, mwem_plan

REVISITS = 8
"""How many earlier measurements are revisited after each new one: those that the distribution violates most."""


class MWEM(SchemaBox):
    """Learns a distribution that answers a class of queries. For many queries on a universe too large for a histogram.

    Each round selects a query that the distribution answers badly, measures it, and moves the distribution towards the
    measurement.

    Formal guarantee. Neighbours replace one row. A round selects by the exponential mechanism and measures with
    Laplace noise (pure) or Gaussian noise (zCDP); the rounds together are ε-DP, or ρ-zCDP, by composition: see
    `treering.theory.static.mwem_plan`.
    Accuracy. With probability at least 1 − beta every query of the class is within the stated error, which the best
    round certifies, and which is at most √(log N/(2T)) + (3/2 + ξ + 2e)/n: the theorem of `treering.theory.static`.
    ``queries`` are declared before the run, each a `Query` or its text; only these and their complements are answered.
    ``rounds`` is T; by default the number that makes the bound least.
    """

    def __init__(self, queries: Iterable[Question], rounds: int | None = None) -> None:
        super().__init__()
        self._declared = declared(queries)
        if rounds is not None and whole(rounds, "rounds") > MOST_ROUNDS:
            raise ParameterError("rounds", f"must be at most {MOST_ROUNDS:,}, not {rounds:,}")
        self._rounds = rounds

    def _prepare(self, schema: Schema) -> None:
        Hypothesis(schema)  # refuses a universe too large for it
        self._class = QueryClass(schema, self._declared)
        self._spread = max(self._class.spreads, default=None)

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The theorem's bound, known before the first round."""
        rows, chance = whole(size, "size"), float(probability(beta, "beta"))
        planned = self._plan(rows, budget, chance)
        return 0.0 if planned is None else planned.alpha(self.schema.cells, rows)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        """Run all rounds, each of which selects and measures one query."""
        self._check(gate)
        planned = self._plan(gate.size, budget, float(probability(beta, "beta")))
        if planned is None:
            return _Learnt(self._class, Hypothesis(self.schema), gate.size, 0.0)
        learner = _Learner(self._class, gate.size, planned)
        for done in range(planned.rounds):
            progress(done / planned.rounds, f"round {done + 1} of {planned.rounds}")
            learner.round(gate)
        progress(1.0, "learnt")
        return learner.release()

    def _plan(self, size: int, budget: Budget, beta: float) -> Rounds | None:
        """The rounds and their noise; None if every query is constant."""
        cells = self.schema.cells
        if self._spread is None:
            return None
        return mwem_plan(cells, len(self._class), self._spread, size, budget, beta, self._rounds)


@dataclass(frozen=True, slots=True)
class _Interval:
    """A confidence interval for a query's true share, by its measurements."""

    query: Query
    low: float
    high: float


class _Learner:
    """The public distribution, with the confidence intervals and the certified error of its rounds."""

    def __init__(self, learnt: QueryClass, size: int, planned: Rounds) -> None:
        self._class, self._size, self._plan = learnt, size, planned
        self._hypothesis = Hypothesis(learnt.schema)
        self._intervals: dict[int, _Interval] = {}
        self._steps: list[Step] = []
        self._units = np.array([query.scale for query in learnt.queries], dtype=np.float64) * size
        self._best, self._error = 0, np.inf

    def round(self, gate: Gate) -> None:
        """Select a query, measure it, update the certified error, and move the distribution."""
        queries = self._class.queries
        answers = self._hypothesis.answer_many(queries)
        estimates: Ints = np.rint(answers * self._units).astype(np.int64)
        chosen = gate.select(queries, self._plan.selection_scale, estimates.tolist()).index
        query = queries[chosen]
        (measured,) = gate.measure([query], self._plan.noise).values
        radius = drawn_radius(self._plan.noise, query.scale, self._plan.share)
        gap = abs(measured - int(estimates[chosen]))
        certified = self._plan.certified(gap / query.scale, radius / query.scale, self._size)
        if certified <= self._error:
            self._best, self._error = len(self._steps), certified
        unit = float(self._units[chosen])
        self._learn(chosen, _Interval(query, (measured - radius - 0.5) / unit, (measured + radius + 0.5) / unit))

    def release(self) -> _Learnt:
        """The distribution of the best round. Its steps, applied again, give the same bits."""
        if self._best < len(self._steps):
            self._hypothesis = Hypothesis(self._class.schema)
            for step in self._steps[: self._best]:
                self._hypothesis.apply(step)
        return _Learnt(self._class, self._hypothesis, self._size, float(self._error))

    def _learn(self, chosen: int, interval: _Interval) -> None:
        before = self._intervals.get(chosen)
        if before is not None:  # The truth is in both intervals, unless one of them has failed.
            low, high = max(before.low, interval.low), min(before.high, interval.high)
            kept = _Interval(interval.query, low, high) if low < high else interval
        else:
            kept = interval
        self._intervals[chosen] = kept
        self._move(kept, self._hypothesis.answer(kept.query))
        for _ in range(REVISITS):
            intervals = list(self._intervals.values())
            answers = self._hypothesis.answer_many([each.query for each in intervals])
            beyond = [max(each.low - a, a - each.high) for each, a in zip(intervals, answers.tolist(), strict=True)]
            worst = int(np.argmax(beyond))
            if beyond[worst] <= 0.5 / self._size or not self._move(intervals[worst], float(answers[worst])):
                return

    def _move(self, interval: _Interval, answer: float) -> bool:
        """Project the distribution onto the interval, if it is outside and can be moved there; whether it was moved."""
        target = min(max(answer, interval.low), interval.high)
        if target == answer or not self._hypothesis.reachable(interval.query, target):
            return False
        self._steps.append(self._hypothesis.project(interval.query, target))
        return True


class _Learnt(Release):
    """The distribution of an `MWEM`, which answers its class."""

    def __init__(self, learnt: QueryClass, hypothesis: Hypothesis, size: int, error: float) -> None:
        super().__init__(learnt.schema, size)
        self._class, self._hypothesis = learnt, hypothesis
        self._values = hypothesis.answer_many(learnt.queries)
        self._errors = np.full(len(self._values), error)

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        return self._class.shares(queries, "MWEM", self._values, self._errors)

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        return self._hypothesis.sample(rows, generator)
