"""What is to be minimised: a loss over a ball of models, and how public cells become features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.budget.exact import exact, whole
from treering.domain.loss import LARGEST_RADIUS, Floats, Labels, Loss
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import DataError, ParameterError

FEATURE_UNIT: Final = 2**16
"""Features, and labels that are numbers, are integers in units of 1/FEATURE_UNIT."""

MOST_DIMENSIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise the mean loss, plus λ/2·‖θ‖² with λ = ``regularisation``, over the L2 ball of ``radius``.

    Features lie in the unit L2 ball. All of this is public.

    >>> from treering.domain.loss import Squared
    >>> problem = Problem(Squared(), dimension=2, radius=1.0, regularisation=0.5)
    >>> round(problem.lipschitz, 6), round(problem.whole_lipschitz, 6), round(problem.smoothness, 6)
    (2.0, 2.5, 1.5)
    """

    loss: Loss
    dimension: int
    radius: float = 1.0
    regularisation: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ParameterError("loss", "must be a Loss: Logistic(), HuberHinge(), Squared() or Distance()")
        if whole(self.dimension, "dimension") > MOST_DIMENSIONS:
            raise ParameterError("dimension", f"must be at most {MOST_DIMENSIONS:,}, not {self.dimension:,}")
        if not 2**-10 <= exact(self.radius, "radius") <= LARGEST_RADIUS:
            raise ParameterError("radius", f"must lie within [2^-10, {LARGEST_RADIUS:g}], not {self.radius}")
        if self.regularisation != 0:
            exact(self.regularisation, "regularisation")

    @property
    def lipschitz(self) -> float:
        """L of the loss alone: what one entry can do. The regulariser is the same for neighbours."""
        return self.loss.lipschitz(self.radius)

    @property
    def whole_lipschitz(self) -> float:
        """Of the loss with its regulariser: L + λ·radius (erratum E16: not L + ‖C‖)."""
        return (self.lipschitz + self.regularisation * self.radius) * (1 + 2.0**-40)

    @property
    def smoothness(self) -> float:
        """Of the loss with its regulariser: M + λ."""
        return (self.loss.smoothness(self.radius) + self.regularisation) * (1 + 2.0**-40)

    @property
    def strong_convexity(self) -> float:
        """λ."""
        return self.regularisation

    def risk(
        self,
        theta: Floats,
        features: Floats,
        labels: Floats | None = None,
        counts: Floats | npt.NDArray[np.int64] | None = None,
    ) -> float:
        """The objective on entries at hand: mean loss, weighted by counts, plus the regulariser. Public arithmetic."""
        each, marks = np.asarray(features, dtype=np.float64), _or_zeros(labels, features)
        mean = np.average(self.loss.values(theta, each, marks), weights=counts)
        return float(mean) + self.regularisation / 2 * float(theta @ theta)

    def gradient(
        self,
        theta: Floats,
        features: Floats,
        labels: Floats | None = None,
        counts: Floats | npt.NDArray[np.int64] | None = None,
    ) -> Floats:
        """The objective's gradient on entries at hand."""
        each, marks = np.asarray(features, dtype=np.float64), _or_zeros(labels, features)
        mean = np.average(self.loss.gradients(theta, each, marks), axis=0, weights=counts)
        return np.asarray(mean + self.regularisation * theta)

    def project(self, theta: Floats) -> Floats:
        """The nearest model in the ball."""
        norm = float(np.linalg.norm(theta))
        return theta if norm <= self.radius else theta * (self.radius / norm)


def on_grid(vectors: Floats) -> npt.NDArray[np.int64]:
    """Rows as integers in units of 1/`FEATURE_UNIT`, each of norm at most 1 *exactly*: longer ones are scaled down.

    A function of each row alone. Rounding is towards zero, which never lengthens a row; a row that was scaled down to
    norm 1 − 2^-30 has room for the rounding of the scaling itself.
    """
    # Divided by its largest coordinate first, a row cannot overflow, whatever it holds.
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1.0)
    scaled = vectors / largest
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    limit = 1 - 2.0**-30
    whole_numbers = np.trunc(scaled * np.minimum(largest, limit / np.maximum(lengths, 0.5)) * FEATURE_UNIT)
    return np.asarray(whole_numbers, dtype=np.int64)


def label_grid(labels: Floats) -> npt.NDArray[np.int64]:
    """Labels in [−1, 1] as integers in units of 1/`FEATURE_UNIT`, to the nearest."""
    return np.rint(labels * FEATURE_UNIT).astype(np.int64)


