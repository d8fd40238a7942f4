"""What PMW and PMWG share: adaptive questions in, answers with errors out, and the public state in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from typing import Any, Protocol

from treering.answer import Answer, Guarantee
from treering.budget.promise import Promise
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.errors import GuaranteeError, TreeringError
from treering.gate import Database
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.params import Number, probability


class EngineState(Protocol):
    """What every engine's state has."""

    @property
    def hard(self) -> int:
        """Queries found hard so far."""


class Engine(Protocol):
    """One way to run multiplicative weights over a gate."""

    hypothesis: Hypothesis

    @property
    def state(self) -> EngineState:
        """The public state, but for the histogram."""

    def ask_many(self, queries: list[Query], answers: list[Answer]) -> None:
        """Append an answer for each query, in order. On an error, what was released before it is in the list."""


class Adaptive(ABC):
    """The public face of an engine."""

    _engine: Engine

    def __init__(self, db: Database, epsilon: Number | Promise, delta: Number, alpha: Number, beta: Number) -> None:
        self._promise = Promise.of(epsilon, delta)
        self._alpha = float(probability(alpha, "alpha"))
        self._beta = float(probability(beta, "beta"))
        self._gate = db.open_gate(self._promise.budget)

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match, with its error."""
        return self.ask_many([understand(query, self._gate.schema)])[0]

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch, in order: the answers have the same distribution as one by one, and come faster.

        If an error ends it, what was released before is in the error's ``answers``.
        """
        asked = understand_all(queries, self._gate.schema)
        if not asked:
            return []
        self._check_alive()
        if self._gate.size == 0:
            raise GuaranteeError("the database is empty: a share of its rows needs at least one")
        answers: list[Answer] = []
        try:
            self._engine.ask_many(asked, answers)
        except TreeringError as error:
            error.answers = tuple(answers)
            if len(asked) > 1:
                error.add_note(
                    f"{len(answers)} of the {len(asked)} queries were answered before this; see error.answers"
                )
            raise
        return answers

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
    def spent(self) -> float:
        """What has been charged: of epsilon for delta = 0, otherwise of rho."""
        return float(self._gate.spent)

    @property
    def remaining(self) -> float:
        """What may still be charged, in the same unit."""
        return float(self._gate.budget.total - self._gate.spent)

    @property
    def hard_queries(self) -> int:
        """How many queries were found hard so far."""
        return self._engine.state.hard

    @property
    @abstractmethod
    def halted(self) -> bool:
        """Whether the last answer has been given."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised at the present size, and for how long."""

    def _size(self) -> int:
        if self._gate.size == 0:
            raise GuaranteeError("the database is empty: an accuracy guarantee needs at least one row")
        return self._gate.size
