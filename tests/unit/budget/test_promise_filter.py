from __future__ import annotations

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.cost import FREE, Cost, gaussian, laplace, pure
from treering.budget.promise import Budget, Filter, rounded_up
from treering.errors import BudgetExceeded, ParameterError
from treering.params import exact, exact_scale

scales = st.floats(min_value=1e-3, max_value=1e12)


def filter_of(total: Fraction | int, kind: str = "pure") -> Filter:
    return Filter(Budget("pure" if kind == "pure" else "zcdp", Fraction(total)))


def test_three_tenths_fit_exactly() -> None:
    guard = filter_of(exact(0.3, "epsilon"))
    for _ in range(3):
        assert guard.charge(pure(exact(0.1, "epsilon"))) == Fraction(1, 10)
    assert guard.spent == guard.total == Fraction(3, 10)
    assert guard.remaining == 0
    assert guard.charge(FREE) == 0
    with pytest.raises(BudgetExceeded):
        guard.charge(pure(Fraction(1, 10**30)))


def test_a_refusal_changes_nothing_and_shows_all_three_numbers() -> None:
    guard = filter_of(1, "zcdp")
    guard.charge(gaussian(1, 1))
    with pytest.raises(BudgetExceeded, match=r"needs rho 2, and 0\.5 is left of 1$") as caught:
        guard.charge(Cost(None, Fraction(2)))
    refusal = caught.value
    assert (refusal.unit, refusal.spent, refusal.requested, refusal.total) == (
        "rho",
        Fraction(1, 2),
        Fraction(2),
        Fraction(1),
    )
    assert guard.spent == Fraction(1, 2)
    assert guard.charge(gaussian(1, 1)) == Fraction(1, 2)


def test_the_unit_is_the_budgets() -> None:
    assert filter_of(1).charge(laplace(1, 2)) == Fraction(1, 2)
    assert filter_of(1, "zcdp").charge(laplace(1, 2)) == Fraction(1, 8)


def test_a_gaussian_never_enters_a_pure_filter() -> None:
    guard = filter_of(1)
    for operation in (guard.charge, guard.can_afford):
        with pytest.raises(ParameterError, match="delta > 0"):
            operation(gaussian(1, 100))
    assert guard.spent == 0


def test_refunds() -> None:
    guard = filter_of(1)
    guard.charge(pure(Fraction(3, 4)))
    guard.refund(Fraction(1, 2))
    assert guard.spent == Fraction(1, 4)
    for wrong in (Fraction(-1, 10), Fraction(1, 3)):
        with pytest.raises(ParameterError, match="refund"):
            guard.refund(wrong)
    assert guard.spent == Fraction(1, 4)


def test_all_that_is_left_can_be_charged_and_all_that_was_spent_refunded() -> None:
    guard = filter_of(1)
    assert guard.budget == Budget("pure", Fraction(1))
    guard.charge(pure(Fraction(1, 4)))
    assert guard.can_afford(pure(Fraction(3, 4)))
    assert not guard.can_afford(pure(Fraction(3, 4) + Fraction(1, 10**30)))
    assert guard.spent == Fraction(1, 4)
    guard.refund(Fraction(0))
    assert guard.remaining == Fraction(3, 4)
    guard.refund(Fraction(1, 4))
    assert [guard.spent, guard.remaining] == [0, 1]


@settings(max_examples=200)
@given(st.lists(st.tuples(scales, scales), max_size=60), st.fractions(Fraction(1, 1000), 100))
def test_the_sum_never_exceeds_the_budget(runs: list[tuple[float, float]], total: Fraction) -> None:
    guard = filter_of(total, "zcdp")
    true_sum = Fraction(0)
    for s1, s2 in runs:
        cost = pure(1 / exact_scale(s1, "s1") + 2 / exact_scale(s2, "s2"))
        affordable = guard.can_afford(cost)
        try:
            true_sum += guard.charge(cost)
            assert affordable
        except BudgetExceeded:
            assert not affordable
        assert true_sum <= guard.spent <= total
        # Rounding wastes next to nothing, so a refusal is a real one.
        assert guard.spent - true_sum <= len(runs) * total / 2**256


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), scales, st.fractions(0, 1, max_denominator=10**6)), max_size=60))
def test_refunds_never_undercount(steps: list[tuple[bool, float, Fraction]]) -> None:
    guard = filter_of(100)
    live: list[Fraction] = []
    for refund, scale, part in steps:
        cost = laplace(1, exact_scale(scale, "scale"))
        if live and refund:
            charged = live.pop(0)
            guard.refund(charged * part)
            live.append(charged * (1 - part))
        elif guard.can_afford(cost):
            live.append(guard.charge(cost))
        assert sum(live) <= guard.spent <= guard.total


