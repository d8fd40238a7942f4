"""PRIVATE: a digest of typed rows, which binds what they say and by which the same rows are known again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa

from treering.arrays import Ints
from treering.trusted.rows.views import ends_of, fixed, flags_in, numbers_in, valid_in
from treering.trusted.sealed import Sealed

THREADS: Final = 2
"""How many columns are hashed at a time, where there are many rows. (hashlib does not hold Python's lock.)"""
MANY: Final = 2**14
"""From this many rows on, threads pay."""


class RowsDigest(Sealed):
    """PRIVATE: a digest of typed rows, in their order: the names and types of the columns, and every value.

    Equal rows have equal digests, in whatever blocks they come, however these are cut, and whatever lies in memory
    under a null. The digest of few possible rows can be guessed: only `keyed` is kept, as a secret.
    """

    __slots__ = ("_columns", "_names", "rows")

    def __init__(self) -> None:
        self.rows = 0
        """How many rows were added: public."""
        self._names: list[tuple[str, str]] = []
        self._columns: list[_Column] = []

    def add(self, table: pa.Table) -> None:
        """Add the next rows."""
        if not table.num_rows:
            return
        names = [(field.name, str(field.type)) for field in table.schema]
        if not self._columns:
            self._names = names
            self._columns = [_Column() for _ in names]
        assert names == self._names, "all rows have the same columns"
        pairs = list(zip(self._columns, table.columns, strict=True))
        if table.num_rows < MANY:
            for column, values in pairs:
                column.add(values, self.rows)
        else:
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(lambda pair: pair[0].add(pair[1], self.rows), pairs))
        self.rows += table.num_rows

    def keyed(self, salt: bytes) -> str:
        """The digest, by a secret salt: it tells nothing to those who have not the salt."""
        whole = hashlib.blake2b(self.rows.to_bytes(8, "big"), key=salt)
        whole.update(repr(self._names).encode())
        for column in self._columns:
            whole.update(column.digest())
        return whole.hexdigest()


class _Column:
    """The digest of one column: where its nulls are, the values (0 where they are null), and the bytes of texts, whose
    values are their lengths."""

    __slots__ = ("_hashes",)

    def __init__(self) -> None:
        self._hashes = [hashlib.sha256() for _ in range(3)]

    def add(self, values: pa.ChunkedArray, first: int) -> None:
        """Add the next values; ``first`` is the number of those before."""
        for chunk in values.chunks:
            for state, content in zip(self._hashes, _contents(chunk, first), strict=False):
                state.update(content)
            first += len(chunk)

    def digest(self) -> bytes:
        """All of it."""
        return b"".join(state.digest() for state in self._hashes)


def _contents(values: pa.Array, first: int) -> Iterator[Any]:
    """What is hashed of an array, as buffers."""
    absent = np.flatnonzero(~valid_in(values)) if values.null_count else None
    yield b"" if absent is None else np.ascontiguousarray(absent + first, "<i8")
    yield from _texts(values) if pa.types.is_string(values.type) else _numbers(values, absent)


def _numbers(values: pa.Array, absent: Ints | None) -> Iterable[Any]:
    if pa.types.is_boolean(values.type):
        plain = flags_in(values).view(np.uint8)
    elif pa.types.is_fixed_size_binary(values.type):
        width = values.type.byte_width
        plain = fixed(values, f"V{width}").view(np.uint8).reshape(len(values), width)
    else:
        plain = numbers_in(values)
    if absent is not None:
        plain = plain.copy()
        plain[absent] = 0
    return [np.ascontiguousarray(plain)]


def _texts(values: pa.Array) -> Iterable[Any]:
    ends = ends_of(values)
    if values.null_count:
        values = values.fill_null("")  # which leaves no bytes under a null
        ends = ends_of(values)
    data = values.buffers()[2]
    text = b"" if data is None else memoryview(data)[int(ends[0]) : int(ends[-1])]
    return [np.diff(ends).astype("<i4", copy=False), text]
