"""The journal of one mechanism over a ledger of its own, without the mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import treering as tr
from support.events import NO_STEPS
from treering.budget.cost import Cost
from treering.gate import Condensed, RunRequest, RunStarted
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.codec.events import EventCodec
from treering.trusted.ledger.journal import LedgerJournal, Recovered, recover
from treering.trusted.ledger.lines import Entry

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})
NUMBER = 2
"""The mechanism's number in its vault."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note with two texts that a checkpoint keeps apart, as the arrays of the mechanisms' notes are."""

    word: str
    one: str = ""
    two: str = ""

    def unloaded(self) -> tuple[Note, tuple[bytes, ...]]:
        """The note without its texts, and the bytes of each."""
        return replace(self, one="", two=""), (self.one.encode(), self.two.encode())

    def loaded(self, arrays: Sequence[bytes]) -> Note:
        """The note with its texts."""
        one, two = (each.decode() for each in arrays)
        return replace(self, one=one, two=two)


CODEC = EventCodec(SCHEMA, (Note,))


def started(run: int, size: int = 10) -> RunStarted:
    """A run begins."""
    return RunStarted(size, Cost(Fraction(1), Fraction(1, 2)), run, RunRequest(2.0, 4.0))


def condensed(*runs: RunStarted, word: str = "all", size: int = 10) -> Condensed:
    """A note replaces all events."""
    return Condensed(size, Fraction(1), 9, runs, Note(word, "one\n", "two"), NO_STEPS)


class Session:
    """A journal that writes to a ledger in a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.checkpoints = Checkpoints(place)
        path = place / "ledger.sqlite"
        self.ledger = ledgers.open_writer(path) if path.exists() else ledgers.create(path)
        self.entries = list(self.ledger.read())
        self.journal = LedgerJournal(self.ledger, NUMBER, CODEC, self.checkpoints)

    def lines(self, after: int = 0) -> list[Any]:
        """What is on record: events as they are, other lines by their kind and body."""
        with ledgers.reading(self.place / "ledger.sqlite") as connection:
            found = list(ledgers.rows_of(connection, after))
        assert {entry.mechanism for entry in found} <= {NUMBER}
        return [said(entry) for entry in found]

    def recovered(self, *, checkpoints: bool = True) -> Recovered:
        """The state that the lines give."""
        with ledgers.reading(self.place / "ledger.sqlite") as connection:
            entries = list(ledgers.rows_of(connection))
        return recover(entries, CODEC, self.checkpoints if checkpoints else None)

    def again(self, size: int = 10) -> Session:
        """The next session, after a crash of this one."""
        self.ledger.close()
        other = Session(self.place)
        other.journal.take_up(other.recovered(), other.ledger.secrets(), size)
        return other


def said(entry: Entry) -> Any:
    """A line as the event in it, or as its kind and body."""
    return CODEC.decode(entry.body) if entry.kind == "event" else (entry.kind, entry.line.plain())
