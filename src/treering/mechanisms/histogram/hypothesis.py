"""The public histogram: what a mechanism believes about the data, a distribution y over all N cells.

Everything here is public. y is kept as slope·z + level, for one vector z: growth is two numbers and touches nothing
of size N, and a marginal of y is the same image of z's marginal, so growth leaves the cached ones right. A hard query
multiplies a block of z, or all of it if y has grown since, and the cached marginals follow.

The public histogram → rows: an Arrow table in the schema's own values.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.domain.attribute import Attribute, Bins, Categories, Integers, Value
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query, evaluate, evaluate_many, widest
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, QueryError
from treering.mechanisms.histogram.blocks import MARGINAL_CELLS, Axes, Sets, Tabulated, zeros
from treering.mechanisms.histogram.step import Spectrum, Step, projection, tilting

__all__ = ["LEAST_WEIGHT", "MAX_CELLS", "REFRESH", "Hypothesis", "KeptHistogram", "Step"]

MAX_CELLS: Final = 2**26
"""The largest universe that a hypothesis is kept for: one vector of doubles, half a gigabyte."""

REFRESH: Final = 1000
"""After so many steps all sums are taken anew, so that rounding errors do not add up."""

LEAST_WEIGHT: Final = 1e-100
"""The least weight of the uniform distribution in a warm start."""

_MODERATE_RATIO: Final = 1e20
_MODERATE_TOTAL: Final = 1e30
"""A block is multiplied alone while its ratio and the sum of z are within these factors of one; else z is set anew."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptHistogram:
    """A histogram as it is kept, bit for bit: y = kept·vector/total + even/N; no vector, and y is uniform."""

    vector: Floats | None
    total: float
    kept: float
    even: float
    steps: int


