"""A class of queries that is declared before a box runs, and answered afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from treering.arrays import Flags, Floats, Ints
from treering.domain.query import Query
from treering.domain.question import Question, understand_all
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError

_CONSTANT: Final = -1


def declared(queries: Iterable[Question]) -> tuple[Question, ...]:
    """The queries as they were given: at least one, each a query or its text. What they mean, a schema will say."""
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
    """The queries that need an answer, each once: a complement's answer is known with the query's, a constant's always.

    >>> from treering.domain.attribute import categories
    >>> schema = Schema({"late": categories("no", "yes")})
    >>> QueryClass(schema, ["late = 'yes'", "late = 'no'", "TRUE"]).queries
    (Query("late = 'yes'"),)
    """

    def __init__(self, schema: Schema, queries: Iterable[Question]) -> None:
        self.schema: Final = schema
        # Where the answer to a query is found, and whether it is the complement's.
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
        """How far one replaced row can move each query's count, in rows: 1 for counting queries."""
        return tuple(Fraction(query.spread, query.scale) for query in self.queries)

    def find(self, queries: Sequence[Query], box: str) -> tuple[Ints, Flags]:
        """Where each query's answer is among `queries` (−1: it is constant), and whether it is the complement's."""
        places = np.empty(len(queries), dtype=np.int64)
        flipped = np.zeros(len(queries), dtype=np.bool_)
        for index, query in enumerate(queries):
            found = self._place(query)
            if found is None:
                raise QueryError(
                    f"query {index}: {_short(query)} is not among the {len(self):,} queries that this {box} was made "
                    "for, nor the complement of one"
                )
            places[index], flipped[index] = found
        return places, flipped

    def shares(self, queries: Sequence[Query], box: str, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
        """Shares and errors of any queries of the class, from those of `queries`."""
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
        # Complements that are conjunctions are listed; those of tables are made when asked.
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
    """What every row answers."""
    return 1.0 if query.table is None else float(query.table) / query.scale


def _short(query: Query, most: int = 80) -> str:
    text = str(query)
    return text if len(text) <= most else text[: most - 1] + "…"
