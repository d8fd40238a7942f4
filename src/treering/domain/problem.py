"""What is to be minimised: a loss over a ball of models, and how public cells become features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.domain.attribute import Value
from treering.domain.loss import LARGEST_RADIUS, Labels, Loss
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.domain.vectors import FEATURE_UNIT as FEATURE_UNIT
from treering.domain.vectors import OneHot, Table, Vectors
from treering.errors import ParameterError, QueryError, SchemaError
from treering.params import exact, whole

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
        counts: Floats | Ints | None = None,
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
        counts: Floats | Ints | None = None,
    ) -> Floats:
        """The objective's gradient on entries at hand."""
        each, marks = np.asarray(features, dtype=np.float64), _or_zeros(labels, features)
        mean = np.average(self.loss.gradients(theta, each, marks), axis=0, weights=counts)
        return np.asarray(mean + self.regularisation * theta)

    def project(self, theta: Floats) -> Floats:
        """The nearest model in the ball."""
        norm = float(np.linalg.norm(theta))
        return theta if norm <= self.radius else theta * (self.radius / norm)


def on_grid(vectors: Floats) -> Ints:
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


def label_grid(labels: Floats) -> Ints:
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
    fastest); it must come from general knowledge, never from the rows. `one_hot` makes the usual ones. The label of a
    cell is 2f − 1 for the query f, so a counting query gives −1 and 1; without a target there are no labels.

    >>> from treering.domain.attribute import categories
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "late": categories("no", "yes")})
    >>> features = CellFeatures(schema, ["origin"], [[0.5, 0.0], [0.0, 0.5]], Query.where(schema, late="yes"))
    >>> features.dimension, features.labels.tolist()
    (2, [-1.0, 1.0, -1.0, 1.0])
    """

    def __init__(
        self, schema: Schema, names: Sequence[str], vectors: npt.ArrayLike | OneHot, target: Query | None = None
    ) -> None:
        positions = schema.positions(names)
        if [schema.names[position] for position in positions] != list(names):
            raise ParameterError("names", "must be attributes, named once each, in the schema's order")
        if target is not None and target.schema != schema:
            raise ParameterError("target", "is about another schema")
        self.schema = schema
        self.attributes = positions
        self.target = target
        self._vectors = _checked_vectors(vectors, tuple(schema.shape[position] for position in positions), names)
        self.dimension = self._vectors.dimension
        used = set(positions) | set(() if target is None else target.attributes)
        self.joint: tuple[int, ...] = tuple(sorted(used))
        """The attributes that features and label depend on: learning reads the counts over their joint values."""
        if self.entries > MAX_TABLE:
            raise ParameterError("names", f"and target span {self.entries:,} joint values; at most {MAX_TABLE:,} do")

    @classmethod
    def one_hot(
        cls, schema: Schema, names: Iterable[str], target: Query | str | None = None, *, intercept: bool = True
    ) -> CellFeatures:
        """A coordinate for each value of each attribute named, and one for all, the intercept; together of norm 1.

        A linear model over them adds up one weight per attribute: `treering.boxes.model.Model.weights` has them in
        words. ``target`` may be a predicate's text. One about an attribute that is also a feature is refused: the model
        would be told what it is to tell. (`CellFeatures` itself takes any map, if that is meant.) No table of cells
        times coordinates is made.

        >>> from treering.domain.attribute import categories, integers
        >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12), "delay": integers(0, 60)})
        >>> features = CellFeatures.one_hot(schema, ["month", "origin"], "delay >= 15")
        >>> features.dimension, features.entries
        (15, 1464)
        >>> features.vectors_of([{"origin": "JFK", "month": 2}]).nonzero()[1].tolist()
        [1, 3, 14]
        """
        listed = _distinct(names)
        positions = schema.positions(listed)
        query = _label(target, schema)
        told = () if query is None else [name for name in query.names if name in listed]
        if told:
            raise ParameterError(
                "names",
                f"must leave out {', '.join(told)}, which the target asks about: a feature would tell the label",
            )
        sizes = tuple(schema.shape[position] for position in positions)
        if sum(sizes) + intercept > MOST_DIMENSIONS:
            raise ParameterError(
                "names", f"have {sum(sizes):,} values; at most {MOST_DIMENSIONS - intercept:,} can be told apart"
            )
        return cls(schema, [schema.names[position] for position in positions], OneHot(sizes, intercept), query)

    @property
    def hot(self) -> OneHot | None:
        """How the vectors are made, if by `one_hot`."""
        return self._vectors if isinstance(self._vectors, OneHot) else None

    def vectors_of(self, rows: Sequence[Mapping[str, Value]]) -> Floats:
        """The vectors of rows at hand (public ones, to predict for), which need a value for each of the attributes."""
        names = [self.schema.names[position] for position in self.attributes]
        codes = np.empty((len(names), len(rows)), dtype=np.int64)
        for column, row in enumerate(rows):
            for line, name in enumerate(names):
                if name not in row:
                    raise SchemaError(f"row {column} has no {name!r}: a prediction needs {', '.join(names)}")
                try:
                    codes[line, column] = self.schema.attributes[name].code(row[name])
                except SchemaError as error:
                    raise SchemaError(f"row {column}, attribute {name!r}: {error}") from None
        return np.asarray(self._vectors.of_codes(codes) / FEATURE_UNIT)

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
    def grid(self) -> Ints:
        """Each entry's features, in units of 1/`FEATURE_UNIT`: entries times dimension numbers, kept from then on."""
        return self.part(0, self.entries)

    def part(self, start: int, stop: int) -> Ints:
        """Some rows of `grid`, made for the call."""
        codes = np.unravel_index(np.arange(start, min(stop, self.entries)), self._shape)
        return self._vectors.of_codes(np.array([codes[self.joint.index(position)] for position in self.attributes]))

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

    def _along(self, positions: tuple[int, ...], table: Ints) -> Ints:
        """A table over some of the attributes, broadcastable over all."""
        shape = [self.schema.shape[position] if position in positions else 1 for position in self.joint]
        return table.reshape(shape)


