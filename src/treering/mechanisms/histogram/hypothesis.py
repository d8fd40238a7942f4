"""The public histogram: a mechanism's estimate of the data, a distribution y over all N cells; and rows drawn from it.

Everything here is public. y is kept as slope·z + level, for one vector z: growth changes two numbers and touches
nothing of size N, and a marginal of y is slope times that of z plus a constant, so growth leaves the cached marginals
of z valid. A step multiplies a block of z, or all of z if y has grown since the last step, and the cached marginals are
updated with it.

The last section makes synthetic rows of cells: an Arrow table in the schema's own values.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.domain.attribute import BELOW, Attribute, Bins, Categories, Integers, Outside, Value
from treering.domain.calendar import Dates
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query, evaluate, evaluate_many, widest
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, QueryError
from treering.mechanisms.histogram.blocks import MARGINAL_CELLS, Axes, Sets, Tabulated, zeros
from treering.mechanisms.histogram.step import Spectrum, Step, projection, tilting
from treering.words import counted

__all__ = ["LEAST_WEIGHT", "MAX_CELLS", "REFRESH", "Hypothesis", "KeptHistogram", "Step"]

MAX_CELLS: Final = 2**26
"""The most cells of a hypothesis: one vector of doubles, half a gigabyte."""

REFRESH: Final = 1000
"""After this many steps all sums are computed anew, so that rounding errors do not add up."""

LEAST_WEIGHT: Final = 1e-100
"""The least weight of the uniform distribution in a warm start."""

_MODERATE_RATIO: Final = 1e20
_MODERATE_TOTAL: Final = 1e30
"""Only the block is multiplied while its ratio and the sum of z are within these factors of one; otherwise all of z is
rescaled."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptHistogram:
    """A histogram as it is stored, bit for bit: y = kept·vector/total + even/N, or uniform without a vector."""

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
                f"schema has {schema.cells:,} cells: use coarser bins(), fewer attributes, or Rings, which count only "
                "what is asked"
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
        """The latest counting query and its two masses: a hard query is answered first, and then a step is planned."""

    @classmethod
    def warm(cls, schema: Schema, distribution: npt.ArrayLike, uniform_weight: float) -> Hypothesis:
        """A hypothesis that starts from a public distribution, mixed with the uniform one: RE(x‖y) ≤ log(N/u) for all
        data x.

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
        return f"Hypothesis({counted(self.schema.cells, 'cell')}, {counted(self._steps, 'step')})"

    # -- reading ------------------------------------------------------------------------------------------------------

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """The joint distribution of some attributes, named in the schema's order: an array with one axis for each."""
        positions = self.schema.positions(attributes)
        if isinstance(attributes, str) or [self.schema.names[position] for position in positions] != list(attributes):
            raise QueryError("attributes must be a list of names, each once, in the schema's order")
        return self._marginal(positions)

    def answer(self, query: Question) -> float:
        """The query's answer on y, a share in [0, 1]; exact for a constant query."""
        asked = understand(query, self.schema)
        if asked.masks:
            return min(1.0, self._sides(asked)[1])
        return min(1.0, float(evaluate(asked, self._marginal(asked.attributes))) / asked.scale)

    def answer_many(self, queries: Iterable[Question]) -> Floats:
        """`answer` for a batch: one matrix product for each set of attributes."""
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
        number of rows, rounded up or down. A row in an attribute's cell for unlisted values gets one such value
        (`stand_in`). Takes O(N + rows·log rows).
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise ParameterError("rows", f"must be an integer of at least 0, not {rows!r}")
        places = (np.arange(rows) + 0.5) / rows if generator is None else np.sort(generator.random(rows))
        vector = None if self._vector is None else self._vector.cells
        cells = cells_at(places, self.schema.cells, vector, self._slope, self._even / self.schema.cells)
        if generator is not None:
            generator.shuffle(cells)
        return rows_of(self.schema, cells)

    def fingerprint(self) -> str:
        """A hash of the histogram as it is stored, bit for bit. O(N)."""
        state = hashlib.sha256(repr((self._total, self._kept, self._even, self._steps)).encode())
        if self._vector is not None:
            state.update(self._vector.cells.data)
        return state.hexdigest()

    def keep(self) -> KeptHistogram:
        """A copy of everything that `fingerprint` covers. O(N)."""
        vector = None if self._vector is None else self._vector.cells.copy()
        return KeptHistogram(vector, self._total, self._kept, self._even, self._steps)

    def restore(self, kept: KeptHistogram) -> None:
        """Take on the state that `keep` returned: from here on equal steps give equal bits."""
        if kept.vector is not None and kept.vector.shape != (self.schema.cells,):
            raise ParameterError("kept", f"must have a number for each of the {counted(self.schema.cells, 'cell')}")
        self._vector = None
        if kept.vector is not None:
            self._vector = Tabulated(zeros(self.schema.cells), self._shape)
            self._vector.cells[:] = kept.vector
        self._total, self._kept, self._even, self._steps = kept.total, kept.kept, kept.even, kept.steps
        self._latest = None

    # -- moving -------------------------------------------------------------------------------------------------------

    def grow(self, share: float) -> None:
        """y ← (1 − share)·y + share/N: this share of the data is new, and nothing is known about it. O(1)."""
        if not 0 <= share < 1:
            raise ParameterError("share", f"must lie in [0, 1), not be {share}")
        kept, even = (1 - share) * self._kept, (1 - share) * self._even + share
        # The larger one is computed from the smaller: their sum stays one, and neither loses precision.
        self._kept, self._even = (1 - even, even) if even < kept else (kept, 1 - kept)
        self._latest = None

    def reachable(self, query: Query, target: float) -> bool:
        """Whether a step to ``target`` can be planned: some histogram with all cells positive has this answer."""
        low, high = understand(query, self.schema).range
        return low < target < high

    def plan(self, query: Query, target: float) -> Step:
        """The step that makes ``query`` answer ``target``, strictly between the least and the most it can answer."""
        return projection(query, self._spectrum(query), float(target))

    def exponential_step(self, query: Query, rate: float, *, complement: bool) -> Step:
        """The paper's update, as a step: y ← y·e^{−rate·r}, normalised, with r the query or its complement."""
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
        """The values that a query takes, and the mass of y at each; each mass is summed, never 1 minus the others."""
        self._movable(query)
        if query.counting:
            return np.array([0.0, 1.0]), np.array(self._sides(query))
        weights, index, counts = np.unique(query.weights(), return_inverse=True, return_counts=True)
        # Not by bincount, which adds sequentially: the sum of a million equal terms would be off by 10^-11.
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
        """Whether it is enough to multiply the block: z stays within the range where floats are precise."""
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


