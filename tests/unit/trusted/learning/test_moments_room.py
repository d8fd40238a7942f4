"""Sums of residuals: how large they may become, how many rows are summed at once, and what they are clipped to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treering.domain.problem import FEATURE_UNIT, Refinement
from treering.errors import ParameterError
from treering.trusted.learning.moments import check_refinement, check_room, clip_for, exact_rows


def test_sums_stay_below_2_to_the_61() -> None:
    check_room(math.nextafter(2.0**61, 0), "size")
    with pytest.raises(ParameterError, match="resolution.* too large"):
        check_room(2.0**61, "resolution")


def test_residuals_of_the_largest_clip_leave_room() -> None:
    """A residual is at most 2, in units of one over a feature's, and so is a feature."""
    most = 2**61 // (2 * FEATURE_UNIT**2)
    refinement = Refinement(1, 10.0, 64.0, 0.1)
    check_refinement(refinement, most - 1)
    check_refinement(None, most)
    with pytest.raises(ParameterError, match="size"):
        check_refinement(refinement, most)


@pytest.mark.parametrize(
    ("largest", "rows"), [(1, 65_536), (2**20, 65_536), (2**21, 32_768), (2**36, 1), (2**36 + 1, 1), (2**40, 1)]
)
def test_rows_of_a_block(largest: int, rows: int) -> None:
    assert exact_rows(largest) == rows


@pytest.mark.parametrize(
    ("sizes", "noise", "clip"),
    [
        ({0: 100}, 0.0, 2.0**-12),
        ({1: 98, 5: 2}, 0.0, 2.0**-11),
        ({1: 97, 5: 3}, 0.0, 2.0**-7),
        ({1: 90, 5: 10}, 2.0, 2.0**-11),
        ({1: 89, 5: 11}, 2.0, 2.0**-7),
        ({14: 100}, 0.0, 2.0),
    ],
)
def test_the_least_clip_that_few_residuals_exceed(sizes: dict[int, int], noise: float, clip: float) -> None:
    """Two hundredths of the entries, and four times the noise."""
    counts = np.array([sizes.get(place, 0) for place in range(15)], dtype=np.int64)
    assert clip_for(counts, 100, noise) == clip
