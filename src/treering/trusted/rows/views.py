"""PRIVATE: Arrow's arrays as NumPy's, without a copy where there is no need for one.

(Arrow's own ways to NumPy load pandas first, which takes longer than opening a vault.)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from treering.arrays import Array, Flags, Ints

_DTYPES: Final[dict[Any, str]] = {
    pa.int64(): "<i8",
    pa.float64(): "<f8",
    pa.timestamp("us"): "<i8",
}
"""How the values of a type lie in memory."""


def numbers_in(values: pa.Array) -> Array:
    """The values of an array of numbers or moments; arbitrary where they are null."""
    return fixed(values, _DTYPES[values.type])


def fixed(values: pa.Array, dtype: str) -> Array:
    """The values of an array of one width, as they lie in memory."""
    data, width = values.buffers()[1], np.dtype(dtype).itemsize
    if data is None or not len(values):
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, len(values), width * values.offset)


def valid_in(values: pa.Array) -> Flags:
    """Which values are not null."""
    validity = values.buffers()[0]
    if validity is None or not values.null_count:
        return np.ones(len(values), dtype=np.bool_)
    return bits(validity, values.offset, len(values))


def flags_in(values: pa.BooleanArray) -> Flags:
    """The values of an array of booleans; arbitrary where they are null."""
    data = values.buffers()[1]
    return np.empty(0, np.bool_) if data is None else bits(data, values.offset, len(values))


def bits(buffer: pa.Buffer, offset: int, number: int) -> Flags:
    """Some bits of a buffer, in Arrow's order."""
    first, last = offset // 8, -(-(offset + number) // 8)
    octets = np.frombuffer(buffer, np.uint8, last - first, first)
    return np.unpackbits(octets, bitorder="little")[offset % 8 : offset % 8 + number].view(np.bool_)


def ends_of(texts: pa.Array) -> Ints:
    """Where each text of an array of strings begins in its data, and where the last one ends."""
    offsets = texts.buffers()[1]
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, dtype=np.int32)
    return np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
