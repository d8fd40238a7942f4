"""The bound for all queries at once on a histogram whose total is known."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import treering as tr
from treering.noise import Gaussian, Laplace
from treering.theory.cells import CellNoise, GaussianCell, LaplaceCell, SubGaussianCell, exact
from treering.theory.continual import SMALL, CentredBound, TreeLaplaceCell

LAWS: list[CellNoise] = [
    LaplaceCell(3.0),
    GaussianCell(3.0),
    SubGaussianCell(3.0),
    TreeLaplaceCell(((1.0, 2.0, 1), (2 / 3, 4.0, 1), (1 / 3, 4.0, 2))),
]


@pytest.mark.parametrize("noise", LAWS)
@pytest.mark.parametrize("cells", [2, 7, 64, 1000, SMALL + 1])
def test_a_query_and_its_complement_have_the_same_bound_and_none_is_above_the_worst(
    noise: CellNoise, cells: int
) -> None:
    bound = CentredBound(noise, cells, 0.01)
    masses = np.linspace(0, cells, 101)
    radii = bound.radius(masses)
    assert radii == pytest.approx(radii[::-1])
    assert radii[0] == radii[-1] == 0
    assert np.all(radii[1:-1] > 0)
    assert radii.max() <= bound.worst * (1 + 1e-12)
    assert bound.worst < 1.3 * radii.max() or cells < 7


@pytest.mark.parametrize("noise", LAWS)
def test_the_bound_holds_for_masses_between_those_of_sets(noise: CellNoise) -> None:
    """The largest error of a mass lies between those of the two sets around it, and so does the bound."""
    bound = CentredBound(noise, 50, 0.01)
    low, between, high = bound.radius([7, 7.25, 8])
    assert low < between < high
    assert between == pytest.approx(0.75 * low + 0.25 * high, rel=1e-3)


def test_it_is_right_where_all_can_be_enumerated() -> None:
    """Three cells of narrow discrete Laplace noise: the exact probability that any query is beyond its bound."""
    scale, beta, reach = 0.6, 0.3, 12
    p = math.exp(-1 / scale)
    masses = [(1 - p) / (1 + p) * p ** abs(k) for k in range(-reach, reach + 1)]
    bound = CentredBound(exact(Laplace(scale)), 3, beta)
    single = float(bound.radius(1))
    failed = 0.0
    for noise in product(range(-reach, reach + 1), repeat=3):
        centred = np.array(noise) - np.mean(noise)
        # By symmetry sets of two are complements of sets of one; the errors of weighted queries lie in between.
        if np.abs(centred).max() > single:
            failed += math.prod(masses[value + reach] for value in noise)
    assert failed <= beta
    # And it is no idle bound: at a third of it most draws fail.
    assert single < 6 * scale * math.log(3 / beta)


@pytest.mark.parametrize("cells", [16, 300])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_it_grows_with_confidence_and_with_the_noise(cells: int, kind: type[Laplace] | type[Gaussian]) -> None:
    mass = [1, cells / 8, cells / 2]
    base = CentredBound(exact(kind(5.0)), cells, 0.01).radius(mass)
    assert np.all(CentredBound(exact(kind(5.0)), cells, 1e-6).radius(mass) > base)
    assert np.all(CentredBound(exact(kind(10.0)), cells, 0.01).radius(mass) > 1.5 * base)


def test_one_cell_has_no_error() -> None:
    bound = CentredBound(LaplaceCell(3.0), 1, 0.05)
    assert bound.radius([0, 0.5, 1]).tolist()[::2] == [0, 0]


@pytest.mark.parametrize("beta", [0, 1, -0.1, float("nan"), 2])
def test_bad_parameters_are_refused(beta: float) -> None:
    with pytest.raises(tr.ParameterError, match="beta"):
        CentredBound(LaplaceCell(3.0), 4, beta)
    with pytest.raises(tr.ParameterError, match="cells"):
        CentredBound(LaplaceCell(3.0), 0, 0.05)
