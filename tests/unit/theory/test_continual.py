"""The numbers of ContinualHistogram: weights, variances, stretches, confidence."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.budget.promise import Budget, Promise
from treering.noise import Gaussian, Laplace
from treering.theory import continual, series
from treering.theory.cells import LaplaceCell, SubGaussianCell
from treering.theory.continual import (
    KEPT,
    Law,
    TreeLaplaceCell,
    any_period,
    deviation,
    every_bound,
    first_leaves,
    kept_nodes,
    leaf_beta,
    leaves_law,
    own_weight,
    prefix_law,
    start_noise,
    stretch,
    tree_law,
    windows,
)
from treering.theory.nodes import Node, first_leaf, last_leaf, node_segment, prefix, segment_of


def coefficients(node: Node) -> dict[Node, Fraction]:
    """How much of each node's own noise is in an estimate, by the recursion that makes the estimate."""
    level, index = node
    if level == 0:
        return {node: Fraction(1)}
    weight = own_weight(level)
    below = [coefficients((level - 1, 2 * index + side)) for side in (0, 1)]
    return {node: weight} | {each: (1 - weight) * part for half in below for each, part in half.items()}


@pytest.mark.parametrize("node", [(0, 5), (1, 1), (1, 3), (3, 1), (5, 2), (6, 3)])
def test_the_weights_are_the_best_there_are(node: Node) -> None:
    """Unbiased: each row counts once. Best: the noise of each way to split a node weighs as its inverse variance."""
    level, _ = node
    parts = coefficients(node)
    for (below, _), part in parts.items():
        assert part == Fraction(1 << below, (2 << level) - 1)
    for leaf in range(first_leaf(node), last_leaf(node) + 1):
        assert sum(part for each, part in parts.items() if first_leaf(each) <= leaf <= last_leaf(each)) == 1
    variance = sum(part**2 for part in parts.values())
    assert variance == own_weight(level)
    if level:
        children = 2 * own_weight(level - 1)
        assert 1 / variance == 1 + 1 / children
        for other in (variance * Fraction(99, 100), variance * Fraction(101, 100)):
            assert other**2 + (1 - other) ** 2 * children > variance


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300))
def test_the_deviation_is_that_of_the_unrolled_sum(leaf: int) -> None:
    parts = [(part, node_segment(node)) for node in prefix(leaf) for part in coefficients(node).values()]
    variance = sum(part**2 * (segment + 1) for part, segment in parts)
    assert deviation(Gaussian(3.0), prefix(leaf)) == pytest.approx(3 * math.sqrt(variance))
    laplace = math.fsum(float(part) ** 2 * 0.5 / math.sinh(0.5 / (2.0 * (segment + 1))) ** 2 for part, segment in parts)
    assert deviation(Laplace(2.0), prefix(leaf)) == pytest.approx(math.sqrt(laplace))


def test_the_deviation_stays_below_what_the_design_claims() -> None:
    """At most 23/√ρ per cell up to 10^6 leaves; the combination makes it 17.4. Without it, 23.9 would be needed."""
    worst = max(deviation(Gaussian(1.0), prefix(leaf)) for k in range(1, 21) for leaf in (2**k - 2, 2**k - 1) if leaf)
    assert 17 < worst < 17.5 < 23
    assert math.sqrt(sum(node_segment(node) + 1 for node in prefix(2**20 - 2))) > 23


@given(st.integers(1, 2**20))
def test_the_worst_leaf_of_a_segment_is_its_last_but_one(leaf: int) -> None:
    """All binary digits but the root: so the few leaves looked at above are the worst."""
    last = 2 ** (segment_of(leaf) + 1)
    worst = max(deviation(Gaussian(1.0), prefix(each)) for each in (last - 2, last - 1) if each)
    assert deviation(Gaussian(1.0), prefix(leaf)) <= worst * (1 + 1e-12)


