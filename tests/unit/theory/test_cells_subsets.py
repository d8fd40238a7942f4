"""Bounds on sums of noise, against the exact probabilities on cases that can be enumerated."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.noise import Gaussian, Laplace, Noise
from treering.theory.cells import (
    CellNoise,
    LaplaceSumCell,
    SubGaussianCell,
    SubsetBound,
    all_subsets,
    all_subsets_radius,
    exact,
    smooth,
    subset_radius,
)

Floats = npt.NDArray[np.float64]
NOISES: list[Noise] = [Laplace(0.4), Laplace(1.0), Laplace(3.0), Gaussian(0.5), Gaussian(1.0), Gaussian(4.0)]
MASSES = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


def law(noise: Noise) -> tuple[Floats, Floats]:
    reach = math.ceil(16 * noise.scale if isinstance(noise, Laplace) else 7 * noise.scale)
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    logs = -np.abs(values) / noise.scale if isinstance(noise, Laplace) else -((values / noise.scale) ** 2) / 2
    masses = np.exp(logs)
    return values, masses / masses.sum()


def worst_sums(draws: Floats, mass: float) -> Floats:
    """The largest |Σ w·x| over w in [0, 1] with Σw ≤ mass, for each row: whole cells first, then a part of one."""
    whole, part = divmod(mass, 1)
    best = np.zeros(len(draws))
    for signed in (draws, -draws):
        falling = np.maximum(-np.sort(-signed, axis=1), 0.0)
        total = falling[:, : int(whole)].sum(axis=1)
        if part:
            total = total + part * falling[:, int(whole)]
        best = np.maximum(best, total)
    return best


def failure(noise: Noise, bound: SubsetBound, shrunk: float = 1.0) -> float:
    """The exact probability that three cells break the bound at any mass."""
    values, masses = law(noise)
    draws = np.array(list(product(values, repeat=3)))
    chances = np.array([a * b * c for a, b, c in product(masses, repeat=3)])
    broken = np.zeros(len(draws), dtype=np.bool_)
    for mass in MASSES:
        broken |= worst_sums(draws, mass) > shrunk * float(bound.radius(mass))
    return float(chances[broken].sum())


@pytest.mark.parametrize("noise", NOISES[:2] + NOISES[3:5], ids=str)
@pytest.mark.parametrize("beta", [0.5, 0.1, 0.01])
def test_all_masses_hold_together(noise: Noise, beta: float) -> None:
    """Exact, by enumeration: what lies beyond the enumerated values has probability below 1e-6."""
    for law_of_noise in (exact(noise), smooth(noise)):
        assert failure(noise, all_subsets(law_of_noise, 3, beta)) <= beta - 1e-6


@pytest.mark.parametrize("noise", [Laplace(1.0), Gaussian(1.0)], ids=str)
def test_the_bound_is_not_far_off(noise: Noise) -> None:
    assert failure(noise, all_subsets(exact(noise), 3, 0.1), shrunk=0.5) > 0.1


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_one_cell_is_nearly_its_own_radius(noise: Noise) -> None:
    """A bound over cells that are never asked about costs little: a share of beta for each cut."""
    values, masses = law(noise)
    bound = all_subsets_radius(noise, 1, 1.0, 0.05)
    assert float(masses[np.abs(values) > bound].sum()) <= 0.05
    assert float(masses[np.abs(values) > bound / 2].sum()) > 0.0125


@given(
    noise=st.sampled_from([exact(noise) for noise in NOISES] + [smooth(noise) for noise in NOISES]),
    cells=st.integers(1, 10**6),
    beta=st.floats(1e-12, 0.99),
    shares=st.lists(st.floats(0, 1), min_size=3, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_the_radius_grows_with_the_mass_and_is_concave(
    noise: CellNoise, cells: int, beta: float, shares: list[float]
) -> None:
    low, middle, high = sorted(cells * share for share in shares)
    bound = all_subsets(noise, cells, beta)
    at_low, at_middle, at_high = bound.radius([low, middle, high])
    assert 0 <= at_low <= at_middle <= at_high
    if high > low:
        part = (middle - low) / (high - low)
        assert at_middle >= ((1 - part) * at_low + part * at_high) * (1 - 1e-12)
    assert float(bound.radius(0.0)) == 0
    # Never worse than the largest cell times the mass, by more than the split of beta.
    assert at_high <= high * noise.reach(min(0.25, beta / 60 / cells)) * (1 + 1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_radius_falls_with_beta_and_grows_with_the_cells(noise: Noise) -> None:
    for law_of_noise in (smooth(noise), exact(noise)):
        radii = [float(all_subsets(law_of_noise, 1000, beta).radius(20)) for beta in (1e-9, 1e-3, 0.05, 0.5)]
        assert radii == sorted(radii, reverse=True)
        radii = [float(all_subsets(law_of_noise, cells, 0.05).radius(20)) for cells in (20, 200, 10_000, 2**24)]
        assert radii == sorted(radii)


@pytest.mark.parametrize("factor", [2.0, 3.0, 1000.0])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_smooth_bounds_scale(noise: Noise, factor: float) -> None:
    wide = type(noise)(factor * noise.scale)
    for mass in (0.5, 10.0, 500.0):
        before, after = (float(all_subsets(smooth(each), 1000, 0.05).radius(mass)) for each in (noise, wide))
        assert before <= after <= factor * before * (1 + 1e-12)


def test_large_sums_have_the_right_order() -> None:
    """Half of many cells: N·E X⁺, which is N·s/2 for wide Laplace noise and N·σ/√(2π) for Gaussian."""
    cells = 10**6
    assert all_subsets_radius(Laplace(50.0), cells, cells / 2, 0.05) == pytest.approx(cells * 50 / 2, rel=0.02)
    right = cells * 50 / math.sqrt(2 * math.pi)
    assert all_subsets_radius(Gaussian(50.0), cells, cells / 2, 0.05) == pytest.approx(right, rel=0.02)


# -- queries declared before -------------------------------------------------------------------------------------------


def tail(noise: Noise, weights: list[float], numbers: list[int], radius: float) -> float:
    """P(|Σ a·X| > radius), by convolution over values rounded to 1e-9."""
    sums, chances = np.zeros(1), np.ones(1)
    values, masses = law(noise)
    for weight, number in zip(weights, numbers, strict=True):
        for _ in range(number):
            sums = np.add.outer(sums, weight * values).reshape(-1).round(9)
            chances = np.multiply.outer(chances, masses).reshape(-1)
            sums, index = np.unique(sums, return_inverse=True)
            chances = np.bincount(index, weights=chances).astype(np.float64)
    return float(chances[np.abs(sums) > radius].sum())


SPECTRA: list[tuple[list[float], list[int]]] = [
    ([1.0], [1]),
    ([1.0], [20]),
    ([0.75, -0.25], [5, 15]),
    ([1.0, 0.5, 0.25], [1, 2, 4]),
]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize(("weights", "numbers"), SPECTRA)
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-3])
def test_a_declared_query_keeps_its_radius(noise: Noise, weights: list[float], numbers: list[int], beta: float) -> None:
    for law_of_noise in (exact(noise), smooth(noise)):
        assert tail(noise, weights, numbers, subset_radius(law_of_noise, weights, numbers, beta)) <= beta


@pytest.mark.parametrize("noise", [Laplace(3.0), Gaussian(4.0)], ids=str)
def test_a_declared_radius_is_not_far_off(noise: Noise) -> None:
    for weights, numbers in SPECTRA:
        assert tail(noise, weights, numbers, 0.6 * subset_radius(noise, weights, numbers, 0.01)) > 0.01


def test_a_gaussian_radius_is_the_closed_form() -> None:
    right = 3 * math.sqrt(2 * (4 * 0.25 + 9) * math.log(2 / 0.05))
    assert subset_radius(SubGaussianCell(3.0), [0.5, -1.0, 0.0], [4, 9, 7], 0.05) == pytest.approx(right, rel=1e-3)


def test_declared_queries_are_cheaper_than_all() -> None:
    for noise in (Laplace(10.0), Gaussian(10.0)):
        assert subset_radius(noise, [1.0], [500], 0.05 / 1000) < 0.5 * all_subsets_radius(noise, 1000, 500, 0.05)


def test_a_sum_of_laplace_noise_is_wider_than_its_parts() -> None:
    one = subset_radius(Laplace(5.0), [1.0], [30], 0.05)
    two = subset_radius(LaplaceSumCell([(1.0, 5.0), (1.0, 5.0)]), [1.0], [30], 0.05)
    assert two == pytest.approx(subset_radius(Laplace(5.0), [1.0], [60], 0.05), rel=1e-9)
    assert 1.3 * one < two < 1.5 * one


def test_no_weight_no_noise() -> None:
    assert subset_radius(Laplace(1.0), [0.0, 1.0], [5, 0], 0.05) == 0
    assert subset_radius(Laplace(1.0), [], [], 0.05) == 0


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 1, -0.5, math.nan, math.inf])
def test_bad_betas_are_refused(beta: Any) -> None:
    with pytest.raises(tr.ParameterError, match="beta"):
        all_subsets_radius(Laplace(1.0), 10, 1, beta)
    with pytest.raises(tr.ParameterError, match="beta"):
        subset_radius(Laplace(1.0), [1.0], [1], beta)


@pytest.mark.parametrize("mass", [-0.1, 10.5, math.nan, math.inf])
def test_bad_masses_are_refused(mass: float) -> None:
    with pytest.raises(tr.ParameterError, match="mass must lie within 0 and the number of cells, 10"):
        all_subsets_radius(Laplace(1.0), 10, mass, 0.05)


def test_bad_cells_and_numbers_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="cells"):
        all_subsets(exact(Laplace(1.0)), 0, 0.05)
    with pytest.raises(tr.ParameterError, match="numbers must be as many as the weights, 1, not 2"):
        subset_radius(Laplace(1.0), [1.0], [1, 2], 0.05)
