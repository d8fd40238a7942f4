"""Base classes of the scikit-learn estimators: sealed rows, models released as they arrive, and pickles without rows.

The bounds that an estimator needs (norms, labels, classes) are public: they are declared before any row is seen, and
never taken from the data. `LinearEstimator` adds linear predictions with an intercept.
"""

from __future__ import annotations

import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils.validation import validate_data

from treering.arrays import Array, Floats
from treering.boxes.erm import Model
from treering.domain.attribute import Attribute
from treering.domain.loss import Distance, HuberHinge, Logistic, Loss, Squared
from treering.errors import GuaranteeError, Halted, ParameterError
from treering.params import Number, exact, whole
from treering.schedulers.epochs import Epoch
from treering.schedulers.ermg import ERMG
from treering.schedulers.ermrings import RADIUS, ERMRings
from treering.schedulers.tested import Error, Quality
from treering.trusted.store import Bounds, GrowingPoints, Samples, features_of
from treering.words import counted

OF_ALL: Final[dict[type[Loss], float]] = {Logistic: 4.0, HuberHinge: 4.0, Squared: 2.0, Distance: 1.0}
"""The default radius for ``rows="all"``: what is proven of all rows, for ever, gets worse with a larger one."""

NEWEST_INTERCEPT: Final = 0.5
"""The weight of the intercept's coordinate for ``rows="newest"``: it leaves the features four fifths of a row's square,
where a weight of 1 leaves half, and less noise to what is learnt of them."""


@dataclass(slots=True, repr=False)
class _Held:
    """The rows, which stay in this process, and their learner."""

    points: GrowingPoints
    learner: ERMG | ERMRings
    parameters: dict[str, Any]
    """The estimator's parameters at its first rows: the promise was made for these."""
    waiting: str = ""
    """Why no model could be released yet; empty if one was."""


