"""PRIVATE: parts that are made of others: of the tail, of neighbouring parts, or of those of which rows are erased or
corrected.

*Gone means gone.* Where a row is erased, its slot stays, and holds nothing: its values and the digest of its key are
null. The digest of its person stays, or a person who came back would bring a new budget. The part is written anew, and
the batch has a new digest under a fresh salt; what the old file, the old salt and the old digest were is deleted. (With
an old salt, an old digest and the rest of the batch, the erased value could be found by trial.)

*Order.* New parts are written and named; one commit names them in the ledger, with which rows were erased, and deletes
what they replace from there; then the old files go. A crash leaves all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from treering.arrays import Ints
from treering.trusted.ledger.disk import Stage, reached
from treering.trusted.ledger.gone import spans
from treering.trusted.ledger.ledger import Ledger, Write
from treering.trusted.ledger.lines import ERASED, ERASING, REWRITTEN, Line, SecretValue, body
from treering.trusted.ledger.named import Batch, BatchList, Part, PartList, part_name
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.intake import KEY, PERSON
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.parts import cut, tables_of
from treering.trusted.rows.spool import Binding, Content, Form, PartFile, write_part
from treering.trusted.sealed import Sealed, commitment, salt as new_salt


@dataclass(frozen=True, repr=False, eq=False)
class Changes(Sealed):
    """PRIVATE: what becomes of some rows."""

    positions: Ints
    """Where they are, increasing."""
    rows: pa.Table | None
    """What they say from now on, in this order; None if they are erased."""

    def within(self, start: int, end: int) -> Ints:
        """The positions after ``start``, up to ``end``."""
        first, last = np.searchsorted(self.positions, [start, end], side="right").tolist()
        return self.positions[first:last]

    def applied(self, table: pa.Table, start: int) -> pa.Table:
        """The rows after position ``start``, as they are from now on."""
        changed = self.within(start, start + table.num_rows)
        if not len(changed):
            return table
        first = int(np.searchsorted(self.positions, changed[0]))
        places = np.arange(table.num_rows, dtype=np.int64)
        places[changed - start - 1] = table.num_rows + np.arange(len(changed))
        columns = [
            column if name == PERSON or (name == KEY and self.rows is not None) else self._column(name, column, first)
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        taken = [
            column if len(column) == table.num_rows else column.combine_chunks().take(pa.array(places))
            for column in columns
        ]
        return pa.Table.from_arrays(taken, schema=table.schema)

    def _column(self, name: str, column: pa.ChunkedArray, first: int) -> pa.ChunkedArray:
        """A column, with the values of changed rows from number ``first`` on after it."""
        if self.rows is None:
            more = [pa.nulls(len(self.positions) - first, column.type)]
        else:
            more = self.rows.column(name).slice(first).chunks
        return pa.chunked_array([*column.chunks, *more], column.type)


@dataclass(frozen=True, repr=False, eq=False)
class _Made(Sealed):
    """A part in place of others, or of the tail up to a batch number, with its secret."""

    part: Part
    secret: SecretValue
    merged: Sequence[Part]
    sealed: int

    @property
    def write(self) -> Write:
        """Its line, with its secret; those of what it replaces go."""
        return Write(self.part.line(), self.secret, tuple(each.secret for each in self.merged), sealed=self.sealed)


def _nothing() -> None:
    """Where there is nothing to record, or to take up."""


_TAIL: Final[tuple[Part, ...]] = ()


class Rewriting(Sealed):
    """Makes parts of others, or of the tail. Callers hold the store's lock."""

    __slots__ = ("_batches", "_folder", "_form", "_ledger", "_parts", "_rows", "_sealed")

    def __init__(
        self,
        folder: Path,
        form: Form,
        rows: Rows,
        ledger: Ledger,
        batches: BatchList,
        parts: PartList,
        sealed: Callable[[], None],
    ) -> None:
        """``sealed`` is called when the tail is in a part."""
        self._folder, self._form, self._rows, self._ledger = folder, form, rows, ledger
        self._batches, self._parts, self._sealed = batches, parts, sealed

    # -- the same rows ------------------------------------------------------------------------------------------------

    def seal(self, tail: Sequence[Batch]) -> None:
        """Make a part of the tail."""
        made = self._written(1, self._parts.rows, tail[-1].size, self._of_tail(tail), _TAIL, tail[-1].number)
        self._replace([made])

    def merge(self, merged: Sequence[Part]) -> None:
        """Make one part of neighbouring ones."""
        self._replace([self._written(1, merged[0].first, merged[-1].last, self._of_parts(merged), merged, 0)])

    def _of_tail(self, tail: Sequence[Batch]) -> Iterator[pa.Table]:
        yield from tables_of(self._ledger.tail(), tail, self._form, self._ledger.secrets())

    def _of_parts(self, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """The rows of some parts, once their files are found to be what was written."""
        secrets = self._ledger.secrets()
        files = [PartFile(self._folder, part, Content.of(part, secrets), self._form) for part in parts]
        for file in files:
            file.check()
        for file in files:
            yield from file.tables()

    # -- other rows ---------------------------------------------------------------------------------------------------

    def change(
        self, changes: Changes, tail: Sequence[Batch], told: Callable[[], None], taken: Callable[[], None]
    ) -> None:
        """Write the parts that hold some rows anew, durably, as these are from now on. What is recorded by ``told`` is
        durable with it, and ``taken`` takes it up."""
        gone = changes.rows is None
        affected = [part for part in self._parts if len(changes.within(part.first, part.last))]
        in_tail = bool(tail and len(changes.within(self._parts.rows, tail[-1].size)))
        if len(affected) + in_tail > 1:
            self._ledger.write(Line(ERASING, body(parts=len(affected) + in_tail)))
        digests: dict[int, RowsDigest] = {}
        made: list[_Made] = []
        try:
            for part in affected:
                tables = self._changed(changes, self._of_parts([part]), part.first, part.last, digests)
                made.append(self._written(1 + len(made), part.first, part.last, tables, [part], 0))
            if in_tail:
                start, end = self._parts.rows, tail[-1].size
                tables = self._changed(changes, self._of_tail(tail), start, end, digests)
                made.append(self._written(1 + len(made), start, end, tables, _TAIL, tail[-1].number))
        except BaseException:
            for each in made:
                with suppress(OSError):  # The next opening removes it.
                    (self._folder / each.part.name).unlink()
            raise
        line = Line(ERASED, body(gone=spans(changes.positions) if gone else [], corrected=_corrected(changes)))
        self._replace(made, [Write(line), *map(self._rewritten, digests.items())], told, taken)

    def _changed(
        self, changes: Changes, tables: Iterable[pa.Table], start: int, end: int, digests: dict[int, RowsDigest]
    ) -> Iterator[pa.Table]:
        """The rows after position ``start``, up to ``end``, as they are from now on; with digests of their batches."""

        def applied() -> Iterator[pa.Table]:
            position = start
            for table in tables:
                yield changes.applied(table, position)
                position += table.num_rows

        batches = [batch for batch in self._batches.beyond(start) if batch.kept and batch.size <= end]
        for batch, table, _ in cut(applied(), batches, start):
            if len(changes.within(batch.size - batch.rows, batch.size)):
                digests.setdefault(batch.number, RowsDigest()).add(table)
            yield table

    def _rewritten(self, given: tuple[int, RowsDigest]) -> Write:
        """The line of a batch that was written anew, with its secret; the old one goes."""
        number, digest = given
        old, salt = self._batches[number - 1], new_salt()
        name = old.rewritten("").secret
        secret = SecretValue(name, salt, Binding(digest.keyed(salt), "").text)
        promised = commitment(salt, name.encode(), secret.value.encode())
        return Write(Line(REWRITTEN, body(batch=number), commitment=promised), secret, (old.secret,))

    # -- what both do -------------------------------------------------------------------------------------------------

    def _written(
        self, place: int, first: int, last: int, tables: Iterable[pa.Table], merged: Sequence[Part], sealed: int
    ) -> _Made:
        """A part of the rows after position ``first``, up to ``last``, on the disk: the ``place``-th to come."""
        number = self._parts.last + place
        content = write_part(self._folder, self._form, tables, self._folder / part_name(number))
        return _Made(*content.sealed(number, first, last - first), merged, sealed)

    def _replace(
        self,
        made: Sequence[_Made],
        changed: Sequence[Write] = (),
        told: Callable[[], None] = _nothing,
        taken: Callable[[], None] = _nothing,
    ) -> None:
        """Name parts in the ledger, in place of others, and take them up; with what was ``changed`` in them."""
        with self._ledger.remembered("it was interrupted while a part, which is on record, was taken up"):
            with self._ledger.whole():
                told()
                self._ledger.write_all([*changed, *(each.write for each in made)])
            for each in changed:
                if each.line.kind == REWRITTEN:
                    self._batches.rewrite(each.line.plain()["batch"], each.line.commitment)
            for new in made:
                self._parts.add(new.part)
                if new.sealed:
                    self._sealed()
                self._rows.replace(new.part.first, new.part.last, self._folder / new.part.name)
            taken()
        reached(Stage.PARTS_REPLACED)
        for new in made:
            for part in new.merged:
                with suppress(OSError):  # The next opening removes it.
                    (self._folder / part.name).unlink()


def _corrected(changes: Changes) -> list[list[int]]:
    return [] if changes.rows is None else spans(changes.positions)