def check_labels(kind: Labels, loss: Loss) -> None:
    """Refuse a loss whose labels these are not."""
    if loss.labels != kind and (loss.labels, kind) != ("numbers", "signs"):
        raise ParameterError("loss", f"{type(loss).__name__} takes {_WORDS[loss.labels]}, and there are {_WORDS[kind]}")


_WORDS: Final = {"signs": "labels -1 and 1", "numbers": "labels in [-1, 1]", "none": "no labels"}


class CellFeatures:
    """A public map from cells to features, and a query as label: so learning over a database reads counts only.

    ``vectors`` has one row in the unit L2 ball for each joint value of the attributes ``names`` (the last running
    fastest); it must come from general knowledge, never from the rows. The label of a cell is 2f − 1 for the query
    f, so a counting query gives −1 and 1; without a target there are no labels.

    >>> from treering.domain.attribute import categories
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "late": categories("no", "yes")})
    >>> features = CellFeatures(schema, ["origin"], [[0.5, 0.0], [0.0, 0.5]], Query.where(schema, late="yes"))
    >>> features.dimension, features.labels.tolist()
    (2, [-1.0, 1.0, -1.0, 1.0])
    """

    def __init__(
        self, schema: Schema, names: Sequence[str], vectors: npt.ArrayLike, target: Query | None = None
    ) -> None:
        positions = schema.positions(names)
        if [schema.names[position] for position in positions] != list(names):
            raise ParameterError("names", "must be attributes, named once each, in the schema's order")
        if target is not None and target.schema != schema:
            raise ParameterError("target", "is about another schema")
        given = np.asarray(vectors, dtype=np.float64)
        joint = math.prod(schema.shape[position] for position in positions)
        if given.ndim != 2 or given.shape[0] != joint or given.shape[1] < 1:
            raise ParameterError("vectors", f"must be {joint:,} rows, one for each joint value of {', '.join(names)}")
        if not np.isfinite(given).all():
            raise ParameterError("vectors", "must be finite")
        if np.linalg.norm(given, axis=1).max() > 1 + 1e-9:
            raise ParameterError("vectors", "must have norm at most 1: divide them by a public bound on their norm")
        self.schema = schema
        self.attributes = positions
        self.target = target
        self.dimension = int(given.shape[1])
        self._grid = on_grid(given)
        used = set(positions) | set(() if target is None else target.attributes)
        self.joint: tuple[int, ...] = tuple(sorted(used))
        """The attributes that features and label depend on: learning reads the counts over their joint values."""
        if self.entries > MAX_TABLE:
            raise ParameterError("names", f"and target span {self.entries:,} joint values; at most {MAX_TABLE:,} do")

    @property
    def entries(self) -> int:
        """How many joint values there are: each is one weighted entry."""
        return math.prod(self._shape)

    @property
    def label_kind(self) -> Labels:
        """What the labels are."""
        if self.target is None:
            return "none"
        return "signs" if self.target.counting else "numbers"

    @cached_property
    def grid(self) -> npt.NDArray[np.int64]:
        """Each entry's features, in units of 1/`FEATURE_UNIT`."""
        shape = tuple(self.schema.shape[position] for position in self.attributes)
        index = np.broadcast_to(self._along(self.attributes, np.arange(math.prod(shape)).reshape(shape)), self._shape)
        return np.asarray(self._grid[index.reshape(-1)])

    @cached_property
    def labels(self) -> Floats:
        """Each entry's label; zeros without a target."""
        if self.target is None:
            return np.zeros(self.entries)
        weights = self._along(self.target.attributes, self.target.weights())
        shares = np.broadcast_to(weights, self._shape).reshape(-1) / self.target.scale
        return np.asarray(label_grid(2 * shares - 1) / FEATURE_UNIT)

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.schema.shape[position] for position in self.joint)

    def _along(self, positions: tuple[int, ...], table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """A table over some of the attributes, broadcastable over all."""
        shape = [self.schema.shape[position] if position in positions else 1 for position in self.joint]
        return table.reshape(shape)


def check_points(vectors: npt.ArrayLike, dimension: int) -> Floats:
    """Rows of real numbers; a bad one is refused by position, never by value."""
    try:
        rows = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("features must be numbers") from None
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise DataError(f"features must be rows of {dimension} numbers")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise DataError("a feature is missing, NaN or infinite", row=int(bad[0]))
    return rows


def _or_zeros(labels: Floats | None, features: Floats) -> Floats:
    return np.zeros(len(features)) if labels is None else np.asarray(labels, dtype=np.float64)