class PrivateEstimator(BaseEstimator, ABC):
    """An estimator whose rows are sealed, and whose models are private.

    Formal guarantee. *Privacy*: everything that the estimator makes public from one `fit` to the next — all models of
    all `partial_fit` — is together (epsilon, delta)-DP, for rows that differ in one of them, features and label
    replaced. Proof: rows are opened in ``trusted/learning/points.py`` alone, which makes each of them an entry, by
    declared constants; entries live in `GrowingPoints`, which only the learner's gate reads, under one budget;
    attributes are computed from what it released.
    The number of rows, and when a model is released, are public. Each `fit` makes a promise of its own: rows that are
    fitted twice, as a search over parameters does, are protected by the sum: a grid of k settings with f folds makes
    k·(f−1) promises about each row, and one more for the last fit.
    *Accuracy*: with probability at least 1 − beta, at all times, the mean loss of the released model is within
    ``excess_risk_bound_`` of the least that any model in the ball has: over the rows that the model was learnt from for
    ``rows="newest"``, over all rows so far for ``rows="all"``.

    Bounds are public and must be declared. If a row is refused, the error names its position, and no row of the call is
    taken in.

    Parameters of all estimators:

    - ``epsilon``, ``delta``: the privacy promise for all models of one `fit` and the `partial_fit` calls after it
    - ``beta``: the probability that ``excess_risk_bound_`` is ever wrong
    - ``norm_bound``: the L2 norm that no row of features is meant to exceed; longer rows are scaled down to it
    - ``start``: the number of rows at which `partial_fit` releases the first model
    - ``rows="newest"``: a model is learnt from the rows that came since the one before, from which it starts, with the
      whole budget, and costs those rows only (`treering.ERMRings`). It minimises the risk on the newest rows and
      follows a drift. ``rows="all"``: a model is about all rows that ever came, and all models share one budget
      (`treering.ERMG`, the paper's)
    - ``every``: for ``rows="newest"``, the growth of the number of rows from one model to the next
    - ``radius``: the models are those with ‖θ‖ ≤ radius, for features scaled to norm at most 1; None: one that suits
      the loss
    - ``regularisation``: the weight λ of λ/2·‖θ‖² in the objective
    - ``validation``: for ``rows="newest"``, the part of each ring's rows, below ½, that is held out, and tells how good
      models are: ``validation_``. 0, the default: none, and models learn from all rows. At 0.1 their noise is a ninth
      more
    - ``progress``: called at each step of a model with the part that is done and a text, both public
    - ``profile``, ``method``, ``c``: for ``rows="all"``, as for `treering.ERMG`

    Attributes after a release: ``excess_risk_bound_``, ``validation_`` (see `treering.ERMRings.quality`; None if no row
    was held out), ``epochs_`` (one for each run, failed ones included), ``spent_`` (in rho, or in epsilon for
    delta = 0), ``n_samples_seen_``, ``next_release_`` (the number of rows at which the next model is released),
    ``n_features_in_``, and ``feature_names_in_`` for data frames.

    A pickled or copied estimator has the model and the public attributes but not the rows, so it cannot learn on.
    """

    _held: _Held | None = None
    _left_behind = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Begin anew with these rows, and release a model at once, even if there are fewer than ``start``.

        With few rows the model is mostly noise: ``excess_risk_bound_`` says what is proven. With ``rows="all"`` only
        the schedule's first part of the budget is spent; the rest is for the rows to come. A fit that raises changes
        nothing.

        ``X`` has one row of features for each sample, ``y`` its label.
        """
        if _within_a_search():
            warnings.warn(SEARCHING, stacklevel=2)
        with self._unchanged_if_refused():
            held = self._take(None, X, y)
            held.learner.update()
            self._held, self._left_behind = held, False
            self._show(held, held.learner.model)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows. The first model is released at ``start`` rows, later ones when the schedule says so."""
        if self._left_behind:
            raise Halted("the rows of this estimator stayed in the process that took them in: it can predict, not grow")
        with self._unchanged_if_refused():
            self._held = held = self._take(self._held, X, y)
        self._show(held, self._due_model(held))
        return self

    # -- what each estimator defines ----------------------------------------------------------------------------------

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss that is minimised."""

    @abstractmethod
    def _bounds(self) -> Bounds:
        """The declared bounds of rows."""

    @abstractmethod
    def _present(self, theta: Floats) -> None:
        """Set the fitted attributes, in the units of the caller's data, from the model θ."""

    def _unit(self) -> float:
        """A loss of 1, in the units of the caller's data."""
        return 1.0

    def _error_unit(self) -> float:
        """An error of 1, in the units of the caller's data."""
        return 1.0

    def _in_units(self, found: Quality | Error | None) -> Quality | Error | None:
        if not isinstance(found, Error):
            return found
        unit = self._error_unit()
        return replace(found, value=found.value * unit, margin=found.margin * unit, most=found.most * unit)

    def _blur(self) -> float:
        """How much the excess risk may be above that of the loss which is minimised."""
        return 0.0

    # -- inside -------------------------------------------------------------------------------------------------------

    def _take(self, held: _Held | None, X: Any, y: Any) -> _Held:
        """Add all rows or none, to ``held`` or, if that is None, to a new collection; returns the collection."""
        whole(self.start, "start")
        bounds = self._bounds()
        if held is not None and not _same(self.get_params(), held.parameters):
            raise ParameterError(
                "parameters",
                "have changed since the first rows came, for which the promise was made: use fit, or a clone",
            )
        rows = Samples(X, y, bounds)
        if rows.column:
            message = "A column-vector y was passed when a 1d array was expected. Use y.ravel()"
            warnings.warn(message, DataConversionWarning, stacklevel=4)
        # scikit-learn checks only the number of columns and their names here, not the values.
        validate_data(self, X, reset=held is None, skip_check_array=True)
        if held is None:
            held = self._begin(rows.dimension)
        held.points.append_rows(rows)
        return held

    def _begin(self, dimension: int) -> _Held:
        loss = self._loss()
        points = GrowingPoints(dimension, loss.labels)
        learn = self._by_rings if self._newest() else self._of_all
        return _Held(points, learn(points, loss), self.get_params())

    def _newest(self) -> bool:
        """Whether models are learnt from the newest rows."""
        if self.rows not in ("newest", "all"):
            raise ParameterError("rows", f'must be "newest" or "all", not {self.rows!r}')
        return bool(self.rows == "newest")

    def _by_rings(self, points: GrowingPoints, loss: Loss) -> ERMRings:
        if (self.profile, self.method, self.c) != ("tight", "auto", None):
            raise ParameterError("rows", "must be \"all\" for a profile, a method or c of one's own: they are ERMG's")
        return ERMRings(
            *(points, loss, self.epsilon, self.delta, self.beta),
            every=self.every,
            radius=self.radius,
            regularisation=self.regularisation,
            validation=self.validation,
            progress=self.progress,
        )

    def _of_all(self, points: GrowingPoints, loss: Loss) -> ERMG:
        if self.validation:
            raise ParameterError("validation", 'must be 0 for rows="all": no row of theirs is held out')
        return ERMG(
            *(points, loss, self.epsilon, self.delta, self.beta, self.profile),
            c=self.c,
            progress=self.progress,
            radius=OF_ALL.get(type(loss), RADIUS) if self.radius is None else self.radius,
            regularisation=self.regularisation,
            method=self.method,
        )

    def _due_model(self, held: _Held) -> Model | None:
        """The latest model, trained first if one is due; None if there is none yet.

        A `GuaranteeError` is stored, not raised: the rows are in already, and a caller who sees an error would pass
        them again.
        """
        if held.points.size < self.start and not held.learner.epochs:
            return None
        try:
            held.learner.update()
            return held.learner.model
        except GuaranteeError as refusal:
            held.waiting = str(refusal)
            return None

    def _show(self, held: _Held, model: Model | None) -> None:
        """Set the public attributes."""
        learner = held.learner
        self.n_samples_seen_ = held.points.size
        self.epochs_: list[Epoch] = list(learner.epochs)
        self.spent_ = learner.spent
        self.next_release_ = learner.next_epoch or max(self.start, held.points.size)
        if model is not None:
            held.waiting = ""
            self.excess_risk_bound_ = (learner.excess_risk_bound + self._blur()) * self._unit()
            self.validation_ = self._in_units(learner.quality if isinstance(learner, ERMRings) else None)
            self._present(np.array(model.theta))

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _norm(self) -> float:
        return declared(self.norm_bound, "norm_bound")

    def _check_released(self) -> None:
        if self.__sklearn_is_fitted__():
            return
        if self._held is None:
            advice = "call fit, or partial_fit until the first model is released"
        else:
            advice = (
                self._held.waiting
                or f"{counted(self.n_samples_seen_, 'row')} of the {self.start:,} that the first model waits for are in"
            )
        raise NotFittedError(f"this {type(self).__name__} instance is not fitted yet: {advice}")

    def _rows_to_predict(self, X: Any) -> Floats:
        """The features of rows that the caller wants predictions for; these are not training rows."""
        self._check_released()
        features = features_of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return features

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "excess_risk_bound_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state["progress"] = None  # A function of the caller's own, and of no use where no model is trained.
        if state.pop("_held", None) is not None:
            state["_left_behind"] = True
        return state


