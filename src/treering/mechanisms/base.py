"""What every mechanism is: a public program over one gate, under one promise; and all that a vault knows of it."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from treering.answer import Answer, Guarantee
from treering.budget.promise import Promise
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.errors import GuaranteeError, QueryError, TreeringError
from treering.gate import Database
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.params import Number, probability

NO_ROWS: Final = "a continual histogram and a model draw no rows: add a pmwg or a scheduler"


class Mechanism(ABC):
    """A mechanism over a database: it opens the gate, and sees what the gate releases and nothing else.

    Its public state is a fold over the gate's history: made over a journal that is not empty, it goes on where the
    journal ends.
    """

    notes: ClassVar[tuple[type[Any], ...]] = ()
    """Every class of what it notes, and of what its notes are made of: a durable journal reads these back, and no
    others. They are written under their names, so a class on this list is never renamed."""

    answers: ClassVar[bool] = True
    """Whether it answers queries. (A learner releases models instead.)"""

    def __init__(self, db: Database, promise: Promise) -> None:
        """Open the gate of ``db`` under ``promise``."""
        self._promise = promise
        self._gate = db.open_gate(promise.budget)

    # -- the promise --------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """What has been charged: of epsilon for delta = 0, otherwise of rho."""
        return float(self._gate.spent)

    @property
    def remaining(self) -> float:
        """What may still be charged, in the same unit."""
        return float(self._gate.budget.total - self._gate.spent)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised at the present size, and for how long."""

    @property
    @abstractmethod
    def halted(self) -> bool:
        """Whether the last answer has been given."""

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def state(self) -> Any:
        """The public state, or a fingerprint of it: equal after replay."""

    def describe(self) -> dict[str, Any]:
        """The public state as plain values. What a mechanism of this kind does not have is None or empty."""
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
        """How many cells replaying all since `condense` would move; None if there is nothing to condense, ever."""
        return None

    def condense(self) -> None:
        """Let one note stand for the whole record so far, so that it replays fast. Public, free, changes no answer."""
        assert self.backlog is None  # A mechanism that has one says how it is condensed.

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """Synthetic rows out of what was released: free.

        ``rows`` is how many, ``generator`` draws them (where there is a choice). `QueryError` if this mechanism has
        released nothing that rows could be drawn from.
        """
        raise QueryError(NO_ROWS)

    def learnt(self, *, update: bool) -> Any:
        """The latest model of a learner; with ``update``, a new one if that is due."""
        raise QueryError("this mechanism answers queries, and learns no model")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _rows(self, needing: str = "an accuracy guarantee needs at least one row") -> int:
        """The size of the database, which must not be empty."""
        size = self._gate.size
        if size == 0:
            raise GuaranteeError(f"the database is empty: {needing}")
        return size

    def _rows_to_share(self) -> int:
        return self._rows("a share of its rows needs at least one")

    def _described_guarantee(self) -> dict[str, Any]:
        try:
            found = dataclasses.asdict(self.guarantee)
        except TreeringError as error:
            return {"statement": f"none yet: {error}", "alpha": None}
        return {name: None if value == math.inf else value for name, value in found.items()}


class Answering(Mechanism):
    """A mechanism that answers any query about its database with a share of the rows and an error."""

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match, with its error."""
        return self.answer([understand(query, self._gate.schema)])[0]

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch, in order."""
        return self.answer(understand_all(queries, self._gate.schema))

    @abstractmethod
    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """`ask_many` for queries that are known to be about this schema: they are not looked at once more."""

    @abstractmethod
    def price(self, query: Question) -> Fraction:
        """The most that asking this next could cost, in the budget's unit. Free, and nothing private is touched."""

    def price_many(self, queries: Iterable[Question]) -> Fraction:
        """The same for a batch: by default what its first query costs, for that one pays for all."""
        return max((self.price(query) for query in list(queries)[:1]), default=Fraction(0))


# -- PMW and PMWG ------------------------------------------------------------------------------------------------------


class EngineState(Protocol):
    """What every engine's state has."""

    @property
    def hard(self) -> int:
        """Queries found hard so far."""


class Outlook(NamedTuple):
    """What an engine promises from now on."""

    statement: str
    forever: bool
    hard_left: int
    hard_possible: float


class Engine(Protocol):
    """One way to run multiplicative weights over a gate."""

    hypothesis: Hypothesis

    @property
    def state(self) -> EngineState:
        """The public state, but for the histogram."""

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""

    @property
    def potential(self) -> float | None:
        """Φ, a public bound on the relative entropy between database and histogram; None if it books none."""

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`."""

    def ask_many(self, queries: Sequence[Query], answers: list[Answer]) -> None:
        """Append an answer for each query, in order. On an error, what was released before it is in the list."""

    def price(self, query: Query) -> Fraction:
        """The most that asking this next could cost."""

    def outlook(self) -> Outlook:
        """What is promised at the present size, and for how long."""

    def condense(self) -> None:
        """See `Mechanism.condense`."""


class Adaptive(Answering):
    """The public face of an engine: adaptive questions in, answers with errors out."""

    _engine: Engine

    def __init__(self, db: Database, epsilon: Number | Promise, delta: Number, alpha: Number, beta: Number) -> None:
        promise = Promise.of(epsilon, delta)
        self._alpha = float(probability(alpha, "alpha"))
        self._beta = float(probability(beta, "beta"))
        super().__init__(db, promise)

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch, in order: the answers have the same distribution as one by one, and come faster.

        If an error ends it, what was released before is in the error's ``answers``.
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
            self._engine.ask_many(queries, answers)
        except TreeringError as error:
            error.answers = tuple(answers)
            if len(queries) > 1:
                error.add_note(
                    f"{len(answers)} of the {len(queries)} queries were answered before this; see error.answers"
                )
            raise
        return answers

    def price(self, query: Question) -> Fraction:
        """The most that asking this next could cost, in the budget's unit. Free, and nothing private is touched."""
        asked = understand(query, self._gate.schema)
        self._check_alive()
        self._rows()
        return self._engine.price(asked)

    def price_many(self, queries: Iterable[Question]) -> Fraction:
        """The same for a batch: several queries may cost all that is left."""
        asked = list(queries)
        return super().price_many(asked) if len(asked) < 2 else self._gate.budget.total - self._gate.spent

    @abstractmethod
    def _check_alive(self) -> None:
        """Refuse, before anything is touched, what this mechanism can no longer answer."""

    @property
    def hypothesis(self) -> Hypothesis:
        """The public histogram: ``.marginal(attributes)``, ``.sample(rows)`` and any question asked of it are free."""
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
        """Φ, a public bound on the relative entropy between database and histogram (the paper's profile books none)."""
        return self._engine.potential

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`."""
        return {**super().describe(), "hard_queries": self.hard_queries, "potential": self.potential}

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`."""
        return self._engine.backlog

    def condense(self) -> None:
        """Let one note stand for the whole record so far, so that it replays fast. Public, free, changes no answer."""
        self._engine.condense()

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """Rows like those of the histogram; without a generator, the same ones each time."""
        return self.hypothesis.sample(rows, generator)
