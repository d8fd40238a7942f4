"""Base classes of mechanisms: public programs over one gate, under one privacy promise.

`Mechanism` is the interface through which a vault uses any mechanism. `Answering` adds questions, by plans; `Counting`
is for those that answer counts alone.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from treering.answer import Answer, Guarantee
from treering.budget.promise import Promise
from treering.domain.language.items import Item, counts
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError, TreeringError
from treering.mechanisms.plan import Counted, Outcome, Plan, Stale, wished
from treering.mechanisms.series.changes import Changing
from treering.params import A_SHARE, nonempty
from treering.protocols import Database
from treering.words import counted, rows

NO_ROWS: Final = "rings, a continual histogram and a model draw no rows: a mechanism of kind pmwg or scheduler does"


class Mechanism(ABC):
    """A mechanism over a database: it opens the gate, and sees what the gate releases and nothing else.

    Its public state is a fold over the gate's history: a mechanism made over a journal that is not empty resumes where
    the journal ends.
    """

    notes: ClassVar[tuple[type[Any], ...]] = ()
    """The classes of all notes that this mechanism writes, and of the objects inside them. A durable journal reads back
    these classes and no others. It stores them by name, so a class on this list is never renamed."""

    follows_schema: ClassVar[bool] = False
    """Whether this mechanism sees the rows through the newest version of the schema. (What counts cells keeps the one
    that it was opened with.)"""

    answers: ClassVar[bool] = True
    """Whether this mechanism answers queries. (A learner releases models instead.)"""

    def __init__(self, db: Database, promise: Promise) -> None:
        """Open the gate of ``db`` with the budget of ``promise``."""
        self._promise = promise
        self._gate = db.open_gate(promise.budget)
        self._torn = False

    @property
    def schema(self) -> Schema:
        """The universe that this mechanism was opened with."""
        return self._gate.schema

    # -- the promise --------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """The most that any row has been charged so far: in epsilon if delta = 0, otherwise in rho (zCDP)."""
        return float(self._gate.spent)

    def left(self, position: int) -> float:
        """What the row at this position, from 1 on in the order of arrival, may still be charged, in the unit of
        `spent`. For a row that is still to come: what it will bring with it."""
        return float(self._gate.left(position))

    @property
    def remaining(self) -> float:
        """What may still be charged, in the unit of `spent`."""
        return float(self._gate.budget.total - self._gate.spent)

    @property
    def spare(self) -> Fraction:
        """The part of the budget that this mechanism can do without from now on: none, where its errors depend on the
        whole."""
        return Fraction(0)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised at the present size, and for how long."""

    @property
    @abstractmethod
    def halted(self) -> bool:
        """Whether this mechanism has given its last answer."""

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def state(self) -> Any:
        """The public state, or a fingerprint of it: equal after replay."""

    def describe(self) -> dict[str, Any]:
        """The public state as plain values; entries that do not apply to this kind of mechanism are None or empty."""
        return {
            "spent": self.spent,
            "remaining": self.remaining,
            "hard_queries": None,
            "potential": None,
            "guarantee": self._described_guarantee(),
            "epochs": [],
            "next_epoch": None,
        }

    @property
    def backlog(self) -> int | None:
        """The work of replaying what came after the last `condense`, in cells updated; None if that does nothing."""
        return None

    def condense(self) -> None:
        """Write one note that stands for the whole journal so far, so that replay is fast. Free; no answer changes."""
        assert self.backlog is None  # A mechanism with a backlog overrides this.

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """Synthetic rows, drawn from what was released: free.

        - ``rows``: how many rows to draw
        - ``generator``: the public randomness; a mechanism may have a deterministic sample without one

        `QueryError` if this mechanism has released nothing that rows could be drawn from.
        """
        raise QueryError(NO_ROWS)

    def learnt(self, *, update: bool, progress: Callable[[float, str], None] | None = None) -> Any:
        """The latest model of a learner; with ``update``, a new one is trained first if one is due."""
        raise QueryError("this mechanism answers queries, and learns no model")

    @property
    def changing(self) -> Changing | None:
        """What rows that are erased or corrected do to its answers; None if it can only tell of rows that stay."""
        return None

    # -- inside -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _taking_up(self) -> Iterator[None]:
        """In the block, something is released and taken up. Where that does not come to its end (an interrupt, no
        memory), the state may be behind the record, or torn: before the next block it is made again from the record."""
        if self._torn:
            self._gate.mend()
            self._resume()
            self._torn = False
        try:
            yield
        except TreeringError:
            raise
        except BaseException:
            self._torn = True
            raise

    def _resume(self) -> None:
        """Make the public state from the gate's history."""
        assert not self._torn  # A mechanism that uses `_taking_up` overrides this.

    def _rows(self, needing: str = "an accuracy guarantee needs at least one row") -> int:
        """The size of the database, which must not be empty."""
        return nonempty(self._gate.rows_between(0, self._gate.size), needing)

    def _rows_to_share(self) -> int:
        return self._rows(A_SHARE)

    def _described_guarantee(self) -> dict[str, Any]:
        try:
            found = dataclasses.asdict(self.guarantee)
        except TreeringError as error:
            return {"statement": f"none yet: {error}", "alpha": None}
        return {name: None if value == math.inf else value for name, value in found.items()}