SEARCHING: Final = (
    "each fit of a search or a cross-validation makes a promise of its own about the same rows: five fits of epsilon 1 "
    "protect them by an epsilon of 5. Choose parameters on public data, or divide epsilon by the number of fits"
)


REPEATING: Final = tuple(
    f"sklearn.{each}" for each in ("model_selection", "calibration", "ensemble", "feature_selection", "multiclass")
)
"""The modules of scikit-learn that fit copies of an estimator to the same rows."""


def _within_a_search() -> bool:
    """Whether scikit-learn is fitting copies of an estimator: GridSearchCV, cross_val_score, bagging and the like."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(REPEATING):
            return True
        frame = frame.f_back
    return False


def _same(now: dict[str, Any], then: dict[str, Any]) -> bool:
    return all(np.array_equal(now[name], value) for name, value in then.items() if name != "progress")


# -- declared bounds ---------------------------------------------------------------------------------------------------


_HOW: Final = {
    "norm_bound": "the length (L2 norm) that no row of features is meant to exceed, such as norm_bound=10.0; longer "
    "rows are scaled down to it",
    "label_bound": "the size that no label is meant to exceed, such as label_bound=100.0",
    "classes": 'the two labels, such as classes=("on time", "late")',
}
_NOT_FROM_DATA: Final = (
    "It is public, so it must come from general knowledge: one taken from the rows would tell about them, outside of "
    "any privacy guarantee"
)


def declared(value: Number | None, name: str) -> float:
    """A public bound as a float; raises if it was not declared."""
    if value is None:
        raise ParameterError(name, f"must be declared: {_HOW[name]}. {_NOT_FROM_DATA}")
    return float(exact(value, name))


def declared_classes(classes: npt.ArrayLike | Attribute | None) -> Array:
    """The two declared labels, sorted; the second is the positive class. An attribute's are its values."""
    if classes is None:
        raise ParameterError("classes", f"must be declared: {_HOW['classes']}. {_NOT_FROM_DATA}")
    values = classes
    if isinstance(classes, Attribute):
        values = np.array([classes.regular_value(code) for code in range(classes.regular)], dtype=object)
    given = np.asarray(values, dtype=object)
    strings = [isinstance(label, str) for label in given.flat]
    numbers = [isinstance(label, Real | np.bool_) and math.isfinite(label) for label in given.flat]
    if given.ndim != 1 or not (all(strings) or all(numbers)):
        raise ParameterError("classes", "must be two numbers or two strings")
    found = np.unique(np.asarray(given.tolist()))
    if len(found) != 2 or len(given) != 2:
        raise ParameterError(
            "classes",
            f"must be two different labels, not {len(found)} class(es). Only binary classification is supported: one "
            "against the rest would need an estimator, and a part of the budget, for each class",
        )
    return found


# -- linear predictions ------------------------------------------------------------------------------------------------


class LinearEstimator(PrivateEstimator):
    """An estimator with predictions ⟨coef, x⟩ + intercept.

    A row x of norm at most B = ``norm_bound`` becomes the entry (x/B, c)/√(1+c²), of norm at most 1, with c = ½ for
    ``rows="newest"`` and 1 for ``rows="all"`` (x/B without an intercept), and a model θ = (w, b) of norm at most
    ``radius`` predicts (⟨w, x⟩/B + c·b)/√(1+c²). In training, longer rows are scaled down to norm B; predictions are
    linear in all rows. ``fit_intercept=False`` fixes the intercept at 0.
    """

    def _intercept(self) -> float:
        """The weight of the intercept's coordinate."""
        return 0.0 if not self.fit_intercept else NEWEST_INTERCEPT if self._newest() else 1.0

    def _split(self, theta: Floats) -> tuple[Floats, float]:
        """Coefficients and intercept, in the units of the features."""
        bounds = Bounds(self._norm(), self._intercept())
        if not self.fit_intercept:
            return theta / bounds.norm, 0.0
        return theta[:-1] * (bounds.factor / bounds.norm), float(theta[-1]) * bounds.intercept * bounds.factor

    def _linear(self, X: Any) -> Floats:
        features = self._rows_to_predict(X)
        return np.asarray(features @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0])
