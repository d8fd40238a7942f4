"""Weighted counts of groups over intervals of rows: the one operation behind series, trees and histograms kept current.

*Formal guarantee.* `combine` releases, for each of m disjoint groups of cells, Σᵢ wᵢ·(rows of the group in interval i)
plus noise, with integer weights on disjoint intervals. A replaced row of interval i leaves one group and enters another
(or none): two of the m numbers move by |wᵢ| each, and one if m = 1. So the release is 2|wᵢ|/s-DP for Laplace noise of
scale s, and wᵢ²/σ²-zCDP for Gaussian noise of scale σ, for a row of interval i (half of it for m = 1), and rows outside
all intervals are not read. Each interval's rows are charged for their own weight (``budget/rows.py``).

*Sums.* For an attribute whose values are integers u with |u| ≤ R (``domain/sums.py``) the numbers of a group may be
Σᵢ wᵢ·(Σu over its rows in interval i), alone or together with R·Σᵢ wᵢ·(its rows in interval i). Let a row of interval i
be replaced, its u becoming u'. If it stays in its group, that group's sum moves by |wᵢ|·|u' − u| ≤ 2R|wᵢ| and no count
moves. If it leaves one group for another, their sums move by at most R|wᵢ| each and, where they come too, R times their
counts by R|wᵢ| each; if it leaves all groups, or enters one, half of that. So the squared L2 distance is at most
4R²wᵢ², with counts or without: max(4, 1 + 1, 1 + 1 + 1 + 1)·R²wᵢ². The L1 distance is at most 2R|wᵢ| without counts and
4R|wᵢ| with them. Hence 2R²wᵢ²/σ²-zCDP, and 2R|wᵢ|/s-DP or 4R|wᵢ|/s-DP. *A single group has no discount*: its sum moves
by 2R|wᵢ| as well.

A *segment* is a sequence of such releases about the same groups, over leaves: the rows between two releases. When a
leaf comes its rows are charged, once, for a *room*: the most that their weights, squared (for a pure budget: in
absolute value), may sum to over all releases. Releases then draw on the room, and none is made that would exceed it, so
by the same theorem, added up (``budget/promise.py``), a row never loses more than it paid. Which weights are good is
the public business of whoever calls: nothing here depends on a theorem about trees or square roots.

*What is enforced here*, on public values alone: groups are disjoint by their form; spans are disjoint, and begin and
end where rows are told apart; a leaf has at least one row; no sum can leave 64 bits.

*Time.* Rows are counted by an engine, and the time that takes depends on how many groups of them are occupied
(docs/privacy.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np

from treering.arrays import Ints
from treering.domain.axis import Axis, Scalar
from treering.domain.groups import MOST_GROUPS, Groups
from treering.domain.sums import Grid, Sums
from treering.errors import ParameterError, QueryError, SchemaError
from treering.gate import (
    Advanced,
    Combined,
    Event,
    Fading,
    Marked,
    Ones,
    Pattern,
    Root,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Span,
)
from treering.noise import Noise
from treering.params import nonempty, whole
from treering.trusted import pricing
from treering.trusted.cells import MAX_COUNT
from treering.trusted.charges import Charges, Segment, newest_last
from treering.trusted.journal import Journal
from treering.trusted.noise import check_noise, draw
from treering.trusted.operations.base import Desk
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.typed import kept as kept_of
from treering.trusted.sealed import Sealed

Released = TypeVar("Released", bound=Event)

MOST_ROOM: Final = 2**60
"""The most room of a segment, and so the largest sum of squared weights: it stays within 64 bits."""


class Combining(Sealed, ABC):
    """The kernel's operations on groups of rows, in the kernel's order: charge, read, add noise, write, release."""

    __slots__ = ()
    _charges: Charges
    _journal: Journal
    _rows: Rows
    _tallies: dict[int, Tallies]

    @abstractmethod
    def _working(self) -> AbstractContextManager[object]:
        """Hold the lock; refuse a forked child."""

    @abstractmethod
    def _release(self, event: Released) -> Released:
        """Write an event to the journal."""

    @property
    @abstractmethod
    def _desk(self) -> Desk:
        """Checks of requests on public values."""

    def left(self, position: int) -> Fraction:
        """What the row at this position may still be charged, in the budget's unit."""
        return self._charges.ledger.left(whole(position, "position"))

    def mark(self) -> Marked:
        """Tell rows up to the present size and rows after it apart from now on."""
        with self._working():
            return self._followed(Marked(self._rows.size))

    def combine(self, groups: Groups, spans: Sequence[Span], noise: Noise, sums: Sums | None = None) -> Combined:
        """Weighted counts, or sums, of groups plus noise. Cost for the rows of a span: 2|w|/s pure, w²/σ² zCDP; half of
        it for one group; of sums 2R|w|/s (with counts 4R|w|/s) pure, 2R²w²/σ² zCDP."""
        with self._working():
            self._desk.check_unreserved()
            sets, asked = checked_groups(groups, self._rows.scalars), tuple(spans)
            summed = checked_sums(sums, self._rows.scalars)
            check_noise(noise, 1)
            self._check_spans(asked, reach(summed))
            self._charges.combine(sets.number, asked, noise, summed)
            values = self._noisy_spans(sets, asked, noise, summed)
            cost = pricing.combining(sets.number, max(abs(span.weight) for span in asked), noise, summed)
            return self._release(Combined(self._rows.size, cost, sets, asked, noise, values, summed))

    def begin_segment(
        self, groups: Groups, noise: Noise, room: int, start: int = 0, series: int = 0, sums: Sums | None = None
    ) -> SegmentBegun:
        """Begin a segment of the rows after ``start``. Costs nothing before its first leaf."""
        with self._working():
            self._desk.check_unreserved()
            sets = checked_groups(groups, self._rows.scalars)
            summed = checked_sums(sums, self._rows.scalars)
            check_noise(noise, 1)
            if type(room) is not int:  # No subclass: it could compare as it likes.
                raise ParameterError("room", f"must be an integer, not {type(room).__name__}")
            if whole(room, "room") > MOST_ROOM:
                raise ParameterError("room", f"must be at most 2^60, not {room:,}")
            size = nonempty(self._rows.size, "a segment begins with rows that are there")
            self._desk.check_edge(start, "start")
            self._charges.budget.amount(pricing.combining(sets.number, 1, noise, summed))  # Refuses the wrong noise.
            number = self._charges.next_segment
            known = whole(series, "series", 0)
            return self._followed(SegmentBegun(size, number, known, start, sets, noise, room, summed))

    def advance(self, segment: int, patterns: Sequence[Pattern]) -> Advanced:
        """The next leaf of a segment, and a weighted count of leaves for each pattern. The new rows pay for the whole
        room; no other row pays anything."""
        with self._working():
            self._desk.check_unreserved()
            live, size, asked = self._segment(segment), self._rows.size, tuple(patterns)
            _check_patterns(live, asked, size)
            self._charges.advance(live, size)
            values = self._noisy_leaves(live, asked, size)
            begun = live.begun
            cost = pricing.leaf(begun.groups.number, begun.room, begun.noise, self._charges.budget, begun.sums)
            return self._followed(Advanced(size, cost, segment, live.leaves + 1, asked, values))

    def condense_segment(self, segment: int, note: Any) -> SegmentCondensed:
        """Record a note that replaces the releases of a segment so far."""
        with self._working():
            record = self._segment(segment).record
            return self._followed(SegmentCondensed(self._rows.size, segment, record.edges, record.drawn, note))

    def end_segment(self, segment: int, note: Any = None) -> SegmentEnded:
        """End a segment, and give its rows back what they paid for room that was not used."""
        with self._working():
            live = self._segment(segment)
            event = self._followed(SegmentEnded(self._rows.size, segment, live.begun.series, live.paid, note))
            self._tallies.pop(segment, None)
            return event

    # -- inside -------------------------------------------------------------------------------------------------------

    def _followed(self, event: Released) -> Released:
        """Write an event, then take up what it changes."""
        self._release(event)
        self._charges.take(event)
        return event

    def _segment(self, number: int) -> Segment:
        if number not in self._charges.segments:
            raise ParameterError("segment", f"{number} is over, or was never begun")
        return self._charges.segments[number]

    def _check_spans(self, spans: Sequence[Span], unit: int) -> None:
        """Refuse spans that overlap, or that begin or end where rows are not told apart, and sums beyond 64 bits, where
        a row counts for up to ``unit``."""
        if not spans:
            raise ParameterError("spans", "must name at least one interval of rows")
        for span in spans:
            if type(span) is not Span or type(span.weight) is not int or span.weight == 0:
                raise ParameterError("spans", "are Spans, each with an integer weight that is not 0")
            self._desk.check_edge(span.start, "spans")
            self._desk.check_edge(span.end, "spans")
            if span.start >= span.end:
                raise ParameterError("spans", "must each hold at least one row")
        ordered = sorted(spans, key=lambda span: span.start)
        if any(left.end > right.start for left, right in pairwise(ordered)):
            raise ParameterError("spans", "overlap: a row would be counted twice")
        if unit * sum(abs(span.weight) * (span.end - span.start) for span in spans) >= MAX_COUNT:
            raise ParameterError("spans", "have weights so large that weight times rows (times steps) reaches 2^61")

    def _noisy_spans(self, groups: Groups, spans: Sequence[Span], noise: Noise, sums: Sums | None) -> Ints:
        """The weighted counts, or sums, of groups over spans, plus noise."""
        values = draw(noise, 1, released(groups, sums))
        for span in spans:
            _, place, numbers = self._rows.tally(groups, (span.start, span.end), sums)
            np.add.at(values, place, span.weight * numbers)
        values.setflags(write=False)
        return values

    def _noisy_leaves(self, segment: Segment, patterns: Sequence[Pattern], size: int) -> tuple[Ints, ...]:
        """The weighted counts, or sums, of a segment's groups for each pattern, plus noise."""
        groups, noise, sums = segment.begun.groups, segment.begun.noise, segment.begun.sums
        tallies = self._tallies.setdefault(segment.begun.segment, Tallies(groups, sums))
        tallies.catch_up(self._rows, (*segment.edges, size))
        return tuple(tallies.weighted(newest_last(each), draw(noise, 1, released(groups, sums))) for each in patterns)


