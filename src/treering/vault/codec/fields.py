"""How each field of an event becomes JSON and back, as its declared type says.

The types are read from the classes once, when this package is imported. What may be inside a note is declared as
anything; there, each value says what it is.

Ways into JSON and back for the shapes that values come in: single ones, tuples, dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from treering.domain.query import Query
from treering.errors import DamagedVault, VaultError
from treering.vault.codec.names import CLASSES, EVENTS, SHARED
from treering.vault.codec.queries import Queries, write_query
from treering.vault.codec.values import (
    Unfit,
    read_array,
    read_float,
    read_fraction,
    read_integer,
    write_array,
    write_float,
    write_fraction,
    write_integer,
)

Write: TypeAlias = Callable[[Any], Any]
Read: TypeAlias = Callable[[Any, Queries], Any]


@dataclass(frozen=True, slots=True)
class Codec:
    """A way into JSON, and the way back."""

    write: Write
    read: Read
    itself: type[Any] | None = None
    """JSON of this type is read as it is."""


# -- single values -----------------------------------------------------------------------------------------------------


def same(kind: type[Any]) -> Codec:
    """For values that are JSON already."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise Unfit(f"is not {kind.__name__}")
        return value

    return Codec(check, lambda raw, _: check(raw), kind)


def one_of(words: tuple[str, ...]) -> Codec:
    """One of a few words."""

    def check(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise Unfit(f"is not one of {', '.join(words)}")
        return value

    return Codec(check, lambda raw, _: check(raw))


def optional(codec: Codec) -> Codec:
    """A value, or none: null."""
    write, read = codec.write, codec.read
    return Codec(
        lambda value: None if value is None else write(value),
        lambda raw, queries: None if raw is None else read(raw, queries),
    )


def array_of(dtype: np.dtype[Any]) -> Codec:
    """An array of one dtype."""

    def write(value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype != dtype:
            raise Unfit(f"is an array of {value.dtype}, not of {dtype}")
        return write_array(value)

    def read(raw: Any, _: Queries) -> Any:
        array = read_array(raw)
        if array.dtype != dtype:
            raise Unfit(f"is not an array of {dtype}")
        return array

    return Codec(write, read)


# -- several values ----------------------------------------------------------------------------------------------------


def listed(raw: Any, length: int | None = None) -> list[Any]:
    """JSON that must be a list, of so many if that is given."""
    if type(raw) is not list or (length is not None and len(raw) != length):
        raise Unfit("is not a list" if length is None else f"is not a list of {length}")
    return raw


def sequence(codec: Codec) -> Codec:
    """A tuple of any length."""
    write, read, itself = codec.write, codec.read, codec.itself

    def write_all(value: Any) -> list[Any]:
        if type(value) is not tuple:
            raise Unfit(f"is {type(value).__name__}, not a tuple")
        return [write(each) for each in value]

    def read_all(raw: Any, queries: Queries) -> tuple[Any, ...]:
        if itself is not None and set(map(type, listed(raw))) == {itself}:
            return tuple(raw)
        return tuple([read(each, queries) for each in listed(raw)])

    return Codec(write_all, read_all)


def row(codecs: list[Codec]) -> Codec:
    """A tuple with one value for each codec."""

    def write(value: Any) -> list[Any]:
        if type(value) is not tuple or len(value) != len(codecs):
            raise Unfit(f"is not a tuple of {len(codecs)}")
        return [codec.write(each) for codec, each in zip(codecs, value, strict=True)]

    def read(raw: Any, queries: Queries) -> tuple[Any, ...]:
        pairs = zip(codecs, listed(raw, len(codecs)), strict=True)
        return tuple([codec.read(each, queries) for codec, each in pairs])

    return Codec(write, read)


def table(key: Codec, value: Codec) -> Codec:
    """A dict, as a list of pairs in its own order."""
    pair = row([key, value])

    def write(table: Any) -> list[Any]:
        if type(table) is not dict:
            raise Unfit(f"is {type(table).__name__}, not a dict")
        return [pair.write(item) for item in table.items()]

    def read(raw: Any, queries: Queries) -> dict[Any, Any]:
        try:
            table = dict([pair.read(each, queries) for each in listed(raw)])
        except TypeError:
            raise Unfit("has a key that cannot be one") from None
        if len(table) != len(raw):
            raise Unfit("has a key twice")
        return table

    return Codec(write, read)


# -- fields ------------------------------------------------------------------------------------------------------------


_REMEMBERED: Final = 1024
"""So many small values of each shared class are remembered."""

_RECORDS: Final[dict[type[Any], Codec]] = {}

# -- classes -----------------------------------------------------------------------------------------------------------


def record(kind: type[Any]) -> Codec:
    """An instance of one class, as an object of its fields in their order."""
    if kind not in {*CLASSES.values(), *EVENTS.values()}:
        raise TypeError(f"{kind.__name__} is not on the list of what a vault keeps")
    if kind not in _RECORDS:
        hints = get_type_hints(kind)
        codecs = {field.name: codec_of(hints[field.name]) for field in fields(kind)}
        write = _record_writer(kind, codecs)
        _RECORDS[kind] = Codec(_once(write) if kind in SHARED else write, _record_reader(kind, codecs))
    return _RECORDS[kind]


def _record_writer(kind: type[Any], codecs: dict[str, Codec]) -> Write:
    writers = [(name, codec.write) for name, codec in codecs.items()]

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise Unfit(f"is {type(value).__name__}, not {kind.__name__}")
        raw: dict[str, Any] = {}
        for name, put in writers:
            try:
                raw[name] = put(getattr(value, name))
            except Unfit as error:
                raise VaultError(f"{kind.__name__}.{name} {error}: a vault cannot keep it") from None
        return raw

    return write


def _once(write: Write) -> Write:
    """The same, but the latest value is remembered as it was written: question after question costs the same."""
    latest: list[tuple[Any, Any]] = [(None, None)]

    def remembered(value: Any) -> Any:
        known, raw = latest[0]
        if known is not value:
            raw = write(value)
            latest[0] = value, raw
        return raw

    return remembered


def _record_reader(kind: type[Any], codecs: dict[str, Codec]) -> Read:
    names, readers = tuple(codecs), [codec.read for codec in codecs.values()]

    def make(queries: Any, *raws: Any) -> Any:
        try:
            return kind(*[read(raw, queries) for read, raw in zip(readers, raws, strict=True)])
        except Unfit:
            raise DamagedVault(f"{kind.__name__}.{blame(queries, raws)}") from None
        except (ValueError, ArithmeticError):
            raise DamagedVault(f"{kind.__name__} cannot have such fields") from None

    def blame(queries: Any, raws: tuple[Any, ...]) -> str:
        """The first field that cannot be read, and why."""
        for name, read, raw in zip(names, readers, raws, strict=True):
            try:
                read(raw, queries)
            except Unfit as error:
                return f"{name} {error}"
        raise AssertionError("a field could not be read, and then could")

    # By type, too: 1, 1.0 and true are equal, and not the same.
    shared = lru_cache(maxsize=_REMEMBERED, typed=True)(make)

    def read(raw: Any, queries: Queries) -> Any:
        if type(raw) is not dict or tuple(raw) != names:
            raise DamagedVault(f"{kind.__name__} has the fields {', '.join(names) or '(none)'}, in this order")
        return make(queries, *raw.values())

    def read_shared(raw: Any, queries: Queries) -> Any:
        if type(raw) is dict and tuple(raw) == names and {dict, list}.isdisjoint(map(type, raw.values())):
            return shared(None, *raw.values())
        return read(raw, queries)

    return read_shared if kind in SHARED else read


def _tagged(kinds: dict[str, type[Any]]) -> Codec:
    """An instance of one of several classes: an object of one field, which has the class's name."""
    names = {kind: name for name, kind in kinds.items()}
    codecs = {name: record(kind) for name, kind in kinds.items()}

    def write(value: Any) -> dict[str, Any]:
        name = names.get(type(value))
        if name is None:
            raise Unfit(f"is {type(value).__name__}, not one of {', '.join(kinds)}")
        return {name: codecs[name].write(value)}

    def read(raw: Any, queries: Queries) -> Any:
        name, inside = _tag(raw)
        if name not in codecs:
            raise Unfit(f"is not one of {', '.join(kinds)}")
        return codecs[name].read(inside, queries)

    return Codec(write, read)


def _tag(raw: Any) -> tuple[str, Any]:
    if type(raw) is not dict or len(raw) != 1:
        raise Unfit("does not say what it is")
    ((name, inside),) = raw.items()
    return name, inside


# -- by type -----------------------------------------------------------------------------------------------------------


def codec_of(hint: Any) -> Codec:
    """The codec of a declared type. `TypeError`, when the package is imported, if there is none."""
    if hint in _SINGLE:
        return _SINGLE[hint]
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union(inside)
    if origin is tuple:
        several = len(inside) == 2 and inside[1] is Ellipsis
        return sequence(codec_of(inside[0])) if several else row([codec_of(each) for each in inside])
    if origin is dict:
        return table(codec_of(inside[0]), codec_of(inside[1]))
    if origin is Literal:
        return one_of(inside)
    if origin is np.ndarray:
        return array_of(np.dtype(get_args(inside[1])[0]))
    if hint in CLASSES.values() or hint in EVENTS.values():
        return record(hint)
    below = {name: kind for name, kind in CLASSES.items() if isinstance(hint, type) and issubclass(kind, hint)}
    if not below:
        raise TypeError(f"a vault cannot keep {hint}")
    return _tagged(below)


def _union(hints: tuple[Any, ...]) -> Codec:
    rest = set(hints) - {NoneType}
    if rest == {int, float}:
        codec = _SINGLE[float]
    elif len(rest) == 1:
        codec = codec_of(rest.pop())
    else:
        kinds = {name: kind for name, kind in CLASSES.items() if kind in rest}
        if rest != set(kinds.values()):
            raise TypeError(f"a vault cannot tell {', '.join(map(str, hints))} apart")
        codec = _tagged(kinds)
    return optional(codec) if NoneType in hints else codec


# -- what a note may hold ----------------------------------------------------------------------------------------------


def _write_any(value: Any) -> Any:
    """JSON as it is; a tuple as a list; all else in the name of what it is."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is tuple:
        return [_write_any(each) for each in value]
    name = _ANY_NAMES.get(kind)
    if name is None:
        raise Unfit(f"holds {kind.__name__}")
    raw = _ANY[name].write(value)
    return raw if type(raw) in (int, float) else {name: raw}


def _read_any(raw: Any, queries: Queries) -> Any:
    kind = type(raw)
    if raw is None or kind in (bool, str, int, float):
        return raw
    if kind is list:
        return tuple([_read_any(each, queries) for each in raw])
    name, inside = _tag(raw)
    if name not in _ANY:
        raise Unfit("holds something unknown")
    if type(inside) in (int, float):
        raise Unfit("holds a number that needs no name")
    return _ANY[name].read(inside, queries)


def _read_integer(raw: Any, _: Queries) -> int:
    return raw if type(raw) is int else read_integer(raw)


def _read_float(raw: Any, _: Queries) -> float:
    return raw if type(raw) is float else read_float(raw)


_INTEGER: Final = Codec(write_integer, _read_integer, int)
_FLOAT: Final = Codec(write_float, _read_float, float)
_FRACTION: Final = Codec(write_fraction, lambda raw, _: read_fraction(raw))
_QUERY: Final = Codec(_once(write_query), lambda raw, queries: queries.read(raw))
_ANYTHING: Final = Codec(_write_any, _read_any)
_ARRAY: Final = Codec(write_array, lambda raw, _: read_array(raw))
_LIST: Final = Codec(lambda value: _write_any(tuple(value)), lambda raw, queries: list(_read_any(listed(raw), queries)))

_SINGLE: Final[dict[Any, Codec]] = {
    int: _INTEGER,
    float: _FLOAT,
    bool: same(bool),
    str: same(str),
    Fraction: _FRACTION,
    Query: _QUERY,
    Any: _ANYTHING,
}

_BUILT_IN: Final[dict[str, tuple[type[Any], Codec]]] = {
    "int": (int, _INTEGER),
    "float": (float, _FLOAT),
    "fraction": (Fraction, _FRACTION),
    "query": (Query, _QUERY),
    "array": (np.ndarray, _ARRAY),
    "list": (list, _LIST),
    "dict": (dict, table(_ANYTHING, _ANYTHING)),
}
_ANY: Final = {name: codec for name, (_, codec) in _BUILT_IN.items()} | {
    name: record(kind) for name, kind in CLASSES.items()
}
_ANY_NAMES: Final = {kind: name for name, (kind, _) in _BUILT_IN.items()} | {
    kind: name for name, kind in CLASSES.items()
}
