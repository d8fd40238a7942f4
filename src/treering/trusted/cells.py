"""PRIVATE: exact counts of the rows in each cell of a universe: a cache, made from the rows for the mechanisms that
read a histogram, and kept current as rows arrive.

Up to `DENSE_CELLS` cells the counts are one dense array; above, only occupied cells are stored. Either way a query
reads the marginal over the attributes it names, which is computed once and then maintained: an append touches the new
rows only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from treering.arrays import Ints
from treering.domain.query import MAX_TABLE, Attributes, Query, evaluate, evaluate_many, widest
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.trusted.sealed import Sealed

DENSE_CELLS: Final = 2**24
"""Universes up to this many cells are kept as a dense array (128 MiB at the most)."""

MARGINAL_CELLS: Final = 2**22
"""The largest marginal that is cached for a query; one over more joint values is evaluated on the stored cells."""

CACHED_CELLS: Final = 2**25
"""The most entries that all cached marginals have together; the least recently used are dropped first."""

LARGEST_WEIGHT: Final = 2**31
"""The largest scale of a query's weights, which is the finest resolution of `Query.weighted`."""

MAX_COUNT: Final = 2**61
"""Size times weight scale stays below this, so that no sum of 64-bit integers can overflow."""


# -- which queries are counted -----------------------------------------------------------------------------------------


_CHECKED: Final = object()
"""The mark of a query that was checked. Queries do not change."""


def check_query(query: Query, schema: Schema) -> None:
    """Refuse a query whose weights are not integers 0 … scale, one for each joint value of attributes of ``schema``.

    The cost of an answer is derived from the query's ``spread``, so no query is taken at its word: neither one that was
    made by hand, past the functions that make queries, nor one of a subclass, which could give other weights each time.
    """
    if type(query) is not Query:
        raise QueryError(f"a query must be a Query, and no subclass, not a {type(query).__name__}")
    if query.schema is not schema and (type(query.schema) is not Schema or query.schema != schema):
        raise QueryError("the query is about another schema than this database")
    known = query.__dict__
    if known.get("_checked") is not _CHECKED:
        known["spread"] = _checked_spread(query, schema)
        known["_checked"] = _CHECKED


def _checked_spread(query: Query, schema: Schema) -> int:
    """The largest weight less the smallest of a query that fits the schema; raises `QueryError` for any other."""
    shape, masks, table = _checked_shape(query.attributes, schema), query.masks, query.table
    if table is not None and masks is None:
        return _checked_range(table, shape, query.scale)
    if table is not None or type(masks) is not tuple or len(masks) != len(shape) or query.scale != 1:
        raise QueryError("a query has a table of weights, or a tuple of sets, one for each attribute, and scale 1")
    for mask, size in zip(masks, shape, strict=True):
        if type(mask) is not np.ndarray or mask.dtype.char != "?" or mask.shape != (size,):
            raise QueryError("a set of a query is a boolean array, one flag for each value of its attribute")
    return 1 if shape else 0


def _checked_shape(attributes: tuple[int, ...], schema: Schema) -> list[int]:
    """The number of values of each attribute that a query names."""
    sizes = schema.shape
    last, shape = -1, []
    for position in attributes:
        if type(position) is not int or not last < position < len(sizes):
            raise QueryError(f"the attributes of a query are increasing positions within 0..{len(sizes) - 1}")
        last = position
        shape.append(sizes[position])
    if type(attributes) is not tuple:
        raise QueryError("the attributes of a query are a tuple of positions")
    return shape


def _checked_range(table: Ints, shape: list[int], scale: int) -> int:
    """The largest weight of a table less the smallest."""
    if type(scale) is not int or not 1 <= scale <= LARGEST_WEIGHT:
        raise QueryError("the scale of a query is an integer from 1 to 2^31")
    if type(table) is not np.ndarray or table.dtype != np.int64 or [*table.shape] != shape or table.size > MAX_TABLE:
        raise QueryError("the weights of a query are 64-bit integers, one for each joint value of its attributes")
    least, most = int(table.min()), int(table.max())
    if least < 0 or most > scale:
        raise QueryError(f"the weights of a query lie within 0 and its scale, {scale:,}")
    return most - least


# -- the counts --------------------------------------------------------------------------------------------------------


class _Store(Protocol):
    """Storage for the counts of all cells: dense or sparse."""

    def add(self, cells: Ints, counts: Ints | None) -> None: ...

    def marginal(self, attributes: Attributes) -> Ints: ...

    def count(self, query: Query) -> int: ...


