"""From batch j to batch 2j the deviation of a series by square roots grows by less than 1.8: `Continual` rests on it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treering.theory import series


@pytest.mark.parametrize("groups", [2, 12, 1_000, 32_768])
def test_twice_the_batches_have_less_than_1_8_times_the_deviation(groups: int) -> None:
    leaves = [*range(1, 64), *(2**power + shift for power in range(6, 18) for shift in (-1, 0, 1, 17))]
    for leaf in leaves:
        before, after = (series.variance(1, each, Fraction(1), groups) for each in (leaf, 2 * leaf))
        assert before < after < 1.8**2 * before
