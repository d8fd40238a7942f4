"""scikit-learn's own checks of estimators."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from treering.learn import PrivateLogisticRegression, PrivateMedian, PrivateRidge, PrivateSVC
from treering.learn.base import PrivateEstimator, declared_classes

RICH: dict[str, Any] = {"epsilon": 1e12, "start": 1}
"""scikit-learn's checks have tens of rows: nothing private could be learnt from so few at a sensible epsilon."""


def classes_of(y: Any) -> npt.NDArray[Any]:
    found = np.asarray(y)
    return declared_classes(np.unique(found) if found.dtype.kind in "biuUO" and found.ndim else [0, 1])


def knowing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that knows the classes beforehand, as whoever wrote the check at hand did."""

    @wraps(fit)
    def known(estimator: Any, features: Any, labels: Any = None) -> Any:
        estimator._known = classes_of(labels)
        return fit(estimator, features, labels)

    return known


class LogisticForChecks(PrivateLogisticRegression):
    """Its classes are those of the check at hand."""

    fit = knowing(PrivateLogisticRegression.fit)

    def _declared(self) -> npt.NDArray[Any]:
        known: npt.NDArray[Any] = self._known
        return known


class SVCForChecks(PrivateSVC):
    """Likewise."""

    fit = knowing(PrivateSVC.fit)

    def _declared(self) -> npt.NDArray[Any]:
        known: npt.NDArray[Any] = self._known
        return known


NOISE = "two fits differ by their noise, as they must"
CLASSES = "labels are checked against the declared classes, not for their type"
ECHO = "scikit-learn wants the TypeError of float(), which may show the value; this is a DataError that does not"


def cannot_pass(estimator: PrivateEstimator) -> dict[str, str]:
    """The checks that a private estimator cannot pass, and why."""
    if isinstance(estimator, PrivateMedian):
        return {"check_dtype_object": ECHO}
    common = {"check_dtype_object": ECHO, "check_fit_idempotent": NOISE}
    if isinstance(estimator, PrivateRidge):
        numbers = ("check_regressors_int", "check_regressor_data_not_an_array", "check_supervised_y_2d")
        return common | dict.fromkeys(numbers, NOISE)
    return common | {"check_classifiers_regression_target": CLASSES}


ESTIMATORS: list[PrivateEstimator] = [
    LogisticForChecks(norm_bound=10.0, radius=32.0, **RICH),
    SVCForChecks(norm_bound=10.0, radius=32.0, **RICH),
    PrivateRidge(norm_bound=10.0, label_bound=100.0, **RICH),
    PrivateMedian(norm_bound=10.0, **RICH),
]


def cases() -> list[Any]:
    return [
        case
        for estimator in ESTIMATORS
        for case in estimator_checks_generator(estimator, expected_failed_checks=cannot_pass(estimator), mark="xfail")
    ]


def name(value: Any) -> str:
    if isinstance(value, PrivateEstimator):
        return type(value).__name__
    return str(getattr(value, "func", value).__name__)


@pytest.mark.parametrize(("estimator", "check"), cases(), ids=name)
def test_scikit_learns_check(estimator: Any, check: Any) -> None:
    check(estimator)