def _check_patterns(segment: Segment, patterns: Sequence[Pattern], size: int) -> None:
    """Refuse releases that are not possible now."""
    if size <= segment.edges[-1]:
        raise ParameterError("segment", f"has no new rows since its last leaf, which ends at {segment.edges[-1]:,}")
    for pattern in patterns:
        if type(pattern) not in (Ones, Root, Fading) or type(pattern.leaves) is not int:
            raise ParameterError("patterns", "are Ones, Root or Fading, each with a number of leaves")
    segment.check(patterns)
    largest = max((int(newest_last(pattern).max()) for pattern in patterns), default=1)
    if reach(segment.begun.sums) * largest * (size - segment.edges[0]) >= MAX_COUNT:
        raise ParameterError("patterns", "have weights so large that weight times rows (times steps) reaches 2^61")


class Tallies(Sealed):
    """PRIVATE: the counts, or sums, of a segment's groups in each of its leaves, made when they are first needed."""

    __slots__ = ("_counted", "_groups", "_sums")

    def __init__(self, groups: Groups, sums: Sums | None = None) -> None:
        self._groups, self._sums = groups, sums
        self._counted = _NOTHING
        """Where the leaves end; how many places of a release the rows of each are in; and these places and their
        numbers, leaf after leaf. It is one value: an interrupt leaves all of it or none."""

    def catch_up(self, rows: Rows, edges: tuple[int, ...]) -> None:
        """Count the leaves, which begin and end at these sizes, that are not counted yet."""
        ends, lengths, places, numbers = self._counted
        if ends != edges[1 : 1 + len(ends)]:  # A leaf was counted but not released, and is longer now.
            ends, lengths, places, numbers = _NOTHING
        fresh = edges[len(ends) :]
        leaf, place, number = rows.tally(self._groups, fresh, self._sums)
        found = np.bincount(leaf, minlength=len(fresh) - 1).tolist()
        self._counted = (
            edges[1:],
            (*lengths, *found),
            np.concatenate([places, place]),
            np.concatenate([numbers, number]),
        )

    def weighted(self, weights: Ints, onto: Ints) -> Ints:
        """Add the counts of the last leaves, weighted, onto an array."""
        ends, lengths, places, numbers = self._counted
        asked = lengths[len(ends) - len(weights) :]
        first = len(places) - sum(asked)
        np.add.at(onto, places[first:], np.repeat(weights, asked) * numbers[first:])
        onto.setflags(write=False)
        return onto


