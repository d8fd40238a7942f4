"""The private scikit-learn estimators: two classifiers of two classes, ridge regression, and the geometric median."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin

from treering.arrays import Array, Floats
from treering.boxes.base import Progress
from treering.domain.attribute import Attribute
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, Loss, RobustLogistic, Squared
from treering.errors import ParameterError
from treering.learn.base import LinearEstimator, PrivateEstimator, declared, declared_classes
from treering.params import Number
from treering.trusted.store import Bounds


class _Classifier(ClassifierMixin, LinearEstimator):
    """A classifier of two declared classes; the second in sorted order is the positive one."""

    classes_: Array

    def partial_fit(self, X: Any, y: Any = None, classes: npt.ArrayLike | Attribute | None = None) -> Self:
        """Add rows. The first model is released at ``start`` rows, later ones when the schedule says so.

        ``classes`` may be declared here, at the first call, instead of in the constructor, as in scikit-learn.
        """
        with self._unchanged_if_refused():
            if self._held is None and not self._left_behind:
                self.classes_ = self._declared() if classes is None else declared_classes(classes)
                if self.classes is not None:
                    self._check_declared(self.classes)
            elif classes is not None:
                self._check_declared(classes)
            return super().partial_fit(X, y)

    def fit(self, X: Any, y: Any = None) -> Self:
        """See `PrivateEstimator.fit`."""
        with self._unchanged_if_refused():
            self.classes_ = self._declared()
            return super().fit(X, y)

    def decision_function(self, X: Any) -> Floats:
        """⟨coef, x⟩ + intercept for each row of ``X``: above 0 for the second class."""
        return self._linear(X)

    def predict(self, X: Any) -> Array:
        """The predicted class of each row of ``X``."""
        positive = self._linear(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def _declared(self) -> Array:
        return declared_classes(self.classes)

    def _check_declared(self, classes: npt.ArrayLike | Attribute) -> None:
        if declared_classes(classes).tolist() != self.classes_.tolist():
            raise ParameterError("classes", "must stay the ones that were declared first")

    def _bounds(self) -> Bounds:
        first, second = self.classes_.tolist()
        return Bounds(self._norm(), self._intercept(), classes=(first, second))

    def _present(self, theta: Floats) -> None:
        coefficients, intercept = self._split(theta)
        self.coef_ = coefficients.reshape(1, -1)
        self.intercept_ = np.array([intercept])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class PrivateLogisticRegression(_Classifier):
    """Logistic regression over rows that keep arriving: all models ever released are private together.

    Formal guarantee: as `treering.learn.base.PrivateEstimator`, for the mean of log(1 + e^{−yp}) plus
    ``regularisation``/2·‖θ‖² over the ball of ``radius``, p the prediction and y = ±1. For ``robust=True``, the default
    for ``rows="newest"``, the loss goes on as a straight line where yp < 0 (`treering.RobustLogistic`): a row moves the
    model half as much, so there is half the noise. ``robust=False`` is for coefficients that are log odds.

    ``norm_bound`` and ``classes`` (the two labels, or the attribute of a schema that has them) are public and must be
    declared. ``radius`` bounds predictions:
    |p| ≤ radius for rows within the norm bound; a larger radius can fit more, and needs more rows.
    ``fit_intercept=False`` fixes the intercept at 0. `treering.learn.base.PrivateEstimator` explains the other
    parameters.

    >>> import numpy as np
    >>> features = np.linspace(-1, 1, 100_000).reshape(-1, 1)
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, norm_bound=1.0, classes=("no", "yes"))
    >>> model = model.fit(features, np.where(features[:, 0] > 0, "yes", "no"))
    >>> model.predict([[-0.9], [0.9]]).tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        *,
        beta: Number = 0.05,
        norm_bound: Number | None = None,
        classes: npt.ArrayLike | Attribute | None = None,
        start: int = 1000,
        rows: str = "newest",
        every: Number = 2.0,
        radius: float | None = None,
        regularisation: float = 0.0,
        validation: Number = 0,
        robust: bool = True,
        fit_intercept: bool = True,
        profile: str = "tight",
        method: str = "auto",
        c: Number | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.beta = beta
        self.norm_bound = norm_bound
        self.classes = classes
        self.start = start
        self.rows = rows
        self.every = every
        self.radius = radius
        self.regularisation = regularisation
        self.validation = validation
        self.robust = robust
        self.fit_intercept = fit_intercept
        self.profile = profile
        self.method = method
        self.c = c
        self.progress = progress

    def predict_proba(self, X: Any) -> Floats:
        """The model's probability of each class, for each row of ``X``: that for which the prediction has the least
        expected loss. For the logistic loss it is 1/(1 + e^{−p}) for the second class."""
        predictions, loss = self._linear(X), self._loss()
        second = loss.chances(predictions) if isinstance(loss, RobustLogistic) else expit(predictions)
        return np.column_stack([1 - second, second])

    def _loss(self) -> Loss:
        return RobustLogistic() if self.robust and self._newest() else Logistic()


