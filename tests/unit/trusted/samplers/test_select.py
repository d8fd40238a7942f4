from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from treering.errors import ParameterError
from treering.trusted.samplers import select as module
from treering.trusted.samplers.select import base, exponential

DIGITS = 800


def masses(scores: Sequence[int], ratio: Fraction, multiplicities: Sequence[int] | None = None) -> list[Fraction]:
    """The mechanism's probabilities, written out."""
    counts = multiplicities or [1] * len(scores)
    weights = [count * ratio ** (max(scores) - score) for score, count in zip(scores, counts, strict=True)]
    return [weight / sum(weights) for weight in weights]


def exp_between(exponent: Fraction, digits: int = DIGITS) -> tuple[Fraction, Fraction]:
    """Rationals around e^exponent: decimal's exp is correctly rounded, so its neighbours enclose the truth."""
    with localcontext() as context:
        context.prec = digits
        context.Emin, context.Emax = -(10**9), 10**9
        # The quotient is rounded too: its neighbours enclose the exponent.
        quotient = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        low, high = quotient.next_minus().exp().next_minus(), quotient.next_plus().exp().next_plus()
    return Fraction(low), Fraction(high)


# -- the base ----------------------------------------------------------------------------------------------------------

SCALES = st.one_of(
    st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(10**6)),
    st.floats(1e-3, 1e15).map(Fraction),
    st.integers(1, 2**64).map(Fraction),
)


@settings(deadline=None)
@given(SCALES)
@example(Fraction(1, 1024))
@example(Fraction(1))
@example(Fraction(2**48))
@example(Fraction(0.1))
@example(Fraction(1e300))
def test_the_base_is_never_below_the_exponential_and_close_to_it(scale: Fraction) -> None:
    ratio = base(scale)
    _, above = exp_between(-1 / scale)
    assert above <= ratio < 1
    # b ≤ e^{−(1 − 2^−60)/scale} is the closeness of the logarithm.
    below, _ = exp_between(-(1 - Fraction(1, 2**60)) / scale)
    assert ratio <= below


@pytest.mark.parametrize("bits", [1, 3, 6])
def test_every_rounding_of_the_exponential_is_upwards(bits: int) -> None:
    # At so few bits each rounding shows. e^0 = 1 is the one value that a rational may equal.
    assert module._exponential_above(0, bits) == 2**bits
    for x in range(1, 6 << bits):
        _, above = exp_between(Fraction(-x, 2**bits), digits=40)
        assert Fraction(module._exponential_above(x, bits), 2**bits) >= above


@pytest.mark.parametrize("scale", [Fraction(1, 1025), Fraction(1, 10**6), Fraction(5e-324)])
def test_below_the_sharpest_scale_the_base_stays(scale: Fraction) -> None:
    assert base(scale) == base(Fraction(1, 1024))


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_scales_that_cannot_be_are_refused(scale: Fraction) -> None:
    with pytest.raises(ParameterError, match="scale must be positive"):
        base(scale)
    with pytest.raises(ParameterError, match="scale must be positive"):
        exponential([1, 2], scale)


# -- the claimed loss --------------------------------------------------------------------------------------------------


def worst_ratio(ratio: Fraction, sensitivity: int, multiplicities: Sequence[int]) -> Fraction:
    """The largest ratio of an outcome's probabilities over all neighbours with scores in a small cube."""
    size = len(multiplicities)
    worst = Fraction(0)
    law = {
        scores: masses(scores, ratio, multiplicities)
        for scores in itertools.product(range(-sensitivity, 4 + sensitivity), repeat=size)
    }
    for scores in itertools.product(range(4), repeat=size):
        for step in itertools.product({-sensitivity, 0, sensitivity}, repeat=size):
            neighbour = tuple(map(sum, zip(scores, step, strict=True)))
            worst = max(worst, *map(Fraction.__truediv__, law[scores], law[neighbour]))
    return worst


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
@pytest.mark.parametrize(("sensitivity", "multiplicities"), [(1, [1, 1, 1]), (1, [1, 50, 2]), (2, [1, 1])])
def test_no_neighbour_changes_a_probability_by_more_than_claimed(
    scale: Fraction, sensitivity: int, multiplicities: list[int]
) -> None:
    claimed, _ = exp_between(2 * sensitivity / scale)
    assert worst_ratio(base(scale), sensitivity, multiplicities) <= claimed


def test_the_enumeration_sees_a_base_that_is_too_small() -> None:
    scale = Fraction(1, 3)
    _, claimed = exp_between(2 / scale)
    assert worst_ratio(base(scale * Fraction(2, 3)), 1, [1, 1, 1]) > claimed


# -- exactness: the index is the one whose share holds the uniform number ----------------------------------------------


class Bits:
    """Stands in for `secrets`: hands out the binary digits of one number in [0, 1)."""

    def __init__(self, number: Fraction) -> None:
        self.number = number
        self.used = 0
        self.calls = 0

    def randbits(self, count: int) -> int:
        self.calls += 1
        self.used += count
        return math.floor(self.number * (1 << self.used)) & (1 << count) - 1

    def randbelow(self, bound: int) -> int:
        assert bound >= 1
        return 0


LEVELS = st.lists(
    st.tuples(st.integers(-30, 30), st.integers(1, 10**6)), min_size=1, max_size=6, unique_by=lambda x: x[0]
)


