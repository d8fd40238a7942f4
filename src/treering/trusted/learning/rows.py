"""PRIVATE: rows as they are handed over for learning, checked, and brought into the unit ball by declared bounds.

A refusal says where, never what; whatever a library raises may quote a value, so it is neither passed on nor chained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treering.arrays import Array, Flags, Floats
from treering.domain.loss import Labels
from treering.errors import DataError
from treering.trusted.sealed import Sealed

HALF: Final = math.sqrt(0.5)
"""What features and intercept are multiplied by, so that both together have norm at most 1."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is declared before any row is seen: public.

    ``norm``: the length that no row of features is meant to exceed. ``intercept``: whether an entry gets a coordinate
    that is the same for all. Labels are one of two ``classes`` or numbers of size at most ``label``, or there are none.
    """

    norm: float = 1.0
    intercept: bool = False
    classes: tuple[Any, Any] | None = None
    label: float | None = None

    @property
    def label_kind(self) -> Labels:
        """What a loss sees of the labels."""
        if self.classes is not None:
            return "signs"
        return "none" if self.label is None else "numbers"


class Rows(Sealed):
    """Rows that passed all checks, as entries: features in the unit ball, and labels as a loss takes them.

    Formal guarantee: there are as many entries as rows, and each is a function of its row and of the public bounds
    alone, so a row replaced is an entry replaced. A row x of norm at most B becomes x/B, or (x/B, 1)/√2 with an
    intercept; a longer one is scaled down to norm B before. Labels become −1 for the first class and 1 for the second,
    or are divided by their bound; where there are none, ``labels`` are not looked at.

    Public: the number of rows, how many numbers an entry has, the kind of labels and whether they came as a column.

    >>> bounds = Bounds(norm=10.0, intercept=True, classes=("late", "on time"))
    >>> rows = Rows([[3.0, 4.0]], ["late"], bounds)
    >>> rows, rows.size, rows.dimension, rows.label_kind
    (<Rows>, 1, 3, 'signs')
    """

    __slots__ = ("column", "dimension", "entries", "label_kind", "labels", "size")

    def __init__(self, features: Any, labels: Any, bounds: Bounds, *, least: int = 1) -> None:
        given = features_of(features, least)
        self.size = len(given)
        self.entries: Floats = _in_ball(given, bounds)
        """PRIVATE."""
        self.dimension = int(self.entries.shape[1])
        self.label_kind = bounds.label_kind
        self.labels: Floats | None = None
        """PRIVATE."""
        self.column = False
        if self.label_kind != "none":
            each, self.column = _one_each(labels, self.size)
            self.labels = _labels(each, bounds)


# -- features ----------------------------------------------------------------------------------------------------------


def features_of(features: Any, least: int = 1) -> Floats:
    """Rows of finite numbers, at least so many. Rows to predict for, the caller's own, are checked by it too."""
    if _sparse(features):
        raise DataError("sparse features are not supported: make them dense")
    array = _array(features, "X")
    if array.ndim != 2:
        raise DataError(
            f"features must be rows: a 2D array, not {array.ndim}D. Reshape your data with .reshape(-1, 1) if it is "
            "one feature, or .reshape(1, -1) if it is one row"
        )
    rows, columns = array.shape
    if rows < least:
        raise DataError(f"X has {rows} sample(s) (shape={array.shape}) while a minimum of {least} is required.")
    if columns == 0:
        raise DataError(f"X has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    numbers = _numbers(array, "X")
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"X: row {row}, column {column}: a feature is missing, NaN or infinity", row=row, column=str(column)
        )
    return numbers


def _in_ball(features: Floats, bounds: Bounds) -> Floats:
    """Rows over their bound, longer ones scaled down to norm 1; an intercept beside them."""
    # Divided by its largest coordinate first, a row can neither overflow nor vanish, whatever it and the bound are.
    largest = np.abs(features).max(axis=1, keepdims=True)
    unit = features / np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):
        share = largest / bounds.norm
    scaled = unit * np.minimum(share, 1 / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1.0))
    if not bounds.intercept:
        return np.asarray(scaled)
    return np.hstack([scaled, np.ones((len(scaled), 1))]) * HALF


# -- labels ------------------------------------------------------------------------------------------------------------


def _one_each(labels: Any, rows: int) -> tuple[Array, bool]:
    """One label for each row, and whether they came as a column."""
    if labels is None:
        raise DataError("learning from labels requires y to be passed, but the target y is None")
    if _sparse(labels):
        raise DataError("sparse labels are not supported: make them dense")
    array = _array(labels, "y")
    column = array.ndim == 2 and array.shape[1] == 1
    if column:
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"y should be a 1d array, not one of shape {array.shape}")
    if len(array) != rows:
        raise DataError(f"{rows:,} rows of features need as many labels, not {len(array):,}")
    return array, column


def _labels(labels: Array, bounds: Bounds) -> Floats:
    if bounds.classes is not None:
        return _signs(labels, bounds.classes)
    assert bounds.label is not None
    return _numbered(labels, bounds.label)


def _numbered(labels: Array, bound: float) -> Floats:
    """Numbers of size at most ``bound``, over it."""
    numbers = _numbers(labels, "y")
    _refuse(~np.isfinite(numbers), "a label is missing, NaN or infinity")
    _refuse(
        np.abs(numbers) > bound, f"a label is larger than the declared bound, {bound:g}: clip to it, or declare more"
    )
    return np.asarray(numbers / bound)


def _signs(labels: Array, classes: tuple[Any, Any]) -> Floats:
    """−1 for a label of the first class, 1 for the second; others are refused."""
    first, second = (_equal(labels, label) for label in classes)
    outside = f"a label (or NaN) is not one of the two declared classes, {classes[0]!r} and {classes[1]!r}"
    _refuse(~(first | second), outside)
    return np.where(second, 1.0, -1.0)


def _refuse(bad: Flags, problem: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise DataError(f"y: row {rows[0]}: {problem}", row=int(rows[0]))


def _equal(labels: Array, label: Any) -> Flags:
    try:
        same = labels == label
        return np.asarray(same, dtype=bool) if isinstance(same, np.ndarray) else np.zeros(len(labels), dtype=bool)
    except Exception:  # replaced, outside this block
        problem = "y: a label is of a type that cannot be compared with the declared classes"
    raise DataError(problem)


# -- arrays ------------------------------------------------------------------------------------------------------------


def _sparse(given: Any) -> bool:
    """A sparse matrix of any library: they all count what they store."""
    return hasattr(given, "nnz") and hasattr(given, "toarray")


def _array(given: Any, name: str) -> Array:
    problem = f"{name}: Complex data not supported"
    try:
        array = np.asarray(given)
        if array.dtype.kind != "c":
            return array
    except Exception:  # replaced, outside this block
        problem = f"{name} must be an array: rows of the same length"
    raise DataError(problem)


def _numbers(array: Array, name: str) -> Floats:
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except Exception:  # replaced, outside this block
        pass
    raise DataError(f"{name} must be numbers")