_NOTHING: Final[tuple[tuple[int, ...], tuple[int, ...], Ints, Ints]] = (
    *((), ()),
    *(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)),
)


def reach(sums: Sums | None) -> int:
    """The most that a row of weight 1 counts for in a number."""
    return 1 if sums is None else sums.reach


def released(groups: Groups, sums: Sums | None) -> int:
    """How many numbers a release has."""
    return groups.number if sums is None else sums.numbers(groups.number)


def checked_groups(groups: Groups, kept: Sequence[Scalar]) -> Groups:
    """A copy of groups, which nobody can change; refuses groups that are not about values which are kept. Their form
    makes them disjoint: that it is their form is checked."""
    if type(groups) is not Groups:
        raise QueryError(f"groups must be Groups, and no subclass, not a {type(groups).__name__}")
    if type(groups.axes) is not tuple:
        raise QueryError("the axes of groups are a tuple")
    sets = Groups(tuple(_checked_axis(each, kept) for each in groups.axes), None)
    if groups.table is not None:
        sets = Groups(sets.axes, _copied(groups.table, sets.shape, least=-1))
    if not 1 <= sets.number <= MOST_GROUPS:
        raise QueryError(f"there must be 1 to {MOST_GROUPS:,} groups, not {sets.number:,}")
    return sets