def shares(levels: list[tuple[int, int]], scale: Fraction) -> tuple[list[int], list[Fraction]]:
    """Candidates from the best down, and where their shares of [0, 1) end."""
    order = sorted(range(len(levels)), key=lambda index: -levels[index][0])
    law = masses([score for score, _ in levels], base(scale), [count for _, count in levels])
    return order, list(itertools.accumulate(law[index] for index in order))


def drawn(levels: list[tuple[int, int]], scale: Fraction, number: Fraction) -> tuple[int, Bits]:
    with pytest.MonkeyPatch.context() as patch:
        bits = Bits(number)
        patch.setattr(module, "secrets", bits)
        return exponential([score for score, _ in levels], scale, [count for _, count in levels]), bits


@settings(deadline=None)
@given(LEVELS, st.sampled_from([Fraction(1, 3), Fraction(2), Fraction(17, 10), Fraction(10**6)]), st.data())
def test_the_index_is_the_one_whose_share_holds_the_number(
    levels: list[tuple[int, int]], scale: Fraction, data: st.DataObject
) -> None:
    number = data.draw(st.fractions(0, 1, max_denominator=10**6).filter(lambda number: number < 1))
    order, ends = shares(levels, scale)
    index, _ = drawn(levels, scale, number)
    assert index == next(which for which, end in zip(order, ends, strict=True) if number < end)


@settings(deadline=None)
@given(
    LEVELS.filter(lambda levels: len(levels) > 1),
    st.sampled_from([Fraction(1, 3), Fraction(2), Fraction(10**6)]),
    st.data(),
)
def test_a_number_next_to_a_boundary_is_refined_until_it_is_certain(
    levels: list[tuple[int, int]], scale: Fraction, data: st.DataObject
) -> None:
    order, ends = shares(levels, scale)
    place = data.draw(st.integers(0, len(levels) - 2))
    step = Fraction(1, 2**1500)
    before, bits = drawn(levels, scale, ends[place] - step)
    after, _ = drawn(levels, scale, ends[place] + step)
    assert (before, after) == (order[place], order[place + 1])
    assert bits.calls > 1
    assert bits.used >= 1500


def test_one_round_of_bits_is_enough_for_an_ordinary_number() -> None:
    for turn in range(1, 200):
        levels = [(score * turn**3, turn) for score in range(12)]
        assert drawn(levels, Fraction(turn**3), Fraction(turn, 211))[1].calls == 1


# -- candidates --------------------------------------------------------------------------------------------------------


def test_one_candidate_is_certain() -> None:
    assert exponential([-5], Fraction(1, 7)) == 0


@pytest.mark.parametrize(("digits", "scale"), [(6, 1), (6, 10), (300, 10**294), (4000, 10), (4000, Fraction(1, 1024))])
def test_wide_gaps_are_no_trouble(digits: int, scale: Fraction) -> None:
    scores = [place * 10 ** (digits - 3) for place in range(1000)]
    scores[7] = 10**digits
    assert exponential(scores, Fraction(scale)) == 7


def test_64_bit_scores_do_not_overflow() -> None:
    extremes = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0])
    scores: Any = extremes
    assert exponential(scores, Fraction(1)) == 1


def test_multiplicities_may_outweigh_scores() -> None:
    assert exponential([0, 1000], Fraction(1), [10**1000, 1]) == 0
    assert exponential([0, 1000], Fraction(1), [10**100, 1]) == 1


@pytest.mark.parametrize(
    ("scores", "multiplicities", "parameter"),
    [
        ([], None, "scores"),
        ([], [], "scores"),
        ([71, 72], [1], "multiplicities"),
        ([71, 72], [1, 0], "multiplicities"),
        ([71, 72], [1, -1], "multiplicities"),
        ([71, 72], [1, True], "multiplicities"),
        ([71, 72], [1, 1.5], "multiplicities"),
    ],
)
def test_what_cannot_be_is_refused_without_naming_a_score(
    scores: list[int], multiplicities: Any, parameter: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        exponential(scores, Fraction(1), multiplicities)
    assert caught.value.parameter == parameter
    assert "7" not in str(caught.value)


def test_a_score_that_is_no_integer_is_refused_without_naming_it() -> None:
    scores: Any = [1, 71.5]
    with pytest.raises(TypeError) as caught:
        exponential(scores, Fraction(1))
    assert "71" not in str(caught.value)


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [3, 8, 40])
@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(1, 3), Fraction(9, 10), base(Fraction(7, 3))])
def test_powers_are_bounded_from_both_sides(ratio: Fraction, bits: int) -> None:
    """At few bits each rounding shows."""
    for depths in ([0], [0, 1], [0, 1, 2, 3], [0, 5, 6, 13], [0, 200]):
        lows, highs = module._powers(ratio, depths, bits)
        for depth, low, high in zip(depths, lows, highs, strict=True):
            assert low <= ratio**depth * 2**bits <= high
            assert high - low <= 4 * depth + 1


def test_the_last_share_ends_at_one() -> None:
    """Also where the bounds of the sum differ, so that nothing certain is known of its end."""
    for bits in (8, 20, 64):
        for depths in ([0], [0, 3], [0, 1, 7]):
            found = module._locate(2**bits - 1, bits, Fraction(9, 10), depths, [1] * len(depths))
            assert found == len(depths) - 1
