"""Models are tested on rows that they were not learnt from, at no cost beyond that of the model.

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
from treering.budget.cost import FREE
from treering.budget.promise import Budget
from treering.domain.loss import HuberDistance, Logistic, Squared
from treering.domain.problem import FEATURE_UNIT, CellFeatures
from treering.domain.tally import Tally
from treering.gate import Minimised, Tallied
from treering.noise import Gaussian, Laplace
from treering.schedulers.ermrings import MOST_HELD, ERMRings
from treering.schedulers.tested import CUTS, Error, Quality, area, noise_for, score_cuts, scores_of, tallies, told
from treering.trusted.kernel import Kernel
from treering.trusted.memory.points import GrowingPoints
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


def _truth(model: tr.Model, cells: list[int]) -> tuple[float, float]:
    """Accuracy and AUC of a model on some rows, by comparing every pair."""
    scores, labels = scores_of(model, FEATURES), FEATURES.labels > 0
    chosen = np.array(cells)
    score, late = scores[chosen], labels[chosen]
    pairs = score[late][:, None] - score[~late][None, :]
    return float(np.mean((score > 0) == late)), float(np.mean((pairs > 0) + (pairs == 0) / 2))


def _near(found: Quality | Error | None, truth: tuple[float, float]) -> None:
    assert isinstance(found, Quality)
    assert found.auc is not None
    assert found.auc_margin is not None
    assert abs(found.accuracy - truth[0]) < 4 * found.accuracy_margin
    assert abs(found.auc - truth[1]) < 4 * found.auc_margin


def test_the_first_model_has_a_figure_and_later_ones_two() -> None:
    db, later = TestDatabase(SCHEMA, _cells(6_000)), _cells(6_000, 1)
    learner = _rings(db)
    model = learner.update()
    total = learner._gate.budget.total
    assert (model.rows, model.held, learner.quality_later) == ((0, 6_000), 1_200, None)
    assert learner.quality is not None
    assert (learner.quality.trained, learner.quality.rows) == ((0, 6_000), 1_200)
    _near(learner.quality, _truth(model, _cells(6_000)))
    assert learner.left(6_000) < 1e-9 < learner.left(6_001) == pytest.approx(total)
    db.append_cells(later)
    assert (learner.model.rows, learner.model.held) == ((6_000, 12_000), 1_200)
    assert learner.quality_later is not None
    assert (learner.quality_later.trained, learner.quality_later.rows) == ((0, 6_000), 1_200)
    _near(learner.quality, _truth(learner.models[1], later))
    _near(learner.quality_later, _truth(learner.models[0], later))
    described = learner.describe()
    assert (described["quality"]["rows"], described["quality_later"]["trained"]) == (1_200, (0, 6_000))
    assert learner.spent <= total


def test_all_of_the_room_is_used_and_no_more() -> None:
    """The first model's tests have all of it; later models share it with those before."""
    db = TestDatabase(SCHEMA, _cells(2_000))
    learner = _rings(db)
    learner.update()
    db.append_cells(_cells(2_000, 1))
    drawn: list[Fraction] = []
    for event in learner._gate.history:
        if isinstance(event, Minimised):
            drawn.append(Fraction(0))
        elif isinstance(event, Tallied):
            drawn[-1] += event.drawn.rho
    total = float(learner._gate.budget.total)
    assert all(0.999 * total < float(each) <= total for each in drawn)
    assert len(drawn) == 2


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_vault_replays_its_tests(tmp_path: Path, delta: float) -> None:
    rows = [{"origin": "EWR", "late": "yes"}, {"origin": "JFK", "late": "no"}] * 1_000
    with Vault.create(tmp_path / "v", SCHEMA, 2.0, delta, share=0.5) as vault:
        vault.append(rows, key="one")
        vault.add("ermrings", 0.5, target="late = 'yes'", features=["origin"], validation=0.25, name="model")
        vault.model()
        vault.append(rows, key="two")
        vault.model()
        said = vault.status()["mechanisms"][1]
    assert said["quality"]["rows"] == said["quality_later"]["rows"] == 500
    with Vault.open(tmp_path / "v") as vault:
        assert vault.status()["mechanisms"][1] == said
    shown = Vault.read(tmp_path / "v").status()["mechanisms"][1]
    assert (shown["quality"], shown["quality_later"]) == (said["quality"], said["quality_later"])


