"""The weights of a series' releases: what they are, to the last one, and the exact sum of their squares."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering as tr
from treering.budget.weights import LONGEST, UNIT, root_weights, squares

LENGTHS = st.one_of(st.integers(1, 300), st.integers(1, LONGEST))


def test_the_first_ones_are_the_nearest_integers() -> None:
    for k, weight in enumerate(root_weights(300).tolist()):
        assert abs(weight - Fraction(UNIT * math.comb(2 * k, k), 4**k)) < Fraction(1, 2)


def test_all_of_them_are_the_nearest_integers() -> None:
    """2^12·r_k lies between two integers over 2^64: products rounded down each time, and up by less than one a step."""
    low, weights = UNIT << 64, root_weights(LONGEST).tolist()
    for k, weight in enumerate(weights):
        if k:
            low = low * (2 * k - 1) // (2 * k)
        assert abs((weight << 64) - low) < (1 << 63) - k


def test_a_double_is_near_enough_to_tell_which_integer_is_nearest() -> None:
    """The margin that the docstring claims: no product is within 2^-32 of its value from the middle of two integers."""
    doubles = np.arange(2.0, 2.0 * LONGEST, 2.0)
    roots = UNIT * np.cumprod((doubles - 1) / doubles)
    assert np.all(np.abs(np.abs(roots - np.floor(roots)) - 0.5) > roots * 2.0**-32)


def test_they_are_positive_never_rise_and_cannot_be_changed() -> None:
    weights = root_weights(LONGEST)
    assert (weights[0], weights[-1]) == (UNIT, 2)
    assert np.all(np.diff(weights) <= 0)
    assert weights.dtype == np.int64
    for each in (weights, root_weights(5)):
        with pytest.raises(ValueError, match="read-only"):
            each[0] = 1


@given(LENGTHS, LENGTHS)
def test_how_many_are_asked_for_does_not_matter(one: int, other: int) -> None:
    """Neither the length nor the order in which lengths are asked for."""
    shorter = min(one, other)
    assert len(root_weights(one)) == one
    assert np.array_equal(root_weights(one)[:shorter], root_weights(other)[:shorter])


@given(LENGTHS)
def test_the_sum_of_squares_is_exact(length: int) -> None:
    found = squares(length)
    assert type(found) is int
    assert found == sum(weight * weight for weight in root_weights(length).tolist())


def test_rounded_weights_do_not_have_the_squares_of_the_real_ones() -> None:
    """A broken twin: a charge by r_k in place of w_k is too small for some lengths, and by more than any rounding."""
    roots = [Fraction(UNIT * math.comb(2 * k, k), 4**k) for k in range(300)]
    real, differences = Fraction(0), []
    for length, root in enumerate(roots, start=1):
        real += root**2
        differences.append(squares(length) - real)
    assert max(differences) > 1
    assert squares(2) == sum(root**2 for root in roots[:2]) == UNIT**2 + (UNIT // 2) ** 2


@pytest.mark.parametrize("length", [0, -1, True, 2.0])
def test_a_length_that_is_none_is_refused(length: int) -> None:
    for function in (root_weights, squares):
        with pytest.raises(tr.ParameterError, match="length must be an integer of at least 1"):
            function(length)


def test_more_than_there_are_is_refused() -> None:
    for function in (root_weights, squares):
        with pytest.raises(tr.ParameterError, match=r"length must be at most 2\^20, not 1048577"):
            function(LONGEST + 1)
