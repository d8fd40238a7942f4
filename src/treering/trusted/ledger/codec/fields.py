"""Codecs of the fields of events: each becomes JSON and back, as its declared type says.

First the codecs of the shapes that values have: single values, tuples, dicts, classes. Then `Fields`, which reads the
declared types of a closed list of classes, once, and finds the codec of each field. A note is declared as ``Any``: in
it, each value is written with the name of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from treering.domain.axis import Axis
from treering.domain.query import Query
from treering.errors import DamagedVault, VaultError
from treering.trusted.ledger.codec.axes import read_axis, write_axis
from treering.trusted.ledger.codec.numbers import (
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
from treering.trusted.ledger.codec.queries import Queries, write_query

Write: TypeAlias = Callable[[Any], Any]
Read: TypeAlias = Callable[[Any, Queries], Any]


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type are written as JSON, and read back."""

    write: Write
    read: Read
    itself: type[Any] | None = None
    """JSON values of this type are read unchanged."""


# -- single values -----------------------------------------------------------------------------------------------------


def same(kind: type[Any]) -> Codec:
    """Values of a type that JSON has, written and read unchanged."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise Unfit(f"is not {kind.__name__}")
        return value

    return Codec(check, lambda raw, _: check(raw), kind)


def one_of(words: tuple[str, ...]) -> Codec:
    """One of the given words."""

    def check(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise Unfit(f"is not one of {', '.join(words)}")
        return value

    return Codec(check, lambda raw, _: check(raw))


def optional(codec: Codec) -> Codec:
    """A value or None, which is written as null."""
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
    """``raw``, which must be a list; of ``length`` items, if that is given."""
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
        if type(raw) is list and len(raw) == 1:
            return (read(raw[0], queries),)
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
    """A dict, as a list of pairs in the dict's order."""
    pair = row([key, value])

    def write(table: Any) -> list[Any]:
        if type(table) is not dict:
            raise Unfit(f"is {type(table).__name__}, not a dict")
        return [pair.write(item) for item in table.items()]

    def read(raw: Any, queries: Queries) -> dict[Any, Any]:
        try:
            table = dict([pair.read(each, queries) for each in listed(raw)])
        except TypeError:
            raise Unfit("has a key that cannot be hashed") from None
        if len(table) != len(raw):
            raise Unfit("has a key twice")
        return table

    return Codec(write, read)


# -- classes -----------------------------------------------------------------------------------------------------------

_REMEMBERED: Final = 1024
"""How many values of each shared class are cached."""


def record(kind: type[Any], codecs: dict[str, Codec], *, shared: bool) -> Codec:
    """An instance of one class, as an object of its fields in their order. Values of a ``shared`` class are small,
    immutable and recurring: equal ones are read as one object."""
    write = _record_writer(kind, codecs)
    return Codec(_once(write) if shared else write, _record_reader(kind, codecs, remembered=shared))


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
    """``write`` with the latest value and its JSON cached: consecutive events often hold the same value."""
    latest: list[tuple[Any, Any]] = [(None, None)]

    def remembered(value: Any) -> Any:
        known, raw = latest[0]
        if known is not value:
            raw = write(value)
            latest[0] = value, raw
        return raw

    return remembered


def _record_reader(kind: type[Any], codecs: dict[str, Codec], *, remembered: bool) -> Read:
    names, readers = tuple(codecs), [codec.read for codec in codecs.values()]
    unchanged = [(codec.itself, codec.read) for codec in codecs.values()]

    def make(queries: Any, *raws: Any) -> Any:
        try:
            pairs = zip(unchanged, raws, strict=True)
            return kind(*[raw if type(raw) is itself else read(raw, queries) for (itself, read), raw in pairs])
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

    # Cached by type, too: 1, 1.0 and true are equal, but not the same.
    shared = lru_cache(maxsize=_REMEMBERED, typed=True)(make)

    def read(raw: Any, queries: Queries) -> Any:
        if type(raw) is not dict or tuple(raw) != names:
            raise DamagedVault(f"{kind.__name__} has the fields {', '.join(names) or '(none)'}, in this order")
        return make(queries, *raw.values())

    def read_shared(raw: Any, queries: Queries) -> Any:
        if type(raw) is dict and tuple(raw) == names:
            try:
                return shared(None, *raw.values())
            except TypeError:  # A list or an object in it cannot be looked up.
                pass
        return read(raw, queries)

    return read_shared if remembered else read


def tagged(codecs: dict[type[Any], Codec]) -> Codec:
    """An instance of one of several classes: an object whose one field has the class's name."""
    names = {kind: kind.__name__ for kind in codecs}
    by_name = {kind.__name__: codec for kind, codec in codecs.items()}

    def write(value: Any) -> dict[str, Any]:
        name = names.get(type(value))
        if name is None:
            raise Unfit(f"is {type(value).__name__}, not one of {', '.join(by_name)}")
        return {name: by_name[name].write(value)}

    def read(raw: Any, queries: Queries) -> Any:
        name, inside = _tag(raw)
        if name not in by_name:
            raise Unfit(f"is not one of {', '.join(by_name)}")
        return by_name[name].read(inside, queries)

    return Codec(write, read)


def _tag(raw: Any) -> tuple[str, Any]:
    if type(raw) is not dict or len(raw) != 1:
        raise Unfit("does not name its type")
    ((name, inside),) = raw.items()
    return name, inside


# -- codecs by declared type -------------------------------------------------------------------------------------------


def _read_integer(raw: Any, _: Queries) -> int:
    return raw if type(raw) is int else read_integer(raw)


