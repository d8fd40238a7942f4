"""Rows as the files that a durable store keeps: a batch, and a base, which merges many batches.

A *batch* is a Parquet file with a line for each occupied cell: its number, how many of the rows lie in it, and for each
attribute of `numbers` the sum of their u (``domain/sums.py``), in a column called "sum 0", "sum 1" and so on. Of a row
nothing else is kept, neither its values within a bin nor its neighbours in the batch. Where persons have a limit of
rows there is a second file, with a line for each person: a keyed digest, and how many of the rows are theirs. Nothing
links the two.

A *base* holds the rows of many batches merged, so that a store need not read each batch again: a file of cells and,
where persons have a limit, a file of persons, as for a batch. It holds nothing that the batches do not imply. Its cells
come in stretches. Segments tell rows before and after some earlier sizes apart (`treering.trusted.counts.Stretches`):
rows are merged only up to the next of those sizes, and a store that reads a base can mark the counts where each stretch
ends. Later sessions need no other sizes: a segment keeps the sizes that it has, or ends, and adds the current one.

`take_in` makes a batch of new rows, from a frame or, some rows at a time, from a file.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from treering.arrays import Ints
from treering.domain.schema import Schema
from treering.domain.sums import stored
from treering.errors import DamagedVault, DataError
from treering.rowfile import RowFile
from treering.trusted.counts import Counts
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.encode import INVALID, Where, encode_all
from treering.trusted.rows.files import blocks, line_of
from treering.trusted.rows.persons import Persons, excess
from treering.trusted.sealed import Sealed

DIGEST_BYTES: Final = 16
"""The length of the digest that stands for a person."""


class Batch(Sealed):
    """PRIVATE: rows that fit the schema, counted by cell and, where persons have a limit, by person."""

    __slots__ = ("cells", "counts", "persons", "sums")

    def __init__(self, cells: Ints, counts: Ints, *sums: Ints, persons: Mapping[bytes, int] | None = None) -> None:
        self.cells, self.counts, self.sums = cells, counts, sums
        self.persons = dict(persons or {})

    @classmethod
    def of(cls, cells: Ints, persons: Mapping[bytes, int] | None = None, sums: Sequence[Ints] = ()) -> Batch:
        """A batch of rows, given by the cell of each, and by its u of each attribute whose sums are stored."""
        if len(cells) and 4 * len(cells) > int(cells.max()):  # A pass over all cells is faster than sorting.
            tally = np.bincount(cells)
            unique = np.flatnonzero(tally)
            place = np.zeros(len(tally), dtype=np.int64)
            place[unique] = np.arange(len(unique))
            return cls(unique, tally[unique], *_added(place[cells], sums, len(unique)), persons=persons)
        unique, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
        return cls(unique, counts.astype(np.int64), *_added(inverse, sums, len(unique)), persons=persons)

    @property
    def rows(self) -> int:
        """The number of rows: public."""
        return int(self.counts.sum())

    def add_to(self, counts: Counts) -> None:
        """Add the rows to ``counts``."""
        counts.add_counted(self.cells, self.counts, sums=self.sums)

    def packed(self) -> bytes:
        """The file of the cells."""
        # The cells are sorted: their differences are small, and compress fast.
        return parquet(packed_cells([self]), "DELTA_BINARY_PACKED")

    def packed_persons(self) -> bytes | None:
        """The file of the persons, if there are any."""
        return packed_persons(self.persons)


def _added(places: Ints, sums: Sequence[Ints], length: int) -> list[Ints]:
    """Each column of sums, added up by place."""
    totals = [np.zeros(length, dtype=np.int64) for _ in sums]
    for total, each in zip(totals, sums, strict=True):
        np.add.at(total, places, each)
    return totals


def packed_cells(batches: Sequence[Batch]) -> pa.Table:
    """The cells of some batches, one after another, as a table."""
    columns = zip(*((batch.cells, batch.counts, *batch.sums) for batch in batches), strict=True)
    arrays = [column(np.concatenate(each)) for each in columns]
    return pa.table(dict(zip(_names(len(arrays) - 2), arrays, strict=True)))


def _names(sums: int) -> list[str]:
    return ["cell", "rows", *(f"sum {place}" for place in range(sums))]


def packed_persons(persons: Mapping[bytes, int]) -> bytes | None:
    """The file of persons, if there are any, in the order of their digests: it does not show when they came."""
    if not persons:
        return None
    digests = np.frombuffer(b"".join(persons), ">u8").reshape(-1, 2)
    rows = np.fromiter(persons.values(), np.int64, len(persons))
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    sorted_digests = pa.py_buffer(np.ascontiguousarray(digests[order]))
    listed = pa.Array.from_buffers(pa.binary(DIGEST_BYTES), len(persons), [None, sorted_digests])
    return parquet(pa.table({"person": listed, "rows": column(rows[order])}))


def read_batch(content: bytes, name: str, sums: int = 0) -> Batch:
    """The batch in the content of a file, with so many columns of sums; ``name`` is for the error."""
    batch = Batch(*read_columns(read_table(content, name, dict.fromkeys(_names(sums), pa.int64()))))
    if len(batch.counts) and int(batch.counts.min()) < 1:
        raise damaged(name)
    return batch


def read_columns(table: pa.Table) -> tuple[Ints, Ints, *tuple[Ints, ...]]:
    """The cells of a table, how many rows are in each, and the columns of sums."""
    cells, counts, *sums = (numbers(each) for each in table.columns)
    return cells, counts, *sums


def read_persons(content: bytes, name: str) -> dict[bytes, int]:
    """The persons in the content of a file, and how many rows each has in the batch."""
    table = read_table(content, name, {"person": pa.binary(DIGEST_BYTES), "rows": pa.int64()})
    if table.num_rows == 0:
        return {}
    digests = table.column("person").combine_chunks()
    # (A column's own ``to_pylist`` makes an object of the library's for each value first: ten times as slow.)
    listed = np.frombuffer(digests.buffers()[1], f"V{DIGEST_BYTES}", len(digests), DIGEST_BYTES * digests.offset)
    return dict(zip(listed.tolist(), numbers(table.column("rows")).tolist(), strict=True))


def parquet(table: pa.Table, encoding: str | None = None) -> bytes:
    """A table as the content of a Parquet file, every column in the given encoding."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=encoding is None, column_encoding=encoding)
    return sink.getvalue()


