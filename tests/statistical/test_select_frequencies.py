"""The exponential mechanism draws with its exact probabilities; with another epsilon, 3/2 or 2/3 of it, it is rejected.

Every check has a false-alarm rate of at most 1e-9 and a bound on its miss rate that is asserted (``support.goodness``).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from support.goodness import Integers, exponential_masses, fits, miss_rate
from treering.trusted.samplers.select import exponential

DRAWS = 8_000
MISSED = 1e-6

CASES = pytest.mark.parametrize(
    ("scores", "scale", "multiplicities"),
    [
        pytest.param([0, 1, 2, 5], Fraction(2), None, id="plain"),
        pytest.param([3, -1, 3, 0, 3], Fraction(3), None, id="ties"),
        pytest.param([2, 0, 1], Fraction(1, 2), [1, 40, 6], id="multiplicities"),
        pytest.param([-(10**30), 10**12 + 700, 10**12], Fraction(500), [10**9, 1, 3], id="wide gaps"),
        pytest.param([0, 2**50, 2**49], Fraction(2**48), [50, 1, 2], id="large scale"),
        pytest.param([1, 0], Fraction(1, 6), [1, 300], id="small scale"),
        pytest.param(list(range(0, 400, 10)), Fraction(70), None, id="forty candidates"),
    ],
)


def frequencies(scores: list[int], scale: Fraction, multiplicities: list[int] | None) -> Integers:
    drawn = [exponential(scores, scale, multiplicities) for _ in range(DRAWS)]
    return np.bincount(drawn, minlength=len(scores)).astype(np.int64)


@CASES
def test_frequencies_are_those_of_the_law(scores: list[int], scale: Fraction, multiplicities: list[int] | None) -> None:
    assert fits(frequencies(scores, scale, multiplicities), exponential_masses(scores, float(scale), multiplicities))


@CASES
@pytest.mark.parametrize("tilt", [Fraction(2, 3), Fraction(3, 2)])
def test_another_epsilon_is_rejected(
    scores: list[int], scale: Fraction, multiplicities: list[int] | None, tilt: Fraction
) -> None:
    right = exponential_masses(scores, float(scale), multiplicities)
    wrong = exponential_masses(scores, float(scale / tilt), multiplicities)
    assert miss_rate(right, wrong, DRAWS) < MISSED
    assert not fits(frequencies(scores, scale / tilt, multiplicities), right)


def test_a_multiplicity_is_as_good_as_duplicates() -> None:
    multiplicities = [3, 1, 6]
    scores = [4, 6, 1]
    spread = [score for score, count in zip(scores, multiplicities, strict=True) for _ in range(count)]
    law = exponential_masses(scores, 3.0, multiplicities)
    single = frequencies(spread, Fraction(3), None)
    assert fits(frequencies(scores, Fraction(3), multiplicities), law)
    assert fits(single, np.repeat(law / multiplicities, multiplicities))
    assert fits(np.add.reduceat(single, [0, 3, 4]), law)
    assert not fits(frequencies(scores, Fraction(3), None), law)


def test_equal_scores_are_equally_likely() -> None:
    assert fits(frequencies([7] * 6, Fraction(1), None), np.full(6, 1 / 6))
    assert not fits(frequencies([7, 7, 7, 7, 7, 6], Fraction(1), None), np.full(6, 1 / 6))
