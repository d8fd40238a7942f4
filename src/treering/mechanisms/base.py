"""Base classes of mechanisms: public programs over one gate, under one privacy promise.

`Mechanism` is the interface through which a vault uses any mechanism. `Answering` adds queries. `Adaptive` is the
common part of `PMW` and `PMWG`, over an `Engine`: one way to run multiplicative weights.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from treering.answer import Answer, Guarantee
from treering.budget.promise import Promise
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError, TreeringError
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.params import A_SHARE, Number, nonempty, probability
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
        return nonempty(self._gate.size, needing)

    def _rows_to_share(self) -> int:
        return self._rows(A_SHARE)

    def _described_guarantee(self) -> dict[str, Any]:
        try:
            found = dataclasses.asdict(self.guarantee)
        except TreeringError as error:
            return {"statement": f"none yet: {error}", "alpha": None}
        return {name: None if value == math.inf else value for name, value in found.items()}


class Quote(NamedTuple):
    """What a batch of queries costs: public, and known before it is asked."""

    most: Fraction
    """The most that it could cost a row, in the budget's unit. No more is charged, whatever the answers."""
    enough: bool
    """Whether what is left is sure to pay for the whole batch. If not, it may be refused after some answers."""
    exact: bool
    """Whether just this much is charged, but for rounding; otherwise this or less."""


class Answering(Mechanism):
    """A mechanism that answers any query about its database with a share of the rows and an error."""

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match ``query`` (a `Query` or its text), with its error."""
        return self.answer([understand(query, self._gate.schema)])[0]

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch, in order."""
        return self.answer(understand_all(queries, self._gate.schema))

    @abstractmethod
    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """`ask_many` for queries that were parsed and checked against the schema already."""

    def known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """The answers to a batch if they follow from what was released already, as `answer` would give them; None if
        something might have to be released. Nothing private is read, and nothing is recorded."""
        return None

    def known_within(self, queries: Sequence[Query], within: float | None) -> list[Answer] | None:
        """`known`, if all answers are within the margin that is wanted."""
        known = self.known(queries)
        if known is None or within is None:
            return known
        wanted = wished(within, self._rows_to_share())
        return known if all(answer.margin * answer.size <= wanted for answer in known) else None

    def prospect(self, queries: Sequence[Query]) -> float:
        """A bound on the margins of the answers to these queries, as a share of the rows, before they are asked: what
        is promised for every answer; infinite if nothing is."""
        try:
            return self.guarantee.alpha
        except TreeringError:
            return math.inf

    def answer_within(self, queries: Sequence[Query], within: float | None) -> list[Answer]:
        """`answer`, with a margin that is wanted. `Rings` pays for it; others can meet it or not."""
        self._check_wish(queries, within)
        return self.answer(queries)

    def price_within(self, queries: Sequence[Query], within: float | None) -> Fraction:
        """`price_many`, with a margin that is wanted."""
        self._check_wish(queries, within)
        return self.price_many(queries)

    def _check_wish(self, queries: Sequence[Query], within: float | None) -> None:
        """Refuse a wish that what is promised does not meet."""
        if within is None or not queries:
            return
        size = self._rows_to_share()
        wanted, promised = wished(within, size), self.prospect(queries) * size
        if promised > wanted and self.known_within(queries, within) is None:
            able = "nor any other" if promised >= size else f"but one of {counted(math.ceil(promised), 'row')}"
            raise ParameterError(
                "within",
                f"asks for a margin of {rows(wanted)}, which cannot be promised here, {able}: leave it out, or ask a "
                "mechanism of kind 'rings', which pays for what is wished",
            )

    @abstractmethod
    def price(self, query: Question) -> Fraction:
        """The most that asking ``query`` next could cost, in the budget's unit: free, computed from public values.

        A question that the budget does not cover is refused here as it would be if it were asked.
        """

    def price_many(self, queries: Iterable[Question]) -> Fraction:
        """`price` for a batch. By default the price of its first query, which pays for the whole batch."""
        return max((self.price(query) for query in list(queries)[:1]), default=Fraction(0))

    @property
    def settled(self) -> bool:
        """Whether every question to come is free, for ever."""
        return False

    def quote(self, queries: Sequence[Query], within: float | None = None) -> Quote:
        """What asking a batch next costs: free, computed from public values."""
        price, left = self.price_within(queries, within), self._gate.budget.total - self._gate.spent
        return Quote(min(price, left), price <= left, exact=True)


def wished(within: float, size: int) -> float:
    """The margin that is wanted, in rows."""
    if isinstance(within, bool) or not isinstance(within, int | float) or not within > 0 or math.isinf(within):
        raise ParameterError("within", f"must be a positive number: rows, or a share of them below 1; not {within!r}")
    rows = float(within) if within >= 1 else float(within) * size
    if rows > size:
        raise ParameterError("within", f"must be at most {size:,}, the number of rows, not {within:,}")
    return rows


# -- engines: multiplicative weights over a gate (PMW and PMWG) --------------------------------------------------------