class PrivateSVC(_Classifier):
    """A linear support vector machine over rows that keep arriving: all models ever released are private together.

    Formal guarantee: as `treering.learn.base.PrivateEstimator`, for the mean of the hinge loss, its kink rounded within
    ``width`` of the margin, plus ``regularisation``/2·‖θ‖², over the ball of ``radius``.

    ``norm_bound`` and ``classes`` (the two labels, or the attribute of a schema that has them) are public and must be
    declared. ``fit_intercept=False`` fixes the
    intercept at 0. `treering.learn.base.PrivateEstimator` explains the other parameters.
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        *,
        beta: Number = 0.05,
        norm_bound: Number | None = None,
        classes: npt.ArrayLike | Attribute | None = None,
        start: int = 1000,
        rows: str = "newest",
        every: Number = 2.0,
        radius: float | None = None,
        regularisation: float = 0.0,
        validation: Number = 0,
        width: float = 0.5,
        fit_intercept: bool = True,
        profile: str = "tight",
        method: str = "auto",
        c: Number | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.beta = beta
        self.norm_bound = norm_bound
        self.classes = classes
        self.start = start
        self.rows = rows
        self.every = every
        self.radius = radius
        self.regularisation = regularisation
        self.validation = validation
        self.width = width
        self.fit_intercept = fit_intercept
        self.profile = profile
        self.method = method
        self.c = c
        self.progress = progress

    def _loss(self) -> Loss:
        return HuberHinge(self.width)


# -- ridge regression --------------------------------------------------------------------------------------------------


class PrivateRidge(RegressorMixin, LinearEstimator):
    """Ridge regression (least squares) over rows that keep arriving: all models ever released are private together.

    Formal guarantee: as `treering.learn.base.PrivateEstimator`, for the mean of ½(prediction − label)² plus the
    regulariser, over the ball of ``radius``, in the units of the labels. For training, labels are divided by
    ``label_bound``: the regulariser is ``regularisation``/2·‖θ‖² of the model θ for labels in [−1, 1].

    ``norm_bound`` and ``label_bound`` (the largest absolute value of a label) are public and must be declared; labels
    beyond the bound are refused. ``fit_intercept=False`` fixes the intercept at 0.
    `treering.learn.base.PrivateEstimator` explains the other parameters.

    >>> import numpy as np
    >>> features = np.linspace(-1, 1, 100_000).reshape(-1, 1)
    >>> model = PrivateRidge(epsilon=1.0, delta=1e-6, norm_bound=1.0, label_bound=10.0)
    >>> model = model.fit(features, 3 + 5 * features[:, 0])
    >>> abs(model.predict([[0.5]]).item() - 5.5) < 3
    True
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        *,
        beta: Number = 0.05,
        norm_bound: Number | None = None,
        label_bound: Number | None = None,
        start: int = 1000,
        rows: str = "newest",
        every: Number = 2.0,
        radius: float | None = None,
        regularisation: float = 0.0,
        validation: Number = 0,
        fit_intercept: bool = True,
        profile: str = "tight",
        method: str = "auto",
        c: Number | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.beta = beta
        self.norm_bound = norm_bound
        self.label_bound = label_bound
        self.start = start
        self.rows = rows
        self.every = every
        self.radius = radius
        self.regularisation = regularisation
        self.validation = validation
        self.fit_intercept = fit_intercept
        self.profile = profile
        self.method = method
        self.c = c
        self.progress = progress

    def predict(self, X: Any) -> Floats:
        """⟨coef, x⟩ + intercept for each row of ``X``."""
        return self._linear(X)

    def _loss(self) -> Loss:
        return Squared()

    def _bounds(self) -> Bounds:
        return Bounds(self._norm(), self._intercept(), label=declared(self.label_bound, "label_bound"))

    def _unit(self) -> float:
        return self._error_unit() ** 2

    def _error_unit(self) -> float:
        return declared(self.label_bound, "label_bound")

    def _present(self, theta: Floats) -> None:
        bound = declared(self.label_bound, "label_bound")
        coefficients, intercept = self._split(theta)
        self.coef_ = coefficients * bound
        self.intercept_ = intercept * bound


