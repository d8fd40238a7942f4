"""The vault: a growing database with its promise, in one folder that outlives processes, crashes and years.

`Vault` is what users open. Creating one checks everything before anything is written (`originate`, `first_spec`), then
writes an empty vault (`found`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from treering.boxes.base import Progress
from treering.boxes.erm import Model
from treering.budget.promise import Promise
from treering.domain.schema import Schema
from treering.errors import KeyUsed, ParameterError, SchemaError, VaultError
from treering.params import Number, probability, share_of, whole
from treering.rowfile import RowFile
from treering.trusted.database import DroppedRows, GrowingDatabase, OnInvalid, Watchers
from treering.trusted.engines.watermark import Increment
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.disk import Stage, reached, sync_folder
from treering.trusted.ledger.folder import Folder, WriterLock
from treering.trusted.ledger.journal import without_collections
from treering.trusted.ledger.ledger import Ledger
from treering.trusted.ledger.lines import MECHANISM, Entry, Line, body, seal
from treering.trusted.ledger.named import Batch
from treering.trusted.rows.intake import Intake
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.parts import Parts, StoreEngine
from treering.trusted.rows.spool import Spool
from treering.trusted.sealed import salt as new_salt
from treering.vault.asking import Asking
from treering.vault.kinds import EXPECTED_ROWS, Spec, choose, codec, lowered, spec, with_shares
from treering.vault.members import Assembly, chosen
from treering.vault.reader import Appended, VaultReader, status, verify
from treering.vault.record import PERSON_KEY, Origin, Record, check_key, form_of, limit_of, options_of, recorded_batch
from treering.vault.sources import Attached, claim, source_of
from treering.vault.together import Access
from treering.words import counted, left_out, reason

Place: TypeAlias = str | PathLike[str]

DEFAULT_ALPHA: Final = 0.05
"""The alpha of a `PMWG` for which none was given."""

WAIT: Final = 10.0
"""Seconds to wait, by default, for another process that has the vault open for writing."""


class Taken(NamedTuple):
    """What an append has taken in: public."""

    size: int
    """The size after it."""
    rows: int
    dropped: int
    known: bool
    """Whether an earlier append with the same key had taken in these rows: nothing has changed now."""


class Vault(Asking):
    """A durable growing database, and the mechanisms that answer about it under one promise.

    Formal guarantee. *Privacy*: everything that ever leaves the vault, through all its mechanisms together, is
    (epsilon, delta)-DP for persons with up to ``rows_per_person`` rows (`Promise`): each mechanism has a share of the
    promise's budget, the shares sum to at most 1, and each one's kernel refuses what exceeds its share
    (``vault/kinds.py`` has the proof, also for shares that move). That holds across crashes: a charge is durable
    before the answer that it paid for leaves. It does not hold if the folder is copied and both copies answer, or if it
    is set back to an earlier state and answers again: `verify` with a ``head`` noted earlier detects the second.
    *Durability*: what an answer depends on (charge, secret, step of the histogram, the answer itself) is one commit,
    made before the answer leaves; a batch of rows is whole or absent.

    One process at a time has a vault open for writing; threads may share it. `read` needs no wait for the writer.

    >>> import tempfile, treering as tr
    >>> place = tempfile.mkdtemp() + "/flights"
    >>> schema = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
    >>> with Vault.create(place, schema, epsilon=1.0, delta=1e-9, mechanism="pmwg", beta=1e-9) as vault:
    ...     size = vault.append([{"late": "no", "month": 1}] * 60_000 + [{"late": "yes", "month": 2}] * 40_000)
    ...     answer = vault.ask("late = 'yes'", key="first")
    >>> with Vault.open(place) as vault:
    ...     vault.size, vault.ask("late = 'yes'", key="first") == answer
    (100000, True)
    """

    __slots__ = (*("_assembly", "_engine", "_folder", "_intake", "_lock", "_parts", "_source", "_watchers"),)

    def __init__(self, folder: Folder, lock: WriterLock, ledger: Ledger, table: Any = None) -> None:
        """Use `create` or `open`."""
        self._folder, self._lock, self._ledger = folder, lock, ledger
        self._record = record = Record.of(ledger.read(), folder)
        secrets = ledger.secrets()
        checkpoints = Checkpoints(folder.checkpoints, codec(record.origin.schema))
        for line in record.checkpoints:
            checkpoints.know(line)
        folder.clean(record.parts.names, record.parts.last, checkpoints.named)
        self._engine = StoreEngine(folder.path)
        self._rows = Rows(record.origin.schema, self._engine)
        self._access = Access(self._rows, lock, ledger)
        self._watchers = Watchers()
        self._assembly = Assembly(record.origin.promise, self._rows, ledger, checkpoints, self._watchers)
        journals = self._assembly.journals(record, secrets)
        limit = limit_of(record, secrets)
        form = form_of(record.origin)
        self._parts = Parts(folder.parts, form, self._rows, ledger, record.batches, record.parts, limit)
        self._parts.load()
        self._source = None if record.origin.source is None else Attached(record.origin, table)
        if self._source is not None:
            for batch in record.batches:
                self._source.take_up(self._rows, batch)
        self._intake: Intake | None = None
        self._members = [self._assembly.of(each, journal) for each, journal in zip(record.specs, journals, strict=True)]
        self._record.lines.clear()  # The journals hold them as events now.

    # -- creating, opening, closing -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Place,
        schema: Schema,
        epsilon: Number,
        delta: Number = 0.0,
        alpha: Number | None = None,
        beta: Number = 0.05,
        mechanism: str | None = "auto",
        share: Number = 1.0,
        rows_per_person: int = 1,
        *,
        person: str | None = None,
        rows: int = EXPECTED_ROWS,
        table: Any = None,
        order: str = "id",
        wait: float = WAIT,
        **options: Any,
    ) -> Vault:
        """A new vault with its promise and, unless ``mechanism`` is None, a first mechanism, as `add` makes it.

        ``path``             the folder: a new one, or an empty one
        ``schema``           the attributes of the rows
        ``epsilon, delta``   the promise, for everything that ever leaves the vault
        ``alpha``            the largest error wanted for all answers ever given, as a share of the rows
        ``beta``             the probability that any answer exceeds its error
        ``mechanism``        the kind of the first mechanism (see `add`). "auto" is `Rings`, whose answers are sharp and
                             say how sharp. If one ``alpha`` is wanted for all answers to come, it is the planner's
                             choice for a database of about ``rows`` rows: a `ContinualHistogram` where that keeps every
                             answer within ``alpha`` for ever, `PMWG` otherwise
        ``share``            the first mechanism's share of the promise, in (0, 1]. What `Rings` has not used of its
                             share, `add` can give to others later
        ``rows_per_person``  the most rows that one person has: the promise is for persons with up to this many
        ``person``           the column, in each batch, that says whose a row is; a row that would be its person's
                             ``rows_per_person`` + 1st is then refused. None: the vault does not check the limit
        ``rows``             the number of rows that "auto" plans for
        ``table, order``     an Ibis table, or the address of one: rows stay there, and `refresh` takes in those past
                             the watermark of the column ``order``, a unique integer that only grows
        ``wait``             seconds to wait for another process that has the vault open
        ``options``          further options of the first mechanism (see `add`)
        """
        promise = Promise(epsilon, delta, rows_per_person)
        origin = originate(schema, promise, person, table, order)
        first = None
        if mechanism is not None:
            first = first_spec(origin, mechanism, share, alpha, beta, rows, options)
        found(Folder(path), origin, first, wait)
        return cls.open(path, wait=wait, table=table)

    @classmethod
    def open(cls, path: Place, *, wait: float = WAIT, table: Any = None) -> Vault:
        """Open the vault in the folder ``path`` for writing, however its last process ended.

        Waits up to ``wait`` seconds for another writer, then raises `VaultBusy`. A vault whose table has no address
        (Spark) needs the ``table`` again, to `refresh`.
        """
        folder = Folder(path)
        folder.check()
        lock = WriterLock(folder.lock)
        try:
            lock.take(wait)
            ledger = ledgers.open_writer(folder.ledger)
            try:
                with without_collections():
                    return cls(folder, lock, ledger, table)
            except BaseException:
                ledger.close()
                raise
        except BaseException:
            lock.release()
            raise

    @classmethod
    def read(cls, path: Place) -> VaultReader:
        """A reader of the vault's public state, which neither waits for a writer nor disturbs one."""
        return VaultReader(path)

    def close(self) -> None:
        """Record what is pending, and let the next writer in. A crash instead of `close` loses nothing."""
        if self._access.foreign:
            return
        with self._rows.lock:
            if self._lock.held:
                try:
                    with suppress(VaultError):
                        self._ledger.check_entry()
                    for member in self._members:
                        self._condense(member, closing=True)
                        with suppress(VaultError):
                            member.journal.close()
                finally:
                    self._ledger.close()
                    self._lock.release()
                    self._engine.let_go()

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- rows ---------------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """What all mechanisms have spent, in the promise's `unit`."""
        with self._access.alone():
            self._access.check()
            return math.fsum(member.mechanism.spent for member in self._members)

    @property
    def promise(self) -> Promise:
        """The promise, for everything that ever leaves the vault."""
        return self._record.origin.promise

    @property
    def total(self) -> float:
        """What all mechanisms together may spend, in the promise's `unit`."""
        return float(self.promise.budget.total)

    @property
    def settled(self) -> bool:
        """Whether some mechanism, paid for already, answers every question to come for free."""
        with self._access.alone():
            self._access.check()
            return any(member.mechanism.settled for member in self._members)

    def left(self, position: int) -> float:
        """What all mechanisms together may still charge the row at this ``position``, from 1 on in the order of
        arrival, in the promise's `unit`. For a row that is still to come: what it will bring with it."""
        with self._access.alone():
            self._access.check()
            return self._left(whole(position, "position"))

    def append(self, frame: Any, on_invalid: OnInvalid = "refuse", key: str | None = None) -> int:
        """Take in the rows of ``frame`` durably, and return the new size. `GrowingDatabase.append` has the parameters.

        ``frame`` may also be a file: a path, or a `treering.RowFile` with its delimiter and encoding. It is read some
        rows at a time, and taken in whole or not at all.

        ``key`` is an idempotency key: a second append of the same rows with the same key (after a lost reply, say)
        takes in nothing, and returns the size that the first one returned. For other rows it is refused (`KeyUsed`).
        """
        return self.take_in(frame, on_invalid, key).size

    def take_in(
        self, frame: Any, on_invalid: OnInvalid = "refuse", key: str | None = None, *, again: bool = True
    ) -> Taken:
        """`append`, and how many rows that were, how many were left out, and whether all of this was so already.

        Unless ``again`` is true, rows that are just those of an earlier append are refused (`DataError`): a file that
        is handed over twice.
        """
        frame, drop = _rows_of(frame), _dropping(on_invalid)
        check_key(key)
        with self._access.alone():
            known = self._appended(key)
            if known is None and self._counts_persons:  # Whose rows are one too many depends on who was before.
                return self._took(self._parts.spool(frame, self._parts.persons(), drop=drop), key, again=again)
        if known is not None:
            return self._same(known, self._parts.read_again(frame))
        spool = self._parts.spool(frame, None, drop=drop)  # Others ask meanwhile.
        try:
            with self._access.alone():
                known = self._appended(key)
                if known is None:
                    return self._took(spool, key, again=again)
            return self._same(known, spool)
        finally:
            spool.discard()

    @property
    def intake(self) -> Intake | None:
        """PRIVATE: what was read for the last append of this session: rows, rows left out, and for each column how many
        values were unlisted, missing or outside. For the steward alone: these are exact counts."""
        return self._intake

    def check(self, frame: Any, on_invalid: OnInvalid = "refuse") -> Intake:
        """PRIVATE: what `intake` would be after an append of ``frame``, of which nothing is taken in. Raises what the
        append would."""
        frame, drop = _rows_of(frame), _dropping(on_invalid)
        with self._access.alone():
            self._appended(None)
            if self._counts_persons:
                return self._parts.read(frame, self._parts.persons(), drop=drop)
        return self._parts.read(frame, None, drop=drop)

    @property
    def _counts_persons(self) -> bool:
        return self._record.origin.person is not None

    def _appended(self, key: str | None) -> Line | Entry | None:
        """The line of an append with this key; None if there was none. Raises if none can be."""
        self._access.check()
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
        batch = recorded_batch(line)
        with self._access.alone():
            self._access.check()
            same = self._parts.holds(batch, spool)
        spool.discard()
        if not same:
            raise KeyUsed(line.key, "other rows")
        return Taken(batch.size, batch.rows, batch.dropped, known=True)

    def refresh(self, on_invalid: OnInvalid = "refuse") -> int:
        """Take in the rows past the watermark of the vault's table durably, and return the new size.

        `GrowingDatabase.refresh` says when this is refused; ``on_invalid`` is as in `append`.
        """
        with self._access.alone():
            self._access.check()
            if self._source is None:
                raise VaultError("this vault has no table of its own to refresh from: append rows")
            increment = self._source.increment(on_invalid)
            if increment.rows or increment.dropped or not self._record.batches:
                self._refreshed(self._source, increment)
            return self.size

    def _refreshed(self, source: Attached, increment: Increment) -> None:
        _warn(increment.rows, increment.dropped, 4)
        mark = increment.watermark.to_dict()
        self._recorded(
            lambda: self._parts.record_elsewhere(increment.rows, increment.dropped, mark),
            lambda batch: source.take_up(self._rows, batch),
        )

    def _take(self, spool: Spool, dropped: int, key: str) -> int:
        if spool.rows == 0 and dropped == 0 and not key:
            return self.size
        try:
            _warn(spool.rows, dropped, 6)
            self._parts.write(spool)
        finally:
            spool.discard()

        def taken_up(batch: Batch) -> None:
            self._parts.count(batch, spool)
            if key:
                self._record.keys[key] = batch.line(key)

        self._recorded(lambda: self._parts.record(spool, dropped, key), taken_up)
        self._parts.condense()
        return self.size

    def _recorded(self, record: Callable[[], Batch], take_up: Callable[[Batch], None]) -> None:
        """Put new rows on record, durably, and then take them up."""
        with self._ledger.remembered("it was interrupted while new rows, which are on record, were counted"):
            with self._ledger.transaction():
                for member in self._members:
                    member.journal.settle(renew=True)
                batch = record()
            reached(Stage.ROWS_DURABLE)
            take_up(batch)
        reached(Stage.ROWS_COUNTED)
        self._watchers.call()
        self._ledger.check_usable()

    # -- what was released ---------------------------------------------------------------------------------------------

    def synthesize(self, rows: int, mechanism: str | None = None, generator: Any = None) -> pa.Table:
        """Synthetic rows, ``rows`` of them, from what the mechanism has released so far: free.

        ``mechanism`` is as in `ask`; one that has nothing to draw rows from raises `QueryError`. ``generator`` is the
        NumPy generator that draws the rows: a scheduler needs one, "pmwg" gives the same rows each time without one.
        """
        with self._access.alone():
            self._access.check()
            return chosen(self._members, mechanism)[1].mechanism.sample(rows, generator)

    def model(self, mechanism: str | None = None, *, update: bool = True, progress: Progress | None = None) -> Model:
        """The latest model of a learner ("ermrings" or "ermg"), the named one or the first; the first call trains the
        first model.

        With ``update=False``, the latest model there is: free, even if a new one is due. ``progress`` is called at each
        step of training, with the part that is done and a text, both public.
        """
        with self._access.alone():
            self._access.check()
            named = mechanism or next((each.spec.name for each in self._members if not each.mechanism.answers), "ermg")
            learner = chosen(self._members, named)[1].mechanism
            if learner.answers:
                raise ParameterError("mechanism", f"{named!r} learns no model: add one of kind 'ermrings' or 'ermg'")
            with self._ledger.transaction():
                model: Model = learner.learnt(update=update, progress=progress)
                return model

    # -- the promise --------------------------------------------------------------------------------------------------

    def add(self, kind: str, share: Number, **options: Any) -> str:
        """Add a mechanism beside the others, with a ``share`` of the promise in (0, 1]; return its name.

        ``kind`` is one of these, with these options:

            "rings"                   beta, pace
            "pmwg"                    alpha, beta, measure_first
            "continual"               beta
            "scheduler", "improver"   box, queries, ways, beta
            "ermg"                    target, features, loss, radius, regularisation, beta
            "ermrings"                the same, and every, validation

        The option ``name`` gives it another name than its kind. Refused if the shares would sum to more than 1; but
        what rings have not used of theirs is given up for it (`status` shows all shares). Its share is set aside for
        ever, though nothing is charged before it is asked.
        """
        with self._access.alone():
            self._access.check()
            origin, members, specs = self._record.origin, self._members, self._record.specs
            spare = [member.mechanism.spare / origin.promise.budget.total for member in members]
            shares = lowered(specs, spare, share_of(share, "share"))
            others = with_shares(specs, shares)
            new = checked(origin, spec(kind, share, options_of(options), others))
            with self._ledger.remembered("it was interrupted while a new mechanism, which is on record, was made"):
                self._ledger.write(mechanism_line(new, shares))
                reached(Stage.MECHANISM_DURABLE)
                specs[:] = [*others, new]
                for number, each in enumerate(others):
                    if each.name in shares:
                        members[number] = self._assembly.lowered(each, members[number].journal)
                members.append(self._assembly.new(new, len(members)))
            return new.name

    def status(self) -> dict[str, Any]:
        """The public state: size, spent, remaining, the mechanisms and their guarantees, the ledger's head."""
        with self._access.alone():
            self._access.check()
            self._record.seq, self._record.head = self._ledger.seq, self._ledger.head
            return status(self._record, [member.mechanism for member in self._members])

    def ledger(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every line of the ledger whose ``seq`` is above ``after``, oldest first, with ``seq``, ``kind``, ``cost``,
        ``size``, ``hash`` and more."""
        return VaultReader(self._folder.path).ledger(after)

    def batches(self, after: int = 0) -> list[Appended]:
        """The batches of rows, oldest first: when each came, and how many rows it had. Only those whose line of the
        ledger has a number above ``after``, which is faster than all."""
        return VaultReader(self._folder.path).batches(after)

    def verify(self, head: str | None = None) -> dict[str, Any]:
        """Check the whole vault: see `VaultReader.verify`."""
        with self._access.alone():
            self._access.check()
            return verify(self._folder, head, self._rows.size)

    def backup(self, path: Place) -> None:
        """Copy the vault, as it is now, to the new folder ``path``. The copy is for restoring, not for asking: if both
        answer, the promise is broken."""
        target = Folder(path)
        with self._access.alone():
            self._access.check()
            with self._ledger.transaction():
                for member in self._members:
                    member.journal.settle(renew=True)
            target.create()
            self._parts.stored().copy(target.parts)
            self._ledger.backup(target.ledger)  # Last: without a ledger, the folder is no vault.
            sync_folder(target.path)

    # -- internals ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        mechanisms = counted(len(self._members), "mechanism")
        return f"Vault({counted(self.size, 'row')}; {counted(self.schema.cells, 'cell')}; {mechanisms})"

    def _repr_html_(self) -> str:
        """The vault in a notebook: its rows, its budget, its mechanisms."""
        from treering.shown import status_html

        return status_html(self.status(), self.spent, self.total, self.unit)


def _warn(rows: int, dropped: int, stacklevel: int) -> None:
    """Say that rows are left out, before anything is written: where warnings are errors, nothing has happened."""
    if dropped:
        warnings.warn(left_out(dropped, of=dropped + rows), DroppedRows, stacklevel=stacklevel)


def _rows_of(frame: Any) -> Any:
    return RowFile(frame) if isinstance(frame, Path) else frame


def _dropping(on_invalid: OnInvalid) -> bool:
    if on_invalid not in ("refuse", "drop"):
        raise ParameterError("on_invalid", 'must be "refuse" or "drop"')
    return on_invalid == "drop"


# -- creating a vault --------------------------------------------------------------------------------------------------


def originate(schema: Schema, promise: Promise, person: str | None, table: Any, order: str) -> Origin:
    """The origin of a new vault, its first line, from checked parameters."""
    if not isinstance(schema, Schema):
        raise SchemaError(f"a vault needs a Schema, not {type(schema).__name__}")
    if person is not None and (not isinstance(person, str) or not person or person in schema.names):
        raise ParameterError("person", "must name a column that is no attribute of the schema")
    if person is not None and table is not None:
        raise ParameterError("person", "cannot be counted where rows stay in their own engine")
    return Origin(
        new_salt().hex()[:32], schema, promise, person, None if table is None else source_of(table, schema, order)
    )


def first_spec(
    origin: Origin,
    kind: str,
    share: Number,
    alpha: Number | None,
    beta: Number,
    rows: int,
    options: Mapping[str, Any],
) -> Spec:
    """The first mechanism of a new vault; for "auto", rings, or the planner's choice if an alpha is wanted."""
    accuracy = DEFAULT_ALPHA if alpha is None else float(probability(alpha, "alpha"))
    chance = float(probability(beta, "beta"))
    if kind == "auto":
        own = replace(origin.promise, share=share)
        rows = whole(rows, "rows")
        kind = "rings" if alpha is None else choose(origin.schema.cells, own, accuracy, chance, rows)
    given = {"beta": chance, **({"alpha": accuracy} if kind == "pmwg" else {}), **options}
    return checked(origin, spec(kind, share, options_of(given), ()))


def checked(origin: Origin, new: Spec) -> Spec:
    """The mechanism, if its options are valid: tried by building it over an empty database."""
    new.build(GrowingDatabase(origin.schema), origin.promise)
    return new


def mechanism_line(new: Spec, shares: Mapping[str, Fraction] | None = None) -> Line:
    """The line of the ledger that adds a mechanism, with the shares that were lowered for it."""
    moved = {name: str(share) for name, share in (shares or {}).items()}
    return Line(MECHANISM, body(**new.to_dict(), **({"shares": moved} if moved else {})))


def found(folder: Folder, origin: Origin, first: Spec | None, wait: float) -> None:
    """Write an empty vault. If this is interrupted, opening the folder raises `NotAVault`."""
    if origin.source is not None:
        claim(origin, folder)
    folder.create()
    lock = WriterLock(folder.lock)
    try:
        lock.take(wait)
        ledger = ledgers.create(folder.ledger)
        try:
            key = None
            if origin.person is not None:
                key, promised = seal(PERSON_KEY, new_salt().hex())
                origin = replace(origin, commitment=promised)
            with ledger.transaction():
                ledger.write(origin.line(), put=key)
                if first is not None:
                    ledger.write(mechanism_line(first))
        finally:
            ledger.close()
        for each in (folder.path, folder.path.resolve().parent):
            sync_folder(each)
    except OSError as error:
        raise VaultError(f"cannot create a vault at {folder.path}: {reason(error)}") from None
    finally:
        lock.release()