class EngineState(Protocol):
    """The part of the public state that all engines share."""

    @property
    def hard(self) -> int:
        """Queries found hard so far: those for which the histogram's answer was too far off."""


class Outlook(NamedTuple):
    """What an engine promises from now on: the last five fields of a `PMWGGuarantee`, explained there."""

    statement: str
    forever: bool
    hard_left: int
    hard_possible: float
    queries_left: float


class Engine(Protocol):
    """One way to run multiplicative weights over a gate."""

    hypothesis: Hypothesis

    @property
    def state(self) -> EngineState:
        """The public state without the histogram."""

    @property
    def over(self) -> bool:
        """Whether this engine gives no answers any more."""

    @property
    def potential(self) -> float | None:
        """Φ, a public bound on the relative entropy between database and histogram; None for the paper's profile."""

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`."""

    def ask_many(self, queries: Sequence[Query], answers: list[Answer]) -> None:
        """Append an answer to ``answers`` for each query, in order. Those released before an error stay in the list."""

    def price(self, query: Query) -> Fraction:
        """The most that asking this query next could cost, in the budget's unit."""

    def price_many(self, queries: Sequence[Query]) -> Fraction:
        """The most that asking these queries next could cost, in the budget's unit."""

    def recall(self, query: Query) -> Answer | None:
        """The answer to this query at the present size, if it is known already."""

    def outlook(self) -> Outlook:
        """What is promised at the present size, and for how long."""

    def condense(self) -> None:
        """See `Mechanism.condense`."""


class Adaptive(Answering):
    """What `PMW` and `PMWG` have in common: adaptive queries answered by an `Engine`."""

    _engine: Engine

    def __init__(self, db: Database, epsilon: Number | Promise, delta: Number, alpha: Number, beta: Number) -> None:
        promise = Promise.of(epsilon, delta)
        self._alpha = float(probability(alpha, "alpha"))
        self._beta = float(probability(beta, "beta"))
        super().__init__(db, promise)

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch, in order: faster than one by one, with answers of the same distribution.

        If an error ends the batch, the answers released before it are in the error's ``answers``.
        """
        return super().ask_many(queries)

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """See `Answering.answer`."""
        if not queries:
            return []
        self._check_alive()
        self._rows_to_share()
        answers: list[Answer] = []
        try:
            with self._taking_up():
                self._engine.ask_many(queries, answers)
        except TreeringError as error:
            error.answers = tuple(answers)
            if answers:
                was = "was" if len(answers) == 1 else "were"
                error.add_note(f"{len(answers):,} of the {len(queries):,} queries {was} answered before this.")
            raise
        return answers

    @abstractmethod
    def _new_engine(self) -> Engine:
        """An engine over the gate, with the state that the gate's history gives."""

    def _resume(self) -> None:
        """See `Mechanism._resume`."""
        self._engine = self._new_engine()

    def price(self, query: Question) -> Fraction:
        """The most that asking ``query`` next could cost, in the budget's unit: free, computed from public values."""
        asked = understand(query, self._gate.schema)
        self._check_alive()
        self._rows()
        return self._engine.price(asked)

    def price_many(self, queries: Iterable[Question]) -> Fraction:
        """`price` for a batch. It may be above what is left: then the batch may be refused after some answers."""
        asked = understand_all(queries, self._gate.schema)
        self._check_alive()
        self._rows()
        return self._engine.price_many(asked)

    def quote(self, queries: Sequence[Query], within: float | None = None) -> Quote:
        """See `Answering.quote`. What a batch costs depends on its answers."""
        found = super().quote(queries, within)
        return found._replace(exact=found.most == 0)

    def known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """See `Answering.known`."""
        self._check_alive()
        self._rows_to_share()
        answers = [answer for query in queries if (answer := self._engine.recall(query)) is not None]
        return answers if len(answers) == len(queries) else None

    @abstractmethod
    def _check_alive(self) -> None:
        """Raise, before anything is charged, if this mechanism can give no more answers."""

    @property
    def hypothesis(self) -> Hypothesis:
        """The public histogram. Its ``.marginal(attributes)``, ``.sample(rows)`` and ``.answer(query)`` are free."""
        return self._engine.hypothesis

    @property
    def state(self) -> tuple[Any, str]:
        """The public state, and a fingerprint of the histogram."""
        return copy(self._engine.state), self._engine.hypothesis.fingerprint()

    @property
    def hard_queries(self) -> int:
        """How many queries were found hard so far."""
        return self._engine.state.hard

    @property
    def potential(self) -> float | None:
        """Φ, a public bound on the relative entropy between database and histogram; None for the paper's profile."""
        return self._engine.potential

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`."""
        return {**super().describe(), "hard_queries": self.hard_queries, "potential": self.potential}

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`."""
        return self._engine.backlog

    def condense(self) -> None:
        """See `Mechanism.condense`."""
        self._engine.condense()

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """``rows`` synthetic rows, drawn from the histogram; without a ``generator``, the same ones each time."""
        return self.hypothesis.sample(rows, generator)
