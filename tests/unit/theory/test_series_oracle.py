"""Series beside jax-privacy, which has the square root factorisation for a known number of answers, in floats.

Its import takes seconds: all that is compared with it is in this file. Double precision is switched on in a block, for
jax's own setting is shared with other tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import jax
import numpy as np
import pytest
from jax_privacy.matrix_factorization import toeplitz

from treering.budget.weights import LONGEST, UNIT, Weights
from treering.theory.series import deviation, energy, inverse, release_noise

LENGTHS = [1, 16, 365, 1024]
ROOT = Weights.ROOT
BOTH = pytest.mark.parametrize("rule", list(Weights))
ROUNDING = 2.0**-13
"""The most that a weight in units of 1/UNIT is rounded by."""


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("length", [*LENGTHS, 2**16, 2**20])
def test_the_weights_are_its_coefficients_but_for_rounding(length: int) -> None:
    theirs = np.asarray(toeplitz.optimal_max_error_strategy_coefs(length))
    assert theirs.dtype == np.float64
    assert np.abs(ROOT.first(length) / UNIT - theirs).max() <= ROUNDING


@BOTH
@pytest.mark.parametrize("length", LENGTHS)
def test_the_estimates_are_those_of_its_inverse_of_our_weights(length: int, rule: Weights) -> None:
    """l is what sums up after the weights have been inverted: by its solver, and by its inverse summed up."""
    weights = jax.numpy.asarray(rule.first(length) / UNIT)
    solved = np.asarray(toeplitz.solve_banded(weights, jax.numpy.ones(length)))
    summed = np.cumsum(np.asarray(toeplitz.inverse_coef(weights)))
    for theirs in (solved, summed):
        assert np.abs(UNIT * inverse(length, rule) - theirs).max() < 1e-12


@pytest.mark.parametrize("length", [*LENGTHS, 2**16, 2**20])
def test_the_estimates_are_its_optimal_ones_but_for_what_rounding_explains(length: int) -> None:
    """With W = w/UNIT = R + E and R² = 1/(1−x), l·UNIT − R = −E·(l·UNIT)/R, and 1/R has the coefficients of its
    optimal noise matrix: so no coefficient differs by more than max|E| times the sum of those of (l·UNIT)/R."""
    theirs = np.cumsum(np.asarray(toeplitz.optimal_max_error_noising_coefs(length)))
    noising = np.asarray(toeplitz.optimal_max_error_noising_coefs(length))
    ours = UNIT * inverse(length, ROOT)
    size = 2 * length
    ratio = np.fft.irfft(np.fft.rfft(ours, size) * np.fft.rfft(noising, size), size)[:length]
    explained = ROUNDING * np.abs(ratio).sum()
    assert explained < 2.5 * ROUNDING
    assert np.abs(ours - theirs).max() <= explained


@BOTH
@pytest.mark.parametrize("length", LENGTHS)
def test_its_sensitivity_and_errors_are_ours(length: int, rule: Weights) -> None:
    """For our integers: the squared sensitivity to one row, and the variance at every leaf of a segment."""
    weights = jax.numpy.asarray(rule.first(length) / UNIT)
    assert float(toeplitz.sensitivity_squared(weights)) == pytest.approx(rule.squares(length) / UNIT**2, rel=1e-12)
    theirs = np.asarray(toeplitz.per_query_error(strategy_coef=weights))
    assert np.cumsum((UNIT * inverse(length, rule)) ** 2) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(("leaves", "figure"), [(50, 2.31), (365, 2.94), (1024, 3.27)])
def test_its_largest_error_for_a_known_length_is_ours(leaves: int, figure: float) -> None:
    """Its loss is the squared error of the last answer times the squared sensitivity: ours at price 1, in rows²."""
    coefficients = toeplitz.optimal_max_error_strategy_coefs(leaves)
    theirs = math.sqrt(float(toeplitz.loss(coefficients, leaves, jax.numpy.max)))
    ours = release_noise(Fraction(1), leaves, 2, ROOT).scale * math.sqrt(energy(1, leaves, ROOT))
    assert round(theirs, 2) == figure
    assert theirs < ours < 1.0001 * theirs


@pytest.mark.parametrize(("leaves", "most"), [(365, 1.25), (10_000, 1.28)])
def test_not_knowing_the_length_costs_less_than_a_third_of_what_it_has_with_it(leaves: int, most: float) -> None:
    theirs = math.sqrt(float(toeplitz.loss(toeplitz.optimal_max_error_strategy_coefs(leaves), leaves, jax.numpy.max)))
    assert 1.2 < deviation(leaves) / theirs < most


def test_the_deviation_after_a_year_is_that_of_two_of_its_mechanisms() -> None:
    """Leaf 365 is the end of a segment of one leaf, and leaf 364 of one of 2^20: each with its sensitivity."""
    variance = 1.0
    weights = jax.numpy.asarray(Weights.FADING.first(LONGEST) / UNIT)
    errors = toeplitz.per_query_error(strategy_coef=weights[:364])
    variance += float(errors[-1]) * float(toeplitz.sensitivity_squared(weights))
    assert deviation(365) == pytest.approx(math.sqrt(variance), rel=1e-9)
