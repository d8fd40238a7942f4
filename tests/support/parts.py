"""The parts of a vault without the rest of it: batches of cells, and of whose rows they are, in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import treering as tr
from treering.trusted.counts import Counts
from treering.trusted.rows.batches import Batch
from treering.trusted.rows.persons import Persons
from treering.vault import ledger as ledgers
from treering.vault.bases import BASE
from treering.vault.files import Folder
from treering.vault.lines import ROWS
from treering.vault.parts import Part, PartList, Parts

SCHEMA = tr.Schema({"cell": tr.integers(0, 3)})
LIMIT = 3


def person(name: str) -> bytes:
    """The digest that stands for somebody."""
    return name.encode().ljust(16, b".")


def limit(persons: bool) -> Persons | None:
    """The limit of rows of a person, where persons are counted."""
    return Persons("who", LIMIT, bytes(32)) if persons else None


class Kept:
    """Parts, with a ledger, the counts of their rows and, if wanted, of persons."""

    def __init__(self, place: Path, *, persons: bool = False) -> None:
        self.folder = Folder(place)
        self.folder.create()
        self.ledger = ledgers.create(self.folder.ledger)
        self.parts = Parts(self.folder, PartList(), [])
        self.counts = Counts(SCHEMA)
        self.persons = limit(persons)

    def append(
        self,
        cells: Sequence[int],
        whose: Mapping[str, int] | None = None,
        dropped: int = 0,
        watermark: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> Part:
        """Take in rows of these cells."""
        people = {person(name): rows for name, rows in (whose or {}).items()}
        batch = Batch.of(np.array(cells, dtype=np.int64), people)
        part, salt = self.parts.write(batch, dropped, watermark)
        self.parts.record(part, salt, self.ledger, key)
        batch.add_to(self.counts)
        if self.persons is not None:
            self.persons.take_up(people)
        return part

    def merge(self) -> None:
        """Make a base of all parts."""
        self.parts._debt = 1e9
        self.parts.condense(self.counts, self.persons, self.ledger)

    def again(self) -> Parts:
        """The parts as the next opening finds them."""
        listed, bases = PartList(), []
        with ledgers.reading(self.folder.ledger) as connection:
            for entry in ledgers.rows_of(connection):
                if entry.kind == ROWS:
                    listed.learn(entry)
                elif entry.kind == BASE:
                    bases.append(entry.line)
        return Parts(self.folder, listed, bases)

    def loaded(self, marks: Mapping[int, Sequence[object]] | None = None) -> tuple[Counts, Persons | None]:
        """The counts as the next opening finds them."""
        counts, persons = Counts(SCHEMA), limit(self.persons is not None)
        self.again().load(self.ledger.secrets(), counts, marks or {}, persons)
        return counts, persons


def content(counts: Counts) -> list[int]:
    """How many rows each cell has."""
    return [int(each) for each in counts.marginal((0,))]
