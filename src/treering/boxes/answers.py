"""AnswersBox: noisy answers to a fixed class of queries, each with its own noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Progress, QueryClass, Rate, Release, SchemaBox, declared, silent
from treering.budget.promise import Budget
from treering.domain.language.parse import Question
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.noise import Noise
from treering.params import probability, whole
from treering.protocols import Gate
from treering.theory.static import answer_radius, answers_noise, answers_rate, drawn_radius
from treering.words import counted


class AnswersBox(SchemaBox):
    """Discrete noise on each answer. The noise depends on the number of queries, not on the universe: best for few.

    Formal guarantee. Neighbours replace one row, which moves a counting query's count by at most one (a weighted one by
    its spread). Pure budget: Laplace noise of scale Σ spread/ε, ε-DP. zCDP budget: Gaussian noise with
    σ² = Σ spread²/(2ρ), ρ-zCDP. Equal queries and complements are measured once; constant ones are public.
    Accuracy. With probability at least 1 − beta every answer is within its noise's radius at beta over the number of
    queries.

    ``queries`` are declared before the run, each a `Query` or its text; only these and their complements are answered.
    """

    def __init__(self, queries: Iterable[Question]) -> None:
        super().__init__()
        self._declared = declared(queries)

    def _prepare(self, schema: Schema) -> None:
        self._class = QueryClass(schema, self._declared)

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The largest noise of an answer, at beta over the number of queries, as a share of the rows."""
        rows, chance = whole(size, "size"), float(probability(beta, "beta"))
        measured = self._measured()
        return answer_radius(self._noise(budget), chance / len(measured)) / rows if len(measured) else 0.0

    @property
    def rate(self) -> Rate | None:
        """The paper's rate, with p = 1, for beta up to ½; None if every query is constant."""
        measured = self._measured()
        if not len(measured):
            return None
        return Rate(1.0, answers_rate(len(measured), sum(measured.spreads, Fraction(0))), 1.0)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        """Measure the queries: one operation of the gate, which costs the budget."""
        measured = self._measured()
        chance = float(probability(beta, "beta"))
        self._check(gate)
        if not len(measured):
            return _Answers(measured, gate.size, np.empty(0), np.empty(0))
        noise = self._noise(budget)
        progress(0.0, f"answering {counted(len(measured), 'query', 'queries')}")
        answers = gate.measure(measured.queries, noise).values
        progress(1.0, "answered")
        scales = np.array([query.scale for query in measured.queries], dtype=np.float64)
        radii = {scale: _radius(noise, scale, chance / len(measured)) for scale in {q.scale for q in measured.queries}}
        errors = np.array([radii[query.scale] for query in measured.queries])
        return _Answers(measured, gate.size, np.array(answers) / scales / gate.size, errors / gate.size)

    def _measured(self) -> QueryClass:
        """The query class; raises if the box is not bound yet."""
        _ = self.schema
        return self._class

    def _noise(self, budget: Budget) -> Noise:
        return answers_noise(budget, self._class.spreads)


class _Answers(Release):
    """The noisy answers of an `AnswersBox`."""

    def __init__(self, measured: QueryClass, size: int, values: Floats, errors: Floats) -> None:
        super().__init__(measured.schema, size)
        self._class, self._values, self._errors = measured, values, errors

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        return self._class.shares(queries, "AnswersBox", self._values, self._errors)


def _radius(noise: Noise, scale: int, beta: float) -> float:
    """The error of an answer, in rows, except with probability ``beta``."""
    return min(drawn_radius(noise, scale, beta) / scale, answer_radius(noise, beta))
