"""Segments: sequences of weighted counts of the same groups, over leaves, the rows between two releases.

*Formal guarantee.* When a leaf comes its rows are charged, once, for a *room*: the most that their weights, squared
(for a pure budget: in absolute value), may sum to over all releases. Each release is one as `Combining` makes it
(``operations/combine.py``). Releases draw on the room, and none is made that would exceed it, so by the same theorem,
added up (``budget/promise.py``), a row never loses more than it paid. Which weights are good is the public business of
whoever calls: nothing here depends on a theorem about trees or square roots.

*What is enforced here*, on public values alone: a leaf has at least one row; no leaf has less room than its releases
use; no sum can leave 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.domain.groups import Groups
from treering.domain.sums import Capped, Kept
from treering.errors import ParameterError
from treering.gate import (
    Advanced,
    Coming,
    Fading,
    Marked,
    Ones,
    Pattern,
    Root,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
)
from treering.params import nonempty, whole
from treering.trusted import pricing
from treering.trusted.cells import MAX_COUNT
from treering.trusted.charges import Charges, Segment, newest_last
from treering.trusted.noise import check_noise, draw
from treering.trusted.operations import groups as checks
from treering.trusted.operations.base import Desk, Operation, Prepaid, Released
from treering.trusted.rows.kept import Need, Rows
from treering.trusted.rows.tally import Numbers
from treering.trusted.sealed import Sealed

MOST_ROOM: Final = 2**60
"""The most room of a segment, and so the largest sum of squared weights: it stays within 64 bits."""


class _Public(Prepaid[Released, Released]):
    """A public step: its event says it all."""

    __slots__ = ()

    def perform(self, checked: Released, cost: Cost, desk: Desk) -> Released:
        """No row is read."""
        return checked

    def record(self, event: Released, desk: Desk) -> None:
        """Write the event, then take up what it changes."""
        desk.journal.write(event)
        self.follow(event, desk.charges)


class Marking(_Public[Marked]):
    """Rows up to the present size and rows after it can be told apart from now on."""

    __slots__ = ()
    event = Marked

    def check(self, desk: Desk, *request: Any) -> Marked:
        """Nothing is refused."""
        return Marked(desk.size)

    def follow(self, event: Marked, charges: Charges) -> None:
        """Add a mark."""
        charges.mark(event.size)


class Beginning(_Public[SegmentBegun]):
    """A segment of the rows after a size. Costs nothing before its first leaf."""

    __slots__ = ()
    event = SegmentBegun

    def check(self, desk: Desk, *request: Any) -> SegmentBegun:
        """Refuse groups, noise, room and a start that cannot be."""
        groups, noise, room, start, series, sums = request
        desk.check_unreserved()
        sets, summed = checks.checked_groups(groups, desk.rows.scalars), self._checked_sums(sums, desk)
        check_noise(noise, 1)
        if type(room) is not int:  # No subclass: it could compare as it likes.
            raise ParameterError("room", f"must be an integer, not {type(room).__name__}")
        if whole(room, "room") > MOST_ROOM:
            raise ParameterError("room", f"must be at most 2^60, not {room:,}")
        size = nonempty(desk.size, "a segment begins with rows that are there")
        desk.check_edge(start, "start")
        desk.charges.budget.amount(pricing.combining(sets.number, 1, noise, summed))  # Refuses the wrong noise.
        known = whole(series, "series", 0)
        return SegmentBegun(size, desk.charges.next_segment, known, start, sets, noise, room, summed)

    def _checked_sums(self, sums: Any, desk: Desk) -> Kept | None:
        return checks.checked_sums(sums, desk.rows.scalars)

    def follow(self, event: SegmentBegun, charges: Charges) -> None:
        """The segment is in progress."""
        charges.begin_segment(event)


class Condensing(_Public[SegmentCondensed]):
    """A note replaces the releases of a segment so far."""

    __slots__ = ()
    event = SegmentCondensed

    def check(self, desk: Desk, *request: Any) -> SegmentCondensed:
        """Refuse a segment that is over."""
        number, note = request
        record = named(desk, number).record
        return SegmentCondensed(desk.size, number, record.edges, record.drawn, note)

    def follow(self, event: SegmentCondensed, charges: Charges) -> None:
        """The segment is as the event has it."""
        charges.reopen(event.segment, event.edges, event.drawn)


class Ending(_Public[SegmentEnded]):
    """A segment is over, and its rows get back what they paid for room that was not used."""

    __slots__ = ()
    event = SegmentEnded

    def check(self, desk: Desk, *request: Any) -> SegmentEnded:
        """Refuse a segment that is over."""
        number, note = request
        live = named(desk, number)
        return SegmentEnded(desk.size, number, live.begun.series, live.paid, note)

    def record(self, event: SegmentEnded, desk: Desk) -> None:
        """Write the event, give back, and forget the leaves."""
        desk.journal.write(event)
        desk.charges.end_segment(event)
        desk.own(Leaves).forget(event.segment)

    def follow(self, event: SegmentEnded, charges: Charges) -> None:
        """Put what the rows have paid in the place of their room. `BudgetExceeded` if no kernel wrote the record."""
        charges.end_segment(event)
        charges.check()


def named(desk: Desk, number: int) -> Segment:
    """A segment in progress; refuses any other."""
    if number not in desk.charges.segments:
        raise ParameterError("segment", f"{number} is over, or was never begun")
    return desk.charges.segments[number]


# -- leaves ------------------------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A checked request."""

    segment: Segment
    patterns: tuple[Pattern, ...]
    size: int


