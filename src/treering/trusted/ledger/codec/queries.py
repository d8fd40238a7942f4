"""Queries as JSON: a conjunction as the codes that match, a table as its weights.

    {"where": {"origin": "1", "month": "0-2,11"}}
    {"over": ["origin", "month"], "scale": 4, "weights": {"dtype": "<i8", "shape": [3, 12], "values": [...]}}

The codes of an attribute that match are written as numbers and ranges. A set of codes that would need too many of them
is a bitmap in base64, the first code the highest bit of the first byte.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from treering.arrays import Flags
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.trusted.ledger.codec.numbers import (
    Unfit,
    read_array,
    read_bytes,
    read_integer,
    write_array,
    write_bytes,
    write_integer,
)

Raw: TypeAlias = dict[str, Any]

_READABLE: Final = 40
"""A set's codes are spelt out up to this many characters, even if its bitmap is shorter."""

_MOST_STRETCHES: Final = 256
"""A set of more ranges than this is written as a bitmap."""

_REMEMBERED: Final = 2**22
_OVERHEAD: Final = 64
"""How many flags and weights of queries read so far are cached; each query counts as `_OVERHEAD` more."""


# -- writing -----------------------------------------------------------------------------------------------------------


def write_query(query: Any) -> Raw:
    """A query as JSON; equal queries give equal JSON."""
    if type(query) is not Query:
        raise Unfit(f"is {type(query).__name__}, not a query")
    if query.masks is None:
        weights = write_array(query.weights())
        return {"over": list(query.names), "scale": write_integer(query.scale), "weights": weights}
    return {"where": {name: _codes(mask) for name, mask in zip(query.names, query.masks, strict=True)}}


def _codes(mask: Flags) -> str:
    """The codes of a set: spelt out, or as a bitmap if that is shorter and the codes are too many to read."""
    spelt = _spelt(mask)
    if spelt is not None and len(spelt) <= _READABLE:
        return spelt
    packed = write_bytes(np.packbits(mask).tobytes())
    return packed if spelt is None or len(packed) < len(spelt) else spelt


def _spelt(mask: Flags) -> str | None:
    """The codes of a set as numbers and ranges; None if there are too many ranges."""
    flags = mask.tobytes()
    stretches: list[str] = []
    end = 0
    while (start := flags.find(1, end)) >= 0:
        if len(stretches) == _MOST_STRETCHES:
            return None
        end = flags.find(0, start)
        if end < 0:
            end = len(flags)
        stretches.append(str(start) if end == start + 1 else f"{start}-{end - 1}")
    return ",".join(stretches)


# -- reading -----------------------------------------------------------------------------------------------------------


class Queries:
    """Reads queries about one schema. Equal queries are one object, which is made and hashed once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._places = {name: position for position, name in enumerate(schema.names)}
        self._known: dict[object, Query] = {}
        self._sets: dict[tuple[int, str], Flags] = {}
        self._entries = 0

    def read(self, raw: Any) -> Query:
        """The query that `write_query` wrote."""
        if type(raw) is not dict:
            raise Unfit("is not a query")
        where = raw.get("where") if len(raw) == 1 else None
        # The text tells 1 from 1.0 and true, which are equal as keys.
        key = tuple(where.items()) if type(where) is dict else repr(raw)
        try:
            known = self._known.get(key)
        except TypeError:
            raise Unfit("has a condition that is no text") from None
        if known is not None:
            return known
        query = self._conjunction(where) if type(where) is dict else self._table(raw)
        self._make_room(1 if query.table is None else query.table.size)
        self._known[key] = query
        return query

    def _make_room(self, entries: int) -> None:
        """Empty the cache before it exceeds `_REMEMBERED`."""
        self._entries += _OVERHEAD + entries
        if self._entries > _REMEMBERED:
            self._known.clear()
            self._sets.clear()
            self._entries = 0

    def _conjunction(self, where: Raw) -> Query:
        positions = self._positions(list(where))
        sets = tuple([self._set(position, codes) for position, codes in zip(positions, where.values(), strict=True)])
        return Query(self.schema, positions, masks=sets)

    def _set(self, position: int, codes: Any) -> Flags:
        """The flags of a set, shared by queries, which never change them."""
        known = self._sets.get((position, codes))
        if known is None:
            known = _mask(codes, self.schema.shape[position])
            self._make_room(len(known))
            self._sets[position, codes] = known
        return known

    def _table(self, raw: Raw) -> Query:
        if raw.keys() != {"over", "scale", "weights"} or type(raw["over"]) is not list:
            raise Unfit("is neither a conjunction nor a table of weights")
        positions, scale, weights = self._positions(raw["over"]), read_integer(raw["scale"]), read_array(raw["weights"])
        shape = tuple(self.schema.shape[position] for position in positions)
        if weights.dtype != np.int64 or weights.shape != shape or weights.size > MAX_TABLE:
            raise Unfit("has weights of another shape than its attributes'")
        if not 1 <= scale < 2**63 or weights.min() < 0 or weights.max() > scale:
            raise Unfit("has weights outside of 0 to its scale")
        query = Query.of_table(self.schema, positions, weights, scale)
        if query.table is None or (query.attributes, query.scale) != (positions, scale):
            raise Unfit("is not in its simplest form")
        return query

    def _positions(self, names: list[Any]) -> tuple[int, ...]:
        try:
            positions = tuple([self._places[name] for name in names])
        except (KeyError, TypeError):
            raise Unfit("names an attribute that the schema does not have") from None
        if any(second <= first for first, second in pairwise(positions)):
            raise Unfit("names attributes in another order than the schema's")
        return positions


def _mask(codes: Any, size: int) -> Flags:
    """The flags of the set that `_codes` wrote."""
    if type(codes) is not str:
        raise Unfit("has a condition that is no text")
    mask = _unpacked(codes, size) if codes[1:2] == ":" else _listed(codes, size)
    if mask.all() or not mask.any():
        raise Unfit("has a condition that all values meet, or none")
    return mask


def _unpacked(codes: str, size: int) -> Flags:
    packed = np.frombuffer(read_bytes(codes, -(-size // 8)), dtype=np.uint8)
    flags = np.unpackbits(packed)
    if flags[size:].any():
        raise Unfit("has a condition that does not fit its attribute")
    return flags[:size].view(np.bool_)


def _listed(codes: str, size: int) -> Flags:
    try:
        stretches = [
            (int(low), int(high or low)) for low, _, high in (each.partition("-") for each in codes.split(","))
        ]
    except ValueError:
        raise Unfit("has a condition that is no list of codes") from None
    if ",".join([str(low) if low == high else f"{low}-{high}" for low, high in stretches]) != codes:
        raise Unfit("has a condition that is no list of codes")
    mask = np.zeros(size, dtype=np.bool_)
    last = -2
    for low, high in stretches:
        if not last + 1 < low <= high < size:
            raise Unfit("has a condition that does not fit its attribute")
        mask[low : high + 1] = True
        last = high
    return mask