def column(numbers: Ints) -> pa.Array:
    """Integers as a column. (Here and below Arrow's own ways to NumPy and back would load pandas first, which takes
    longer than opening a vault.)"""
    return pa.Array.from_buffers(
        pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers, np.int64))]
    )


def numbers(column: pa.ChunkedArray) -> Ints:
    """A column of integers as an array."""
    if len(column) == 0:
        return np.empty(0, dtype=np.int64)
    whole = column.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.int64, len(whole), 8 * whole.offset)


def read_table(content: bytes, name: str, columns: dict[str, Any]) -> pa.Table:
    """The table in a file, which must have these columns; `DamagedVault` replaces errors that could quote a value."""
    try:
        # A small file is read faster than threads start, and a vault can have thousands of files.
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=len(content) > 2**20)
        nulls = sum(column.null_count for column in table.columns)
        if table.schema.equals(pa.schema(columns), check_metadata=False) and not nulls:
            return table
    except Exception:
        table = None
    raise damaged(name)


def damaged(name: str) -> DamagedVault:
    """The error for a file that is no valid batch or base."""
    return DamagedVault(f"part {name} is damaged; restore a backup")


# -- bases: many batches merged ----------------------------------------------------------------------------------------


_LENGTHS: Final = b"stretches"
"""The key, in a file's metadata, of the number of lines of each stretch. (As private as the lines.)"""


