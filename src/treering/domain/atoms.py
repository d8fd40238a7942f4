"""The atoms of a class of queries: the cells that no query of the class tells apart, each set of them as one.

A class over a few attributes of a huge universe has few atoms. They are found over the joint values of the attributes
that the class names, never over all cells. All of it is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.arrays import Ints
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError

MOST_JOINT: Final = 2**20
"""The most joint values of the attributes that a class may name."""

MOST_WEIGHTS: Final = 2**28
"""The most weights that are looked at: joint values times queries."""

MOST_KEPT: Final = 2**26
"""The most weights that are kept: atoms times queries."""

_ROOM: Final = 2**62
"""Labels stay below this."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """A partition of the universe such that each query weighs all cells of a part, an *atom*, the same.

    It is the coarsest one: two atoms differ in the weight of some query. Atoms are numbered by their first cells.
    """

    schema: Schema
    attributes: tuple[int, ...]
    """The attributes that the class names."""
    queries: tuple[Query, ...]
    """The class: each query that is not constant, once, in the order given."""
    labels: Ints
    """The atom of each joint value of the attributes."""
    cells: tuple[int, ...]
    """The first cell of each atom, increasing."""
    weights: Ints
    """What each query (a row) weighs on each atom (a column), in units of 1/scale."""

    @property
    def number(self) -> int:
        """How many atoms there are."""
        return len(self.cells)

    def of(self, cells: Sequence[int]) -> Ints:
        """The atom of each cell."""
        index = np.zeros(len(cells), dtype=np.int64)
        given = np.asarray(cells, dtype=np.int64)
        for position in self.attributes:
            size = self.schema.shape[position]
            index = index * size + given // _stride(self.schema, position) % size
        return np.asarray(self.labels[index], dtype=np.int64)


def collapse(queries: Sequence[Query]) -> Atoms:
    """The atoms of a class of queries of one schema.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> winter, jfk = Query.where(schema, month=[12, 1, 2]), Query.where(schema, origin="JFK")
    >>> atoms = collapse([winter, jfk])
    >>> atoms.number, atoms.cells
    (4, (0, 2, 12, 14))
    """
    schema = _schema(queries)
    distinct = tuple(query for query in dict.fromkeys(queries) if not query.constant)
    attributes = tuple(sorted({position for query in distinct for position in query.attributes}))
    joint = math.prod(schema.shape[position] for position in attributes)
    _check_joint(schema, attributes, joint, len(distinct))
    labels = _labels(distinct, attributes, joint)
    first = np.unique(labels, return_index=True)[1]
    if len(first) * len(distinct) > MOST_KEPT:
        raise ParameterError(
            "queries",
            f"make {len(first):,} atoms (sets of cells that no query tells apart) for {len(distinct):,} queries; "
            f"their product may be at most {MOST_KEPT:,}: ask fewer queries",
        )
    weights = np.empty((len(distinct), len(first)), dtype=np.int64)
    for row, query in enumerate(distinct):
        weights[row] = _column(query, attributes)[first]
    cells = _first_cells(schema, attributes, first)
    return Atoms(schema, attributes, distinct, labels, tuple(cells.tolist()), weights)


def _schema(queries: Sequence[Query]) -> Schema:
    if not queries:
        raise ParameterError("queries", "must name at least one query")
    for query in queries:
        if not isinstance(query, Query):
            raise ParameterError("queries", f"must be queries, not {type(query).__name__}")
    schema = queries[0].schema
    if any(query.schema is not schema and query.schema != schema for query in queries):
        raise ParameterError("queries", "must be about one schema")
    return schema


def _check_joint(schema: Schema, attributes: tuple[int, ...], joint: int, queries: int) -> None:
    names = ", ".join(schema.names[position] for position in attributes)
    if joint > MOST_JOINT:
        raise ParameterError(
            "queries", f"name {names}, with {joint:,} joint values; at most {MOST_JOINT:,} can be told apart"
        )
    if joint * queries > MOST_WEIGHTS:
        raise ParameterError(
            "queries",
            f"are {queries:,} over {joint:,} joint values of {names}; their product may be at most {MOST_WEIGHTS:,}",
        )


def _labels(queries: Sequence[Query], attributes: tuple[int, ...], joint: int) -> Ints:
    """A number for each joint value, equal exactly where all weights are: 0, 1, 2, … by first occurrence."""
    labels, bound = np.zeros(joint, dtype=np.int64), 1
    for query in queries:
        base = query.scale + 1
        if bound * base > _ROOM:
            labels, bound = _renumbered(labels)
        labels, bound = labels * base + _column(query, attributes), bound * base
    return _renumbered(labels)[0]


def _renumbered(labels: Ints) -> tuple[Ints, int]:
    """The same partition, numbered by first occurrence, and how many numbers there are."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse], len(first)


def _column(query: Query, attributes: tuple[int, ...]) -> Ints:
    """A query's weights over the joint values of these attributes, which are its own and perhaps more."""
    if query.attributes == attributes:
        return query.weights().reshape(-1)
    sizes = query.schema.shape
    own = tuple(sizes[position] if position in query.attributes else 1 for position in attributes)
    full = tuple(sizes[position] for position in attributes)
    return np.broadcast_to(query.weights().reshape(own), full).reshape(-1)


def _stride(schema: Schema, position: int) -> int:
    """How far apart two cells are that differ by one in the code of this attribute alone."""
    return math.prod(schema.shape[position + 1 :])


def _first_cells(schema: Schema, attributes: tuple[int, ...], joint: Ints) -> Ints:
    """The first cell with each joint value: all other attributes have code 0."""
    cells, rest = np.zeros(len(joint), dtype=np.int64), joint
    for position in reversed(attributes):
        rest, code = np.divmod(rest, schema.shape[position])
        cells += code * _stride(schema, position)
    return cells
