"""The numbers of a series: segments, noise, the estimates' coefficients and variances."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import treering as tr
from treering.arrays import Floats, Ints
from treering.budget import cost
from treering.budget.weights import LONGEST, UNIT, root_weights, squares
from treering.noise import Gaussian
from treering.theory import continual
from treering.theory.series import (
    EARLY,
    LEAST_PRICE,
    LIMIT,
    MOST_GROUPS,
    deviation,
    place,
    prefix_coefficients,
    root_inverse,
    root_noise,
    rooted,
    segment_length,
    variance,
    window_coefficients,
)

GROUPS = st.one_of(st.integers(1, 64), st.integers(1, MOST_GROUPS))
PRICES = st.fractions(Fraction(1, 10**9), 10)
EXACT = 200


@cache
def matrix(length: int) -> Ints:
    """The weights of the leaves in the releases of a segment: release t has w_{t−s} of leaf s."""
    rows, columns = np.indices((length, length))
    return np.where(rows >= columns, root_weights(length)[np.abs(rows - columns)], 0)


@cache
def exact_inverse(length: int) -> list[Fraction]:
    """l by long division, Σ_j steps_j·l_{k−j} = [k = 0], without rounding."""
    steps = np.diff(root_weights(length), prepend=0).tolist()
    found = [Fraction(1, UNIT)]
    for k in range(1, length):
        found.append(-sum((steps[j] * found[k - j] for j in range(1, k + 1)), Fraction(0)) / UNIT)
    return found


# -- segments ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**13), GROUPS)
def test_a_leaf_has_its_place(leaf: int, groups: int) -> None:
    """What is before the segment and the position in it make the leaf's number: so the next leaf has the next place."""
    segment, position = place(leaf, groups)
    later = max(0, segment - len(EARLY))
    before = sum(EARLY[:segment]) + later * segment_length(len(EARLY), groups)
    assert before + position == leaf
    assert 1 <= position <= segment_length(segment, groups)


@given(st.integers(0, 100), GROUPS)
def test_no_segment_keeps_more_than_the_limit(segment: int, groups: int) -> None:
    length = segment_length(segment, groups)
    assert groups * length <= LIMIT
    assert length <= LONGEST
    assert length == EARLY[segment] if segment < 3 else length >= EARLY[-1]


