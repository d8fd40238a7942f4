"""PRIVATE: points with real-valued features, from the rows handed over to what a minimiser reads.

`Samples` are rows as they are handed over for learning, checked, and brought into the unit ball by declared `Bounds`. A
refusal names the position, never the value; an exception of another library may quote a value, so it is neither passed
on nor chained. `Entries` are what a minimiser reads: weighted entries, from points or from the counts of cells.
`Points` is the sealed store in which the estimators keep their rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treering.arrays import Array, Flags, Floats, Ints
from treering.budget.minimising import SUMMED
from treering.domain.attribute import categories
from treering.domain.groups import Groups
from treering.domain.loss import Labels
from treering.domain.problem import FEATURE_UNIT, MOST_DIMENSIONS, CellFeatures, label_grid, on_grid
from treering.domain.schema import Schema
from treering.errors import DataError, ParameterError
from treering.params import whole
from treering.trusted.rows.kept import Rows
from treering.trusted.sealed import Sealed
from treering.words import counted


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds declared before any row is seen: public.

    ``norm``       the L2 norm that no row of features should exceed
    ``intercept``  the weight c of one more coordinate, the same in all entries; 0: there is none
    ``classes``    the two values that a label can have; None if labels are numbers, or there are none
    ``label``      the largest absolute value of a label that is a number; None if there are no such labels
    """

    norm: float = 1.0
    intercept: float = 0.0
    classes: tuple[Any, Any] | None = None
    label: float | None = None

    @property
    def factor(self) -> float:
        """The factor on features and intercept that gives both together norm at most 1: 1/√(1+c²)."""
        return 1 / math.sqrt(1 + self.intercept**2)

    @property
    def label_kind(self) -> Labels:
        """The kind of labels that a loss sees."""
        if self.classes is not None:
            return "signs"
        return "none" if self.label is None else "numbers"


class Samples(Sealed):
    """Rows that passed all checks, as entries: features in the unit ball, and labels as a loss takes them.

    Formal guarantee: there are as many entries as rows, and each is a function of its row and of the public bounds
    alone, so a row replaced is an entry replaced. A row x of norm at most B becomes x/B, or (x/B, c)/√(1+c²) with an
    intercept of weight c; a longer row is first scaled down to norm B. Labels become −1 for the first class and 1 for
    the second, or are divided by their bound; if the bounds declare none, ``labels`` is ignored.

    Public: the number of rows, the dimension of an entry, the kind of labels and whether they came as a column. Fewer
    than ``least`` rows are refused.

    >>> bounds = Bounds(norm=10.0, intercept=1.0, classes=("late", "on time"))
    >>> rows = Samples([[3.0, 4.0]], ["late"], bounds)
    >>> rows, rows.size, rows.dimension, rows.label_kind
    (<Samples>, 1, 3, 'signs')
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


# -- checked features --------------------------------------------------------------------------------------------------


def features_of(features: Any, least: int = 1) -> Floats:
    """Features as rows of finite numbers, at least ``least`` rows. Also checks the caller's own rows to predict for."""
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
    """Rows divided by the bound on their norm, longer ones scaled down to norm 1; with an intercept, if declared."""
    # Divided by its largest coordinate first, a row can neither overflow nor vanish, whatever it and the bound are.
    largest = np.abs(features).max(axis=1, keepdims=True)
    unit = features / np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):
        share = largest / bounds.norm
    scaled = unit * np.minimum(share, 1 / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1.0))
    if not bounds.intercept:
        return np.asarray(scaled)
    return np.hstack([scaled, np.full((len(scaled), 1), bounds.intercept)]) * bounds.factor


# -- checked labels ----------------------------------------------------------------------------------------------------


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
        raise DataError(f"{counted(rows, 'row')} of features need as many labels, not {len(array):,}")
    return array, column


def _labels(labels: Array, bounds: Bounds) -> Floats:
    if bounds.classes is not None:
        return _signs(labels, bounds.classes)
    assert bounds.label is not None
    return _numbered(labels, bounds.label)


def _numbered(labels: Array, bound: float) -> Floats:
    """Labels of absolute value at most ``bound``, divided by it."""
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
    except Exception:  # may quote a value: replaced, outside this block
        problem = "y: a label is of a type that cannot be compared with the declared classes"
    raise DataError(problem)


# -- conversion to arrays ----------------------------------------------------------------------------------------------


def _sparse(given: Any) -> bool:
    """Whether this is a sparse matrix, of any library: they all have ``nnz``."""
    return hasattr(given, "nnz") and hasattr(given, "toarray")


