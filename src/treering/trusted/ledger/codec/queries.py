"""Queries as JSON: conditions on values, which mean the same under every version of a schema.

    {"where": {"origin": {"listed": ["JFK"], "classes": [1, 0, 0, 0]}, "month": {"cuts": [6], "classes": [0, 1, 0, 0]}}}
    {"over": {"origin": {"listed": ["JFK"], "classes": [0, 1, 1, 1]}}, "scale": 4, "weights": {…}}

Of a conjunction, each attribute has the axis (``codec/axes.py``) with class 1 for the values that match. Of a table,
each has the axis of the values that it tells apart, and the weights are those of the joint classes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from treering.arrays import Flags, Ints, rows_alike
from treering.domain.attribute import Bins
from treering.domain.axis import Axis, axes_of, value_of
from treering.domain.calendar import Dates
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import SchemaError
from treering.trusted.ledger.codec.axes import read_classes, write_classes
from treering.trusted.ledger.codec.numbers import Unfit, read_array, read_integer, write_array, write_integer

Raw: TypeAlias = dict[str, Any]

_REMEMBERED: Final = 2**22
_OVERHEAD: Final = 64
"""How many flags and weights of queries read so far are cached; each query counts as `_OVERHEAD` more."""
_SHORT: Final = 2**12
"""The most values of a condition that is remembered as it was written."""


# -- writing -----------------------------------------------------------------------------------------------------------


def write_query(query: Any) -> Raw:
    """A query as JSON; queries that mean the same give the same JSON, also under different versions of a schema."""
    if type(query) is not Query:
        raise Unfit(f"is {type(query).__name__}, not a query")
    if query.masks is not None:
        sets = zip(query.names, query.attributes, query.masks, strict=True)
        return {"where": {name: _condition(query.schema, place, mask) for name, place, mask in sets}}
    weights, over = query.weights(), {}
    for side, (name, position) in enumerate(zip(query.names, query.attributes, strict=True)):
        axis, classes = _told_apart(axes_of(query.schema)[position], np.moveaxis(weights, side, 0))
        over[name] = write_classes(axis)
        weights = np.take(weights, np.unique(classes, return_index=True)[1], side)
    return {"over": over, "scale": write_integer(query.scale), "weights": write_array(weights.copy())}


def _condition(schema: Schema, position: int, flags: Flags) -> Raw:
    """The values of an attribute that match. (Remembered, unless they are many.)"""
    if len(flags) > _SHORT:
        return _new_condition(schema, position, flags)
    return _known_condition(schema, position, flags.tobytes())


@lru_cache(maxsize=2**12)
def _known_condition(schema: Schema, position: int, flags: bytes) -> Raw:
    return _new_condition(schema, position, np.frombuffer(flags, dtype=np.bool_))


def _new_condition(schema: Schema, position: int, flags: Flags) -> Raw:
    return write_classes(axes_of(schema)[position].chosen(flags).merged)


@lru_cache(maxsize=64)
def _reading(lens: Schema) -> Queries:
    return Queries(lens)


def _told_apart(axis: Axis, weights: Ints) -> tuple[Axis, Ints]:
    """The axis of the values of an attribute that weights, in rows, tell apart; and the class of each of its codes."""
    least = axis.relabelled(rows_alike(weights)).minimal
    classes = axis.onto(least)
    assert classes is not None
    return least, classes


# -- reading -----------------------------------------------------------------------------------------------------------


class Queries:
    """Reads queries as a schema sees them. Equal queries are one object, which is made and hashed once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._places = {name: position for position, name in enumerate(schema.names)}
        self._known: dict[str, Query] = {}
        self._sets: dict[tuple[int, str], Flags] = {}
        self._entries = 0

    def read(self, raw: Any) -> Query:
        """The query that `write_query` wrote."""
        if type(raw) is not dict:
            raise Unfit("is not a query")
        key = repr(raw)  # The text tells 1 from 1.0 and true, which are equal as keys.
        known = self._known.get(key)
        if known is not None:
            return known
        lens = self._lens(raw["where"] if list(raw) == ["where"] else raw.get("over"))
        if lens != self.schema:
            return _reading(lens).read(raw)
        query = self._conjunction(raw["where"]) if list(raw) == ["where"] else self._table(raw)
        self._make_room(1 if query.table is None else query.table.size)
        self._known[key] = query
        return query

    def _lens(self, named: Any) -> Schema:
        """The schema, with the cuts of conditions that lie within its cells."""
        cuts: dict[str, list[Any]] = {}
        for position in self._positions(named):
            name, known = self.schema.names[position], axes_of(self.schema)[position]
            if isinstance(self.schema.attributes[name], Bins | Dates):
                axis = read_classes(named[name], known.scalar)
                cuts[name] = [value_of(cut, known.scalar) for cut in axis.cuts.tolist() if cut not in known.cuts]
        try:
            return self.schema.cut(cuts)
        except SchemaError:
            raise Unfit("tells values apart that no lens does") from None

    def _make_room(self, entries: int) -> None:
        """Empty the cache before it exceeds `_REMEMBERED`."""
        self._entries += _OVERHEAD + entries
        if self._entries > _REMEMBERED:
            self._known.clear()
            self._sets.clear()
            self._entries = 0

    def _conjunction(self, where: Any) -> Query:
        positions = self._positions(where)
        sets = tuple([self._set(position, each) for position, each in zip(positions, where.values(), strict=True)])
        return Query(self.schema, positions, masks=sets)

    def _set(self, position: int, raw: Any) -> Flags:
        """The flags of a set, shared by queries, which never change them."""
        key = position, repr(raw)
        known = self._sets.get(key)
        if known is None:
            known = self._classes(position, raw) == 1
            if _condition(self.schema, position, known) != raw or known.all() or not known.any():
                raise Unfit("has a condition that is not in its simplest form")
            self._make_room(len(known))
            self._sets[key] = known
        return known

    def _classes(self, position: int, raw: Any) -> Ints:
        """The class of each code of an attribute on the axis that was written."""
        attribute = axes_of(self.schema)[position]
        classes = attribute.within(read_classes(raw, attribute.scalar))
        if classes is None:
            raise Unfit("tells values apart that the schema does not")
        return classes

    def _table(self, raw: Raw) -> Query:
        if list(raw) != ["over", "scale", "weights"]:
            raise Unfit("is neither a conjunction nor a table of weights")
        positions, scale, weights = self._positions(raw["over"]), read_integer(raw["scale"]), read_array(raw["weights"])
        sides = [self._classes(position, each) for position, each in zip(positions, raw["over"].values(), strict=True)]
        if weights.dtype != np.int64 or weights.shape != tuple(int(each.max()) + 1 for each in sides):
            raise Unfit("has weights of another shape than its attributes'")
        if int(np.prod([float(len(each)) for each in sides])) > MAX_TABLE:
            raise Unfit("has weights of too many joint values")
        if not 1 <= scale < 2**63 or weights.min() < 0 or weights.max() > scale:
            raise Unfit("has weights outside of 0 to its scale")
        query = Query.of_table(self.schema, positions, weights[np.ix_(*sides)], scale)
        if query.masks is not None or write_query(query) != raw:
            raise Unfit("is not in its simplest form")
        return query

    def _positions(self, named: Any) -> tuple[int, ...]:
        if type(named) is not dict or not named.keys() <= self._places.keys():
            raise Unfit("names an attribute that the schema does not have")
        positions = tuple([self._places[name] for name in named])
        if any(second <= first for first, second in pairwise(positions)):
            raise Unfit("names attributes in another order than the schema's")
        return positions