class Cells(Sealed):
    """PRIVATE: the exact counts of all cells of one growing database."""

    __slots__ = ("_marginals", "_schema", "_size", "_store")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._size = 0
        self._store: _Store = _Dense(schema) if schema.cells <= DENSE_CELLS else _Sparse(schema)
        self._marginals: OrderedDict[Attributes, Ints] = OrderedDict()

    def add(self, cells: Ints, counts: Ints | None = None) -> None:
        """Count rows: one in each of these cells, or ``counts`` in each."""
        self._store.add(cells, counts)
        for attributes, marginal in self._marginals.items():
            _tally(marginal.reshape(-1), project(self._schema, cells, attributes), counts)
        self._size += len(cells) if counts is None else int(counts.sum())

    def marginal(self, attributes: Attributes) -> Ints:
        """PRIVATE: the exact counts over the joint values of some attributes."""
        if attributes in self._marginals:
            self._marginals.move_to_end(attributes)
            return self._marginals[attributes]
        marginal = self._store.marginal(attributes)
        self._marginals[attributes] = marginal
        while len(self._marginals) > 1 and sum(each.size for each in self._marginals.values()) > CACHED_CELLS:
            self._marginals.popitem(last=False)
        return marginal

    def count(self, query: Query) -> int:
        """PRIVATE: a query's exact weighted count, in units of 1/scale rows."""
        if self._size * query.scale >= MAX_COUNT:
            raise QueryError(f"size times the query's resolution must stay below 2^61: use one below {query.scale}")
        if query.joint > MARGINAL_CELLS:
            return self._store.count(query)
        return int(evaluate(query, self.marginal(query.attributes)))

    def count_many(self, queries: Sequence[Query]) -> Ints:
        """PRIVATE: `count` for a batch."""
        scale = max({query.scale for query in queries}, default=1)
        if len(queries) == 1 or widest(queries) > MARGINAL_CELLS or self._size * scale >= MAX_COUNT:
            return np.array([self.count(query) for query in queries], dtype=np.int64)
        return evaluate_many(queries, self.marginal, np.int64)


class _Dense:
    """One counter per cell."""

    def __init__(self, schema: Schema) -> None:
        self._counts = np.zeros(schema.shape, dtype=np.int64)

    def add(self, cells: Ints, counts: Ints | None) -> None:
        _tally(self._counts.reshape(-1), cells, counts)

    def marginal(self, attributes: Attributes) -> Ints:
        others = tuple(axis for axis in range(self._counts.ndim) if axis not in attributes)
        # Always a new array, because the cache updates it in place.
        return np.array(self._counts.sum(axis=others, dtype=np.int64) if others else self._counts)

    def count(self, query: Query) -> int:
        return int(evaluate(query, self.marginal(query.attributes)))


class _Sparse:
    """Occupied cells only: sorted runs of (cell, count), merged as in a log-structured tree.

    Each run is at least twice as long as the next, so an append costs amortised O(rows · log), and nothing is as large
    as the universe.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._runs: list[tuple[Ints, Ints]] = []

    def add(self, cells: Ints, counts: Ints | None) -> None:
        # Merging sorts, and brings equal cells together.
        run = merged([(cells, np.ones(len(cells), dtype=np.int64) if counts is None else counts)])
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            run = merged([self._runs.pop(), run])
        self._runs.append(run)

    def marginal(self, attributes: Attributes) -> Ints:
        shape = tuple(self._schema.shape[position] for position in attributes)
        marginal = np.zeros(shape, dtype=np.int64)
        for cells, counts in self._runs:
            np.add.at(marginal.reshape(-1), project(self._schema, cells, attributes), counts)
        return marginal

    def count(self, query: Query) -> int:
        """By a scan of the occupied cells, one attribute at a time: for conjunctions over a joint domain too large to
        tabulate."""
        assert query.masks is not None  # a table never has more joint values than a cached marginal
        total = 0
        for cells, counts in self._runs:
            match = np.ones(len(cells), dtype=np.bool_)
            for position, mask in zip(query.attributes, query.masks, strict=True):
                match &= mask[project(self._schema, cells, (position,))]
            total += int(counts[match].sum())
        return total


def merged(runs: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """The places of some runs, increasing, each once, and the sum of the numbers at each."""
    places, inverse = np.unique(np.concatenate([run[0] for run in runs]), return_inverse=True)
    sums = np.zeros(len(places), dtype=np.int64)
    np.add.at(sums, inverse, np.concatenate([run[1] for run in runs]))
    return places, sums


def project(schema: Schema, cells: Ints, attributes: Attributes) -> Ints:
    """The flat index of each cell within the marginal over some attributes."""
    index = np.zeros(len(cells), dtype=np.int64)
    stride, last = 1, len(schema.shape)
    for position in reversed(attributes):
        below = 1
        for size in schema.shape[position + 1 : last]:
            below *= size
        # Divide off the digits of the attributes behind this one, then take its own.
        cells = cells // below if below > 1 else cells
        cells, code = np.divmod(cells, schema.shape[position])
        index += stride * code
        stride *= schema.shape[position]
        last = position
    return index


def _tally(counts: Ints, index: Ints, numbers: Ints | None) -> None:
    """Add one, or these numbers, to ``counts`` at each index: if there are few, in time O(number of indices), however
    many counts there are."""
    if numbers is not None:
        np.add.at(counts, index, numbers)
    elif len(index) * 4 < len(counts):
        np.add.at(counts, index, 1)
    else:
        counts += np.bincount(index, minlength=len(counts))
