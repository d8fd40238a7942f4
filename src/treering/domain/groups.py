"""Groups: disjoint sets of cells that are counted together, such as the groups of a GROUP BY.

The values of each attribute are sorted into classes, and each joint class is a group; or a table says which group each
joint class belongs to. Every cell has one label for each attribute, so it is in one group at most: groups are disjoint
by their form. A row that is replaced leaves one group and enters another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from treering.arrays import Flags, Ints
from treering.domain.attribute import integers
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError

MOST_GROUPS: Final = 2**22
"""The most groups that are counted together."""

FEW_GROUPS: Final = 2**12
"""Up to this many groups, values that no query of a batch counts stay apart."""

_ROOM: Final = 2**62
"""Classes are numbered anew before their numbers could exceed this."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Disjoint sets of cells of one schema.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> Groups.marginal(schema, ["month"]).number
    12
    >>> winter = Query.where(schema, month=[12, 1, 2])
    >>> groups = Groups.of([winter, ~winter])
    >>> groups.number, groups.whole, groups.shape
    (2, True, (2,))
    """

    attributes: tuple[int, ...]
    """The positions of the attributes that tell the groups apart, increasing."""
    labels: tuple[Ints, ...]
    """For each of them, the class of each of its values, from 0 on; −1: rows with this value are in no group."""
    table: Ints | None
    """The group of each joint class, from 0 on; −1: in no group. None: each joint class is a group of its own."""

    def __post_init__(self) -> None:
        for array in (*self.labels, *(() if self.table is None else (self.table,))):
            array.setflags(write=False)

    @classmethod
    def marginal(cls, schema: Schema, names: Sequence[str] | None = None) -> Groups:
        """A group for each joint value of some attributes; without names, for each cell."""
        chosen = sorted({schema.index(name) for name in names}) if names is not None else range(len(schema.names))
        number = math.prod(schema.shape[position] for position in chosen)
        if number > MOST_GROUPS:
            raise ParameterError("names", f"span {number:,} joint values; at most {MOST_GROUPS:,} are counted together")
        return cls(tuple(chosen), tuple(np.arange(schema.shape[position]) for position in chosen), None)

    @classmethod
    def of(cls, queries: Sequence[Query]) -> Groups:
        """A group for each query, in order: counting queries of one schema, each of which matches some cell, and no two
        the same."""
        if not queries:
            raise QueryError("groups need at least one query")
        if any(not query.counting or query.schema != queries[0].schema for query in queries):
            raise QueryError("groups are made of counting queries about one schema, without weights")
        attributes = tuple(sorted({position for query in queries for position in query.attributes}))
        labels = tuple(_classes(queries, position) for position in attributes)
        shape = tuple(int(each.max()) + 1 for each in labels)
        if math.prod(shape) > MAX_TABLE:
            raise QueryError(
                f"these queries tell {math.prod(shape):,} joint values apart; at most {MAX_TABLE:,} can be"
            )
        table = np.full(shape, -1, dtype=np.int64)
        for number, query in enumerate(queries):
            matched = _matched(query, attributes, labels)
            if not matched.any():
                raise QueryError(f"query {number + 1} matches no cell: its group would always be empty")
            if (table[matched] >= 0).any():
                raise QueryError(f"groups overlap: query {number + 1} matches cells of an earlier one")
            table[matched] = number
        return cls(attributes, labels, table)

    @classmethod
    def atoms(cls, queries: Sequence[Query]) -> Groups:
        """The joint values of all attributes that some queries name, with values merged that none tells apart: each of
        the queries is a union of groups, and every cell is in one.

        Values that no query counts (the months nobody has asked about yet) stay apart, while there are few groups:
        later queries can then be unions of groups, too. For that a query about k of m groups has the spread k(1 − k/m)
        with a larger m: with two groups one count has ½, with many nearly 1, a margin larger by at most √2.

        >>> from treering.domain.attribute import categories, integers
        >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
        >>> Groups.atoms([Query.where(schema, month=[12, 1, 2]), Query.where(schema, month=[1], origin="JFK")]).shape
        (2, 11)
        """
        attributes = tuple(sorted({position for query in queries for position in query.attributes}))
        labels = [_classes(queries, position) for position in attributes]
        number = math.prod(int(each.max()) + 1 for each in labels)
        for place in sorted(range(len(labels)), key=lambda each: len(labels[each])):
            apart = _apart(labels[place], queries, attributes[place])
            finer = number // (int(labels[place].max()) + 1) * (int(apart.max()) + 1)
            if finer <= FEW_GROUPS:
                labels[place], number = apart, finer
        groups = cls(attributes, tuple(labels), None)
        if groups.number > MOST_GROUPS:
            raise QueryError(
                f"these queries tell {groups.number:,} groups of rows apart; at most {MOST_GROUPS:,} are counted "
                "together: ask about fewer attributes at once"
            )
        return groups

    @classmethod
    def pair(cls, query: Query) -> Groups:
        """Two groups: the rows that a counting query matches, and all others. The query's spread is then ½, as small as
        it can be.

        >>> from treering.domain.attribute import categories, integers
        >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
        >>> groups = Groups.pair(Query.where(schema, origin="JFK", month=[12, 1, 2]))
        >>> groups.number, groups.shape, groups.whole
        (2, (2, 2), True)
        """
        labels = tuple(_classes([query], position) for position in query.attributes)
        return cls(query.attributes, labels, np.where(_matched(query, query.attributes, labels), 0, 1))

    def classes(self, schema: Schema) -> Schema:
        """The joint classes as a schema of their own; with a table, the groups are the values of one attribute."""
        if self.table is not None:
            return Schema({"group": integers(0, self.number - 1)})
        names = [schema.names[position] for position in self.attributes]
        return Schema({name: integers(0, size - 1) for name, size in zip(names, self.shape, strict=True)})

    def reduced(self, query: Query, classes: Schema) -> Query | None:
        """A query about the schema as one about the `classes`, for groups that are `whole`; None if it is no union of
        groups."""
        if not set(query.attributes) <= set(self.attributes):
            return None
        axes = tuple(self.attributes.index(position) for position in query.attributes)
        labels = [self.labels[axis] for axis in axes]
        firsts = [_firsts(self)[axis] for axis in axes]
        if query.masks is not None:
            chosen = [mask[first] for mask, first in zip(query.masks, firsts, strict=True)]
            if any((each[label] != mask).any() for each, label, mask in zip(chosen, labels, query.masks, strict=True)):
                return None
            if self.table is None:
                return Query.conjunction(classes, dict(zip(axes, chosen, strict=True)))
            return self._by_group(_product(chosen), axes, query.scale, classes)
        table = query.weights()[np.ix_(*firsts)]
        if (table[np.ix_(*labels)] != query.weights()).any():
            return None
        if self.table is None:
            return Query.of_table(classes, axes, table, query.scale)
        return self._by_group(table, axes, query.scale, classes)

    def _by_group(self, weights: Ints, axes: tuple[int, ...], scale: int, classes: Schema) -> Query | None:
        """Weights of the classes of some attributes as weights of the table's groups; None if a group has several."""
        assert self.table is not None
        others = tuple(axis for axis in range(self.table.ndim) if axis not in axes)
        spread = np.broadcast_to(np.expand_dims(weights, others), self.shape)
        values = spread.reshape(-1)[np.unique(self.table, return_index=True)[1]]
        return Query.of_table(classes, (0,), values, scale) if (values[self.table] == spread).all() else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of classes of each attribute."""
        return tuple(int(each.max()) + 1 for each in self.labels)

    @property
    def number(self) -> int:
        """How many groups there are."""
        return math.prod(self.shape) if self.table is None else int(self.table.max()) + 1

    @property
    def whole(self) -> bool:
        """Whether every cell is in a group: then their counts sum to the size, which is public."""
        listed = (*self.labels, *(() if self.table is None else (self.table,)))
        return all(int(each.min()) >= 0 for each in listed)

    def place(self, codes: Sequence[Ints]) -> Ints:
        """The group of each row, given by its codes of the attributes; −1 for a row in no group."""
        rows = len(codes[0]) if codes else 0
        place, inside = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.bool_)
        for labels, size, each in zip(self.labels, self.shape, codes, strict=True):
            label = labels[each]
            place = place * size + label
            inside &= label >= 0
        if self.table is not None:
            place[inside] = self.table.reshape(-1)[place[inside]]
        place[~inside] = -1
        return place


@lru_cache(maxsize=2**12)
def _firsts(groups: Groups) -> tuple[Ints, ...]:
    """The first value of each class, for each attribute."""
    return tuple(np.unique(each, return_index=True)[1] for each in groups.labels)


def _classes(queries: Sequence[Query], position: int) -> Ints:
    """The classes of an attribute's values that no query tells apart, numbered by their first values.

    Time is linear in the queries' weights, and memory in the number of values.
    """
    label, number = np.zeros(queries[0].schema.shape[position], dtype=np.int64), 1
    for part in _parts(queries, position):
        several = int(part.max()) + 1
        if number * several > _ROOM:
            label = np.unique(label, return_inverse=True)[1].reshape(-1)
            number = int(label.max()) + 1
        label *= several
        label += part
        number *= several
    return _numbered(label)


def _parts(queries: Sequence[Query], position: int) -> Iterator[Ints | Flags]:
    """For each query about an attribute, a number for each value: the same for those that it does not tell apart, and 0
    for those that it does not count."""
    for query in queries:
        if position in query.attributes:
            axis = query.attributes.index(position)
            yield query.masks[axis] if query.masks is not None else _rows(np.moveaxis(query.weights(), axis, 0))


def _rows(weights: Ints) -> Ints:
    """A number for each row of a table: 0 where all is 0, and the same for rows that are equal."""
    rows = np.ascontiguousarray(weights.reshape(len(weights), -1))
    plain = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    label = np.unique(plain, return_inverse=True)[1].reshape(-1)
    return np.where(rows.any(axis=1), label + 1, 0)


def _apart(labels: Ints, queries: Sequence[Query], position: int) -> Ints:
    """The classes, but each value that no query counts is a class of its own."""
    idle = np.ones(len(labels), dtype=np.bool_)
    for part in _parts(queries, position):
        idle &= part == 0
    return _numbered(np.where(idle, len(labels) + np.arange(len(labels)), labels))


def _numbered(plain: Ints) -> Ints:
    """Equal numbers get equal ones, in the order in which they come first."""
    _, first, label = np.unique(plain, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[label.reshape(-1)].astype(np.int64)


def _matched(query: Query, attributes: tuple[int, ...], labels: tuple[Ints, ...]) -> Flags:
    """Which joint classes a query matches."""
    axes = [attributes.index(position) for position in query.attributes]
    first = [np.unique(labels[axis], return_index=True)[1] for axis in axes]  # a value of each class
    if query.masks is None:
        weights = query.weights()[np.ix_(*first)] if axes else query.weights()
    else:
        weights = _product([mask[values] for mask, values in zip(query.masks, first, strict=True)])
    others = tuple(axis for axis in range(len(attributes)) if axis not in axes)
    shape = tuple(int(each.max()) + 1 for each in labels)
    return np.asarray(np.broadcast_to(np.expand_dims(weights, others), shape) > 0)


def _product(masks: Sequence[Flags]) -> Ints:
    """1 for each joint value that is in all of the sets, one set for each axis."""
    weights = np.ones((), dtype=np.int64)
    for mask in masks:
        weights = weights[..., np.newaxis] * mask
    return weights