def _checked_vectors(vectors: npt.ArrayLike | OneHot, shape: tuple[int, ...], names: Sequence[str]) -> Vectors:
    if isinstance(vectors, OneHot):
        if vectors.sizes != shape:
            raise ParameterError("vectors", f"are for attributes of {vectors.sizes} values, not {shape}")
        return vectors
    given = np.asarray(vectors, dtype=np.float64)
    joint = math.prod(shape)
    if given.ndim != 2 or given.shape[0] != joint or given.shape[1] < 1:
        raise ParameterError("vectors", f"must be {joint:,} rows, one for each joint value of {', '.join(names)}")
    if not np.isfinite(given).all():
        raise ParameterError("vectors", "must be finite")
    if np.linalg.norm(given, axis=1).max() > 1 + 1e-9:
        raise ParameterError("vectors", "must have norm at most 1: divide them by a public bound on their norm")
    return Table(shape, on_grid(given))


def _distinct(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise ParameterError("names", f'must be a list of attributes, such as ["{names}"], not one text')
    listed = list(names)
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        raise ParameterError("names", f"must name each attribute once, and {', '.join(twice)} is there twice")
    if not listed:
        raise ParameterError("names", "must be at least one attribute")
    return listed


def _label(target: Query | str | None, schema: Schema) -> Query | None:
    """The label's query; one that is the same for all rows is no label."""
    if isinstance(target, str):
        # Only texts need the parser, which takes longer to load than all else.
        from treering.domain.language.parse import parse

        target = parse(target, schema)
    if target is not None and not isinstance(target, Query):
        raise QueryError(f"target must be a Query or its text, not {type(target).__name__}")
    if target is not None and target.constant:
        raise ParameterError("target", "is the same for all rows: there is nothing to learn")
    return target


def _or_zeros(labels: Floats | None, features: Floats) -> Floats:
    return np.zeros(len(features)) if labels is None else np.asarray(labels, dtype=np.float64)
