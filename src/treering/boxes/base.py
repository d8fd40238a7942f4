"""What a black box is: a static private algorithm that declares its cost and its accuracy.

A box is a *public program over the gate*, like a mechanism, but it runs once: given a budget it asks the gate, and what
comes out answers a class of queries for ever without touching private data again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from treering.answer import Answer
from treering.arrays import Floats
from treering.budget.promise import Budget, Kind, Promise
from treering.domain.query import Query
from treering.domain.question import Question, understand, understand_all
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, QueryError
from treering.gate import Database, Gate
from treering.params import Number, probability

Progress: TypeAlias = Callable[[float, str], None]
"""Told how much of a long run is done, in [0, 1], and what is being done: public steps only."""


def silent(done: float, doing: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The paper's black-box rate: accuracy α = g·(1/(ε·n))^p·log(n)^p2·log(1/β)^p1, for a pure ε.

    A (p, g)-black box has p1 = p and p2 = 0.
    """

    p: float
    g: float
    p1: float
    p2: float = 0.0


class Release(ABC):
    """What a box has released: it answers queries of the box's class about the database of one size, for free."""

    def __init__(self, schema: Schema, size: int) -> None:
        self.schema = schema
        self.size = size

    @abstractmethod
    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        """The share of the rows that match each query, and its error: all errors hold together but with probability
        beta. A query outside the class raises `QueryError`, which says what the class is."""

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        """Synthetic rows, in the schema's own values."""
        raise QueryError(f"{type(self).__name__} answers queries, and has no synthetic rows")

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match, with its error."""
        return self.ask_many([understand(query, self.schema)])[0]

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch."""
        asked = understand_all(queries, self.schema)
        values, errors = self.shares(asked)
        return [
            Answer(min(1.0, max(0.0, value)), error, self.size, "synthetic")
            for value, error in zip(values.tolist(), errors.tolist(), strict=True)
        ]


class Box(ABC):
    """A static private algorithm.

    What every box owes, and ``tests/support/box_contract.py`` checks:

    - *Privacy*: `run` costs no more than its budget, whatever happens (it goes through the gate, which charges), and
      uses it: what is left over would have been accuracy.
    - *Accuracy*: with probability at least 1 − beta all errors that the release states hold together, and none is above
      ``alpha(size, budget, beta)``. That is a theorem, not a fit.
    - *Scaling*: ``alpha`` falls, or stays, when size, budget or beta grows; and also when the size grows c-fold while
      a pure budget is divided by c, or a zCDP one by c². Schedules for the whole future rest on this.
    - *Replay*: `run` is a deterministic function of what the gate returns (public randomness is noted in the gate), so
      running it again over the recorded events gives the same release, bit for bit.
    """

    kind: Kind = "pure"
    """"pure": it is ε-DP for some ε, and takes budgets of both kinds. "zcdp": it takes zCDP budgets only."""

    @abstractmethod
    def bind(self, schema: Schema) -> Box:
        """This box for a universe: texts become queries, sizes are known. Bound boxes return themselves."""

    @abstractmethod
    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The error that every answer keeps to but with probability beta: proven. May be above 1: no guarantee."""

    @property
    def worst(self) -> float:
        """The error from which on a guarantee says nothing, since none can be larger: 1, for shares."""
        return 1.0

    @property
    def staleness(self) -> float | None:
        """How wrong a release can be about rows that came after it; None for shares, which schedulers age by query."""
        return None

    @property
    def rate(self) -> Rate | None:
        """The paper's (p, g) or (p, p′, p″, g) of this box, if it has one."""
        return None

    @abstractmethod
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        """Spend the budget: ask the gate, and make a release. ``alpha`` is what the caller was promised."""

    def release(self, db: Database, epsilon: Number, delta: Number = 0.0, beta: Number = 0.05) -> Release:
        """Run once, on the database as it is: (epsilon, delta)-DP, neighbours replacing one row."""
        budget = Promise(epsilon, delta).budget
        chance = float(probability(beta, "beta"))
        box = self.bind(db.schema)
        if db.size == 0:
            raise GuaranteeError("the database is empty: a share of its rows needs at least one")
        alpha = box.alpha(db.size, budget, chance)
        if not alpha < box.worst:
            raise GuaranteeError(
                f"{type(self).__name__} guarantees nothing here: its error could be {alpha:.3g}, and no error is "
                f"above {box.worst:.3g} anyway; it needs more than {db.size:,} rows, or a larger epsilon"
            )
        return box.run(db.open_gate(budget), budget, alpha, chance)
