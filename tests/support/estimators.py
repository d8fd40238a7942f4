"""Easy data and estimators for tests of `treering.learn`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from treering.arrays import Floats
from treering.learn import PrivateLogisticRegression, PrivateMedian, PrivateRidge, PrivateSVC
from treering.learn.base import PrivateEstimator

RICH: Final[dict[str, Any]] = {"epsilon": 1e6, "delta": 1e-6, "beta": 1e-9}
"""So much that noise hardly matters."""


def easy(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Points in a disk of radius 10, and the number 3 + 2x₀ − x₁, which lies within ±30."""
    generator = np.random.default_rng(seed)
    features = generator.uniform(-7, 7, size=(rows, 2))
    return features, 3 + features @ [2.0, -1.0]


def sides(numbers: Floats) -> Any:
    """A label for each number: its sign."""
    return np.where(numbers > 0, "over", "under")


def estimators(**given: Any) -> list[PrivateEstimator]:
    """One of each, with everything declared."""
    options = {**RICH, "norm_bound": 10.0, "start": 100, **given}
    return [
        PrivateLogisticRegression(classes=("over", "under"), **options),
        PrivateSVC(classes=("over", "under"), **options),
        PrivateRidge(label_bound=30.0, **options),
        PrivateMedian(**options),
    ]


def labels_for(estimator: PrivateEstimator, numbers: Floats) -> Any:
    """What this estimator learns to tell."""
    if isinstance(estimator, PrivateMedian):
        return None
    return numbers if isinstance(estimator, PrivateRidge) else sides(numbers)
