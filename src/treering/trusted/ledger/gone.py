"""The positions of rows that were erased: public. A row keeps its position for ever; that of an erased row is empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from treering.arrays import Ints


class Gone:
    """Positions, from 1 on, in order.

    >>> gone = Gone()
    >>> gone.add([[3, 5], [9, 9]])
    >>> len(gone), gone.within(0, 4), spans(gone.positions)
    (4, 2, [[3, 5], [9, 9]])
    """

    __slots__ = ("positions",)

    def __init__(self) -> None:
        self.positions: Ints = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, found: Iterable[Sequence[int]]) -> None:
        """Add positions, from the first to the last of each span."""
        more = [np.arange(first, last + 1, dtype=np.int64) for first, last in found]
        self.positions = np.union1d(self.positions, np.concatenate([self.positions[:0], *more]))

    def within(self, start: int, end: int) -> int:
        """How many lie after position ``start``, up to ``end``."""
        first, last = np.searchsorted(self.positions, [start, end], side="right").tolist()
        return int(last - first)

    def rows(self, start: int, end: int) -> Ints:
        """Those after position ``start``, up to ``end``, counted from 0 on after it."""
        first, last = np.searchsorted(self.positions, [start, end], side="right").tolist()
        return self.positions[first:last] - start - 1


def spans(positions: Ints) -> list[list[int]]:
    """Increasing positions, as spans."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    return [[int(each[0]), int(each[-1])] for each in np.split(positions, breaks) if len(each)]
