"""Figures from held-out rows, progress, classes of a schema, and what is said aloud."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier

import treering as tr
from treering.arrays import Floats
from treering.budget.promise import Promise
from treering.learn import PrivateLogisticRegression, PrivateMedian, PrivateRidge, PrivateSVC
from treering.schedulers.tested import Error


def _rows() -> tuple[Floats, Floats]:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(8_000, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, generator.normal(size=8_000)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSVC])
def test_classifiers_have_a_figure_of_their_accuracy(kind: Any) -> None:
    x, noise = _rows()
    y = np.where(x[:, 0] + noise / 4 > 0, "b", "a")
    model = kind(norm_bound=1.0, classes=("a", "b"), validation=0.1).fit(x, y)
    assert (model.validation_.rows, model.validation_.trained) == (800, (0, 8_000))
    assert abs(model.validation_.accuracy - model.score(x, y)) < 4 * model.validation_.accuracy_margin
    assert model.spent_ <= Promise(1.0, 1e-6).budget.total
    again = pickle.loads(pickle.dumps(model))
    assert again.validation_ == model.validation_
    assert kind(norm_bound=1.0, classes=("a", "b")).fit(x, y).validation_ is None


def test_errors_are_in_the_units_of_the_data() -> None:
    x, noise = _rows()
    y = 30 * x[:, 0] + np.clip(noise, -3, 3) * 5
    ridge = PrivateRidge(norm_bound=1.0, label_bound=50.0, validation=0.1).fit(x, y)
    truth = float(np.sqrt(np.mean((ridge.predict(x) - y) ** 2)))
    assert isinstance(ridge.validation_, Error)
    assert abs(ridge.validation_.value - truth) < 4 * ridge.validation_.margin
    median = PrivateMedian(norm_bound=100.0, validation=0.1).fit(60 * x)
    assert isinstance(median.validation_, Error)
    assert abs(median.validation_.value + median.score(60 * x)) < 4 * median.validation_.margin + 2


@pytest.mark.parametrize("rows", ["newest", "all"])
def test_progress_is_told_in_public_numbers_and_not_pickled(rows: str) -> None:
    said: list[tuple[float, str]] = []
    x, _ = _rows()
    model = PrivateLogisticRegression(
        norm_bound=1.0, classes=(0, 1), rows=rows, progress=lambda *each: said.append(each)
    )
    model.fit(x, x[:, 0] > 0)
    assert sum("step" in doing for _, doing in said) >= 5
    assert [done for done, _ in said] == sorted(done for done, _ in said)
    assert pickle.loads(pickle.dumps(model)).progress is None
    model.progress = None  # That changes no promise.
    model.partial_fit(x[:10], x[:10, 0] > 0)


def test_rows_of_all_time_have_no_figure() -> None:
    x, _ = _rows()
    with pytest.raises(tr.ParameterError, match="validation"):
        PrivateLogisticRegression(norm_bound=1.0, classes=(0, 1), rows="all", validation=0.1).fit(x, x[:, 0] > 0)


def test_a_schema_has_the_classes() -> None:
    x, _ = _rows()
    schema = tr.Schema({"late": tr.categories("yes", "no")})
    y = np.where(x[:, 0] > 0, "yes", "no")
    model = PrivateLogisticRegression(norm_bound=1.0, classes=schema.attributes["late"]).fit(x, y)
    assert model.classes_.tolist() == ["no", "yes"]
    with pytest.raises(tr.ParameterError, match="two different labels"):
        PrivateSVC(norm_bound=1.0, classes=tr.categories("a", "b", "c")).fit(x, y)


def test_robust_probabilities_are_calibrated_where_labels_are_noisy() -> None:
    """One feature of two values, with known chances: both losses recover them, each by its own formula."""
    generator = np.random.default_rng(2)
    x = np.where(generator.random(60_000) < 0.5, 1.0, -1.0)[:, None]
    y = generator.random(60_000) < np.where(x[:, 0] > 0, 0.8, 0.35)
    for robust in (True, False):
        model = PrivateLogisticRegression(norm_bound=1.0, classes=(False, True), robust=robust).fit(x, y)
        np.testing.assert_allclose(model.predict_proba([[1.0], [-1.0]])[:, 1], [0.8, 0.35], atol=0.06)


def test_bagging_repeats_the_promise_aloud() -> None:
    x, _ = _rows()
    model = PrivateLogisticRegression(norm_bound=1.0, classes=(0, 1))
    with pytest.warns(UserWarning, match="a promise of its own"):
        BaggingClassifier(model, n_estimators=2).fit(x, (x[:, 0] > 0).astype(int))
