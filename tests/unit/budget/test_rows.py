"""The ledger by row against a model that keeps one exact sum for each position."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.promise import Budget, Promise
from treering.budget.rows import Charge, RowLedger, Steps, priced
from treering.errors import BudgetExceeded, ParameterError

ONE = Budget("pure", Fraction(1))


class Model:
    """What the ledger means: every position has a sum of its own, and what is held is on every position."""

    def __init__(self, total: Fraction) -> None:
        self.total = total
        self.size = 0
        self.rows: dict[int, Fraction] = {}
        self.held: dict[int, Fraction] = {}

    def charged(self, position: int) -> Fraction:
        return self.rows.get(position, Fraction(0)) + sum(self.held.values())

    @property
    def spent(self) -> Fraction:
        return max(self.charged(position) for position in range(1, max(1, self.size) + 1))

    def everyone(self) -> range:
        """In an empty database the first row to come stands for everyone."""
        return range(1, max(1, self.size) + 1)

    def add(self, positions: Sequence[int], amount: Fraction) -> None:
        for position in positions:
            self.rows[position] = self.rows.get(position, Fraction(0)) + amount


class Both:
    """A ledger and its model, which are always told the same."""

    def __init__(self, total: Fraction, exact: bool = True) -> None:
        self.model = Model(total)
        self.ledger = RowLedger(Budget("zcdp", total))
        self.exact = exact
        self.set_aside: list[Charge] = []

    def attempt(self, charge: Callable[[], None], after: Fraction) -> bool:
        """Whether a charge is accepted: it must be if and only if the sums stay within the total. A refusal changes
        nothing."""
        before = self.ledger.steps, self.ledger.spent, self.ledger.left(1)
        total = self.model.total
        if total * (1 if self.exact else 1 - Fraction(1, 2**200)) < after <= total:
            return False  # Rounding may or may not refuse it.
        if after <= total:
            charge()
            return True
        with pytest.raises(BudgetExceeded) as caught:
            charge()
        assert (self.ledger.steps, self.ledger.spent, self.ledger.left(1)) == before
        refusal = caught.value
        assert refusal.spent <= refusal.total == total < refusal.spent + refusal.requested
        return False

    def append(self, rows: int) -> None:
        self.model.size += rows

    def charge(self, amount: Fraction) -> None:
        if self.attempt(lambda: self.ledger.charge(amount, self.model.size), self.model.spent + amount):
            self.model.add(self.model.everyone(), amount)

    def hold(self, name: int, amount: Fraction) -> None:
        if not self.ledger.holds(name) and self.attempt(
            lambda: self.ledger.hold(name, amount), self.model.spent + amount
        ):
            self.model.held[name] = amount

    def let_go(self, name: int, part: Fraction) -> None:
        if self.ledger.holds(name):
            amount = self.model.held.pop(name)
            self.ledger.let_go(name, self.model.size, amount * part)
            self.model.add(self.model.everyone(), amount * (1 - part))

    def charge_rows(self, cuts: Sequence[int], amounts: Sequence[Fraction]) -> None:
        """Charge every other one of the intervals between some cuts."""
        edges = sorted({cut for cut in cuts if cut <= self.model.size})
        charges = [Charge(*each, amount) for each, amount in zip(list(pairwise(edges))[::2], amounts, strict=False)]
        after = [
            max(self.model.charged(position) for position in range(charge.start + 1, charge.end + 1)) + charge.amount
            for charge in charges
        ]
        if self.attempt(lambda: self.ledger.charge_rows(charges), max(after, default=Fraction(0))):
            for charge in charges:
                self.model.add(range(charge.start + 1, charge.end + 1), charge.amount)
            self.set_aside += charges

    def settle(self, number: int, part: Fraction) -> None:
        if self.set_aside:
            given = self.set_aside.pop(number % len(self.set_aside))
            kept = Charge(given.start, given.end, given.amount * part)
            self.ledger.settle_rows([given], [kept])
            self.model.add(range(given.start + 1, given.end + 1), kept.amount - given.amount)

    def reopen(self) -> None:
        again = RowLedger(self.ledger.budget)
        again.restore(self.ledger.steps)
        for name, amount in self.model.held.items():
            again.hold(name, amount)
        assert again.steps == self.ledger.steps
        assert again.spent == self.ledger.spent
        self.ledger = again


PARTS = st.fractions(0, 1, max_denominator=12)


def steps(amounts: st.SearchStrategy[Fraction]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Lives: everything that a ledger can be told, in any order."""
    one = st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("charge"), amounts),
        st.tuples(st.just("hold"), st.integers(0, 2), amounts),
        st.tuples(st.just("let_go"), st.integers(0, 2), PARTS),
        st.tuples(
            st.just("charge_rows"), st.lists(st.integers(0, 30), max_size=5), st.lists(amounts, min_size=3, max_size=3)
        ),
        st.tuples(st.just("settle"), st.integers(0, 5), PARTS),
        st.tuples(st.just("reopen")),
    )
    return st.lists(one, max_size=40)