class Hypothesis:
    """A public distribution y over the cells of a schema, uniform at first.

    `grow` mixes it with the uniform distribution; `project` moves it until a query has a given answer: multiplicative
    weights (Hardt and Rothblum 2010) with the entropic projection in place of a fixed rate. A step is planned, then
    applied: equal steps and growths in equal order give equal bits, whatever was asked in between. Cells stay positive,
    and their total within 10^-12 of one, however many steps there are.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK", "LGA"), "month": integers(1, 12)})
    >>> hypothesis = Hypothesis(schema)
    >>> winter = Query.where(schema, month=[12, 1, 2])
    >>> hypothesis.answer(winter)
    0.25
    >>> step = hypothesis.project(winter, 0.4)
    >>> round(hypothesis.answer(winter), 12)
    0.4
    >>> hypothesis.grow(0.5)
    >>> hypothesis.marginal(["month"])[:3].round(6).tolist()
    [0.108333, 0.108333, 0.075]
    """

    def __init__(self, schema: Schema) -> None:
        if schema.cells > MAX_CELLS:
            raise GuaranteeError(
                f"the public histogram has a number for each cell, and room for {MAX_CELLS:,} (2^26) of them; this "
                f"schema has {schema.cells:,} cells: use coarser bins() or fewer attributes"
            )
        self.schema: Final = schema
        # Axes are the attributes with more than one value.
        positions = [position for position, size in enumerate(schema.shape) if size > 1]
        self._axis = {position: axis for axis, position in enumerate(positions)}
        self._shape = tuple(schema.shape[position] for position in positions)
        # y = kept·z/total + even/N with kept + even = 1. Until the first step there is no z, and y is uniform.
        self._vector: Tabulated | None = None
        self._total, self._kept, self._even = 1.0, 0.0, 1.0
        self._steps = 0
        self._latest: tuple[Query, tuple[float, float]] | None = None
        """The latest query's sides: who is answered, and then surprised, plans a step with the same."""

    @classmethod
    def warm(cls, schema: Schema, distribution: npt.ArrayLike, uniform_weight: float) -> Hypothesis:
        """Start from any public distribution, mixed with the uniform one: then RE(x‖y) ≤ log(N/u) for all data x.

        ``distribution`` has one non-negative number for each cell, of any sum; ``uniform_weight`` is u.
        """
        hypothesis = cls(schema)
        if not LEAST_WEIGHT <= uniform_weight <= 1:
            raise ParameterError("uniform_weight", f"must lie between {LEAST_WEIGHT} and 1, not be {uniform_weight}")
        given = np.asarray(distribution, dtype=np.float64).reshape(-1)
        if len(given) != schema.cells or not np.all((given >= 0) & (given < np.inf)) or not given.any():
            raise ParameterError("distribution", f"must be {schema.cells:,} finite non-negative numbers, not all zero")
        vector = Tabulated(np.divide(given, given.max(), out=zeros(schema.cells)), hypothesis._shape)
        hypothesis._vector, hypothesis._total = vector, vector.total()
        hypothesis._kept, hypothesis._even = 1 - uniform_weight, float(uniform_weight)
        return hypothesis

    @property
    def steps(self) -> int:
        """How many steps have been applied."""
        return self._steps

    def __repr__(self) -> str:
        return f"Hypothesis({self.schema.cells:,} cells, {self._steps:,} steps)"

    # -- reading ------------------------------------------------------------------------------------------------------

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """The distribution of some attributes together, named in the schema's order: one axis for each."""
        positions = self.schema.positions(attributes)
        if isinstance(attributes, str) or [self.schema.names[position] for position in positions] != list(attributes):
            raise QueryError("attributes must be a list of names, each once, in the schema's order")
        return self._marginal(positions)

    def answer(self, query: Question) -> float:
        """The query's answer on y, in [0, 1]; exact for a constant query."""
        asked = understand(query, self.schema)
        if asked.masks:
            return min(1.0, self._sides(asked)[1])
        return min(1.0, float(evaluate(asked, self._marginal(asked.attributes))) / asked.scale)

    def answer_many(self, queries: Iterable[Question]) -> Floats:
        """`answer` for a batch: one product for each set of attributes."""
        asked = understand_all(queries, self.schema)
        if len(asked) == 1 or widest(asked) > MARGINAL_CELLS:
            return np.array([self.answer(query) for query in asked])
        values = evaluate_many(asked, self._marginal, np.float64)
        shares: Floats = np.minimum(values / np.array([query.scale for query in asked]), 1.0)
        return shares

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """Synthetic rows: an Arrow table in the schema's own values, which encode to the cells drawn.

        With a generator the rows are independent draws from y. Without one they are a systematic sample, the same each
        time: the cells at (i + ½)/rows of the cumulative distribution, in order, so that every cell has its expected
        number of rows, rounded up or down. Values not listed are written as one that is not: OTHER, one more than the
        largest integer, one more than the last edge. Takes O(N + rows·log rows).
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise ParameterError("rows", f"must be an integer of at least 0, not {rows!r}")
        places = (np.arange(rows) + 0.5) / max(1, rows) if generator is None else np.sort(generator.random(rows))
        vector = None if self._vector is None else self._vector.cells
        cells = cells_at(places, self.schema.cells, vector, self._slope, self._even / self.schema.cells)
        if generator is not None:
            generator.shuffle(cells)
        return rows_of(self.schema, cells)

    def fingerprint(self) -> str:
        """A hash of the histogram as it is kept, bit for bit. O(N)."""
        state = hashlib.sha256(repr((self._total, self._kept, self._even, self._steps)).encode())
        if self._vector is not None:
            state.update(self._vector.cells.data)
        return state.hexdigest()

    def keep(self) -> KeptHistogram:
        """A copy of all that `fingerprint` is about. O(N)."""
        vector = None if self._vector is None else self._vector.cells.copy()
        return KeptHistogram(vector, self._total, self._kept, self._even, self._steps)

    def restore(self, kept: KeptHistogram) -> None:
        """Become what was kept: from here on equal steps give equal bits."""
        if kept.vector is not None and kept.vector.shape != (self.schema.cells,):
            raise ParameterError("kept", f"must have a number for each of the {self.schema.cells:,} cells")
        self._vector = None
        if kept.vector is not None:
            self._vector = Tabulated(zeros(self.schema.cells), self._shape)
            self._vector.cells[:] = kept.vector
        self._total, self._kept, self._even, self._steps = kept.total, kept.kept, kept.even, kept.steps
        self._latest = None

    # -- moving -------------------------------------------------------------------------------------------------------

    def grow(self, share: float) -> None:
        """y ← (1 − share)·y + share/N: a share of the data is new, and nothing is known about it. O(1)."""
        if not 0 <= share < 1:
            raise ParameterError("share", f"must lie in [0, 1), not be {share}")
        kept, even = (1 - share) * self._kept, (1 - share) * self._even + share
        # The larger one from the smaller one: their sum stays one, and neither loses precision.
        self._kept, self._even = (1 - even, even) if even < kept else (kept, 1 - kept)
        self._latest = None

    def reachable(self, query: Query, target: float) -> bool:
        """Whether some histogram with all cells positive answers ``target``: whether a step there can be planned."""
        low, high = understand(query, self.schema).range
        return low < target < high

    def plan(self, query: Query, target: float) -> Step:
        """The step that makes ``query`` answer ``target``, strictly between the least and the most it can answer."""
        return projection(query, self._spectrum(query), float(target))

    def exponential_step(self, query: Query, rate: float, *, complement: bool) -> Step:
        """The paper's update, planned: y ← y·e^{−rate·r}, normalised, with r the query or its complement."""
        if not 0 < rate < math.inf:
            raise ParameterError("rate", f"must be positive and finite, not {rate}")
        return tilting(query, self._spectrum(query), -float(rate) if complement else float(rate))

    def project(self, query: Query, target: float) -> Step:
        """`plan` a step and `apply` it."""
        step = self.plan(query, target)
        self.apply(step)
        return step

    def apply(self, step: Step) -> None:
        """Take a step that was planned for the histogram as it is now (perhaps in another process: steps are data)."""
        query = self._movable(step.query)
        vector = self._vector or Tabulated(zeros(self.schema.cells), self._shape)
        if self._even == 0 and query.masks is not None and self._moderate(step):
            outside, inside = step.factors
            vector.scale_block(self._sets(query), inside / outside)
            self._total /= outside
        else:
            self._reweigh(vector, query, step.factors)
            self._total, self._kept, self._even = 1.0, 1.0, 0.0
        self._vector = vector
        self._latest = None
        self._steps += 1
        if self._steps % REFRESH == 0:
            vector.forget()
            self._total = vector.total()

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _slope(self) -> float:
        return self._kept / self._total

    def _movable(self, query: Query) -> Query:
        if understand(query, self.schema).constant:
            raise QueryError("every row answers this query the same: the histogram cannot be moved along it")
        return query

    def _sets(self, query: Query) -> Sets:
        assert query.masks is not None
        return {self._axis[position]: mask for position, mask in zip(query.attributes, query.masks, strict=True)}

    def _marginal(self, positions: Axes) -> Floats:
        """The distribution of the attributes at these positions: a new array."""
        shape = [self.schema.shape[position] for position in positions]
        joint = math.prod(shape)
        if self._vector is None or joint == 1:
            return np.full(shape, 1 / joint)
        sums = self._vector.sums(tuple(self._axis[position] for position in positions if position in self._axis))
        return (self._slope * sums + self._even / joint).reshape(shape)

    def _spectrum(self, query: Query) -> Spectrum:
        """The values that a query takes, and the mass of y at each: summed by itself, never one less the rest."""
        self._movable(query)
        if query.counting:
            return np.array([0.0, 1.0]), np.array(self._sides(query))
        weights, index, counts = np.unique(query.weights(), return_inverse=True, return_counts=True)
        # Not by bincount, which adds one after the other: a million equal terms would be off by 10^-11.
        grouped = self._marginal(query.attributes).reshape(-1)[np.argsort(index, axis=None, kind="stable")]
        return weights / query.scale, np.add.reduceat(grouped, np.cumsum(counts) - counts)

    def _sides(self, query: Query) -> tuple[float, float]:
        """The mass of y where a counting query is 0, and where it is 1."""
        if self._latest is None or self._latest[0] is not query:
            self._latest = query, self._summed(query)
        return self._latest[1]

    def _summed(self, query: Query) -> tuple[float, float]:
        if query.masks is None:
            matching, marginal = query.weights() == 1, self._marginal(query.attributes)
            return float(marginal[~matching].sum()), float(marginal[matching].sum())
        inside, outside = (0.0, 0.0) if self._vector is None else self._vector.block_sums(self._sets(query))
        inside, outside = self._slope * inside, self._slope * outside
        if self._even:
            members = math.prod(int(mask.sum()) for mask in query.masks)
            inside += self._even * (members / query.joint)
            outside += self._even * ((query.joint - members) / query.joint)
        return outside, inside

    def _moderate(self, step: Step) -> bool:
        """Whether the block can be multiplied alone, with all of z staying where floats are precise."""
        outside, inside = step.factors
        if outside == 0 or not 1 / _MODERATE_TOTAL <= self._total / outside <= _MODERATE_TOTAL:
            return False
        return 1 / _MODERATE_RATIO <= inside / outside <= _MODERATE_RATIO

    def _reweigh(self, vector: Tabulated, query: Query, factors: Sequence[float]) -> None:
        """z ← y·factor."""
        if query.masks is not None:
            outside, inside = factors
            vector.reweigh_block(self._sets(query), inside=inside, outside=outside, slope=self._slope, even=self._even)
            return
        axes = tuple(self._axis[position] for position in query.attributes)
        weights, index = np.unique(query.weights(), return_inverse=True)
        if len(factors) != len(weights):
            raise ParameterError(
                "factors", f"must be as many as the query's weights, {len(weights)}, not {len(factors)}"
            )
        vector.reweigh_table(axes, np.array(factors)[index], slope=self._slope, even=self._even)


