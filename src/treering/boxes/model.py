"""A model that was released: what `ERM` gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Release
from treering.domain.minimiser import Method
from treering.domain.problem import CellFeatures, Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError
from treering.gate import Minimised
from treering.theory.erm_static import bound

NO_ANSWERS: Final = "a model answers no queries: use its theta, or ask a mechanism that answers"


class Model(Release):
    """A model in the ball whose empirical risk, on the database of one size, is near the least.

    Formal guarantee: with probability 1 − beta of its run its excess risk is at most `excess_risk`. No model of the
    ball has more than `worst_risk`, so neither has the statement.
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
        """⟨theta, x⟩ for each row x, which must be on the same scale as the features it was trained on.

        Over a database those are ``features.vectors_of(rows)``. Above 0, a row's label is more likely 1 than −1.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.theta):
            raise ParameterError("features", f"must be rows of {len(self.theta)} numbers, as those it was trained on")
        return np.asarray(rows @ np.array(self.theta))

    def weights(self, features: CellFeatures) -> dict[str, float]:
        """What each value of each attribute adds to a prediction, by its condition in words; for one-hot features.

        A prediction is the intercept plus one weight for each attribute.
        """
        if features.schema != self.schema or features.dimension != len(self.theta):
            raise ParameterError("features", "must be those that the model was trained on")
        if features.hot is None:
            raise ParameterError("features", "must be made by CellFeatures.one_hot for weights to have words")
        return features.hot.weights(np.array(self.theta), self.schema, features.attributes)

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
    """The most by which any model of the ball is worse than another, on any data.

    Lipschitz constant times diameter, or the width of the loss's range if that is less: an entry's loss less that of
    θ = 0 lies within `Loss.range` at every model (it is widest at the radius), so the losses of two models differ by no
    more than its width, and their regularisers by λR²/2. For logistic loss the width is R.
    """
    low, high = problem.loss.range(np.array([problem.radius]))
    width = float(high[0] - low[0]) + problem.regularisation * problem.radius**2 / 2
    return min(problem.whole_lipschitz * 2 * problem.radius, width * (1 + 2.0**-40))
