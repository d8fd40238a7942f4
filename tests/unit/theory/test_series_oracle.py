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

from treering.budget.weights import UNIT, root_weights, squares
from treering.theory.series import EARLY, deviation, root_inverse, root_noise

LENGTHS = [1, 16, 365, 1024]
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
    assert np.abs(root_weights(length) / UNIT - theirs).max() <= ROUNDING


@pytest.mark.parametrize("length", LENGTHS)
def test_the_estimates_are_those_of_its_inverse_of_our_weights(length: int) -> None:
    """l is what sums up after the weights have been inverted: by its solver, and by its inverse summed up."""
    weights = jax.numpy.asarray(root_weights(length) / UNIT)
    solved = np.asarray(toeplitz.solve_banded(weights, jax.numpy.ones(length)))
    summed = np.cumsum(np.asarray(toeplitz.inverse_coef(weights)))
    for theirs in (solved, summed):
        assert np.abs(UNIT * root_inverse(length) - theirs).max() < 1e-12


@pytest.mark.parametrize("length", [*LENGTHS, 2**16, 2**20])
def test_the_estimates_are_its_optimal_ones_but_for_what_rounding_explains(length: int) -> None:
    """With W = w/UNIT = R + E and R² = 1/(1−x), l·UNIT − R = −E·(l·UNIT)/R, and 1/R has the coefficients of its
    optimal noise matrix: so no coefficient differs by more than max|E| times the sum of those of (l·UNIT)/R."""
    theirs = np.cumsum(np.asarray(toeplitz.optimal_max_error_noising_coefs(length)))
    noising = np.asarray(toeplitz.optimal_max_error_noising_coefs(length))
    ours = UNIT * root_inverse(length)
    size = 2 * length
    ratio = np.fft.irfft(np.fft.rfft(ours, size) * np.fft.rfft(noising, size), size)[:length]
    explained = ROUNDING * np.abs(ratio).sum()
    assert explained < 2.5 * ROUNDING
    assert np.abs(ours - theirs).max() <= explained


@pytest.mark.parametrize("length", LENGTHS)
def test_its_sensitivity_and_errors_are_ours(length: int) -> None:
    """For our integers: the squared sensitivity to one row, and the variance at every leaf of a segment."""
    weights = jax.numpy.asarray(root_weights(length) / UNIT)
    assert float(toeplitz.sensitivity_squared(weights)) == pytest.approx(squares(length) / UNIT**2, rel=1e-12)
    theirs = np.asarray(toeplitz.per_query_error(strategy_coef=weights))
    assert np.cumsum((UNIT * root_inverse(length)) ** 2) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(("leaves", "figure"), [(50, 2.31), (365, 2.94), (1024, 3.27)])
def test_its_largest_error_for_a_known_length_is_ours(leaves: int, figure: float) -> None:
    """Its loss is the squared error of the last answer times the squared sensitivity: ours at price 1, in rows²."""
    coefficients = toeplitz.optimal_max_error_strategy_coefs(leaves)
    theirs = math.sqrt(float(toeplitz.loss(coefficients, leaves, jax.numpy.max)))
    ours = root_noise(Fraction(1), leaves, 2).scale * math.sqrt(np.sum(root_inverse(leaves) ** 2))
    assert round(theirs, 2) == figure
    assert theirs < ours < 1.0001 * theirs


def test_the_deviation_after_a_year_is_that_of_three_of_its_mechanisms() -> None:
    """Leaf 365 is the end of segments of 1 and 16 leaves, and leaf 348 of one of 1024: each with its sensitivity."""
    variance = 0.0
    for length, position in zip(EARLY, (1, 16, 348), strict=True):
        coefficients = toeplitz.optimal_max_error_strategy_coefs(length)
        errors = toeplitz.per_query_error(strategy_coef=coefficients)
        variance += float(errors[position - 1]) * float(toeplitz.sensitivity_squared(coefficients))
    assert deviation(365) == pytest.approx(math.sqrt(variance), rel=1e-4)
