"""The weights of a series' releases: what they are, to the last one, and the exact sum of their squares."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.arrays import Floats
from treering.budget.weights import LONGEST, UNIT, Weights

LENGTHS = st.one_of(st.integers(1, 300), st.integers(1, LONGEST))
RULES = st.sampled_from(list(Weights))
BOTH = pytest.mark.parametrize("rule", list(Weights))


def reals(rule: Weights, length: int) -> list[Fraction]:
    """What the weights stand for, exactly."""
    found, harmonic = [], Fraction(0)
    for k in range(length):
        harmonic += Fraction(1, k) if k else 0
        fade = 1 + harmonic / 6 if rule is Weights.FADING else 1
        found.append(Fraction(UNIT * math.comb(2 * k, k), 4**k) / fade)
    return found


@BOTH
def test_the_first_ones_are_the_nearest_integers(rule: Weights) -> None:
    for weight, real in zip(rule.first(300).tolist(), reals(rule, 300), strict=True):
        assert abs(weight - real) < Fraction(1, 2)


def test_all_of_them_are_the_nearest_integers() -> None:
    """2^12·r_k lies between two integers over 2^64: products rounded down each time, and up by less than one a step.
    So does 1 + H_k/6, over 2^96."""
    low, harmonic = UNIT << 64, 6 << 96
    roots, fading = (rule.first(LONGEST).tolist() for rule in Weights)
    for k, (root, faded) in enumerate(zip(roots, fading, strict=True)):
        if k:
            low = low * (2 * k - 1) // (2 * k)
            harmonic += (1 << 96) // k
        assert abs((root << 64) - low) < (1 << 63) - k
        # What is rounded off the sum is less than k/2^96, so this is within k of the real, over 2^64.
        assert abs((faded << 64) - (low * 6 << 96) // harmonic) < (1 << 63) - k - 1


@BOTH
def test_a_double_is_near_enough_to_tell_which_integer_is_nearest(rule: Weights) -> None:
    """The margin that the docstring claims: none is within 2^-31 of its value from the middle of two integers."""
    doubles = np.arange(2.0, 2.0 * LONGEST, 2.0)
    found: Floats = (UNIT * np.cumprod((doubles - 1) / doubles)).astype(np.float64)
    if rule is Weights.FADING:
        found /= 1 + np.cumsum(2 / doubles) / 6
    assert np.all(np.abs(np.abs(found - np.floor(found)) - 0.5) > found * 2.0**-31)


@BOTH
def test_they_are_positive_never_rise_and_cannot_be_changed(rule: Weights) -> None:
    weights = rule.first(LONGEST)
    assert (weights[0], weights[-1]) == (UNIT, 2 if rule is Weights.ROOT else 1)
    assert np.all(np.diff(weights) <= 0)
    assert weights.dtype == np.int64
    for each in (weights, rule.first(5)):
        with pytest.raises(ValueError, match="read-only"):
            each[0] = 1


@given(RULES, LENGTHS, LENGTHS)
def test_how_many_are_asked_for_does_not_matter(rule: Weights, one: int, other: int) -> None:
    """Neither the length nor the order in which lengths are asked for."""
    shorter = min(one, other)
    assert len(rule.first(one)) == one
    assert np.array_equal(rule.first(one)[:shorter], rule.first(other)[:shorter])


@given(RULES, LENGTHS)
def test_the_sum_of_squares_is_exact(rule: Weights, length: int) -> None:
    found = rule.squares(length)
    assert type(found) is int
    assert found == sum(weight * weight for weight in rule.first(length).tolist())


def test_rounded_weights_do_not_have_the_squares_of_the_real_ones() -> None:
    """A broken twin: a charge by r_k in place of w_k is too small for some lengths, and by more than any rounding."""
    total, differences = Fraction(0), []
    for length, real in enumerate(reals(Weights.ROOT, 300), start=1):
        total += real**2
        differences.append(Weights.ROOT.squares(length) - total)
    assert max(differences) > 1


def test_the_sum_of_squares_hardly_grows_if_they_fade() -> None:
    """It is that which makes the number of leaves matter little."""
    sums = {rule: [rule.squares(2**power) / UNIT**2 for power in (0, 10, 20)] for rule in Weights}
    assert sums[Weights.FADING] == pytest.approx([1, 1.93, 2.23], abs=0.005)
    assert sums[Weights.ROOT] == pytest.approx([1, 3.27, 5.48], abs=0.005)


@BOTH
@pytest.mark.parametrize("length", [0, -1, True, 2.0])
def test_a_length_that_is_none_is_refused(rule: Weights, length: int) -> None:
    for function in (rule.first, rule.squares):
        with pytest.raises(tr.ParameterError, match="length must be an integer of at least 1"):
            function(length)


@BOTH
def test_more_than_there_are_is_refused(rule: Weights) -> None:
    for function in (rule.first, rule.squares):
        with pytest.raises(tr.ParameterError, match=r"length must be at most 2\^20, not 1048577"):
            function(LONGEST + 1)
