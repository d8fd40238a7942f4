"""Linear predictions with an intercept, over the unit ball."""

from __future__ import annotations

from typing import Any

import numpy as np

from treering.arrays import Floats
from treering.learn.base import PrivateEstimator
from treering.trusted.learning.rows import HALF


class LinearEstimator(PrivateEstimator):
    """Predictions ⟨coef, x⟩ + intercept.

    A row x of norm at most B = ``norm_bound`` becomes the entry (x/B, 1)/√2, of norm at most 1 (x/B without an
    intercept), and a model θ = (w, b) of norm at most ``radius`` predicts ⟨w, x⟩/(√2·B) + b/√2. So
    ‖(B·coef, intercept)‖ ≤ radius/√2. Longer rows are scaled down while learning; a prediction is linear for all.
    """

    def _split(self, theta: Floats) -> tuple[Floats, float]:
        """Coefficients and intercept, in the units of the features."""
        bound = self._norm()
        if not self.fit_intercept:
            return theta / bound, 0.0
        return theta[:-1] * (HALF / bound), float(theta[-1]) * HALF

    def _linear(self, X: Any) -> Floats:
        features = self._rows_to_predict(X)
        return np.asarray(features @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0])
