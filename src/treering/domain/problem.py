"""Private learning, as public requests: what to minimise, over which features, by which method and with how much noise.

`Problem` is a loss over a ball of models. `CellFeatures` maps public cells to feature vectors, which are held in a
table or made when needed. `Minimise` asks for a private minimiser by a `Method`. The kernel derives sensitivity and
cost from these (`treering.budget.minimising`); `treering.theory.erm` chooses them for a budget and proves what they
achieve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.domain.attribute import Value
from treering.domain.loss import LARGEST_RADIUS, Labels, Loss
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError, SchemaError
from treering.lazy import provided
from treering.params import exact, exact_scale, whole
from treering.words import counted

MOST_DIMENSIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise the mean loss, plus λ/2·‖θ‖² with λ = ``regularisation``, over the L2 ball of ``radius``.

    ``dimension`` is the number of coordinates of a model and of a feature vector. Features lie in the unit L2 ball. All
    of this is public.

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
            raise ParameterError(
                "loss",
                "must be a Loss: Logistic(), RobustLogistic(), HuberHinge(), Squared(), Distance() or HuberDistance()",
            )
        if whole(self.dimension, "dimension") > MOST_DIMENSIONS:
            raise ParameterError("dimension", f"must be at most {MOST_DIMENSIONS:,}, not {self.dimension:,}")
        if not 2**-10 <= exact(self.radius, "radius") <= LARGEST_RADIUS:
            raise ParameterError("radius", f"must lie within [2^-10, {LARGEST_RADIUS:g}], not {self.radius}")
        if self.regularisation != 0:
            exact(self.regularisation, "regularisation")

    @property
    def lipschitz(self) -> float:
        """L of the loss alone, which bounds the effect of one entry. The regulariser is the same for neighbours."""
        return self.loss.lipschitz(self.radius)

    @property
    def whole_lipschitz(self) -> float:
        """The Lipschitz constant of the loss with its regulariser: L + λ·radius (erratum E16: not L + ‖C‖)."""
        return (self.lipschitz + self.regularisation * self.radius) * (1 + 2.0**-40)

    @property
    def smoothness(self) -> float:
        """The smoothness of the loss with its regulariser: M + λ."""
        return (self.loss.smoothness(self.radius) + self.regularisation) * (1 + 2.0**-40)

    @property
    def strong_convexity(self) -> float:
        """λ, the strong convexity of the regulariser."""
        return self.regularisation

    def risk(
        self,
        theta: Floats,
        features: Floats,
        labels: Floats | None = None,
        counts: Floats | Ints | None = None,
    ) -> float:
        """The objective of a model ``theta`` on given entries: mean loss, weighted by ``counts``, plus the regulariser.

        ``features`` has one row per entry. Plain arithmetic without privacy: for public entries.
        """
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
        """The objective's gradient on given entries; parameters as in `risk`."""
        each, marks = np.asarray(features, dtype=np.float64), _or_zeros(labels, features)
        mean = np.average(self.loss.gradients(theta, each, marks), axis=0, weights=counts)
        return np.asarray(mean + self.regularisation * theta)

    def project(self, theta: Floats) -> Floats:
        """The model in the ball that is nearest to ``theta``."""
        norm = float(np.linalg.norm(theta))
        return theta if norm <= self.radius else theta * (self.radius / norm)


def on_grid(vectors: Floats) -> Ints:
    """Rows as integers in units of 1/`FEATURE_UNIT`, each of norm at most 1 *exactly*: longer ones are scaled down.

    Each row is treated by itself. Rounding is towards zero, which never lengthens a row; a row that was scaled down to
    norm 1 − 2^-30 has room for the rounding of the scaling itself.
    """
    # Dividing each row by its largest coordinate first keeps its norm from overflowing.
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
    """Refuse a loss that does not take labels of this kind."""
    if loss.labels != kind and (loss.labels, kind) != ("numbers", "signs"):
        raise ParameterError("loss", f"{type(loss).__name__} takes {_WORDS[loss.labels]}, and there are {_WORDS[kind]}")


_WORDS: Final = {"signs": "labels -1 and 1", "numbers": "labels in [-1, 1]", "none": "no labels"}