def test_the_lengths_are_those_of_the_design() -> None:
    assert [segment_length(segment, 32) for segment in range(5)] == [1, 16, 1024, 2**20, 2**20]
    assert [segment_length(segment, 33) for segment in range(4)] == [1, 16, 1024, 2**25 // 33]
    assert [segment_length(segment, MOST_GROUPS) for segment in range(4)] == [1, 16, 1024, 1024]


def test_more_groups_are_for_trees() -> None:
    assert rooted(MOST_GROUPS)
    assert not rooted(MOST_GROUPS + 1)
    for refused in (lambda: segment_length(0, MOST_GROUPS + 1), lambda: variance(1, 1, Fraction(1), MOST_GROUPS + 1)):
        with pytest.raises(tr.ParameterError, match="groups must be at most 32768, not 32769: use trees"):
            refused()


def test_what_is_no_leaf_segment_or_number_of_groups_is_refused() -> None:
    with pytest.raises(tr.ParameterError, match="leaf must be an integer of at least 1"):
        place(0, 2)
    with pytest.raises(tr.ParameterError, match="segment must be an integer of at least 0"):
        segment_length(-1, 2)
    for refused in (rooted, lambda groups: root_noise(Fraction(1), 1, groups), lambda groups: deviation(1, groups)):
        with pytest.raises(tr.ParameterError, match="groups must be an integer of at least 1"):
            refused(0)


# -- noise -------------------------------------------------------------------------------------------------------------


@given(PRICES, st.one_of(st.sampled_from([*EARLY, LONGEST]), st.integers(1, 3000)), GROUPS)
def test_the_noise_is_the_least_that_keeps_to_the_price(price: Fraction, length: int, groups: int) -> None:
    scale = root_noise(price, length, groups).scale
    distance = (1 if groups == 1 else 2) * squares(length)
    assert cost.gaussian(distance, scale).rho <= price
    assert cost.gaussian(distance, math.nextafter(scale, 0)).rho > price


@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("length", [1, 2, 7, 16, 100])
def test_no_row_of_a_segment_pays_more_than_the_price(length: int, groups: int) -> None:
    """Release by release, as the kernel charges them: the rows of the first leaf pay all of it, later ones less."""
    price = Fraction(1, 50)
    scale = root_noise(price, length, groups).scale
    moved = 1 if groups == 1 else 2
    paid = [
        sum((cost.gaussian(moved * weight**2, scale).rho for weight in column), Fraction(0))
        for column in matrix(length).T.tolist()
    ]
    assert price * (1 - Fraction(1, 2**50)) < paid[0] <= price
    assert all(later < earlier for earlier, later in pairwise(paid))


@pytest.mark.parametrize("length", [16, 1024, LONGEST])
def test_noise_by_unrounded_weights_would_overspend(length: int) -> None:
    """A broken twin: σ from Σ r_k² in place of Σ w_k². All segments but the first would cost more than the price."""
    price = Fraction(1, 50)
    k = np.arange(1, length)
    real = math.fsum(np.cumprod((2 * k - 1) / (2 * k)) ** 2) + 1
    twin = UNIT * math.sqrt(real / price)
    assert cost.gaussian(2 * squares(length), twin).rho > price * (1 + Fraction(1, 10**5))
    assert twin < root_noise(price, length, 2).scale


@given(st.sampled_from([*EARLY, LONGEST]), st.sampled_from([1, 2, 12]))
def test_a_price_that_is_high_enough_once_is_high_enough_for_ever(length: int, groups: int) -> None:
    assert root_noise(LEAST_PRICE, length, groups).scale <= 2.0**48
    with pytest.raises(tr.ParameterError, match="price is too small: the noise would be wider than any database"):
        root_noise(LEAST_PRICE * Fraction(999, 1000), length, groups)


@pytest.mark.parametrize("price", [Fraction(0), Fraction(-1)])
def test_a_price_is_positive(price: Fraction) -> None:
    with pytest.raises(tr.ParameterError, match="price must be a positive finite number"):
        root_noise(price, 1, 2)


# -- coefficients ------------------------------------------------------------------------------------------------------


def test_the_inverse_is_that_of_exact_division() -> None:
    for found, right in zip(root_inverse(EXACT).tolist(), exact_inverse(EXACT), strict=True):
        assert abs(found - right) <= right * Fraction(1, 2**48)


@pytest.mark.parametrize("length", [2**12, 2**16, 2**20])
def test_the_inverse_leaves_nothing(length: int) -> None:
    """Without a transform: few of the weights differ from the one before, so the product is a sum of few slices."""
    steps, inverse = np.diff(root_weights(length), prepend=0), root_inverse(length)
    product = np.zeros(length)
    for j in np.flatnonzero(steps).tolist():
        product[j:] += steps[j] * inverse[: length - j]
    product[0] -= 1
    assert np.abs(product).max() <= 2.0**-50
    assert np.abs(np.cumsum(product)).max() <= 2.0**-40  # of a row's weight, which should be 1


def test_the_coefficients_are_positive_and_at_most_one_row() -> None:
    inverse = root_inverse(LONGEST)
    assert inverse[0] == 1 / UNIT
    assert inverse.min() > 0
    assert inverse[1:].max() < inverse[0]


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_how_many_are_asked_for_does_not_matter(one: int, other: int) -> None:
    shorter = min(one, other)
    assert len(root_inverse(one)) == one
    assert np.array_equal(root_inverse(one)[:shorter], root_inverse(other)[:shorter])


def test_what_is_shared_cannot_be_changed() -> None:
    for shared in (root_inverse(5), prefix_coefficients(5)):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 1
    own = window_coefficients(1, 5)
    own[0] = 1
    assert prefix_coefficients(5)[0] != 1


def test_an_estimate_counts_every_row_once_exactly() -> None:
    """l * w = 1, 1, 1, …, without rounding."""
    inverse, weights = exact_inverse(EXACT), root_weights(EXACT).tolist()
    for k in range(EXACT):
        assert sum((inverse[j] * weights[k - j] for j in range(k + 1)), Fraction(0)) == 1


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300))
def test_a_window_counts_its_rows_once_and_no_others(one: int, other: int) -> None:
    first, last = sorted((one, other))
    counted = window_coefficients(first, last) @ matrix(300)[:last, :last]
    assert np.abs(counted - (np.arange(1, last + 1) >= first)).max() < 1e-12


