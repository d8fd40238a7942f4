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
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from treering.errors import DamagedVault
from treering.trusted.counts import Counts
from treering.trusted.sealed import Sealed

Cells = npt.NDArray[np.int64]

SALT_BYTES: Final = 32


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
        return _parquet(pa.table({"cell": self.cells, "rows": self.counts}), "DELTA_BINARY_PACKED")

    def packed_persons(self) -> bytes | None:
        """The file of the persons, if there are any."""
        if not self.persons:
            return None
        digests = pa.array(sorted(self.persons), pa.binary(16))
        rows = pa.array([self.persons[digest] for digest in sorted(self.persons)], pa.int64())
        return _parquet(pa.table({"person": digests, "rows": rows}))


def read_batch(content: bytes, name: str) -> Batch:
    """The batch of a file."""
    table = _read(content, name, {"cell": pa.int64(), "rows": pa.int64()})
    cells, counts = (_numbers(table.column(each)) for each in ("cell", "rows"))
    if len(counts) and int(counts.min()) < 1:
        raise DamagedVault(f"part {name} is damaged; restore a backup")
    return Batch(cells, counts)


def read_persons(content: bytes, name: str) -> dict[bytes, int]:
    """The persons of a file, and how many rows each has in the batch."""
    table = _read(content, name, {"person": pa.binary(16), "rows": pa.int64()})
    return dict(zip(table.column("person").to_pylist(), table.column("rows").to_pylist(), strict=True))


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


def _parquet(table: pa.Table, encoding: str | None = None) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=encoding is None, column_encoding=encoding)
    return sink.getvalue()


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A column of integers. (Its own ``to_numpy`` would load pandas first, which takes longer than opening a vault.)"""
    if len(column) == 0:
        return np.empty(0, dtype=np.int64)
    whole = column.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.int64, len(whole), 8 * whole.offset)


def _read(content: bytes, name: str, columns: dict[str, Any]) -> pa.Table:
    """A file's table; the library's own words could quote a value."""
    try:
        # Threads take longer to start than a small file to read, and a vault can have thousands.
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=len(content) > 2**20)
        nulls = sum(column.null_count for column in table.columns)
        if table.schema.equals(pa.schema(columns), check_metadata=False) and not nulls:
            return table
    except Exception:
        table = None
    raise DamagedVault(f"part {name} is damaged; restore a backup")