class CellFeatures:
    """A public map from cells to feature vectors, with a query as label, so that learning reads only counts of cells.

    ``vectors`` has one row in the unit L2 ball for each joint value of the attributes ``names`` (the last running
    fastest); it must come from general knowledge, never from the rows. `one_hot` makes one-hot vectors. The label of a
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
        """One-hot vectors of norm 1: a coordinate for each value of each attribute in ``names``, and an intercept.

        A linear model over them adds up one weight per attribute: `treering.boxes.erm.Model.weights` lists them.
        ``target`` is a counting or weighted query, or a predicate's text. A target about an attribute that is also a
        feature is refused, since the feature would give the label away. (`CellFeatures` itself takes any map, if that
        is meant.) No table of cells times coordinates is made.

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
        """The one-hot encoding, if the features were made by `one_hot`; otherwise None."""
        return self._vectors if isinstance(self._vectors, OneHot) else None

    def vectors_of(self, rows: Sequence[Mapping[str, Value]]) -> Floats:
        """The feature vectors of public rows to predict for; a row needs a value of each attribute of the features."""
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
        """The number of joint values: each is one entry, weighted by its count."""
        return math.prod(self._shape)

    @property
    def label_kind(self) -> Labels:
        """The kind of the labels."""
        if self.target is None:
            return "none"
        return "signs" if self.target.counting else "numbers"

    @cached_property
    def grid(self) -> Ints:
        """The features of each entry, in units of 1/`FEATURE_UNIT`: entries × dimension integers, cached."""
        return self.part(0, self.entries)

    def part(self, start: int, stop: int) -> Ints:
        """The rows ``start`` to ``stop`` of `grid`, made for the call and not cached."""
        codes = np.unravel_index(np.arange(start, min(stop, self.entries)), self._shape)
        return self._vectors.of_codes(np.array([codes[self.joint.index(position)] for position in self.attributes]))

    @cached_property
    def labels(self) -> Floats:
        """The label of each entry; zeros without a target."""
        if self.target is None:
            return np.zeros(self.entries)
        weights = self._along(self.target.attributes, self.target.weights())
        shares = np.broadcast_to(weights, self._shape).reshape(-1) / self.target.scale
        return np.asarray(label_grid(2 * shares - 1) / FEATURE_UNIT)

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.schema.shape[position] for position in self.joint)

    def _along(self, positions: tuple[int, ...], table: Ints) -> Ints:
        """A table over some of the attributes, broadcastable over all of `joint`."""
        shape = [self.schema.shape[position] if position in positions else 1 for position in self.joint]
        return table.reshape(shape)


def _checked_vectors(vectors: npt.ArrayLike | OneHot, shape: tuple[int, ...], names: Sequence[str]) -> Vectors:
    if isinstance(vectors, OneHot):
        if type(vectors) is not OneHot:  # a subclass could have vectors of another norm
            raise ParameterError("vectors", f"must be numbers or a OneHot, not a {type(vectors).__name__}")
        if vectors.sizes != shape:
            raise ParameterError("vectors", f"are for attributes of {vectors.sizes} values, not {shape}")
        return vectors
    given = np.asarray(vectors, dtype=np.float64)
    joint = math.prod(shape)
    if given.ndim != 2 or given.shape[0] != joint or given.shape[1] < 1:
        raise ParameterError(
            "vectors", f"must be {counted(joint, 'row')}, one for each joint value of {', '.join(names)}"
        )
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
    """The query of the label; a constant one is refused."""
    if isinstance(target, str):
        target = provided("query_of_text")(target, schema)
    if target is not None and not isinstance(target, Query):
        raise QueryError(f"target must be a Query or its text, not {type(target).__name__}")
    if target is not None and target.constant:
        raise ParameterError("target", "is the same for all rows: there is nothing to learn")
    return target


def _or_zeros(labels: Floats | None, features: Floats) -> Floats:
    return np.zeros(len(features)) if labels is None else np.asarray(labels, dtype=np.float64)


# -- feature vectors for joint values ----------------------------------------------------------------------------------


FEATURE_UNIT: Final = 2**16
"""Features, and labels that are numbers, are integers in units of 1/FEATURE_UNIT."""


