"""A vault's rows as the growing database that its mechanisms see."""

from __future__ import annotations

from collections.abc import Callable

from treering.budget.charges import Charges
from treering.budget.promise import Budget
from treering.domain.schema import Schema
from treering.gate import Event, Gate
from treering.replay import RecordedGate
from treering.trusted.counts import Counts
from treering.trusted.journal import Journal
from treering.trusted.kernel import Kernel
from treering.trusted.sealed import Sealed
from treering.trusted.watchers import Watchers


class Store(Sealed):
    """The database of one mechanism: its gate writes to the mechanism's own journal."""

    __slots__ = ("_counts", "_journal", "_watchers")

    def __init__(self, counts: Counts, journal: Journal, watchers: Watchers) -> None:
        self._counts = counts
        self._journal = journal
        self._watchers = watchers

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._counts.schema

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._counts.size

    def open_gate(self, budget: Budget) -> Gate:
        """The gate, which continues what the journal holds."""
        return Kernel(self._counts, budget, self._journal)

    def watch(self, grown: Callable[[], None]) -> None:
        """Call a method after every append."""
        self._watchers.add(grown)


class Shown:
    """The same, seen by a reader: the public record, and nothing behind it."""

    def __init__(self, schema: Schema, size: int, events: tuple[Event, ...]) -> None:
        self.schema = schema
        self.size = size
        self._events = events

    def open_gate(self, budget: Budget) -> Gate:
        """A gate that shows what was released, and releases nothing."""
        return _ShownGate(self.schema, self.size, budget, self._events)

    def watch(self, grown: Callable[[], None]) -> None:
        """Nothing grows while one looks."""


class _ShownGate(RecordedGate):
    def __init__(self, schema: Schema, size: int, budget: Budget, events: tuple[Event, ...]) -> None:
        super().__init__(schema, size, budget, events)
        charges = Charges(budget)
        for event in events:
            charges.follow(event)
        self._given, self._spent = len(events), charges.spent
