"""Private ridge regression."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin

from treering.arrays import Floats
from treering.domain.loss import Loss, Squared
from treering.learn.declared import declared
from treering.learn.linear import LinearEstimator
from treering.params import Number
from treering.trusted.learning.rows import Bounds


class PrivateRidge(RegressorMixin, LinearEstimator):
    """Least squares over rows that keep arriving: each release is private, and all of them together.

    Formal guarantee: as `treering.learn.base.PrivateEstimator`, for the mean of ½(prediction − label)² plus the
    regulariser, over the ball of ``radius``, in the units of the labels. Labels are divided by ``label_bound`` within:
    the regulariser is ``regularisation``/2·‖θ‖² of the model θ for labels in [−1, 1].

    ``norm_bound`` and ``label_bound`` are public and must be declared; labels beyond the bound are refused.

    >>> import numpy as np
    >>> features = np.linspace(-1, 1, 100_000).reshape(-1, 1)
    >>> model = PrivateRidge(epsilon=1.0, delta=1e-6, norm_bound=1.0, label_bound=10.0)
    >>> model = model.fit(features, 3 + 5 * features[:, 0])
    >>> abs(model.predict([[0.5]]).item() - 5.5) < 3
    True
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        *,
        beta: Number = 0.05,
        norm_bound: Number | None = None,
        label_bound: Number | None = None,
        start: int = 1000,
        radius: float = 2.0,
        regularisation: float = 0.0,
        fit_intercept: bool = True,
        profile: str = "tight",
        method: str = "auto",
        c: Number | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.beta = beta
        self.norm_bound = norm_bound
        self.label_bound = label_bound
        self.start = start
        self.radius = radius
        self.regularisation = regularisation
        self.fit_intercept = fit_intercept
        self.profile = profile
        self.method = method
        self.c = c

    def predict(self, X: Any) -> Floats:
        """⟨coef, x⟩ + intercept for each row."""
        return self._linear(X)

    def _loss(self) -> Loss:
        return Squared()

    def _bounds(self) -> Bounds:
        return Bounds(self._norm(), self.fit_intercept, label=declared(self.label_bound, "label_bound"))

    def _unit(self) -> float:
        return declared(self.label_bound, "label_bound") ** 2

    def _present(self, theta: Floats) -> None:
        bound = declared(self.label_bound, "label_bound")
        coefficients, intercept = self._split(theta)
        self.coef_ = coefficients * bound
        self.intercept_ = intercept * bound
