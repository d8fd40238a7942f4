"""Adaptive queries answered by multiplicative weights: the common part of `PMW` and `PMWG`, over an `Engine`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from treering.answer import Answer
from treering.budget.promise import Promise
from treering.domain.language.parse import Question
from treering.domain.query import Query
from treering.errors import TreeringError
from treering.mechanisms.base import Counting
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.params import Number, probability
from treering.protocols import Database


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


class Adaptive(Counting):
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

    def _answer(self, queries: Sequence[Query]) -> list[Answer]:
        """See `Counting._answer`."""
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

    def _price(self, queries: Sequence[Query]) -> Fraction:
        """See `Counting._price`."""
        self._check_alive()
        self._rows()
        return self._engine.price_many(queries)

    def _exact(self, price: Fraction) -> bool:
        """See `Counting._exact`. What a batch costs depends on its answers."""
        return price == 0

    def _known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """See `Counting._known`."""
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

    def estimates(self, queries: Sequence[Query]) -> list[Answer]:
        """See `Answering.estimates`: the histogram's answers."""
        size = self._rows_to_share()
        return [Answer(float(share), 1.0, size, "estimate") for share in self.hypothesis.answer_many(queries)]

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """``rows`` synthetic rows, drawn from the histogram; without a ``generator``, the same ones each time."""
        return self.hypothesis.sample(rows, generator)
