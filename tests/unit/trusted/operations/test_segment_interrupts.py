"""Whoever is interrupted within a segment loses no charge, counts no row twice, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from support.databases import TestDatabase
from support.interrupts import Interrupt
from support.segments import CELLS, PLENTY, SCHEMA, begin
from treering.gate import Advanced, Ones, Span
from treering.noise import Laplace
from treering.trusted.kernel import Kernel

FILES = ("budget/rows.py", "trusted/charges.py", "trusted/kernel.py", "operations/segment.py", "trusted/journal.py")
NOISE = Laplace(2.0**-10)


def lived() -> tuple[TestDatabase, Kernel, int]:
    """Two leaves, of two rows and of one, a charge to everyone between them, and two rows more."""
    db = TestDatabase(SCHEMA, [0, 0])
    gate, segment = begin(db, NOISE, room=10)
    gate.advance(segment, [Ones(1)])
    db.append_cells([1])
    gate.histogram(Laplace(2.0))
    gate.advance(segment, [Ones(2)])
    db.append_cells([2, 2])
    return db, gate, segment


def check(db: TestDatabase, gate: Kernel) -> None:
    """No row has been charged less than the record says."""
    again = db.open_gate(PLENTY)
    for position in range(1, db.size + 2):
        assert gate.left(position) <= again.left(position)
    assert gate.spent >= again.spent


def test_an_interrupt_at_any_step_of_a_leaf() -> None:
    for step in count():
        db, gate, segment = lived()
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            gate.advance(segment, [Ones(3)])
        check(db, gate)
        if not interrupt.fell:
            break
        if sum(isinstance(event, Advanced) for event in db.journal.events()) == 2:  # It was not released: once more.
            db.append_cells([3])
            assert gate.advance(segment, [Ones(3)]).values[0].tolist() == [2, 1, 2, 1, 0, 0]
            check(db, gate)
    assert step > 100


OTHERS: dict[str, Callable[[Kernel, int], object]] = {
    "end": lambda gate, segment: gate.end_segment(segment),
    "condense": lambda gate, segment: gate.condense_segment(segment, None),
    "begin": lambda gate, _: gate.begin_segment(CELLS, NOISE, 3, start=gate.size),
    "combine": lambda gate, _: gate.combine(CELLS, [Span(2, 3, 1), Span(3, 5, -2)], NOISE),
    "histogram": lambda gate, _: gate.histogram(Laplace(4.0)),
    "mark": lambda gate, _: gate.mark(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_interrupt_at_any_step_of_another_operation(name: str) -> None:
    for step in count():
        db, gate, segment = lived()
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            OTHERS[name](gate, segment)
        check(db, gate)
        if not interrupt.fell:
            break
    assert step > 10
