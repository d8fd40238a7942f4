"""What all four estimators have in common: growth, promises, pickles."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from support.estimators import easy, estimators, labels_for
from treering.budget.promise import Promise
from treering.domain.problem import FEATURE_UNIT, on_grid
from treering.errors import DataError, GuaranteeError, Halted, ParameterError
from treering.learn import PrivateLogisticRegression, PrivateMedian, PrivateRidge
from treering.learn.base import PrivateEstimator
from treering.schedulers.ermrings import ERMRings

every = pytest.mark.parametrize("estimator", estimators(), ids=lambda each: type(each).__name__)
PUBLIC = ("excess_risk_bound_", "epochs_", "spent_", "n_samples_seen_", "next_release_", "n_features_in_")


def model_of(estimator: PrivateEstimator) -> list[float]:
    if isinstance(estimator, PrivateMedian):
        return list(estimator.median_)
    return [*np.ravel(estimator.coef_), *np.ravel(estimator.intercept_)]


def ask(estimator: PrivateEstimator, X: Any) -> list[Any]:
    said = estimator.distances(X) if isinstance(estimator, PrivateMedian) else estimator.predict(X)
    return list(said.tolist())


@every
def test_the_first_model_comes_at_start_and_later_ones_by_the_schedule(estimator: PrivateEstimator) -> None:
    X, numbers = easy(4000)
    y = labels_for(estimator, numbers)
    model = clone(estimator).set_params(epsilon=1.0)
    models, seen = [], []
    for begin in range(0, 4000, 50):
        rows = slice(begin, begin + 50)
        assert model.partial_fit(X[rows], None if y is None else y[rows]) is model
        seen.append(len(model.epochs_))
        if begin == 0:
            with pytest.raises(NotFittedError, match="50 rows of the 100 that the first model waits for are in"):
                ask(model, X)
        else:
            models.append(tuple(model_of(model)))
    assert seen[0] == 0
    assert seen[1] == 1
    assert seen == sorted(seen)
    # Not at every call: that would be a schedule of another kind.
    assert 1 < len(set(models)) <= seen[-1] < len(models)
    assert model.n_samples_seen_ == 4000 < model.next_release_


def lives(estimator: PrivateEstimator, **given: Any) -> list[PrivateEstimator]:
    """The estimator, with copies of its public part, after each of a hundred calls with thirty rows."""
    X, numbers = easy(3000)
    y = labels_for(estimator, numbers)
    model = clone(estimator).set_params(epsilon=1.0, delta=1e-6, **given)
    shown = []
    for begin in range(0, 3000, 30):
        rows = slice(begin, begin + 30)
        shown.append(copy.copy(model.partial_fit(X[rows], None if y is None else y[rows])))
    return [*shown, model]


@every
def test_models_of_all_rows_share_one_promise(estimator: PrivateEstimator) -> None:
    seen = lives(estimator, rows="all")
    spent = [each.spent_ for each in seen]
    assert spent == sorted(spent)
    assert 0 < spent[-1] <= float(Promise(1.0, 1e-6).budget.total)
    assert sum(epoch.rho or 0.0 for epoch in seen[-1].epochs_) == pytest.approx(spent[-1])


@every
def test_each_row_pays_for_one_model_of_the_newest_rows(estimator: PrivateEstimator) -> None:
    total = float(Promise(1.0, 1e-6).budget.total)
    model = lives(estimator)[-1]
    assert model.spent_ == pytest.approx(total, rel=1e-9)
    assert model.spent_ <= total
    assert [epoch.size for epoch in model.epochs_] == [120, 240, 480, 960, 1920]
    assert [epoch.rho for epoch in model.epochs_] == [pytest.approx(total)] * 5
    assert model.next_release_ == 3840
    assert model._held is not None
    left = model._held.learner.left
    assert max(left(1), left(1920)) < 1e-9 * total < left(1921) == left(10**9) == total


@every
def test_models_may_come_more_often(estimator: PrivateEstimator) -> None:
    model = lives(estimator, every=1.5)[-1]
    assert [epoch.size for epoch in model.epochs_] == [120, 180, 270, 420, 630, 960, 1440, 2160]


@every
def test_fit_begins_anew_and_releases_at_once(estimator: PrivateEstimator) -> None:
    X, numbers = easy(90)
    y = labels_for(estimator, numbers)
    model = clone(estimator).fit(X, y)
    assert model.n_samples_seen_ == 90 < model.start
    assert len(model.epochs_) == 1
    first = model.spent_
    assert model.fit(X, y).n_samples_seen_ == 90
    assert model.spent_ == first
    assert model.partial_fit(X, y).n_samples_seen_ == 180


@every
def test_a_pickle_or_a_copy_has_the_model_and_no_row(estimator: PrivateEstimator) -> None:
    X, numbers = easy(600, seed=1)
    y = labels_for(estimator, numbers)
    model = clone(estimator).fit(X, y)
    saved = pickle.dumps(model)
    assert len(saved) < 4000
    entries = on_grid(X / 10) / 1.0
    for kept in (X, X / 10, entries, entries / FEATURE_UNIT, numbers, numbers / 30):
        values = np.unique(kept[kept != 0])
        assert len(values) > 500
        assert not any(value.tobytes() in saved for value in values)
    for again in (pickle.loads(saved), copy.deepcopy(model), copy.copy(model)):
        assert ask(again, X) == ask(model, X)
        assert all(getattr(again, name) == getattr(model, name) for name in PUBLIC)
        with pytest.raises(Halted, match="stayed in the process"):
            again.partial_fit(X, y)
        assert again.fit(X, y).partial_fit(X, y).n_samples_seen_ == 1200
    assert model.partial_fit(X, y).n_samples_seen_ == 1200


def test_an_estimator_without_rows_can_be_pickled_and_grow() -> None:
    model = pickle.loads(pickle.dumps(PrivateMedian(norm_bound=1.0)))
    assert model.partial_fit([[0.5]]).n_samples_seen_ == 1


@every
def test_nothing_that_is_printed_shows_rows(estimator: PrivateEstimator) -> None:
    X, numbers = easy(200, seed=2)
    model = clone(estimator).fit(X, labels_for(estimator, numbers))
    shown = repr(model) + str(vars(model)) + repr(model._held)
    assert not any(str(value)[:8] in shown for value in X.flat)


@every
def test_a_clone_has_the_parameters_and_nothing_else(estimator: PrivateEstimator) -> None:
    X, numbers = easy(200)
    model = clone(estimator).fit(X, labels_for(estimator, numbers))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="call fit"):
        ask(fresh, X)


@every
def test_parameters_may_not_change_under_a_promise(estimator: PrivateEstimator) -> None:
    X, numbers = easy(200)
    y = labels_for(estimator, numbers)
    model = clone(estimator).fit(X, y).set_params(epsilon=2e6)
    with pytest.raises(ParameterError, match="have changed"):
        model.partial_fit(X, y)
    assert model.fit(X, y).n_samples_seen_ == 200


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_row_is_refused_by_position_and_nothing_changes(estimator: PrivateEstimator, bad: float) -> None:
    X, numbers = easy(200)
    y = labels_for(estimator, numbers)
    model = clone(estimator).fit(X, y)
    before = (model_of(model), model.n_samples_seen_, model.spent_)
    wrong = X.copy()
    wrong[17, 1] = bad
    for method in (model.partial_fit, model.fit):
        with pytest.raises(DataError, match="missing, NaN or infinity") as refusal:
            method(wrong, y)
        assert refusal.value.row == 17
        assert (model_of(model), model.n_samples_seen_, model.spent_) == before
    assert model.partial_fit(X, y).n_samples_seen_ == 400


@every
def test_refusals_do_not_repeat_values(estimator: PrivateEstimator) -> None:
    X, numbers = easy(50)
    y = labels_for(estimator, numbers)
    secret = 123456789.0
    text = X.astype(object)
    text[3, 0] = "secret 123456789"
    for wrong in (text, np.full((50, 2), secret + 1j), np.full(50, secret), np.full((50, 2, 2), secret)):
        with pytest.raises(DataError) as refusal:
            clone(estimator).fit(wrong, y)
        assert "123456789" not in str(refusal.value)


@every
def test_the_bound_on_features_must_be_declared(estimator: PrivateEstimator) -> None:
    X, numbers = easy(50)
    with pytest.raises(ParameterError, match="norm_bound must be declared: the length .* general knowledge"):
        clone(estimator).set_params(norm_bound=None).fit(X, labels_for(estimator, numbers))


@every
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("norm_bound", 0.0), ("norm_bound", np.nan), ("start", 0), ("radius", -1.0), ("beta", 2.0)],
        *[("epsilon", 0.0), ("rows", "old"), ("rows", None), ("every", 1.0), ("every", 0.5), ("every", "2")],
    ],
)
def test_a_parameter_that_cannot_be_is_refused_when_rows_come(
    estimator: PrivateEstimator, name: str, value: object
) -> None:
    X, numbers = easy(50)
    model = clone(estimator).set_params(**{name: value})
    with pytest.raises(ParameterError) as refusal:
        model.partial_fit(X, labels_for(estimator, numbers))
    assert refusal.value.parameter == name
    assert not hasattr(model, "n_features_in_")


@every
@pytest.mark.parametrize(("name", "value"), [("profile", "loose"), ("method", "guess"), ("c", 0.1)])
def test_what_belongs_to_models_of_all_rows_is_refused_for_the_newest(
    estimator: PrivateEstimator, name: str, value: object
) -> None:
    X, numbers = easy(50)
    for rows, parameter in (("newest", "rows"), ("all", name)):
        with pytest.raises(ParameterError) as refusal:
            clone(estimator).set_params(rows=rows, **{name: value}).partial_fit(X, labels_for(estimator, numbers))
        assert refusal.value.parameter == parameter


@every
def test_rows_of_another_width_are_refused(estimator: PrivateEstimator) -> None:
    X, numbers = easy(200)
    y = labels_for(estimator, numbers)
    model = clone(estimator).fit(X, y)
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="expecting 2 features"):
        ask(model, X[:, :1])
    assert model.n_samples_seen_ == 200


@every
def test_what_is_kept_is_what_the_declared_bounds_make_of_rows(estimator: PrivateEstimator) -> None:
    X, numbers = easy(200)
    y = labels_for(estimator, numbers)
    for rows, intercept in (("newest", 0.5), ("all", 1.0)):
        model = clone(estimator).set_params(norm_bound=5.0, rows=rows).fit(X, y)
        assert model._held is not None
        kept = model._held.points._points.entries().grid
        scaled = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 5.0)
        if not isinstance(estimator, PrivateMedian):
            scaled = np.column_stack([scaled, np.full(200, intercept)]) / np.sqrt(1 + intercept**2)
        assert np.allclose(kept / FEATURE_UNIT, scaled, atol=2 / FEATURE_UNIT)


@every
def test_it_works_at_the_end_of_a_pipeline(estimator: PrivateEstimator) -> None:
    X, numbers = easy(400)
    y = labels_for(estimator, numbers)
    public = FunctionTransformer(lambda rows: rows * 100)
    inside = clone(estimator).set_params(norm_bound=1000.0)
    pipeline = make_pipeline(public, inside).fit(X, y)
    assert ask(inside, X * 100) == (ask(inside, public.transform(X)) if y is None else pipeline.predict(X).tolist())


def test_the_names_of_columns_are_kept() -> None:
    X, numbers = easy(200)
    frame = pandas.DataFrame(X, columns=["east", "north"])
    model = PrivateRidge(norm_bound=10.0, label_bound=30.0).fit(frame, numbers)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"north": "south"}), numbers)
    assert model.n_samples_seen_ == 200


def test_a_loss_that_pure_privacy_cannot_minimise_is_refused_with_advice() -> None:
    X = np.zeros((200, 5))
    with pytest.raises(Exception, match="delta"):
        PrivateMedian(epsilon=1.0, delta=0.0, norm_bound=1.0).fit(X)


def test_pure_privacy_counts_epsilon() -> None:
    X, numbers = easy(2000)
    model = PrivateLogisticRegression(1.0, 0.0, norm_bound=10.0, classes=(False, True)).fit(X, numbers > 0)
    assert model.epochs_[0].rho is None
    assert model.epochs_[0].epsilon == model.spent_
    assert 0 < model.spent_ <= 1


@every
def test_a_release_that_cannot_be_is_waited_for(estimator: PrivateEstimator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are in are in: partial_fit does not raise, and predicting says why. A fit has nothing else to give."""
    X, numbers = easy(200)
    y = labels_for(estimator, numbers)
    waiting, fitted = clone(estimator), clone(estimator).fit(X, y)
    before = (model_of(fitted), fitted.spent_)

    def refuse(_: ERMRings) -> None:
        raise GuaranteeError("nothing can be promised")

    with monkeypatch.context() as patched:
        patched.setattr(ERMRings, "update", refuse)
        assert waiting.partial_fit(X, y).n_samples_seen_ == 200
        with pytest.raises(NotFittedError, match="nothing can be promised"):
            ask(waiting, X)
        with pytest.raises(GuaranteeError, match="nothing can be promised"):
            fitted.fit(X, y)
        assert (model_of(fitted), fitted.spent_) == before
    assert waiting.partial_fit(X, y).epochs_[0].size == 400
    assert len(ask(waiting, X)) == 200


def test_scikit_learn_is_loaded_on_demand_and_asked_for_by_name() -> None:
    light = "import sys, treering.learn; dir(treering.learn); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", light], check=True)
    without = "import sys; sys.modules['sklearn'] = None; import treering.learn; treering.learn.PrivateRidge"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'treering[learn]'" in done.stderr


def test_a_search_over_parameters_is_warned_of() -> None:
    """Every fit spends on the same rows. A fit alone warns of nothing: the tests turn warnings into errors."""
    X, y = easy(200)
    ridge = PrivateRidge(label_bound=30.0, norm_bound=10.0, epsilon=1e6, delta=1e-6, beta=1e-9)
    with pytest.warns(UserWarning, match="makes a promise of its own about the same rows"):
        GridSearchCV(ridge, {"radius": [1.0, 4.0]}, cv=2).fit(X, y)
    with pytest.warns(UserWarning, match="divide epsilon by the number of fits"):
        cross_val_score(ridge, X, y, cv=2)
    ridge.fit(X, y)