class Advancing(Operation[Leaf, Advanced]):
    """The next leaf of a segment, and a weighted count of leaves for each pattern. The new rows pay for the whole room;
    no other row pays anything."""

    __slots__ = ()
    event = Advanced

    def check(self, desk: Desk, *request: Any) -> Leaf:
        """Refuse a leaf without rows, and releases for which a leaf has no room."""
        number, patterns = request
        desk.check_unreserved()
        leaf = Leaf(named(desk, number), tuple(patterns), desk.size)
        _check_patterns(*leaf)
        return leaf

    def price(self, checked: Leaf, desk: Desk) -> Cost:
        """The whole room."""
        begun = checked.segment.begun
        return pricing.leaf(begun.groups.number, begun.room, begun.noise, desk.charges.budget, begun.sums)

    def needs(self, checked: Leaf, desk: Desk) -> list[Need]:
        """The leaves that are not counted yet."""
        return [need_of(checked.segment, desk)]

    def coming(self, leaves: Sequence[Coming], desk: Desk) -> list[Need]:
        """What leaves that are to come read of the rows."""
        return [
            _first(leaf, desk) if leaf.segment is None else need_of(named(desk, leaf.segment), desk) for leaf in leaves
        ]

    def charge(self, checked: Leaf, cost: Cost, desk: Desk) -> None:
        """Charge the rows since the last leaf."""
        desk.charges.advance(desk.charges.segments[checked.segment.begun.segment], checked.size)

    def perform(self, checked: Leaf, cost: Cost, desk: Desk) -> Advanced:
        """The noisy counts, or sums."""
        live, patterns, size = checked
        noisy = _noisy(checked, desk, self._tallies(live.begun, desk))
        return Advanced(size, cost, live.begun.segment, live.leaves + 1, patterns, noisy)

    def _tallies(self, begun: SegmentBegun, desk: Desk) -> Tallies:
        return desk.own(Leaves).of(begun)

    def record(self, event: Advanced, desk: Desk) -> None:
        """Write the event, then take the leaf up."""
        desk.journal.write(event)
        desk.charges.segments[event.segment].take(event)

    def follow(self, event: Advanced, charges: Charges) -> None:
        """Take the leaf up. It is charged later: of a long life there are very many."""
        charges.take(event)


def need_of(segment: Segment, desk: Desk) -> Need:
    """What the next leaf of a segment reads of the rows."""
    begun = segment.begun
    edges = desk.own(Leaves).of(begun).uncounted((*segment.edges, desk.size))
    return Need(begun.groups, edges, begun.sums)


