"""Base classes of boxes: static private algorithms ("black boxes") with a declared cost and a proven accuracy.

A box is a *public program over the gate*, like a mechanism, but it runs once: given a budget it asks the gate, and its
`Release` answers a class of queries for ever without touching private data again. `SchemaBox` is what the boxes of this
package have in common: they are made without a schema and bound to one later. `QueryClass` is a class of queries that
is declared before a box runs.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from treering.answer import Answer
from treering.arrays import Flags, Floats, Ints
from treering.budget.promise import Budget, BudgetKind, Promise
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, QueryError, SchemaError
from treering.gate import Told
from treering.params import A_SHARE, Number, nonempty, probability
from treering.protocols import Database, Gate
from treering.words import counted

Progress: TypeAlias = Callable[[float, str], None]
"""A callback for long runs, called with the fraction that is done, in [0, 1], and a text that names the present step.
Both are public."""


def silent(done: float, doing: str) -> None:
    """Report no progress."""


def by_steps(progress: Progress, doing: str) -> Told:
    """Report the steps of an operation of the gate."""
    return lambda step, steps: progress(step / steps, f"{doing}: step {step + 1:,} of {steps:,}")


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
    """What a box has released: answers, for free, to queries of the box's class about the database of one size."""

    def __init__(self, schema: Schema, size: int) -> None:
        self.schema = schema
        self.size = size

    @abstractmethod
    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        """The share of the rows that match each query, and its error: all errors hold together but with probability
        beta. A query outside the class raises `QueryError`, which says what the class is."""

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        """``rows`` synthetic rows in the schema's own values, drawn with ``generator``; or `QueryError`."""
        raise QueryError("this box answers queries, and has no synthetic rows")

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match ``query`` (a `Query` or its text), with its error."""
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

    Every box guarantees, and ``tests/support/box_contract.py`` checks:

    - *Privacy*: `run` costs no more than its budget, whatever happens (it goes through the gate, which charges), and
      uses all of it, as an unspent part is lost accuracy.
    - *Accuracy*: with probability at least 1 − beta all errors that the release states hold together, and none is above
      ``alpha(size, budget, beta)``. That is a theorem, not a fit.
    - *Scaling*: ``alpha`` does not rise when size, budget or beta grows; nor when the size grows c-fold while
      a pure budget is divided by c, or a zCDP one by c². Schedules for the whole future rest on this.
    - *Replay*: `run` is a deterministic function of what the gate returns (public randomness is noted in the gate), so
      running it again over the recorded events gives the same release, bit for bit.
    """

    kind: BudgetKind = "pure"
    """"pure": the box is ε-DP for some ε, and takes budgets of both kinds. "zcdp": it takes zCDP budgets only."""

    @abstractmethod
    def bind(self, schema: Schema) -> Box:
        """This box for the universe of ``schema``, in which texts become queries. A bound box returns itself."""

    @abstractmethod
    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The proven error that all answers keep to, except with probability ``beta``; above `worst` it says nothing.

        - ``size``: the number of rows
        - ``budget``: what a run may spend
        - ``beta``: the probability that some answer is outside its error
        """

    @property
    def worst(self) -> float:
        """The largest error that is possible, so that a guarantee of this or more says nothing: 1, for shares."""
        return 1.0

    @property
    def staleness(self) -> float | None:
        """The largest error of a release on rows that came after it; None for shares, which are aged query by query
        (`treering.theory.ageing`)."""
        return None

    @property
    def rate(self) -> Rate | None:
        """The paper's (p, g) or (p, p′, p″, g) of this box, if it has one."""
        return None

    @abstractmethod
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        """Spend ``budget``: ask the gate, and make a release.

        - ``alpha``: the error that the caller was promised for this run
        - ``beta``: the probability that some answer is outside its error
        - ``progress``: called during long runs
        """

    def release(self, db: Database, epsilon: Number, delta: Number = 0.0, beta: Number = 0.05) -> Release:
        """Run once, on the database as it is: (epsilon, delta)-DP, neighbours replacing one row.

        ``beta`` is the probability that some answer is outside its error.
        """
        budget = Promise(epsilon, delta).budget
        chance = float(probability(beta, "beta"))
        box = self.bind(db.schema)
        nonempty(db.size, A_SHARE)
        alpha = box.alpha(db.size, budget, chance)
        if not alpha < box.worst:
            raise GuaranteeError(
                f"{type(self).__name__} guarantees nothing here: its error could be {alpha:.3g}, and no error is "
                f"above {box.worst:.3g} anyway; it needs more than {counted(db.size, 'row')}, or a larger epsilon"
            )
        return box.run(db.open_gate(budget), budget, alpha, chance)


# -- boxes that are bound to a schema ----------------------------------------------------------------------------------


