"""Points: features and intercept together have norm at most 1, and all points are counted in one cell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treering.trusted.journal import MemoryJournal
from treering.trusted.learning.points import Bounds, Points


@pytest.mark.parametrize(("intercept", "factor"), [(0.0, 1.0), (1.0, 1 / math.sqrt(2)), (2.0, 1 / math.sqrt(5))])
def test_the_factor_of_features_and_intercept(intercept: float, factor: float) -> None:
    found = Bounds(intercept=intercept).factor
    assert found == pytest.approx(factor, rel=1e-15)
    assert math.hypot(found, found * intercept) == pytest.approx(1.0)


def test_points_lie_in_one_cell_which_counts_them() -> None:
    points = Points(2, "none")
    journal = MemoryJournal()
    assert points.marginal((0,)).tolist() == [0]
    for number, total in ((3, 3), (0, 3), (2000, 2003)):
        points.add_points(np.full((number, 2), 0.1))
        points.mark(journal)
        assert points.marginal((0,)).tolist() == [total] == [points.size]
    assert sum(int(counts.sum()) for _, counts in points.between(3, 2003)) == 2000
