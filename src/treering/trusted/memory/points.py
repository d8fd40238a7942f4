"""Points to learn from, which grow in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treering.budget.promise import Budget
from treering.domain.loss import Labels
from treering.domain.schema import Schema
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.learning.points import POINTS, Points, Samples
from treering.trusted.memory.watchers import Watchers
from treering.trusted.sealed import Sealed
from treering.words import counted


class GrowingPoints(Sealed):
    """A growing set of points with features in the unit L2 ball, and labels.

    Public: their number, their ``dimension`` (how many features each has) and the kind of ``labels``: "signs" (−1 or
    1), "numbers" (in [−1, 1]) or "none". Neighbouring databases differ in one point, features and label replaced,
    which keeps its arrival time.

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
        """A schema of one cell: points have no finite universe."""
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
        """The kind of labels: "signs", "numbers" or "none"; public."""
        return self._points.label_kind

    def append(self, features: Any, labels: Any = None) -> int:
        """Take in points, all or none, and return the new size.

        ``features`` has a row for each point; a row of L2 norm above 1 is scaled down to norm 1. ``labels`` has one for
        each row, or is None for labels of kind "none".
        """
        self._points.add_points(features, labels)
        self._watchers.call()
        return self.size

    def append_rows(self, rows: Samples) -> int:
        """Take in `Samples`, which were checked and scaled by their declared bounds, and return the new size."""
        self._points.add_rows(rows)
        self._watchers.call()
        return self.size

    def open_gate(self, budget: Budget) -> Kernel:
        """A gate with a ``budget`` of its own to these points as they grow. The budgets of several gates add up."""
        return Kernel(self._points, budget, MemoryJournal())

    def watch(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` after every append, for as long as its object lives."""
        self._watchers.add(grown)

    def __repr__(self) -> str:
        return f"GrowingPoints({counted(self.size, 'point')}; {counted(self.dimension, 'feature')})"