# -- synthetic rows ----------------------------------------------------------------------------------------------------


_SLICE: Final = 2**20
"""How many cells are searched at a time."""

_TYPES: Final = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), float: pa.float64(), date: pa.date32()}


def cells_at(places: Floats, cells: int, vector: Floats | None, slope: float, level: float) -> Ints:
    """The cells at these increasing quantiles (``places``, in [0, 1]) of slope·vector + level, or of the uniform
    distribution if there is no vector."""
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
    """One row for each of these cells, with a value of the cell in each column.

    A category or an integer is written as itself, a bin as the number in its middle, a missing value as null, and the
    cell of unlisted values as one such value (`stand_in`): encoded again, the rows give the same cells.
    """
    columns: dict[str, pa.Array] = {}
    for name, attribute in reversed(list(schema.attributes.items())):
        cells, codes = np.divmod(cells, attribute.size)
        columns[name] = values_of(attribute).take(pa.array(codes))
    return pa.table({name: columns[name] for name in schema.names})


def stand_in(attribute: Attribute, cell: Outside) -> Value:
    """A value that the attribute does not list, for one of its cells of such values.

    For texts it is OTHER (followed by as many underscores as it takes to be unlisted), for integer categories the first
    from 0 that is unlisted, for ranges the next integer below or above, the first edge minus one, the last edge plus
    one, the day before the first period or the one after the last. Where both booleans are listed no row can be in that
    cell, and the value is null.
    """
    if isinstance(attribute, Integers):
        return attribute.low - 1 if cell is BELOW else attribute.high + 1
    if isinstance(attribute, Bins):
        return attribute.edges[0] - 1 if cell is BELOW else attribute.edges[-1] + 1
    if isinstance(attribute, Dates):
        return attribute.edges[0] - timedelta(days=1) if cell is BELOW else attribute.edges[-1]
    assert isinstance(attribute, Categories)
    listed = set(attribute.values)
    if isinstance(attribute.values[0], bool):
        return next((value for value in (False, True) if value not in listed), None)
    if isinstance(attribute.values[0], int):
        return next(value for value in count() if value not in listed)
    return next(text for text in ("OTHER" + "_" * length for length in count()) if text not in listed)


def values_of(attribute: Attribute) -> pa.Array:
    """The value of each code."""
    values = [attribute.value(code) for code in range(attribute.size)]
    for place, cell in enumerate(attribute.outside, start=attribute.regular):
        values[place] = stand_in(attribute, cell)
    return pa.array(values, _TYPES[type(attribute.regular_value(0))])
