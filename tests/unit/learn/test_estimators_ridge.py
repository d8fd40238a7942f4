from __future__ import annotations

import numpy as np
import pytest

from support.estimators import RICH, easy
from treering.errors import DataError, ParameterError
from treering.learn import PrivateRidge


def test_a_line_is_found() -> None:
    X, numbers = easy(20_000)
    model = PrivateRidge(**RICH, norm_bound=10.0, label_bound=30.0).fit(X, numbers)
    assert model.coef_.shape == (2,)
    assert np.allclose(model.coef_, [2, -1], atol=0.1)
    assert model.intercept_ == pytest.approx(3, abs=0.3)
    assert np.array_equal(model.predict(X), X @ model.coef_ + model.intercept_)
    assert model.score(X, numbers) > 0.99


def test_the_excess_risk_is_in_the_units_of_the_labels() -> None:
    X, numbers = easy(2000)
    one = PrivateRidge(1.0, 1e-6, norm_bound=10.0, label_bound=30.0).fit(X, numbers)
    ten = PrivateRidge(1.0, 1e-6, norm_bound=10.0, label_bound=300.0).fit(X, 10 * numbers)
    assert ten.excess_risk_bound_ == pytest.approx(100 * one.excess_risk_bound_)


def test_the_mean_squared_error_is_within_the_bound_of_the_least() -> None:
    """With beta = 1e-9 this never fails by chance: the line lies in the ball, so the least risk is 0."""
    X, numbers = easy(50_000)
    model = PrivateRidge(1.0, 1e-6, beta=1e-9, norm_bound=10.0, label_bound=30.0, radius=1.5).fit(X, numbers)
    risk = np.mean(np.square(model.predict(X) - numbers)) / 2
    assert np.hypot(np.hypot(2 * 10, 10), 3) / 30 * np.sqrt(2) <= 1.5
    assert risk <= model.excess_risk_bound_ < np.mean(np.square(numbers)) / 2 * 20


@pytest.mark.parametrize("bad", [30.5, -1e9, np.nan, np.inf, None, "secret"])
def test_a_label_beyond_the_bound_is_refused(bad: object) -> None:
    X, numbers = easy(50)
    y = numbers.astype(object)
    y[9] = bad
    model = PrivateRidge(norm_bound=10.0, label_bound=30.0)
    with pytest.raises(DataError, match="^y") as refusal:
        model.partial_fit(X, y)
    assert str(bad) not in str(refusal.value) or bad in (None, np.nan, np.inf)
    assert not hasattr(model, "n_samples_seen_")


def test_the_bound_on_labels_must_be_declared() -> None:
    X, numbers = easy(50)
    with pytest.raises(ParameterError, match="label_bound must be declared: the size"):
        PrivateRidge(norm_bound=10.0).fit(X, numbers)