class SchemaBox(Box):
    """A box that is made without a schema and bound to one later. Binding makes a copy; the original stays unbound."""

    def __init__(self) -> None:
        self._bound: Schema | None = None

    @property
    def schema(self) -> Schema:
        """The schema that this box is bound to."""
        if self._bound is None:
            raise ParameterError("schema", f"is not known to this {type(self).__name__} yet: bind(schema) it first")
        return self._bound

    def bind(self, schema: Schema) -> Self:
        """This box for the universe of ``schema``. A bound box returns itself, and refuses another schema."""
        if self._bound is not None:
            if self._bound != schema:
                raise SchemaError(f"this {type(self).__name__} is bound to another schema")
            return self
        bound = copy.copy(self)
        bound._bound = schema
        bound._prepare(schema)
        return bound

    def _check(self, gate: Gate) -> None:
        """Raise, before the gate is asked anything, if its schema is another one or its database is empty."""
        if gate.schema != self.schema:
            raise SchemaError(f"this {type(self).__name__} is bound to another schema than the database's")
        nonempty(gate.size, A_SHARE)

    def _prepare(self, schema: Schema) -> None:
        """Called once the schema is known: prepare for it, or raise if the box cannot serve it."""


# -- declared query classes --------------------------------------------------------------------------------------------


_CONSTANT: Final = -1


def declared(queries: Iterable[Question]) -> tuple[Question, ...]:
    """The declared queries, checked: at least one, each a `Query` or its text, to be parsed once a schema is known."""
    if isinstance(queries, str | Query) or not isinstance(queries, Iterable):
        raise ParameterError("queries", f"must be a list of queries or texts, not {type(queries).__name__}")
    given = tuple(queries)
    if not given:
        raise ParameterError("queries", "must be at least one")
    for position, query in enumerate(given):
        if not isinstance(query, str | Query):
            raise ParameterError("queries", f"must be queries or texts; number {position} is {type(query).__name__}")
    return given


class QueryClass:
    """A class of queries without repetition: `queries` are those whose answers give the answers of all of them.

    A query and its complement count as one, and constant queries, whose answers are public, are left out.

    >>> from treering.domain.attribute import categories
    >>> schema = Schema({"late": categories("no", "yes")})
    >>> QueryClass(schema, ["late = 'yes'", "late = 'no'", "TRUE"]).queries
    (Query("late = 'yes'"),)
    """

    def __init__(self, schema: Schema, queries: Iterable[Question]) -> None:
        self.schema: Final = schema
        # The position of a query's answer, and whether that is the answer to its complement.
        self._places: dict[Query, tuple[int, bool]] = {}
        kept: list[Query] = []
        for query in understand_all(queries, schema):
            if self._place(query) is None:
                self._places[query] = len(kept), False
                self._add_complement(query, len(kept))
                kept.append(query)
        self.queries: Final = tuple(kept)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def spreads(self) -> tuple[Fraction, ...]:
        """By how much one replaced row can change each query's count, in rows: 1 for counting queries."""
        return tuple(Fraction(query.spread, query.scale) for query in self.queries)

    def find(self, queries: Sequence[Query], box: str) -> tuple[Ints, Flags]:
        """For each query the position of its answer among `queries` (−1 if it is constant), and whether that is the
        answer to its complement. ``box`` is the name in the error message for a query outside the class."""
        places = np.empty(len(queries), dtype=np.int64)
        flipped = np.zeros(len(queries), dtype=np.bool_)
        for index, query in enumerate(queries):
            found = self._place(query)
            if found is None:
                which = f"query {index}: " if len(queries) > 1 else ""
                known = "the query" if len(self) == 1 else f"among the {len(self):,} queries"
                raise QueryError(
                    f"{which}{_short(query)} is not {known} that this {box} was made for, nor the complement of one"
                )
            places[index], flipped[index] = found
        return places, flipped

    def shares(self, queries: Sequence[Query], box: str, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
        """Shares and errors of any queries of the class, from the ``values`` and ``errors`` of `queries`."""
        places, flipped = self.find(queries, box)
        shares = np.concatenate([values, [0.0]])[places]
        shares[flipped] = 1 - shares[flipped]
        for index in np.flatnonzero(places == _CONSTANT).tolist():
            shares[index] = constant_share(queries[index])
        return shares, np.concatenate([errors, [0.0]])[places]

    def _place(self, query: Query) -> tuple[int, bool] | None:
        if query.constant:
            return _CONSTANT, False
        found = self._places.get(query)
        # Complements that are conjunctions are listed. If a table is asked, its complement is computed here.
        if found is None and query.masks is None:
            found = self._places.get(~query)
            return None if found is None else (found[0], not found[1])
        return found

    def _add_complement(self, query: Query, place: int) -> None:
        if query.masks is None or len(query.attributes) == 1:
            complement = ~query
            if complement.masks is not None:
                self._places.setdefault(complement, (place, True))


def constant_share(query: Query) -> float:
    """The answer to a constant query: the weight that every row has."""
    return 1.0 if query.table is None else float(query.table) / query.scale


def _short(query: Query, most: int = 80) -> str:
    text = str(query)
    return text if len(text) <= most else text[: most - 1] + "…"
