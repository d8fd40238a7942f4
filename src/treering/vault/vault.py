"""The vault: a growing database with its promise, in one folder that outlives processes, crashes and years.

`Vault` is what users open. Creating one checks everything before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from treering.answer import Answer, Bill, Price
from treering.boxes.base import Progress
from treering.boxes.erm import Model
from treering.budget.promise import Promise
from treering.domain.attribute import Attribute
from treering.domain.language.measures import Release, Request
from treering.domain.language.parse import Question
from treering.domain.language.wants import Count, Wants
from treering.domain.query import Query
from treering.domain.refining import refined
from treering.domain.schema import Schema
from treering.errors import ParameterError, VaultError
from treering.params import Number, share_of, whole
from treering.rowfile import RowFile
from treering.trusted import store as stores
from treering.trusted.store import (
    Intake,
    OnInvalid,
    Sealed,
    Store,
    Taken as Taken,
    with_shares,
)
from treering.vault.asking import Questions
from treering.vault.beginning import checked, first_spec, named
from treering.vault.changing import Change, change
from treering.vault.discovering import DEFAULT_SHARE, Wanted, discover, discovered, part_of
from treering.vault.drafting import DRAFT_SHARE, create_drafted
from treering.vault.kinds import EXPECTED_ROWS, NOTES, lowered, spec
from treering.vault.members import Member, chosen
from treering.vault.planning import Planned
from treering.vault.reader import Appended, VaultReader, batches, lines, status, verified
from treering.vault.record import options_of
from treering.words import counted

if TYPE_CHECKING:
    from treering.sql.split import Statement
    from treering.vault.publishing import Published

Place: TypeAlias = str | PathLike[str]

WAIT: Final = 10.0
"""Seconds to wait, by default, for another process that has the vault open for writing."""


PERSONS_SHARE: Final = Fraction(9, 10)
"""The part of the first share that is for counting persons, where one may have several rows."""


class Vault(Sealed):
    """A durable growing database, and the mechanisms that answer about it under one promise.

    Formal guarantee. *Privacy*: everything that ever leaves the vault, through all its mechanisms together, is
    (epsilon, delta)-DP for persons with up to ``rows_per_person`` rows (`Promise`): each mechanism has a share of the
    promise's budget, the shares sum to at most 1, and each one's kernel refuses what exceeds its share
    (``trusted/ledger/shares.py`` has the proof, also for shares that move). That holds across crashes: a charge is
    durable before the answer that it paid for leaves. It does not hold if the folder is copied and both copies answer,
    or if it is set back to an earlier state and answers again: `verify` with a ``head`` noted earlier detects the
    second.
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

    __slots__ = ("_members", "_questions", "_store")

    def __init__(self, store: Store) -> None:
        """Use `create` or `open`."""
        self._store = store
        self._members = [Member.of(each, store) for each in store.record.specs]
        self._questions = Questions(store, self._members)

    # -- creating, opening, closing -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Place,
        schema: Schema | None = None,
        epsilon: Number | None = None,
        delta: Number = 0.0,
        alpha: Number | None = None,
        beta: Number = 0.05,
        mechanism: str | None = "auto",
        share: Number = 1.0,
        rows_per_person: int = 1,
        *,
        person: str | None = None,
        name: str | None = None,
        key: str | None = None,
        rows: int = EXPECTED_ROWS,
        discoveries: bool | Number = False,
        draft: Place | RowFile | None = None,
        table: Any = None,
        order: str = "id",
        wait: float = WAIT,
        **options: Any,
    ) -> Vault:
        """A new vault with its promise and, unless ``mechanism`` is None, a first mechanism, as `add` makes it.

        ``path``             the folder: a new one, or an empty one
        ``schema``           the attributes of the rows; None: they are drafted
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
                             ``rows_per_person`` + 1st is then refused, and persons can be counted: with "auto", nine
                             tenths of the share are for that where a person may have several rows (a mechanism of kind
                             "persons"). None: the vault does not check the limit
        ``name``             what the table is called; None: as the folder is, without its ending
        ``key``              the column, in each batch, that says which row is which, for `erase` and `correct`. A
                             digest of it is kept. None: rows cannot be told apart later
        ``rows``             the number of rows that "auto" plans for
        ``discoveries``      the part of delta that is set aside for `discover`; True: a tenth, which makes rho smaller
                             by about a hundredth. The first mechanism must then be rings
        ``draft``            the file of the first rows, of which the schema is drafted within the promise: its rows are
                             taken in, and they alone pay ``share`` of the promise (1.0: a twentieth), and half of what
                             is set aside for `discover`; rings have all of the promise then
        ``table, order``     an Ibis table, or the address of one: rows stay there, and `refresh` takes in those past
                             the watermark of the column ``order``, a unique integer that only grows
        ``wait``             seconds to wait for another process that has the vault open
        ``options``          further options of the first mechanism (see `add`)
        """
        if (schema is None) != (draft is not None):
            raise ParameterError("schema", "is given, or drafted from the file `draft`: one of the two")
        if epsilon is None:
            raise ParameterError("epsilon", "must be given: it is the vault's promise")
        promise = Promise(epsilon, delta, rows_per_person, aside=part_of(discoveries or draft is not None))
        word = named(path) if name is None else name
        if schema is None:
            if draft is None or mechanism not in ("auto", "rings") or (alpha, person, table, key) != (None,) * 4:
                raise ParameterError(
                    "draft", "is for rings over rows that are kept, without alpha, person, key or table"
                )
            cost = share_of(DRAFT_SHARE if share == 1.0 else share, "share")
            rings = partial(first_spec, kind="rings", share=1.0, alpha=None, beta=beta, rows=rows, options=options)
            create_drafted(path, promise, draft, cost, word, wait, rings)
            return cls.open(path, wait=wait)
        origin = stores.originate(schema, promise, person, table, order, word, key)
        origin = replace(origin, called=name is not None)
        first = None
        if mechanism is not None:
            first = first_spec(origin, mechanism, share, alpha, beta, rows, options)
        counted = first is not None and mechanism == "auto" and first.kind == "rings"
        if first is None or not counted or person is None or rows_per_person == 1:
            stores.create(path, origin, first, wait)
            return cls.open(path, wait=wait, table=table)
        stores.create(path, origin, replace(first, share=first.share * (1 - PERSONS_SHARE)), wait)
        made = cls.open(path, wait=wait, table=table)
        made.add("persons", first.share * PERSONS_SHARE, **first.options)
        return made

    @classmethod
    def open(cls, path: Place, *, wait: float = WAIT, table: Any = None) -> Vault:
        """Open the vault in the folder ``path`` for writing, however its last process ended.

        Waits up to ``wait`` seconds for another writer, then raises `VaultBusy`. A vault whose table has no address
        (Spark) needs the ``table`` again, to `refresh`.
        """
        with Store.opening(path, NOTES, wait, table) as store:
            return cls(store)

    @classmethod
    def read(cls, path: Place) -> VaultReader:
        """A reader of the vault's public state, which neither waits for a writer nor disturbs one."""
        return VaultReader(path)

    def close(self) -> None:
        """Record what is pending, and let the next writer in. A crash instead of `close` loses nothing."""
        if self._store.foreign:
            return
        with self._store.alone():
            if self._store.held:
                try:
                    with suppress(VaultError):
                        self._store.check()
                    for member in self._members:
                        self._questions.condense(member, closing=True)
                finally:
                    self._store.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask(
        self,
        query: Question,
        mechanism: str | None = None,
        key: str | None = None,
        within: float | None = None,
        *,
        estimate: bool = False,
        count: Count = "rows",
        per_person: int | None = None,
    ) -> Answer:
        """The share of the rows that match ``query``, with its margin and its error.

        ``mechanism`` is the name of the one that answers; by default, the one whose answer is free and has the smallest
        margin, or else the one that answers new questions best. ``key`` is an idempotency key: asking the same query
        again with the same key returns the recorded answer, and charges nothing. ``within`` is the margin that is
        wanted, in rows or, below 1, as a share of them: no more is paid than it needs. With ``estimate`` nothing is
        released: the answer is read off a distribution fitted to earlier answers, for nothing and without a bound.

        With ``count="persons"`` it is how many persons have a row that matches, and their share of all persons; with
        ``per_person`` how many rows match, of which at most so many of each person count. Both need a vault that knows
        whose its rows are (``person=``), and where a person may have many rows they are far sharper than counts of
        rows.
        """
        if estimate:
            return self.estimates([query], mechanism)[0]
        wants = Wants(count, per_person)
        found = [self._questions.query(query, mechanism)]
        return self._questions.answers(found, mechanism, key, within, Bill(), wants=wants)[0]

    def ask_many(
        self,
        queries: Iterable[Question],
        mechanism: str | None = None,
        key: str | None = None,
        within: float | None = None,
        bill: Bill | None = None,
        plan: Planned | None = None,
        *,
        count: Count = "rows",
        per_person: int | None = None,
    ) -> list[Answer]:
        """`ask` for a batch, in one commit, which threads that ask at the same time share. ``bill`` limits what it may
        cost, and learns what it did; ``plan`` is what `plan` made for the same question. A cap ``per_person`` is for
        all questions together; of persons, it is the most questions in which each counts."""
        found, wants = self._questions.queries(queries, mechanism), Wants(count, per_person)
        return self._questions.answers(found, mechanism, key, within, Bill() if bill is None else bill, plan, wants)

    def queries(self, texts: Iterable[Question], mechanism: str | None = None) -> list[Query]:
        """Questions as `ask` reads them: rings compare numbers with any other. (An error about one of several says
        which.)"""
        asked = list(texts)
        if len(asked) == 1:
            return [self._questions.query(asked[0], mechanism)]
        return self._questions.queries(asked, mechanism)

    def estimates(self, queries: Iterable[Question], mechanism: str | None = None) -> list[Answer]:
        """`ask` with ``estimate`` for a batch: of kind "estimate", free, and without a bound."""
        return self._questions.estimates(self._questions.queries(queries, mechanism), mechanism)

    def sql(
        self,
        text: str | Statement,
        within: float | None = None,
        mechanism: str | None = None,
        bill: Bill | None = None,
        key: str | None = None,
        plan: Planned | None = None,
        *,
        per_person: int | None = None,
    ) -> pa.Table:
        """The result of an SQL statement, as an Arrow table: a column ``…_margin`` follows each number with noise.

        What must be released (groups and their counts, sums, averages, quantiles) is asked as one batch, for one price;
        ORDER BY, LIMIT, HAVING, arithmetic, shares, window functions and SELECTs over SELECTs are worked out from it
        for nothing. ``within`` is as in `ask`, for each released number, and so are ``mechanism`` and ``key``; ``bill``
        and ``plan`` are as in `ask_many`. A statement that begins with EXPLAIN releases nothing: its result says what
        would be, and what that costs. COUNT(DISTINCT person) counts persons; with ``per_person`` at most so many rows
        of each person count in what is counted and summed.
        """
        from treering.sql.engine.current import current

        with current().together():  # All stages of the statement.
            statement = self.statement(text, mechanism, per_person)
            return self._questions.sql(statement, within, mechanism, Bill() if bill is None else bill, key, plan)

    def publish(
        self,
        address: str,
        statements: Mapping[str, str],
        within: float | None = None,
        mechanism: str | None = None,
        bill: Bill | None = None,
        *,
        dry_run: bool = False,
    ) -> Published:
        """Put the results of named statements, as tables, in the place of those that were published at ``address``
        before: ``duckdb:///file.duckdb``, ``postgresql://user@host/database``, ``parquet:///folder``, ``csv:///folder``.

        Beside each number stand its ``…_margin``, ``…_low`` and ``…_high``; the table ``treering_notes`` says what each
        table is. All statements are one question, about the rows of one moment, and the place has all of the new tables
        or all of the old ones, however this ends. Asked again before rows come, it is free. ``within``, ``mechanism``
        and ``bill`` are as in `sql`. With ``dry_run`` nothing is asked and nothing written: the result has the price.
        """
        from treering.vault.publishing import publish

        paid, promise = Bill() if bill is None else bill, self.status()["promise"]
        return publish(self._questions, address, statements, promise, within, mechanism, paid, dry_run=dry_run)

    def statement(
        self, text: str | Statement, mechanism: str | None = None, per_person: int | None = None
    ) -> Statement:
        """An SQL text, read: to be priced and asked without reading it again. ``per_person`` is as in `sql`."""
        return self._questions.statement(text, mechanism, per_person)

    def release(
        self, request: Request, mechanism: str | None = None, key: str | None = None, within: float | None = None
    ) -> Release:
        """Counts, sums, averages and quantiles of groups, in one commit and for one price: see `Rings.release`.

        ``mechanism`` is the name of one of kind "rings"; by default, the first. ``key`` and ``within`` are as in `ask`.
        """
        return self._questions.release(request, mechanism, key, within)

    # -- prices -------------------------------------------------------------------------------------------------------

    def plan(
        self,
        question: str | Statement | Request | Iterable[Question],
        mechanism: str | None = None,
        within: float | None = None,
        *,
        count: Count = "rows",
        per_person: int | None = None,
    ) -> Planned:
        """How a list of queries, an SQL statement or a request would be answered, with its ``price``. Free: nothing
        private is read. `ask_many` and `sql` take it, and plan no second time unless rows came or others asked."""
        if isinstance(question, Request):
            return self._questions.request(question, mechanism, within)
        if isinstance(question, str) or not isinstance(question, Iterable):
            return self._questions.plan(self.statement(question, mechanism, per_person).items, mechanism, within)
        queries, wants = self._questions.queries(question, mechanism), Wants(count, per_person)
        return self._questions.plan(self._questions.wanted(wants).items(queries), mechanism, within)

    def price(
        self,
        query: Question,
        mechanism: str | None = None,
        within: float | None = None,
        *,
        count: Count = "rows",
        per_person: int | None = None,
    ) -> float:
        """The most that asking ``query`` next could cost a row, in the promise's unit. Free: nothing private is
        read."""
        asked = [self._questions.query(query, mechanism)]
        return self.plan(asked, mechanism, within, count=count, per_person=per_person).most

    def price_many(
        self,
        queries: Iterable[Question],
        mechanism: str | None = None,
        within: float | None = None,
        *,
        count: Count = "rows",
        per_person: int | None = None,
    ) -> Price:
        """The most that a batch could cost, and which mechanism would answer it."""
        asked = self._questions.queries(queries, mechanism)
        return self.plan(asked, mechanism, within, count=count, per_person=per_person).price

    def price_sql(
        self,
        text: str | Statement,
        within: float | None = None,
        mechanism: str | None = None,
        *,
        per_person: int | None = None,
    ) -> Price:
        """The most that `sql` could cost, and which mechanism would answer. Free: nothing private is read."""
        return self.plan(text, mechanism, within, per_person=per_person).price

    def quote(self, request: Request, mechanism: str | None = None, within: float | None = None) -> Price:
        """What `release` would cost those rows that pay most, but for rounding. Free: nothing private is read."""
        return self.plan(request, mechanism, within).price

    # -- rows ---------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._store.schema

    @property
    def name(self) -> str:
        """What the table is called: public."""
        return self._store.origin.name

    @property
    def size(self) -> int:
        """The number of rows that are there: public."""
        return self._store.rows

    @property
    def unit(self) -> str:
        """The unit of costs: "epsilon" if the promise has delta = 0, otherwise "rho"."""
        return self._store.origin.promise.budget.unit

    @property
    def spent(self) -> float:
        """What all mechanisms have spent, in the promise's `unit`."""
        with self._store.alone():
            self._store.check()
            return math.fsum(member.mechanism.spent for member in self._members)

    @property
    def promise(self) -> Promise:
        """The promise, for everything that ever leaves the vault."""
        return self._store.origin.promise

    @property
    def total(self) -> float:
        """What all mechanisms together may spend, in the promise's `unit`."""
        return float(self.promise.budget.total)

    @property
    def settled(self) -> bool:
        """Whether some mechanism, paid for already, answers every question to come for free."""
        with self._store.alone():
            self._store.check()
            return any(member.mechanism.settled for member in self._members)

    def left(self, position: int) -> float:
        """What all mechanisms together may still charge the row at this ``position``, from 1 on in the order of
        arrival, in the promise's `unit`. For a row that is still to come: what it will bring with it."""
        with self._store.alone():
            self._store.check()
            return self._questions.left(whole(position, "position"))

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
        return self._store.append(_rows_of(frame), on_invalid, key, again=again)

    @property
    def intake(self) -> Intake | None:
        """PRIVATE: what was read for the last append of this session: rows, rows left out, and for each column how many
        values were unlisted, missing or outside. For the steward alone: these are exact counts."""
        return self._store.intake

    def check(self, frame: Any, on_invalid: OnInvalid = "refuse") -> Intake:
        """PRIVATE: what `intake` would be after an append of ``frame``, of which nothing is taken in. Raises what the
        append would."""
        return self._store.check_rows(_rows_of(frame), on_invalid)

    def refresh(self, on_invalid: OnInvalid = "refuse") -> int:
        """Take in the rows past the watermark of the vault's table durably, and return the new size.

        `GrowingDatabase.refresh` says when this is refused; ``on_invalid`` is as in `append`.
        """
        return self._store.refresh(on_invalid)

    def erase(
        self,
        keys: Iterable[Any] | None = None,
        persons: Iterable[Any] | None = None,
        *,
        dry_run: bool = False,
        end: bool = False,
    ) -> Change:
        """Erase the rows with these ``keys``, or all rows of these ``persons``, for good: all of them or none.

        What they said is overwritten in the vault, and their slots stay, empty. No row pays anything. New series and
        later one-shot releases never see them; series that have counted some go on with margins wider by as many rows,
        or ``end`` ends these. With ``dry_run`` nothing happens, and the result says what would. Refused: keys that no
        row has (counted, not named), a key named twice, and any while a run or a reservation is in progress.
        """
        if (keys is None) == (persons is None):
            raise ParameterError("keys", "or persons must be given, and not both")
        if keys is not None:
            return change(self._store, self._members, lambda rows: rows.keyed(keys), dry_run=dry_run, end=end)
        return change(self._store, self._members, lambda rows: rows.of_persons(persons), dry_run=dry_run, end=end)

    def correct(self, frame: Any, *, dry_run: bool = False, end: bool = False) -> Change:
        """Correct rows to what ``frame`` says of them: it has their keys and all columns of the schema.

        Each row keeps its position, its person and its budget, and no row pays anything. ``dry_run`` and ``end`` are as
        in `erase`; refused is what `erase` refuses, and what `append` would.
        """
        given = _rows_of(frame)
        return change(self._store, self._members, lambda rows: rows.corrected(given), dry_run=dry_run, end=end)

    # -- what was released ---------------------------------------------------------------------------------------------

    def synthesize(self, rows: int, mechanism: str | None = None, generator: Any = None) -> pa.Table:
        """Synthetic rows, ``rows`` of them, from what the mechanism has released so far: free.

        ``mechanism`` is as in `ask`; one that has nothing to draw rows from raises `QueryError`. ``generator`` is the
        NumPy generator that draws the rows: a scheduler needs one, "pmwg" gives the same rows each time without one.
        """
        return self._questions.sample(rows, mechanism, generator)

    def model(self, mechanism: str | None = None, *, update: bool = True, progress: Progress | None = None) -> Model:
        """The latest model of a learner ("ermrings" or "ermg"), the named one or the first; the first call trains the
        first model.

        With ``update=False``, the latest model there is: free, even if a new one is due. ``progress`` is called at each
        step of training, with the part that is done and a text, both public.
        """
        return self._store.patiently(lambda: self._learnt(mechanism, progress, update=update))

    def _learnt(self, mechanism: str | None, progress: Progress | None, *, update: bool) -> Model:
        with self._store.alone():
            self._store.check()
            named = mechanism or next((each.spec.name for each in self._members if not each.mechanism.answers), "ermg")
            learner = chosen(self._members, named)[1].mechanism
            if learner.answers:
                raise ParameterError("mechanism", f"{named!r} learns no model: add one of kind 'ermrings' or 'ermg'")
            with self._store.transaction():
                model: Model = learner.learnt(update=update, progress=progress)
                return model

    def knows(self, key: str) -> bool:
        """Whether an idempotency key was used for a question: its answer is on record, and free."""
        return self._store.knows(key)

    # -- the promise --------------------------------------------------------------------------------------------------

    def add(self, kind: str, share: Number, **options: Any) -> str:
        """Add a mechanism beside the others, with a ``share`` of the promise in (0, 1]; return its name.

        ``kind`` is one of these, with these options:

            "rings", "persons"        beta, pace
            "pmwg"                    alpha, beta, measure_first
            "continual"               beta
            "scheduler", "improver"   box, queries, ways, beta
            "ermg"                    target, features, loss, radius, regularisation, beta
            "ermrings"                the same, and every, validation

        The option ``name`` gives it another name than its kind. Refused if the shares would sum to more than 1; but
        what rings have not used of theirs is given up for it (`status` shows all shares). Its share is set aside for
        ever, though nothing is charged before it is asked.
        """
        with self._store.alone():
            self._store.check()
            origin, members, specs = self._store.origin, self._members, self._store.record.specs
            spare = [member.mechanism.spare / origin.promise.budget.total for member in members]
            shares = lowered(specs, spare, share_of(share, "share"))
            new = checked(origin, spec(kind, share, options_of(options), with_shares(specs, shares)), self.schema)
            with self._store.adding(new, shares):
                for number, each in enumerate(self._store.record.specs):
                    if each.name in shares:
                        members[number] = Member.of(each, self._store)
                members.append(Member.of(new, self._store))
            return new.name

    def refine(
        self,
        *,
        add: Mapping[str, Sequence[str | int | bool]] | None = None,
        edges: Mapping[str, Iterable[float]] | None = None,
        until: Mapping[str, str | date] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Schema:
        """Put the next version of the schema on record, which refines the last, and return it.

        ``add``         values to list, of categories with a cell for values not listed: ``{"ward": ["telehealth"]}``
        ``edges``       more edges of bins and numbers, where GROUP BY cuts
        ``until``       a later last date
        ``bounds``      a wider range of numbers or integers
        ``attributes``  more attributes, of columns that are kept already

        Rows that are there are seen through it, too. Rings go on: what was released stays true and free. Mechanisms
        that count cells keep the version that they were opened with, answer what that tells, and refuse the rest. It
        costs nothing. A version is public: a value that is listed because it was seen in private rows tells that
        somebody has it.
        """
        with self._store.alone():
            self._store.check()
            schema = refined(self.schema, add=add, edges=edges, until=until, bounds=bounds, attributes=attributes)
            following = [each.spec.name for each in self._members if each.mechanism.follows_schema]
            self._store.refine(schema, following)
            return schema

    def discover(
        self,
        column: str,
        share: Number = DEFAULT_SHARE,
        rows: tuple[int, int] | None = None,
        key: str | None = None,
        mechanism: str | None = None,
    ) -> pa.Table:
        """The values of an attribute that are not listed and that enough rows have: ``value``, ``count``, ``margin``.

        ``column`` is one of `categories` with a cell for values not listed. ``rows`` = (a, b) looks at the rows after
        position a, up to b, and these alone pay ``share`` of the promise: by default all rows. A value needs about six
        times the noise in rows to be told, so the smaller the share, the more. ``key`` is an idempotency key.
        `Vault.create` must have been called with ``discoveries``. What is told is public: `refine` may list it.
        """
        return discover(self._store, self._members, Wanted(column, share_of(share, "share"), rows, mechanism), key)

    def discovered(self, column: str, mechanism: str | None = None) -> pa.Table:
        """What `discover` has told of an attribute, and no version of the schema lists yet: free."""
        return discovered(self._store, self._members, column, mechanism)

    def status(self) -> dict[str, Any]:
        """The public state: size, spent, remaining, the mechanisms and their guarantees, the ledger's head."""
        with self._store.alone():
            self._store.check()
            return status(self._store.record, [member.mechanism for member in self._members])

    def ledger(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every line of the ledger whose ``seq`` is above ``after``, oldest first, with ``seq``, ``kind``, ``cost``,
        ``size``, ``hash`` and more."""
        return lines(self._store.reading, after)

    def batches(self, after: int = 0) -> list[Appended]:
        """The batches of rows, oldest first: when each came, and how many rows it had. Only those whose line of the
        ledger has a number above ``after``, which is faster than all."""
        return batches(self._store.reading, after)

    def verify(self, head: str | None = None) -> dict[str, Any]:
        """Check the whole vault: see `VaultReader.verify`."""
        with self._store.alone():
            self._store.check()
            return verified(self._store.reading, self._store.verify(head))

    def backup(self, path: Place) -> None:
        """Copy the vault, as it is now, to the new folder ``path``. The copy is for restoring, not for asking: if both
        answer, the promise is broken."""
        with self._store.alone():
            self._store.check()
            self._store.backup(path)

    # -- internals ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        mechanisms = counted(len(self._members), "mechanism")
        return f"Vault({counted(self.size, 'row')}; {counted(self.schema.cells, 'cell')}; {mechanisms})"

    def _repr_html_(self) -> str:
        """The vault in a notebook: its rows, its budget, its mechanisms."""
        from treering.shown import status_html

        return status_html(self.status(), self.spent, self.total, self.unit)


def _rows_of(frame: Any) -> Any:
    return RowFile(frame) if isinstance(frame, Path) else frame
