"""Databases for tests: one whose journal can be reopened, and one that counts how often private data are touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from treering.arrays import Ints
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import Sums
from treering.trusted.cells import Cells
from treering.trusted.journal import Journal, MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.memory.watchers import Watchers
from treering.trusted.rows.kept import Rows


class WatchedRows(Rows):
    """Rows that say how often they were read."""

    __slots__ = ("touched",)

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.touched = 0

    def tally(self, groups: Groups, edges: Sequence[int], sums: Sums | None = None) -> tuple[Ints, Ints, Ints]:
        self.touched += 1
        return super().tally(groups, edges, sums)

    def cells_of(self, lens: Schema) -> Cells:
        self.touched += 1
        return super().cells_of(lens)


class TestDatabase:
    """A growing database whose gates all write to, and continue from, one journal."""

    __test__ = False

    def __init__(self, schema: Schema, cells: Sequence[int] = (), journal: Journal | None = None) -> None:
        self.rows = WatchedRows(schema)
        self.journal = MemoryJournal() if journal is None else journal
        self._watchers = Watchers()
        self.append_cells(cells)

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    @property
    def size(self) -> int:
        return self.rows.size

    @property
    def touched(self) -> int:
        return self.rows.touched

    def append_cells(self, cells: Sequence[int]) -> None:
        self.rows.add_cells(np.array(cells, dtype=np.int64))
        self._watchers.call()

    def watch(self, grown: Callable[[], None]) -> None:
        self._watchers.add(grown)

    def open_gate(self, budget: Budget) -> Kernel:
        return Kernel(self.rows, budget, self.journal)
