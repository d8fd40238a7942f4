"""A series by square roots, for zCDP: `treering.theory.series` has the weights, the estimates and their variances.

A series is a sequence of segments of the gate. Within a segment each leaf's release is a combination of all its leaves,
and estimates are combinations of all its releases. When it is complete, the estimates that are still needed are kept
instead of the releases.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.promise import Budget
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.domain.sums import Capped, Kept
from treering.gate import Advanced, Event, Fading, Root, SegmentBegun, SegmentEnded
from treering.mechanisms.series.base import Series, Window
from treering.protocols import Gate
from treering.theory import series as theory
from treering.theory.continual import Law

NO_RELEASES: Final[Ints] = np.zeros((0, 0), dtype=np.int64)
_PATTERNS: Final[dict[Weights, type[Root] | type[Fading]]] = {Weights.ROOT: Root, Weights.FADING: Fading}


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


@dataclass(frozen=True, slots=True, eq=False)
class KeptRoots:
    """NOTE: the whole state of a series: what is kept of segments that are over, the sizes at which the leaves of the
    current one begin and end, and its releases, a row for each leaf."""

    finished: tuple[Finished, ...]
    edges: Ints
    releases: Ints


class RootSeries(Series):
    """Prefix sums by the square root factorisation: a segment of one leaf, then long ones.

    Guarantee: the releases cost each row that the series has counted at most the price, in zCDP, and no other row
    anything (`treering.theory.series`; the kernel enforces it). Estimates are unbiased, with the variance that their
    `Window` states as an upper bound, whichever public moments the leaves are cut at.
    """

    notes = (KeptRoots, Finished, Tail)

    def __init__(
        self, groups: Groups, price: Budget, start: int = 0, number: int = 0, sums: Kept | None = None
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
        return (*tails, *self._recent(len(self._releases))) or (self.start,)

    def _recent(self, leaves: int) -> list[int]:
        """The sizes at which periods of the current segment may begin, once it has so many leaves."""
        return [self._edges[first - 1] for first in theory.recent(leaves)] if leaves else []

    @property
    def next_price(self) -> Fraction:
        """What the rows of the next leaf will have paid once it is there: the last of a segment gets back what is set
        aside for releases that will not come. (Persons pay for all segments, and get nothing back.)"""
        if isinstance(self.sums, Capped):
            return self.price.total
        weights, length, leaves = self._unfinished(self.size + 1)[-1]
        return self.price.total * weights.squares(1) / weights.squares(length) if leaves == length else self.price.total

    # -- segments -----------------------------------------------------------------------------------------------------

    @property
    def _rule(self) -> tuple[Weights, int]:
        """The weights and the number of leaves of the current segment, or of the next one, if there is none."""
        if self._segment is not None:
            return theory.segment_rule(self._segment.room, self.numbers)
        return self._rule_after(each.leaves for each in self._finished)

    def _rule_after(self, before: Iterable[int]) -> tuple[Weights, int]:
        """The same of a segment after others of so many leaves: the first leaf is one by itself; after a long segment
        there are more."""
        lengths, longest = list(before), theory.segment_length(1, self.numbers)
        return theory.segment_weights(1 + (longest in lengths)), longest if lengths else 1

    @property
    def _rule_of_next(self) -> tuple[Weights, int]:
        """The same of the segment after the current one, which may have been begun already."""
        if self._next is not None:
            return theory.segment_rule(self._next.room, self.numbers)
        return self._rule_after([*(each.leaves for each in self._finished), len(self._releases)])

    @property
    def _complete(self) -> bool:
        return bool(self._releases) and len(self._releases) == self._rule[1]

    # -- releasing ----------------------------------------------------------------------------------------------------

    def advance(self, gate: Gate) -> None:
        """Make the rows since the last leaf, if there are any, the next leaf."""
        if gate.size <= self.size:
            return
        self._turn(gate)
        if self._segment is None:
            self._begin(gate)
        assert self._segment is not None
        pattern = _PATTERNS[self._rule[0]](len(self._releases) + 1)
        self.follow(gate.advance(self._segment.segment, [pattern]))
        self._turn(gate)

    def _begin(self, gate: Gate) -> None:
        """Begin a segment after the last leaf."""
        weights, length = self._rule_of_next if self._releases else self._rule
        noise = theory.release_noise(self.noise_price.total, length, self.numbers, weights)
        self.follow(gate.begin_segment(self.groups, noise, weights.squares(length), self.size, self.number, self.sums))

    def _end(self, gate: Gate) -> None:
        assert self._segment is not None
        self.follow(gate.end_segment(self._segment.segment, self._summary() if self._releases else None))

    def follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, Advanced) and self._is_current(event.segment):
            self._edges.append(event.size)
            self._releases += event.values
            self.fresh += sum(map(len, event.values))
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
        parts = [Window(tail.start, end, tail.counts, Law(tail.variance)) for tail, end in self._tails(since)]
        if self._releases:
            first = self._first(since)
            counts, variance = self._estimate(first)
            parts.append(Window(self._edges[first - 1], self.size, counts, Law(variance)))
        total = parts[0]
        for part in parts[1:]:
            total += part
        assert total.start == since
        return total

    def _tails(self, since: int) -> Iterator[tuple[Tail, int]]:
        """The estimates of finished segments, as far as they are about rows since a size, and where they end."""
        for each in self._finished:
            tail = next((tail for tail in each.tails if tail.start >= since), None)
            if tail is not None:
                yield tail, each.end

    def _first(self, since: int) -> int:
        """The position in the current segment at which the rows since a size begin."""
        return self._edges.index(since) + 1 if since in self._edges else 1

    def _estimate(self, first: int) -> tuple[Floats, float]:
        """The rows of the current segment from position ``first`` on, by group, and the variance of the estimates."""
        weights, length = self._rule
        coefficients = theory.window_coefficients(first, len(self._releases), weights)
        return _combined(coefficients, self._releases), self._variance(weights, length, first, len(self._releases))

    def _variance(self, weights: Weights, length: int, first: int, last: int) -> float:
        """The variance of an estimate of the positions ``first`` to ``last`` of a segment."""
        noise = theory.release_noise(self.noise_price.total, length, self.numbers, weights)
        return noise.scale**2 * theory.energy(first, last, weights)

    # -- what the next leaf will bring --------------------------------------------------------------------------------

    def _unfinished(self, size: int) -> list[tuple[Weights, int, int]]:
        """The segments of which releases are kept, once the series is current at a size: the weights, how many leaves
        each has in the end, and how many then."""
        leaves, more = len(self._releases), size > self.size or not self.leaf
        if more and self._complete:  # An interrupt has left it so.
            return [(*self._rule, leaves), (*self._rule_of_next, 1)]
        return [(*self._rule, leaves + more)] if leaves + more else []

    def next_starts(self, size: int) -> tuple[int, ...]:
        """The `boundaries` once the series is current at a size."""
        if size <= self.size:
            return self.boundaries
        finished, current = [[tail.start for tail in each.tails] for each in self._finished], list[int]()
        for place, (_, length, leaves) in enumerate(self._unfinished(size)):
            current = [self.size] if place else self._recent(leaves)
            if leaves == length:
                finished, current = [*(each[:1] for each in finished[:-1]), *finished[-1:], current], []
        return (*chain.from_iterable(finished), *current)

    def next_law(self, size: int, since: int) -> Law:
        """The law of the noise of a group's number since one of the `next_starts`, once the series is current."""
        parts = [tail.variance for tail, _ in self._tails(since)]
        for first, (weights, length, leaves) in zip((self._first(since), 1), self._unfinished(size), strict=False):
            if first <= leaves:
                parts.append(self._variance(weights, length, first, leaves))
        return Law(math.fsum(parts))

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @property
    def kept(self) -> int:
        """How many numbers `keep` holds, about."""
        return len(self._releases) * self.numbers

    def keep(self) -> KeptRoots:
        """A note of the whole public state, but for the segments of the gate that are open."""
        releases = np.stack(self._releases) if self._releases else NO_RELEASES.copy()
        releases.setflags(write=False)
        self._releases, self.fresh = list(releases), 0  # They are not kept twice.
        return KeptRoots(tuple(self._finished), np.array(self._edges, dtype=np.int64), releases)

    def restore(self, note: KeptRoots, segments: Sequence[SegmentBegun]) -> None:
        """Go on from a note of `keep`, with the segments of this series that are open."""
        self._finished, self._edges, self._releases = list(note.finished), note.edges.tolist(), list(note.releases)
        self._reopen(segments)

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
