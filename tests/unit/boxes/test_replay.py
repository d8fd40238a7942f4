"""A record gives back what a gate gave, in order, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.gate import Noted, Ones, RunRequest, Span
from treering.noise import Gaussian, Laplace
from treering.protocols import Gate

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
        gate.draw_rows([LATE, JFK], 2, 5.0),
        gate.first_exceeding(run, [LATE], [10**6]),
        gate.first_exceeding(run, [LATE, JFK], [10**6, 10**6]),
        gate.first_exceeding(run, [LATE, JFK], [10**6, -(10**6)]),
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
    assert len(again.history) == len(db.journal.events()) + 1, "easy comparisons are one event in a journal"
    assert again.spent == gate.spent
    with pytest.raises(tr.TreeringError, match="more than is on record"):
        again.note("more")


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


OPERATIONS: dict[str, tuple[Callable[[Gate], object], list[Callable[[Gate], object]]]] = {
    "select": (
        lambda gate: gate.select([LATE, JFK], 5.0),
        [lambda gate: gate.select([JFK, LATE], 5.0), lambda gate: gate.select([LATE, JFK], 6.0)],
    ),
    "draw_rows": (
        lambda gate: gate.draw_rows([LATE, JFK], 2, 5.0),
        [
            lambda gate: gate.draw_rows([JFK, LATE], 2, 5.0),
            lambda gate: gate.draw_rows([LATE, JFK], 3, 5.0),
            lambda gate: gate.draw_rows([LATE, JFK], 2, 6.0),
        ],
    ),
    "begin_run": (
        lambda gate: gate.begin_run(RunRequest(10.0, 20.0)),
        [
            lambda gate: gate.begin_run(RunRequest(20.0, 20.0)),
            lambda gate: gate.begin_run(RunRequest(10.0, 20.0, Gaussian(4.0))),
        ],
    ),
    "note": (lambda gate: gate.note("a word"), [lambda gate: gate.note(7)]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_other_arguments_are_refused(db: TestDatabase, name: str) -> None:
    operation, others = OPERATIONS[name]
    operation(db.open_gate(BUDGET))
    operation(record(db))
    for other in others:
        with pytest.raises(tr.TreeringError, match="something else than is on record"):
            other(record(db))


def test_other_comparisons_are_refused(db: TestDatabase) -> None:
    """Of another run, of other queries than were compared at a crossing, or of more than were ever compared."""
    gate = db.open_gate(BUDGET)
    run = gate.begin_run(RunRequest(10.0, 20.0)).run
    gate.first_exceeding(run, [LATE, LATE], [10**6, 10**6])
    gate.first_exceeding(run, [LATE, JFK], [10**6, -(10**6)])

    def begun() -> RecordedGate:
        again = record(db)
        again.begin_run(RunRequest(10.0, 20.0))
        return again

    def compare(again: RecordedGate, run: int, number: int) -> object:
        return again.first_exceeding(run, [LATE] * number, [0] * number)

    for other, number in ((run + 1, 2), (run, 3)):
        with pytest.raises(tr.TreeringError, match="something else than is on record"):
            compare(begun(), other, number)
    again = begun()
    assert [again.first_exceeding(run, [LATE], [0]).asked for _ in range(2)] == [1, 1]
    with pytest.raises(tr.TreeringError, match="something else than is on record"):
        compare(again, run, 1)


def test_the_end_of_another_run_is_refused(db: TestDatabase) -> None:
    gate = db.open_gate(BUDGET)
    run = gate.begin_run(RunRequest(10.0, 20.0)).run
    gate.end_run(run)
    again = record(db)
    again.begin_run(RunRequest(10.0, 20.0))
    with pytest.raises(tr.TreeringError, match="something else than is on record"):
        again.end_run(run + 1)


BY_ROW: list[Callable[[Gate], object]] = [
    lambda gate: gate.combine(Groups.of([LATE]), [Span(0, 5, 1)], Laplace(3.0)),
    lambda gate: gate.begin_segment(Groups.of([LATE]), Laplace(3.0), 1),
    lambda gate: gate.advance(0, [Ones(1)]),
]


@pytest.mark.parametrize("operation", BY_ROW)
def test_what_a_reservation_refuses_a_record_refuses(db: TestDatabase, operation: Callable[[Gate], object]) -> None:
    gate = db.open_gate(BUDGET)
    with gate.reserve(Budget("zcdp", Fraction(1))), pytest.raises(tr.ParameterError) as refused:
        operation(gate)
    with pytest.raises(tr.ParameterError) as again:
        operation(record(db))
    assert str(again.value) == str(refused.value)


def test_a_record_ends_no_segment(db: TestDatabase) -> None:
    again = record(db)
    for refused in (partial(again.condense_segment, 0, None), partial(again.end_segment, 0)):
        with pytest.raises(tr.ParameterError, match="groups are charged by row"):
            refused()


def test_other_histograms_are_refused() -> None:
    other = TestDatabase(SCHEMA, [0])
    other.open_gate(BUDGET).histogram(Gaussian(2.0))
    with pytest.raises(tr.TreeringError, match="something else"):
        record(other).histogram(Gaussian(2.5))
    with pytest.raises(tr.TreeringError, match="something else"):
        record(other).histogram(Gaussian(2.0), [0])
    record(other).histogram(Gaussian(2.0), [0, 1])
    part = TestDatabase(SCHEMA, [0])
    part.open_gate(BUDGET).histogram(Gaussian(2.0), [0])
    with pytest.raises(tr.TreeringError, match="something else"):
        record(part).histogram(Gaussian(2.0))


def test_prices_and_reservations_are_not_on_record() -> None:
    again = RecordedGate(SCHEMA, 5, BUDGET, [Noted("x")])
    with pytest.raises(tr.TreeringError, match="no prices"):
        again.cost_of_measuring([LATE], Laplace(1.0))
    with pytest.raises(tr.TreeringError, match="no prices"):
        again.cost_of_run(RunRequest(1.0, 1.0))
    with pytest.raises(tr.ParameterError, match="reserved"):
        again.reserve(BUDGET)
