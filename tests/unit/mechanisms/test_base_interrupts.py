"""Who is interrupted while a mechanism answers can ask on: from the record, with nothing free, doubled or lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.interrupts import Interrupt
from support.mechanism_contract import SCHEMA, rows
from support.vaults import questions
from treering.domain.groups import Groups
from treering.gate import Ones, RunEnded, RunRequest, RunStarted
from treering.mechanisms.base import Mechanism
from treering.noise import Laplace
from treering.trusted.journal import ends_run

# An interrupt that falls while a generator is dropped is handed to sys.unraisablehook.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

EVERY_STEP = "TORTURE_KILLS" in os.environ
KERNEL = tuple(
    f"trusted/{name}.py"
    for name in ("kernel", "charges", "operations/segment", "operations/run", "cells", "journal", "noise")
)
MECHANISMS = tuple(f"mechanisms/{name}.py" for name in ("base", "sparse", "tight", "paper", "continual", "rings"))
SERIES = tuple(
    f"mechanisms/{name}.py" for name in ("series/root", "series/tree", "series/ring", "histogram/hypothesis")
)
FILES = (*KERNEL, *MECHANISMS, *SERIES, "budget/rows.py")

QUERIES = questions(9)
MADE: dict[str, tuple[int, Callable[[Any], Mechanism]]] = {
    "NSG": (29, lambda db: tr.NSG(db, 0.3, 1000.0, 50)),
    "PMWG": (43, lambda db: tr.PMWG(db, 1000.0, 1e-6, alpha=0.1, beta=1e-9)),
    "guarded": (43, lambda db: tr.PMWG(db, 1000.0, 1e-6, alpha=0.1, beta=1e-9, measure_first=False)),
    "the paper's": (41, lambda db: tr.PMWG(db, 1.0, 1e-6, alpha=0.9, beta=0.001, profile="paper")),
    "ContinualHistogram": (11, lambda db: tr.ContinualHistogram(db, 100.0, 1e-6)),
    "Rings": (149, lambda db: tr.Rings(db, 100.0, 1e-6)),
    "pure Rings": (149, lambda db: tr.Rings(db, 100.0)),
}
"""How to make each, and how many steps lie between two interrupts."""


def ask(mechanism: Any, queries: list[tr.Query]) -> list[Any]:
    answers: list[Any] = mechanism.ask_many(queries)
    return answers


def begun(make: Callable[[Any], Mechanism]) -> tuple[TestDatabase, Mechanism]:
    """A mechanism that has answered, and then more rows came."""
    db = TestDatabase(SCHEMA, rows(20_000))
    mechanism = make(db)
    ask(mechanism, QUERIES[:3])
    db.append_cells(rows(2000, seed=2))
    return db, mechanism


def check_runs(db: TestDatabase) -> None:
    """Each run is over once at most, and one at most is in progress."""
    events = db.journal.events()
    ended = [event.run for event in events if ends_run(event)]
    assert len(set(ended)) == len(ended)
    assert len([each for each in events if isinstance(each, RunStarted)]) - len(ended) in (0, 1)


@pytest.mark.parametrize("name", MADE)
def test_an_interrupt_at_any_step_of_an_answer(name: str) -> None:
    """A question asked again is answered, and the state and all charges are those that the record gives."""
    stride, make = MADE[name]
    step, fell = 0, True
    while fell:
        db, mechanism = begun(make)
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            ask(mechanism, QUERIES[3:6])
        fell = interrupt.fell
        assert len(ask(mechanism, QUERIES[3:6])) == 3
        check_runs(db)
        again = make(db)
        assert again.state == mechanism.state
        assert mechanism.spent == again.spent
        for position in (1, 20_001, db.size, db.size + 1):
            assert mechanism.left(position) == again.left(position)
        assert len(ask(mechanism, QUERIES)) == len(QUERIES)
        step += 1 if EVERY_STEP else stride
    assert step > 100


def test_an_interrupt_while_the_database_grows() -> None:
    """A mechanism that watches the database takes the rows up then, or with the next question."""
    make = MADE["ContinualHistogram"][1]
    step, fell = 0, True
    while fell:
        db = TestDatabase(SCHEMA, rows(20_000))
        mechanism = make(db)
        ask(mechanism, QUERIES[:3])
        db.rows.add_cells(np.array(rows(2000, seed=2)))
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            db._watchers.call()
        fell = interrupt.fell
        assert {answer.size for answer in ask(mechanism, QUERIES[:3])} == {22_000}
        assert make(db).state == mechanism.state
        step += 1 if EVERY_STEP else 11
    assert step > 100


def test_no_more_crossings_are_shown_than_were_paid_for() -> None:
    """A run that an interrupt ended counts as one of those that the alarm was made for: it ends in its time, not for
    want of budget."""
    everyone = tr.parse("TRUE", SCHEMA)
    step, fell, ended = 0, True, 0
    while fell:
        db = TestDatabase(SCHEMA, rows(20_000))
        alarm = tr.NSG(db, 0.05, 1000.0, hard=3)
        interrupt = Interrupt(step, *KERNEL, "mechanisms/sparse.py")
        seen = 0
        with suppress(KeyboardInterrupt), interrupt:
            seen += alarm.ask(everyone) is not None
        fell = interrupt.fell
        with suppress(tr.Halted):
            while True:
                seen += alarm.ask(everyone) is not None
        ended += sum(isinstance(each, RunEnded) for each in db.journal.events())
        assert seen <= 3
        assert sum(isinstance(each, RunStarted) for each in db.journal.events()) == 3
        step += 1 if EVERY_STEP else 3
    assert ended > 3
    assert seen == 3


# -- the gate ----------------------------------------------------------------------------------------------------------


def test_a_gate_that_was_not_interrupted_has_nothing_to_mend() -> None:
    db = TestDatabase(SCHEMA, rows(100))
    gate = db.open_gate(tr.Promise(1000.0).budget)
    run = gate.begin_run(RunRequest(1.0, 2.0)).run
    segment = gate.begin_segment(Groups.marginal(SCHEMA, ["late"]), Laplace(1.0), 3).segment
    gate.advance(segment, [Ones(1)])
    gate.mark()
    before = gate.history, gate.spent, gate.left(101)
    gate.mend()
    assert (gate.history, gate.spent, gate.left(101)) == before
    assert gate.end_run(run).refund > 0
    assert gate.end_segment(segment).charges
    gate.mend()
    assert gate.spent == db.open_gate(gate.budget).spent
