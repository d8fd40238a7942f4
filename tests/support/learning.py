"""Points and neighbours for tests of learning."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.domain.loss import Loss
from treering.trusted.kernel import Kernel
from treering.trusted.learning.points import Points
from treering.trusted.memory.points import GrowingPoints

RICH = Budget("zcdp", Fraction(10**60))
PURE = Budget("pure", Fraction(10**60))


def points(features: Floats, labels: Floats | None, loss: Loss) -> GrowingPoints:
    """A growing collection with the labels that a loss takes."""
    made = GrowingPoints(features.shape[1], loss.labels)
    made.append(features, None if loss.labels == "none" else labels)
    return made


def store(features: Floats, labels: Floats | None, loss: Loss) -> Points:
    """The sealed store alone."""
    made = Points(features.shape[1], loss.labels)
    made.add_points(features, None if loss.labels == "none" else labels)
    return made


def gate(features: Floats, labels: Floats | None, loss: Loss, budget: Budget = RICH) -> Kernel:
    """A gate to such points."""
    return points(features, labels, loss).open_gate(budget)


def sample(loss: Loss, generator: np.random.Generator, rows: int, dimension: int) -> tuple[Floats, Floats]:
    """Random points of the ball, some of them adversarial: on its surface, on an axis, at the centre."""
    features = generator.normal(size=(rows, dimension))
    features /= np.linalg.norm(features, axis=1, keepdims=True) / generator.random((rows, 1))
    axis = np.zeros(dimension)
    axis[0] = 1.0
    features[::5], features[1::7], features[2::9] = axis, -axis, 0.0
    if loss.labels == "numbers":
        return features, np.clip(generator.normal(size=rows), -1, 1)
    return features, np.where(generator.random(rows) < 0.5, -1.0, 1.0)
