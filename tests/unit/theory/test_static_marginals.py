"""How marginals share a budget, and how far all of them together stray."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.budget.cost import FREE, gaussian, laplace
from treering.budget.promise import Budget
from treering.noise import Gaussian, Laplace
from treering.theory.cells import all_subsets, smooth
from treering.theory.static import Marginals, shares
from treering.trusted.noise import draw

KINDS = ("pure", "zcdp")
SHAPES = st.lists(st.integers(1, 30), min_size=1, max_size=5).filter(lambda shape: max(shape) > 1).map(tuple)


def test_the_sets_are_all_of_so_many_attributes() -> None:
    plan = Marginals((3, 1, 4, 2), 2)
    assert plan.sets == ((0, 2), (0, 3), (2, 3))
    assert plan.sizes == (12, 6, 8)
    assert plan.number == 3
    assert Marginals((2,) * 60, 30).number == math.comb(60, 30)


@pytest.mark.parametrize("ways", [0, -1, 1.5, True, None, 4])
def test_a_number_of_ways_that_cannot_be_is_refused(ways: Any) -> None:
    with pytest.raises(tr.ParameterError, match="ways must be"):
        Marginals((3, 1, 4, 2), ways)


@settings(max_examples=50, deadline=None)
@given(SHAPES, st.integers(1, 3), st.sampled_from(KINDS), st.fractions(Fraction(1, 1000), 100))
def test_the_noises_cost_the_budget_and_no_more(shape: tuple[int, ...], ways: int, kind: Any, total: Fraction) -> None:
    plan = Marginals(shape, min(ways, sum(size > 1 for size in shape)))
    cost = FREE
    for noise in plan.noises(Budget(kind, total)):
        assert isinstance(noise, Laplace if kind == "pure" else Gaussian)
        # A replaced row moves two cells by one each: 2 in L1, 2 in squared L2.
        scale = Fraction(noise.scale)
        cost += laplace(2, scale) if isinstance(noise, Laplace) else gaussian(2, scale)
    spent = Budget(kind, total).amount(cost)
    assert total * (1 - Fraction(1, 10**12)) < spent <= total


@pytest.mark.parametrize("kind", KINDS)
def test_no_other_split_has_a_smaller_worst_error(kind: Any) -> None:
    sizes = (4, 12, 100, 1000)
    ours = shares(kind, sizes)
    assert sum(ours) == 1

    def worst(split: Any) -> float:
        errors = []
        for share, cells in zip(split, sizes, strict=True):
            scale = 2000 / share if kind == "pure" else 2000 / math.sqrt(share)
            law = smooth(Laplace(scale) if kind == "pure" else Gaussian(scale))
            errors.append(float(all_subsets(law, cells, 1e-4).radius(cells / 2)))
        return max(errors)

    best = worst([float(share) for share in ours])
    assert best < 0.9 * worst([0.25] * 4)
    power = 1 if kind == "pure" else 2
    assert best < 0.9 * worst([cells**power / sum(each**power for each in sizes) for cells in sizes])
    generator = np.random.default_rng(0)
    for _ in range(200):
        other = np.array(ours, dtype=np.float64) * np.exp(generator.normal(0, 0.1, 4))
        assert worst(other / other.sum()) > 0.995 * best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("total", [Fraction(1, 50), Fraction(1), Fraction(40)])
@pytest.mark.parametrize("beta", [1e-9, 0.05, 0.5])
def test_the_bound_of_each_marginal_is_within_the_radius(kind: Any, total: Fraction, beta: float) -> None:
    plan, budget = Marginals((3, 12, 2, 5), 2), Budget(kind, total)
    radius = plan.radius(budget, beta)
    for noise, cells in zip(plan.noises(budget), plan.sizes, strict=True):
        bound = plan.bound(noise, cells, beta)
        assert bound.radius(cells / 2) <= radius
        assert bound.radius(0) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_queries_of_all_marginals_keep_to_their_bounds(kind: Any) -> None:
    """The weights that pick all positive noise, or the largest, chosen after the fact; and of smaller marginals too.

    beta is 1e-9: it does not fail by chance.
    """
    plan, budget, beta = Marginals((3, 12, 2), 2), Budget(kind, Fraction(1, 5)), 1e-9
    for _ in range(20):
        for attributes, noise in zip(plan.sets, plan.noises(budget), strict=True):
            shape = tuple(plan.shape[position] for position in attributes)
            drawn = draw(noise, 1, math.prod(shape)).reshape(shape)
            bound = plan.bound(noise, drawn.size, beta)
            _keep(drawn.reshape(-1), bound)
            for axis in (0, 1):
                sums = drawn.sum(axis=axis)
                part = plan.projected_bound(noise, sums.size, shape[axis], beta)
                assert part is not None
                _keep(sums, part)


@pytest.mark.parametrize("kind", KINDS)
def test_the_radius_is_not_far_above_what_must_be(kind: Any) -> None:
    """All positive noise of one marginal of c cells adds up to half of its absolute value: c·s/2, or c·σ/√(2π)."""
    plan, budget = Marginals((30, 30), 2), Budget(kind, Fraction(1, 100))
    (noise,) = plan.noises(budget)
    expected = 900 * noise.scale * (1 / 2 if kind == "pure" else 1 / math.sqrt(2 * math.pi))
    assert expected < plan.radius(budget, 0.05) < 1.6 * expected


def _keep(noise: Any, bound: Any) -> None:
    for signed in (noise, -noise):
        largest = np.cumsum(np.sort(signed)[::-1])
        assert (largest <= bound.radius(np.arange(1, len(largest) + 1))).all()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_have_tighter_bounds_than_the_cells_that_they_add_up(kind: Any) -> None:
    plan = Marginals((20, 20), 2)
    (noise,) = plan.noises(Budget(kind, Fraction(1, 10)))
    part = plan.projected_bound(noise, 20, 20, 0.05)
    assert part is not None
    assert part.radius(10) < 0.5 * plan.bound(noise, 400, 0.05).radius(200)
    assert plan.projected_bound(noise, 20, 10**6, 0.05) is None


def test_beta_is_shared_by_all_sets_of_that_many_attributes_or_fewer() -> None:
    plan = Marginals((4, 4, 4), 2)
    noise = plan.noises(Budget("pure", Fraction(1)))[0]
    assert plan.radius(Budget("pure", Fraction(1)), 0.06) == all_subsets(smooth(noise), 16, 0.01).radius(8)
