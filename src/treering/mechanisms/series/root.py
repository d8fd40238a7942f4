"""A series by square roots, for zCDP: `treering.theory.series` has the weights, the estimates and their variances.

A series is a sequence of segments of the gate. Within a segment each leaf's release is a combination of all its leaves,
and estimates are combinations of all its releases. When it is complete, the estimates that are still needed are kept
instead of the releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.promise import Budget
from treering.budget.weights import squares
from treering.domain.groups import Groups
from treering.domain.sums import Sums
from treering.gate import Advanced, Event, Gate, Root, SegmentBegun, SegmentEnded
from treering.mechanisms.series.base import Series, Window
from treering.theory import series as theory
from treering.theory.continual import Law


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """An estimate of the rows from size ``start`` to the end of a segment, with its variance in rows²."""

    start: int
    counts: Floats
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """NOTE: what is kept of a segment that is over: estimates of the rows since some of its ``leaves``, up to its
    ``end``."""

    leaves: int
    end: int
    tails: tuple[Tail, ...]


class RootSeries(Series):
    """Prefix sums by the square root factorisation, in segments of 1, 16, 1024 and more leaves.

    Guarantee: the releases cost each row that the series has counted at most the price, in zCDP, and no other row
    anything (`treering.theory.series`; the kernel enforces it). Estimates are unbiased, with the variance that their
    `Window` states as an upper bound, whichever public moments the leaves are cut at.
    """

    notes = (Finished, Tail)

    def __init__(
        self, groups: Groups, price: Budget, start: int = 0, number: int = 0, sums: Sums | None = None
    ) -> None:
        super().__init__(groups, price, start, number, sums)
        self._finished: list[Finished] = []
        self._edges: list[int] = [start]
        """The sizes at which the leaves of the current segment begin; the last is the end of the last leaf."""
        self._releases: list[Ints] = []
        self._windows: dict[int, Window] = {}

    @property
    def leaf(self) -> int:
        """How many leaves there are."""
        return sum(each.leaves for each in self._finished) + len(self._releases)

    @property
    def size(self) -> int:
        """The size at the end of the last leaf."""
        return self._edges[-1]

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing."""
        tails = [tail.start for each in self._finished for tail in each.tails]
        current = [self._edges[first - 1] for first in theory.recent(len(self._releases))] if self._releases else []
        return (*tails, *current) or (self.start,)

    @property
    def next_price(self) -> Fraction:
        """What the rows of the next leaf will have paid once it is there: the last of a segment gets back what is set
        aside for releases that will not come."""
        whole = self._complete  # An interrupt has left a segment that is complete: the next leaf begins another.
        length = theory.segment_length(len(self._finished) + whole, self.numbers)
        last = length == (1 if whole else len(self._releases) + 1)
        return self.price.total * squares(1) / squares(length) if last else self.price.total

    # -- releasing ----------------------------------------------------------------------------------------------------

    def advance(self, gate: Gate) -> None:
        """Make the rows since the last leaf, if there are any, the next leaf."""
        if gate.size <= self.size:
            return
        self._turn(gate)
        if self._segment is None:
            self._begin(gate)
        assert self._segment is not None
        self.follow(gate.advance(self._segment.segment, [Root(len(self._releases) + 1)]))
        self._turn(gate)

    @property
    def _complete(self) -> bool:
        return len(self._releases) == theory.segment_length(len(self._finished), self.numbers)

    def _begin(self, gate: Gate) -> None:
        """Begin a segment after the last leaf."""
        length = theory.segment_length(len(self._finished) + bool(self._releases), self.numbers)
        noise = theory.root_noise(self.noise_price.total, length, self.numbers)
        self.follow(gate.begin_segment(self.groups, noise, squares(length), self.size, self.number, self.sums))

    def _end(self, gate: Gate) -> None:
        assert self._segment is not None
        self.follow(gate.end_segment(self._segment.segment, self._summary() if self._releases else None))

    def follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, Advanced) and self._is_current(event.segment):
            self._edges.append(event.size)
            self._releases += event.values
        elif isinstance(event, SegmentBegun):
            self._follow_begun(event)
        elif isinstance(event, SegmentEnded) and self._concerns(event):
            self._take(event.note)
            self._follow_end()
        else:
            return
        self._windows.clear()

    def _take(self, note: Finished | None) -> None:
        if note is not None:
            # Of earlier segments, only the estimate of all their rows is still needed.
            self._finished = [*map(_whole, self._finished[:-1]), *self._finished[-1:], note]
            self._edges, self._releases = [note.end], []

    def _summary(self) -> Finished:
        """What is kept of the current segment."""
        firsts = theory.recent(len(self._releases))
        tails = [Tail(self._edges[first - 1], *self._estimate(first)) for first in firsts]
        return Finished(len(self._releases), self.size, tuple(tails))

    # -- estimates ----------------------------------------------------------------------------------------------------

    def window(self, since: int) -> Window:
        """The estimate of the rows since one of the `boundaries`."""
        if since not in self._windows:
            self._windows[since] = self._window(since)
        return self._windows[since]

    def _window(self, since: int) -> Window:
        parts: list[Window] = []
        for each in self._finished:
            tail = next((tail for tail in each.tails if tail.start >= since), None)
            if tail is not None:
                parts.append(Window(tail.start, each.end, tail.counts, Law(tail.variance)))
        if self._releases:
            first = max(1, self._edges.index(since) + 1 if since in self._edges else 1)
            counts, variance = self._estimate(first)
            parts.append(Window(self._edges[first - 1], self.size, counts, Law(variance)))
        total = parts[0]
        for part in parts[1:]:
            total += part
        assert total.start == since
        return total

    def _estimate(self, first: int) -> tuple[Floats, float]:
        """The rows of the current segment from position ``first`` on, by group, and the variance of the estimates."""
        last, segment = len(self._releases), len(self._finished)
        coefficients = theory.window_coefficients(first, last)
        length = theory.segment_length(segment, self.numbers)
        scale = theory.root_noise(self.noise_price.total, length, self.numbers).scale
        variance = scale**2 * float(np.sum(coefficients**2))
        return _combined(coefficients, self._releases), variance

    def fingerprint(self) -> str:
        """A hash of the public state."""
        digest = hashlib.sha256(repr((self._segment and self._segment.segment, self._edges, self.start)).encode())
        for each in self._finished:
            for tail in each.tails:
                digest.update(repr((tail.start, each.end, tail.variance)).encode() + tail.counts.tobytes())
        for release in self._releases:
            digest.update(release.tobytes())
        return digest.hexdigest()


def _whole(segment: Finished) -> Finished:
    return Finished(segment.leaves, segment.end, segment.tails[:1])


def _combined(coefficients: Floats, releases: Sequence[Ints]) -> Floats:
    """Σ coefficient × release. The sum is made in the order of time, so its bits depend on its terms alone."""
    total = np.zeros(len(releases[0]))
    for coefficient, release in zip(coefficients.tolist(), releases, strict=True):
        total += coefficient * release
    total.setflags(write=False)
    return total
