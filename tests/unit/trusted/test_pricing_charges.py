"""What a history of events has cost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.budget.cost import Cost, laplace, pure
from treering.budget.promise import Budget
from treering.budget.rows import Steps
from treering.gate import (
    Compared,
    Condensed,
    Event,
    Measured,
    Noted,
    ReservationEnded,
    Reserved,
    RunEnded,
    RunRequest,
    RunStarted,
)
from treering.noise import Laplace
from treering.trusted.charges import Charges
from treering.trusted.kernel import follow

ONE = Budget("pure", Fraction(1))


def measured(cost: Cost) -> Measured:
    return Measured(10, cost, (), Laplace(4.0), ())


def started(cost: Cost, run: int = 0) -> RunStarted:
    return RunStarted(10, cost, run, RunRequest(4.0, 8.0, None))


def reserving(part: Budget) -> Reserved:
    return Reserved(10, pure(part.total), part)


def test_events_cost_what_they_cost() -> None:
    charges = Charges(ONE)
    follow(measured(laplace(1, 4)), charges)
    follow(started(laplace(1, 8)), charges)
    follow(Compared(10, 0, 5, None), charges)
    follow(Noted("nothing"), charges)
    assert charges.spent == Fraction(3, 8)
    follow(RunEnded(10, 0, Fraction(1, 16)), charges)
    assert charges.spent == Fraction(5, 16)


def test_what_is_done_within_a_reservation_is_paid_by_it() -> None:
    charges = Charges(ONE)
    part = Budget("pure", Fraction(1, 2))
    follow(reserving(part), charges)
    assert (charges.spent, charges.reserved, charges.present) == (Fraction(1, 2), True, part)
    follow(measured(laplace(1, 4)), charges)
    follow(started(laplace(1, 4)), charges)
    assert charges.spent == Fraction(1, 2)
    with pytest.raises(tr.BudgetExceeded) as caught:
        charges.charge(laplace(1, 100), 10)
    assert caught.value.total == Fraction(1, 2)
    follow(RunEnded(10, 0, Fraction(1, 8)), charges)
    charges.charge(laplace(1, 8), 10)
    follow(ReservationEnded(10), charges)
    assert (charges.spent, charges.reserved, charges.present) == (Fraction(1, 2), False, ONE)
    follow(measured(laplace(1, 2)), charges)
    assert charges.spent == 1
    with pytest.raises(tr.BudgetExceeded):
        charges.charge(laplace(1, 1000), 10)


def test_a_part_that_does_not_fit_is_refused() -> None:
    charges = Charges(ONE)
    charges.charge(laplace(1, 2), 10)
    with pytest.raises(tr.BudgetExceeded):
        charges.charge(pure(Fraction(2, 3)), 10)
    assert charges.spent == Fraction(1, 2)


def everyone(amount: Fraction) -> Steps:
    """An amount that all ten rows have paid."""
    return Steps(((10, amount),) if amount else (), ((0, Fraction(0)),))


def test_condensed_events_have_cost_what_they_had() -> None:
    charges = Charges(ONE)
    follow(Condensed(10, Fraction(3, 7), 4, (), None, everyone(Fraction(3, 7))), charges)
    assert charges.spent == Fraction(3, 7)
    follow(measured(laplace(1, 2)), charges)
    assert charges.spent == Fraction(13, 14)
    with pytest.raises(tr.ParameterError, match="steps of an earlier life must lie within the budget"):
        follow(Condensed(10, Fraction(8, 7), 4, (), None, everyone(Fraction(8, 7))), Charges(ONE))


@given(st.lists(st.integers(2, 60), max_size=20), st.integers(0, 20))
def test_following_a_history_gives_the_live_sum(scales: list[int], cut: int) -> None:
    """From its first event, or from a condensed beginning."""
    live, events = Charges(Budget("zcdp", Fraction(3))), list[Event]()
    for scale in scales:
        cost = laplace(1, scale)
        live.charge(cost, 10)
        events.append(measured(cost))
    again, from_cut = Charges(live.budget), Charges(live.budget)
    for number, event in enumerate(events):
        follow(event, again)
        if number < cut:
            follow(Condensed(10, again.spent, 0, (), None, everyone(again.spent)), from_cut)
        else:
            follow(event, from_cut)
    assert again.spent == live.spent == from_cut.spent
