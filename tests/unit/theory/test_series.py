"""The numbers of a series: segments, noise, the estimates' coefficients and variances."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import treering as tr
from treering.arrays import Floats, Ints
from treering.budget import cost
from treering.budget.weights import LONGEST, UNIT, Weights
from treering.noise import Gaussian
from treering.theory import continual
from treering.theory.nodes import prefix
from treering.theory.series import (
    LEAST_PRICE,
    LIMIT,
    MOST_GROUPS,
    SHORTEST,
    deviation,
    energy,
    inverse,
    place,
    prefix_coefficients,
    release_noise,
    rooted,
    segment_length,
    segment_rule,
    segment_weights,
    variance,
    window_coefficients,
)

GROUPS = st.one_of(st.integers(1, 64), st.integers(1, MOST_GROUPS))
PRICES = st.fractions(Fraction(1, 10**9), 10)
EXACT = 200
FADING, ROOT = Weights.FADING, Weights.ROOT
RULES = st.sampled_from(list(Weights))
BOTH = pytest.mark.parametrize("rule", list(Weights))


@cache
def matrix(length: int, rule: Weights = FADING) -> Ints:
    """The weights of the leaves in the releases of a segment: release t has w_{t−s} of leaf s."""
    rows, columns = np.indices((length, length))
    return np.where(rows >= columns, rule.first(length)[np.abs(rows - columns)], 0)


@cache
def exact_inverse(length: int, rule: Weights) -> list[Fraction]:
    """l by long division, Σ_j steps_j·l_{k−j} = [k = 0], without rounding."""
    steps = np.diff(rule.first(length), prepend=0).tolist()
    found = [Fraction(1, UNIT)]
    for k in range(1, length):
        found.append(-sum((steps[j] * found[k - j] for j in range(1, k + 1)), Fraction(0)) / UNIT)
    return found


# -- segments ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**13), GROUPS)
def test_a_leaf_has_its_place(leaf: int, groups: int) -> None:
    """What is before the segment and the position in it make the leaf's number: so the next leaf has the next place."""
    segment, position = place(leaf, groups)
    before = 1 + (segment - 1) * segment_length(1, groups) if segment else 0
    assert before + position == leaf
    assert 1 <= position <= segment_length(segment, groups)


@given(st.integers(0, 100), GROUPS)
def test_no_segment_keeps_more_than_the_limit(segment: int, groups: int) -> None:
    length = segment_length(segment, groups)
    assert groups * length <= LIMIT
    assert length <= LONGEST
    assert length >= SHORTEST if segment else length == 1


