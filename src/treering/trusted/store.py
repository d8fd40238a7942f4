"""The store: the one object that holds a vault's rows, its record and its secrets, and builds every kernel over them.

A kernel opens by the name of a mechanism. Its budget is the share that the ledger has on record, whatever a public
program believes it to be, and it opens once (``ledger/shares.py`` proves that the shares keep the promise). What is
appended is taken in once, and its size is that of the record.

This module is all that others name of the trusted base. What keeps rows in memory (``memory/``) is loaded when it is
named: there a promise is what its user states to each mechanism.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from fractions import Fraction
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

from treering.budget.promise import Budget
from treering.domain.axis import refines
from treering.domain.schema import Schema
from treering.errors import KeyUsed, ParameterError, SchemaError, TreeringError, VaultError
from treering.trusted import registry
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel, Operations
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.codec.events import codec
from treering.trusted.ledger.codec.queries import write_query as write_query
from treering.trusted.ledger.disk import Stage as Stage, reached as reached, sync_folder
from treering.trusted.ledger.folder import Folder, WriterLock
from treering.trusted.ledger.gone import Gone as Gone
from treering.trusted.ledger.journal import LedgerJournal, recover, without_collections
from treering.trusted.ledger.ledger import TORN, Ledger
from treering.trusted.ledger.lines import ANSWERS, ROWS, Entry as Entry, Line as Line, body
from treering.trusted.ledger.named import Batch, Kept as Kept, Taken as Taken
from treering.trusted.ledger.record import Origin as Origin, Record as Record, mechanism_line, refined_line
from treering.trusted.ledger.shares import Spec as Spec, with_shares as with_shares
from treering.trusted.memory.watchers import Watchers
from treering.trusted.operations.table import operation
from treering.trusted.reading import (
    Notes,
    Reading as Reading,
    Verified as Verified,
    account as account,
    form_of,
    keys_of,
    limit_of,
)
from treering.trusted.rows.intake import DroppedRows as DroppedRows, Intake as Intake, OnInvalid as OnInvalid, dropping
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.parts import Parts, StoreEngine
from treering.trusted.rows.spool import Spool
from treering.trusted.rows.typed import stored as scalars_of
from treering.trusted.sealed import Sealed as Sealed
from treering.words import left_out

if TYPE_CHECKING:
    from treering.protocols import Gate
    from treering.trusted.creating import create as create, originate as originate
    from treering.trusted.drafting import draft as draft, finish as finish
    from treering.trusted.learning.points import Bounds as Bounds, Samples as Samples, features_of as features_of
    from treering.trusted.memory.database import GrowingDatabase as GrowingDatabase
    from treering.trusted.memory.points import GrowingPoints as GrowingPoints
else:

    def __getattr__(name: str) -> Any:
        """What an open vault does not need is loaded when it is named."""
        if name not in registry.NAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return registry.part(name)


Place = str | PathLike[str]
Result = TypeVar("Result")


class Own(Sealed):
    """The database of one mechanism: the rows, and the one gate to them, with the share on record."""

    __slots__ = ("_budget", "_name", "_open", "_rows", "_watchers", "schema")

    def __init__(
        self, name: str, budget: Budget, rows: Rows, watchers: Watchers, gate: Callable[[], Gate], lens: Schema
    ) -> None:
        self._name, self._budget, self._rows, self._watchers, self._open = name, budget, rows, watchers, gate
        self.schema = lens
        """The universe, as the mechanism is made: public."""

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._rows.size

    def open_gate(self, budget: Budget) -> Gate:
        """The gate, once. A mechanism that counts on any other budget than its share on record is refused."""
        own = self._budget
        if type(budget) is not Budget or (budget.kind, budget.total) != (own.kind, own.total):
            raise ParameterError(
                "budget",
                f"of {self._name!r} must be its share on record, {own.unit} = {float(own.total):.6g}, and no other",
            )
        return self._open()

    def watch(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` after every append, for as long as its object lives."""
        self._watchers.add(grown)


