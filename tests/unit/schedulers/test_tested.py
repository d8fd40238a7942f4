"""Models are tested on rows that they were not learnt from, and each row pays once for that.

Margins are 95%: of 400 draws between 340 and 400 lie within them except with a probability below 10^-9.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.domain.loss import Logistic
from treering.domain.problem import FEATURE_UNIT, CellFeatures
from treering.gate import Combined
from treering.noise import Gaussian, Laplace
from treering.schedulers.ermrings import ERMRings
from treering.schedulers.tested import _quality, area, noise_for, score_groups, scores_of
from treering.trusted.database import GrowingPoints
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
FEATURES = CellFeatures.one_hot(SCHEMA, ["origin"], "late = 'yes'")
LATE = np.array([0.2, 0.7, 0.4])


def _cells(rows: int, seed: int = 0) -> list[int]:
    generator = np.random.default_rng(seed)
    origin = generator.integers(0, 3, rows)
    return [int(cell) for cell in 2 * origin + (generator.random(rows) < LATE[origin])]


def _rings(db: Any, **options: Any) -> ERMRings:
    given = {"epsilon": 4.0, "delta": 1e-6, "features": FEATURES, "validation": 0.2}
    return ERMRings(db, Logistic(), **{**given, **options})


def _truth(learner: ERMRings, cells: list[int]) -> tuple[float, float]:
    """Accuracy and AUC of the first model on some rows, by comparing every pair."""
    scores, labels = scores_of(learner.models[0], FEATURES), FEATURES.labels > 0
    chosen = np.array(cells)
    score, late = scores[chosen], labels[chosen]
    pairs = score[late][:, None] - score[~late][None, :]
    return float(np.mean((score > 0) == late)), float(np.mean((pairs > 0) + (pairs == 0) / 2))


def test_a_model_is_tested_on_the_rows_after_it_and_each_row_pays_for_one_test() -> None:
    db, later = TestDatabase(SCHEMA, _cells(6_000)), _cells(6_000, 1)
    learner = _rings(db)
    learner.update()
    assert learner.quality is None
    total = learner.left(1) + learner.spent
    assert learner.spent <= 0.8 * total * (1 + 1e-9)
    db.append_cells(later[:2_000])
    learner.update()
    assert learner.quality is None  # fewer than half of the rows that the next model waits for
    db.append_cells(later[2_000:4_000])
    learner.update()
    half = learner.quality
    assert half is not None
    assert (half.trained, half.rows) == ((0, 6_000), 4_000)
    assert 0.8 * total <= learner.left(6_001) < total * 0.81
    assert learner.left(10_001) == pytest.approx(total)
    db.append_cells(later[4_000:])
    assert learner.model.rows == (6_000, 12_000)
    found = learner.quality
    assert found is not None
    assert (found.trained, found.rows) == ((0, 6_000), 6_000)
    accuracy, auc = _truth(learner, later)
    assert abs(found.accuracy - accuracy) < 4 * found.accuracy_margin
    assert found.auc is not None
    assert found.auc_margin is not None
    assert abs(found.auc - auc) < 4 * found.auc_margin
    assert learner.left(6_001) < 1e-9
    assert learner.describe()["quality"]["rows"] == 6_000


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_vault_replays_its_tests(tmp_path: Path, delta: float) -> None:
    rows = [{"origin": "EWR", "late": "yes"}, {"origin": "JFK", "late": "no"}] * 1_000
    with Vault.create(tmp_path / "v", SCHEMA, 2.0, delta, share=0.5) as vault:
        vault.append(rows, key="one")
        vault.add("ermrings", 0.5, target="late = 'yes'", features=["origin"], validation=0.25, name="model")
        vault.model()
        vault.append(rows, key="two")
        vault.model()
        said = vault.status()["mechanisms"][1]["quality"]
    assert said["rows"] == 2_000
    with Vault.open(tmp_path / "v") as vault:
        assert vault.status()["mechanisms"][1]["quality"] == said
    assert Vault.read(tmp_path / "v").status()["mechanisms"][1]["quality"] == said


def test_groups_split_scores_at_zero_and_by_label() -> None:
    learner = _rings(TestDatabase(SCHEMA, _cells(6_000)))
    model = learner.update()
    groups, scores = score_groups(model, FEATURES), scores_of(model, FEATURES)
    np.testing.assert_allclose(scores, FEATURES.grid / FEATURE_UNIT @ np.array(model.theta))
    assert groups.table is not None
    table = groups.table.reshape(-1)
    assert ((table % 2 == 1) == (FEATURES.labels > 0)).all()
    for one in range(len(table)):
        for other in range(len(table)):
            if table[one] // 2 < table[other] // 2:
                assert scores[one] < scores[other]
            if table[one] // 2 == table[other] // 2:
                assert (scores[one] > 0) == (scores[other] > 0)


def test_bins_on_either_side_of_zero_hold_about_as_many_scores() -> None:
    """Ninety scores, of which thirty are above 0: as many bins on a side, and each as full as the others there."""
    schema = tr.Schema({"n": tr.integers(0, 89), "late": tr.categories("no", "yes")})
    features = CellFeatures.one_hot(schema, ["n"], "late = 'yes'")
    learner = ERMRings(TestDatabase(schema, [0, 1] * 3000), Logistic(), epsilon=4.0, delta=1e-6, features=features)
    model = learner.update()
    steps = np.zeros(len(model.theta))
    steps[-90:] = (np.arange(90) - 59.5) / 200
    model.theta = tuple(steps)
    table, scores = score_groups(model, features).table, scores_of(model, features)
    assert table is not None
    for above in (False, True):
        held = [
            len(np.unique(scores[table.reshape(-1) // 2 == each]))
            for each in np.unique(table.reshape(-1)[(scores > 0) == above] // 2)
        ]
        assert len(held) == 9  # The lowest score is a bin of its own.
        assert max(held[1:-1]) - min(held[1:-1]) <= 1


@pytest.mark.parametrize("wrong", [1.0, 2.0])
def test_margins_cover_as_often_as_they_say(wrong: float) -> None:
    """With noise twice as large as stated they would not."""
    learner = _rings(TestDatabase(SCHEMA, _cells(6_000)))
    model, generator = learner.update(), np.random.default_rng(3)
    groups, scores, cells = score_groups(model, FEATURES), scores_of(model, FEATURES), _cells(5_000, 2)
    assert groups.table is not None
    exact = np.bincount(groups.table.reshape(-1)[cells], minlength=groups.number).astype(float)
    accuracy, auc = _truth(learner, cells)
    inside = [0, 0]
    for _ in range(400):
        noisy = exact + np.rint(generator.normal(size=len(exact)) * 30 * wrong)
        found = _quality(model, scores, groups.table, noisy, 30.0, len(cells))
        assert found.auc is not None
        assert found.auc_margin is not None
        inside[0] += abs(found.accuracy - accuracy) <= found.accuracy_margin
        inside[1] += abs(found.auc - auc) <= found.auc_margin
    assert all((count >= 340) == (wrong == 1.0) for count in inside), inside


def test_an_area_needs_rows_of_both_labels() -> None:
    assert area(np.array([[10.0, 0.0], [10.0, 1.0]]), 5.0) is None
    assert area(np.array([[10.0, 0.0], [10.0, 0.0]]), 0.0) is None
    perfect = area(np.array([[10.0, 0.0], [0.0, 10.0]]), 5.0)
    assert perfect is not None
    assert perfect[0] == 1.0


def test_the_gradient_of_the_area() -> None:
    counts = np.array([[30.0, 5.0], [20.0, 12.0], [10.0, 25.0]])
    found = area(counts, 1.0)
    assert found is not None
    steps = []
    for place in np.ndindex(counts.shape):
        moved = counts.copy()
        moved[place] += 1e-5
        near = area(moved, 1.0)
        assert near is not None
        steps.append((near[0] - found[0]) / 1e-5)
    assert found[1] == pytest.approx(float(np.linalg.norm(steps)), rel=1e-4)


def test_noise_costs_what_it_may() -> None:
    """Two groups or more: 1/σ² zCDP, 2/s pure."""
    gaussian, laplace = noise_for(Budget("zcdp", Fraction(1, 100))), noise_for(Budget("pure", Fraction(1, 10)))
    assert isinstance(gaussian, Gaussian)
    assert isinstance(laplace, Laplace)
    assert 10 <= gaussian.scale < 10.001
    assert 20 <= laplace.scale < 20.001


@pytest.mark.parametrize("validation", [0.5, -0.1, 1, "much"])
def test_a_part_that_is_none_is_refused(validation: Any) -> None:
    with pytest.raises(tr.ParameterError, match="validation"):
        _rings(TestDatabase(SCHEMA, _cells(10)), validation=validation)


def test_points_have_no_test() -> None:
    with pytest.raises(tr.ParameterError, match="needs a database"):
        ERMRings(GrowingPoints(2, "signs"), Logistic(), 1.0, 1e-6, validation=0.1)


def test_without_a_part_nothing_is_tested() -> None:
    db = TestDatabase(SCHEMA, _cells(2_000))
    learner = _rings(db, validation=0)
    learner.update()
    db.append_cells(_cells(2_000, 1))
    assert learner.quality is None
    assert not any(isinstance(event, Combined) for event in learner._gate.history)