def test_the_first_leaf_is_alone_and_then_segments_are_long() -> None:
    assert [segment_length(segment, 32) for segment in range(4)] == [1, 2**20, 2**20, 2**20]
    assert [segment_length(segment, 33) for segment in range(3)] == [1, 2**25 // 33, 2**25 // 33]
    assert [segment_length(segment, MOST_GROUPS) for segment in range(3)] == [1, 1024, 1024]
    assert [segment_weights(segment) for segment in range(4)] == [FADING, FADING, ROOT, ROOT]


@given(st.integers(0, 5), GROUPS)
def test_a_segment_is_known_by_its_room(segment: int, groups: int) -> None:
    weights, length = segment_weights(segment), segment_length(segment, groups)
    assert segment_rule(weights.squares(length), groups) == (weights, length)


def test_a_room_that_no_segment_has_is_refused() -> None:
    for room in (1, UNIT**2 + 1, FADING.squares(16), ROOT.squares(2**20) + 1):
        with pytest.raises(tr.ParameterError, match="room of a segment is none that a series of 12 groups has"):
            segment_rule(room, 12)


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
    for refused in (rooted, lambda groups: release_noise(Fraction(1), 1, groups), lambda groups: deviation(1, groups)):
        with pytest.raises(tr.ParameterError, match="groups must be an integer of at least 1"):
            refused(0)


# -- noise -------------------------------------------------------------------------------------------------------------


@given(PRICES, st.one_of(st.sampled_from([1, 16, 1024, LONGEST]), st.integers(1, 3000)), GROUPS, RULES)
def test_the_noise_is_the_least_that_keeps_to_the_price(
    price: Fraction, length: int, groups: int, rule: Weights
) -> None:
    scale = release_noise(price, length, groups, rule).scale
    distance = (1 if groups == 1 else 2) * rule.squares(length)
    assert cost.gaussian(distance, scale).rho <= price
    assert cost.gaussian(distance, math.nextafter(scale, 0)).rho > price


@BOTH
@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("length", [1, 2, 7, 16, 100])
def test_no_row_of_a_segment_pays_more_than_the_price(length: int, groups: int, rule: Weights) -> None:
    """Release by release, as the kernel charges them: the rows of the first leaf pay all of it, later ones less."""
    price = Fraction(1, 50)
    scale = release_noise(price, length, groups, rule).scale
    moved = 1 if groups == 1 else 2
    paid = [
        sum((cost.gaussian(moved * weight**2, scale).rho for weight in column), Fraction(0))
        for column in matrix(length, rule).T.tolist()
    ]
    assert price * (1 - Fraction(1, 2**50)) < paid[0] <= price
    assert all(later < earlier for earlier, later in pairwise(paid))


@pytest.mark.parametrize(("length", "rule"), [(16, ROOT), (1024, ROOT), (LONGEST, ROOT), (LONGEST, FADING)])
def test_noise_by_unrounded_weights_would_overspend(length: int, rule: Weights) -> None:
    """A broken twin: σ from the squares of the reals in place of Σ w_k². A segment would cost more than the price."""
    price = Fraction(1, 50)
    k = np.arange(1, length)
    reals = np.cumprod((2 * k - 1) / (2 * k)) / (1 + np.cumsum(1 / k) / 6 if rule is FADING else 1)
    twin = UNIT * math.sqrt((math.fsum(reals**2) + 1) / price)
    assert cost.gaussian(2 * rule.squares(length), twin).rho > price * (1 + Fraction(1, 10**5))
    assert twin < release_noise(price, length, 2, rule).scale


@given(st.sampled_from([1, 16, 1024, LONGEST]), st.sampled_from([1, 2, 12]), RULES)
def test_a_price_that_is_high_enough_once_is_high_enough_for_ever(length: int, groups: int, rule: Weights) -> None:
    assert release_noise(LEAST_PRICE, length, groups, rule).scale <= 2.0**48
    with pytest.raises(tr.ParameterError, match="price is too small: the noise would be wider than any database"):
        release_noise(LEAST_PRICE * Fraction(999, 1000), length, groups)


@pytest.mark.parametrize("price", [Fraction(0), Fraction(-1)])
def test_a_price_is_positive(price: Fraction) -> None:
    with pytest.raises(tr.ParameterError, match="price must be a positive finite number"):
        release_noise(price, 1, 2)


# -- coefficients ------------------------------------------------------------------------------------------------------


@BOTH
def test_the_inverse_is_that_of_exact_division(rule: Weights) -> None:
    for found, right in zip(inverse(EXACT, rule).tolist(), exact_inverse(EXACT, rule), strict=True):
        assert abs(found - right) <= right * Fraction(1, 2**47)


@BOTH
@pytest.mark.parametrize("length", [2**12, 2**16, 2**20])
def test_the_inverse_leaves_nothing(length: int, rule: Weights) -> None:
    """Without a transform: few of the weights differ from the one before, so the product is a sum of few slices."""
    steps, found = np.diff(rule.first(length), prepend=0), inverse(length, rule)
    product = np.zeros(length)
    for j in np.flatnonzero(steps).tolist():
        product[j:] += steps[j] * found[: length - j]
    product[0] -= 1
    assert np.abs(product).max() <= 2.0**-50
    assert np.abs(np.cumsum(product)).max() <= 2.0**-40  # of a row's weight, which should be 1


@BOTH
def test_the_coefficients_are_positive_and_at_most_one_row(rule: Weights) -> None:
    found = inverse(LONGEST, rule)
    assert found[0] == 1 / UNIT
    assert found.min() > 0
    assert found[1:].max() < found[0]


@given(st.integers(1, 5000), st.integers(1, 5000), RULES)
def test_how_many_are_asked_for_does_not_matter(one: int, other: int, rule: Weights) -> None:
    shorter = min(one, other)
    assert len(inverse(one, rule)) == one
    assert np.array_equal(inverse(one, rule)[:shorter], inverse(other, rule)[:shorter])


def test_what_is_shared_cannot_be_changed() -> None:
    for shared in (inverse(5), prefix_coefficients(5)):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 1
    own = window_coefficients(1, 5)
    own[0] = 1
    assert prefix_coefficients(5)[0] != 1


@BOTH
def test_an_estimate_counts_every_row_once_exactly(rule: Weights) -> None:
    """l * w = 1, 1, 1, …, without rounding."""
    found, weights = exact_inverse(EXACT, rule), rule.first(EXACT).tolist()
    for k in range(EXACT):
        assert sum((found[j] * weights[k - j] for j in range(k + 1)), Fraction(0)) == 1


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), RULES)
def test_a_window_counts_its_rows_once_and_no_others(one: int, other: int, rule: Weights) -> None:
    first, last = sorted((one, other))
    counted = window_coefficients(first, last, rule) @ matrix(300, rule)[:last, :last]
    assert np.abs(counted - (np.arange(1, last + 1) >= first)).max() < 1e-12