@settings(max_examples=300, deadline=None)
@given(steps(st.fractions(0, Fraction(1, 2), max_denominator=30)), st.integers(0, 30), st.integers(1, 8))
def test_every_position_has_the_exact_sum_of_its_charges(life: list[tuple[Any, ...]], start: int, length: int) -> None:
    both = Both(Fraction(1))
    for name, *arguments in life:
        getattr(both, name)(*arguments)
        model, ledger = both.model, both.ledger
        assert ledger.spent == model.spent <= 1
        lefts = [ledger.left(position) for position in range(1, model.size + 4)]
        assert lefts == [1 - model.charged(position) for position in range(1, model.size + 4)]
        rows = range(start + 1, start + length + 1)
        assert ledger.least_left(start, start + length) == min(1 - model.charged(position) for position in rows)


AWKWARD = st.integers(2**150, 2**200).map(lambda number: Fraction(2**145, number | 1))
"""Amounts below 1/32 whose denominators have nothing in common."""


@settings(max_examples=100, deadline=None)
@given(steps(AWKWARD), st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(1, 10**30), Fraction(10**20, 7)]))
def test_long_denominators_are_rounded_up_within_the_total(life: list[tuple[Any, ...]], total: Fraction) -> None:
    both = Both(total, exact=False)
    for name, *arguments in life:
        if name in ("charge", "hold"):
            arguments[-1] *= 8 * total
        elif name == "charge_rows":
            arguments[-1] = [8 * total * amount for amount in arguments[-1]]
        getattr(both, name)(*arguments)
        for position in range(1, both.model.size + 3):
            charged, exact = total - both.ledger.left(position), both.model.charged(position)
            assert exact <= charged <= total
            assert charged - exact <= total / 2**240
        assert both.model.spent <= both.ledger.spent <= total
        for _, amount in (*both.ledger.steps.everyone, *both.ledger.steps.rows):
            assert amount.denominator.bit_length() <= 512


def test_a_run_is_charged_to_all_who_meet_it() -> None:
    ledger = RowLedger(ONE)
    ledger.hold(0, Fraction(1, 2))
    assert ledger.left(10**9) == Fraction(1, 2)
    ledger.let_go(0, 20, refund=Fraction(1, 8))
    assert [ledger.left(position) for position in (1, 20, 21)] == [Fraction(5, 8), Fraction(5, 8), Fraction(1)]
    assert not ledger.holds(0)
    for wrong in (Fraction(-1, 8), Fraction(1, 3)):
        ledger.hold(1, Fraction(1, 4))
        with pytest.raises(ParameterError, match="refund must lie between 0 and what was charged"):
            ledger.let_go(1, 20, wrong)
        assert ledger.holds(1)
        ledger.let_go(1, 20, Fraction(1, 4))


def test_what_was_charged_to_nobody_is_the_first_row_s() -> None:
    ledger = RowLedger(ONE)
    ledger.charge(Fraction(1, 4), size=0)
    assert (ledger.spent, ledger.left(1), ledger.left(2)) == (Fraction(1, 4), Fraction(3, 4), Fraction(1))
    ledger.charge(Fraction(1, 4), size=1)
    assert (ledger.spent, ledger.left(1), ledger.left(2)) == (Fraction(1, 2), Fraction(1, 2), Fraction(1))


def test_a_table_that_grows_never_runs_dry() -> None:
    """Each stretch of rows pays the whole budget, for ever, and no row ever more than that."""
    ledger = RowLedger(ONE)
    for number in range(200):
        ledger.charge_rows([Charge(10 * number, 10 * number + 10, Fraction(1))])
        assert ledger.spent == 1
        with pytest.raises(BudgetExceeded):
            ledger.charge_rows([Charge(10 * number + 9, 10 * number + 11, Fraction(1, 10**6))])
    assert len(ledger.steps.rows) == 2  # Neighbours that have paid the same are one step.


