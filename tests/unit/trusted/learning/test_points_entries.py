"""Entries of cells are the same whether features are held or made block by block."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.domain.loss import HuberHinge
from treering.domain.problem import CellFeatures, Descent, Net, Problem
from treering.trusted.learning import points as module
from treering.trusted.learning.minimisers import candidates, gradient_sum, summed_losses
from treering.trusted.learning.points import Entries, entries_of_cells

SCHEMA = tr.Schema({"origin": tr.integers(1, 90), "hour": tr.integers(1, 40), "late": tr.categories("n", "y")})
CELLS = np.random.default_rng(3).integers(SCHEMA.cells, size=3000).tolist()


def both(features: CellFeatures, monkeypatch: pytest.MonkeyPatch) -> tuple[Entries, Entries]:
    rows = TestDatabase(SCHEMA, CELLS).rows
    held = entries_of_cells(rows, features)
    monkeypatch.setattr(module, "HELD", 0)
    made = entries_of_cells(rows, features)
    assert isinstance(made._source, CellFeatures)
    assert not isinstance(held._source, CellFeatures)
    return held, made


def test_made_blocks_are_the_held_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    features = CellFeatures.one_hot(SCHEMA, ["origin", "hour"], "late = 'y'")
    held, made = both(features, monkeypatch)
    assert np.array_equal(held.grid, made.grid)
    assert np.array_equal(held.moments.square, made.moments.square)
    assert np.array_equal(held.moments.cross, made.moments.cross)
    assert held.moments.square[-1, -1] == 3000 * features.grid[0, -1] ** 2
    problem, method = Problem(HuberHinge(), features.dimension), Descent("averaged", 1, 1.0)
    theta = np.linspace(-0.05, 0.05, features.dimension)
    one, other = (gradient_sum(problem, method, each, theta)[0].tolist() for each in (held, made))
    assert one == other
    assert len(list(made.blocks())) > 1


def test_a_net_scores_them_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    features = CellFeatures(SCHEMA, ["hour"], np.linspace(-1, 1, 40)[:, None], tr.parse("late = 'y'", SCHEMA))
    held, made = both(features, monkeypatch)
    problem, method = Problem(HuberHinge(), 1), Net(0.5, 1.0)
    models = candidates(problem, method)
    assert summed_losses(problem, method, held, models) == summed_losses(problem, method, made, models)