@given(st.integers(1, 3000), RULES)
def test_a_prefix_is_a_window_from_the_first_leaf(last: int, rule: Weights) -> None:
    assert np.array_equal(prefix_coefficients(last, rule), window_coefficients(1, last, rule))
    assert energy(1, last, rule) == pytest.approx(float(np.sum(inverse(last, rule) ** 2)), rel=1e-12)


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
    counted = np.convolve(roots, ROOT.first(1024) / UNIT)[:1024]
    assert np.abs(counted - 1).max() > 3e-4
    assert np.abs(prefix_coefficients(1024, ROOT) @ matrix(1024, ROOT) - 1).max() < 1e-12


def test_estimates_by_the_other_rule_would_be_biased() -> None:
    """A broken twin: coefficients for the square root, though weights faded. It would miss a third of old rows."""
    counted = prefix_coefficients(1024, ROOT) @ matrix(1024, FADING)
    assert counted.min() < 0.7
    assert np.abs(prefix_coefficients(1024, FADING) @ matrix(1024, FADING) - 1).max() < 1e-12


def test_coefficients_that_are_not_there_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="first must be at most 3, the last leaf, not 4"):
        window_coefficients(4, 3)
    with pytest.raises(tr.ParameterError, match="first must be an integer of at least 1"):
        window_coefficients(0, 3)
    with pytest.raises(tr.ParameterError, match=r"length must be at most 2\^20, not 1048577"):
        prefix_coefficients(LONGEST + 1)
    with pytest.raises(tr.ParameterError, match="length must be an integer of at least 1"):
        inverse(0)


# -- accuracy ----------------------------------------------------------------------------------------------------------


@cache
def whole_series(leaves: int, price: Fraction, groups: int) -> tuple[Floats, Floats]:
    """The matrix of all releases of a series, segment after segment, and the scale of each release's noise."""
    weights, scales = np.zeros((leaves, leaves)), np.zeros(leaves)
    weights[0, 0], weights[1:, 1:] = UNIT, matrix(leaves - 1)
    scales[0] = release_noise(price, 1, groups).scale
    scales[1:] = release_noise(price, segment_length(1, groups), groups).scale
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
        length, begin = (1024, 1 + 1024 * (segment - 1)) if segment else (1, 0)
        positions, rule = (max(1, first - begin), min(length, last - begin)), segment_weights(segment)
        scale = release_noise(Fraction(1, 3), length, MOST_GROUPS, rule).scale
        total += scale**2 * float(np.sum(window_coefficients(*positions, rule) ** 2))
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
        (2, 1.80),
        (7, 2.30),
        (17, 2.59),
        (50, 2.95),
        (100, 3.19),
        (245, 3.52),
        (365, 3.67),
        (1000, 4.07),
        (10**4, 5.07),
        (10**6, 7.34),
    ],
)
def test_the_deviation_is_what_the_page_says(leaf: int, figure: float) -> None:
    assert round(deviation(leaf), 2) == figure


def known(leaves: int) -> float:
    """The deviation of the last answer of the square root for a known number of answers, at price 1."""
    return release_noise(Fraction(1), leaves, 2, ROOT).scale * math.sqrt(energy(1, leaves, ROOT))


@pytest.mark.parametrize(("leaves", "figure"), [(50, 2.31), (365, 2.94), (1024, 3.27), (16_384, 4.16)])
def test_one_segment_of_a_known_length_is_the_square_root_of_others(leaves: int, figure: float) -> None:
    """What is known elsewhere of the factorisation for a known number of answers: the last one's deviation."""
    assert round(known(leaves), 2) == figure