def _checked_axis(axis: Axis, kept: Sequence[Scalar]) -> Axis:
    """A copy of an axis on which every value of a scalar that is kept has a class."""
    if type(axis) is not Axis:
        raise QueryError(f"an axis must be an Axis, and no subclass, not a {type(axis).__name__}")
    scalar = _checked_scalar(axis.scalar, kept)
    dtype = np.float64 if scalar.kind == "number" else np.int64
    cuts = axis.cuts.copy() if type(axis.cuts) is np.ndarray else None
    if cuts is None or cuts.ndim != 1 or cuts.dtype != dtype or not np.isfinite(cuts).all():
        raise QueryError("the cuts of an axis are finite numbers of its scalar's type")
    listed, kind = axis.listed, _LISTED.get(scalar.kind)
    if type(listed) is not tuple or any(type(each) is not kind for each in listed) or (len(cuts) and kind is not None):
        raise QueryError("an axis lists values of its scalar's type, or cuts them")
    pieces = len(cuts) + 1 if kind is None else len(listed) + 1
    try:
        return Axis(scalar, cuts, listed, _copied(axis.classes, (pieces + 2,), least=0))
    except SchemaError as error:
        problem = str(error)
    raise QueryError(problem)


_LISTED: Final[dict[str, type]] = {"text": str, "boolean": bool, "code": int}
"""The types of values that are listed."""


def _checked_scalar(scalar: Scalar, kept: Sequence[Scalar]) -> Scalar:
    """A scalar whose values, or the dates that they are parts of, are kept."""
    if type(scalar) is not Scalar:
        raise QueryError(f"a scalar must be a Scalar, and no subclass, not a {type(scalar).__name__}")
    if kept_of(scalar) not in kept or (scalar.part is not None and scalar.kind != "integer"):
        raise QueryError(f"values of this type are not kept of the column {scalar.column!r}")
    return scalar


def checked_sums(sums: Sums | None, kept: Sequence[Scalar]) -> Sums | None:
    """Sums of numbers that are kept, on a grid that bounds them; refuses any other."""
    if sums is None:
        return None
    if type(sums) is not Sums or type(sums.counts) is not bool or type(sums.clipped) is not bool:
        raise QueryError("sums are Sums, and no subclass, with counts or without")
    scalar = _checked_scalar(sums.scalar, kept)
    if scalar.kind not in ("number", "integer"):
        raise QueryError(f"{scalar.column!r} has no sums: they are kept of integers() and numbers()")
    return Sums(scalar, _checked_grid(sums.grid), sums.clipped, sums.counts)


def _checked_grid(grid: Grid) -> Grid:
    """A grid on which no value between its bounds is more than R half steps from the middle. (The steps of a value grow
    with it, so the last value before the upper bound shows it.)"""
    fits = type(grid) is Grid and all(type(each) is float for each in (grid.low, grid.high, grid.step))
    if not fits or type(grid.steps) is not int or not 1 <= grid.steps < MAX_COUNT:
        raise QueryError("the grid of sums is a Grid, of floats and a number of steps")
    if not (math.isfinite(grid.low) and math.isfinite(grid.high) and grid.low <= grid.high and grid.step > 0):
        raise QueryError("the grid of sums has finite bounds and a positive step")
    if math.floor((math.nextafter(grid.high, grid.low) - grid.low) / grid.step + 0.5) > grid.steps:
        raise QueryError("the grid of sums has more steps between its bounds than it says")
    return grid


def _copied(given: Any, shape: tuple[int, ...], least: int) -> Ints:
    """A copy of the classes of an axis, or of the groups of joint classes; refuses any other array."""
    if type(given) is np.ndarray and given.dtype == np.int64:
        labels: Ints = given.copy()  # First: whoever holds the array may change it.
        if labels.shape == shape and labels.size > 0 and int(labels.min()) >= least:
            return labels
    raise QueryError(
        f"classes of values, and groups of joint classes, are 64-bit integers from {least} on, one for each"
    )
