"""Released measurements, kept so that a question asked twice is paid for once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from treering.domain.query import Query
from treering.errors import QueryError

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
        self._tables = 0

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

    def keep(self, query: Query, record: Record) -> None:
        """Remember a measurement; a later one replaces it."""
        if len(self._records) >= MOST_RECORDS:
            self._prune(record.size)
        self._tables += query.masks is None and query not in self._records
        self._records[query] = record

    def _complement(self, query: Query) -> Query | None:
        """The complement, if it can be among the records: that of a conjunction of several sets is a table."""
        if query.masks is not None and len(query.attributes) > 1 and not self._tables:
            return None
        try:
            return ~query
        except QueryError:
            return None  # too wide for a table

    def _prune(self, size: int) -> None:
        kept = [(query, record) for query, record in self._records.items() if record.at(size)[1] <= self._alpha]
        self._records = dict(kept[-(MOST_RECORDS // 2) :])
        self._tables = sum(query.masks is None for query in self._records)