@given(st.integers(1, 3000))
def test_a_prefix_is_a_window_from_the_first_leaf(last: int) -> None:
    assert np.array_equal(prefix_coefficients(last), window_coefficients(1, last))


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_two_windows_make_one(one: int, other: int) -> None:
    assume(one != other)
    first, last = sorted((one, other))
    late = window_coefficients(first + 1, last)
    late[:first] += prefix_coefficients(first)
    assert late == pytest.approx(prefix_coefficients(last), abs=1e-15)


def test_estimates_by_the_real_weights_would_be_biased() -> None:
    """A broken twin: r in place of l, though w was released. Of 10^7 rows it would miss thousands."""
    k = np.arange(1, 1024)
    roots = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    counted = np.convolve(roots, root_weights(1024) / UNIT)[:1024]
    assert np.abs(counted - 1).max() > 3e-4
    assert np.abs(prefix_coefficients(1024) @ matrix(1024) - 1).max() < 1e-12


def test_coefficients_that_are_not_there_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="first must be at most 3, the last leaf, not 4"):
        window_coefficients(4, 3)
    with pytest.raises(tr.ParameterError, match="first must be an integer of at least 1"):
        window_coefficients(0, 3)
    with pytest.raises(tr.ParameterError, match=r"length must be at most 2\^20, not 1048577"):
        prefix_coefficients(LONGEST + 1)
    with pytest.raises(tr.ParameterError, match="length must be an integer of at least 1"):
        root_inverse(0)


# -- accuracy ----------------------------------------------------------------------------------------------------------


@cache
def whole_series(leaves: int, price: Fraction, groups: int) -> tuple[Floats, Floats]:
    """The matrix of all releases of a series, segment after segment, and the scale of each release's noise."""
    weights, scales = np.zeros((leaves, leaves)), np.zeros(leaves)
    start = 0
    for length in EARLY:
        stop = min(leaves, start + length)
        weights[start:stop, start:stop] = matrix(stop - start) if stop > start else 0
        scales[start:stop] = root_noise(price, length, groups).scale
        start = stop
    return weights, scales


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from([Fraction(1, 7), Fraction(3)]), st.sampled_from([1, 9]))
def test_the_variance_is_that_of_the_one_unbiased_estimate(one: int, other: int, price: Fraction, groups: int) -> None:
    """By solving for the coefficients of all releases of all segments at once."""
    first, last = sorted((one, other))
    weights, scales = whole_series(60, price, groups)
    wanted = (np.arange(1, 61) >= first) & (np.arange(1, 61) <= last)
    coefficients = np.linalg.solve(weights.T, wanted.astype(np.float64))
    assert np.abs(coefficients[last:]).max(initial=0.0) < 1e-12
    assert variance(first, last, price, groups) == pytest.approx(np.sum((coefficients * scales) ** 2), rel=1e-9)


@settings(deadline=None)
@given(st.integers(1, 12_000), st.integers(1, 12_000))
def test_variances_of_segments_add_up(one: int, other: int) -> None:
    """One by one, with as many groups as make the later segments short."""
    first, last = sorted((one, other))
    total = 0.0
    for segment in range(place(first, MOST_GROUPS)[0], place(last, MOST_GROUPS)[0] + 1):
        length, begin = segment_length(segment, MOST_GROUPS), sum(EARLY[:segment]) + 1024 * max(0, segment - 3)
        positions = max(1, first - begin), min(length, last - begin)
        scale = root_noise(Fraction(1, 3), length, MOST_GROUPS).scale
        total += scale**2 * float(np.sum(window_coefficients(*positions) ** 2))
    assert variance(first, last, Fraction(1, 3), MOST_GROUPS) == pytest.approx(total, rel=1e-12)


@given(st.integers(1, 5000), PRICES, st.sampled_from([2, 12, MOST_GROUPS]))
def test_the_deviation_is_in_units_of_one_over_the_root_of_the_price(leaf: int, price: Fraction, groups: int) -> None:
    rows = math.sqrt(variance(1, leaf, price, groups))
    assert rows * math.sqrt(price) == pytest.approx(deviation(leaf, groups), rel=1e-12)


@given(st.integers(1, 5000))
def test_a_single_group_has_half_the_variance(leaf: int) -> None:
    assert 2 * variance(1, leaf, Fraction(1), 1) == pytest.approx(variance(1, leaf, Fraction(1), 2), rel=1e-12)