def _array(given: Any, name: str) -> Array:
    problem = f"{name}: Complex data not supported"
    try:
        array = np.asarray(given)
        if array.dtype.kind != "c":
            return array
    except Exception:  # may quote a value: replaced, outside this block
        problem = f"{name} must be an array: rows of the same length"
    raise DataError(problem)


def _numbers(array: Array, name: str) -> Floats:
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except Exception:  # may quote a value: replaced, outside this block
        pass
    raise DataError(f"{name} must be numbers")


# -- entries: what a minimiser reads -----------------------------------------------------------------------------------


HELD: Final = 2**23
"""Features of cells up to this many numbers (64 MB) are computed once; more, block by block in every pass."""

_EXACT_ROWS: Final = 2**20
"""Products of two features summed over this many rows are below 2^53: a float product of matrices is exact."""


class Moments(Sealed):
    """Exact sums over entries: of features times features, and of features times labels, in units of 1/2^32.

    Below 2^62 for fewer than 2^30 entries. A squared loss needs nothing else. They are maintained as entries arrive.
    """

    __slots__ = ("cross", "square")

    def __init__(self, dimension: int) -> None:
        self.square: Ints = np.zeros((dimension, dimension), dtype=np.int64)
        self.cross: Ints = np.zeros(dimension, dtype=np.int64)

    def add(self, grid: Floats, labels: Floats) -> None:
        """Take in entries: integer features, and labels in their own unit."""
        for start in range(0, len(grid), _EXACT_ROWS):
            part = grid[start : start + _EXACT_ROWS]
            marks = labels[start : start + _EXACT_ROWS] * FEATURE_UNIT
            self.square += (part.T @ part).astype(np.int64)
            self.cross += (marks @ part).astype(np.int64)

    def add_weighted(self, grid: Floats, labels: Floats, weights: Ints) -> None:
        """Take in entries, each ``weights`` times."""
        whole = grid.astype(np.int64)
        self.square += (whole * weights[:, None]).T @ whole
        self.cross += ((labels * FEATURE_UNIT).astype(np.int64) * weights) @ whole


class Entries(Sealed):
    """The entries at one size: features as integers (held in floats, for speed), labels, and how often each occurs.

    ``source`` is the features, or the public map that computes those of cells block by block; ``weights`` says how
    often each entry occurs (None: once each); ``moments`` are None if they are still to be computed.
    """

    __slots__ = ("_moments", "_source", "labels", "size", "weights")

    def __init__(
        self,
        source: Floats | CellFeatures,
        labels: Floats,
        weights: Ints | None,
        size: int,
        moments: Moments | None,
    ) -> None:
        self._source = source
        self.labels = labels
        self.weights = weights
        self.size = size
        self._moments = moments

    @property
    def moments(self) -> Moments:
        """PRIVATE: the exact second moments of the entries."""
        if self._moments is None:
            self._moments = Moments(self.dimension)
            for grid, labels, weights in self.blocks():
                if weights is None:
                    self._moments.add(grid, labels)
                else:
                    self._moments.add_weighted(grid, labels, weights)
        return self._moments

    @property
    def dimension(self) -> int:
        """How many features an entry has: public."""
        source = self._source
        return int(source.dimension if isinstance(source, CellFeatures) else source.shape[1])

    def without(self, places: Ints) -> Entries:
        """PRIVATE: the entries but those at these places; for entries that occur once each."""
        others = np.delete(self.grid, places, axis=0), np.delete(self.labels, places)
        return Entries(*others, None, self.size - len(places), None)

    def only(self, places: Ints) -> Entries:
        """PRIVATE: the entries at these places; for entries that occur once each."""
        return Entries(self.grid[places], self.labels[places], None, len(places), None)

    def weighing(self, weights: Ints) -> Entries:
        """PRIVATE: the same entries, each so many times."""
        return Entries(self._source, self.labels, weights, int(weights.sum()), None)

    @property
    def grid(self) -> Floats:
        """PRIVATE: all features."""
        return self._part(slice(0, len(self.labels)))

    def blocks(self, rows: int = SUMMED) -> Iterator[tuple[Floats, Floats, Ints | None]]:
        """Features, labels and weights, ``rows`` entries at a time."""
        for start in range(0, len(self.labels), rows):
            part = slice(start, start + rows)
            yield self._part(part), self.labels[part], None if self.weights is None else self.weights[part]

    def _part(self, part: slice) -> Floats:
        if isinstance(self._source, CellFeatures):
            return self._source.part(part.start, part.stop).astype(np.float64)
        return self._source[part]


