"""A base: the rows of many batches together as bytes, so that a durable store need not read each batch again.

It is what the batches are, merged: a Parquet file with a line for each occupied cell and, where persons have a limit, a
second one with a line for each person. It holds nothing that the batches do not imply.

The cells come in stretches. A tree goes on from the counts as they were at earlier sizes (see `Bookmarks`), so rows are
merged up to the next of those sizes only, and a store that reads a base can mark where each stretch ends. Later lives
need no other sizes: a tree keeps the ones that it has, lets go of them, and adds the present one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from treering.domain.schema import Schema
from treering.trusted.counts import Counts
from treering.trusted.rows.batches import (
    Batch,
    column,
    damaged,
    numbers,
    packed_persons,
    parquet,
    read_persons,
    read_table,
)
from treering.trusted.rows.persons import Persons
from treering.trusted.sealed import Sealed

_LENGTHS: Final = b"stretches"
"""The name, in a file's own notes, of how many lines each stretch has. (As private as the lines.)"""


class Base(Sealed):
    """PRIVATE: the rows up to a size, in stretches, and how many rows each person has."""

    __slots__ = ("persons", "stretches")

    def __init__(self, stretches: Mapping[int, Batch], persons: Mapping[bytes, int]) -> None:
        self.stretches = dict(stretches)
        """By the size that each ends at, in order."""
        self.persons = persons

    @classmethod
    def of(cls, counts: Counts, persons: Persons | None) -> Base:
        """The present."""
        stretches = {size: Batch(*found) for size, found in counts.stretches().items()}
        return cls(stretches, {} if persons is None else persons.counted)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that its stretches end at: public."""
        return tuple(self.stretches)

    def packed(self) -> list[bytes]:
        """Its files: the cells; and the persons, if there are any."""
        batches = list(self.stretches.values())
        table = pa.table(
            {
                "cell": column(np.concatenate([batch.cells for batch in batches])),
                "rows": column(np.concatenate([batch.counts for batch in batches])),
            }
        ).replace_schema_metadata({_LENGTHS: json.dumps([len(batch.cells) for batch in batches])})
        people = packed_persons(self.persons)
        return [parquet(table, "DELTA_BINARY_PACKED"), *([] if people is None else [people])]

    def add_to(self, counts: Counts, marks: Mapping[int, Sequence[object]], persons: Persons | None) -> None:
        """Count the rows, from the first on; mark the counts at the given sizes for the given journals."""
        for size, batch in self.stretches.items():
            batch.add_to(counts)
            for journal in marks.get(size, ()):
                counts.mark(journal)
        if persons is not None:
            persons.take_up(self.persons)


def read_base(contents: Sequence[bytes], name: str, sizes: Sequence[int], schema: Schema) -> Base:
    """The base of some files, with stretches that end at these sizes; `DamagedVault` if there is none in them."""
    table = read_table(contents[0], name, {"cell": pa.int64(), "rows": pa.int64()})
    cells, rows = (numbers(table.column(each)) for each in ("cell", "rows"))
    ends = [0, *accumulate(_lengths(table, name))]
    batches = [Batch(cells[start:end], rows[start:end]) for start, end in pairwise(ends)]
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
    """PRIVATE: batches counted again, one after another, to see whether a base says the same."""

    __slots__ = ("_agrees", "_left", "_people", "_persons", "_schema", "_since", "_size")

    def __init__(self, base: Base, schema: Schema) -> None:
        self._schema = schema
        self._left, self._people = dict(base.stretches), base.persons
        self._size, self._agrees = 0, True
        self._since = Counts(schema)
        """The rows since the end of the last stretch."""
        self._persons: Counter[bytes] = Counter()

    def add(self, batch: Batch, persons: Mapping[bytes, int]) -> None:
        """The next batch that the base stands for."""
        batch.add_to(self._since)
        self._persons.update(persons)
        self._size += batch.rows
        expected = self._left.pop(self._size, None)
        if expected is not None:
            (found,) = self._since.stretches().values()
            said = expected.cells, expected.counts
            self._agrees &= all(np.array_equal(one, other) for one, other in zip(found, said, strict=True))
            self._since = Counts(self._schema)

    @property
    def agrees(self) -> bool:
        """Whether the base is, cell for cell and person for person, what these batches give."""
        whole = self._agrees and not self._left and self._since.size == 0
        return whole and self._persons == self._people
