"""What a series is: counts of disjoint groups of a growing table, kept current at a price that each row pays once.

Rows between two calls of `Series.advance` are a leaf. New rows bring the price with them, so a series never ends, and
rows that came after its last leaf have paid nothing. ``operations/combine.py`` has the privacy proof, for any weights;
which weights are used, and how estimates are made of what is released, is in ``root`` and ``tree``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.sums import Kept
from treering.gate import Coming, Event, SegmentBegun, SegmentEnded
from treering.protocols import Gate
from treering.theory.continual import Law
from treering.theory.sums import kept_price


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """An estimate of the rows from size ``start`` to size ``end`` in each group (or of the numbers that `Sums` says),
    and the law of its noise."""

    start: int
    end: int
    counts: Floats
    law: Law

    def __add__(self, later: Window) -> Window:
        """The rows of this window and of one that begins where this one ends, whose noise is independent."""
        assert self.end == later.start
        return Window(self.start, later.end, self.counts + later.counts, self.law + later.law)


class Series(ABC):
    """The counts of some groups, kept current: a fold over the events of a gate.

    - ``groups``: disjoint sets of cells
    - ``price``: what each row pays, once, as a budget of the gate's kind
    - ``start``: rows after this position are counted
    - ``number``: tells the series of one gate apart
    - ``sums``: what is kept instead of, or beside, the rows of each group
    """

    def __init__(self, groups: Groups, price: Budget, start: int, number: int, sums: Kept | None = None) -> None:
        self.groups, self.price, self.start, self.number, self.sums = groups, price, start, number, sums
        self.numbers = groups.number if sums is None else max(2, sums.numbers(groups.number))
        """How many numbers a release has; at least two, if there are sums: one sum costs as much as many."""
        self.noise_price = price if sums is None else kept_price(price, sums)
        """The price at which counts would have the noise that these numbers have."""
        self._segment: SegmentBegun | None = None
        """The current segment of the gate; None before the first, and after the last."""
        self._next: SegmentBegun | None = None
        """The segment after the current one, if that is complete and has not ended yet."""
        self.fresh = 0
        """How many numbers were released since the last checkpoint."""

    @property
    @abstractmethod
    def leaf(self) -> int:
        """How many leaves there are."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size at the end of the last leaf."""

    @property
    @abstractmethod
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing; the first is where the series starts."""

    @abstractmethod
    def advance(self, gate: Gate) -> None:
        """Make the rows since the last leaf, if there are any, the next leaf. They pay the price, and no other row
        does."""

    @property
    def coming(self) -> Coming:
        """The next leaf."""
        number = None if self._segment is None or self._complete else self._segment.segment
        return Coming(self.groups, self.size, self.sums, number)

    @abstractmethod
    def follow(self, event: Event) -> None:
        """Take up an event of the gate; events of others change nothing."""

    @abstractmethod
    def window(self, since: int) -> Window:
        """The estimate of the rows since one of the `boundaries`."""

    @abstractmethod
    def next_starts(self, size: int) -> tuple[int, ...]:
        """The `boundaries` once the series is current at a size."""

    @abstractmethod
    def next_law(self, size: int, since: int) -> Law:
        """The law of the noise of a group's number since one of the `next_starts`, once the series is current."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the public state."""

    @property
    def next_price(self) -> Fraction:
        """What the rows of the next leaf will have paid once it is there."""
        return self.price.total

    # -- segments of the gate -----------------------------------------------------------------------------------------

    def _turn(self, gate: Gate) -> None:
        """If the current segment is complete, begin the next one where it ends, and end it.

        In this order rows are told apart there at all times. What an interrupt leaves undone is done by the next call.
        """
        if self._segment is None or not self._complete:
            return
        if self._next is None:
            self._begin(gate)
        self._end(gate)

    @property
    @abstractmethod
    def _complete(self) -> bool:
        """Whether the current segment has all its leaves."""

    @abstractmethod
    def _begin(self, gate: Gate) -> None:
        """Begin a segment after the last leaf."""

    @abstractmethod
    def _end(self, gate: Gate) -> None:
        """End the current segment, with a note of what is kept of it."""

    def _follow_begun(self, event: SegmentBegun) -> None:
        if event.series != self.number:
            return
        if self._segment is None and event.start == self.size:
            self._segment = event
        else:
            self._next = event

    def _is_current(self, segment: int) -> bool:
        return self._segment is not None and self._segment.segment == segment

    def _concerns(self, event: SegmentEnded) -> bool:
        """Whether it is the end of the current segment, or stands for one that ended long ago."""
        ended_long_ago = self._segment is None and event.note is not None and event.series == self.number
        return self._is_current(event.segment) or ended_long_ago

    def _follow_end(self) -> None:
        """The current segment is over, and `size` is where it ended."""
        begun, self._next = self._next, None
        self._segment = begun if begun is not None and begun.start == self.size else None

    def _reopen(self, segments: Sequence[SegmentBegun]) -> None:
        """Go on with the segments that are open: the current one and, if that is complete, the next."""
        self._segment, self._next = (*segments, None, None)[:2]
        self.fresh = 0

    def close(self, gate: Gate) -> None:
        """End the series: its rows get back what they paid for releases that will not come. What is known stays."""
        while self._segment is not None:
            self._end(gate)
