"""A series that counts each leaf by itself: every period of whole leaves can be asked about, and short ones are sharp.

A row is in one release, at the whole price: a leaf has the noise that one count of its rows would have. A period of w
leaves has w times the variance, so that its error, as a share of *its* rows, falls as 1/√w where leaves are alike. Of
all rows trees and square roots know more in the long run, as log(leaves) is below √leaves.
"""

from __future__ import annotations

import bisect
import hashlib
from dataclasses import dataclass

import numpy as np

from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.sums import Kept
from treering.gate import Advanced, Event, Ones, SegmentBegun, SegmentEnded
from treering.mechanisms.series.base import Series, Window
from treering.protocols import Gate
from treering.theory.continual import Law, kept_leaves, leaves_law, start_noise


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """NOTE: how many of the rows from size ``start`` to size ``end``, in ``leaves`` leaves, are in each group."""

    start: int
    end: int
    leaves: int
    counts: Floats


class LeafSeries(Series):
    """Counts of each leaf, with noise of their own.

    Guarantee: the releases cost each row that the series has counted the price, and no other row anything (each leaf is
    a segment of the gate, with room for one release of weight 1; the kernel enforces it). Estimates are unbiased, with
    the law that their `Window` states. The last `kept_leaves` leaves are told apart, and all before them are one.
    """

    notes = (Counted,)

    def __init__(
        self, groups: Groups, price: Budget, start: int = 0, number: int = 0, sums: Kept | None = None
    ) -> None:
        super().__init__(groups, price, start, number, sums)
        alone = self.numbers == 1  # One count moves by one, where two would move by one each.
        self._noise = start_noise(Budget(price.kind, 2 * price.total) if alone else self.noise_price)
        self._counted: list[Counted] = []
        self._released: Counted | None = None
        """The leaf of the current segment, once it is there."""

    @property
    def _leaves(self) -> list[Counted]:
        return self._counted if self._released is None else [*self._counted, self._released]

    @property
    def leaf(self) -> int:
        """How many leaves there are."""
        return sum(each.leaves for each in self._leaves)

    @property
    def size(self) -> int:
        """The size at the end of the last leaf."""
        return self._leaves[-1].end if self._leaves else self.start

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing."""
        return tuple(each.start for each in self._leaves) or (self.start,)

    def advance(self, gate: Gate) -> None:
        """Make the rows since the last leaf, if there are any, the next leaf."""
        if gate.size <= self.size:
            return
        self._turn(gate)
        if self._segment is None:
            self._begin(gate)
        assert self._segment is not None
        self.follow(gate.advance(self._segment.segment, [Ones(1)]))
        self._turn(gate)

    @property
    def _complete(self) -> bool:
        return self._released is not None

    def _begin(self, gate: Gate) -> None:
        """Begin a segment after the last leaf."""
        self.follow(gate.begin_segment(self.groups, self._noise, 1, self.size, self.number, self.sums))

    def _end(self, gate: Gate) -> None:
        assert self._segment is not None
        self.follow(gate.end_segment(self._segment.segment, self._released))

    def follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, SegmentBegun):
            self._follow_begun(event)
        elif isinstance(event, Advanced) and self._is_current(event.segment):
            counts = event.values[0].reshape(-1).astype(np.float64)
            self._released = Counted(self.size, event.size, 1, counts)
        elif isinstance(event, SegmentEnded) and self._concerns(event):
            self._take(event.note)
            self._follow_end()

    def _take(self, note: Counted | None) -> None:
        self._released = None
        if note is not None:
            self._counted.append(note)
        if len(self._counted) > kept_leaves(self.numbers):
            first, second = self._counted[:2]
            merged = Counted(first.start, second.end, first.leaves + second.leaves, first.counts + second.counts)
            self._counted[:2] = [merged]

    def window(self, since: int) -> Window:
        """The estimate of the rows since one of the `boundaries`."""
        leaves = self._leaves[bisect.bisect_left(self.boundaries, since) :]
        total = np.zeros_like(leaves[0].counts)
        for each in leaves:  # In order of time: every bit depends on the leaves alone.
            total += each.counts
        total.setflags(write=False)
        return Window(leaves[0].start, self.size, total, leaves_law(self._noise, sum(each.leaves for each in leaves)))

    def next_starts(self, size: int) -> tuple[int, ...]:
        """The `boundaries` once the series is current at a size."""
        if size <= self.size or not self._leaves:
            return self.boundaries
        sizes = (*self.boundaries, self.size)
        forgotten = max(0, len(sizes) - kept_leaves(self.numbers))
        return (sizes[0], *sizes[1 + forgotten :])

    def next_law(self, size: int, since: int) -> Law:
        """The law of the noise of a group's rows since one of the `next_starts`, once the series is current."""
        counted = sum(each.leaves for each in self._leaves if each.start >= since)
        return leaves_law(self._noise, max(1, counted + (size > self.size)))

    def fingerprint(self) -> str:
        """A hash of the public state."""
        digest = hashlib.sha256(repr((self._segment and self._segment.segment, self.start)).encode())
        for each in self._leaves:
            digest.update(repr((each.start, each.end, each.leaves)).encode() + each.counts.tobytes())
        return digest.hexdigest()