def _first(leaf: Coming, desk: Desk) -> Need:
    desk.check_edge(leaf.start, "start")
    kept, edges = desk.rows.scalars, (leaf.start, desk.size)
    return Need(checks.checked_groups(leaf.groups, kept), edges, checks.checked_sums(leaf.sums, kept))


def _check_patterns(segment: Segment, patterns: Sequence[Pattern], size: int) -> None:
    """Refuse releases that are not possible now."""
    if size <= segment.edges[-1]:
        raise ParameterError("segment", f"has no new rows since its last leaf, which ends at {segment.edges[-1]:,}")
    for pattern in patterns:
        if type(pattern) not in (Ones, Root, Fading) or type(pattern.leaves) is not int:
            raise ParameterError("patterns", "are Ones, Root or Fading, each with a number of leaves")
    segment.check(patterns)
    largest = max((int(newest_last(pattern).max()) for pattern in patterns), default=1)
    if checks.reach(segment.begun.sums) * largest * (size - segment.edges[0]) >= MAX_COUNT:
        raise ParameterError("patterns", "have weights so large that weight times rows (times steps) reaches 2^61")


def _noisy(leaf: Leaf, desk: Desk, tallies: Tallies) -> tuple[Ints, ...]:
    """The weighted counts, or sums, of a segment's groups for each pattern, plus noise."""
    begun = leaf.segment.begun
    tallies.catch_up(desk.rows, (*leaf.segment.edges, leaf.size))
    numbers = checks.released(begun.groups, begun.sums)
    return tuple(tallies.weighted(newest_last(each), draw(begun.noise, 1, numbers)) for each in leaf.patterns)


class Leaves(Sealed):
    """PRIVATE: the tallies of the segments in progress."""

    __slots__ = ("tallies",)

    def __init__(self) -> None:
        self.tallies: dict[int, Tallies] = {}

    def of(self, begun: SegmentBegun) -> Tallies:
        """The tallies of a segment."""
        return self.tallies.setdefault(begun.segment, Tallies(begun.groups, begun.sums))

    def forget(self, segment: int) -> None:
        """The segment is over."""
        self.tallies.pop(segment, None)


class Tallies(Sealed):
    """PRIVATE: the counts, or sums, of a segment's groups in each of its leaves, made when they are first needed."""

    __slots__ = ("_counted", "_groups", "_sums")

    def __init__(self, groups: Groups, sums: Kept | None = None) -> None:
        self._groups, self._sums = groups, sums
        self._counted = _NOTHING
        """Where the leaves end; how many places of a release the rows of each are in; and these places and their
        numbers, leaf after leaf. It is one value: an interrupt leaves all of it or none."""

    def uncounted(self, edges: tuple[int, ...]) -> tuple[int, ...]:
        """Where the leaves, which begin and end at these sizes, begin and end that are not counted yet."""
        ends = self._counted[0]
        return edges[len(ends) :] if ends == edges[1 : 1 + len(ends)] else edges

    def catch_up(self, rows: Rows, edges: tuple[int, ...]) -> None:
        """Count the leaves, which begin and end at these sizes, that are not counted yet."""
        fresh = self.uncounted(edges)
        # If all are not: a leaf was counted but not released, and is longer now.
        _, lengths, places, numbers = self._counted if len(fresh) < len(edges) else _NOTHING
        leaf, place, number = self._tally(rows, fresh)
        found = np.bincount(leaf, minlength=len(fresh) - 1).tolist()
        self._counted = (
            edges[1:],
            (*lengths, *found),
            np.concatenate([places, place]),
            np.concatenate([numbers, number]),
        )

    def _tally(self, rows: Rows, edges: tuple[int, ...]) -> Numbers:
        assert not isinstance(self._sums, Capped)  # `treering.trusted.operations.persons` counts those.
        return rows.tally(self._groups, edges, self._sums)

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
