"""Margins, spreads and prices of rings, against brute force, exact laws and direct sums."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm

import treering as tr
from treering.budget.promise import Budget, BudgetKind
from treering.noise import Gaussian
from treering.theory import rings, series
from treering.theory.cells import subset_radius
from treering.theory.continual import Law, window_law
from treering.theory.rings import joint
from treering.theory.tails import laplace_radius, laplace_tail

Floats = npt.NDArray[np.float64]

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "b": tr.integers(0, 3), "one": tr.integers(5, 5)})
KINDS: tuple[BudgetKind, ...] = ("zcdp", "pure")

# -- spectrum and spread -----------------------------------------------------------------------------------------------

sets = st.lists(st.booleans(), min_size=3, max_size=3), st.lists(st.booleans(), min_size=4, max_size=4)


def centred(query: tr.Query) -> Floats:
    """|a_i − ā| for every group, one by one."""
    shape = query.schema.shape
    weights = query.weights().reshape([shape[each] if each in query.attributes else 1 for each in range(len(shape))])
    every = np.broadcast_to(weights, shape).reshape(-1) / query.scale
    return np.asarray(np.abs(every - every.mean()))


def check(query: tr.Query) -> None:
    found = rings.spectrum(query)
    listed = np.sort(np.repeat([weight for weight, _ in found], [number for _, number in found]))
    assert listed == pytest.approx(np.sort(centred(query)), abs=1e-12)
    assert rings.spread(found) == pytest.approx(float(np.sum(centred(query) ** 2)), abs=1e-12)


@given(*sets)
def test_the_spectrum_of_a_conjunction_is_that_of_all_groups(first: list[bool], second: list[bool]) -> None:
    query = tr.Query.conjunction(SCHEMA, {0: np.array(first), 1: np.array(second)})
    check(query)
    check(~query)
    chosen, groups = sum(first) * sum(second), SCHEMA.cells
    assert rings.spread(rings.spectrum(query)) == pytest.approx(chosen * (1 - chosen / groups), abs=1e-12)


@given(st.lists(st.integers(0, 7), min_size=4, max_size=12))
def test_the_spectrum_of_weights_is_that_of_all_groups(weights: list[int]) -> None:
    attributes = ["a", "b"] if len(weights) == 12 else ["b"]
    values = np.array((weights if len(weights) == 12 else weights[:4]), dtype=np.float64) / 7
    check(tr.Query.weighted(SCHEMA, values, attributes=attributes, resolution=7))


def test_the_whole_table_and_none_of_it_have_no_spread() -> None:
    for query in (tr.Query.all(SCHEMA), tr.Query.none(SCHEMA)):
        assert rings.spread(rings.spectrum(query)) == 0
        assert rings.margin(Law(100.0), rings.spectrum(query)) == 0


# -- margins -----------------------------------------------------------------------------------------------------------


def inside(variance: float, groups: int, chosen: int, margin: float) -> float:
    """The probability that a normal combination of noise of this variance is within a margin."""
    return float(1 - 2 * norm.sf(margin / math.sqrt(variance * chosen * (1 - chosen / groups))))


@pytest.mark.parametrize(("groups", "chosen"), [(2, 1), (12, 3), (12, 11), (1728, 1)])
@pytest.mark.parametrize("leaf", [1, 2, 17, 365])
def test_a_margin_holds_with_95_percent_under_zcdp(groups: int, chosen: int, leaf: int) -> None:
    """The noise of an estimate is a combination of discrete Gaussian noise; by the theory's docstring its law is the
    normal one but for far less than could be seen."""
    law = window_law(Budget("zcdp", Fraction(1, 2000)), groups, 1, leaf)
    share = chosen / groups
    margin = rings.margin(law, ((1 - share, chosen), (share, groups - chosen)))
    assert inside(law.variance, groups, chosen, margin) == pytest.approx(0.95, abs=1e-6)
    assert inside(law.variance, groups, chosen, margin * 2 / 3) < 0.82


@pytest.mark.parametrize("price", [Fraction(1, 100), Fraction(1), Fraction(100)])
def test_the_discrete_noise_is_normal_enough(price: Fraction) -> None:
    """By convolution, and for prices far above any that are used: the exact law of 1/2·(X_1 − X_2), which is that of
    one of two groups, on the grid of 1/4096 rows."""
    noise = series.release_noise(price, 1, 2)
    assert isinstance(noise, Gaussian)
    # A coarser grid, of at most some thousand steps, is a harder case.
    scale = min(noise.scale, 400.0)
    steps = np.arange(-round(9 * scale), round(9 * scale) + 1)
    one = np.exp(-((steps / scale) ** 2) / 2)
    both = np.convolve(one / one.sum(), one / one.sum())
    values = np.arange(-(len(both) // 2), len(both) // 2 + 1) / 2
    margin = rings.margin(Law(scale**2), ((0.5, 2),))
    assert margin == pytest.approx(1.96 * scale / math.sqrt(2), rel=1e-4)
    assert both[np.abs(values) <= margin].sum() == pytest.approx(0.95, abs=2 / scale)
    assert both[np.abs(values) <= margin * 2 / 3].sum() < 0.82


def laplace(scale: float, reach: int) -> Floats:
    terms = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return np.asarray(terms / terms.sum())


@pytest.mark.parametrize("scale", [0.7, 2.0, 5.0])
@pytest.mark.parametrize("chosen", [1, 2, 3])
def test_a_margin_holds_with_95_percent_under_pure_privacy(scale: float, chosen: int) -> None:
    """By enumeration: of four groups, k; in units of a quarter row the noise is (4−k)·X for those inside, −k·X for the
    others."""
    reach = math.ceil(24 * scale)
    law, one = np.ones(1), laplace(scale, reach)
    for factor in [4 - chosen] * chosen + [chosen] * (4 - chosen):
        spaced = np.zeros(2 * reach * factor + 1)
        spaced[::factor] = one
        law = np.convolve(law, spaced)
    values = np.abs(np.arange(-(len(law) // 2), len(law) // 2 + 1)) / 4
    share = chosen / 4
    margin = rings.margin(Law(0.0, ((1.0, scale, 1),)), ((1 - share, chosen), (share, 4 - chosen)))
    assert law[values <= margin].sum() >= 0.95
    assert law[values <= margin / 2].sum() < 0.95
    # The bound by exponential moments is not far above what is needed.
    needed = values[np.argsort(values)][np.searchsorted(np.cumsum(law[np.argsort(values)]), 0.95)]
    assert margin <= 1.8 * needed + 1


def test_a_registered_question_pays_for_all_that_are() -> None:
    law, one = Law(100.0), ((0.5, 2),)
    assert rings.registered_radius(law, one, 1, 0.01) == subset_radius(law.cell, [0.5], [2], 0.01)
    assert rings.registered_radius(law, one, 20, 0.2) == pytest.approx(rings.registered_radius(law, one, 1, 0.01))
    assert rings.registered_radius(law, one, 20, 0.01) > rings.registered_radius(law, one, 1, 0.01)


# -- shares of beta ----------------------------------------------------------------------------------------------------


def test_all_estimates_together_have_no_more_than_beta() -> None:
    """The first thousand series, their first thousand leaves, all periods of each; and the first ones get a good
    part."""
    numbers = range(1, 1001)
    total = math.fsum(7 * rings.estimate_share(0.05, one, leaf, 7) for one, leaf in product(numbers, numbers))
    assert 0.03 < total <= 0.05
    assert rings.estimate_share(0.05, 1, 1, 1) > 0.005


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 60))
def test_later_series_and_leaves_have_smaller_shares(one: int, leaf: int, windows: int) -> None:
    share = rings.estimate_share(0.05, one, leaf, windows)
    assert 0 < share < 0.05
    for later in ((one + 1, leaf, windows), (one, leaf + 1, windows), (one, leaf, windows + 1)):
        assert rings.estimate_share(0.05, *later) < share


# -- prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(groups=st.integers(2, 5000), part=st.floats(0, 1), rows=st.floats(5, 1e5))
def test_the_price_of_a_margin_is_the_least(kind: BudgetKind, groups: int, part: float, rows: float) -> None:
    chosen = min(groups - 1, 1 + int(part * (groups - 1)))
    share = chosen / groups
    spectrum = ((1 - share, chosen), (share, groups - chosen))
    price = rings.price_of(rows, spectrum, groups, kind)
    assert rings.margin(rings.first_law(Budget(kind, price), groups), spectrum) <= rows
    assert rings.margin(rings.first_law(Budget(kind, price * 99 / 100), groups), spectrum) > rows


def test_the_price_of_a_margin_with_very_many_groups_is_that_of_trees() -> None:
    groups = 40_000
    spectrum = ((1 - 1 / groups, 1), (1 / groups, groups - 1))
    price = rings.price_of(100.0, spectrum, groups, "zcdp")
    assert rings.margin(rings.first_law(Budget("zcdp", price), groups), spectrum) <= 100
    assert rings.margin(rings.first_law(Budget("zcdp", price * 99 / 100), groups), spectrum) > 100


@given(st.floats(10, 1000), st.lists(st.floats(1.01, 50), min_size=1, max_size=4))
def test_what_is_missing_makes_up_for_it_exactly(rows: float, factors: list[float]) -> None:
    variances = [len(factors) * factor * (rows / rings.NORMAL) ** 2 for factor in factors]
    rest = rings.missing(rows, variances, "zcdp")
    assert rest > rows
    precision = math.fsum(1 / variance for variance in [*variances, (rest / rings.NORMAL) ** 2])
    assert rings.NORMAL / math.sqrt(precision) == pytest.approx(rows)


def test_nothing_known_and_what_is_not_combined_leave_all_missing() -> None:
    assert rings.missing(100.0, [], "zcdp") == 100
    assert rings.missing(100.0, [1.0], "pure") == 100
    assert 100 < rings.missing(100.0, [1.0], "zcdp") < math.inf  # as sharp as was wished already


@pytest.mark.parametrize("pace", [1, 2, 25, 1000])
@pytest.mark.parametrize("total", [Fraction(1), Fraction(244, 10**4)])
def test_the_usual_prices_never_use_up_the_budget(pace: int, total: Fraction) -> None:
    left, prices = total, []
    for opened in range(10_000):
        price = rings.usual_price(total, left, opened, pace)
        assert 0 < price < left
        prices.append(price)
        # Rounded down to keep numbers short: less is left than there would be.
        left = Fraction(float(left - price)) * (1 - Fraction(1, 2**50))
    assert sum(prices) < total
    assert sum(prices[:pace]) == pytest.approx(0.8 * total)
    assert prices[:pace] == [prices[0]] * pace
    # They fall slowly: like one over the number of series, squared.
    assert prices[9_999] > prices[0] * Fraction(pace, 40_000) ** 2


def test_early_series_get_what_is_left_where_wishes_took_the_rest() -> None:
    price = rings.usual_price(Fraction(1), Fraction(1, 100), 3, 25)
    assert 0 < price < Fraction(1, 100)
    assert rings.usual_price(Fraction(1), Fraction(1, 100), 0, 1) == Fraction(1, 200)


@pytest.mark.parametrize("pace", [1, 2, 25, 1000])
@given(left=st.fractions(Fraction(1, 10**6), 1), opened=st.integers(0, 2000))
def test_the_price_of_the_whole_table_leaves_a_fifth(pace: int, left: Fraction, opened: int) -> None:
    price = rings.whole_price(Fraction(1), left, opened, pace)
    assert 0 < price <= left * Fraction(4, 5)
    assert price >= min(rings.usual_price(Fraction(1), left, opened, pace), left * Fraction(4, 5))


@pytest.mark.parametrize("groups", [1, 2, 12, 60, 200, 400, 10_000])
def test_joint_margins_hold_under_the_law_that_the_noise_has(groups: int) -> None:
    normal = NormalDist()
    alone = normal.inv_cdf(0.975)
    assert 2 * normal.cdf(-alone * joint(groups)) == pytest.approx(0.05 / groups)
    for scale in (0.3, 1.0, 7.5, 40.0):  # Discrete Laplace noise: P(|X| ≥ k), k on its grid.
        radius = laplace_radius(scale, 0.05)
        wide = math.ceil(joint(groups, normal=False) * (radius + 1))
        assert laplace_tail(scale, wide) <= 0.05 / groups


@pytest.mark.parametrize("number", [1, 2, 5, 30])
def test_joint_margins_hold_for_sums_of_laplace_noise_and_the_ratio_of_normal_ones_does_not(number: int) -> None:
    # The law of a sum of Laplace numbers by convolution on a fine grid.
    step, reach = 0.02, 60.0
    grid = np.arange(-reach, reach + step / 2, step)
    one = np.exp(-np.abs(grid))
    one /= one.sum()
    law = one
    for _ in range(number - 1):
        law = np.convolve(law, one, mode="same")
    tail = np.array([law[np.abs(grid) > t].sum() for t in grid[grid >= 0]])
    points = grid[grid >= 0]
    alone = points[np.argmax(tail <= 0.05)]
    for groups in (12, 200):
        sharp = points[np.argmax(tail <= 0.05 / groups)]
        assert sharp <= joint(groups, normal=False) * (alone + step)
        if number <= 2:
            assert sharp > joint(groups) * alone * 1.1