def trial(origin: Origin, new: Spec, schema: Schema | None = None) -> Own:
    """An empty database with the share of a mechanism that is not on record yet: to check its options. ``schema`` is
    the vault's newest version; None: the first."""
    rows, budget = Rows(schema or origin.schema), origin.budget(new)
    able = partial(operations, origin, new)
    return Own(
        new.name, budget, rows, Watchers(), lambda: Kernel(rows, budget, MemoryJournal(), None, able()), rows.schema
    )


def operations(origin: Origin, spec: Spec) -> Operations:
    """The operations that a mechanism can use: one of kind "persons" has a ledger of persons, and those alone."""
    if spec.kind != "persons":
        return operation
    if origin.person is None:
        raise ParameterError("person", "must name the column that says whose a row is, when a vault is made")
    return cast(Operations, registry.part("of_persons")(origin.promise.rows_per_person))


class Store(Sealed):
    """A vault that is open for writing. Of its methods, those below `alone` are for a thread that is alone in it."""

    __slots__ = (
        *("_checkpoints", "_engine", "_folder", "_gates", "_intake", "_journals", "_ledger", "_lock", "_notes"),
        *("_parts", "_process", "_record", "_rows", "_source", "_watchers"),
    )

    def __init__(self, folder: Folder, lock: WriterLock, ledger: Ledger, notes: Notes, table: Any = None) -> None:
        """Use `opening`."""
        self._folder, self._lock, self._ledger, self._notes = folder, lock, ledger, notes
        self._process = os.getpid()
        self._record = record = Record.of(ledger.read(), folder)
        origin, secrets = record.origin, ledger.secrets()
        self._checkpoints = Checkpoints(folder.checkpoints)
        for line in record.checkpoints:
            self._checkpoints.know(line)
        folder.clean(record.parts.names, max(record.parts.last, record.coming - 1), self._checkpoints.named)
        self._engine = StoreEngine(folder.path)
        self._rows = Rows(record.schema, self._engine)
        self._watchers = Watchers()
        self._gates: dict[str, Kernel] = {}
        self._journals: list[LedgerJournal] = []
        for spec, entries in zip(record.specs, record.lines, strict=True):
            journal = self._add_journal(record.lens(spec.name))
            recovered = recover(entries, codec(record.lens(spec.name), notes), self._checkpoints)
            journal.take_up(recovered, secrets, record.size)
        record.lines.clear()  # The journals hold them as events now.
        kept = form_of(record), self._rows, ledger, record.batches, record.parts
        limit = limit_of(record, secrets)
        self._parts = Parts(folder.parts, *kept, limit, keys_of(record, secrets))
        self._parts.load()
        if record.changed:
            self._rows.erase(record.gone)
            ledger.wipe()
        self._intake: Intake | None = None
        self._source: Any = None
        if origin.source is not None:
            self._source = registry.part("Attached")(origin, table, limit)
            self._rows.ahead = self._source.ahead(self._rows, self.alone, self.check)
            for batch in record.batches:
                self._source.take_up(self._rows, batch)

    @classmethod
    @contextmanager
    def opening(cls, path: Place, notes: Notes, wait: float, table: Any = None) -> Iterator[Store]:
        """The vault in a folder, open for writing, for a block that makes its mechanisms: if it fails, the vault is
        closed. Waits up to ``wait`` seconds for another writer."""
        folder = Folder(path)
        folder.check()
        lock = WriterLock(folder.lock)
        try:
            lock.take(wait)
            ledger = ledgers.open_writer(folder.ledger)
            try:
                with without_collections():
                    yield cls(folder, lock, ledger, notes, table)
            except BaseException:
                ledger.close()
                raise
        except BaseException:
            lock.release()
            raise

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._rows.schema

    @property
    def size(self) -> int:
        """The number of rows that ever came, that of the last position: public."""
        return self._rows.size

    @property
    def rows(self) -> int:
        """The number of rows that were not erased: public."""
        return self._record.rows

    @property
    def record(self) -> Record:
        """What is on record: public."""
        self._record.seq, self._record.head = self._ledger.seq, self._ledger.head
        return self._record

    @property
    def origin(self) -> Origin:
        """How the vault was created: public."""
        return self._record.origin

    @property
    def reading(self) -> Reading:
        """What is on record, as a reader sees it."""
        return Reading(self._folder.path, self._notes)

    # -- who may work in the vault ------------------------------------------------------------------------------------

    @property
    def foreign(self) -> bool:
        """Whether this is a forked child: the vault belongs to its parent."""
        return os.getpid() != self._process

    @property
    def held(self) -> bool:
        """Whether the vault is open: not closed yet."""
        return self._lock.held

    def alone(self) -> AbstractContextManager[object]:
        """The vault's lock, for exclusive access; `check` comes first in the block. (The lock itself, without a
        wrapper: an interrupt cannot leave it locked.)"""
        if self.foreign:
            raise VaultError("this vault was opened by another process: a forked child must open its own")
        return self._rows.lock

    def check(self) -> None:
        """Raise `VaultError` if the vault is closed, stopped after a failure, or interrupted in an operation: in the
        vault's lock."""
        self.check_open()
        self._ledger.check_entry()

    def check_open(self) -> None:
        """Raise `VaultError` if the vault is closed, stopped after a failure, or in the middle of a commit: without its
        lock, too."""
        if not self._lock.held:
            raise VaultError("the vault is closed: open it again")
        self._ledger.check_usable()

    def transaction(self) -> AbstractContextManager[None]:
        """What is written in the block becomes durable together, at its end."""
        return self._ledger.transaction()

    def whole(self, work: Callable[[], Result]) -> Result:
        """The result of one thread's work in a shared transaction: an unexpected error after something was written
        stops the vault."""
        self._ledger.check_usable()
        before = self._ledger.waiting
        try:
            return work()
        except TreeringError:
            raise
        except BaseException:
            if self._ledger.waiting > before or self._ledger.ahead:
                self._ledger.fail(TORN)
            raise

    def close(self) -> None:
        """Record what is pending, and let the next writer in."""
        try:
            for journal in self._journals:
                with suppress(VaultError):
                    journal.close()
        finally:
            self._ledger.close()
            self._lock.release()
            self._engine.let_go()

    # -- mechanisms ---------------------------------------------------------------------------------------------------

    def open_gate(self, name: str) -> Gate:
        """The gate of a mechanism on record, which continues where its journal ends; once, with its share on record."""
        if name in self._gates:
            raise ParameterError("budget", f"is spent through one gate: that of {name!r} is open already")
        number, spec = self._numbered(name)
        lens, able = self._record.lenses.get(name), operations(self.origin, spec)
        budget, aside = self.origin.budget(spec), self.origin.aside(number)
        self._gates[name] = gate = Kernel(self._rows, budget, self._journals[number], lens, able, aside)
        return gate

    def database(self, name: str) -> Own:
        """The database of a mechanism on record."""
        budget = self.origin.budget(self._numbered(name)[1])
        return Own(name, budget, self._rows, self._watchers, lambda: self.open_gate(name), self._record.lens(name))

    def fresh(self, name: str) -> int:
        """The number of a mechanism's events since its last checkpoint."""
        return self._journals[self._numbered(name)[0]].fresh

    @contextmanager
    def adding(self, new: Spec, lowered: Mapping[str, Fraction]) -> Iterator[None]:
        """Put a mechanism on record, with shares lowered for it to no less than was charged. The gates of these are
        retired: in the block, the mechanisms are made again, and the new one."""
        problem = self._record.shares.problem(new, lowered)
        budgets = {name: self.origin.promise.budget.total * share for name, share in lowered.items()}
        if any(name in self._gates and self._gates[name].spent > least for name, least in budgets.items()):
            problem = "a share cannot be lowered to less than its mechanism has charged"
        if problem:
            raise ParameterError("share", f"cannot be put on record: {problem}")
        with self._ledger.remembered("it was interrupted while a new mechanism, which is on record, was made"):
            self._ledger.write(mechanism_line(new, lowered))
            reached(Stage.MECHANISM_DURABLE)
            self._record.shares.add(new, lowered)
            for name in lowered.keys() & self._gates.keys():
                self._gates.pop(name).retire()
            self._add_journal(self.schema)
            yield

    def refine(self, schema: Schema, following: Sequence[str]) -> None:
        """Put the next version of the schema on record. The mechanisms ``following`` see all rows through it from now
        on; the others keep the version that they have. No row is read, and nothing is charged: a version is public, and
        a replaced row is in one cell of each."""
        if not refines(schema, self.schema):
            raise SchemaError("this does not refine the vault's schema: some cell of that is no union of the new ones")
        if set(scalars_of(schema)) != set(self._rows.scalars):
            raise SchemaError("a refinement is about the columns that are kept: no other was kept of earlier rows")
        with self._ledger.remembered("it was interrupted while a new version of the schema was taken up"):
            self._ledger.write(refined_line(schema, following))
            reached(Stage.SCHEMA_DURABLE)
            for name, gate in self._gates.items():
                if name not in following:
                    gate.keep_lens()
            self._record.refine(schema, following)
            self._rows.refine(schema)

    def _numbered(self, name: str) -> tuple[int, Spec]:
        for number, spec in enumerate(self._record.specs):
            if spec.name == name:
                return number, spec
        raise ParameterError("name", f"{name!r} is of no mechanism on record")

    def _add_journal(self, lens: Schema) -> LedgerJournal:
        new = LedgerJournal(self._ledger, len(self._journals), codec(lens, self._notes), self._checkpoints)
        self._journals.append(new)
        return new

    # -- rows ---------------------------------------------------------------------------------------------------------

    def append(self, frame: Any, on_invalid: OnInvalid, key: str | None, *, again: bool) -> Taken:
        """Take in the rows of ``frame``, all of them or none. The same key again takes in nothing; unless ``again`` is
        true, rows that are just those of an earlier append are refused."""
        drop = dropping(on_invalid)
        check_key(key)
        with self.alone():
            known = self._appended(key)
            if known is None and self._counts_persons:  # Per-person limits depend on earlier rows: hold the lock.
                return self._took(self._parts.spool(frame, self._parts.persons(), drop=drop), key, again=again)
        if known is not None:
            return self._same(known, self._parts.read_again(frame))
        spool = self._parts.spool(frame, None, drop=drop)  # Others ask meanwhile.
        try:
            with self.alone():
                known = self._appended(key)
                if known is None:
                    return self._took(spool, key, again=again)
            return self._same(known, spool)
        finally:
            spool.discard()

    @property
    def intake(self) -> Intake | None:
        """PRIVATE: what was read for the last append of this session."""
        return self._intake

    def check_rows(self, frame: Any, on_invalid: OnInvalid) -> Intake:
        """PRIVATE: what `intake` would be after an append of ``frame``, of which nothing is taken in."""
        drop = dropping(on_invalid)
        with self.alone():
            self._appended(None)
            if self._counts_persons:
                return self._parts.read(frame, self._parts.persons(), drop=drop)
        return self._parts.read(frame, None, drop=drop)

    def refresh(self, on_invalid: OnInvalid) -> int:
        """Take in the rows past the watermark of the vault's table, and return the new size."""
        with self.alone():
            self.check()
        if self._source is None:
            raise VaultError("this vault has no table of its own to refresh from: append rows")
        self._source.refresh(on_invalid, self._refreshed, self._watchers.call)
        with self.alone():
            self._ledger.check_usable()
        return self.size

    def _refreshed(self, increment: Any) -> None:
        """Put rows that stay in an engine on record, and take them up."""
        with self.alone():
            self.check()
            rows, dropped, mark = increment.rows, increment.dropped, increment.watermark.to_dict()
            if rows or dropped or not self._record.batches:
                _warn(rows, dropped, 6)
                take_up = partial(self._source.take_up, self._rows)
                self._recorded(lambda: self._parts.record_elsewhere(rows, dropped, mark), take_up)

    def patiently(self, work: Callable[[], Result]) -> Result:
        """The result of work in the vault. Where that needs rows in an engine counted, others go on meanwhile."""
        return work() if self._source is None else self._source.patiently(work)

    @property
    def _counts_persons(self) -> bool:
        return self.origin.person is not None

    def _appended(self, key: str | None) -> Line | Entry | None:
        """The line of an append with this key; None if there was none. Raises if none can be."""
        self.check()
        if self._source is not None:
            raise VaultError("the rows of this vault stay in their own engine: add them there, then refresh()")
        return None if key is None else self._record.keys.get(key)

    def _took(self, spool: Spool, key: str | None, *, again: bool) -> Taken:
        try:
            if not again:
                self._parts.check_new(spool)
            dropped = spool.intake.dropped
            taken = Taken(self._take(spool, dropped, key or ""), spool.rows, dropped, known=False)
        finally:
            spool.discard()
        self._intake = spool.intake
        return taken

    def _same(self, line: Line | Entry, spool: Spool) -> Taken:
        """What an append has taken in, if it was of the same rows."""
        if line.kind != ROWS:
            raise KeyUsed(line.key, "new rows")
        batch = Batch.of(line)
        with self.alone():
            self.check()
            same = self._parts.holds(batch, spool)
        spool.discard()
        if not same:
            raise KeyUsed(line.key, "other rows")
        return Taken(batch.size, batch.rows, batch.dropped, known=True)

    def _take(self, spool: Spool, dropped: int, key: str) -> int:
        if spool.rows == 0 and dropped == 0 and not key:
            return self.rows
        try:
            _warn(spool.rows, dropped, 7)
            self._parts.write(spool)
        finally:
            spool.discard()

        def take_up(batch: Batch) -> None:
            self._parts.count(batch, spool)
            if key:
                self._record.keys[key] = batch.line(key)

        self._recorded(lambda: self._parts.record(spool, dropped, key), take_up)
        self._watchers.call()
        self._ledger.check_usable()
        self._parts.condense()
        return self.rows

    def _recorded(self, record: Callable[[], Batch], take_up: Callable[[Batch], None]) -> None:
        """Put new rows on record, durably, and then take them up."""
        with self._ledger.remembered("it was interrupted while new rows, which are on record, were counted"):
            with self._ledger.transaction():
                self._settle()
                batch = record()
            reached(Stage.ROWS_DURABLE)
            take_up(batch)
        reached(Stage.ROWS_COUNTED)

    def _settle(self) -> None:
        for journal in self._journals:
            journal.settle(renew=True)

    # -- answers under idempotency keys -------------------------------------------------------------------------------

    def knows(self, key: str | None) -> bool:
        """Whether an idempotency key was used."""
        return key in self._record.keys

    def kept(self, key: str) -> Kept:
        """What was answered under a key that was used; `KeyUsed` if nothing was."""
        line = self._record.keys[key]
        if line.kind != ANSWERS:
            raise KeyUsed(key, "a new question")
        return Kept(key, line.mechanism, json.loads(line.body))

    def keep(self, kept: Kept) -> None:
        """Put what was answered under a key on record."""
        line = Line(ANSWERS, body(**kept.plain), kept.mechanism, kept.key)
        self._ledger.write(line)
        self._record.keys[kept.key] = line

    # -- erasing and correcting ---------------------------------------------------------------------------------------

    def erasing(self) -> Any:
        """What finds, erases and corrects rows (``erasing.py``): in the vault's lock, after `check`."""
        if self._source is not None:
            raise VaultError("the rows of this vault stay in their own engine: erase them there")
        return registry.part("Erasing")(self._parts, self._ledger, self._rows, self._record, self._engine, self._gates)

    # -- the whole ----------------------------------------------------------------------------------------------------

    def verify(self, head: str | None) -> Verified:
        """Check the whole vault, and the rows in memory: see `Reading.verify`."""
        return self.reading.verify(head, self._rows.size)

    def backup(self, path: Place) -> None:
        """Copy the vault, as it is now, to a new folder."""
        target = Folder(path)
        with self._ledger.transaction():
            self._settle()
        target.create()
        self._parts.stored().copy(target.parts)
        self._ledger.backup(target.ledger)  # Last: without a ledger, the folder is no vault.
        sync_folder(target.path)


def _warn(rows: int, dropped: int, stacklevel: int) -> None:
    """Say that rows are left out, before anything is written: where warnings are errors, nothing has happened."""
    if dropped:
        warnings.warn(left_out(dropped, of=dropped + rows), DroppedRows, stacklevel=stacklevel)


def check_key(key: str | None) -> None:
    """Refuse an invalid idempotency key."""
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= 200 or not key.isprintable()):
        raise ParameterError("key", "must be a printable text of 1 to 200 characters")
