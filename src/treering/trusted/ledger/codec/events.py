"""Events of the gate as lines of the ledger: JSON that a person can read, and that gives each event back bit for bit.

    {"event":"Compared","size":1000,"run":3,"asked":17,"crossing":null}

A line is one object: the event's name, and its fields in the order in which the class declares them. A value of a field
declared as one class is an object of that class's fields; if the field allows several classes, the object is wrapped in
its class's name, as in ``{"Laplace":{"scale":2.5}}``. Fractions are "p/q", floats have the digits that give the same
float back, infinities and NaN are texts, and large arrays are packed (``codec/numbers.py``); queries are sets of codes
(``codec/queries.py``).

Formal guarantee. ``decode(encode(event))`` is the event: equal fields, and arrays with equal bytes, dtype and shape, in
C order and read-only. Equal lines give equal events. A line names classes of a closed list only, and gives nothing but
their instances: nothing is imported, looked up or run because a line says so. A line that says what `encode` could not
have said (unknown name, missing, added or doubled field, wrong type) is refused. (Other digits for the
same number, or spaces, are not: the ledger's chain of hashes notices those.)

Only public values are written here: secrets are not events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn, get_args

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.budget.rows import Charge, Steps
from treering.domain.axis import Scalar
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import Capped, Grid, Sums
from treering.errors import DamagedVault, VaultError
from treering.gate import (
    Crossing,
    Discovery,
    Event,
    Fading,
    Minimised,
    Ones,
    OpenSegment,
    Root,
    RunRequest,
    Span,
    Tallied,
)
from treering.noise import Gaussian, Laplace
from treering.trusted import registry
from treering.trusted.ledger.codec.fields import Codec, Fields
from treering.trusted.ledger.codec.queries import Queries

LATER: Final[tuple[type[Any], ...]] = (Minimised, Tallied)
"""Those events: what their fields hold is loaded when one of them is met."""

EVENTS: Final[tuple[type[Any], ...]] = tuple(kind for kind in get_args(Event) if kind not in LATER)
"""The events that a line can hold, beside those of registered operations whose fields hold more than `PARTS`."""

PARTS: Final[tuple[type[Any], ...]] = (
    *(Cost, Budget, Laplace, Gaussian, RunRequest, Crossing, Groups, Span, Ones, Root, Fading, Charge, Steps),
    *(OpenSegment, Scalar, Grid, Sums, Capped, Discovery),
)
"""The classes that fields of events can hold. Those that notes can hold are declared by the mechanisms."""

SHARED: Final = frozenset({Cost, Budget, Laplace, Gaussian, Ones, Root, Fading, Scalar, Grid})
"""Classes of small immutable values that recur: equal ones are read as one object."""


class EventCodec:
    """Reads and writes the events of one schema.

    ``notes`` are the classes of notes, and of the values in them: a closed list.
    """

    def __init__(self, schema: Schema, notes: tuple[type[Any], ...]) -> None:
        self._notes = notes
        self._codecs = _codecs(notes)
        self._queries = Queries(schema)

    def encode(self, event: Event) -> str:
        """An event as one line of ASCII. Equal events give equal lines (arrays as one version of zlib packs them).

        `VaultError` names the part of a note, or the loss, that is of a class no vault can keep.
        """
        name = type(event).__name__
        if type(event) not in EVENTS and type(event) not in LATER:
            raise VaultError(f"{name} is no event that a vault can keep")
        try:
            return _dumps({"event": name, **self._written(name, event)})
        except RecursionError:
            raise VaultError(f"{name} is nested too deeply to be kept in a vault") from None

    def _written(self, name: str, event: Event) -> Any:
        if name in self._codecs:
            try:
                return self._codecs[name].write(event)
            except VaultError:  # A note may hold what registered operations know.
                pass
        return _all_codecs(self._notes)[name].write(event)

    def decode(self, text: str) -> Event:
        """The event in a line; `DamagedVault` if the line is invalid."""
        try:
            return self._read(text)
        except DamagedVault as error:
            raise DamagedVault(f"a line of the ledger cannot be read: {error}") from None
        except RecursionError:
            raise DamagedVault("a line of the ledger cannot be read: it is nested too deeply") from None

    def _read(self, text: str) -> Event:
        try:
            raw, end = _scan(text)
        except ValueError:
            raise DamagedVault("it is not JSON") from None
        if type(raw) is not dict or end != len(text):
            raise DamagedVault("it is not one JSON object")
        name = raw.pop("event", None)
        if type(name) is str and name in self._codecs:
            try:
                event: Event = self._codecs[name].read(raw, self._queries)
                return event
            except DamagedVault:  # A note may hold what registered operations know.
                pass
        if type(name) is not str or name not in _all_codecs(self._notes):
            raise DamagedVault("it names no event")
        later: Event = _all_codecs(self._notes)[name].read(raw, self._queries)
        return later


@lru_cache(maxsize=16)
def codec(schema: Schema, notes: tuple[type[Any], ...]) -> EventCodec:
    """The codec of the events of a ledger with this schema."""
    return EventCodec(schema, notes)


@lru_cache(maxsize=4)
def _codecs(notes: tuple[type[Any], ...]) -> dict[str, Codec]:
    """A codec for each event, by its name, without what registered operations know."""
    fields = Fields(EVENTS, (*notes, *PARTS), SHARED)
    return {kind.__name__: fields.of(kind) for kind in EVENTS}


@lru_cache(maxsize=4)
def _all_codecs(notes: tuple[type[Any], ...]) -> dict[str, Codec]:
    """A codec for each event, by its name. Loads the registered operations whose events hold more than `PARTS`."""
    later = [registry.operation(registry.EVENTS[kind.__name__]) for kind in LATER]
    parts = [part for operation in later for part in operation.parts]
    names = {name: kind for operation in later for name, kind in operation.names.items()}
    events = (*EVENTS, *LATER)
    fields = Fields(events, (*notes, *PARTS, *parts), SHARED, names)
    return {kind.__name__: fields.of(kind) for kind in events}


# -- JSON --------------------------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; refuses one with a name twice, which would hide a value."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DamagedVault("it has a field twice")
    return made


def _constant(_: str) -> NoReturn:
    raise DamagedVault("it has a number that is not JSON")


def _float(digits: str) -> float:
    """A number: digits beyond the floats, as in 1e999, would be read as an infinity, which is written as a text."""
    value = float(digits)
    if math.isinf(value):
        raise DamagedVault("it has a number beyond the floats")
    return value


_scan: Final[Callable[[str], tuple[Any, int]]] = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
).raw_decode
_dumps: Final[Callable[[Any], str]] = json.JSONEncoder(
    allow_nan=False, check_circular=False, separators=(",", ":")
).encode