def test_not_knowing_for_how_long_costs_less_than_a_third() -> None:
    """Less than 1.3 times from 30 answers to 10,000; at most 1.44 times ever before, and 1.35 after."""
    ratios = {leaf: deviation(leaf) / known(leaf) for leaf in (*range(1, 400), 1000, 2500, 10**4, 10**5, 10**6)}
    assert max(ratio for leaf, ratio in ratios.items() if 30 <= leaf <= 10**4) < 1.3
    assert 1.24 < ratios[365] < 1.25
    assert 1.26 < ratios[10**4] < 1.28
    assert max(ratios, key=ratios.__getitem__) == 2
    assert ratios[2] < 1.44
    assert max(ratios[10**5], ratios[10**6]) < 1.35


def test_segments_of_the_square_root_are_no_better_for_long() -> None:
    """Those of 1, 16, 1024 and 2^20 leaves, as series were made before: better from 3 to 17 leaves, and near 1,000."""
    scales = {length: release_noise(Fraction(1), length, 2, ROOT).scale ** 2 for length in (1, 16, 1024, LONGEST)}

    def before(leaf: int) -> float:
        total = 0.0
        for length, scale in scales.items():
            total += scale * energy(1, min(leaf, length), ROOT)
            leaf -= length
            if leaf <= 0:
                break
        return math.sqrt(total)

    assert [round(before(leaf), 2) for leaf in (2, 17, 365, 1000, 10**4)] == [1.72, 2.19, 3.79, 3.93, 6.10]
    ratios = {leaf: deviation(leaf) / before(leaf) for leaf in (*range(2, 1200), 2000, 5000, 10**4, 10**5)}
    assert max(ratios.values()) < 1.19
    better = [leaf for leaf, ratio in ratios.items() if ratio < 1]
    assert set(range(18, 500)) <= set(better)
    assert {1042, 2000, 5000, 10**4} <= set(better)
    assert min(ratios.values()) < 0.85


def test_trees_are_better_at_few_leaves_only() -> None:
    """Where a tree has just been completed, or nearly so."""
    leaves = [*range(1, 1300), 2047, 4095, 8191, 16_383, 10**6, 2**20 - 1]
    trees = {leaf: continual.deviation(Gaussian(1.0), prefix(leaf)) for leaf in leaves}
    assert [leaf for leaf in leaves if trees[leaf] < deviation(leaf)] == [2, 3, 5, 7, 15]
    assert max(deviation(leaf) / trees[leaf] for leaf in leaves) < 1.31


def test_twelve_bits_are_enough() -> None:
    """The last deviation of a segment of 2^20 leaves would be Σ r_k² by the real weights; ours is 0.11% above that."""
    k = np.arange(1, LONGEST)
    real = math.fsum(np.cumprod((2 * k - 1) / (2 * k)) ** 2) + 1
    assert real < known(LONGEST) < 1.0012 * real


@pytest.mark.parametrize("leaf", [20, 100, 1000])
def test_a_difference_of_variances_is_not_the_variance_of_a_window(leaf: int) -> None:
    """A broken twin: the prefixes' noise is shared, so the difference is too small, for one leaf by any factor."""
    right = variance(leaf, leaf, Fraction(1), 2)
    twin = variance(1, leaf, Fraction(1), 2) - variance(1, leaf - 1, Fraction(1), 2)
    assert 0 < 4 * twin < right
    _, position = place(leaf, 2)
    scale = release_noise(Fraction(1), LONGEST, 2).scale
    assert twin == pytest.approx((scale * inverse(position)[-1]) ** 2, rel=1e-6)
    assert right > (scale / UNIT) ** 2  # the leaf's own release has all of its noise


def test_a_window_across_segments_is_one_window_and_one_prefix() -> None:
    """Leaves 1,000 to 1,030 of so many groups: positions 999 to 1,024 of segment 1, and 1 to 5 of segment 2."""
    scales = [release_noise(Fraction(1), 1024, MOST_GROUPS, rule).scale for rule in (FADING, ROOT)]
    parts = [np.sum(window_coefficients(999, 1024, FADING) ** 2), np.sum(window_coefficients(1, 5, ROOT) ** 2)]
    expected = sum(scale**2 * part for scale, part in zip(scales, parts, strict=True))
    assert variance(1000, 1030, Fraction(1), MOST_GROUPS) == pytest.approx(expected, rel=1e-12)


def test_leaves_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="first must be at most 3, the last leaf, not 4"):
        variance(4, 3, Fraction(1), 2)
    with pytest.raises(tr.ParameterError, match="first must be an integer of at least 1"):
        variance(0, 3, Fraction(1), 2)
    with pytest.raises(tr.ParameterError, match="last must be an integer of at least 1"):
        deviation(0)
