"""A gate that gives back what another one gave: how a box is run again without touching anything private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Any, TypeVar

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, TreeringError
from treering.gate import (
    Compared,
    Event,
    HistogramReleased,
    Measured,
    Noise,
    Noted,
    Reserved,
    RunEnded,
    RunRequest,
    RunStarted,
    Selected,
)

Recorded = TypeVar("Recorded", bound=Event)


class RecordedGate:
    """The gate of a run that is over: each operation returns the next event on record, which must be of its kind.

    A box is deterministic given what the gate returns, so running it over the record gives its release again. What it
    asks for is taken as asked before; asking for another kind of thing, or for more, is an error.
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
        """The number of rows then."""
        return self._size

    @property
    def budget(self) -> Budget:
        """What the run could spend."""
        return self._budget

    @property
    def spent(self) -> Fraction:
        """What it had spent at this point."""
        return self._spent

    @property
    def history(self) -> Sequence[Event]:
        """What was given so far."""
        return self._events[: self._given]

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """Prices are not on record."""
        raise TreeringError("a record has no prices: a box derives its noise from its budget")

    def cost_of_run(self, request: RunRequest) -> Cost:
        """Prices are not on record."""
        raise TreeringError("a record has no prices: a box derives its noise from its budget")

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """As it was answered then."""
        return self._next(Measured)

    def begin_run(self, request: RunRequest) -> RunStarted:
        """As it began then."""
        return self._next(RunStarted)

    def first_exceeding(
        self, run: int, queries: Sequence[Query], bars: Sequence[int], estimates: Sequence[int] | None = None
    ) -> Compared:
        """As it went then."""
        return self._next(Compared)

    def end_run(self, run: int) -> RunEnded:
        """As it ended then."""
        return self._next(RunEnded)

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """As it was released then."""
        return self._next(HistogramReleased)

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """As it was drawn then."""
        return self._next(Selected)

    def note(self, note: Any) -> Noted:
        """As it was noted then."""
        return self._next(Noted)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Nothing to do."""
        yield

    def reserve(self, part: Budget) -> AbstractContextManager[Reserved]:
        """A run is itself within a reservation."""
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
