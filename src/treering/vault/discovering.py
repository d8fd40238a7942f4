"""Discoveries in a vault: which rows are looked at, what they pay, and what was told."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from treering.budget.threshold import LARGEST, least_beyond
from treering.domain.attribute import Categories
from treering.domain.axis import scalar_of
from treering.domain.schema import Schema
from treering.errors import ParameterError, SchemaError
from treering.gate import Discovered, Discovery
from treering.mechanisms.rings import Rings
from treering.params import Number, at_least
from treering.trusted.store import Kept, Store, check_key
from treering.vault.members import Member, chosen
from treering.vault.record import checked

DEFAULT_SHARE: Final = 0.02
"""The share of the promise that a discovery costs the rows that it looks at."""

PART: Final = Fraction(1, 10)
"""The part of delta that is set aside, unless the steward says otherwise; and the part of that which a discovery takes:
a row can be looked at ten times."""

_OUTSIDE: Final = Fraction(1, 40)
"""How often noise is above the margin; below it, the same."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a steward wants to have discovered."""

    column: str
    share: Fraction
    rows: tuple[int, int] | None
    mechanism: str | None


def part_of(discoveries: bool | Number) -> Number:
    """The part of delta that is set aside."""
    return (PART if discoveries else 0) if isinstance(discoveries, bool) else discoveries


def discover(store: Store, members: Sequence[Member], wanted: Wanted, key: str | None) -> pa.Table:
    """See `Vault.discover`."""
    check_key(key)
    with store.alone():
        store.check()
        asked = _digest(wanted)
        if key is not None and store.knows(key):
            return _table(checked(store.kept(key), asked)["found"])
        number, rings = _rings(members, wanted.mechanism)
        request = _request(store, wanted)
        with store.transaction():
            found = _listed(rings.discover(request))
            if key is not None:
                store.keep(Kept(key, number, {"asked": asked, "found": found}))
        return _table(found)


def discovered(store: Store, members: Sequence[Member], column: str, mechanism: str | None) -> pa.Table:
    """See `Vault.discovered`."""
    with store.alone():
        store.check()
        _, rings = _rings(members, mechanism)
        attribute = _categories(store.schema, column)
        scalar = scalar_of(column, attribute)
        newest = {
            line[0]: line
            for event in rings.found
            if event.request.scalar == scalar
            for line in _listed(event)
            if line[0] not in attribute.values
        }
        return _table([newest[value] for value in sorted(newest)])


def _rings(members: Sequence[Member], name: str | None) -> tuple[int, Rings]:
    number, member = chosen(members, name)
    if not isinstance(member.mechanism, Rings):
        raise ParameterError("mechanism", f"{member.spec.name!r} discovers no values: only one of kind 'rings' does")
    return number, member.mechanism


def _request(store: Store, wanted: Wanted) -> Discovery:
    promise, attribute = store.origin.promise, _categories(store.schema, wanted.column)
    if not promise.aside:
        raise ParameterError(
            "delta",
            "has no part that is set aside for discoveries, and what is promised is for ever: a new vault has one with "
            "Vault.create(..., delta=1e-9, discoveries=True), or create --discoveries",
        )
    if wanted.rows is None and store.size == 0:
        raise ParameterError("rows", "must hold at least one: append some before values are looked for")
    scale = at_least(_root(1 / (promise.budget.total * wanted.share)))
    if scale > LARGEST:
        raise ParameterError("share", f"is too small to tell anything: the noise would be {scale:,.0f} rows")
    rows = (0, store.size) if wanted.rows is None else wanted.rows
    scalar = scalar_of(wanted.column, attribute)
    return Discovery(scalar, tuple(sorted(attribute.values)), rows, scale, promise.failure * PART)


def _root(square: Fraction) -> Fraction:
    """At least the square root, by less than 2^-64 of it where it is not tiny."""
    return Fraction(math.isqrt(math.ceil(square * 2**160)) + 1, 2**80)


def _categories(schema: Schema, name: str) -> Categories:
    schema.index(name)
    attribute = schema.attributes[name]
    if not isinstance(attribute, Categories) or isinstance(attribute.values[0], bool):
        raise SchemaError(f"attribute {name!r} lists no texts or integers: only of such are values discovered")
    if not attribute.other:
        raise SchemaError(f"attribute {name!r} has no values that are not listed (other=True is not declared)")
    return attribute


def _digest(wanted: Wanted) -> str:
    plain = ["discover", wanted.column, str(wanted.share), wanted.rows, wanted.mechanism]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _listed(event: Discovered) -> list[list[Any]]:
    """Value, count and margin of each value that was told."""
    margin = least_beyond(event.request.scale, _OUTSIDE) - 1
    return [[value, count, margin] for value, count in event.found]


def _table(found: Sequence[Sequence[Any]]) -> pa.Table:
    values = pa.array([line[0] for line in found])
    numbers = [pa.array([line[place] for line in found], pa.int64()) for place in (1, 2)]
    return pa.Table.from_arrays([values, *numbers], names=["value", "count", "margin"])