def test_the_error_in_rows_grows_with_the_logarithm_of_the_leaves() -> None:
    for kind in (Laplace(2.0), Gaussian(1.0)):
        growth = [deviation(kind, prefix(2**k - 2)) / k ** (1.5 if isinstance(kind, Laplace) else 1) for k in (5, 20)]
        assert growth[1] < 1.2 * growth[0]


# -- stretches ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6))
def test_a_stretch_is_made_of_kept_nodes_that_follow_each_other(leaf: int) -> None:
    kept = set(kept_nodes(leaf))
    for first in first_leaves(leaf):
        nodes = stretch(first, leaf)
        assert (first_leaf(nodes[0]), last_leaf(nodes[-1])) == (first, leaf)
        assert all(last_leaf(one) + 1 == first_leaf(two) for one, two in pairwise(nodes))
        assert set(nodes) <= kept or first == 1


@given(st.integers(1, 10**6))
def test_few_nodes_are_kept_and_few_lengths_are_missing(leaf: int) -> None:
    per_level = Counter(level for level, _ in kept_nodes(leaf))
    assert max(per_level.values()) <= KEPT
    assert all(last_leaf(node) <= leaf for node in kept_nodes(leaf))
    lengths = [leaf + 1 - first for first in reversed(first_leaves(leaf))]
    assert lengths[0] == 1
    assert lengths[-1] == leaf
    assert all(longer <= 1.5 * shorter for shorter, longer in pairwise(lengths) if shorter > 1)


@pytest.mark.parametrize("first", [0, 2, 33, 101])
def test_other_stretches_are_refused(first: int) -> None:
    with pytest.raises(tr.ParameterError, match="first must be one of the leaves"):
        stretch(first, 100)


# -- laws and confidence -----------------------------------------------------------------------------------------------


def test_a_tree_of_laplace_noise_has_the_moments_of_its_sum() -> None:
    """Against the sum over all nodes, one by one."""
    noise = tree_law(Laplace(2.0), prefix(11)).cell
    assert isinstance(noise, TreeLaplaceCell)
    rates = noise.rates[::7]
    total = np.zeros(len(rates))
    for node in prefix(11):
        for each, part in coefficients(node).items():
            total += LaplaceCell(2.0 * (node_segment(each) + 1)).log_moment(rates * float(part))
    moments = noise.log_moment(rates)
    assert moments == pytest.approx(total, rel=1e-9)
    # Between the entries of the table it lies above, and not far.
    between = rates * 1.013
    between = between[between < noise.rates[-1]]
    exact = sum(
        LaplaceCell(2.0 * (node_segment(each) + 1)).log_moment(between * float(part))
        for node in prefix(11)
        for each, part in coefficients(node).items()
    )
    assert np.all(noise.log_moment(between) >= exact * (1 - 1e-12))
    assert np.all(noise.log_moment(between) <= exact * 1.02)
    assert math.isinf(noise.log_moment(np.array([2 * noise.rates[-1]]))[0])


def test_gaussian_noise_adds_up_and_a_single_leaf_is_exact() -> None:
    law = tree_law(Gaussian(2.0), prefix(9))
    assert isinstance(law.cell, SubGaussianCell)
    assert law.cell.sigma == pytest.approx(deviation(Gaussian(2.0), prefix(9)), rel=1e-11)
    assert law.cell.sigma >= deviation(Gaussian(2.0), prefix(9))
    assert tree_law(Laplace(2.0), stretch(4, 4)).cell == LaplaceCell(6.0)


@pytest.mark.parametrize("noise", [Laplace(2.0), Gaussian(2.0)])
def test_laws_of_independent_noise_add_up(noise: Laplace | Gaussian) -> None:
    """As the moments of sums do: those of two stretches, and those of all their nodes."""
    one, two, both = (tree_law(noise, nodes) for nodes in (prefix(7), stretch(8, 11), prefix(11)))
    assert prefix(7) + stretch(8, 11) == prefix(11)
    assert one + Law(0.0) == one
    assert (one + two).parts == both.parts
    assert (one + two).deviation == pytest.approx(both.deviation, rel=1e-12)
    assert both.deviation == pytest.approx(deviation(noise, prefix(11)), rel=1e-12)


