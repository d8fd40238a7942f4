"""The mechanisms of an open vault, side by side under one promise.

A vault's rows as the growing database that its mechanisms see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from treering.budget.promise import Budget, Promise
from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.gate import Event, Gate
from treering.mechanisms.base import Answering
from treering.replay import RecordedGate
from treering.trusted.counts import Counts
from treering.trusted.database import Watchers
from treering.trusted.journal import Journal
from treering.trusted.kernel import Kernel
from treering.trusted.pricing import Charges
from treering.trusted.sealed import Sealed
from treering.trusted.trees import sizes_to_mark
from treering.vault.checkpoints import Checkpoints
from treering.vault.journal import LedgerJournal, Recovered, recover
from treering.vault.kinds import Spec, codec
from treering.vault.ledger import Ledger
from treering.vault.lines import SecretValue
from treering.vault.record import Record

_REPLAYED: Final = 2**29
"""A checkpoint is due when replaying what came since would take a quarter of a second: as moving so many cells."""

_EVENT: Final = 2**17
"""Reading an event takes as long as moving so many cells of a histogram: some 30 microseconds."""

_WORTHWHILE: Final = 1 / 8
"""At the end of a session a checkpoint is made for no less than this share of that."""


@dataclass(slots=True)
class Member:
    """A mechanism in its vault."""

    spec: Spec
    mechanism: Answering
    journal: LedgerJournal

    @property
    def debt(self) -> float:
        """What replaying all that came since the last checkpoint would take, as a share of what makes one due."""
        moved = self.mechanism.backlog
        return 0.0 if moved is None else (moved + self.journal.fresh * _EVENT) / _REPLAYED

    def condense(self, *, closing: bool = False) -> None:
        """Make a checkpoint, if one is due."""
        if self.debt > (_WORTHWHILE if closing else 1):
            self.mechanism.condense()


def chosen(members: Iterable[Member], name: str | None) -> tuple[int, Member]:
    """The member of a name; without one, the first that answers queries."""
    listed = list(members)
    for number, member in enumerate(listed):
        if member.spec.name == name or (name is None and member.mechanism.answers):
            return number, member
    if name is None:
        raise ParameterError("mechanism", "must be added first: this vault has none that answers queries")
    names = ", ".join(member.spec.name for member in listed) or "none"
    raise ParameterError("mechanism", f"{name!r} is not in this vault; there are: {names}")


class Assembly:
    """The parts of an open vault that mechanisms are made from."""

    def __init__(
        self, promise: Promise, counts: Counts, ledger: Ledger, checkpoints: Checkpoints, watchers: Watchers
    ) -> None:
        self._codec = codec(counts.schema)
        self._promise = promise
        self._counts = counts
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._watchers = watchers

    def new(self, spec: Spec, number: int) -> Member:
        """A mechanism that begins its life."""
        return self.of(spec, self._journal(number))

    def of(self, spec: Spec, journal: LedgerJournal) -> Member:
        """A mechanism over its journal: where the journal ends, it goes on."""
        return Member(spec, spec.build(Store(self._counts, journal, self._watchers), self._promise), journal)

    def _journal(self, number: int) -> LedgerJournal:
        return LedgerJournal(self._ledger, number, self._codec, self._checkpoints)

    def journals(self, record: Record, secrets: Mapping[str, SecretValue]) -> tuple[list[LedgerJournal], Marks]:
        """The journals of all mechanisms, each at its end, and where the counts must be marked for them."""
        journals: list[LedgerJournal] = []
        marks: Marks = {}
        for number, entries in enumerate(record.lines):
            journal = self._journal(number)
            recovered = recover(entries, self._codec, self._checkpoints)
            journal.take_up(recovered, secrets)
            for size in sizes_to_mark(recovered.events):
                marks.setdefault(size, []).append(journal)
            journals.append(journal)
        return journals, marks


Marks = dict[int, list[object]]
"""For each size, the journals that need the counts as they were then."""


def shown(record: Record, recovered: Iterable[Recovered]) -> list[Answering]:
    """The mechanisms as the public record has them, without anything private: for reading."""
    size = record.parts[-1].size if record.parts else 0
    schema, promise = record.origin.schema, record.origin.promise
    return [
        spec.build(Shown(schema, size, (*each.events, *each.lost)), promise)
        for spec, each in zip(record.specs, recovered, strict=True)
    ]


# -- store -------------------------------------------------------------------------------------------------------------


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