def _read_float(raw: Any, _: Queries) -> float:
    return raw if type(raw) is float else read_float(raw)


_INTEGER: Final = Codec(write_integer, _read_integer, int)
_FLOAT: Final = Codec(write_float, _read_float, float)
_FRACTION: Final = Codec(write_fraction, lambda raw, _: read_fraction(raw))
_ARRAY: Final = Codec(write_array, lambda raw, _: read_array(raw))


class Fields:
    """The codecs of a closed list of classes, by their declared types.

    ``events`` are the classes that a line of the ledger can hold, ``parts`` those that values in a line can have; a
    class is written under its own name. ``shared`` are the parts whose values recur. ``names`` are the types that the
    module of an event does not import, by name. `TypeError` if a field is declared as a type that cannot be kept.
    """

    def __init__(
        self,
        events: Collection[type[Any]],
        parts: Collection[type[Any]],
        shared: Collection[type[Any]],
        names: Mapping[str, Any] | None = None,
    ) -> None:
        self._hints = dict(names or {})
        self._parts = tuple(dict.fromkeys(parts))
        self._listed = {*events, *self._parts}
        if len({kind.__name__ for kind in self._listed}) != len(self._listed):
            raise TypeError("two classes of one name cannot be told apart in a ledger")
        self._shared = shared
        self._records: dict[type[Any], Codec] = {}
        anything = Codec(self._write_any, self._read_any)
        axis = Codec(write_axis, lambda raw, _: read_axis(raw))
        query = Codec(_once(write_query), lambda raw, queries: queries.read(raw))
        self._single: dict[Any, Codec] = {
            int: _INTEGER,
            float: _FLOAT,
            bool: same(bool),
            str: same(str),
            Fraction: _FRACTION,
            Axis: axis,
            Query: query,
            Any: anything,
        }
        built_in: dict[type[Any], tuple[str, Codec]] = {
            int: ("int", _INTEGER),
            float: ("float", _FLOAT),
            Fraction: ("fraction", _FRACTION),
            Query: ("query", query),
            np.ndarray: ("array", _ARRAY),
            list: ("list", Codec(self._write_list, self._read_list)),
            dict: ("dict", table(anything, anything)),
        }
        self._names = {kind: name for kind, (name, _) in built_in.items()}
        self._names |= {kind: kind.__name__ for kind in self._parts}
        self._any = dict(built_in.values()) | {kind.__name__: self.of(kind) for kind in self._parts}

    def of(self, kind: type[Any]) -> Codec:
        """The codec of one of the classes."""
        if kind not in self._listed:
            raise TypeError(f"{kind.__name__} is not on the list of what a vault keeps")
        if kind not in self._records:
            self._records[kind] = record(kind, self._codecs(kind), shared=kind in self._shared)
        return self._records[kind]

    def _codecs(self, kind: type[Any]) -> dict[str, Codec]:
        hints = get_type_hints(kind, localns=self._hints)
        return {field.name: self._declared(hints[field.name]) for field in fields(kind)}

    def _declared(self, hint: Any) -> Codec:
        """The codec of a declared type."""
        if hint in self._single:
            return self._single[hint]
        origin, inside = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._union(inside)
        if origin is tuple:
            several = len(inside) == 2 and inside[1] is Ellipsis
            return sequence(self._declared(inside[0])) if several else row([self._declared(each) for each in inside])
        if origin is dict:
            return table(self._declared(inside[0]), self._declared(inside[1]))
        if origin is Literal:
            return one_of(inside)
        if origin is np.ndarray:
            return array_of(np.dtype(get_args(inside[1])[0]))
        if hint in self._listed:
            return self.of(hint)
        below = [kind for kind in self._parts if isinstance(hint, type) and issubclass(kind, hint)]
        if not below:
            raise TypeError(f"a vault cannot keep {hint}")
        return tagged({kind: self.of(kind) for kind in below})

    def _union(self, hints: tuple[Any, ...]) -> Codec:
        rest = set(hints) - {NoneType}
        if rest == {int, float}:
            codec = _FLOAT
        elif len(rest) == 1:
            codec = self._declared(rest.pop())
        elif rest <= set(self._parts):
            codec = tagged({kind: self.of(kind) for kind in self._parts if kind in rest})
        else:
            raise TypeError(f"a vault cannot tell {', '.join(map(str, hints))} apart")
        return optional(codec) if NoneType in hints else codec

    # -- values in a note ---------------------------------------------------------------------------------------------

    def _write_any(self, value: Any) -> Any:
        """A value that JSON has, unchanged; a tuple as a list; any other as an object with the name of its type."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is tuple:
            return [self._write_any(each) for each in value]
        name = self._names.get(kind)
        if name is None:
            raise Unfit(f"holds {kind.__name__}")
        raw = self._any[name].write(value)
        return raw if type(raw) in (int, float) else {name: raw}

    def _read_any(self, raw: Any, queries: Queries) -> Any:
        kind = type(raw)
        if raw is None or kind in (bool, str, int, float):
            return raw
        if kind is list:
            return tuple([self._read_any(each, queries) for each in raw])
        name, inside = _tag(raw)
        if name not in self._any:
            raise Unfit("holds something unknown")
        if type(inside) in (int, float):
            raise Unfit("holds a number under the name of its type")
        return self._any[name].read(inside, queries)

    def _write_list(self, value: Any) -> Any:
        return self._write_any(tuple(value))

    def _read_list(self, raw: Any, queries: Queries) -> list[Any]:
        return list(self._read_any(listed(raw), queries))
