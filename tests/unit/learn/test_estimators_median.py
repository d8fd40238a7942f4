from __future__ import annotations

import numpy as np
import pytest

from support.estimators import RICH
from treering.learn import PrivateMedian


def test_the_median_withstands_what_moves_the_mean() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal([2.0, -3.0], 0.5, size=(9000, 2))
    X[:3000] = (40.0, 0.0)
    model = PrivateMedian(**RICH, norm_bound=50.0).fit(X)
    assert np.linalg.norm(model.median_ - [2, -3]) < 1 < np.linalg.norm(X.mean(axis=0) - [2, -3])


def test_the_mean_distance_is_within_the_bound_of_the_least() -> None:
    """With beta = 1e-9 this never fails by chance."""
    X = np.random.default_rng(1).uniform(-100, 100, size=(20_000, 1))
    model = PrivateMedian(1.0, 1e-6, beta=1e-9, norm_bound=100.0).fit(X)
    least = np.abs(X - np.median(X)).mean()
    assert least <= -model.score(X) <= least + model.excess_risk_bound_
    assert model.excess_risk_bound_ < 100
    assert np.array_equal(model.distances(X), np.abs(X[:, 0] - model.median_[0]))


def test_labels_are_ignored_as_pipelines_hand_them_over() -> None:
    model = PrivateMedian(norm_bound=1.0).fit(np.zeros((100, 1)), ["any"] * 100)
    assert model.n_samples_seen_ == 100


def test_the_bound_is_in_the_units_of_the_features() -> None:
    near, far = (PrivateMedian(norm_bound=bound).fit(np.zeros((500, 2))) for bound in (1.0, 1000.0))
    assert far.excess_risk_bound_ == pytest.approx(1000 * near.excess_risk_bound_)