# -- restoring ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "match"),
    [
        (Steps(((5, Fraction(3, 2)),), ((0, Fraction(0)),)), "within the budget"),
        (Steps(((5, Fraction(3, 4)),), ((0, Fraction(1, 2)), (7, Fraction(0)))), "within the budget"),
        (Steps((), ((0, Fraction(1)), (7, Fraction(5, 4)))), "within the budget"),
        (Steps((), ((3, Fraction(1)),)), "begin with the first row"),
        (Steps((), ()), "begin with the first row"),
    ],
)
def test_steps_that_cannot_be_are_refused(steps: Steps, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        RowLedger(ONE).restore(steps)


def test_what_rounding_has_added_can_be_restored() -> None:
    """Each of two sums is within the total, rounded up; together they are a little above."""
    ledger = RowLedger(ONE)
    ledger.charge_rows([Charge(0, 1, Fraction(1, 2**500))])
    ledger.charge(1 - Fraction(1, 2**500) - Fraction(1, 2**600), size=1)
    assert ledger.spent == 1
    assert sum(amount for _, amount in (*ledger.steps.everyone, *ledger.steps.rows)) > 1
    again = RowLedger(ONE)
    again.restore(ledger.steps)
    assert [again.spent, again.left(1), again.left(2)] == [1, 0, 1]
    with pytest.raises(BudgetExceeded):
        again.charge(Fraction(1, 2**1000), size=1)


LONG = [
    Promise(1.0, 1e-6, share=1 - Fraction(1, 3**200)).budget.total,
    *(1 - Fraction(1, 3**200), Fraction(1, 3**200), 1 - Fraction(1, 7**300), Fraction(2**900 + 1, 3**560)),
    *(Fraction(1, 2**1023), Fraction(2**1024 - 1, 2**1023 - 1)),
]
"""Budgets with long denominators, some of them the longest that there may be."""


@pytest.mark.parametrize("total", LONG)
def test_settling_never_charges_less_than_the_cost_under_a_budget_with_a_long_denominator(total: Fraction) -> None:
    """What was reserved and what was paid may exceed the budget together: 9/10 of it reserved, then 9/10 paid, of which
    a row that lost the difference to a cap would have 8/10 left for a second use."""
    budget = Budget("zcdp", total)
    ledger = RowLedger(budget)
    price = priced(total * Fraction(9, 10) * (1 - Fraction(1, 3**90)), budget)
    for _ in range(3):
        ledger.charge_rows([Charge(0, 10, price)])
        ledger.settle_rows([Charge(0, 10, price)], [Charge(0, 10, price)])
        assert total - ledger.left(5) == ledger.spent == price
        with pytest.raises(BudgetExceeded):
            ledger.charge_rows([Charge(0, 10, total / 5)])
        ledger.settle_rows([Charge(0, 10, price)], [])
        assert ledger.spent == 0


LONG_TOTALS = st.one_of(
    st.sampled_from(LONG),
    st.tuples(st.integers(1, 2**1024 - 1), st.integers(1, 2**1024 - 1)).map(lambda pair: Fraction(*pair)),
)


@settings(max_examples=150, deadline=None)
@given(LONG_TOTALS, st.lists(st.tuples(st.integers(1, 2**300), st.integers(0, 40), st.integers(0, 6)), max_size=25))
def test_the_sum_is_never_below_the_cost_whatever_the_denominators(
    total: Fraction, uses: list[tuple[int, int, int]]
) -> None:
    """Reserve, settle for a part, at prices and at raw amounts: against one exact sum for each row."""
    both = Both(total, exact=False)
    both.append(8)
    for divisor, numerator, kind in uses:
        amount = total * Fraction(numerator, 41) * Fraction(divisor, 2**300)
        raw = amount if kind % 2 else priced(amount, both.ledger.budget)
        both.charge_rows([kind % 3, 4 + kind % 4], [raw])
        if kind > 2:
            both.settle(kind, Fraction(numerator, 41))
        for position in range(1, 9):
            charged, exact = total - both.ledger.left(position), both.model.charged(position)
            assert exact <= charged <= exact + total / 2**240


def test_a_condensed_ledger_of_a_long_budget_is_the_same() -> None:
    budget = Budget("pure", 1 - Fraction(1, 3**200))
    ledger, again = RowLedger(budget), RowLedger(budget)
    for part in range(2, 9):
        ledger.charge_rows([Charge(part, 2 * part, priced(budget.total / part / 41, budget))])
    again.restore(ledger.steps)
    assert again.steps == ledger.steps


def test_an_interrupt_while_settling_leaves_all_of_it_or_none() -> None:
    reserved, paid = Charge(0, 10, Fraction(1, 2)), Charge(0, 6, Fraction(1, 8))
    before = ((0, Fraction(1, 2)), (10, Fraction(0)))
    after = ((0, Fraction(1, 8)), (6, Fraction(0)))
    seen = set()
    for stop in range(lines(lambda: RowLedger(ONE).settle_rows([reserved], [paid])) + 100):
        ledger = settled(reserved, paid, stop)
        seen.add(ledger.steps.rows)
        assert ledger.spent == ledger.steps.rows[0][1]
    assert seen == {before, after}


def test_what_was_settled_above_the_budget_is_found() -> None:
    """Settling refuses nothing: it is for what was paid within the budget. A record may say otherwise."""
    ledger = RowLedger(ONE)
    ledger.settle_rows([], [Charge(0, 5, Fraction(2, 3))])
    ledger.check()
    ledger.hold(1, Fraction(1, 3))
    ledger.check()
    ledger.settle_rows([], [Charge(4, 9, Fraction(1, 100))])
    with pytest.raises(BudgetExceeded):
        ledger.check()


def test_a_rounding_is_no_breach_and_more_than_that_is_one() -> None:
    """Sums may lie above the budget by 2^-200 of it, on record and in a condensed one."""
    for above, sound in ((Fraction(0), True), (Fraction(1, 2**200), True), (Fraction(1, 2**199), False)):
        ledger, again = RowLedger(ONE), RowLedger(ONE)
        ledger.settle_rows([], [Charge(0, 1, 1 + above)])
        assert [ledger.spent, ledger.left(1), ledger.left(2), ledger.least_left(0, 3)] == [1, 0, 1, 0]
        if sound:
            ledger.check()
            again.restore(ledger.steps)
            assert [again.spent, again.left(1)] == [1, 0]
        else:
            with pytest.raises(BudgetExceeded):
                ledger.check()
            with pytest.raises(ParameterError, match="within the budget"):
                again.restore(ledger.steps)


def test_charges_at_one_size_are_one_step_and_nothing_is_none() -> None:
    ledger = RowLedger(ONE)
    ledger.charge(Fraction(0), size=3)
    assert not ledger.steps.everyone
    ledger.charge(Fraction(1, 4), size=5)
    ledger.charge(Fraction(1, 8), size=5)
    assert list(ledger.steps.everyone) == [(5, Fraction(3, 8))]
    ledger.charge(Fraction(0), size=9)
    assert list(ledger.steps.everyone) == [(5, Fraction(3, 8))]
    ledger.charge(Fraction(1, 8), size=9)
    assert list(ledger.steps.everyone) == [(5, Fraction(3, 8)), (9, Fraction(1, 2))]
    assert [ledger.left(position) for position in (5, 6, 9, 10)] == [Fraction(1, 2), Fraction(7, 8), Fraction(7, 8), 1]
    ledger.charge(Fraction(1, 8), size=9)
    assert list(ledger.steps.everyone) == [(5, Fraction(3, 8)), (9, Fraction(5, 8))]
    assert [ledger.left(position) for position in (5, 6, 9, 10)] == [Fraction(3, 8), Fraction(3, 4), Fraction(3, 4), 1]
    assert ledger.spent == Fraction(5, 8)


def test_what_is_held_is_on_the_rows_that_are_charged() -> None:
    ledger = RowLedger(ONE)
    ledger.hold(0, Fraction(1, 2))
    assert ledger.spent == ledger.least_left(0, 5) == Fraction(1, 2)
    with pytest.raises(BudgetExceeded):
        ledger.charge_rows([Charge(0, 5, Fraction(3, 4))])
    ledger.charge_rows([Charge(0, 5, Fraction(1, 2))])
    assert [ledger.left(5), ledger.left(6), ledger.spent] == [0, Fraction(1, 2), 1]


# -- time --------------------------------------------------------------------------------------------------------------


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python a call runs."""
    number = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal number
        number += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return number


def settled(reserved: Charge, paid: Charge, stop: int) -> RowLedger:
    """A ledger that was interrupted at this line of settling; with a very large one, not at all."""
    ledger = RowLedger(ONE)
    ledger.charge_rows([reserved])
    with suppress(KeyboardInterrupt):
        interrupted(lambda: ledger.settle_rows([reserved], [paid]), stop)
    return ledger


def interrupted(work: Callable[[], object], stop: int) -> None:
    """Run a call, and interrupt it at its ``stop``-th line."""
    number = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal number
        number += event == "line"
        if number > stop:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)


def worn(steps: int) -> RowLedger:
    """A ledger with so many steps of each kind."""
    ledger = RowLedger(Budget("zcdp", Fraction(2**20)))
    for number in range(1, steps + 1):
        ledger.charge(Fraction(1, 2), size=10 * number)
        ledger.charge_rows([Charge(10 * number - 5, 10 * number, Fraction(1 + number % 2))])
    assert len(ledger.steps.everyone) == steps
    assert len(ledger.steps.rows) > 2 * steps
    return ledger


def test_a_charge_to_everyone_takes_the_same_time_however_many_steps_there_are() -> None:
    def work(ledger: RowLedger, size: int) -> Callable[[], object]:
        def charge() -> Fraction:
            ledger.charge(Fraction(1, 2), size)
            return ledger.spent

        return charge

    for size in (10, 30_000):  # at an old size, and at a new one
        few, many = (lines(work(worn(steps), size=size * steps)) for steps in (2, 2000))
        assert few == many < 300
    # The counter sees what does depend on them.
    assert lines(lambda: worn(2).settle_rows((), ())) < lines(lambda: worn(200).settle_rows((), ()))


# -- prices ------------------------------------------------------------------------------------------------------------

TOTALS = st.sampled_from([Fraction(1), Fraction(3, 10), Fraction(1, 7), Fraction(10**9), Fraction(0.024367)])
GRID = math.factorial(30) * 2**100


@given(TOTALS, st.integers(1, GRID), st.fractions(0, 1))
def test_a_price_is_on_the_grid_and_hardly_above_the_amount(total: Fraction, number: int, off: Fraction) -> None:
    budget = Budget("zcdp", total)
    unit = total / GRID
    assert priced(number * unit, budget) == number * unit
    price = priced((number + off) * unit, budget)
    assert price == (number + (1 if off else 0)) * unit


@given(TOTALS, st.integers(1, 30) | st.integers(1, 7).map(lambda digits: 10**digits))
def test_simple_parts_fill_the_budget_exactly(total: Fraction, parts: int) -> None:
    assert parts * priced(total / parts, Budget("pure", total)) == total


@settings(max_examples=50, deadline=None)
@given(
    TOTALS,
    st.lists(
        st.tuples(st.integers(3, 2**14) | st.integers(3, 2**40), st.integers(0, 40), st.integers(0, 40)),
        min_size=1,
        max_size=60,
    ),
    st.randoms(use_true_random=False),
)
def test_what_is_set_aside_and_given_back_in_part_is_what_the_part_costs(
    total: Fraction, uses: list[tuple[int, int, int]], shuffled: Any
) -> None:
    """Bit for bit, however many odd prices there are and in whatever order they end: both ledgers are the same."""
    budget = Budget("zcdp", total)
    life, direct = RowLedger(budget), RowLedger(budget)
    ends: list[tuple[Charge, Charge]] = []
    for number, (divisor, one, other) in enumerate(uses):
        unit = total / 64 / 40 / divisor
        reserved = Charge(number % 5, 6 + number % 3, priced(max(one, other) * unit, budget))
        paid = Charge(reserved.start, reserved.end, priced(min(one, other) * unit, budget))
        life.charge_rows([reserved])
        direct.charge_rows([paid])
        ends.append((reserved, paid))
    shuffled.shuffle(ends)
    for reserved, paid in ends:
        life.settle_rows([reserved], [paid])
    assert life.steps == direct.steps
    assert life.spent == direct.spent


def test_prices_add_up_exactly_in_any_order_also_if_their_amounts_have_nothing_in_common() -> None:
    """The exact sum of these would have a denominator of 960 bits, and be rounded up on the way."""
    primes = [number for number in range(60_000, 61_000) if all(number % divisor for divisor in range(2, 250))][:60]
    assert len(primes) == 60
    forwards, backwards = RowLedger(ONE), RowLedger(ONE)
    prices = [priced(Fraction(1, prime), ONE) for prime in primes]
    for ledger, order in ((forwards, prices), (backwards, prices[::-1])):
        for price in order:
            ledger.charge_rows([Charge(0, 10, price)])
    assert forwards.steps == backwards.steps
    assert forwards.spent == sum(prices)


@pytest.mark.parametrize("total", [Fraction(1, 2**1024), Fraction(2**1024, 3), 1 - Fraction(1, 3**700)])
def test_rejects_a_total_with_more_than_1024_bits(total: Fraction) -> None:
    with pytest.raises(ParameterError, match="at most 1024 bits each"):
        RowLedger(Budget("pure", total))
    with pytest.raises(ParameterError, match="at most 1024 bits each"):
        RowLedger(Promise(1, share=min(total, 1 / total)).budget)


@pytest.mark.parametrize("total", [Fraction(1, 2**1023), Fraction(2**1023), 1e-290, 1.2345678901234567e290])
def test_accepts_totals_of_1024_bits_and_every_usual_float(total: Any) -> None:
    assert RowLedger(Budget("zcdp", total)).left(1) == Fraction(str(total) if isinstance(total, float) else total)
