"""Released measurements, kept so that a question asked twice is paid for once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from treering.domain.query import Query

MOST_RECORDS: Final = 100_000
"""When there are so many, those that no longer hold are dropped, and then the oldest half."""


@dataclass(frozen=True, slots=True)
class Record:
    """A released measurement: ``share`` is within ``error`` of the truth at ``size`` rows."""

    share: float
    error: float
    size: int

    def at(self, size: int) -> tuple[float, float]:
        """The best share and its error at a later size: new rows match or not, so half of them is the best guess."""
        old = self.size / size
        return old * self.share + (1 - old) / 2, old * self.error + (1 - old) / 2


class Records:
    """The latest measurement of each query. That of a query is one of its complement, too."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._records: dict[Query, Record] = {}
        # Conjunctions that are the complement of a query on record: making one takes longer than an easy answer.
        self._complements: dict[Query, Query] = {}

    def __len__(self) -> int:
        return len(self._records)

    def best(self, query: Query, size: int) -> tuple[float, float]:
        """What is known of a query at this size: a share and its error (infinite if nothing is known)."""
        record = self._records.get(query)
        if record is not None:
            return record.at(size)
        complement = self._complement(query)
        record = None if complement is None else self._records.get(complement)
        if record is None:
            return 0.5, math.inf
        share, error = record.at(size)
        return 1 - share, error

    def standing(self, size: int) -> tuple[tuple[Query, Record], ...]:
        """Those that still hold at this size, oldest first. (One that does not hold will never again.)"""
        return tuple((query, record) for query, record in self._records.items() if record.at(size)[1] <= self._alpha)

    def keep(self, query: Query, record: Record) -> None:
        """Remember a measurement; a later one replaces it."""
        if len(self._records) >= MOST_RECORDS:
            self._prune(record.size)
        # The complement of several sets is a table, which `_complement` makes when asked; that of one never too wide.
        if query not in self._records and (query.masks is None or len(query.attributes) == 1):
            complement = ~query
            if complement.masks is not None:
                self._complements[complement] = query
        self._records[query] = record

    def _complement(self, query: Query) -> Query | None:
        """The complement, if it can be among the records."""
        return ~query if query.masks is None else self._complements.get(query)

    def _prune(self, size: int) -> None:
        self._records = dict(self.standing(size)[-(MOST_RECORDS // 2) :])
        self._complements = {query: other for query, other in self._complements.items() if other in self._records}
