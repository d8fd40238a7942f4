"""Questions to a vault: predicates, requests and SQL, each with its price, from any number of threads.

What is charged is durable before an answer leaves. Threads that ask at the same time share commits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from treering.answer import Answer, Bill, Price
from treering.deadline import check
from treering.domain.language.measures import Release, Request
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import Dearer, VaultError
from treering.mechanisms.rings import Rings
from treering.trusted.store import Kept, Sealed, Store, check_key
from treering.vault.members import Member, fitting, keeps_sums, measuring, telling
from treering.vault.record import kept_answers, kept_release, question, recorded_answers, recorded_release, requested
from treering.vault.statements import Outcome, check_kept, kept_outcome, recorded, stated
from treering.vault.together import Access

if TYPE_CHECKING:
    from treering.sql.split import Statement


Result = TypeVar("Result")


class Asking(Sealed):
    """The part of `Vault` that answers."""

    __slots__ = ("_access", "_members", "_store")

    _access: Access
    _members: list[Member]
    _store: Store

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._store.schema

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._store.size

    @property
    def unit(self) -> str:
        """The unit of costs: "epsilon" if the promise has delta = 0, otherwise "rho"."""
        return self._store.origin.promise.budget.unit

    def ask(
        self, query: Question, mechanism: str | None = None, key: str | None = None, within: float | None = None
    ) -> Answer:
        """The share of the rows that match ``query``, with its margin and its error.

        ``mechanism`` is the name of the one that answers; by default, the one whose answer is free and has the smallest
        margin, or else the one that answers new questions best. ``key`` is an idempotency key: asking the same query
        again with the same key returns the recorded answer, and charges nothing. ``within`` is the margin that is
        wanted, in rows or, below 1, as a share of them: no more is paid than it needs.
        """
        check_key(key)
        return self._asked([self._query(query, mechanism)], mechanism, key, within)[0]

    def ask_many(
        self,
        queries: Iterable[Question],
        mechanism: str | None = None,
        key: str | None = None,
        within: float | None = None,
        bill: Bill | None = None,
    ) -> list[Answer]:
        """`ask` for a batch, in one commit, which threads that ask at the same time share. ``bill`` limits what it may
        cost, and learns what it did."""
        check_key(key)
        return self._asked(
            self._queries(queries, mechanism),
            mechanism,
            key,
            within,
            bill,
        )

    def _query(self, question: Question, mechanism: str | None) -> Query:
        """The query of a question. (Where rings answer, numbers may be compared with any other.)"""
        return understand(question, self.schema, finer=keeps_sums(self._members, mechanism))

    def _queries(self, questions: Iterable[Question], mechanism: str | None) -> list[Query]:
        return understand_all(questions, self.schema, finer=keeps_sums(self._members, mechanism))

    def _asked(
        self,
        queries: Sequence[Query],
        mechanism: str | None,
        key: str | None,
        within: float | None,
        bill: Bill | None = None,
    ) -> list[Answer]:
        def price() -> float:
            return 0.0 if self._store.knows(key) else self._most(queries, mechanism, within).most

        work = self._billed(bill, price, lambda: self._answers(queries, mechanism, key, within))
        check()  # Nobody is charged who has gone.
        return self._access.together(work)

    def _billed(
        self, bill: Bill | None, price: Callable[[], float], work: Callable[[], Result]
    ) -> Callable[[], Result]:
        """The ``work`` of a question, done only if its ``price`` is no more than the bill allows, and written on it;
        an error after a charge carries it."""
        written = Bill() if bill is None else bill

        def paid() -> Result:
            if written.most < math.inf and (wanted := price()) > written.most:
                raise Dearer(self.unit, wanted, written.most)
            newest = max(1, self.size)  # It pays for what earlier rows have paid for before.
            before = self._left(newest)
            try:
                result = work()
            except BaseException as error:
                self._write_bill(written, newest, before)
                written.charge(error)
                raise
            self._write_bill(written, newest, before)
            return result

        return paid

    def _write_bill(self, bill: Bill, newest: int, before: float) -> None:
        bill.cost = max(0.0, before - self._left(newest))
        spent = math.fsum(member.mechanism.spent for member in self._members)
        bill.remaining = max(0.0, float(self._store.origin.promise.budget.total) - spent)
        bill.settled = any(member.mechanism.settled for member in self._members)
        bill.unit = self.unit

    def _left(self, position: int) -> float:
        return math.fsum(member.mechanism.left(position) for member in self._members)

    def _answers(
        self, asked: Sequence[Query], mechanism: str | None, key: str | None, within: float | None
    ) -> list[Answer]:
        if (kept := self._kept(key)) is not None:
            return recorded_answers(kept, self._digest(asked, mechanism, kept))
        number, member = fitting(self._members, mechanism, asked, within)
        digest = "" if key is None else question(asked, member.spec.name)
        answers = member.mechanism.answer_within(member.seen(asked), within)
        if key is not None:
            self._store.keep(kept_answers(key, digest, number, answers))
        self._condense(member)
        return answers

    def _kept(self, key: str | None) -> Kept | None:
        """What was answered under a key; None if it is new, or none."""
        return None if key is None or not self._store.knows(key) else self._store.kept(key)

    def _digest(self, asked: Sequence[Query], mechanism: str | None, kept: Kept) -> str:
        """What a key stands for: these queries, of the mechanism named, or of the one that answered then."""
        number = kept.mechanism
        then = self._members[number].spec.name if 0 <= number < len(self._members) else ""
        return question(asked, mechanism or then)

    def release(
        self, request: Request, mechanism: str | None = None, key: str | None = None, within: float | None = None
    ) -> Release:
        """Counts, sums, averages and quantiles of groups, in one commit and for one price: see `Rings.release`.

        ``mechanism`` is the name of one of kind "rings"; by default, the first. ``key`` and ``within`` are as in `ask`.
        """
        check_key(key)
        return self._access.together(lambda: self._released(request, mechanism, key, within))

    def _released(self, request: Request, mechanism: str | None, key: str | None, within: float | None) -> Release:
        number, member, rings = measuring(self._members, mechanism)
        asked = requested(request, member.spec.name)
        if (kept := self._kept(key)) is not None:
            return recorded_release(kept, asked, request)
        release = rings.release(request, within)
        if key is not None:
            self._store.keep(kept_release(key, asked, number, release))
        self._condense(member)
        return release

    def quote(self, request: Request, mechanism: str | None = None, within: float | None = None) -> Price:
        """What `release` would cost those rows that pay most, but for rounding. Free: nothing private is read."""
        with self._store.alone():
            self._store.check()
            _, member, rings = measuring(self._members, mechanism)
            price = float(rings.release_price(request, within))
            return Price(member.spec.name, price, rings.remaining, self.unit, enough=True, exact=True)

    def price(self, query: Question, mechanism: str | None = None, within: float | None = None) -> float:
        """The most that asking ``query`` next could cost a row, in the promise's unit. Free: nothing private is
        read."""
        return self._priced([self._query(query, mechanism)], mechanism, within).most

    def price_many(
        self, queries: Iterable[Question], mechanism: str | None = None, within: float | None = None
    ) -> Price:
        """The most that a batch could cost, and which mechanism would answer it."""
        return self._priced(self._queries(queries, mechanism), mechanism, within)

    def _priced(self, asked: Sequence[Query], mechanism: str | None, within: float | None) -> Price:
        return self._inside(lambda: self._most(asked, mechanism, within))

    def _most(self, asked: Sequence[Query], mechanism: str | None, within: float | None) -> Price:
        member = fitting(self._members, mechanism, asked, within)[1]
        most, enough, exact = member.mechanism.quote(member.seen(asked), within)
        return Price(member.spec.name, float(most), member.mechanism.remaining, self.unit, enough, exact)

    def sql(
        self,
        text: str | Statement,
        within: float | None = None,
        mechanism: str | None = None,
        bill: Bill | None = None,
        key: str | None = None,
    ) -> pa.Table:
        """The result of an SQL statement, as an Arrow table: a column ``…_margin`` follows each number with noise.

        What must be released (groups and their counts, sums, averages, quantiles) is asked as one batch, for one price;
        ORDER BY, LIMIT, HAVING, arithmetic, shares, window functions and SELECTs over SELECTs are worked out from it
        for nothing. ``within`` is as in `ask`, for each released number, and so are ``mechanism`` and ``key``; ``bill``
        is as in `ask_many`. A statement that begins with EXPLAIN releases nothing: its result says what would be, and
        what that costs.
        """
        from treering.sql.engine.current import current

        check_key(key)
        with current().together():  # All stages of the statement.
            return self._sql(self.statement(text, mechanism), within, mechanism, Bill() if bill is None else bill, key)

    def _sql(
        self, statement: Statement, within: float | None, mechanism: str | None, bill: Bill, key: str | None
    ) -> pa.Table:
        from treering.sql.answer import explained
        from treering.sql.rehearsal import rehearse

        if statement.text.explain:
            self._access.together(self._billed(bill, lambda: 0.0, lambda: None))
            return explained(statement, *self._quoted(statement, within, mechanism)[:4])

        def price() -> float:
            return 0.0 if self._store.knows(key) else self._most_of(statement, within, mechanism).most

        def released() -> Outcome:
            return self._outcome(statement, within, mechanism, key)

        wanted = self._inside(price)
        if wanted > bill.most:
            raise Dearer(self.unit, wanted, bill.most)
        new = key is not None and not self._store.knows(key)
        if new:
            check_kept(statement)
        if new or wanted > 0:  # What is sure to fail fails before it is charged, or on record.
            rehearse(statement)
        check()  # Nobody is charged who has gone.
        outcome = self._access.together(self._billed(bill, price, released))
        try:
            return outcome.table(statement)  # Others ask meanwhile.
        except Exception as error:
            bill.charge(error)
            raise

    def price_sql(self, text: str | Statement, within: float | None = None, mechanism: str | None = None) -> Price:
        """The most that `sql` could cost, and which mechanism would answer. Free: nothing private is read."""
        return self._quoted(self.statement(text, mechanism), within, mechanism)

    def statement(self, text: str | Statement, mechanism: str | None = None) -> Statement:
        """An SQL text, read: to be priced and asked without reading it again."""
        from treering.sql.split import Statement, split  # What others do not need waits: it loads another DuckDB.

        if isinstance(text, Statement):
            return text
        return split(text, self.schema, sums=keeps_sums(self._members, mechanism))

    def _inside(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``, which writes nothing, in the vault."""
        with self._store.alone():
            self._store.check()
            return work()

    def _quoted(self, statement: Statement, within: float | None, mechanism: str | None) -> Price:
        return self._inside(lambda: self._most_of(statement, within, mechanism))

    def _most_of(self, statement: Statement, within: float | None, mechanism: str | None) -> Price:
        rings = telling(self._members, mechanism, statement.queries, within)
        if rings is None:
            return self._most(statement.queries or (), mechanism, within)
        price = float(rings[2].quote_items(statement.items, within))
        return Price(rings[1].spec.name, price, rings[2].remaining, self.unit, enough=True, exact=True)

    def _outcome(self, statement: Statement, within: float | None, mechanism: str | None, key: str | None) -> Outcome:
        """What is released for a statement, or was under its key."""
        asked = stated(statement, mechanism)
        if (kept := self._kept(key)) is not None:
            rings = self._members[kept.mechanism].mechanism if kept.mechanism >= 0 else None
            known = recorded(kept, asked)
            return known.outcome(statement, kept.mechanism, rings if isinstance(rings, Rings) else None)
        outcome = self._told(statement, within, mechanism)
        if key is not None:
            self._store.keep(kept_outcome(key, asked, outcome))
        return outcome

    def _told(self, statement: Statement, within: float | None, mechanism: str | None) -> Outcome:
        """What is known of a statement's items, once what is missing is released."""
        from treering.sql.answer import told_by

        rings = telling(self._members, mechanism, statement.queries, within)
        if rings is None:
            answers = self._answers(statement.queries or (), mechanism, None, within)
            return Outcome(told_by(answers), self.size)
        told = rings[2].tell(statement.items, within)
        self._condense(rings[1])
        return Outcome(told, self.size, rings[0], rings[2].drawing(statement.items))

    def _condense(self, member: Member, *, closing: bool = False) -> None:
        """Make a checkpoint, if one is due. Checkpoints only save time: without one, the next opening takes longer."""
        with suppress(VaultError):
            member.condense(closing=closing)