class Answering(Mechanism):
    """A mechanism that answers questions about its database: it plans the items of one, and carries the plan out."""

    @abstractmethod
    def plan(self, items: Sequence[Item], within: float | None = None) -> Plan:
        """How these items would be answered: free, computed from public values.

        ``within`` is the margin that is wanted, in rows or, below 1, as a share of them. What the budget does not
        cover, or cannot be answered, is refused here as it would be if it were asked.
        """

    @abstractmethod
    def execute(self, plan: Plan) -> Outcome:
        """Release what a plan needs; what it told is then known. `Stale`, and nothing is charged, if the state that the
        plan was made for has moved."""

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match ``query`` (a `Query` or its text), with its error."""
        return self._answered([understand(query, self._gate.schema, finer=self.follows_schema)])[0]

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch, in order."""
        return self._answered(understand_all(queries, self._gate.schema, finer=self.follows_schema))

    def estimates(self, queries: Sequence[Query]) -> list[Answer]:
        """A guess for each query, fitted to what was released: free, and without a bound (``error`` is 1).

        `QueryError` if this mechanism fits nothing.
        """
        raise QueryError("this mechanism fits no distribution to what it has released: ask it, or one of kind 'rings'")

    def price(self, query: Question, within: float | None = None) -> Fraction:
        """The most that asking ``query`` next could cost, in the budget's unit: free, computed from public values.

        A question that the budget does not cover is refused here as it would be if it were asked.
        """
        return self.plan([Item("count", understand(query, self._gate.schema, finer=self.follows_schema))], within).price

    @property
    def settled(self) -> bool:
        """Whether every question to come is free, for ever."""
        return False

    def _answered(self, queries: Sequence[Query]) -> list[Answer]:
        """The answers to queries, one by one or in a batch."""
        return self.execute(self.plan(counts(queries))).answers()


class Counting(Answering):
    """A mechanism that answers counts, each with a share of the rows and an error.

    It says what it knows, what a batch costs and what it promises; `plan` and `execute` follow.
    """

    _executed = 0
    """How many batches were answered: each may have moved what is public."""

    @abstractmethod
    def _answer(self, queries: Sequence[Query]) -> list[Answer]:
        """The answers to a batch of at least one query about the schema of the gate."""

    @abstractmethod
    def _price(self, queries: Sequence[Query]) -> Fraction:
        """The most that a batch of at least one query could cost. It may be above what is left: then the batch may be
        refused after some answers."""

    def _known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """The answers to a batch if they follow from what was released already, as `_answer` would give them; None if
        something might have to be released. Nothing private is read, and nothing is recorded."""
        return None

    def _prospect(self, queries: Sequence[Query]) -> float:
        """A bound on the margins of the answers to these queries, as a share of the rows, before they are asked: what
        is promised for every answer; infinite if nothing is."""
        try:
            return self.guarantee.alpha
        except TreeringError:
            return math.inf

    def plan(self, items: Sequence[Item], within: float | None = None) -> Plan:
        """See `Answering.plan`."""
        if any(item.kind != "count" for item in items):
            raise ParameterError(
                "mechanism", "must be of kind 'rings', which keeps sums; this one answers counts alone"
            )
        if self._torn:
            with self._taking_up():
                pass
        queries, size, revision = [item.query for item in items], self._gate.size, self._revision
        if not queries:
            return Plan((), within, Fraction(0), Counted(size, ()), revision)
        price, answers = self._price(queries), self._known(queries)
        self._check_wish(queries, within, answers)
        known = None if answers is None else Counted(size, answers)
        left = self._gate.budget.total - self._gate.spent
        return Plan(items, within, price, known, revision, left, self._exact(price))

    def execute(self, plan: Plan) -> Outcome:
        """See `Answering.execute`."""
        if plan.revision != self._revision:
            raise Stale
        return plan.known or Counted(self._gate.size, self._answered([item.query for item in plan.items]))

    def _answered(self, queries: Sequence[Query]) -> list[Answer]:
        """See `Answering._answered`. (It needs no plan.)"""
        self._executed += 1
        return self._answer(queries) if queries else []

    @property
    def _revision(self) -> object:
        return self._gate.size, self._gate.spent, self._executed

    def _exact(self, price: Fraction) -> bool:
        """Whether just this price is charged."""
        return True

    def _check_wish(self, queries: Sequence[Query], within: float | None, known: list[Answer] | None) -> None:
        """Refuse a wish that neither what is promised nor what is ``known`` meets."""
        if within is None:
            return
        size = self._rows_to_share()
        wanted, promised = wished(within, size), self._prospect(queries) * size
        if promised > wanted and (known is None or any(each.margin * each.size > wanted for each in known)):
            able = "nor any other" if promised >= size else f"but one of {counted(math.ceil(promised), 'row')}"
            raise ParameterError(
                "within",
                f"asks for a margin of {rows(wanted)}, which cannot be promised here, {able}: leave it out, or ask a "
                "mechanism of kind 'rings', which pays for what is wished",
            )
