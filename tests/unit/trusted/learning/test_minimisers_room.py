"""The integers of the minimisers stay within 64 bits, and output perturbation draws the noise that was paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.kept_rows import Away
from support.learning import PURE, RICH
from treering.arrays import Ints
from treering.domain.loss import HuberHinge, Logistic
from treering.domain.problem import FEATURE_UNIT, CellFeatures, Descent, Method, Minimise, Net, Perturbation, Problem
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.cells import MAX_COUNT
from treering.trusted.learning.minimisers import MOST_ENTRIES, gradient_sum, price, summed_losses
from treering.trusted.learning.points import entries_of_cells
from treering.trusted.rows.kept import Rows

SCHEMA = tr.Schema({"x": tr.integers(0, 1), "late": tr.categories("no", "yes")})
LATE = tr.parse("late = 'yes'", SCHEMA)
FEATURES = CellFeatures(SCHEMA, ["x"], [[1.0, 0.0], [0.0, 1.0]], LATE)
CELLS = [0, 1, 2, 3] * 5


def many(size: int) -> Rows:
    """So many rows, all in one cell."""
    rows = Rows(SCHEMA)
    rows.add_elsewhere(Away(np.array([3]), np.array([size])), size)
    return rows


def problem(radius: float = 1.0) -> Problem:
    return Problem(HuberHinge(), 2, radius)


# The largest sums: size · L · resolution · 2^16 of gradients, size · (L·radius + 1) · resolution of losses.
DESCENT, NET = Descent("averaged", 1, 1e3, resolution=2**20), Net(256.0, 1e6, resolution=2**30)
TIGHT: list[tuple[Method, float, int]] = [
    (DESCENT, 1.0, MAX_COUNT // (FEATURE_UNIT * 2**20)),
    (NET, 255.0, MAX_COUNT // (256 * 2**30)),
]


@pytest.mark.parametrize(("method", "radius", "first_refused"), TIGHT)
def test_sums_that_could_wrap_are_refused(method: Method, radius: float, first_refused: int) -> None:
    """A sum that wrapped around would move by 2^64 with one entry, whatever its sensitivity is said to be."""
    assert problem().lipschitz == 1
    request = Minimise(problem(radius), method, FEATURES)
    with pytest.raises(tr.ParameterError, match="resolution times the size is too large for 64-bit sums"):
        price(request, many(first_refused))
    price(request, many(first_refused - 1))


def test_what_is_let_through_does_not_wrap() -> None:
    """Every entry pulls the same way, with all it has."""
    size = TIGHT[0][2] - 1
    entries = entries_of_cells(many(size), FEATURES)
    total, unit = gradient_sum(problem(), DESCENT, entries, np.array([0.0, -1.0]))
    assert total[0] == 0
    assert 0.99 * size * unit < -int(total[1]) < MAX_COUNT
    size = TIGHT[1][2] - 1
    entries = entries_of_cells(many(size), FEATURES)
    (loss,) = summed_losses(problem(255.0), NET, entries, np.array([[0.0, -255.0]]))
    assert 0.99 * size * 255 * NET.resolution < loss < MAX_COUNT


def test_more_entries_than_moments_have_room_for_are_refused() -> None:
    request = Minimise(problem(), Net(1.0, 1e9, resolution=1), FEATURES)
    price(request, many(MOST_ENTRIES))
    with pytest.raises(tr.ParameterError, match="at most 536,870,912 entries"):
        price(request, many(MOST_ENTRIES + 1))


# -- the noise of output perturbation ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "expected", "budget"), [("laplace", Laplace(7.0), PURE), ("gaussian", Gaussian(7.0), RICH)]
)
def test_output_perturbation_draws_the_noise_it_names(
    noise: Any, expected: Noise, budget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Noise, int, int]] = []

    def silent(noise: Noise, unit: int, number: int) -> Ints:
        drawn.append((noise, unit, number))
        return np.zeros(number, dtype=np.int64)

    monkeypatch.setattr("treering.trusted.learning.minimisers.draw", silent)
    ridged = Problem(Logistic(), 2, 1.0, 0.5)
    kernel = TestDatabase(SCHEMA, CELLS).open_gate(budget)
    kernel.minimise(Minimise(ridged, Perturbation(noise, 7.0, 2.0**-20, 3), FEATURES))
    assert drawn == [(expected, 1, 2)]


def test_every_coordinate_of_the_model_gets_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    ridged = Problem(Logistic(), 2, 1.0, 0.5)
    method = Perturbation("laplace", 7.0, 2.0**-20, 3)
    models = []
    for step in (0, 1):
        monkeypatch.setattr(
            "treering.trusted.learning.minimisers.draw",
            lambda _noise, _unit, number, step=step: np.arange(1, number + 1, dtype=np.int64) * step,
        )
        released = TestDatabase(SCHEMA, CELLS).open_gate(PURE).minimise(Minimise(ridged, method, FEATURES))
        models.append(np.array(released.theta))
    assert (models[1] - models[0]) / method.pitch == pytest.approx(np.array([1, 2]))
