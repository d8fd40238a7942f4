"""The candidates of SmallDB: all synthetic databases of a number of rows, up to what a class of queries can tell apart.

*Atoms.* The atoms of a class are its sets of cells that no query of the class tells apart. A class over a few
attributes of a huge universe has few atoms. They are found over the joint values of the attributes that the class
names, never over all cells.

A *candidate* is a multiset of atoms. Which ways there are to draw one exactly, and up to which number of rows, follows
from the class alone: it is public, and known before anything private is touched.

- *Prefixes and intervals.* The atoms stand in a circle, in the order of their first cells, and each query is an *arc*:
  consecutive atoms (or all but these, which is as good: |f(x) − f(y)| is the same for 1 − f). An arc is a pair of
  *cuts*. If one cut is in every pair, as in the thresholds of an ordered attribute, the class is one of **prefixes**;
  if every two cuts are a pair, one of all **intervals**. A candidate is then a path of cumulative counts, and paths
  within a band are counted without being listed.
- *Anything else* is listed: all C(atoms + rows − 1, rows) candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from treering.arrays import Ints
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.params import whole

Listing: TypeAlias = Literal["prefixes", "intervals", "enumeration"]
"""How candidates are drawn: by counting paths (prefixes, intervals), or by listing them all."""

MOST_LISTED: Final = 10**6
"""The most candidates that are listed."""

MOST_PRODUCTS: Final = 10**10
"""The most of listed candidates × atoms × queries: the work of scoring them."""

MOST_STEPS: Final[dict[Listing, int]] = {"prefixes": 2**18, "intervals": 2**21}
"""The most of atoms × rows for prefixes, atoms² × rows for intervals: the work of counting paths once."""

MOST_ROWS: Final = 2**20
"""The most synthetic rows."""


@dataclass(frozen=True)
class Arcs:
    """A class of arcs on a circle of atoms, opened at one cut: prefixes, or with ``every`` pair of cuts intervals."""

    start: int
    """The first atom after the cut."""
    spokes: tuple[tuple[int, bool], ...]
    """For j = 1, 2, …: the index of the query about the first j atoms, and whether it is the complement of these."""
    every: bool


def arcs(atoms: Atoms) -> Arcs | None:
    """The arcs of a class of prefixes or of intervals; None if it is neither."""
    weights = atoms.weights
    if atoms.number < 2 or any(not query.counting for query in atoms.queries):
        return None
    changes = weights != np.roll(weights, 1, axis=1)
    if (changes.sum(axis=1) != 2).any():
        return None
    cuts = np.nonzero(changes)[1].reshape(-1, 2)
    pairs = {(int(low), int(high)): index for index, (low, high) in enumerate(cuts)}
    every = len(pairs) == math.comb(atoms.number, 2)
    shared = set.intersection(*map(set, pairs))
    if not every and not shared:
        return None
    start = 0 if every else min(shared)
    spokes: list[tuple[int, bool]] = []
    for length in range(1, atoms.number):
        end = (start + length) % atoms.number
        query = pairs[min(start, end), max(start, end)]
        spokes.append((query, not weights[query, start]))
    # With two atoms a class is both; it is then drawn as prefixes, the simpler way.
    return Arcs(start, tuple(spokes), every and not shared)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a class, as functions of their number of rows: how many there are, and how they are drawn."""

    atoms: Atoms
    arcs: Arcs | None

    @classmethod
    def of(cls, atoms: Atoms) -> Candidates:
        """The candidates over these atoms."""
        return cls(atoms, arcs(atoms))

    @property
    def prefixes(self) -> Candidates | None:
        """For intervals: the same candidates drawn as prefixes, whose differences intervals are. Otherwise None."""
        if self.arcs is None or not self.arcs.every:
            return None
        return Candidates(self.atoms, replace(self.arcs, every=False))

    @property
    def asked(self) -> tuple[Query, ...]:
        """The queries whose counts determine the scores of all candidates."""
        queries = self.atoms.queries
        return queries if self.arcs is None else tuple(queries[place] for place, _ in self.arcs.spokes)

    @property
    def method(self) -> Listing:
        """How candidates are drawn."""
        if self.arcs is None:
            return "enumeration"
        return "intervals" if self.arcs.every else "prefixes"

    def number(self, rows: int) -> int:
        """The number of candidates of ``rows`` rows."""
        return math.comb(self.atoms.number + rows - 1, rows)

    def feasible(self, rows: int) -> bool:
        """Whether a candidate of ``rows`` rows can be drawn within the limits; public arithmetic."""
        if rows > MOST_ROWS:
            return False
        if self.method != "enumeration":
            return rows * math.prod([self.atoms.number] * self._power) <= MOST_STEPS[self.method]
        # C(a + r, r) is above 2^min(a, r): no need to write out a number of millions of digits.
        if min(self.atoms.number - 1, rows) > MOST_LISTED.bit_length():
            return False
        number = self.number(rows)
        work = self.atoms.number * max(1, len(self.atoms.queries))
        return number <= MOST_LISTED and number * work <= MOST_PRODUCTS

    @property
    def most_rows(self) -> int:
        """The largest feasible number of rows, 0 if there is none."""
        low, high = 0, MOST_ROWS + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.feasible(middle) else (low, middle)
        return low

    @property
    def _power(self) -> int:
        return 2 if self.method == "intervals" else 1

    def check(self, rows: int) -> None:
        """Refuse a number of rows that cannot be drawn."""
        whole(rows, "rows")
        if not self.feasible(rows):
            raise ParameterError("rows", f"is {rows:,}, and {self.limit}")

    @property
    def limit(self) -> str:
        """The largest number of rows and its reason, for messages."""
        most, number = self.most_rows, self.atoms.number
        kind = "any class" if self.method == "enumeration" else f"a class of {self.method}"
        how = (
            f"all C({number:,} + rows − 1, rows) candidates are listed, at most {MOST_LISTED:,}"
            if self.method == "enumeration"
            else f"atoms{'² ' if self._power == 2 else ' '}× rows may be at most {MOST_STEPS[self.method]:,}"
        )
        return f"with {number:,} atoms at most {most:,} are possible ({kind}: {how})"


