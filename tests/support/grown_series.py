"""A series beside the rows that it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from support.databases import TestDatabase
from support.row_lives import SCHEMA, Keeping, combined
from treering.budget.promise import Budget
from treering.gate import Advanced, Event, Span
from treering.mechanisms.series.base import Series, Window

Made = TypeVar("Made", bound=Series)


class GrownSeries(Generic[Made]):
    """A series that `make` makes, over a growing database of its own; ``start`` rows come before it."""

    def __init__(self, make: Callable[[], Made], budget: Budget, start: int = 0) -> None:
        self.journal = Keeping()
        self.db = TestDatabase(SCHEMA, journal=self.journal)
        self.gate = self.db.open_gate(budget)
        self.rows: list[int] = []
        if start:
            self.append([cell % SCHEMA.cells for cell in range(start)])
            self.gate.mark()
        self._make = make
        self.series = make()

    @property
    def record(self) -> list[Event]:
        """All that ever happened."""
        return self.journal.record

    @property
    def sizes(self) -> list[int]:
        """Where leaves begin and end."""
        return [self.series.start, *(event.size for event in self.record if isinstance(event, Advanced))]

    def append(self, cells: Sequence[int]) -> None:
        self.db.append_cells(list(cells))
        self.rows += cells

    def leaves(self, sizes: Sequence[int]) -> None:
        """Leaves of so many rows each, of cells that follow no simple rule."""
        for size in sizes:
            first = len(self.rows)
            self.append([(first + row) ** 3 // 7 % SCHEMA.cells for row in range(size)])
            self.series.advance(self.gate)

    def exact(self, window: Window) -> bool:
        """Whether an estimate is the truth, but for rounding."""
        truth = combined(self.series.groups, SCHEMA, self.rows, [Span(window.start, window.end, 1)])
        return bool(np.allclose(window.counts, truth, rtol=0, atol=1e-7 * (1 + len(self.rows))))

    def again(self) -> Made:
        """The same series as a fold over what is on record."""
        other = self._make()
        for event in self.gate.history:
            other.follow(event)
        return other
