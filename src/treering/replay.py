"""A gate that replays recorded events: how a box is run again without touching anything private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Any, TypeVar

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.problem import Minimise
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Sums
from treering.errors import ParameterError, TreeringError
from treering.gate import (
    Advanced,
    Combined,
    Compared,
    Condensed,
    Event,
    ForeignReleased,
    HistogramReleased,
    Marked,
    Measured,
    Minimised,
    Noted,
    Pattern,
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
)
from treering.noise import Noise

Recorded = TypeVar("Recorded", bound=Event)


class RecordedGate:
    """The gate of a box's run that is over: each operation returns the next recorded event, which must be of its kind.

    A box is deterministic given what the gate returns, so running it over the record gives its release again. An
    operation of another kind than the recorded one, or one more than were recorded, is an error; so are `measure`,
    `select` and `histogram` with other arguments than were recorded (of `select`, the queries are compared).

    ``size`` is the number of rows at the time, ``budget`` what the run could spend, ``events`` the record.
    """

    def __init__(self, schema: Schema, size: int, budget: Budget, events: Sequence[Event]) -> None:
        self._schema = schema
        self._size = size
        self._budget = budget
        self._events = tuple(events)
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

    @property
    def budget(self) -> Budget:
        """What the run could spend."""
        return self._budget

    @property
    def spent(self) -> Fraction:
        """The cost of the events returned so far."""
        return self._spent

    @property
    def history(self) -> Sequence[Event]:
        """The events returned so far."""
        return self._events[: self._given]

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
        return self._next(RunStarted)

    def first_exceeding(
        self, run: int, queries: Sequence[Query], bars: Sequence[int], estimates: Sequence[int] | None = None
    ) -> Compared:
        """The recorded comparison."""
        return self._next(Compared)

    def end_run(self, run: int) -> RunEnded:
        """The recorded end of a run."""
        return self._next(RunEnded)

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """The recorded histogram."""
        event = self._next(HistogramReleased)
        _same((event.noise, event.attributes), (noise, event.attributes if attributes is None else tuple(attributes)))
        return event

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """The recorded selection."""
        event = self._next(Selected)
        _same(event.queries, tuple(queries))
        return event

    def draw_rows(self, queries: Sequence[Query], rows: int, scale: float) -> RowsDrawn:
        """The recorded synthetic rows."""
        return self._next(RowsDrawn)

    def foreign(self, measurement: Any) -> ForeignReleased:
        """The recorded output of the measurement."""
        return self._next(ForeignReleased)

    def combine(self, groups: Groups, spans: Sequence[Span], noise: Noise, sums: Sums | None = None) -> Combined:
        """The recorded counts, or sums, of groups."""
        event = self._next(Combined)
        _same((event.noise, event.spans, event.sums), (noise, tuple(spans), sums))
        return event

    def begin_segment(
        self, groups: Groups, noise: Noise, room: int, start: int = 0, series: int = 0, sums: Sums | None = None
    ) -> SegmentBegun:
        """The recorded start of a segment."""
        return self._next(SegmentBegun)

    def advance(self, segment: int, patterns: Sequence[Pattern]) -> Advanced:
        """The recorded leaf and its releases."""
        event = self._next(Advanced)
        _same(event.patterns, tuple(patterns))
        return event

    def condense_segment(self, segment: int, note: Any) -> SegmentCondensed:
        """The recorded condensation."""
        return self._next(SegmentCondensed)

    def end_segment(self, segment: int, note: Any = None) -> SegmentEnded:
        """The recorded end of a segment."""
        return self._next(SegmentEnded)

    def mark(self) -> Marked:
        """The recorded mark."""
        return self._next(Marked)

    def left(self, position: int) -> Fraction:
        """Refused: a record holds no prices."""
        raise TreeringError("a record has no prices: a box derives its noise from its budget")

    def minimise(self, request: Minimise) -> Minimised:
        """The recorded model."""
        return self._next(Minimised)

    def condense(self, note: Any) -> Condensed:
        """Refused: a box runs within a reservation."""
        raise ParameterError("note", "cannot replace events within a reservation")

    def note(self, note: Any) -> Noted:
        """The recorded note."""
        return self._next(Noted)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Does nothing: nothing is written."""
        yield

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


def _same(recorded: object, asked: object) -> None:
    if recorded != asked:
        raise TreeringError("the run asks for something else than is on record, or with other noise")
