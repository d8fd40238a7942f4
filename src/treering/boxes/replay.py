"""A gate that replays recorded events: how a box is run again without touching anything private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, TypeVar

from treering.budget.cost import Cost, exponential
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.problem import Minimise
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Kept, Sums
from treering.domain.tally import Tally
from treering.errors import ParameterError, TreeringError
from treering.gate import (
    Advanced,
    Combined,
    Coming,
    Compared,
    Condensed,
    Discovered,
    Discovery,
    Event,
    ForeignReleased,
    HistogramReleased,
    Marked,
    Measured,
    Minimised,
    Noted,
    Pattern,
    PersonsCounted,
    Reserved,
    RowsDrawn,
    RunEnded,
    RunRequest,
    RunStarted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Selected,
    Span,
    Tallied,
    Told,
)
from treering.noise import Noise
from treering.params import exact_scale

Recorded = TypeVar("Recorded", bound=Event)

_BY_ROW: Final = "is reserved: groups are charged by row, which a reserved part is not"


class RecordedGate:
    """The gate of a box's run that is over: each operation returns the next recorded event, which must be of its kind.

    A box is deterministic given what the gate returns, so running it over the record gives its release again. An
    operation of another kind than the recorded one, or one more than were recorded, is an error; so is one with other
    arguments than were recorded. (Not compared are what a record does not have, bars, estimates and the measurement of
    `foreign`, and the request of `minimise`, which its box compares: a method may begin elsewhere. Of notes, the types
    are.) What a box cannot do, because it runs within a reservation, is refused as it was then.

    ``size`` is the number of rows at the time, ``budget`` what the run could spend, ``events`` the record.
    """

    def __init__(self, schema: Schema, size: int, budget: Budget, events: Sequence[Event]) -> None:
        self._schema = schema
        self._size = size
        self._budget = budget
        self._events = list(events)
        self._given = 0
        self._spent = Fraction(0)

    @property
    def schema(self) -> Schema:
        """The universe."""
        return self._schema

    @property
    def size(self) -> int:
        """The number of rows at the time of the run."""
        return self._size

    def rows_between(self, start: int, end: int) -> int:
        """The number of rows after position ``start``, up to ``end``."""
        return end - start

    @property
    def budget(self) -> Budget:
        """What the run could spend."""
        return self._budget

    @property
    def spent(self) -> Fraction:
        """The cost of the events returned so far, less what they gave back."""
        return self._spent

    @property
    def history(self) -> Sequence[Event]:
        """The events returned so far."""
        return tuple(self._events[: self._given])

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """Refused: a record holds no prices."""
        raise TreeringError("a record has no prices: a box derives its noise from its budget")

    def cost_of_run(self, request: RunRequest) -> Cost:
        """Refused: a record holds no prices."""
        raise TreeringError("a record has no prices: a box derives its noise from its budget")

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """The recorded answers."""
        event = self._next(Measured)
        _same((event.noise, event.queries), (noise, tuple(queries)))
        return event

    def begin_run(self, request: RunRequest) -> RunStarted:
        """The recorded start of a run."""
        event = self._next(RunStarted)
        _same(event.request, request)
        return event

    def first_exceeding(
        self,
        run: int,
        queries: Sequence[Query],
        bars: Sequence[int],
        estimates: Sequence[int] | None = None,
        reach: int | None = None,
    ) -> Compared:
        """The recorded comparison. (A journal keeps consecutive easy ones as one event: they are taken apart again.)"""
        event = self._next(Compared)
        if event.crossing is None and event.asked > len(queries):
            event, rest = replace(event, asked=len(queries)), replace(event, asked=event.asked - len(queries))
            self._events[self._given - 1 : self._given] = [event, rest]
        compared = len(queries) if event.crossing is None else min(len(queries), event.crossing.index + 1)
        _same((event.run, event.asked), (run, compared))
        return event

    def end_run(self, run: int) -> RunEnded:
        """The recorded end of a run."""
        event = self._next(RunEnded)
        _same(event.run, run)
        self._spent -= event.refund
        return event

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """The recorded histogram."""
        event = self._next(HistogramReleased)
        chosen = range(len(self._schema.names)) if attributes is None else attributes
        _same((event.noise, event.attributes), (noise, tuple(chosen)))
        return event

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """The recorded selection."""
        event = self._next(Selected)
        _same((event.queries, event.cost), (tuple(queries), _choosing(queries, scale)))
        return event

    def draw_rows(self, queries: Sequence[Query], rows: int, scale: float) -> RowsDrawn:
        """The recorded synthetic rows."""
        event = self._next(RowsDrawn)
        _same((event.queries, event.rows, event.cost), (tuple(queries), rows, _choosing(queries, scale)))
        return event

    def foreign(self, measurement: Any) -> ForeignReleased:
        """The recorded output of the measurement."""
        return self._next(ForeignReleased)

    def combine(self, groups: Groups, spans: Sequence[Span], noise: Noise, sums: Sums | None = None) -> Combined:
        """Refused: a box runs within a reservation."""
        raise ParameterError("part", _BY_ROW)

    def begin_segment(
        self, groups: Groups, noise: Noise, room: int, start: int = 0, series: int = 0, sums: Kept | None = None
    ) -> SegmentBegun:
        """Refused: a box runs within a reservation."""
        raise ParameterError("part", _BY_ROW)

    def advance(self, segment: int, patterns: Sequence[Pattern]) -> Advanced:
        """Refused: a box runs within a reservation."""
        raise ParameterError("part", _BY_ROW)

    def prepare(self, leaves: Sequence[Coming] | None = None) -> None:
        """Does nothing: nothing is counted."""

    def condense_segment(self, segment: int, note: Any) -> SegmentCondensed:
        """Refused: segments are the mechanism's own."""
        raise ParameterError("part", _BY_ROW)

    def end_segment(self, segment: int, note: Any = None) -> SegmentEnded:
        """Refused: segments are the mechanism's own."""
        raise ParameterError("part", _BY_ROW)

    def count_persons(self) -> PersonsCounted:
        """The recorded number."""
        return self._next(PersonsCounted)

    def mark(self) -> Marked:
        """The recorded mark."""
        return self._next(Marked)

    def left(self, position: int) -> Fraction:
        """Refused: a record holds no prices."""
        raise TreeringError("a record has no prices: a box derives its noise from its budget")

    def minimise(
        self, request: Minimise, rows: tuple[int, int] | None = None, *, held: int = 0, progress: Told | None = None
    ) -> Minimised:
        """The recorded model."""
        event = self._next(Minimised)
        _same((event.rows, event.held), (rows, held or None))
        return event

    def tally(self, request: Tally, noise: Noise) -> Tallied:
        """The recorded counts."""
        event = self._next(Tallied)
        _same((event.tally, event.noise), (request, noise))
        return event

    def discover(self, request: Discovery) -> Discovered:
        """The recorded values."""
        event = self._next(Discovered)
        _same(event.request, request)
        return event

    def condense(self, note: Any) -> Condensed:
        """Refused: a box runs within a reservation."""
        raise ParameterError("note", "cannot replace events within a reservation")

    def note(self, note: Any) -> Noted:
        """The recorded note."""
        event = self._next(Noted)
        _same(type(event.note), type(note))
        return event

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Does nothing: nothing is written."""
        yield

    def mend(self) -> None:
        """Does nothing: a record is whole."""

    def reserve(self, part: Budget) -> AbstractContextManager[Reserved]:
        """Refused: a box runs within a reservation."""
        raise ParameterError("part", "cannot be reserved within another reservation")

    def _next(self, kind: type[Recorded]) -> Recorded:
        if self._given == len(self._events):
            raise TreeringError("the run asks for more than is on record")
        event = self._events[self._given]
        if not isinstance(event, kind):
            raise TreeringError(f"the run asks for {kind.__name__}, and {type(event).__name__} is on record")
        self._given += 1
        cost = getattr(event, "cost", None)
        if isinstance(cost, Cost):
            self._spent += self._budget.amount(cost)
        return event


def _choosing(queries: Sequence[Query], scale: float) -> Cost:
    """What the exponential mechanism costs: a record has this in place of the scale."""
    ratio = max((Fraction(query.spread, query.scale) for query in queries), default=Fraction(0))
    return exponential(ratio, exact_scale(scale, "scale"))


def _same(recorded: object, asked: object) -> None:
    if recorded != asked:
        raise TreeringError("the run asks for something else than is on record, or with other noise")