# -- atoms: sets of cells that no query tells apart --------------------------------------------------------------------


MOST_JOINT: Final = 2**20
"""The most joint values of the attributes that a class may name."""

MOST_WEIGHTS: Final = 2**28
"""The most weights that are computed: joint values times queries."""

MOST_KEPT: Final = 2**26
"""The most weights that are kept: atoms times queries."""

_ROOM: Final = 2**62
"""An upper limit on labels while they are computed, within 64-bit integers."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """A partition of the universe such that each query weighs all cells of a part, an *atom*, the same.

    It is the coarsest one: two atoms differ in the weight of some query. Atoms are numbered by their first cells.
    """

    schema: Schema
    attributes: tuple[int, ...]
    """The positions of the attributes that the class names."""
    queries: tuple[Query, ...]
    """The class: each query that is not constant, once, in the order given."""
    labels: Ints
    """The atom of each joint value of the attributes."""
    cells: tuple[int, ...]
    """The first cell of each atom, increasing."""
    weights: Ints
    """The weight of each atom (a column) in each query (a row), in units of 1/scale."""

    @property
    def number(self) -> int:
        """The number of atoms."""
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
    """A number for each joint value, equal exactly where all weights are equal: 0, 1, 2, … by first occurrence."""
    labels, bound = np.zeros(joint, dtype=np.int64), 1
    for query in queries:
        base = query.scale + 1
        if bound * base > _ROOM:
            labels, bound = _renumbered(labels)
        labels, bound = labels * base + _column(query, attributes), bound * base
    return _renumbered(labels)[0]


def _renumbered(labels: Ints) -> tuple[Ints, int]:
    """The same partition with its parts numbered by first occurrence, and the number of parts."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse], len(first)


def _column(query: Query, attributes: tuple[int, ...]) -> Ints:
    """The weights of a query over the joint values of ``attributes``, which include its own."""
    if query.attributes == attributes:
        return query.weights().reshape(-1)
    sizes = query.schema.shape
    own = tuple(sizes[position] if position in query.attributes else 1 for position in attributes)
    full = tuple(sizes[position] for position in attributes)
    return np.broadcast_to(query.weights().reshape(own), full).reshape(-1)


def _stride(schema: Schema, position: int) -> int:
    """The difference of two cell numbers whose cells differ by one in the code of this attribute alone."""
    return math.prod(schema.shape[position + 1 :])


def _first_cells(schema: Schema, attributes: tuple[int, ...], joint: Ints) -> Ints:
    """The first cell with each joint value: all other attributes have code 0."""
    cells, rest = np.zeros(len(joint), dtype=np.int64), joint
    for position in reversed(attributes):
        rest, code = np.divmod(rest, schema.shape[position])
        cells += code * _stride(schema, position)
    return cells
