"""Points that never stop arriving, embedded in this process: a `treering.gate.Database` for learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treering.budget.promise import Budget
from treering.domain.loss import Labels
from treering.domain.schema import Schema
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.learning.points import POINTS, Points
from treering.trusted.learning.rows import Rows
from treering.trusted.sealed import Sealed
from treering.trusted.watchers import Watchers


class GrowingPoints(Sealed):
    """Points with features in the unit L2 ball, and labels. Public: their number, dimension and kind of labels.

    Neighbours differ in one point, features and label replaced, which keeps its arrival time.

    >>> points = GrowingPoints(2, "signs")
    >>> points.append([[0.5, 0.5], [0.0, -1.0]], [1, -1])
    2
    >>> points
    GrowingPoints(2 points; 2 features)
    """

    __slots__ = ("_points", "_watchers")

    def __init__(self, dimension: int, labels: Labels) -> None:
        self._points = Points(dimension, labels)
        self._watchers = Watchers()

    @property
    def schema(self) -> Schema:
        """One cell: points have no finite universe."""
        return POINTS

    @property
    def size(self) -> int:
        """The number of points: public."""
        return self._points.size

    @property
    def dimension(self) -> int:
        """How many features a point has: public."""
        return self._points.dimension

    @property
    def label_kind(self) -> Labels:
        """What the labels are: public."""
        return self._points.label_kind

    def append(self, features: Any, labels: Any = None) -> int:
        """Take in points, all or none, and return the new size. A row longer than 1 is scaled down to norm 1."""
        self._points.add_points(features, labels)
        self._watchers.call()
        return self.size

    def append_rows(self, rows: Rows) -> int:
        """Take in rows that were checked and scaled by their own bounds, and return the new size."""
        self._points.add_rows(rows)
        self._watchers.call()
        return self.size

    def open_gate(self, budget: Budget) -> Kernel:
        """A gate with a budget of its own, over the points as they grow. The budgets of several gates add up."""
        return Kernel(self._points, budget, MemoryJournal())

    def watch(self, grown: Callable[[], None]) -> None:
        """Call a method after every append, for as long as its object lives."""
        self._watchers.add(grown)

    def __repr__(self) -> str:
        return f"GrowingPoints({self.size:,} points; {self.dimension} features)"
