"""Whether two events are the same in every bit, and one journal's events after a trip through the ledger's text."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from support.databases import TestDatabase
from treering.budget.rows import Steps
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.gate import Event
from treering.trusted.journal import MemoryJournal
from treering.trusted.ledger.codec.events import EventCodec, codec
from treering.trusted.ledger.journal import recover
from treering.trusted.ledger.lines import Entry
from treering.vault.kinds import NOTES

NO_STEPS: Final = Steps((), ((0, Fraction(0)),))
"""The state of a ledger in which nothing was charged."""


def codec_of(schema: Schema) -> EventCodec:
    """The codec of vaults with this schema."""
    return codec(schema, NOTES)


def history(entries: Sequence[Entry], schema: Schema) -> tuple[Event, ...]:
    """All events that a mechanism's lines tell of, from its first line on."""
    found = recover(entries, codec_of(schema), None)
    return (*found.events, *found.lost)


def encode(event: Event) -> str:
    """The event's line, which is the same for every schema."""
    return codec_of(Schema({"x": integers(0, 1)})).encode(event)


def decode(text: str, schema: Schema) -> Event:
    """The event that a line says."""
    return codec_of(schema).decode(text)


def identical(one: Any, other: Any) -> bool:
    """Equal types, equal bits, all the way down; arrays that were read cannot be written to."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, Query):
        sets = [identical(a, b) for a, b in zip(one.masks or (), other.masks or (), strict=True)]
        return one == other and all(sets) and identical(one.table, other.table)
    if isinstance(one, dict):
        return identical(tuple(one.items()), tuple(other.items()))
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(identical(a, b) for a, b in zip(one, other, strict=True))
    if is_dataclass(one):
        return all(identical(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return bool(one == other)


def arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """Every array within a value."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, Query):
        return [*(value.masks or ()), *(() if value.table is None else (value.table,))]
    if isinstance(value, dict):
        return arrays([*value.keys(), *value.values()])
    if isinstance(value, tuple | list):
        return [array for each in value for array in arrays(each)]
    if is_dataclass(value):
        return [array for each in fields(value) for array in arrays(getattr(value, each.name))]
    return []


def reread(events: Sequence[Event], schema: Schema) -> list[Event]:
    """The events, written and read again, about another object of the same schema; checked bit for bit."""
    apart = Schema.from_dict(schema.to_dict())
    again = [decode(encode(event), apart) for event in events]
    for before, after in zip(events, again, strict=True):
        assert identical(before, after), type(before)
        assert not any(array.flags.writeable for array in arrays(after)), type(before)
    return again


def through_text(db: TestDatabase) -> Sequence[Event]:
    """Put in the place of a journal's events what their text says. Secrets stay: they are no events."""
    assert isinstance(db.journal, MemoryJournal)
    db.journal._events = reread(db.journal.events(), db.schema)
    return db.journal.events()
