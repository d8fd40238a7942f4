"""Databases for tests: one whose journal can be reopened, and one that counts how often private data are touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.trusted.counts import Counts
from treering.trusted.database import Watchers
from treering.trusted.journal import Journal, MemoryJournal
from treering.trusted.kernel import Kernel


class WatchedCounts(Counts):
    """Counts that say how often they were read."""

    __slots__ = ("touched",)

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.touched = 0

    def marginal(self, attributes: tuple[int, ...]) -> npt.NDArray[np.int64]:
        self.touched += 1
        return super().marginal(attributes)

    def count(self, query: Query) -> int:
        self.touched += 1
        return super().count(query)

    def count_many(self, queries: Sequence[Query]) -> npt.NDArray[np.int64]:
        self.touched += 1
        return super().count_many(queries)

    def between(
        self, start: int, end: int, column: int | None = None
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        self.touched += 1
        return super().between(start, end, column)


class TestDatabase:
    """A growing database whose gates all write to, and continue from, one journal."""

    __test__ = False

    def __init__(self, schema: Schema, cells: Sequence[int] = (), journal: Journal | None = None) -> None:
        self.counts = WatchedCounts(schema)
        self.journal = MemoryJournal() if journal is None else journal
        self._watchers = Watchers()
        self.append_cells(cells)

    @property
    def schema(self) -> Schema:
        return self.counts.schema

    @property
    def size(self) -> int:
        return self.counts.size

    @property
    def touched(self) -> int:
        return self.counts.touched

    def append_cells(self, cells: Sequence[int]) -> None:
        self.counts.add(np.array(cells, dtype=np.int64))
        self._watchers.call()

    def watch(self, grown: Callable[[], None]) -> None:
        self._watchers.add(grown)

    def open_gate(self, budget: Budget) -> Kernel:
        return Kernel(self.counts, budget, self.journal)