@pytest.mark.parametrize(("kind", "groups"), [("pure", 12), ("zcdp", 12), ("zcdp", 40_000)])
def test_all_that_may_fail_sums_to_beta(kind: Any, groups: int) -> None:
    """The weights of the leaves telescope: up to leaf J they sum to 1 − 1/(1 + log(J+1))."""
    numbers = ((leaf, windows(Budget(kind, Fraction(1)), groups, leaf)) for leaf in range(1, 5001))
    spent = math.fsum(leaf_beta(0.05, leaf, number) * number for leaf, number in numbers)
    assert spent == pytest.approx(0.05 * (1 - 1 / (1 + math.log(5001))), rel=1e-9)


def test_square_roots_are_for_zcdp_and_up_to_32_768_groups() -> None:
    pure, zcdp = Budget("pure", Fraction(1)), Budget("zcdp", Fraction(1))
    for leaf in (1, 2, 100, 3000):
        assert windows(pure, 12, leaf) == len(first_leaves(leaf))
        assert prefix_law(pure, 12, leaf) == tree_law(start_noise(pure), prefix(leaf))
        assert windows(zcdp, 32_769, leaf) == len(first_leaves(leaf))
        assert prefix_law(zcdp, 32_769, leaf) == tree_law(start_noise(zcdp), prefix(leaf))
        assert windows(zcdp, 32_768, leaf) == len(series.starts(leaf, 32_768))
        assert prefix_law(zcdp, 32_768, leaf) == Law(series.variance(1, leaf, Fraction(1), 32_768))


def test_the_whole_budget_becomes_noise() -> None:
    for promise in (Promise(0.7), Promise(0.7, 1e-9)):
        noise = start_noise(promise.budget)
        scale = Fraction(noise.scale)
        cost = 2 / scale if isinstance(noise, Laplace) else 1 / scale**2
        assert promise.budget.total * Fraction(1 - 1e-15) <= cost <= promise.budget.total


@pytest.mark.parametrize("total", [Fraction(1, 10**13), Fraction(1, 10**150)])
def test_noise_wider_than_any_database_is_refused(total: Fraction) -> None:
    with pytest.raises(tr.ParameterError, match="epsilon is too small"):
        start_noise(Budget("pure", total))
    with pytest.raises(tr.ParameterError, match="epsilon is too small"):
        start_noise(Budget("zcdp", total**2))


def test_the_guarantee_improves_as_one_over_the_size() -> None:
    budget = Promise(1.0, 1e-9).budget
    for leaf in (1, 10, 1000):
        alphas = [continual.alpha(budget, 500, size, 0.05, leaf) for size in (10**5, 10**6, 10**7)]
        assert alphas[0] == pytest.approx(10 * alphas[1])
        assert alphas[1] == pytest.approx(10 * alphas[2])
    assert continual.alpha(budget, 500, 10, 0.05) == 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("leaf", [1, 6, 1000])
def test_what_is_expected_is_below_what_is_guaranteed(delta: float, leaf: int) -> None:
    budget = Promise(1.0, delta).budget
    for cells in (2, 100, 10_000):
        expected = continual.expected_error(budget, cells, 10**7, cells / 2, leaf)
        assert 0 < expected < continual.alpha(budget, cells, 10**7, 0.05, leaf)


@pytest.mark.parametrize("noise", [Laplace(40.0), Laplace(0.7), Gaussian(30.0)])
@pytest.mark.parametrize("cells", [2, 128])
def test_no_period_of_leaves_has_a_larger_error_for_each_of_them(noise: Any, cells: int) -> None:
    """What a plan promises for every period, beside what is stated for each: at every leaf, and for every length."""
    promised = any_period(noise, cells, 0.01, 12)
    for leaf in (1, 5, 12):
        share = leaf_beta(0.01, leaf, leaf)
        for length in range(1, leaf + 1):
            stated = every_bound(leaves_law(noise, length), cells, share).worst
            assert stated <= length * promised * (1 + 1e-9)
    assert promised <= any_period(noise, cells, 0.01, 13)
