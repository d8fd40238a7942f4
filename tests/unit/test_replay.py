"""A record gives back what a gate gave, in order, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.gate import Gate, Noted, RunRequest
from treering.noise import Gaussian, Laplace
from treering.replay import RecordedGate

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "late": tr.categories("no", "yes")})
LATE, JFK = tr.parse("late = 'yes'", SCHEMA), tr.parse("origin = 'JFK'", SCHEMA)
BUDGET = Budget("zcdp", Fraction(10))


def lead(gate: Gate) -> list[object]:
    """Something of everything that a box may ask."""
    request = RunRequest(10.0, 20.0, Gaussian(4.0))
    run = gate.begin_run(request).run
    given: list[object] = [
        gate.measure([LATE, JFK], Laplace(3.0)),
        gate.select([LATE, JFK], 5.0, [1, 2]),
        gate.first_exceeding(run, [LATE], [-(10**6)]),
        gate.note({"step": 1}),
        gate.histogram(Gaussian(2.0), [1]).counts.tolist(),
        gate.histogram(Gaussian(2.0)).counts.tolist(),
    ]
    with gate.transaction():
        given.append(gate.end_run(gate.begin_run(request).run))
    return given


@pytest.fixture
def db() -> TestDatabase:
    return TestDatabase(SCHEMA, [0, 1, 2, 3, 3])


def record(db: TestDatabase) -> RecordedGate:
    return RecordedGate(SCHEMA, db.size, BUDGET, db.journal.events())


def test_it_gives_back_what_was_given_and_books_it(db: TestDatabase) -> None:
    gate = db.open_gate(BUDGET)
    given = lead(gate)
    again = record(db)
    touched = db.touched
    assert (again.schema, again.size, again.budget, float(again.spent)) == (SCHEMA, 5, BUDGET, 0.0)
    assert lead(again) == given
    assert db.touched == touched
    assert len(again.history) == len(db.journal.events())
    # A refund is not booked: what the run of a box had spent is at most this.
    assert again.spent >= gate.spent


def test_more_than_is_on_record_is_refused(db: TestDatabase) -> None:
    db.open_gate(BUDGET).measure([LATE], Laplace(3.0))
    again = record(db)
    again.measure([LATE], Laplace(3.0))
    with pytest.raises(tr.TreeringError, match="more than is on record"):
        again.note("more")


def test_another_kind_is_refused(db: TestDatabase) -> None:
    db.open_gate(BUDGET).measure([LATE], Laplace(3.0))
    with pytest.raises(tr.TreeringError, match="asks for Noted, and Measured is on record"):
        record(db).note("first")


@pytest.mark.parametrize(
    "ask",
    [
        lambda gate: gate.measure([JFK], Laplace(3.0)),
        lambda gate: gate.measure([LATE], Laplace(np.nextafter(3.0, 4.0))),
        lambda gate: gate.measure([LATE], Gaussian(3.0)),
        lambda gate: gate.measure([LATE, LATE], Laplace(3.0)),
    ],
)
def test_another_measurement_is_refused(db: TestDatabase, ask: Callable[[Gate], object]) -> None:
    db.open_gate(BUDGET).measure([LATE], Laplace(3.0))
    with pytest.raises(tr.TreeringError, match="something else than is on record"):
        ask(record(db))


def test_other_candidates_and_other_histograms_are_refused(db: TestDatabase) -> None:
    gate = db.open_gate(BUDGET)
    gate.select([LATE, JFK], 5.0)
    with pytest.raises(tr.TreeringError, match="something else"):
        record(db).select([JFK, LATE], 5.0)
    other = TestDatabase(SCHEMA, [0])
    other.open_gate(BUDGET).histogram(Gaussian(2.0))
    with pytest.raises(tr.TreeringError, match="something else"):
        record(other).histogram(Gaussian(2.5))
    with pytest.raises(tr.TreeringError, match="something else"):
        record(other).histogram(Gaussian(2.0), [0])
    record(other).histogram(Gaussian(2.0), [0, 1])


def test_prices_and_reservations_are_not_on_record() -> None:
    again = RecordedGate(SCHEMA, 5, BUDGET, [Noted("x")])
    with pytest.raises(tr.TreeringError, match="no prices"):
        again.cost_of_measuring([LATE], Laplace(1.0))
    with pytest.raises(tr.TreeringError, match="no prices"):
        again.cost_of_run(RunRequest(1.0, 1.0))
    with pytest.raises(tr.ParameterError, match="reserved"):
        again.reserve(BUDGET)
