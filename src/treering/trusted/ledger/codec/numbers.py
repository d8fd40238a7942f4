"""Numbers and arrays as JSON, bit for bit: the leaves of the ledger's events.

Writing gives plain JSON values; reading takes parsed JSON, and refuses values that writing would not have given.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from treering.arrays import Array


class Unfit(Exception):
    """A value that cannot be written, or JSON that was never written so. Its message continues a sentence that begins
    with the value's name, and quotes no value. It never leaves the codec."""


_DECIMAL_BITS: Final = 4096
"""Integers of more bits are written in hexadecimal, because Python limits the digits of decimal text."""

_NAN_BITS: Final = 0x7FF8000000000000
"""The bits of the usual NaN; any other NaN is written with its bits."""

_LISTED: Final = 64
"""Arrays of no more integers than this are written as a list that a person can read."""

_PLAIN_KINDS: Final = "biufc"
"""Kinds of dtype that are numbers: booleans, integers, floats, complex numbers."""

_MOST_BYTES: Final = 2**40
"""The largest array that is read."""

_FAST: Final = 1
"""The level of zlib: noisy numbers gain nothing from a higher one."""


# -- numbers -----------------------------------------------------------------------------------------------------------


def write_integer(value: Any) -> int | str:
    """An integer as a number; as a text in hexadecimal if it has more than `_DECIMAL_BITS` bits."""
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise Unfit(f"is {type(value).__name__}, not an integer")
        value = int(value)
    return value if value.bit_length() <= _DECIMAL_BITS else hex(value)


def read_integer(raw: Any) -> int:
    """The integer that `write_integer` wrote."""
    if type(raw) is int:
        return raw
    if type(raw) is str:
        return _integer(raw, 16)
    raise Unfit("is not an integer")


def write_float(value: Any) -> float | int | str:
    """A float as a number, in the shortest decimal digits that give the same float; as a text if it is not finite.

    An integer, where a float is declared, stays an integer.
    """
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not float:
        if not isinstance(value, float | np.floating):
            return write_integer(value)
        if float(value) != value and value == value:
            raise Unfit(f"is {type(value).__name__}, which has more digits than a float")
    return _finite(float(value))


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if value == value:
        return "inf" if value > 0 else "-inf"
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return "nan" if bits == _NAN_BITS else f"nan:{bits:016x}"


def read_float(raw: Any) -> float:
    """The number that `write_float` wrote."""
    if type(raw) is float or type(raw) is int:
        return raw
    if type(raw) is not str:
        raise Unfit("is not a number")
    if raw in ("inf", "-inf", "nan"):
        return float(raw)
    if raw.startswith("nan:"):
        return _nan(raw)
    return _integer(raw, 16)


def _nan(text: str) -> float:
    try:
        value: float = struct.unpack("<d", struct.pack("<Q", int(text[4:], 16)))[0]
    except (ValueError, struct.error):
        raise Unfit("is not a number") from None
    if write_float(value) != text:
        raise Unfit("is not a number")
    return value


def _integer(text: str, base: int) -> int:
    try:
        value = int(text, base)
    except ValueError:
        raise Unfit("is not an integer") from None
    if (hex(value) if base == 16 else str(value)) != text:
        raise Unfit("is not an integer")
    return value


def write_fraction(value: Any) -> str:
    """A fraction as "p/q" in lowest terms."""
    if type(value) is not Fraction:
        raise Unfit(f"is {type(value).__name__}, not a fraction")
    return f"{write_integer(value.numerator)}/{write_integer(value.denominator)}"


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    above, slash, below = text.partition("/")
    parts = [_integer(part, 16 if "x" in part else 10) for part in (above, below)]
    if not slash or parts[1] < 1:
        raise Unfit("is not a fraction")
    value = Fraction(*parts)
    if write_fraction(value) != text:
        raise Unfit("is not a fraction in lowest terms")
    return value


def read_fraction(raw: Any) -> Fraction:
    """The fraction that `write_fraction` wrote."""
    if type(raw) is not str:
        raise Unfit("is not a fraction")
    return _fraction(raw)


# -- bytes and arrays --------------------------------------------------------------------------------------------------


