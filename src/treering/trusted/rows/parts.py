"""PRIVATE: the rows of a durable store: taken in, kept, found again.

Each append is a *batch*, with a line in the ledger whose commitment binds its rows. A small batch lies in the ledger's
own commit: all such batches are the *tail*. A *part* is an immutable Parquet file of many rows, named by a line of the
ledger: a large batch is a part at once; the tail is *sealed* into one when it has grown; neighbouring parts are
*merged* when there are many. Every row keeps its position. Lines are public, so batches and rows alone decide when a
part is made, never bytes or values.

A part comes to be in this order: the file is written, synced, named, its folder synced; one commit names it in the
ledger, and deletes from there what it replaces; then the files that it replaces are removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import pyarrow as pa

from treering.errors import DamagedVault, DataError, VaultError
from treering.trusted import registry
from treering.trusted.ledger.disk import NewFile, writing
from treering.trusted.ledger.ledger import Ledger
from treering.trusted.ledger.lines import SecretValue
from treering.trusted.ledger.named import Batch, BatchList, PartList, batch_secret, part_name
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.intake import PERSON, Intake, typed_blocks
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.spool import (
    PART_STEPS,
    Binding,
    Content,
    Form,
    PartFile,
    Spool,
    packed,
    unpacked,
)
from treering.trusted.rows.tally import Engine
from treering.trusted.sealed import Sealed, commitment, salt as new_salt
from treering.words import counted

if TYPE_CHECKING:
    from treering.trusted.rows.persons import People, Persons

TAIL_BATCHES: Final = 1024
"""The tail is sealed when it has this many batches …"""

TAIL_ROWS: Final = 2**16
"""… or this many rows."""

_PATIENCE: Final = 64
"""After a part could not be written, this many batches come before the next attempt."""


class StoreEngine(Sealed):
    """The DuckDB of one store, made when it is first needed: it reads the store's files. It goes before this process is
    forked, and is made anew when it is needed again: a child that had it could not let it go, as it has not its
    threads."""

    __slots__ = ("__weakref__", "_engine", "_folder")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engine: Engine | None = None
        _ENGINES.add(self)

    def __call__(self) -> Engine:
        engine = self._engine
        if engine is None:
            engine = self._engine = Engine(self._folder)
        return engine

    def let_go(self) -> None:
        """Give its memory back, unless somebody uses it just now."""
        self._engine = None


_ENGINES: Final[WeakSet[StoreEngine]] = WeakSet()


def _before_a_fork() -> None:
    for engine in tuple(_ENGINES):
        engine.let_go()


os.register_at_fork(before=_before_a_fork)


# -- what is on the disk -----------------------------------------------------------------------------------------------


class Stored(Sealed):
    """PRIVATE: the rows of a store as one state of its ledger names them. Its files are open: a writer may replace them
    meanwhile."""

    __slots__ = ("_batches", "_files", "_form", "_secrets", "_tail")

    def __init__(
        self,
        folder: Path,
        form: Form,
        batches: BatchList,
        parts: PartList,
        secrets: Mapping[str, SecretValue],
        tail: Iterable[tuple[int, bytes]],
    ) -> None:
        """Reads the footers of parts, and the tail. `DamagedVault` if there is no such part, or batch in the tail."""
        self._batches, self._form, self._secrets = batches, form, secrets
        self._files = [PartFile(folder, part, Content.of(part, secrets), form) for part in parts]
        self._tail = tables_of(tail, tail_of(batches, parts), form, secrets)

    @property
    def tail(self) -> list[pa.Table]:
        """The batches of the tail."""
        return self._tail

    def tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """All rows, some at a time."""
        for file in self._files:
            yield from file.tables(columns)
        for table in self._tail:
            yield table if columns is None else table.select(columns)

    def batches(self) -> Iterator[tuple[Batch, pa.Table, bool]]:
        """All rows by batch, some at a time; and whether these are the last of their batch."""
        return cut(self.tables(), self._batches)

    def people(self) -> People:
        """How many rows each person has."""
        found: People = registry.part("people_of")(self.tables([PERSON]))
        return found

    def check(self, persons: Persons | None) -> None:
        """Raise `DamagedVault` unless each file is, bit for bit, what was written, each batch has the rows that its
        line's commitment binds, and no person has more rows than allowed."""
        self._batches.check()
        for file in self._files:
            file.check()
        nothing = RowsDigest()
        for batch in self._batches:
            if not batch.rows and batch.watermark is None:
                self._compare(batch, nothing)
        digest = RowsDigest()
        for batch, table, last in self.batches():
            digest.add(table)
            if last:
                self._compare(batch, digest)
                digest = RowsDigest()
        if persons is not None:
            persons.take_up(self.people())
            persons.check()

    def _compare(self, batch: Batch, digest: RowsDigest) -> None:
        known = Binding.of(batch, self._secrets).rows
        if digest.keyed(self._secrets[batch.secret].salt) != known:
            raise DamagedVault(f"batch {batch.number} has other rows than were written; restore a backup")

    def copy(self, folder: Path) -> None:
        """Copy the files of all parts to another folder, durably; `DamagedVault` if one is not what was written."""
        for file in self._files:
            with writing():
                new = NewFile(folder / f"{file.part.name}.new", PART_STEPS)
                for content in file.bytes():
                    new.write(content)
                new.sync()
                new.name(folder / file.part.name)


