"""Groups: disjoint sets of rows that are counted together, such as the groups of a GROUP BY.

Each axis sorts the values of one scalar into classes, and each joint class is a group; or a table says which group
each joint class belongs to. Every row has one class on each axis, so it is in one group at most: groups are disjoint by
their form. A row that is replaced leaves one group and enters another.

Groups are conditions on values, and so they mean the same under every version of a schema. A query is about the codes
of one version: `Groups.reduced` tells whether it is a union of groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from treering.arrays import Flags, Ints, rows_alike
from treering.domain.attribute import integers
from treering.domain.axis import Axis, axes_of
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError

MOST_GROUPS: Final = 2**22
"""The most groups that are counted together."""

FEW_GROUPS: Final = 2**12
"""Up to this many groups, values that no query of a batch counts stay apart."""

_ROOM: Final = 2**62
"""Classes are numbered anew before their numbers could exceed this."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Groups:
    """Disjoint sets of rows.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> Groups.marginal(schema, ["month"]).number
    12
    >>> winter = Query.where(schema, month=[12, 1, 2])
    >>> groups = Groups.of([winter, ~winter])
    >>> groups.number, groups.whole, groups.shape
    (2, True, (2,))
    >>> groups.axes[0].cuts.tolist(), groups.axes[0].classes.tolist()
    ([3, 12], [0, 1, 0, 0, 0])
    """

    axes: tuple[Axis, ...]
    """What tells the groups apart; on each axis every value has a class, from 0 on."""
    table: Ints | None
    """The group of each joint class, from 0 on; −1: in no group. None: each joint class is a group of its own."""

    def __post_init__(self) -> None:
        if self.table is not None:
            self.table.setflags(write=False)

    @classmethod
    def over(
        cls, schema: Schema, positions: Sequence[int], labels: Sequence[Ints], table: Ints | None = None
    ) -> Groups:
        """Groups by labels: for each of some attributes, the class of each of its codes, from 0 on."""
        if any((each < 0).any() for each in labels):
            raise QueryError("each value of an attribute has a class, from 0 on: a table says which are in no group")
        pairs = zip(positions, labels, strict=True)
        return cls(tuple(axes_of(schema)[position].relabelled(each).merged for position, each in pairs), table)

    @classmethod
    def marginal(cls, schema: Schema, names: Sequence[str] | None = None) -> Groups:
        """A group for each joint value of some attributes; without names, for each cell."""
        chosen = sorted({schema.index(name) for name in names}) if names is not None else range(len(schema.names))
        number = math.prod(schema.shape[position] for position in chosen)
        if number > MOST_GROUPS:
            raise ParameterError("names", f"span {number:,} joint values; at most {MOST_GROUPS:,} are counted together")
        return cls.cells(schema, chosen)

    @classmethod
    def cells(cls, schema: Schema, positions: Sequence[int] | None = None) -> Groups:
        """The same by positions, however many groups that are."""
        chosen = range(len(schema.names)) if positions is None else positions
        return cls.over(schema, chosen, [np.arange(schema.shape[position]) for position in chosen])

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
        return cls.over(queries[0].schema, attributes, labels, table)

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
        if number > MOST_GROUPS:
            raise QueryError(
                f"these queries tell {number:,} groups of rows apart; at most {MOST_GROUPS:,} are counted "
                "together: ask about fewer attributes at once"
            )
        return cls.over(queries[0].schema, attributes, labels)

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
        table = np.where(_matched(query, query.attributes, labels), 0, 1)
        return cls.over(query.schema, query.attributes, labels, table)

    @property
    def classes(self) -> Schema:
        """The joint classes as a schema of their own; with a table, the groups are the values of one attribute."""
        if self.table is not None:
            return Schema({"group": integers(0, self.number - 1)})
        return Schema({f"axis {place}": integers(0, size - 1) for place, size in enumerate(self.shape)})

    def reduced(self, query: Query, classes: Schema) -> Query | None:
        """A query, about any schema, as one about the `classes`, for groups that are `whole`; None if it is no union of
        groups."""
        sides = _sides(self, query.schema)
        if not sides.keys() >= set(query.attributes):
            return None
        if query.masks is not None:
            return self._of_sets(zip(query.masks, [sides[each] for each in query.attributes], strict=True), classes)
        return self._of_table(query, [sides[each] for each in query.attributes], classes)

    def _of_sets(self, sets: Iterable[tuple[Flags, Sequence[Side]]], classes: Schema) -> Query | None:
        """A product of sets of codes as a query about the classes."""
        chosen: dict[int, Flags] = {}
        for mask, sides in sets:
            side = next((each for each in sides if each.tells(mask)), None)
            if side is None:
                return None
            flags = mask[side.firsts]
            chosen[side.axis] = chosen[side.axis] & flags if side.axis in chosen else flags
        if self.table is None:
            return Query.conjunction(classes, chosen)
        axes = tuple(sorted(chosen))
        return self._by_group(_product([chosen[axis] for axis in axes]), axes, 1, classes)

    def _of_table(self, query: Query, sides: Sequence[Sequence[Side]], classes: Schema) -> Query | None:
        """A table of weights as a query about the classes: each of its attributes is told by an axis of its own."""
        weights = query.weights()
        for chosen in itertools.product(*sides):
            axes = [side.axis for side in chosen]
            if len(set(axes)) < len(axes):
                continue
            table = weights[np.ix_(*(side.firsts for side in chosen))]
            spread = table[np.ix_(*(side.classes for side in chosen))]
            if (spread == weights[np.ix_(*(side.codes for side in chosen))]).all():
                order = np.argsort(axes)
                return self._weighted(table.transpose(order), tuple(sorted(axes)), query.scale, classes)
        return None

    def _weighted(self, table: Ints, axes: tuple[int, ...], scale: int, classes: Schema) -> Query | None:
        """Weights of the classes on some axes as a query about the classes."""
        if self.table is None:
            return Query.of_table(classes, axes, table, scale)
        return self._by_group(table, axes, scale, classes)

    def _by_group(self, weights: Ints, axes: tuple[int, ...], scale: int, classes: Schema) -> Query | None:
        """Weights of the classes on some axes as weights of the table's groups; None if a group has several."""
        assert self.table is not None
        others = tuple(axis for axis in range(self.table.ndim) if axis not in axes)
        spread = np.broadcast_to(np.expand_dims(weights, others), self.shape)
        values = spread.reshape(-1)[np.unique(self.table, return_index=True)[1]]
        return Query.of_table(classes, (0,), values, scale) if (values[self.table] == spread).all() else None

    def by_codes(self, schema: Schema) -> tuple[tuple[int, Ints], ...] | None:
        """For each axis, the position of an attribute that tells its classes, and the class of each code of it; None if
        there is no such attribute."""
        found: list[tuple[int, Ints]] = []
        for axis in self.axes:
            several = (_side(0, axis, attribute) for attribute in axes_of(schema))
            listed = [(position, side) for position, side in enumerate(several) if side is not None and side.coarse]
            if not listed:
                return None
            found.append((listed[0][0], listed[0][1].classes))
        return tuple(found)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of classes on each axis."""
        return tuple(axis.number for axis in self.axes)

    @property
    def number(self) -> int:
        """How many groups there are."""
        return math.prod(self.shape) if self.table is None else int(self.table.max()) + 1

    @property
    def whole(self) -> bool:
        """Whether every row is in a group: then their counts sum to the size, which is public."""
        return self.table is None or int(self.table.min()) >= 0


# -- groups and the codes of a schema ----------------------------------------------------------------------------------


class Side(NamedTuple):
    """An axis of groups and an attribute about the same scalar: each pair of a class and a code that some value has."""

    axis: int
    """The place of the axis."""
    classes: Ints
    codes: Ints
    """Increasing."""
    firsts: Ints
    """For each class, the first code that it is paired with."""
    fine: bool
    """Whether each class is paired with one code at most: then it tells all sets of codes."""

    def tells(self, mask: Flags) -> bool:
        """Whether a set of codes is a union of classes."""
        return self.fine or bool((mask[self.firsts][self.classes] == mask[self.codes]).all())

    @property
    def coarse(self) -> bool:
        """Whether each code lies in one class."""
        return bool((np.diff(self.codes) > 0).all())


def _side(place: int, axis: Axis, attribute: Axis) -> Side | None:
    pairs = axis.beside(attribute)
    if pairs is None:
        return None
    classes, codes = pairs
    firsts = np.zeros(axis.number, dtype=np.int64)
    firsts[classes[::-1]] = codes[::-1]
    return Side(place, classes, codes, firsts, fine=bool((np.bincount(classes) <= 1).all()))


_KNOWN: Final[WeakKeyDictionary[Groups, dict[Schema, dict[int, list[Side]]]]] = WeakKeyDictionary()
"""`_sides` of groups, for as long as these are there."""


def _sides(groups: Groups, schema: Schema) -> dict[int, list[Side]]:
    """For each attribute of a schema, by its position, the axes that are about the same scalar; without those that have
    none."""
    known = _KNOWN.setdefault(groups, {})
    if schema not in known:
        known[schema] = _new_sides(groups, schema)
    return known[schema]


def _new_sides(groups: Groups, schema: Schema) -> dict[int, list[Side]]:
    found: dict[int, list[Side]] = {}
    for position, attribute in enumerate(axes_of(schema)):
        sides = [_side(place, axis, attribute) for place, axis in enumerate(groups.axes)]
        listed = [side for side in sides if side is not None]
        if listed:
            found[position] = listed
    return found


# -- values that queries tell apart ------------------------------------------------------------------------------------


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
    counted = weights.reshape(len(weights), -1).any(axis=1)
    return np.where(counted, rows_alike(weights) + 1, 0)


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