class Base(Sealed):
    """PRIVATE: all rows up to some size, in stretches, and how many rows each person has."""

    __slots__ = ("persons", "stretches")

    def __init__(self, stretches: Mapping[int, Batch], persons: Mapping[bytes, int]) -> None:
        self.stretches = dict(stretches)
        """The rows of each stretch, by the size at which it ends, increasing."""
        self.persons = persons

    @classmethod
    def of(cls, counts: Counts, persons: Persons | None) -> Base:
        """A snapshot of the current counts."""
        stretches = {size: Batch(*found) for size, found in counts.stretches().items()}
        return cls(stretches, {} if persons is None else persons.counted)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes at which its stretches end: public."""
        return tuple(self.stretches)

    def packed(self) -> list[bytes]:
        """The contents of its files: the cells; and the persons, if there are any."""
        batches = list(self.stretches.values())
        lengths = json.dumps([len(batch.cells) for batch in batches])
        table = packed_cells(batches).replace_schema_metadata({_LENGTHS: lengths})
        people = packed_persons(self.persons)
        return [parquet(table, "DELTA_BINARY_PACKED"), *([] if people is None else [people])]

    def add_to(self, counts: Counts, marks: Mapping[int, Sequence[object]], persons: Persons | None) -> None:
        """Add the rows to empty ``counts``, stretch by stretch, and the persons to ``persons``; where a stretch ends,
        mark the counts for the journals that ``marks`` lists under that size."""
        for size, batch in self.stretches.items():
            batch.add_to(counts)
            for journal in marks.get(size, ()):
                counts.mark(journal)
        if persons is not None:
            persons.take_up(self.persons)


def read_base(contents: Sequence[bytes], name: str, sizes: Sequence[int], schema: Schema) -> Base:
    """The base in the contents of its files, with stretches that end at these sizes, or `DamagedVault`."""
    table = read_table(contents[0], name, dict.fromkeys(_names(len(stored(schema))), pa.int64()))
    cells, rows, *sums = read_columns(table)
    ends = [0, *accumulate(_lengths(table, name))]
    batches = [
        Batch(cells[start:end], rows[start:end], *(each[start:end] for each in sums)) for start, end in pairwise(ends)
    ]
    sound = not len(cells) or (0 <= int(cells.min()) <= int(cells.max()) < schema.cells and int(rows.min()) > 0)
    if not sound or ends[-1] != len(cells) or [batch.rows for batch in batches] != list(_steps(sizes)):
        raise damaged(name)
    persons = read_persons(contents[1], name) if len(contents) > 1 else {}
    return Base(dict(zip(sizes, batches, strict=True)), persons)


def _steps(sizes: Sequence[int]) -> Iterator[int]:
    return (end - start for start, end in pairwise((0, *sizes)))


def _lengths(table: pa.Table, name: str) -> list[int]:
    try:
        lengths: Any = json.loads((table.schema.metadata or {})[_LENGTHS])
        if all(type(length) is int and length >= 0 for length in lengths):
            return list(lengths)
    except (KeyError, TypeError, ValueError):
        pass
    raise damaged(name)


class Recount(Sealed):
    """PRIVATE: counts batches again, one after another, to check a base against them."""

    __slots__ = ("_agrees", "_left", "_people", "_persons", "_schema", "_since", "_size")

    def __init__(self, base: Base, schema: Schema) -> None:
        self._schema = schema
        self._left, self._people = dict(base.stretches), base.persons
        self._size, self._agrees = 0, True
        self._since = Counts(schema)
        """The rows since the end of the last stretch that was compared."""
        self._persons: Counter[bytes] = Counter()

    def add(self, batch: Batch, persons: Mapping[bytes, int]) -> None:
        """Count the next batch that the base merges."""
        batch.add_to(self._since)
        self._persons.update(persons)
        self._size += batch.rows
        expected = self._left.pop(self._size, None)
        if expected is not None:
            (found,) = self._since.stretches().values()
            said = expected.cells, expected.counts, *expected.sums
            self._agrees &= all(np.array_equal(one, other) for one, other in zip(found, said, strict=True))
            self._since = Counts(self._schema)

    @property
    def agrees(self) -> bool:
        """Whether the base is, cell for cell and person for person, what these batches give."""
        whole = self._agrees and not self._left and self._since.size == 0
        return whole and self._persons == self._people


# -- new rows as a batch -----------------------------------------------------------------------------------------------


def digest_of(frame: Any, schema: Schema, persons: Persons | None) -> RowsDigest:
    """The digest of the rows of ``frame``, or of a file, which are not taken in: no limit is checked."""
    digest = RowsDigest()
    take_in(frame, schema, persons, drop=True, digest=digest)
    return digest


def take_in(
    frame: Any, schema: Schema, persons: Persons | None, *, drop: bool, digest: RowsDigest | None = None
) -> tuple[Batch, int]:
    """The rows of ``frame``, or of a file, as a batch, and how many were left out: those that do not fit the schema, or
    exceed the limit of their person. Without ``drop``, one such row refuses the whole batch; the error names its
    position. All rows are added to the ``digest``, if there is one."""
    coming: Counter[bytes] = Counter()
    if not isinstance(frame, RowFile):
        return _taken(frame, schema, persons, coming, drop=drop, digest=digest)
    gathered, dropped, rows = Gathered(len(stored(schema))), 0, 0
    for block in blocks(frame, schema, None if persons is None else persons.column):

        def where(row: int, before: int = rows) -> str:
            place = f"line {line_of(frame, schema, before + row)}" if frame.separated else f"row {before + row}"
            return f"{frame.path}, {place}"

        with _about(frame):
            batch, left_out = _taken(
                block, schema, persons, coming, drop=drop, where=where, texts=frame.separated, digest=digest
            )
        gathered.add(batch)
        dropped, rows = dropped + left_out, rows + block.num_rows
    return gathered.batch(), dropped


@contextmanager
def _about(file: RowFile) -> Iterator[None]:
    """Name the file in an error about its columns. (One about a row names it already.)"""
    try:
        yield
    except DataError as error:
        if error.row is not None:
            raise
        problem = DataError(f"{file.path}: {error}", column=error.column)
    else:
        return
    raise problem


def _taken(
    frame: Any,
    schema: Schema,
    persons: Persons | None,
    coming: Counter[bytes],
    *,
    drop: bool,
    where: Where = "row {}".format,
    texts: bool = False,
    digest: RowsDigest | None = None,
) -> tuple[Batch, int]:
    """The rows of one frame; ``coming`` counts those of each person, in this frame and before it."""
    rest, digests = (frame, []) if persons is None else persons.split(frame)
    rows = encode_all(rest, schema, drop=drop, where=where, texts=texts)
    if digest is not None:
        digest.add(rows.cells, rows.sums, digests)
    if persons is None:
        kept, dropped = rows.fitting()
        return Batch.of(kept.cells, sums=kept.sums), dropped
    fitting = np.flatnonzero(rows.cells != INVALID)
    within = persons.within([digests[row] for row in fitting], coming)
    if not drop and not within.all():
        first = int(fitting[within.argmin()])
        raise excess(where(first), first, persons)
    taken = fitting[within]
    kept = rows.chosen(taken)
    return Batch.of(kept.cells, Counter(digests[row] for row in taken), kept.sums), len(rows.cells) - len(taken)


MERGED: Final = 2**20
"""Batches of up to so many cells together are kept apart: it takes longer to merge them often."""


class Gathered(Sealed):
    """PRIVATE: batches merged as they come, so that memory grows with the cells and persons in them, not with rows."""

    __slots__ = ("_batches", "_persons", "_sums")

    def __init__(self, sums: int = 0) -> None:
        self._batches: list[Batch] = []
        self._persons: Counter[bytes] = Counter()
        self._sums = sums

    def add(self, batch: Batch) -> None:
        """Take in one more batch."""
        self._batches.append(batch)
        self._persons.update(batch.persons)
        if sum(len(each.cells) for each in self._batches[1:]) > max(MERGED, len(self._batches[0].cells)):
            self._batches = [self._merged()]

    def batch(self) -> Batch:
        """All of them as one batch."""
        merged = self._merged()
        return Batch(merged.cells, merged.counts, *merged.sums, persons=self._persons)

    def _merged(self) -> Batch:
        empty = np.empty(0, dtype=np.int64)
        nothing = (empty, empty, *(empty for _ in range(self._sums)))
        listed = [nothing, *((batch.cells, batch.counts, *batch.sums) for batch in self._batches)]
        cells, *columns = (np.concatenate(each) for each in zip(*listed, strict=True))
        unique, place = np.unique(cells, return_inverse=True)
        counts, *sums = _added(place, columns, len(unique))
        return Batch(unique, counts, *sums)
