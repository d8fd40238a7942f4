"""PRIVATE: the rows of one growing database, in the order in which they came: what a kernel reads.

A row keeps its position for ever. Rows come as typed tables, as Parquet files of them, as codes of cells, or stay in an
engine; any interval of them can be counted at any time by `Rows.tally`, the one way to count. `Rows.cells` are counts
of all cells, for the mechanisms that read a histogram: a cache, made when it is first needed and kept current from then
on.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from treering.arrays import Ints
from treering.domain.axis import Scalar
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import Capped, Grid, Kept, Sums, summable
from treering.errors import DataError, SchemaError, TreeringError
from treering.trusted import registry
from treering.trusted.cells import MAX_COUNT, Cells
from treering.trusted.ledger.gone import Gone
from treering.trusted.rows.tally import Codes, Elsewhere, Engine, Numbers, Piece, shared_engine, tally
from treering.trusted.rows.typed import stored as scalars_of
from treering.trusted.sealed import Sealed

Then = Callable[[], None]
"""Called as part of an append: what it records must change if and only if the rows are taken in."""


class Need(NamedTuple):
    """What is read of the rows: public."""

    groups: Groups
    edges: tuple[int, ...]
    sums: Kept | None = None


class Ahead(Protocol):
    """What has an engine count before anything is charged for it (``engines/ahead.py``)."""

    def take(self, need: Need) -> Numbers | None:
        """PRIVATE: the numbers of a need, once; None if they are not here."""

    def absent(self, needs: Sequence[Need]) -> list[Need]:
        """The needs whose numbers are not here."""

    def prepare(self, needs: Sequence[Need]) -> None:
        """Have numbers here for what reads them next; or raise an error, before anything is charged."""

    def clear(self) -> None:
        """Rows came."""


class Rows(Sealed):
    """The sealed rows of one growing database. Only a kernel reads them; only their number is public."""

    __slots__ = (
        "_cells",
        "_counted",
        "_gone",
        "_pieces",
        "_schema",
        "_size",
        "_torn",
        "ahead",
        "changes",
        "engine",
        "lock",
    )

    def __init__(self, schema: Schema, engine: Callable[[], Engine] = shared_engine) -> None:
        self._schema = schema
        self.engine = engine
        self._size = 0
        self._gone = Gone()
        self.changes = 0
        """How often rows were erased or corrected: public."""
        self._pieces: list[Piece] = []
        self._cells: dict[Schema, Cells] = {}
        self._counted: dict[Schema, int] = {}
        """How many rows are counted in them."""
        self.lock = threading.RLock()
        """Held while rows are taken in, and by every kernel while it works."""
        self._torn = False
        self.ahead: Ahead | None = None
        """What has an engine count, if rows stay in one."""

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._schema

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The values that are kept of each row: public."""
        return scalars_of(self._schema)

    @property
    def size(self) -> int:
        """The number of rows that ever came, that of the last position: public."""
        return self._size

    def between(self, start: int, end: int) -> int:
        """The number of rows after position ``start``, up to ``end``, that are there: public."""
        return end - start - self._gone.within(start, end)

    # -- taking in ----------------------------------------------------------------------------------------------------

    def add(self, table: pa.Table, then: Then | None = None) -> None:
        """Take in typed rows, all of them or none. (Columns that the schema does not use are not looked at.)"""
        self._take(table, table.num_rows, then)

    def add_file(self, path: Path, rows: int, then: Then | None = None) -> None:
        """Take in the typed rows of a Parquet file, all of them or none."""
        self._take(path, rows, then)

    def add_elsewhere(self, content: Elsewhere, rows: int, then: Then | None = None) -> None:
        """Take in rows that stay in an engine, all of them or none. They are counted when they are asked about."""
        self._take(content, rows, then)

    def add_cells(self, cells: Ints, then: Then | None = None) -> None:
        """Take in rows given by their cells, all of them or none. Each has the value of its cell: of `numbers`, the
        middle."""
        if cells.ndim != 1:
            raise DataError("cells come as one array")
        if len(cells) and (int(cells.min()) < 0 or int(cells.max()) >= self._schema.cells):
            raise DataError(f"cell numbers must lie within 0..{self._schema.cells - 1}")
        self._take(Codes(cells), len(cells), then)

    def _take(self, content: pa.Table | Path | Codes | Elsewhere, rows: int, then: Then | None) -> None:
        self._check_room(rows)
        with self.whole():
            piece = Piece(self._size, rows, content)
            pieces = _joined(self._pieces, piece, self._schema) if rows else self._pieces
            later = isinstance(content, Elsewhere) or not rows
            counts = [] if later else [(lens, *self._occupied([piece], lens)) for lens in self._cells]
            with self.taking_in():
                for lens, cells, numbers in counts:
                    self._cells[lens].add(cells, numbers)
                    self._counted[lens] += rows
                self._pieces = pieces
                self._size += rows
                if self.ahead is not None:
                    self.ahead.clear()
                if then is not None:
                    then()

    def replace(self, first: int, last: int, path: Path) -> None:
        """The rows after position ``first``, up to ``last``, lie in this Parquet file now. They are the same rows, and
        nothing that was counted changes."""
        with self.whole():
            if not {first, last} <= {0, *(piece.last for piece in self._pieces)} or first >= last:
                raise TreeringError("rows that lie in a file begin and end where pieces do")
            before = [piece for piece in self._pieces if piece.last <= first]
            after = [piece for piece in self._pieces if piece.first >= last]
            gone = self._gone.rows(first, last)
            self._pieces = [*before, Piece(first, last - first, path, gone if len(gone) else None), *after]

    def erase(self, gone: Gone) -> None:
        """Some rows, by their positions, are erased or say something else now: what was counted is counted anew. (What
        `replace` told of has them so.)"""
        with self.whole(), self.taking_in():
            self._gone = gone
            found = [(each, gone.rows(each.first, each.last)) for each in self._pieces]
            self._pieces = [replace(each, gone=rows if len(rows) else None) for each, rows in found]
            self._cells, self._counted = {}, {}
            self.changes += 1

    def _check_room(self, rows: int) -> None:
        """Refuse rows with which a sum could leave 64 bits."""
        grids = (Grid.of(self._schema.attributes[self._schema.names[place]]) for place in summable(self._schema))
        steps = max((grid.steps for grid in grids if grid is not None), default=1)
        if (self._size + rows) * steps >= MAX_COUNT:
            raise DataError(f"rows times steps must stay below 2^61: {steps:,} steps are too many for so many rows")

    # -- counting -----------------------------------------------------------------------------------------------------

    def tally(self, groups: Groups, edges: Sequence[int], sums: Sums | None = None) -> Numbers:
        """PRIVATE: exact counts, or sums, of groups in each interval between two neighbouring ``edges``: intervals,
        places in a release, and numbers (see ``rows/tally.py``)."""
        need = Need(groups, tuple(edges), sums)
        found = None if self.ahead is None else self.ahead.take(need)
        return self.counting(need)() if found is None else found

    def counting(self, need: Need) -> Callable[[], Numbers]:
        """PRIVATE: what counts rows that are there now, with the lock or without it."""
        groups, edges, sums = need
        read: Any = registry.part("firsts") if isinstance(sums, Capped) else tally
        return partial(read, self.engine, self.pieces(edges[0], edges[-1]), self._schema, groups, edges, sums)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """PRIVATE: the pieces in which rows after position ``start``, up to ``end``, lie."""
        first = max(0, bisect_right(self._pieces, start, key=lambda piece: piece.first) - 1)
        return self._pieces[first : bisect_right(self._pieces, end - 1, key=lambda piece: piece.first)]

    def need_of_cells(self, lens: Schema) -> list[Need]:
        """What `cells_of` counts when it is next read."""
        counted = self._counted.get(lens, 0)
        return [Need(Groups.cells(lens), (counted, self._size))] if counted < self._size else []

    @property
    def cells(self) -> Cells:
        """PRIVATE: the counts of all cells of the newest version of the schema."""
        return self.cells_of(self._schema)

    def cells_of(self, lens: Schema) -> Cells:
        """PRIVATE: the counts of all cells of a version of the schema, made when they are first needed."""
        cells = self._cells.get(lens)
        if cells is None:
            cells = Cells(lens)
            if self._size:
                cells.add(*self._uncounted(lens))
            self._cells[lens], self._counted[lens] = cells, self._size
        elif self._counted[lens] < self._size:  # Rows of an engine came since.
            counts = self._uncounted(lens)
            with self.taking_in():
                cells.add(*counts)
                self._counted[lens] = self._size
        return cells

    def refine(self, schema: Schema) -> None:
        """See the rows through the next version of the schema, which refines the last."""
        with self.whole():
            if any(isinstance(piece.content, Codes) for piece in self._pieces):
                raise SchemaError("rows that were given as cells cannot be told apart within a cell")
            self._schema = schema

    def _uncounted(self, lens: Schema) -> tuple[Ints, Ints | None]:
        """PRIVATE: the cells of the rows that `cells_of` does not count yet, and how many rows are in each."""
        if self.ahead is None:
            counted = self._counted.get(lens, 0)
            return self._occupied([piece for piece in self._pieces if piece.first >= counted], lens)
        (need,) = self.need_of_cells(lens)
        _, place, number = self.tally(need.groups, need.edges)
        return place, number

    def _occupied(self, pieces: Sequence[Piece], lens: Schema) -> tuple[Ints, Ints | None]:
        """PRIVATE: the cells of the rows of some pieces, and how many rows are in each (None: one)."""
        if len(pieces) == 1 and isinstance(pieces[0].content, Codes):
            return pieces[0].content.cells[: pieces[0].rows].astype(np.int64, copy=False), None
        edges = (pieces[0].first, pieces[-1].last)
        _, place, number = tally(self.engine, pieces, lens, Groups.cells(lens), edges, None)
        return place, number

    # -- whole or torn ------------------------------------------------------------------------------------------------

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The lock, for who is about to read or change the rows in the block: refuses them if they are torn. (An
        interrupt as the block begins or ends cannot leave the lock with its thread: a generator that is dropped ends
        its own blocks, where ``__enter__`` and ``__exit__`` of our own would not be called again.)"""
        with self.lock:
            self.check_whole()
            yield

    @contextmanager
    def taking_in(self) -> Iterator[None]:
        """Rows are taken in in the block. If it does not come to its end (an interrupt, no memory), only some of them
        may be counted: the rows are *torn*, and `whole` refuses every further use. A retry must not count rows
        twice."""
        self._torn = True
        yield
        self._torn = False

    def check_whole(self) -> None:
        """Refuse rows that are torn."""
        if self._torn:
            raise TreeringError(
                "an append was interrupted while its rows were counted, and only some of them may be in: nothing more "
                "is answered from this database; make it anew (a vault: open it again)"
            )


# -- pieces ------------------------------------------------------------------------------------------------------------

MERGED: Final = 2**16
"""Tables in memory are merged as they come, up to about this many rows."""


def _joined(pieces: list[Piece], new: Piece, schema: Schema) -> list[Piece]:
    """The pieces with a new one, in a new list. Codes of single rows go on in the codes before them. Tables in memory
    are merged so that each is at least twice as long as the next: there are few of them however many appends."""
    last = pieces[-1] if pieces else None
    if isinstance(new.content, Codes):
        return _lengthened(pieces, new, schema)
    if not isinstance(new.content, pa.Table):
        return [*pieces, new]
    kept = list(pieces)
    tables = [new.content]
    first, rows = new.first, new.rows
    while last is not None and last.small and last.rows < 2 * rows and rows < MERGED:
        tables.insert(0, last.content)
        first, rows = last.first, rows + last.rows
        kept.pop()
        last = kept[-1] if kept else None
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
    return [*kept, Piece(first, rows, whole)]


def _lengthened(pieces: list[Piece], new: Piece, schema: Schema) -> list[Piece]:
    """The pieces with more codes of single rows, in room that doubles. (Codes behind a piece's rows are in no piece
    yet, so nothing that is read changes.)"""
    assert isinstance(new.content, Codes)
    last = pieces[-1] if pieces else None
    narrow = np.int32 if schema.cells <= 2**31 else np.int64
    if last is None or not isinstance(last.content, Codes):
        room = np.empty(max(64, new.rows), dtype=narrow)
        room[: new.rows] = new.content.cells
        return [*pieces, Piece(new.first, new.rows, Codes(room))]
    rows, room = last.rows + new.rows, last.content.cells
    if rows > len(room):
        longer = np.empty(max(rows, 2 * len(room)), dtype=narrow)
        longer[: last.rows] = room[: last.rows]
        room = longer
    room[last.rows : rows] = new.content.cells
    return [*pieces[:-1], Piece(last.first, rows, Codes(room))]
