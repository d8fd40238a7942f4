"""A batch of rows as bytes: what a durable store keeps of it.

A batch is a Parquet file with a line for each occupied cell: its number, and how many of the rows lie in it. Of a row
nothing else is kept, neither its values within a bin nor its neighbours in the batch. Where persons have a limit of
rows there is a second file, with a line for each person: a keyed digest, and how many of the rows are theirs. Nothing
links the two.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treering.arrays import Ints
from treering.errors import DamagedVault
from treering.trusted.counts import Counts
from treering.trusted.sealed import Sealed

Cells = Ints

SALT_BYTES: Final = 32

DIGEST_BYTES: Final = 16
"""Of the digest that stands for a person."""


class Batch(Sealed):
    """PRIVATE: rows that fit the schema, counted by cell, and by person where that matters."""

    __slots__ = ("cells", "counts", "persons")

    def __init__(self, cells: Cells, counts: Cells, persons: Mapping[bytes, int] | None = None) -> None:
        self.cells, self.counts = cells, counts
        self.persons = dict(persons or {})

    @classmethod
    def of(cls, cells: Cells, persons: Mapping[bytes, int] | None = None) -> Batch:
        """A batch of rows, given by the cell of each."""
        if len(cells) and 4 * len(cells) > int(cells.max()):  # A pass over all cells is faster than sorting.
            tally = np.bincount(cells)
            unique = np.flatnonzero(tally)
            return cls(unique, tally[unique], persons)
        unique, counts = np.unique(cells, return_counts=True)
        return cls(unique, counts.astype(np.int64), persons)

    @property
    def rows(self) -> int:
        """How many: public."""
        return int(self.counts.sum())

    def add_to(self, counts: Counts) -> None:
        """Count the rows."""
        counts.add_counted(self.cells, self.counts)

    def packed(self) -> bytes:
        """The file of the cells."""
        # The cells are sorted: their differences are small, and quick to pack.
        return parquet(pa.table({"cell": column(self.cells), "rows": column(self.counts)}), "DELTA_BINARY_PACKED")

    def packed_persons(self) -> bytes | None:
        """The file of the persons, if there are any."""
        return packed_persons(self.persons)


def packed_persons(persons: Mapping[bytes, int]) -> bytes | None:
    """A file of persons, if there are any, in the order of their digests: it shows nothing of when they came."""
    if not persons:
        return None
    digests = np.frombuffer(b"".join(persons), ">u8").reshape(-1, 2)
    rows = np.fromiter(persons.values(), np.int64, len(persons))
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    sorted_digests = pa.py_buffer(np.ascontiguousarray(digests[order]))
    listed = pa.Array.from_buffers(pa.binary(DIGEST_BYTES), len(persons), [None, sorted_digests])
    return parquet(pa.table({"person": listed, "rows": column(rows[order])}))


def read_batch(content: bytes, name: str) -> Batch:
    """The batch of a file."""
    table = read_table(content, name, {"cell": pa.int64(), "rows": pa.int64()})
    cells, counts = (numbers(table.column(each)) for each in ("cell", "rows"))
    if len(counts) and int(counts.min()) < 1:
        raise damaged(name)
    return Batch(cells, counts)


def read_persons(content: bytes, name: str) -> dict[bytes, int]:
    """The persons of a file, and how many rows each has in the batch."""
    table = read_table(content, name, {"person": pa.binary(DIGEST_BYTES), "rows": pa.int64()})
    if table.num_rows == 0:
        return {}
    digests = table.column("person").combine_chunks()
    # (A column's own ``to_pylist`` makes an object of the library's for each value first: ten times as slow.)
    listed = np.frombuffer(digests.buffers()[1], f"V{DIGEST_BYTES}", len(digests), DIGEST_BYTES * digests.offset)
    return dict(zip(listed.tolist(), numbers(table.column("rows")).tolist(), strict=True))


def salt() -> bytes:
    """Fresh secret bytes: for a commitment, or as a key."""
    return secrets.token_bytes(SALT_BYTES)


def commitment(salt: bytes, *contents: bytes) -> str:
    """A hash that binds contents and, without the salt, tells nothing about them."""
    state = hashlib.sha256(salt)
    for content in contents:
        state.update(len(content).to_bytes(8, "big"))
        state.update(content)
    return state.hexdigest()


def parquet(table: pa.Table, encoding: str | None = None) -> bytes:
    """A table as a file, every column in the given encoding."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=encoding is None, column_encoding=encoding)
    return sink.getvalue()


def column(numbers: Cells) -> pa.Array:
    """Integers as a column. (Here and below Arrow's own ways to NumPy and back would load pandas first, which takes
    longer than opening a vault.)"""
    return pa.Array.from_buffers(
        pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers, np.int64))]
    )


def numbers(column: pa.ChunkedArray) -> Cells:
    """A column of integers."""
    if len(column) == 0:
        return np.empty(0, dtype=np.int64)
    whole = column.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.int64, len(whole), 8 * whole.offset)


def read_table(content: bytes, name: str, columns: dict[str, Any]) -> pa.Table:
    """A file's table; the library's own words could quote a value."""
    try:
        # Threads take longer to start than a small file to read, and a vault can have thousands.
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=len(content) > 2**20)
        nulls = sum(column.null_count for column in table.columns)
        if table.schema.equals(pa.schema(columns), check_metadata=False) and not nulls:
            return table
    except Exception:
        table = None
    raise damaged(name)


def damaged(name: str) -> DamagedVault:
    """The error for a file that is none of these."""
    return DamagedVault(f"part {name} is damaged; restore a backup")