def test_refunding_everything_leaves_no_less_than_nothing() -> None:
    guard = filter_of(1000)
    charges = [guard.charge(laplace(1, Fraction(math.sqrt(n)))) for n in range(2, 200)]
    for amount in charges:
        guard.refund(amount)
    assert 0 <= guard.spent <= Fraction(1000, 2**240)


def test_a_hundred_thousand_odd_charges_stay_fast_and_never_undercount() -> None:
    count = 100_000
    guard = filter_of(10**6)
    # Reciprocals of distinct floats: their exact sum would have millions of bits. Rounded, they bound it on both sides.
    floor_sum, ceiling_sum = 0, 0
    started = time.process_time()
    for step in range(count):
        scale = Fraction(1 + step / count)
        amount = guard.charge(laplace(1, scale))
        floor_sum += (amount.numerator << 400) // amount.denominator
        ceiling_sum += -((-amount.numerator << 400) // amount.denominator)
    elapsed = time.process_time() - started
    assert Fraction(floor_sum, 2**400) <= guard.spent
    assert guard.spent <= Fraction(ceiling_sum, 2**400) + count * guard.total / 2**256
    assert guard.spent.denominator.bit_length() <= 512
    assert elapsed < 10


@pytest.mark.parametrize("total", [Fraction(1, 10**300), Fraction(1, 3), Fraction(10**200)])
def test_the_grid_follows_the_total(total: Fraction) -> None:
    """However small or large the budget, many awkward charges that fill a tenth of it are not counted as more."""
    guard = filter_of(total)
    charged = sum(guard.charge(pure(total / 1000 / Fraction(math.sqrt(n)))) for n in range(1, 101))
    assert charged <= guard.spent <= charged * (1 + Fraction(1, 2**200))


TOTALS = [
    *(Fraction(1), Fraction(1, 3), Fraction(5, 7), Fraction(2**20 - 1), Fraction(1, 2**20 - 1)),
    *(Fraction(10**200), Fraction(1, 10**300), Fraction(2**20 - 1, 2**30), Fraction(2**30, 2**20 - 1)),
]


@pytest.mark.parametrize("total", TOTALS)
def test_a_sum_is_rounded_up_to_a_grid_just_below_the_256th_power_of_a_half(total: Fraction) -> None:
    """The grid is the power of two that lies between 2^-258 and 2^-256 of the total."""
    unit = rounded_up(total / 3**400, total)
    assert total / 2**258 < unit < total / 2**256
    assert 1 in (unit.numerator, unit.denominator)
    assert max(unit.numerator, unit.denominator).bit_count() == 1
    for steps in (1, 2, 1000, 2**200 + 1):
        for off in (Fraction(1, 3**400), 1 - Fraction(1, 3**400)):
            assert rounded_up((steps - off) * unit, total) == steps * unit
    assert rounded_up(total * (1 - Fraction(1, 3**400)), total) == total


def test_sums_are_exact_while_their_denominators_have_512_bits() -> None:
    for odd in (1, 3, 2**300 + 1):
        for bits, same in ((511, True), (512, True), (513, False)):
            value = Fraction(odd, 2 ** (bits - 1))
            assert value.denominator.bit_length() == bits
            assert (rounded_up(value, Fraction(1)) == value) == same


def test_replaying_the_charges_gives_the_same_spent() -> None:
    first, second = filter_of(50), filter_of(50)
    for guard in (first, second):
        for n in range(2, 100):
            guard.charge(laplace(1, Fraction(math.sqrt(n) + 5)))
        guard.refund(Fraction(1, 7))
    assert first.spent == second.spent


def test_repr_shows_what_is_left() -> None:
    guard = filter_of(2)
    guard.charge(pure(Fraction(1, 2)))
    assert repr(guard) == "Filter(epsilon: spent 0.5 of 2)"