# -- the geometric median ----------------------------------------------------------------------------------------------


class PrivateMedian(PrivateEstimator):
    """The geometric median of rows that keep arriving: the point with the least mean distance to all rows.

    In one dimension it is the median.

    Formal guarantee: as `treering.learn.base.PrivateEstimator`, for the mean distance, in the units of the features,
    plus the regulariser. After a release, ``median_`` is the point.

    ``norm_bound`` is public and must be declared: features should be centred by general knowledge, so that it is small.
    `treering.learn.base.PrivateEstimator` explains the other parameters.

    >>> import numpy as np
    >>> ages = np.concatenate([np.full(60_000, 40.0), np.linspace(0, 100, 40_000)]).reshape(-1, 1)
    >>> model = PrivateMedian(epsilon=1.0, delta=1e-6, norm_bound=100.0).fit(ages)
    >>> abs(model.median_.item() - 40) < 10
    True
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        *,
        beta: Number = 0.05,
        norm_bound: Number | None = None,
        start: int = 1000,
        rows: str = "newest",
        every: Number = 2.0,
        radius: float | None = None,
        regularisation: float = 0.0,
        validation: Number = 0,
        profile: str = "tight",
        method: str = "auto",
        c: Number | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.beta = beta
        self.norm_bound = norm_bound
        self.start = start
        self.rows = rows
        self.every = every
        self.radius = radius
        self.regularisation = regularisation
        self.validation = validation
        self.profile = profile
        self.method = method
        self.c = c
        self.progress = progress

    def distances(self, X: Any) -> Floats:
        """The distance of each row of ``X`` from the median."""
        return np.asarray(np.linalg.norm(self._rows_to_predict(X) - self.median_, axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean distance of the rows of ``X`` from the median, larger being better. Only for public rows: the
        result is not private."""
        return -float(self.distances(X).mean())

    def _loss(self) -> Loss:
        return HuberDistance() if self._newest() else Distance()

    def _blur(self) -> float:
        """A rounded distance is at most half of its width below the distance, and never above it."""
        return HuberDistance().width / 2 if self._newest() else 0.0

    def _bounds(self) -> Bounds:
        """The declared norm bound. Labels that a scikit-learn pipeline may pass are ignored."""
        return Bounds(self._norm())

    def _unit(self) -> float:
        return self._norm()

    def _error_unit(self) -> float:
        return self._norm()

    def _present(self, theta: Floats) -> None:
        self.median_ = theta * self._norm()