def entries_of_cells(table: Rows, features: CellFeatures, rows: tuple[int, int] | None = None) -> Entries:
    """PRIVATE: the entries of a table: each joint value of the attributes in ``features``, weighted by its count, among
    all rows or among those of an interval."""
    held = features.entries * features.dimension <= HELD
    source = features.grid.astype(np.float64) if held else features
    if rows is None:
        weights = np.array(table.cells_of(features.schema).marginal(features.joint)).reshape(-1)
        return Entries(source, features.labels, weights, table.size, None)
    weights = np.zeros(features.entries, dtype=np.int64)
    _, place, number = table.tally(Groups.cells(features.schema, features.joint), rows)
    weights[place] = number
    return Entries(source, features.labels, weights, rows[1] - rows[0], None)


# -- the store of points -----------------------------------------------------------------------------------------------


POINTS: Final = Schema({"entry": categories("point")})
"""Points have no finite universe: to the kernel they all lie in one cell, and only their number can be counted."""

_FIRST: Final = 1024
_UNIT: Final = {"signs": Bounds(classes=(-1, 1)), "numbers": Bounds(label=1.0), "none": Bounds()}
"""The bounds declared of points: they lie in the unit ball, by kind of labels."""


class Points(Rows):
    """Points of the unit L2 ball with labels, growing by append. Only their number is public.

    Features are kept as integers in units of 1/2^16, of norm at most 1, exactly; a longer row is scaled down to the
    ball, which is a function of that row alone. Callers scale features by *public* bounds first.
    """

    __slots__ = ("_grid", "_kind", "_labels", "_moments")

    def __init__(self, dimension: int, labels: Labels) -> None:
        super().__init__(POINTS)
        if whole(dimension, "dimension") > MOST_DIMENSIONS:
            raise ParameterError("dimension", f"must be at most {MOST_DIMENSIONS:,}, not {dimension:,}")
        if labels not in ("signs", "numbers", "none"):
            raise ParameterError("labels", f"must be 'signs', 'numbers' or 'none', not {labels!r}")
        self._kind: Labels = labels
        self._grid: Floats = np.empty((_FIRST, dimension))
        self._labels: Floats = np.zeros(_FIRST)
        self._moments = Moments(dimension)

    @property
    def dimension(self) -> int:
        """How many features a point has: public."""
        return int(self._grid.shape[1])

    @property
    def label_kind(self) -> Labels:
        """The kind of labels: public."""
        return self._kind

    def add_points(self, features: Any, labels: Any = None) -> None:
        """Take in points, all or none. Refuses NaN, infinities and labels of another kind, naming the position."""
        if self._kind == "none" and labels is not None:
            raise DataError("these points have no labels")
        self.add_rows(Samples(features, labels, _UNIT[self._kind], least=0))

    def add_rows(self, rows: Samples) -> None:
        """Take in rows that were checked by their own bounds."""
        if rows.dimension != self.dimension:
            raise DataError(f"features must be rows of {counted(self.dimension, 'number')}, not {rows.dimension}")
        grid = on_grid(rows.entries).astype(np.float64)
        marks = self._marks(rows)
        with self.whole():
            begin, end = self.size, self.size + len(grid)
            longer = (_longer(self._grid, end), _longer(self._labels, end)) if end > len(self._grid) else None

            def write() -> None:
                if longer is not None:
                    self._grid, self._labels = longer
                self._grid[begin:end] = grid
                self._labels[begin:end] = marks
                self._moments.add(grid, marks)

            self.add_cells(np.zeros(len(grid), dtype=np.int64), then=write)

    def entries(self, rows: tuple[int, int] | None = None) -> Entries:
        """PRIVATE: all points so far, or those of an interval: after position ``rows[0]``, up to ``rows[1]``."""
        start, end = (0, self.size) if rows is None else rows
        moments = self._moments if rows is None else None
        return Entries(self._grid[start:end], self._labels[start:end], None, end - start, moments)

    def _marks(self, rows: Samples) -> Floats:
        """Labels rounded to their grid; zeros if there are none."""
        if rows.label_kind != self._kind:
            raise DataError(f"the labels of these points are {self._kind}, not {rows.label_kind}")
        return np.zeros(rows.size) if rows.labels is None else np.asarray(label_grid(rows.labels) / FEATURE_UNIT)


def _longer(array: Floats, needed: int) -> Floats:
    """A copy with room for at least ``needed`` rows, and at least twice as many as before."""
    longer = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]))
    longer[: len(array)] = array
    return longer