def tail_of(batches: BatchList, parts: PartList) -> list[Batch]:
    """The batches that lie in the tail: those with rows after the last part."""
    return [batch for batch in batches.beyond(parts.rows) if batch.kept]


def tables_of(
    tail: Iterable[tuple[int, bytes]], batches: Sequence[Batch], form: Form, secrets: Mapping[str, SecretValue]
) -> list[pa.Table]:
    """The batches of the tail; `DamagedVault` if it has others than these."""
    found = dict(tail)
    if more := set(found).difference(batch.number for batch in batches):
        raise DamagedVault(f"batch {min(more)} lies in the ledger, and not on record; restore a backup")
    return [unpacked(found.get(batch.number, b""), batch, form, secrets) for batch in batches]


def cut(
    tables: Iterable[pa.Table], batches: Iterable[Batch], position: int = 0
) -> Iterator[tuple[Batch, pa.Table, bool]]:
    """All rows after a ``position`` by batch, some at a time; and whether these are the last of their batch.
    `DamagedVault` unless there are just the rows that the ledger counts."""
    coming = (batch for batch in batches if batch.kept)
    batch = next(coming, None)
    for table in tables:
        start = 0
        while start < table.num_rows:
            if batch is None:
                raise DamagedVault("there are other rows in parts than the ledger counts; restore a backup")
            stop = min(table.num_rows, start + batch.size - position)
            position += stop - start
            last = position == batch.size
            yield batch, table.slice(start, stop - start), last
            batch, start = next(coming, None) if last else batch, stop
    if batch is not None:
        raise DamagedVault("there are fewer rows in parts than the ledger counts; restore a backup")


# -- a store that grows ------------------------------------------------------------------------------------------------