# -- synthetic ---------------------------------------------------------------------------------------------------------


_SLICE: Final = 2**20
"""So many cells are looked at together."""

_TYPES: Final = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), float: pa.float64()}


def cells_at(places: Floats, cells: int, vector: Floats | None, slope: float, level: float) -> Ints:
    """The cells at increasing places of a cumulative distribution: slope·vector + level, or the uniform one."""
    if vector is None:
        return np.minimum(places * cells, cells - 1).astype(np.int64)
    found = np.empty(len(places), dtype=np.int64)
    done, below = 0, 0.0
    for start in range(0, cells, _SLICE):
        shares = slope * vector[start : start + _SLICE] + level
        above = below + float(shares.sum())
        end = int(np.searchsorted(places, above)) if start + len(shares) < cells else len(places)
        within = np.searchsorted(np.cumsum(shares), places[done:end] - below, side="right")
        found[done:end] = start + np.minimum(within, len(shares) - 1)
        done, below = end, above
    return found


def rows_of(schema: Schema, cells: Ints) -> pa.Table:
    """One row for each cell, with a value that belongs to the cell in each column.

    Categories and integers are themselves, a bin is the number in its middle, a missing value is null, and the cell of
    values not listed is a value that is not (`stand_in`): encoded again, the rows give the same cells.
    """
    columns: dict[str, pa.Array] = {}
    for name, attribute in reversed(list(schema.attributes.items())):
        cells, codes = np.divmod(cells, attribute.size)
        columns[name] = _values(attribute).take(pa.array(codes))
    return pa.table({name: columns[name] for name in schema.names})


def stand_in(attribute: Attribute) -> Value:
    """A value that is not listed, for the cell of all that are not.

    For texts it is OTHER (with as many underscores as it takes), for a range of integers the one after, for integer
    categories the first one unused, for bins a number beyond the last edge. Where both booleans are listed no row can
    be in that cell: there it is null.
    """
    if isinstance(attribute, Integers):
        return attribute.high + 1
    if isinstance(attribute, Bins):
        return attribute.edges[-1] + 1
    assert isinstance(attribute, Categories)
    listed = set(attribute.values)
    if isinstance(attribute.values[0], bool):
        return next((value for value in (False, True) if value not in listed), None)
    if isinstance(attribute.values[0], int):
        return next(value for value in count() if value not in listed)
    return next(text for text in ("OTHER" + "_" * length for length in count()) if text not in listed)


def _values(attribute: Attribute) -> pa.Array:
    """The value of each code."""
    values = [attribute.value(code) for code in range(attribute.size)]
    if attribute.other:
        values[attribute.regular] = stand_in(attribute)
    return pa.array(values, _TYPES[type(attribute.regular_value(0))])
