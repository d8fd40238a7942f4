"""A model that was released: what `ERM` gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from treering.boxes.protocol import Floats, Release
from treering.domain.minimiser import Method
from treering.domain.problem import Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.gate import Minimised
from treering.theory.erm_static import bound

NO_ANSWERS: Final = "a model answers no queries: use its theta, or ask a mechanism that answers"


class Model(Release):
    """A model in the ball whose empirical risk, on the database of one size, is near the least.

    Formal guarantee: with probability 1 − beta of its run its excess risk is at most `excess_risk`. No model of the
    ball has more than Lipschitz constant times diameter, so neither has the statement.
    """

    def __init__(self, schema: Schema, event: Minimised, beta: float) -> None:
        super().__init__(schema, event.size)
        self.problem: Problem = event.problem
        """What was minimised."""
        self.method: Method = event.method
        """How."""
        self.theta: tuple[float, ...] = event.theta
        """The model."""
        self.excess_risk: float = min(bound(event.problem, event.method, event.size, beta), worst_risk(event.problem))
        """By how much its risk may exceed the least in the ball, on the rows that it was made from."""

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        """Refused: no query is about a model."""
        if queries:
            raise QueryError(NO_ANSWERS)
        return np.zeros(0), np.zeros(0)

    def predictions(self, features: Floats) -> Floats:
        """⟨theta, x⟩ for each row x, which must be on the same scale as the features it was trained on."""
        return np.asarray(np.asarray(features, dtype=np.float64) @ np.array(self.theta))

    def aged(self, size: int) -> float:
        """The excess risk on the database of a later size: (t/τ)·excess_risk + (1−t/τ)·worst.

        The objective at size τ is t/τ parts of that at size t, and 1 − t/τ parts of that of the new rows alone, where
        no model of the ball is worse than another by more than `worst_risk`.
        """
        fresh = min(1.0, self.size / size)
        return fresh * self.excess_risk + (1 - fresh) * worst_risk(self.problem)

    def __repr__(self) -> str:
        return f"Model({len(self.theta)} coefficients; {self.size:,} rows; excess risk at most {self.excess_risk:.3g})"


def worst_risk(problem: Problem) -> float:
    """Lipschitz constant times diameter: the largest excess risk of any model in the ball."""
    return problem.whole_lipschitz * 2 * problem.radius