class Parts(Sealed):
    """The rows of one store that is open for writing, on the disk and in memory. Callers hold the store's lock, but for
    `spool`."""

    __slots__ = (
        *("_batches", "_folder", "_form", "_ledger", "_limit", "_merged", "_next", "_parts", "_persons", "_rows"),
        *("_held", "keys", "tail"),
    )

    def __init__(
        self,
        folder: Path,
        form: Form,
        rows: Rows,
        ledger: Ledger,
        batches: BatchList,
        parts: PartList,
        limit: Callable[[], Persons] | None = None,
        keys: Callable[[], Persons] | None = None,
    ) -> None:
        """``limit`` makes a limit of rows a person, in which no rows are counted yet; ``keys`` what digests keys."""
        self._folder, self._form, self._rows, self._ledger = folder, form, rows, ledger
        self._batches, self._parts = batches, parts
        self._limit = limit
        self.keys = None if keys is None else keys()
        """What digests the keys of rows; None where they have none."""
        self._persons: Persons | None = None
        """The limit, with the rows of each person: they are counted when the first batch comes."""
        self.tail: list[Batch] = []
        self._held = 0
        """The rows of the tail."""
        self._keep(tail_of(batches, parts))
        self._next = 0
        """From how many batches on a part is written, if one is due."""
        self._merged = 0
        """The number of the last part that was looked at to be merged."""

    def _keep(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self.tail.append(batch)
            self._held += batch.rows

    @property
    def size(self) -> int:
        """The number of rows on record."""
        return self._batches.size

    def stored(self) -> Stored:
        """What is on the disk now."""
        return Stored(self._folder, self._form, self._batches, self._parts, self._ledger.secrets(), self._ledger.tail())

    def load(self) -> None:
        """Take the rows on record up into memory: of parts the footers alone are read. `DamagedVault` if a part is
        missing, or another; `Stored.check` reads all."""
        found = self.stored()
        for part in self._parts:
            self._rows.add_file(self._folder / part.name, part.rows)
        if found.tail:
            self._rows.add(pa.concat_tables(found.tail))

    # -- taking in ----------------------------------------------------------------------------------------------------

    def persons(self) -> Persons | None:
        """The limit of rows a person, with the rows of each; None where persons are not counted."""
        if self._limit is not None and self._persons is None:
            persons = self._limit()
            persons.take_up(self.stored().people())
            persons.check()
            self._persons = persons
        return self._persons

    def spool(self, frame: Any, persons: Persons | None, *, drop: bool) -> Spool:
        """The rows of ``frame`` as a batch on its way. (Nothing of the store is read or changed.)"""
        spool = Spool(self._folder, self._form)
        read = spool.read if persons is not None else None
        given: Any = {"drop": drop, "intake": spool.intake, "read": read, "keys": self.keys}
        spool.fill(typed_blocks(frame, self._rows.schema, persons, **given))
        return spool

    def read(self, frame: Any, persons: Persons | None, *, drop: bool) -> Intake:
        """What is read of the rows of ``frame``, of which none is kept."""
        intake = Intake()
        for _ in typed_blocks(frame, self._rows.schema, persons, drop=drop, intake=intake, keys=self.keys):
            pass
        return intake

    def write(self, spool: Spool) -> None:
        """Give a large batch its name among the parts; the tail, whose rows came before, is sealed first. After an
        error there is no such file."""
        if spool.content is not None:
            if self.tail:
                self.seal()
            spool.name(self._folder / part_name(self._parts.last + 1))

    def record_elsewhere(self, rows: int, dropped: int, watermark: Mapping[str, Any]) -> Batch:
        """Put rows that stay in an engine on record as the next batch."""
        batch = Batch(len(self._batches) + 1, rows, self.size + rows, dropped, "", watermark)
        self._ledger.write(batch.line(""))
        self._batches.append(batch)
        return batch

    def record(self, spool: Spool, dropped: int, key: str) -> Batch:
        """Put the next batch on record. (If it does not become durable, the next opening removes its file.)"""
        salt, name = new_salt(), batch_secret(len(self._batches) + 1)
        blob = packed(spool.table) if spool.rows and spool.content is None else None
        secret = SecretValue(name, salt, spool.binding(salt, blob).text)
        promised = commitment(salt, name.encode(), secret.value.encode())
        size = self.size + spool.rows
        batch = Batch(len(self._batches) + 1, spool.rows, size, dropped, promised)
        self._ledger.write(batch.line(key), put=secret, tail=None if blob is None else (batch.number, blob))
        self._batches.append(batch)
        self._keep([] if blob is None else [batch])
        if spool.content is not None:
            part, kept = spool.content.sealed(self._parts.last + 1, size - spool.rows, spool.rows)
            self._ledger.write(part.line(), put=kept)
            self._parts.add(part)
        return batch

    def count(self, batch: Batch, spool: Spool) -> None:
        """Take the rows of a batch that is durable up into memory."""
        if self._rows.size + batch.rows != batch.size:
            raise VaultError("there are other rows in memory than on record: open the vault again")
        if spool.content is not None:
            self._rows.add_file(self._folder / part_name(self._parts.last), batch.rows)
        else:
            self._rows.add(spool.table)
        if self._persons is not None:
            self._persons.take_up(spool.intake.people)

    # -- idempotency keys ---------------------------------------------------------------------------------------------

    def holds(self, batch: Batch, spool: Spool) -> bool:
        """Whether a batch was made of the rows that were read for another."""
        secrets = self._ledger.secrets()
        known, salt = Binding.of(batch, secrets), secrets[batch.secret].salt
        many = batch.rows + batch.dropped == spool.intake.rows + spool.intake.dropped
        return many and spool.binding(salt).read == known.read

    def check_new(self, spool: Spool) -> None:
        """Refuse a batch whose rows are those of an earlier one."""
        alike = (batch for batch in self._batches if 0 < batch.rows == spool.rows)
        known = next((batch for batch in alike if self.holds(batch, spool)), None)
        if known is not None:
            raise DataError(
                f"the {counted(spool.rows, 'row')} of batch {known.number}, taken in at size {known.size:,}, came "
                "again: nothing was taken in (new rows that say the same are appended with again=True, or --again)"
            )

    def read_again(self, frame: Any) -> Spool:
        """The rows of ``frame``, digested for `holds`: none is kept, and no limit is checked."""
        persons = None if self._limit is None else self._limit().unlimited()
        spool = Spool(self._folder, self._form)
        given: Any = {"drop": True, "intake": spool.intake, "read": spool.read, "keys": self.keys}
        for table in typed_blocks(frame, self._rows.schema, persons, **given):
            spool.digest.add(table)
        return spool

    # -- sealing and merging ------------------------------------------------------------------------------------------

    def condense(self) -> None:
        """Seal the tail and merge parts, if that is due. If it cannot be written, the rows stay where they are."""
        if len(self._batches) < self._next:
            return
        self._next = len(self._batches) + _PATIENCE
        with suppress(VaultError):
            if len(self.tail) >= TAIL_BATCHES or self._held >= TAIL_ROWS:
                self.seal()
            while self._parts.last != self._merged:
                looked = self._parts.last
                if merged := self._parts.mergeable([part.rows for part in self._parts]):
                    self.rewriting.merge(merged)
                self._merged = looked
            self._next = 0

    def seal(self) -> None:
        """Make a part of the tail."""
        self.rewriting.seal(self.tail)

    @property
    def rewriting(self) -> Any:
        """What makes parts of others, or of the tail."""
        make = registry.part("Rewriting")
        return make(self._folder, self._form, self._rows, self._ledger, self._batches, self._parts, self._sealed)

    def _sealed(self) -> None:
        self.tail, self._held = [], 0