@given(st.integers(1, 5000))
def test_the_variance_of_all_rows_rises_with_every_leaf(leaf: int) -> None:
    assert deviation(leaf) < deviation(leaf + 1)


@pytest.mark.parametrize(
    ("leaf", "figure"),
    [
        (1, 1.00),
        (2, 1.72),
        (7, 2.04),
        (17, 2.19),
        (100, 3.59),
        (245, 3.73),
        (365, 3.79),
        (1000, 3.93),
        (10**4, 6.10),
        (10**6, 6.74),
    ],
)
def test_the_deviation_is_the_design_s(leaf: int, figure: float) -> None:
    assert round(deviation(leaf), 2) == figure


@pytest.mark.parametrize(("leaves", "figure"), [(50, 2.31), (365, 2.94), (1024, 3.27), (16_384, 4.16)])
def test_one_segment_of_a_known_length_is_the_square_root_of_others(leaves: int, figure: float) -> None:
    """What is known elsewhere of the factorisation for a known number of answers: the last one's deviation."""
    scale = root_noise(Fraction(1), leaves, 2).scale
    assert round(scale * math.sqrt(np.sum(root_inverse(leaves) ** 2)), 2) == figure


def test_not_knowing_for_how_long_costs_less_than_a_third_after_a_year() -> None:
    known = root_noise(Fraction(1), 365, 2).scale * math.sqrt(np.sum(root_inverse(365) ** 2))
    assert 1.2 < deviation(365) / known < 1.3


def test_trees_are_better_at_five_leaves_only() -> None:
    """Where a tree has just been completed, or nearly so."""
    leaves = [*range(1, 1300), 2047, 4095, 8191, 16_383, 10**6, 2**20 - 1]
    trees = {leaf: continual.deviation(Gaussian(1.0), cost.prefix(leaf)) for leaf in leaves}
    assert [leaf for leaf in leaves if trees[leaf] < deviation(leaf)] == [3, 7, 23, 31, 63]
    assert max(deviation(leaf) / trees[leaf] for leaf in leaves) < 1.22


def test_twelve_bits_are_enough() -> None:
    """The last deviation of a segment of 2^20 leaves would be Σ r_k² by the real weights; ours is 0.11% above that."""
    k = np.arange(1, LONGEST)
    real = math.fsum(np.cumprod((2 * k - 1) / (2 * k)) ** 2) + 1
    ours = root_noise(Fraction(1), LONGEST, 2).scale * math.sqrt(np.sum(root_inverse(LONGEST) ** 2))
    assert real < ours < 1.0012 * real


@pytest.mark.parametrize("leaf", [20, 100, 1000])
def test_a_difference_of_variances_is_not_the_variance_of_a_window(leaf: int) -> None:
    """A broken twin: the prefixes' noise is shared, so the difference is too small, for one leaf by any factor."""
    right = variance(leaf, leaf, Fraction(1), 2)
    twin = variance(1, leaf, Fraction(1), 2) - variance(1, leaf - 1, Fraction(1), 2)
    assert 0 < 4 * twin < right
    _, position = place(leaf, 2)
    scale = root_noise(Fraction(1), 1024, 2).scale
    assert twin == pytest.approx((scale * root_inverse(position)[-1]) ** 2, rel=1e-6)
    assert right > (scale / UNIT) ** 2  # the leaf's own release has all of its noise


def test_a_window_across_segments_is_one_window_and_one_prefix() -> None:
    """Leaves 10 to 30: positions 9 to 16 of segment 1, and 1 to 13 of segment 2."""
    scales = [root_noise(Fraction(1), length, 2).scale for length in (16, 1024)]
    parts = [np.sum(window_coefficients(*span) ** 2) for span in ((9, 16), (1, 13))]
    expected = sum(scale**2 * part for scale, part in zip(scales, parts, strict=True))
    assert variance(10, 30, Fraction(1), 2) == pytest.approx(expected, rel=1e-12)


def test_leaves_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="first must be at most 3, the last leaf, not 4"):
        variance(4, 3, Fraction(1), 2)
    with pytest.raises(tr.ParameterError, match="first must be an integer of at least 1"):
        variance(0, 3, Fraction(1), 2)
    with pytest.raises(tr.ParameterError, match="last must be an integer of at least 1"):
        deviation(0)
