"""The mechanisms of a vault, side by side under one promise, and the database that each of them sees.

A writer's database is the store's; a reader's is the public record alone (`Shown`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget
from treering.domain.language.items import Item, counts
from treering.domain.language.parse import understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.gate import Event
from treering.mechanisms.base import Answering
from treering.protocols import Gate
from treering.trusted.store import Gone, Record, Spec, Store, account
from treering.vault.kinds import build

_REPLAYED: Final = 2**29
"""A checkpoint is due when replaying the events since the last would take a quarter of a second, the time that moving
this many cells takes."""

_EVENT: Final = 2**17
"""Reading an event takes as long as moving this many cells of a histogram: some 30 microseconds."""

_WORTHWHILE: Final = 1 / 8
"""On close, make a checkpoint once the debt is above this fraction of what makes one due."""


@dataclass(slots=True)
class Member:
    """A mechanism of a vault, as the ledger specifies it."""

    spec: Spec
    mechanism: Answering
    fresh: Callable[[], int]
    """The number of its events since the last checkpoint."""

    @classmethod
    def of(cls, spec: Spec, store: Store) -> Member:
        """The mechanism with this specification, which continues where its journal ends."""
        mechanism = build(spec, store.database(spec.name), store.origin.promise)
        return cls(spec, mechanism, lambda: store.fresh(spec.name))

    def seen(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items as the mechanism sees them: rings look at rows through any lens, others through the version of the
        schema that they were opened with. Refused if that does not tell them."""
        if self.mechanism.follows_schema:
            return items
        queries = understand_all([item.query for item in items], self.mechanism.schema)
        return [replace(item, query=query) for item, query in zip(items, queries, strict=True)]

    def seen_queries(self, queries: Sequence[Query]) -> Sequence[Query]:
        """`seen` for queries."""
        return [item.query for item in self.seen(counts(queries))]

    @property
    def debt(self) -> float:
        """The work of replaying the events since the last checkpoint, as a fraction of what makes a checkpoint due."""
        moved = self.mechanism.backlog
        return 0.0 if moved is None else (moved + self.fresh() * _EVENT) / _REPLAYED

    def condense(self, *, closing: bool = False) -> None:
        """Make a checkpoint, if one is due."""
        if self.debt > (_WORTHWHILE if closing else 1):
            self.mechanism.condense()


def chosen(members: Iterable[Member], name: str | None) -> tuple[int, Member]:
    """The mechanism of this name and its number; for None, the first that answers queries."""
    listed = list(members)
    for number, member in enumerate(listed):
        if member.spec.name == name or (name is None and member.mechanism.answers):
            return number, member
    if name is None:
        raise ParameterError("mechanism", "must be added first: this vault has none that answers queries")
    names = ", ".join(member.spec.name for member in listed) or "none"
    raise ParameterError("mechanism", f"{name!r} is not in this vault; there are: {names}")


# -- mechanisms of a reader --------------------------------------------------------------------------------------------


def shown(record: Record, events: Iterable[tuple[Event, ...]]) -> list[Answering]:
    """The mechanisms in their state on record, from public values only: for readers."""
    size = record.size
    promise = record.origin.promise
    return [
        build(spec, Shown(record.lens(spec.name), size, each, record.gone), promise)
        for spec, each in zip(record.specs, events, strict=True)
    ]


class Shown:
    """The database of one mechanism as a reader sees it: the public record, and nothing private."""

    def __init__(self, schema: Schema, size: int, events: tuple[Event, ...], gone: Gone | None = None) -> None:
        self.schema = schema
        self.size = size
        self._events, self._gone = events, gone or Gone()

    def open_gate(self, budget: Budget) -> Gate:
        """A gate that shows what was released, and releases nothing more."""
        return _ShownGate(self.schema, self.size, budget, self._events, self._gone)

    def watch(self, grown: Callable[[], None]) -> None:
        """Does nothing: a reader's database does not grow."""


class _ShownGate(RecordedGate):
    def __init__(self, schema: Schema, size: int, budget: Budget, events: tuple[Event, ...], gone: Gone) -> None:
        super().__init__(schema, size, budget, events)
        self._gone = gone
        charges = account(budget, events)
        self._given, self._spent, self._ledger = len(events), charges.spent, charges.ledger

    def rows_between(self, start: int, end: int) -> int:
        """The number of rows after position ``start``, up to ``end``, that were not erased."""
        return end - start - self._gone.within(start, end)

    def left(self, position: int) -> Fraction:
        """What the row at this position may still be charged, by the record."""
        return self._ledger.left(position)
