"""A clinic: visits of patients, and a vault that knows whose they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import treering as tr
from treering.budget.promise import Budget
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.operations.persons import of_persons
from treering.trusted.rows.intake import Intake, typed_blocks
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.persons import Persons as Digests

WARDS = ("surgery", "medicine", "children", "eyes", "heart", "skin")
SCHEMA = tr.Schema({"ward": tr.categories(*WARDS), "month": tr.integers(1, 12), "cost": tr.integers(0, 100)})
SHARP = {"epsilon": 1e8, "delta": 1e-6}
"""A promise whose noise is far below one row: numbers are what they are, but for rounding."""


def visits(patients: int, most: int = 30, seed: int = 1) -> pa.Table:
    """Visits of so many patients, each with up to ``most``, in random order."""
    drawn = np.random.default_rng(seed)
    whose = np.repeat(np.arange(patients), drawn.integers(1, most + 1, patients))
    drawn.shuffle(whose)
    rows = len(whose)
    usual = drawn.integers(0, len(WARDS), patients)  # Most visits of a patient are in one ward.
    wards = np.where(drawn.random(rows) < 0.7, usual[whose], drawn.integers(0, len(WARDS), rows))
    return pa.table(
        {
            "patient": pa.array([f"p{each}" for each in whose]),
            "ward": pa.array([WARDS[each] for each in wards]),
            "month": pa.array(drawn.integers(1, 13, rows)),
            "cost": pa.array(drawn.integers(0, 101, rows)),
        }
    )


def vault(place: Path, frame: pa.Table | None = None, **options: Any) -> tr.Vault:
    """A vault of visits, of at most 30 each."""
    given = {**SHARP, "person": "patient", "rows_per_person": 30, **options}
    made = tr.Vault.create(place, SCHEMA, **given)
    if frame is not None:
        made.append(frame)
    return made


def patients(frame: pa.Table, **where: Any) -> int:
    """How many patients have a visit like this."""
    return len(matching(frame, **where).column("patient").unique())


def matching(frame: pa.Table, **where: Any) -> pa.Table:
    """The visits like this."""
    for name, value in where.items():
        frame = frame.filter(pc.field(name) == value)
    return frame


def first(frame: pa.Table, cap: int) -> pa.Table:
    """The first visits of each patient."""
    seen: dict[str, int] = {}
    kept = []
    for name in frame.column("patient").to_pylist():
        seen[name] = seen.get(name, 0) + 1
        kept.append(seen[name] <= cap)
    return frame.filter(pa.array(kept))


class Clinic:
    """Visits in memory, whose gates count persons."""

    def __init__(self, limit: int = 30) -> None:
        self._rows, self._limit = Rows(SCHEMA), limit
        self._persons = Digests("patient", limit, b"1" * 32)
        self.schema = SCHEMA
        self.journal: MemoryJournal | None = None
        """Where gates write; None: each has one of its own."""

    @property
    def size(self) -> int:
        return self._rows.size

    def append(self, frame: pa.Table) -> None:
        """Take visits in; the limit is not checked."""
        for block in typed_blocks(frame, SCHEMA, self._persons.unlimited(), drop=False, intake=Intake()):
            self._rows.add(block)

    def open_gate(self, budget: Budget) -> Kernel:
        return Kernel(self._rows, budget, self.journal or MemoryJournal(), None, of_persons(self._limit))

    def watch(self, grown: Callable[[], None]) -> None:
        """Nothing is told."""
