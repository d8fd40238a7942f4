"""Points: features and intercept together have norm at most 1, and all points are counted in one cell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treering.domain.groups import Groups
from treering.trusted.learning.points import POINTS, Bounds, Points


@pytest.mark.parametrize(("intercept", "factor"), [(0.0, 1.0), (1.0, 1 / math.sqrt(2)), (2.0, 1 / math.sqrt(5))])
def test_the_factor_of_features_and_intercept(intercept: float, factor: float) -> None:
    found = Bounds(intercept=intercept).factor
    assert found == pytest.approx(factor, rel=1e-15)
    assert math.hypot(found, found * intercept) == pytest.approx(1.0)


def test_points_lie_in_one_cell_which_counts_them() -> None:
    points = Points(2, "none")
    assert points.cells.marginal((0,)).tolist() == [0]
    for number, total in ((3, 3), (0, 3), (2000, 2003)):
        points.add_points(np.full((number, 2), 0.1))
        assert points.cells.marginal((0,)).tolist() == [total] == [points.size]
    assert [each.tolist() for each in points.tally(Groups.marginal(POINTS), (3, 2003))] == [[0], [0], [2000]]
