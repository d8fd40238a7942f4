"""Condensing: one event stands for all before it, in the kernel and for PMWG; nothing changes but the length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.mechanism_contract import SCHEMA, rows
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.workload import random_conjunctions
from treering.gate import Condensed, Ones, RunRequest, Span
from treering.noise import Gaussian, Laplace
from treering.trusted.kernel import Kernel

QUERY = tr.parse("late = 'yes'", SCHEMA)
BUDGET = Budget("pure", tr.Promise(10.0).budget.total)
REQUEST = RunRequest(50.0, 100.0, Laplace(10.0))


def database() -> TestDatabase:
    return TestDatabase(SCHEMA, rows(1000))


# -- the kernel --------------------------------------------------------------------------------------------------------


def test_charges_runs_and_numbers_survive() -> None:
    db = database()
    gate = Kernel(db.rows, BUDGET, db.journal)
    gate.measure([QUERY], Laplace(5.0))
    first = gate.begin_run(REQUEST).run
    second = gate.begin_run(REQUEST).run
    gate.end_run(first)
    secret = db.journal.secret(second).value
    spent = gate.spent
    event = gate.condense("all of it")
    assert (event.spent, event.next_run, event.size) == (spent, 2, 1000)
    assert [run.run for run in event.runs] == [second]
    assert gate.history == (event,)
    again = Kernel(db.rows, BUDGET, db.journal)
    assert again.spent == spent
    assert db.journal.secret(second).value == secret
    assert again.first_exceeding(second, [QUERY], [10**9]).asked == 1
    assert again.begin_run(REQUEST).run == 2
    with pytest.raises(tr.Halted):
        again.first_exceeding(first, [QUERY], [0])


def test_condensing_twice_is_condensing_once() -> None:
    db = database()
    gate = Kernel(db.rows, BUDGET, db.journal)
    run = gate.begin_run(REQUEST).run
    one = gate.condense("note")
    other = gate.condense("note")
    assert one == other
    assert [each.run for each in other.runs] == [run]
    again = Kernel(db.rows, BUDGET, db.journal)
    assert again.condense("note") == one


def test_it_costs_and_touches_nothing() -> None:
    db = database()
    gate = Kernel(db.rows, BUDGET, db.journal)
    touched = db.touched
    gate.condense(None)
    assert gate.spent == 0
    assert db.touched == touched


def test_an_open_reservation_cannot_be_stood_for() -> None:
    db = database()
    gate = Kernel(db.rows, BUDGET, db.journal)
    with gate.reserve(Budget("pure", BUDGET.total / 2)), pytest.raises(tr.ParameterError, match="note cannot replace"):
        gate.condense(None)
    gate.condense(None)


def test_a_segment_in_progress_goes_on_and_charges_stay_with_their_rows() -> None:
    """Its number, its leaves, and what they have used of their room; marks, and what each row has left."""
    db = database()
    gate = Kernel(db.rows, BUDGET, db.journal)
    gate.mark()
    over, segment = (gate.begin_segment(Groups.marginal(SCHEMA), Laplace(10.0), 3).segment for _ in range(2))
    for number in (over, segment):
        gate.advance(number, [Ones(1)])
    gate.end_segment(over)
    db.append_cells(rows(10))
    gate.measure([QUERY], Laplace(5.0))
    db.append_cells(rows(10))
    left = [gate.left(position) for position in (1, 1000, 1001, 1010, 1011)]
    event = gate.condense("all of it")
    assert gate.history == (event,)
    again = Kernel(db.rows, BUDGET, db.journal)
    assert [again.left(position) for position in (1, 1000, 1001, 1010, 1011)] == left
    assert again.spent == gate.spent
    assert again.condense("all of it").steps == event.steps
    with pytest.raises(tr.ParameterError, match="room"):
        again.advance(segment, [Ones(2)] * 3)
    assert again.advance(segment, [Ones(1), Ones(2)]).leaf == 2
    again.combine(Groups.marginal(SCHEMA), [Span(0, 1000, 1), Span(1000, 1020, -1)], Laplace(10.0))
    assert again.begin_segment(Groups.marginal(SCHEMA), Laplace(10.0), 1).segment == 2
    with pytest.raises(tr.ParameterError, match="is over"):
        again.advance(over, [Ones(1)])


# -- PMWG --------------------------------------------------------------------------------------------------------------


def make(db: TestDatabase, **options: Any) -> tr.PMWG:
    return tr.PMWG(db, **{"epsilon": 50.0, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, **options})


@pytest.mark.parametrize("options", [{}, {"measure_first": False}, {"delta": 0.0}], ids=["tight", "guard", "pure"])
@pytest.mark.parametrize("seed", range(3))
def test_condensing_in_mid_life_changes_no_state_and_replays_equal(options: dict[str, Any], seed: int) -> None:
    """As the contract of mechanisms, with a condensation after every few questions."""
    generator = np.random.default_rng(seed)
    db = TestDatabase(SCHEMA, rows(40_000, seed))
    live = make(db, **options)
    for number, query in enumerate(random_conjunctions(SCHEMA, 60, generator)):
        live.ask(query)
        db.append_cells(rows(300, seed + number))
        if number % 5 == 0:
            before = (live.state, live.spent, live.price(query), live.hypothesis.answer(query))
            live.condense()
            assert (live.state, live.spent, live.price(query), live.hypothesis.answer(query)) == before
            assert [type(event) for event in db.journal.events()] == [Condensed]
        again = make(db, **options)
        assert (again.state, again.spent) == (live.state, live.spent)
        assert again.price(query) == live.price(query)
        live = again if number % 7 == 0 else live
    assert live.hypothesis.steps > 5


def test_before_the_first_question_there_is_nothing_to_condense() -> None:
    db = database()
    live = make(db)
    live.condense()
    assert db.journal.events() == ()


def test_the_papers_profile_keeps_its_events() -> None:
    db = TestDatabase(SCHEMA, rows(1000))
    live = tr.PMWG(db, 1.0, alpha=0.9, beta=0.05, profile="paper")
    live.ask(QUERY)
    before = db.journal.events()
    live.condense()
    assert db.journal.events() == before


def test_noise_of_the_other_kind_still_fits_its_budget() -> None:
    """The filter goes on from what was spent: not a charge more fits."""
    db = database()
    gate = Kernel(db.rows, Budget("zcdp", tr.Promise(1.0, 1e-6).budget.total), db.journal)
    gate.measure([QUERY] * 3, Gaussian(20.0))
    gate.condense(None)
    again = Kernel(db.rows, gate.budget, db.journal)
    assert again.spent == gate.spent > 0
    with pytest.raises(tr.BudgetExceeded) as caught:
        again.measure([QUERY] * 500, Gaussian(20.0))
    assert caught.value.spent == gate.spent
