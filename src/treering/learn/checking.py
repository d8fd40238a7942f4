"""Arrays handed to an estimator, checked. A refusal says where, never what; scikit-learn's own may print rows."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning

from treering.budget.exact import Number, exact
from treering.domain.loss import Floats
from treering.errors import DataError, ParameterError

_HOW: Final = {
    "norm_bound": "the length (L2 norm) that no row of features is meant to exceed, such as norm_bound=10.0; longer "
    "rows are scaled down to it",
    "label_bound": "the size that no label is meant to exceed, such as label_bound=100.0",
    "classes": 'the two labels, such as classes=("on time", "late")',
}


def declared(value: Number | None, name: str) -> float:
    """A public bound, which must have been given."""
    if value is None:
        raise ParameterError(name, f"must be declared: {_HOW[name]}. {_NOT_FROM_DATA}")
    return float(exact(value, name))


def declared_classes(classes: npt.ArrayLike | None) -> npt.NDArray[Any]:
    """Two public labels, sorted; the second is the positive one."""
    if classes is None:
        raise ParameterError("classes", f"must be declared: {_HOW['classes']}. {_NOT_FROM_DATA}")
    given = np.asarray(classes, dtype=object)
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


_NOT_FROM_DATA: Final = (
    "It is public, so it must come from general knowledge: one taken from the rows would tell about them, outside of "
    "any privacy guarantee"
)


def features_of(X: Any) -> Floats:
    """Rows of finite numbers."""
    if issparse(X):
        raise DataError("sparse features are not supported: make them dense")
    array = _array(X, "X")
    if array.ndim != 2:
        raise DataError(
            f"features must be rows: a 2D array, not {array.ndim}D. Reshape your data with .reshape(-1, 1) if it is "
            "one feature, or .reshape(1, -1) if it is one row"
        )
    rows, columns = array.shape
    if rows == 0:
        raise DataError(f"X has 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    if columns == 0:
        raise DataError(f"X has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    numbers = _numbers(array, "X")
    bad = np.flatnonzero(~np.isfinite(numbers).all(axis=1))
    if len(bad):
        raise DataError("X: a feature is missing, NaN or infinity", row=int(bad[0]))
    return numbers


def labels_of(y: Any, rows: int) -> npt.NDArray[Any]:
    """One label for each row."""
    if y is None:
        raise DataError("this estimator requires y to be passed, but the target y is None")
    if issparse(y):
        raise DataError("sparse labels are not supported: make them dense")
    array = _array(y, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected. Use y.ravel()"
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"y should be a 1d array, not one of shape {array.shape}")
    if len(array) != rows:
        raise DataError(f"{rows:,} rows of features need as many labels, not {len(array):,}")
    return array


def numbers_of(y: Any, rows: int, bound: float) -> Floats:
    """One number for each row, at most ``bound`` in size."""
    numbers = _numbers(labels_of(y, rows), "y")
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise DataError("y: a label is missing, NaN or infinity", row=int(bad[0]))
    bad = np.flatnonzero(np.abs(numbers) > bound)
    if len(bad):
        raise DataError(
            "y: a label is larger than the declared label_bound; clip to it, or declare more", row=int(bad[0])
        )
    return numbers


def signs_of(y: Any, rows: int, classes: npt.NDArray[Any]) -> Floats:
    """−1 for a label of the first class, 1 for the second; others are refused."""
    labels = labels_of(y, rows)
    first, second = (_equal(labels, label) for label in classes.tolist())
    bad = np.flatnonzero(~(first | second))
    if len(bad):
        raise DataError("y: a label (or NaN) is not one of the two declared classes", row=int(bad[0]))
    return np.where(second, 1.0, -1.0)


def _equal(labels: npt.NDArray[Any], label: Any) -> npt.NDArray[np.bool_]:
    same = labels == label
    return np.asarray(same, dtype=bool) if isinstance(same, np.ndarray) else np.zeros(len(labels), dtype=bool)


def _array(given: Any, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be an array: rows of the same length") from None
    if array.dtype.kind == "c":
        raise DataError(f"{name}: Complex data not supported")
    return array


def _numbers(array: npt.NDArray[Any], name: str) -> Floats:
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise DataError(f"{name} must be numbers")