def write_bytes(data: bytes) -> str:
    """Bytes in base64: after "z:" compressed by zlib, or after "b:" as they are if that does not shorten them."""
    packed = zlib.compress(data, _FAST)
    short, mark = (packed, "z:") if len(packed) < len(data) else (data, "b:")
    return mark + base64.b64encode(short).decode("ascii")


def read_bytes(raw: Any, length: int) -> bytes:
    """The bytes that `write_bytes` wrote, which must be ``length`` many: never unpacks more than one byte beyond."""
    if type(raw) is not str or raw[:2] not in ("z:", "b:"):
        raise Unfit("is not packed bytes")
    try:
        data = base64.b64decode(raw[2:], validate=True)
        if base64.b64encode(base64.b64decode(raw[2:][-4:])).decode("ascii") != raw[2:][-4:]:
            raise Unfit("has packed bytes with stray bits")
        if raw[0] == "z":
            unpacking = zlib.decompressobj()
            data = unpacking.decompress(data, length + 1)
            if len(data) == length and not unpacking.eof:  # the checksum is still to come
                data += unpacking.decompress(unpacking.unconsumed_tail, 1)
            if not unpacking.eof or unpacking.unused_data:
                raise Unfit("has packed bytes of another length")
    except (binascii.Error, zlib.error):
        raise Unfit("has packed bytes that cannot be unpacked") from None
    if len(data) != length:
        raise Unfit("has packed bytes of another length")
    return data


def write_array(value: Any) -> dict[str, Any]:
    """An array as dtype, shape and entries in C order: a list if they are few integers, else little-endian bytes."""
    if type(value) is not np.ndarray or value.dtype.kind not in _PLAIN_KINDS:
        raise Unfit("is not an array of numbers")
    head = {"dtype": value.dtype.str, "shape": list(value.shape)}
    if value.dtype.kind in "iu" and value.size <= _LISTED:
        return {**head, "values": value.reshape(-1).tolist()}
    if value.dtype.str[0] == ">":
        value = value.byteswap()
    return {**head, "data": write_bytes(value.tobytes())}


_INTEGERS: Final = frozenset({int})
"""The type of an integer; bool, which is a kind of int, has another."""


def read_array(raw: Any) -> Array:
    """The array that `write_array` wrote, read-only."""
    if type(raw) is not dict or len(raw) != 3 or "dtype" not in raw:
        raise Unfit("is not an array")
    dtype, shape = _dtype(raw["dtype"]), raw.get("shape")
    if (
        type(shape) is not list
        or len(shape) > 64
        or not _INTEGERS.issuperset(map(type, shape))
        or min(shape, default=0) < 0
    ):
        raise Unfit("has no shape")
    size = math.prod(shape)
    if size * dtype.itemsize > _MOST_BYTES:
        raise Unfit("is an array that is too large")
    array = _listed(raw["values"], dtype) if "values" in raw else _packed(raw.get("data"), dtype, size * dtype.itemsize)
    if array.size != size:
        raise Unfit("has another number of entries than its shape says")
    if len(shape) != 1:
        array = array.reshape(shape)
    array.setflags(write=False)
    return array


def _listed(values: Any, dtype: np.dtype[Any]) -> Array:
    if type(values) is not list or dtype.kind not in "iu" or not _INTEGERS.issuperset(map(type, values)):
        raise Unfit("has entries that are not integers")
    try:
        return np.array(values, dtype=dtype)
    except OverflowError:
        raise Unfit("has an entry that is too large") from None


def _packed(data: Any, dtype: np.dtype[Any], length: int) -> Array:
    array = np.frombuffer(read_bytes(data, length), dtype=dtype.newbyteorder("<"))
    return array.byteswap().view(dtype) if dtype.str[0] == ">" else array


def _dtype(text: Any) -> np.dtype[Any]:
    if type(text) is not str:
        raise Unfit("has no dtype of numbers")
    return _dtype_of(text)


@lru_cache(maxsize=64)
def _dtype_of(text: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        raise Unfit("has no dtype of numbers") from None
    if dtype.kind not in _PLAIN_KINDS or dtype.str != text:
        raise Unfit("has no dtype of numbers")
    return dtype
