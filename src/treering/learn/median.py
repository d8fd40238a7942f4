"""The private geometric median."""

from __future__ import annotations

from typing import Any

import numpy as np

from treering.arrays import Floats
from treering.domain.loss import Distance, Loss
from treering.learn.base import PrivateEstimator
from treering.params import Number
from treering.trusted.learning.rows import Bounds


class PrivateMedian(PrivateEstimator):
    """The point with the least mean distance to all rows, as they keep arriving: in one dimension, the median.

    Formal guarantee: as `treering.learn.base.PrivateEstimator`, for the mean distance, in the units of the features,
    plus the regulariser. After a release, ``median_`` is the point.

    ``norm_bound`` is public and must be declared: features should be centred by general knowledge, so that it is small.

    >>> import numpy as np
    >>> ages = np.concatenate([np.full(60_000, 40.0), np.linspace(0, 100, 40_000)]).reshape(-1, 1)
    >>> model = PrivateMedian(epsilon=1.0, delta=1e-6, norm_bound=100.0).fit(ages)
    >>> abs(model.median_.item() - 40) < 10
    True
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        *,
        beta: Number = 0.05,
        norm_bound: Number | None = None,
        start: int = 1000,
        radius: float = 1.0,
        regularisation: float = 0.0,
        profile: str = "tight",
        method: str = "auto",
        c: Number | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.beta = beta
        self.norm_bound = norm_bound
        self.start = start
        self.radius = radius
        self.regularisation = regularisation
        self.profile = profile
        self.method = method
        self.c = c

    def distances(self, X: Any) -> Floats:
        """How far each row is from the median."""
        return np.asarray(np.linalg.norm(self._rows_to_predict(X) - self.median_, axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean distance of rows at hand from the median: larger is better. Not private: for public rows."""
        return -float(self.distances(X).mean())

    def _loss(self) -> Loss:
        return Distance()

    def _bounds(self) -> Bounds:
        """There are no labels; scikit-learn's pipelines may hand some over all the same, which are not looked at."""
        return Bounds(self._norm())

    def _unit(self) -> float:
        return self._norm()

    def _present(self, theta: Floats) -> None:
        self.median_ = theta * self._norm()
