"""Events of the gate as lines of the ledger: JSON that a person can read, and back, bit for bit.

    {"v":1,"event":"Compared","size":1000,"run":3,"asked":17,"crossing":null}

A line is one object: the format's version, the event's name, and its fields in the order in which the class declares
them. A field of one class is an object of that class's fields; where several classes can stand, the object is wrapped
in its class's name, as in ``{"Laplace":{"scale":2.5}}``. Fractions are "p/q", floats have the digits that give the same
float back, infinities and NaN are texts, and large arrays are packed (``codec_values``); queries are sets of codes
(``codec_queries``).

Formal guarantee. `decode` (`encode` (event), schema) is the event: equal fields, and arrays with equal bytes, dtype and
shape, in C order and read-only. Equal lines give equal events. A line names classes of a closed list only, and gives
nothing but their instances: nothing is imported, looked up or run because a line says so. A line that `encode` did not
write (unknown name, missing, added or doubled field, wrong type, other version) is refused.

Only what is public is written here. Secrets are no events.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn

from treering.domain.schema import Schema
from treering.errors import DamagedVault, NewerVault, VaultError
from treering.gate import Event
from treering.vault.codec.fields import Codec, record
from treering.vault.codec.names import EVENTS
from treering.vault.codec.queries import Queries

FORMAT: Final = 1
"""The version of the lines."""

_EVENTS: Final[dict[str, Codec]] = {name: record(kind) for name, kind in EVENTS.items()}
_NAMES: Final = {kind: name for name, kind in EVENTS.items()}


def encode(event: Event) -> str:
    """An event as one line of ASCII. Equal events give equal lines (arrays as one version of zlib packs them).

    `VaultError` names the part of a note, or the loss, that is of a class no vault can keep.
    """
    name = _NAMES.get(type(event))
    if name is None:
        raise VaultError(f"{type(event).__name__} is no event that a vault can keep")
    try:
        return _dumps({"v": FORMAT, "event": name, **_EVENTS[name].write(event)})
    except RecursionError:
        raise VaultError(f"{name} is nested too deeply to be kept in a vault") from None


def decode(text: str, schema: Schema) -> Event:
    """The event that a line says. `DamagedVault` if it says none, `NewerVault` if a later version wrote it."""
    try:
        return _read(text, schema)
    except DamagedVault as error:
        raise DamagedVault(f"a line of the ledger cannot be read: {error}") from None
    except RecursionError:
        raise DamagedVault("a line of the ledger cannot be read: it is nested too deeply") from None


def _read(text: str, schema: Schema) -> Event:
    try:
        raw, end = _scan(text)
    except ValueError:
        raise DamagedVault("it is not JSON") from None
    if type(raw) is not dict or end != len(text):
        raise DamagedVault("it is not one JSON object")
    version = raw.pop("v", None)
    if type(version) is not int or version != FORMAT:
        raise _other_version(version)
    name = raw.pop("event", None)
    if type(name) is not str or name not in _EVENTS:
        raise DamagedVault("it names no event")
    event: Event = _EVENTS[name].read(raw, _queries(schema))
    return event


def _other_version(version: object) -> VaultError:
    if type(version) is int and version > FORMAT:
        return NewerVault(
            f"a line of the ledger is of format {version}, and this treering reads up to {FORMAT}: use a newer one"
        )
    return DamagedVault("it has no version that there was")


@lru_cache(maxsize=16)
def _queries(schema: Schema) -> Queries:
    return Queries(schema)


# -- JSON --------------------------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object: a name that comes twice would hide a value."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DamagedVault("it has a field twice")
    return made


def _constant(_: str) -> NoReturn:
    raise DamagedVault("it has a number that is not JSON")


_scan: Final[Callable[[str], tuple[Any, int]]] = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant
).raw_decode
_dumps: Final[Callable[[Any], str]] = json.JSONEncoder(
    allow_nan=False, check_circular=False, separators=(",", ":")
).encode