def test_an_interrupt_between_model_and_test_costs_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, _cells(2_000))
    learner = _rings(db)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Kernel, "tally", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.update()
    assert learner.update().rows == (0, 2_000)
    assert learner.quality is None
    db.append_cells(_cells(2_000, 1))
    assert learner.quality is not None


def test_large_rings_hold_out_no_more_than_is_needed() -> None:
    db = TestDatabase(SCHEMA, [])
    db.append_cells(_cells(1_000) * 120)
    assert _rings(db, validation=0.1).update().held == MOST_HELD


# -- points ------------------------------------------------------------------------------------------------------------


def _points(labels: Any, kind: Any) -> tuple[GrowingPoints, Any]:
    generator = np.random.default_rng(5)
    features = generator.normal(size=(20_000, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True) * 1.25
    made = GrowingPoints(3, kind)
    given = None if labels is None else labels(features, generator)
    made.append(features, given)
    return made, (features, given)


def test_classifiers_of_points_tell_their_accuracy() -> None:
    points, (features, labels) = _points(lambda x, g: np.where(x[:, 0] + g.normal(size=len(x)) / 4 > 0, 1, -1), "signs")
    learner = ERMRings(points, Logistic(), 1.0, 1e-6, validation=0.1)
    model = learner.update()
    found = learner.quality
    assert isinstance(found, Quality)
    assert (found.rows, found.auc) == (2_000, None)
    truth = float(np.mean((model.predictions(features) > 0) == (labels > 0)))
    assert abs(found.accuracy - truth) < 4 * found.accuracy_margin < 0.1


def test_regressions_tell_their_error() -> None:
    points, (features, labels) = _points(
        lambda x, g: np.clip(x[:, 0] / 2 + g.normal(size=len(x)) / 10, -1, 1), "numbers"
    )
    learner = ERMRings(points, Squared(), 1.0, 1e-6, validation=0.1)
    model = learner.update()
    found = learner.quality
    assert isinstance(found, Error)
    truth = float(np.sqrt(np.mean((model.predictions(features) - labels) ** 2)))
    assert abs(found.value - truth) < 4 * found.margin
    assert found.most > truth


def test_medians_tell_their_mean_distance() -> None:
    points, (features, _) = _points(None, "none")
    learner = ERMRings(points, HuberDistance(), 1.0, 1e-6, validation=0.1)
    model = learner.update()
    found = learner.quality
    assert isinstance(found, Error)
    truth = float(np.linalg.norm(features - np.array(model.theta), axis=1).mean())
    assert abs(found.value - truth) < 4 * found.margin + 0.02 * truth  # half of a bin is 9%, and they lie on a sphere


# -- figures and their margins -----------------------------------------------------------------------------------------


def test_cuts_of_scores_are_at_zero_and_between_scores() -> None:
    model = _rings(TestDatabase(SCHEMA, _cells(6_000))).update()
    cuts, scores = score_cuts(model, FEATURES), scores_of(model, FEATURES)
    np.testing.assert_allclose(scores, FEATURES.grid / FEATURE_UNIT @ np.array(model.theta))
    assert 0.0 in cuts
    bins = np.searchsorted(cuts, scores)
    assert len(set(bins)) == len(set(scores)) == 3  # few scores: a bin for each


def test_bins_on_either_side_of_zero_hold_about_as_many_scores() -> None:
    """Ninety scores, of which thirty are above 0: as many bins on a side, and each as full as the others there."""
    schema = tr.Schema({"n": tr.integers(0, 89), "late": tr.categories("no", "yes")})
    features = CellFeatures.one_hot(schema, ["n"], "late = 'yes'")
    learner = ERMRings(TestDatabase(schema, [0, 1] * 3000), Logistic(), epsilon=4.0, delta=1e-6, features=features)
    model = learner.update()
    steps = np.zeros(len(model.theta))
    steps[-90:] = (np.arange(90) - 59.5) / 200
    model.theta = tuple(steps)
    scores = scores_of(model, features)
    bins = np.searchsorted(score_cuts(model, features), scores)
    for above in (False, True):
        held = [len(np.unique(scores[bins == each])) for each in np.unique(bins[(scores > 0) == above])]
        assert len(held) == 9  # The lowest score is a bin of its own.
        assert max(held[1:-1]) - min(held[1:-1]) <= 1


@pytest.mark.parametrize("wrong", [1.0, 2.0])
def test_margins_cover_as_often_as_they_say(wrong: float) -> None:
    """Noise and the chance of which rows were held out. With noise twice as large as stated they would not."""
    model, generator = _rings(TestDatabase(SCHEMA, _cells(6_000))).update(), np.random.default_rng(3)
    hits, scores = tallies(model, "signs", FEATURES)
    chance = np.repeat(LATE, 2) * np.tile([0, 1], 3) + np.repeat(1 - LATE, 2) * np.tile([1, 0], 3)
    said, labels = scores_of(model, FEATURES), FEATURES.labels > 0
    accuracy = float(chance[(said > 0) == labels].sum() / 3)
    pairs = np.sign(said[labels][:, None] - said[~labels][None, :]) / 2 + 0.5
    weights = chance[labels][:, None] * chance[~labels][None, :]
    auc = float((pairs * weights).sum() / weights.sum())
    inside, size = [0, 0], 2_000
    for _ in range(400):
        exact = generator.multinomial(size, chance / 3)
        vectors = FEATURES.grid / FEATURE_UNIT
        counts = []
        for tally in (hits, scores):
            groups = np.bincount(tally.sort(vectors, FEATURES.labels), weights=exact, minlength=tally.groups)
            noisy = groups + np.rint(generator.normal(size=tally.groups) * 40 * wrong)
            counts.append(Tallied(size, FREE, tally, Gaussian(40.0), noisy.astype(np.int64)))
        found = told(model, counts, size)
        assert isinstance(found, Quality)
        inside[0] += abs(found.accuracy - accuracy) <= found.accuracy_margin
        inside[1] += found.auc is None or abs(found.auc - auc) <= (found.auc_margin or 0)
    assert all((count >= 340) == (wrong == 1.0) for count in inside), inside


@pytest.mark.parametrize("wrong", [1.0, 4.0])
@pytest.mark.parametrize("of", ["misses", "distances"])
def test_margins_of_errors_cover_as_often_as_they_say(of: Any, wrong: float) -> None:
    model, generator = _rings(TestDatabase(SCHEMA, _cells(100))).update(), np.random.default_rng(4)
    tally, size, inside = Tally((0.0,), of, CUTS), 2_000, 0
    for _ in range(400):
        errors = np.abs(generator.normal(size=size)) / 10
        groups = np.bincount(np.searchsorted(CUTS, errors), minlength=tally.groups)
        noisy = groups + np.rint(generator.normal(size=tally.groups) * 20 * wrong)
        found = told(model, [Tallied(size, FREE, tally, Gaussian(20.0), noisy.astype(np.int64))], size)
        assert isinstance(found, Error)
        clipped = np.minimum(errors, found.most)
        truth = np.mean(clipped**2) ** 0.5 if of == "misses" else np.mean(clipped)
        inside += abs(found.value - truth) <= found.margin
    assert (inside >= 340) == (wrong == 1.0), inside


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


def test_without_a_part_nothing_is_tested() -> None:
    db = TestDatabase(SCHEMA, _cells(2_000))
    learner = _rings(db, validation=0)
    learner.update()
    db.append_cells(_cells(2_000, 1))
    assert learner.quality is None
    assert not any(isinstance(event, Tallied) for event in learner._gate.history)