class Vectors(Protocol):
    """A feature vector, in integers, for each joint value of some attributes."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    def of_codes(self, codes: Ints) -> Ints:
        """The vectors, one per row. ``codes`` has one row for each attribute, one column for each vector."""


@dataclass(frozen=True, eq=False)
class Table:
    """Vectors held in a table: one row for each joint value, the last attribute running fastest."""

    shape: tuple[int, ...]
    grid: Ints

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.grid.shape[1])

    def of_codes(self, codes: Ints) -> Ints:
        """Rows of the table."""
        return np.asarray(self.grid[np.ravel_multi_index(tuple(codes), self.shape)])


@dataclass(frozen=True)
class OneHot:
    """One-hot vectors: for each attribute a coordinate per value, one of them not 0; and the intercept, never 0.

    The k coordinates that are not 0 are 1/√k each, so a vector has norm 1 but for rounding (towards 0). Vectors are
    made when needed; no table is held.
    """

    sizes: tuple[int, ...]
    intercept: bool = True

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return sum(self.sizes) + self.intercept

    @cached_property
    def unit(self) -> int:
        """The value of the coordinates that are not 0, in units of 1/`FEATURE_UNIT`."""
        ones = len(self.sizes) + self.intercept
        return math.isqrt(FEATURE_UNIT**2 // ones)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first coordinate of each attribute; the intercept is the last of all."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    def of_codes(self, codes: Ints) -> Ints:
        """One-hot vectors, times `unit`."""
        count = codes.shape[1]
        vectors = np.zeros((count, self.dimension), dtype=np.int64)
        for start, code in zip(self.starts, codes, strict=True):
            vectors[np.arange(count), start + code] = self.unit
        if self.intercept:
            vectors[:, -1] = self.unit
        return vectors


# -- methods of private minimisation -----------------------------------------------------------------------------------


Start: TypeAlias = tuple[float, ...] | None
"""A public model to begin with, such as the last one released; None: the centre of the ball."""

MOST_STEPS: Final = 2**20
"""The most passes over the entries of one run."""
MOST_CANDIDATES: Final = 2**18
"""The most candidates of a net."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Output perturbation: solve to a public tolerance, round to a grid of step ``pitch``, add noise.

    ``scale`` is the scale of the noise, in steps of the grid. The solver makes exactly ``iterations`` passes over the
    data. ``ridge`` is added to the problem's own regularisation; the sum must be positive.
    """

    noise: Literal["laplace", "gaussian"]
    scale: float
    pitch: float
    iterations: int
    ridge: float = 0.0
    start: Start = None

    def __post_init__(self) -> None:
        if self.noise not in ("laplace", "gaussian"):
            raise ParameterError("noise", f"must be 'laplace' or 'gaussian', not {self.noise!r}")
        exact_scale(self.scale, "scale")
        _check_steps(self.iterations, "iterations")
        if exact_scale(self.pitch, "pitch").numerator != 1 or not 2.0**-60 <= self.pitch <= 1:
            raise ParameterError("pitch", f"must be a power of two within [2^-60, 1], not {self.pitch}")
        if self.ridge != 0:
            exact_scale(self.ridge, "ridge")


@dataclass(frozen=True, slots=True)
class Descent:
    """Noisy projected gradient descent: ``steps`` passes, each adding discrete Gaussian noise to the sum of gradients.

    ``scale`` is that of the noise, in units of one entry's gradient. The ``schedule`` says how step k moves along the
    noisy mean gradient, and which model is released:

    - "averaged": steps of length up to ``step_size``; the plain average of the iterates;
    - "accelerated": Lan's accelerated stochastic approximation, step k being k times up to ``step_size``;
    - "strong": step 2/(λ(k+1)), iterates averaged with weights k; ``step_size`` and ``rise`` are not used.

    Steps rise to ``step_size`` from about ``step_size``/(1 + ``rise``), see `length`.

    Slopes (or, for losses that are not linear, gradients) are rounded to multiples of 1/``resolution``.
    """

    schedule: Literal["averaged", "accelerated", "strong"]
    steps: int
    scale: float
    step_size: float = 1.0
    start: Start = None
    resolution: int = 2**16
    rise: float = 0.0

    def __post_init__(self) -> None:
        if self.schedule not in ("averaged", "accelerated", "strong"):
            raise ParameterError("schedule", f"must be 'averaged', 'accelerated' or 'strong', not {self.schedule!r}")
        _check_steps(self.steps, "steps")
        exact_scale(self.scale, "scale")
        exact_scale(self.step_size, "step_size")
        _check_resolution(self.resolution)
        if self.rise != 0:
            exact_scale(self.rise, "rise")

    def length(self, step: int) -> float:
        """The length of step k = 1, …, K: γ_k, or k·γ_k if accelerated, with γ_k = step_size/(1 + rise·(1 − u)).

        u is the share of Σc² that is done after the step, c_k = 1, or k if accelerated: proofs are in
        `treering.theory.erm.steps`.
        """
        if self.schedule == "accelerated":
            behind = step * (step + 1) * (2 * step + 1) / (self.steps * (self.steps + 1) * (2 * self.steps + 1))
            return step * self.step_size / (1 + self.rise * (1 - behind))
        return self.step_size / (1 + self.rise * (1 - step / self.steps))


@dataclass(frozen=True, slots=True)
class Net:
    """The exponential mechanism over a net of the ball, drawn exactly: P(θ) ∝ e^{−Σ loss/``scale``}.

    The net: the points of a cubic lattice of step ``pitch`` within pitch·√d/2 of the ball, moved into it. Every model
    in the ball is within pitch·√d/2 of one of them. Losses are rounded to multiples of 1/``resolution``; the problem
    may have at most ``most_dimensions`` dimensions.
    """

    pitch: float
    scale: float
    resolution: int = 2**20
    most_dimensions: int = 3

    def __post_init__(self) -> None:
        exact_scale(self.pitch, "pitch")
        exact_scale(self.scale, "scale")
        _check_resolution(self.resolution)
        whole(self.most_dimensions, "most_dimensions")


@dataclass(frozen=True, slots=True)
class Refinement:
    """How a model of noisy moments is made finer: ``rounds`` steps, each from what the model leaves of the labels.

    A round counts the entries by the size of their residual y − ⟨θ, x⟩, with noise of scale ``errors``, and takes for
    its clip c the least power of two that few residuals exceed. Then it releases the sum of x times the residual
    clipped to ±c, with noise of scale ``slopes``·c, and takes a Newton step with the noisy moments. A model that fits
    well leaves small residuals, hence little noise. The objective of the noisy moments rises by at most ``allowed``.
    """

    rounds: int
    errors: float
    slopes: float
    allowed: float

    def __post_init__(self) -> None:
        _check_steps(self.rounds, "rounds")
        for name in ("errors", "slopes", "allowed"):
            exact_scale(getattr(self, name), name)


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """Squared loss only: the second moments of the entries plus discrete Gaussian noise, and the model that fits them.

    The moments are the means A of xxᵀ and b of yx. ``scale`` is that of the noise on their sums, in units of one
    entry. The model minimises ½θᵀÂθ − ⟨b̂, θ⟩ + λ/2·‖θ‖² + ``ridge``/2·‖θ − start‖² over the ball, Â being the noisy
    A with negative eigenvalues set to 0: a function of what was released. ``refinement``: it is then made finer.
    """

    scale: float
    ridge: float = 0.0
    start: Start = None
    refinement: Refinement | None = None

    def __post_init__(self) -> None:
        exact_scale(self.scale, "scale")
        if self.ridge != 0:
            exact_scale(self.ridge, "ridge")


Method: TypeAlias = Perturbation | Descent | Net | NoisyMoments


@dataclass(frozen=True, slots=True, eq=False)
class Minimise:
    """A request to minimise ``problem`` by ``method``.

    ``features`` says how the cells of a database become entries; None for a database of points, which are entries.
    """

    problem: Problem
    method: Method
    features: CellFeatures | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, Perturbation | Descent | Net | NoisyMoments):
            raise ParameterError("method", "must be a Perturbation, a Descent, a Net or NoisyMoments")
        if self.features is not None and self.features.dimension != self.problem.dimension:
            raise ParameterError("features", f"must have {counted(self.problem.dimension, 'number')} each")
        start = None if isinstance(self.method, Net) else self.method.start
        if start is not None and not (
            len(start) == self.problem.dimension and math.hypot(*start) <= self.problem.radius * (1 + 1e-9)
        ):
            raise ParameterError(
                "start", f"must be {counted(self.problem.dimension, 'number')}, a model within the ball"
            )


def _check_steps(steps: int, name: str) -> None:
    if whole(steps, name) > MOST_STEPS:
        raise ParameterError(name, f"must be at most {MOST_STEPS:,}, not {steps:,}")


def _check_resolution(resolution: int) -> None:
    whole(resolution, "resolution")
    if resolution & (resolution - 1) or resolution > 2**30:
        raise ParameterError("resolution", f"must be a power of two, at most 2^30, not {resolution}")
