"""Short texts → codes, at memory speed: for the large batches where a general hash table would take half of the time.

A text of at most seven bytes is one 64-bit number, its bytes behind its length: equal numbers are equal texts, so a
look-up needs no comparison of bytes. Attributes with a longer category, and small batches, go through Arrow's own
look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

LARGE: Final = 2**17
"""From this many rows in a block the kernel is worth loading (a second, once a process)."""

LONGEST: Final = 7
"""The most bytes that fit beside their length."""

_MULTIPLIER: Final = 0x9E3779B97F4A7C15

Table: TypeAlias = tuple[
    np.ndarray[tuple[Any, ...], np.dtype[np.uint64]], np.ndarray[tuple[Any, ...], np.dtype[np.int32]], np.uint64
]


def fits(values: tuple[Any, ...], column: pa.Array) -> bool:
    """Whether `find` applies and pays: a large block of plain strings, all categories short."""
    plain = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return bool(plain) and len(column) >= LARGE and all(len(value.encode()) <= LONGEST for value in values)


def find(values: tuple[Any, ...], column: pa.Array) -> np.ndarray[tuple[Any, ...], np.dtype[np.int32]]:
    """The position of each text among the values, −1 where it is none of them; arbitrary where it is null."""
    _, offsets, data = column.buffers()
    wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
    ends = np.frombuffer(offsets, dtype=wide)[column.offset : column.offset + len(column) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    found = np.empty(len(column), dtype=np.int32)
    _compiled()(ends, text, *_table(values), found)
    return found


@lru_cache(maxsize=64)
def _table(values: tuple[Any, ...]) -> Table:
    """An open hash table, at most a quarter full: keys, positions (−1: empty), and the shift of its hash."""
    bits = max(2, (4 * len(values) - 1).bit_length())
    keys, positions = np.zeros(2**bits, dtype=np.uint64), np.full(2**bits, -1, dtype=np.int32)
    for position, value in enumerate(values):
        key = int.from_bytes(bytes([len(value.encode())]) + value.encode())
        slot = (key * _MULTIPLIER & (2**64 - 1)) >> (64 - bits)
        while positions[slot] >= 0:
            slot = (slot + 1) % 2**bits
        keys[slot], positions[slot] = key, position
    return keys, positions, np.uint64(64 - bits)


def _look_up(ends: Any, text: Any, keys: Any, positions: Any, shift: Any, found: Any) -> None:
    one, eight = np.uint64(1), np.uint64(8)
    last = np.uint64(len(keys) - 1)
    for row in range(len(found)):
        start, end = ends[row], ends[row + 1]
        if end - start > LONGEST:
            found[row] = -1
            continue
        key = np.uint64(end - start)
        for place in range(start, end):
            key = key << eight | np.uint64(text[place])
        slot = key * np.uint64(_MULTIPLIER) >> shift
        while positions[slot] >= 0 and keys[slot] != key:
            slot = slot + one & last
        found[row] = positions[slot]


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., None]:
    """The kernel, compiled. numba is loaded here because that takes a second."""
    from numba import njit

    compiled: Callable[..., None] = njit(nogil=True, cache=True)(_look_up)
    return compiled
