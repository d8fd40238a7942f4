"""The series that `Rings` has opened: a fold over the events of the gate, and the one place that moves them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from treering.arrays import Ints
from treering.domain.query import Query
from treering.domain.sums import Sums, sums_of
from treering.gate import (
    Advanced,
    Condensed,
    Discovered,
    Discovery,
    Event,
    Noted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
)
from treering.mechanisms.series.changes import Changed, Held
from treering.mechanisms.series.ring import KeptRings, Opened, Ring, SeriesState
from treering.protocols import Gate

RLock: TypeAlias = AbstractContextManager[Any]


class Shelf:
    """All series of a gate, the oldest first.

    `moves` tells two states of it apart, for those who read it while others move it: odd while a move is under way.
    """

    def __init__(self, gate: Gate, beta: float) -> None:
        """The series that the gate's history tells of."""
        self._gate, self._beta = gate, beta
        self.rings: list[Ring] = []
        self.found: list[Discovered] = []
        """What was discovered, the oldest first."""
        self.moves = 0
        self._segments: dict[int, Ring] = {}
        self._condensed = 0
        """How many numbers the last checkpoint holds."""
        for event in gate.history:
            self._follow(event)

    def made(self, opened: Opened) -> Ring:
        """A series that was not opened yet."""
        return Ring(opened, self._gate.budget.kind, self._beta, self._gate.rows_between)

    def sums(self, position: int) -> Sums:
        """The sums of the attribute at a position, as a series keeps them."""
        return sums_of(self._gate.schema, position, counts=self._gate.budget.kind != "pure")

    # -- what is current ----------------------------------------------------------------------------------------------

    def counting(self, queries: Sequence[Query], since: int | None) -> Iterator[tuple[Ring, list[Query]]]:
        """The series that are up to date, each with the queries that it answers."""
        size = self._gate.size
        for ring in self.rings:
            if ring.series.size == size and ring.reaches(since, size):
                able = [query for query in queries if ring.covers(query)]
                if able:
                    yield ring, able

    def summing(self, position: int, queries: Sequence[Query]) -> Iterator[tuple[Ring, list[Query]]]:
        """The series that are up to date and sum an attribute, each with the queries that it answers."""
        sums, size = self.sums(position), self._gate.size
        for ring in self.rings:
            able = [query for query in queries if ring.sums_up(sums, query)] if ring.series.size == size else []
            if able:
                yield ring, able

    def described(self, ring: Ring) -> SeriesState:
        """A series as it is shown."""
        return ring.described(self._gate.schema, self._gate.size)

    # -- moving -------------------------------------------------------------------------------------------------------

    def move(self, stale: Sequence[Ring], fresh: Sequence[Ring]) -> None:
        """Bring series up to date, and open new ones, in one step."""
        if not stale and not fresh:
            return
        self.moves += 1
        try:
            self._gate.prepare([ring.series.coming for ring in (*stale, *fresh)])
            with self._gate.transaction():
                for ring in stale:
                    self._advance(ring)
                for ring in fresh:
                    self._gate.note(ring.opened)
                    self.rings.append(ring)
                    self._advance(ring)
        finally:
            self.moves += 1

    def change(self, counted: Sequence[int], ended: Sequence[int]) -> None:
        """Take up that rows are erased or corrected, of which each series has ``counted`` so many, and end some
        series."""
        self.moves += 1
        try:
            for number in ended:
                self.rings[number].series.close(self._gate)
            note = Changed(tuple(counted), tuple(ended))
            self._gate.note(note)
            self._take_up(note)
        finally:
            self.moves += 1

    def _take_up(self, note: Changed) -> None:
        for ring, more in zip(self.rings, note.counted, strict=True):
            ring.changed += more
            ring.ended = ring.ended or ring.number in note.ended

    def clear(self) -> None:
        """Make all estimates anew."""
        self.moves += 2
        for ring in self.rings:
            ring.clear()

    @property
    def changed(self) -> bool:
        """Whether some series has counted rows that were erased or corrected since."""
        return any(ring.changed and not ring.ended for ring in self.rings)

    def discover(self, request: Discovery) -> Discovered:
        """Have values of a column told that enough rows have."""
        self.moves += 1
        try:
            event = self._gate.discover(request)
            self.found.append(event)
            return event
        finally:
            self.moves += 1

    def _advance(self, ring: Ring) -> None:
        ring.series.advance(self._gate)
        ring.clear()

    def _follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, Advanced | SegmentCondensed):
            self._segments[event.segment].series.follow(event)
        elif isinstance(event, Noted) and isinstance(event.note, Opened):
            self.rings.append(self.made(event.note))
        elif isinstance(event, Noted) and isinstance(event.note, Changed):
            self._take_up(event.note)
        elif isinstance(event, SegmentBegun | SegmentEnded):
            ring = self.rings[event.series]
            self._segments[event.segment] = ring
            ring.series.follow(event)
        elif isinstance(event, Discovered):
            self.found.append(event)
        elif isinstance(event, Condensed):
            self._restore(event)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due. It holds all releases of segments in progress, so none is before a quarter as
        many were made since the last: all checkpoints together hold at most five times what was released."""
        fresh = sum(ring.series.fresh for ring in self.rings)
        return bool(self.rings) and 4 * fresh >= self._condensed

    def condense(self) -> None:
        """Write a checkpoint."""
        self._gate.condense(KeptRings(tuple(ring.keep() for ring in self.rings), tuple(self.found)))
        self._condensed = self._kept

    @property
    def _kept(self) -> int:
        """How many numbers a checkpoint would hold."""
        return sum(ring.series.kept for ring in self.rings)

    def _restore(self, event: Condensed) -> None:
        self.rings, self._segments, self.found = [], {}, list(event.note.found)
        for kept in event.note.rings:
            ring = self.made(kept.opened)
            segments = [each.begun for each in event.segments if each.begun.series == ring.number]
            ring.restore(kept.state, segments)
            ring.changed, ring.ended = kept.changed, kept.ended
            self._segments |= dict.fromkeys((each.segment for each in segments), ring)
            self.rings.append(ring)
        self._condensed = self._kept

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    def prices(self) -> Fraction:
        """The sum of the prices of all series, and of what was discovered."""
        found = sum((event.cost.rho for event in self.found), Fraction(0))
        return found + sum((ring.series.price.total for ring in self.rings), Fraction(0))

    def fingerprint(self) -> str:
        """A hash of the public state."""
        prints = [(ring.series.price.total, ring.series.fingerprint(), ring.changed, ring.ended) for ring in self.rings]
        return hashlib.sha256(repr((prints, self.found)).encode()).hexdigest()


class Shelving:
    """What rows that are erased or corrected do to the series of a shelf. (See `Changing`.)"""

    def __init__(self, shelf: Shelf, lock: RLock, taking_up: Callable[[], AbstractContextManager[None]]) -> None:
        self._shelf, self._lock, self._taking_up = shelf, lock, taking_up

    def holding(self, positions: Ints) -> list[Held]:
        """See `Changing.holding`."""
        pairs = zip(self._shelf.rings, self._counted(positions), strict=True)
        states = [(ring.number, self._shelf.described(ring), rows) for ring, rows in pairs if rows]
        return [Held(number, state.attributes, rows, state.margin) for number, state, rows in states]

    def change(self, positions: Ints, *, end: bool) -> None:
        """See `Changing.change`."""
        with self._lock, self._taking_up():
            counted = self._counted(positions)
            ended = [number for number, rows in enumerate(counted) if rows and end]
            self._shelf.change([0 if number in ended else rows for number, rows in enumerate(counted)], ended)

    def recount(self) -> None:
        """See `Changing.recount`."""
        with self._lock:
            self._shelf.clear()

    def _counted(self, positions: Ints) -> list[int]:
        """How many of these rows each series that goes on has counted."""
        ends = [0 if ring.ended else ring.series.size for ring in self._shelf.rings]
        return np.searchsorted(positions, ends, side="right").tolist() if ends else []
