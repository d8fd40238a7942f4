"""Ways into JSON and back for the shapes that values come in: single ones, tuples, dicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from treering.vault.codec.queries import Queries
from treering.vault.codec.values import Unfit, read_array, write_array

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
