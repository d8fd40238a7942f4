"""Features on the integer grid, and cells that become entries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import treering as tr
from treering.arrays import Floats
from treering.domain.loss import Distance, Logistic, Squared
from treering.domain.problem import (
    FEATURE_UNIT,
    CellFeatures,
    Descent,
    Minimise,
    Net,
    Perturbation,
    Problem,
    check_labels,
    on_grid,
)

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 3), "late": tr.categories("n", "y")})
LATE = tr.parse("late = 'y'", SCHEMA)


@given(arrays(np.float64, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=200, deadline=None)
def test_grid_rows_have_norm_at_most_one_exactly_and_stay_near(rows: Floats) -> None:
    grid = on_grid(rows)
    for row, whole in zip(rows.tolist(), grid.tolist(), strict=True):
        assert sum(value**2 for value in whole) <= FEATURE_UNIT**2
        shrink = max(1.0, math.hypot(*row)) if math.isfinite(math.hypot(*row)) else math.inf
        if math.isfinite(shrink):
            near = [value / shrink for value in row]
            assert all(abs(a - b / FEATURE_UNIT) < 2 / FEATURE_UNIT for a, b in zip(near, whole, strict=True))


def test_cells_become_entries_with_features_and_labels() -> None:
    vectors = np.arange(6)[:, None] / 10
    features = CellFeatures(SCHEMA, ["origin", "month"], vectors, LATE)
    assert features.joint == (0, 1, 2)
    assert features.entries == 12
    assert features.label_kind == "signs"
    for cell in range(SCHEMA.cells):
        values = SCHEMA.values(cell)
        expected = vectors[3 * (values["origin"] == "JFK") + int(str(values["month"])) - 1, 0]
        assert features.grid[cell, 0] / FEATURE_UNIT == pytest.approx(expected, abs=2 / FEATURE_UNIT)
        assert features.labels[cell] == (1 if values["late"] == "y" else -1)


def test_a_label_may_depend_on_a_feature_and_a_weighted_query_gives_numbers() -> None:
    target = tr.Query.weighted(SCHEMA, [0.0, 0.25, 1.0], attributes=["month"])
    features = CellFeatures(SCHEMA, ["month"], [[0.1], [0.2], [0.3]], target)
    assert features.entries == 3
    assert features.label_kind == "numbers"
    assert features.labels.tolist() == [-1, -0.5, 1]
    assert CellFeatures(SCHEMA, ["month"], [[0.1], [0.2], [0.3]]).label_kind == "none"


@pytest.mark.parametrize(
    ("names", "vectors", "match"),
    [
        (["origin"], [[0.1]], "2 rows"),
        (["origin"], [[0.1], [math.nan]], "finite"),
        (["origin"], [[0.1], [1.1]], "public bound"),
        (["late", "origin"], [[0.1]] * 4, "order"),
    ],
)
def test_bad_features_are_refused(names: list[str], vectors: list[list[float]], match: str) -> None:
    with pytest.raises(tr.ParameterError, match=match):
        CellFeatures(SCHEMA, names, vectors, LATE)


def test_losses_take_their_own_labels() -> None:
    check_labels("signs", Logistic())
    check_labels("signs", Squared())
    with pytest.raises(tr.ParameterError, match="takes labels -1 and 1"):
        check_labels("numbers", Logistic())
    with pytest.raises(tr.ParameterError, match="takes no labels"):
        check_labels("signs", Distance())


def test_requests_check_themselves() -> None:
    problem = Problem(Logistic(), 2)
    with pytest.raises(tr.ParameterError, match="pitch must be a power of two"):
        Perturbation("laplace", 1.0, 0.3, 1)
    with pytest.raises(tr.ParameterError, match="steps"):
        Descent("averaged", 0, 1.0)
    with pytest.raises(tr.ParameterError, match="resolution"):
        Net(0.1, 1.0, resolution=3)
    with pytest.raises(tr.ParameterError, match="start"):
        Minimise(problem, Descent("averaged", 1, 1.0, start=(1.0, 1.0)))
    with pytest.raises(tr.ParameterError, match="features must have 2"):
        Minimise(problem, Net(0.1, 1.0), CellFeatures(SCHEMA, ["origin"], [[0.1], [0.2]], LATE))
