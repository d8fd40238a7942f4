"""Features and intercept together have norm at most 1, whatever the intercept's weight."""

from __future__ import annotations

import math

import pytest

from treering.trusted.learning.points import Bounds


@pytest.mark.parametrize(("intercept", "factor"), [(0.0, 1.0), (1.0, 1 / math.sqrt(2)), (2.0, 1 / math.sqrt(5))])
def test_the_factor_of_features_and_intercept(intercept: float, factor: float) -> None:
    found = Bounds(intercept=intercept).factor
    assert found == pytest.approx(factor, rel=1e-15)
    assert math.hypot(found, found * intercept) == pytest.approx(1.0)
