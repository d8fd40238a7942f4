"""Questions to a vault: predicates, requests and SQL, each with its price, from any number of threads.

What is charged is durable before an answer leaves. Threads that ask at the same time share commits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from treering.answer import Answer, Bill
from treering.deadline import check
from treering.domain.language.items import Item
from treering.domain.language.measures import Release, Request
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.language.wants import ROWS, Wants
from treering.domain.query import Query
from treering.errors import Dearer, TreeringError, VaultError
from treering.mechanisms.persons import Persons
from treering.mechanisms.plan import Outcome, Stale
from treering.mechanisms.rings import Rings
from treering.trusted.store import Kept, Sealed, Store, check_key
from treering.vault.members import Member, chosen
from treering.vault.planning import Planned, keeps_sums, measuring, planned
from treering.vault.record import kept_answers, kept_release, question, recorded_answers, recorded_release, requested
from treering.vault.statements import Released, check_kept, kept_released, recorded, stated
from treering.vault.together import Access

if TYPE_CHECKING:
    from treering.sql.split import Statement


Result = TypeVar("Result")


class Questions(Sealed):
    """The questions to a vault: compiled to items, planned once, carried out under the vault's lock."""

    __slots__ = ("_access", "_members", "_store")

    def __init__(self, store: Store, members: Sequence[Member]) -> None:
        self._store, self._members, self._access = store, members, Access(store)

    # -- compiling ----------------------------------------------------------------------------------------------------

    def query(self, text: Question, mechanism: str | None) -> Query:
        """The query of a question. (Where rings answer, numbers may be compared with any other.)"""
        return understand(text, self._store.schema, finer=keeps_sums(self._members, mechanism))

    def queries(self, texts: Iterable[Question], mechanism: str | None) -> list[Query]:
        """The queries of a batch."""
        return understand_all(texts, self._store.schema, finer=keeps_sums(self._members, mechanism))

    def statement(self, text: str | Statement, mechanism: str | None, per_person: int | None = None) -> Statement:
        """An SQL text, read."""
        from treering.sql.catalogue import TableName
        from treering.sql.sources import People
        from treering.sql.split import Statement, split  # What others do not need waits: it loads another DuckDB.

        if isinstance(text, Statement):
            return text
        origin = self._store.origin
        people = None if origin.person is None else People(origin.person, origin.promise.rows_per_person)
        sums = keeps_sums(self._members, mechanism)
        return split(
            text,
            self._store.schema,
            sums=sums,
            people=people,
            per_person=per_person,
            name=TableName(origin.name, origin.called),
        )

    def wanted(self, wants: Wants) -> Wants:
        """What is counted, of persons that are known; refused if they are not."""
        origin = self._store.origin
        return wants.of(origin.person, origin.promise.rows_per_person)

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, items: Sequence[Item], mechanism: str | None, within: float | None) -> Planned:
        """The plan for some items."""
        lock = self._store.alone()  # Refuses a forked child.
        if self._free:
            with suppress(VaultError):  # In the middle of a commit it waits for the end.
                self._store.check_open()
                return self._planned(items, mechanism, within)
        with lock:
            self._store.check()
            return self._planned(items, mechanism, within)

    def _ahead(self, items: Sequence[Item], mechanism: str | None, within: float | None) -> Planned | None:
        """The plan for some items if it is made before it is their turn: others are served meanwhile. None where that
        takes the vault's lock, and for a refusal: it is made, or made again, when it is their turn."""
        self._store.alone()  # Refuses a forked child.
        with suppress(TreeringError):
            return self._planned(items, mechanism, within) if self._free else None
        return None

    @property
    def _free(self) -> bool:
        """Whether plans are made without the vault's lock: by rings that are the only mechanism."""
        return len(self._members) == 1 and isinstance(self._members[0].mechanism, Rings)

    def _planned(self, items: Sequence[Item], mechanism: str | None, within: float | None) -> Planned:
        return planned(self._members, self._unit, mechanism, items, within)

    @property
    def _unit(self) -> str:
        return self._store.origin.promise.budget.unit

    # -- carrying out -------------------------------------------------------------------------------------------------

    def _carried_out(
        self, made: Planned | None, items: Sequence[Item], mechanism: str | None, within: float | None, most: float
    ) -> tuple[Planned, Outcome]:
        """What is known once a plan is carried out, for at most this price. If there is none, or rows came or others
        asked since it was made, it is made now."""
        if made is not None and self._members[made.number].mechanism is made.member.mechanism:
            with suppress(Stale):
                return self._executed(made, most)
        return self._executed(self._planned(items, mechanism, within), most)

    def _executed(self, made: Planned, most: float) -> tuple[Planned, Outcome]:
        if made.most > most:
            raise Dearer(self._unit, made.most, most, made)
        if made.beside is not None and self._members[made.beside.number].mechanism is not made.beside.member.mechanism:
            raise Stale
        return made, made.execute()

    def _together(self, bill: Bill, work: Callable[[], Result]) -> Result:
        """The result of ``work`` in the vault, durable, with what it cost on the bill; an error after a charge carries
        it."""

        def billed() -> Result:
            newest = max(1, self._store.size)  # It pays for what earlier rows have paid for before.
            before = self.left(newest)
            try:
                result = work()
            except BaseException as error:
                self._write(bill, newest, before)
                bill.charge(error)
                raise
            self._write(bill, newest, before)
            return result

        check()  # Nobody is charged who has gone.
        return self._access.together(billed)

    def _write(self, bill: Bill, newest: int, before: float) -> None:
        bill.cost = max(0.0, before - self.left(newest))
        spent = math.fsum(member.mechanism.spent for member in self._members)
        bill.remaining = max(0.0, float(self._store.origin.promise.budget.total) - spent)
        bill.settled = any(member.mechanism.settled for member in self._members)
        bill.unit = self._unit

    def left(self, position: int) -> float:
        """What all mechanisms together may still charge the row at this position."""
        return math.fsum(member.mechanism.left(position) for member in self._members)

    def condense(self, member: Member, *, closing: bool = False) -> None:
        """Make a checkpoint, if one is due. Checkpoints only save time: without one, the next opening takes longer."""
        with suppress(VaultError):
            member.condense(closing=closing)

    def _kept(self, key: str | None) -> Kept | None:
        """What was answered under a key; None if it is new, or none."""
        return None if key is None or not self._store.knows(key) else self._store.kept(key)

    # -- predicates ---------------------------------------------------------------------------------------------------

    def answers(
        self,
        queries: Sequence[Query],
        mechanism: str | None,
        key: str | None,
        within: float | None,
        bill: Bill,
        made: Planned | None = None,
        wants: Wants = ROWS,
    ) -> list[Answer]:
        """See `Vault.ask_many`."""
        check_key(key)
        items = self.wanted(wants).items(queries)
        if made is not None:
            made.check(items, mechanism, within)
        elif not self._store.knows(key):
            made = self._ahead(items, mechanism, within)

        def released() -> list[Answer]:
            if (kept := self._kept(key)) is not None:
                return recorded_answers(kept, self._digest(queries, mechanism, kept, wants))
            found, outcome = self._carried_out(made, items, mechanism, within, bill.most)
            answers = outcome.answers()
            if key is not None:
                digest = question(queries, found.member.spec.name, wants)
                self._store.keep(kept_answers(key, digest, found.number, answers))
            self.condense(found.member)
            return answers

        return self._together(bill, released)

    def estimates(self, queries: Sequence[Query], mechanism: str | None) -> list[Answer]:
        """See `Vault.ask`: nothing is released, nothing is charged."""
        able = [member for member in self._members if isinstance(member.mechanism, Rings)] or self._members
        member = chosen(able if mechanism is None else self._members, mechanism)[1]
        with self._unlocked(member):
            return member.mechanism.estimates(member.seen_queries(queries))

    def sample(self, rows: int, mechanism: str | None, generator: Any) -> pa.Table:
        """See `Vault.synthesize`."""
        member = chosen(self._members, mechanism)[1]
        with self._unlocked(member):
            return member.mechanism.sample(rows, generator)

    @contextmanager
    def _unlocked(self, member: Member) -> Iterator[None]:
        """What is read off a mechanism's public state within the block: of rings without the vault's lock."""
        with self._store.alone():
            self._store.check()
            if not member.mechanism.follows_schema:
                yield
                return
        yield

    def _digest(self, queries: Sequence[Query], mechanism: str | None, kept: Kept, wants: Wants) -> str:
        """What a key stands for: these queries, of the mechanism named, or of the one that answered then."""
        number = kept.mechanism
        then = self._members[number].spec.name if 0 <= number < len(self._members) else ""
        return question(queries, mechanism or then, wants)

    # -- requests -----------------------------------------------------------------------------------------------------

    def request(self, request: Request, mechanism: str | None, within: float | None) -> Planned:
        """The plan for a request."""
        _, member, rings = measuring(self._members, mechanism)
        return self.plan(rings.items_of(request), member.spec.name, within)

    def release(self, request: Request, mechanism: str | None, key: str | None, within: float | None) -> Release:
        """See `Vault.release`."""
        check_key(key)
        _, member, rings = measuring(self._members, mechanism)
        name = member.spec.name
        asked, items = requested(request, name), rings.items_of(request)
        made = None if self._store.knows(key) else self._ahead(items, name, within)

        def released() -> Release:
            if (kept := self._kept(key)) is not None:
                return recorded_release(kept, asked, request)
            found, outcome = self._carried_out(made, items, name, within, math.inf)
            release = Release(request, outcome.size, request.told(outcome.estimates()))
            if key is not None:
                self._store.keep(kept_release(key, asked, found.number, release))
            self.condense(found.member)
            return release

        return self._together(Bill(), released)

    # -- SQL ----------------------------------------------------------------------------------------------------------

    def sql(
        self,
        statement: Statement,
        within: float | None,
        mechanism: str | None,
        bill: Bill,
        key: str | None,
        made: Planned | None = None,
    ) -> pa.Table:
        """See `Vault.sql`."""
        from treering.sql.answer import explained, looked_up
        from treering.sql.finishing.rehearsal import rehearse

        check_key(key)
        if statement.text.public is not None and not statement.text.explain:
            self._together(bill, lambda: None)
            return looked_up(statement)
        if made is not None:
            made.check(statement.items, mechanism, within)
        new = key is not None and not self._store.knows(key)
        recalled = key is not None and not new
        plan = made if made is not None or recalled else self.plan(statement.items, mechanism, within)
        if statement.text.explain:
            plan = plan or self.plan(statement.items, mechanism, within)
            self._together(bill, lambda: None)
            return explained(statement, *plan.price[:4], self._widths(statement))
        if plan is not None and plan.most > bill.most:
            raise Dearer(self._unit, plan.most, bill.most, plan)
        if new:
            check_kept(statement)
        if new or (
            plan is not None and plan.most > 0
        ):  # What is sure to fail fails before it is charged, or on record.
            rehearse(statement)
        found = self._together(bill, lambda: self._released(statement, plan, mechanism, within, key, bill.most))
        try:
            return found.table(statement)  # Others ask meanwhile.
        except Exception as error:
            bill.charge(error)
            raise

    def _widths(self, statement: Statement) -> dict[int, float] | None:
        """The margins of counts with so many rows of each person, where persons are counted."""
        found = [member.mechanism for member in self._members if isinstance(member.mechanism, Persons)]
        groups = max((len(core.rows) for core in statement.cores), default=1)
        return found[0].widths(max(1, groups)) if found else None

    def released_together(
        self, statements: Sequence[Statement], within: float | None, mechanism: str | None, bill: Bill, made: Planned
    ) -> list[Released]:
        """What is released for several statements: of one size of the vault, in one commit, for the price of ``made``,
        the plan for all of their items."""
        from treering.sql.finishing.rehearsal import rehearse

        if made.most > bill.most:
            raise Dearer(self._unit, made.most, bill.most, made)
        for statement in statements:
            rehearse(statement)

        def released() -> list[Released]:
            self._carried_out(made, made.items, mechanism, within, bill.most)
            return [self._released(each, None, mechanism, within, None, bill.most) for each in statements]

        return self._together(bill, released)

    def _released(
        self,
        statement: Statement,
        plan: Planned | None,
        mechanism: str | None,
        within: float | None,
        key: str | None,
        most: float,
    ) -> Released:
        """What is released for a statement, or was under its key."""
        asked = stated(statement, mechanism)
        if (kept := self._kept(key)) is not None:
            return recorded(kept, asked).released(
                statement, kept.mechanism, [member.mechanism for member in self._members]
            )
        made, outcome = self._carried_out(plan, statement.items, mechanism, within, most)
        drawing = outcome.drawing()
        number = -1 if drawing is None else made.number
        beside = -1 if drawing is None or made.beside is None else made.beside.number
        found = Released(outcome.estimates(), outcome.size, number, drawing, beside)
        if key is not None:
            self._store.keep(kept_released(key, asked, found))
        self.condense(made.member)
        if made.beside is not None:
            self.condense(made.beside.member)
        return found
