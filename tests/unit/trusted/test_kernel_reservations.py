"""A reservation: a part of the budget, charged at once, that caps what the operations of a block may cost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.gate import Measured, ReservationEnded, Reserved, RunEnded, RunRequest
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.journal import Journal, MemoryJournal
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})
JFK = tr.parse("origin = 'JFK'", SCHEMA)
SPRING = tr.parse("month BETWEEN 3 AND 5", SCHEMA)
PURE, ZCDP = Budget("pure", Fraction(1)), Budget("zcdp", Fraction(1))
RUN = RunRequest(10.0, 20.0, Laplace(5.0))
"""Costs 1/10 + 2/20 + 1/5 pure, and 1/50 + 1/50 zCDP."""


SMALL_RUN = RunRequest(20.0, 20.0)
"""Costs 3/20: it fits into three tenths."""


def opened(budget: Budget, rows: int = 240) -> tuple[Kernel, TestDatabase]:
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(rows)])
    return db.open_gate(budget), db


def part_of(budget: Budget, tenths: int) -> Budget:
    return Budget(budget.kind, Fraction(tenths, 10))


def spend_all(gate: Kernel, noise: Noise) -> int:
    """Measure one query at a time until that is refused."""
    for number in range(10_000):
        try:
            gate.measure([JFK], noise)
        except tr.BudgetExceeded:
            return number
    raise AssertionError("nothing stops it")


# -- the charge --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [PURE, ZCDP])
def test_the_part_is_charged_at_once_and_stays_charged_though_unused(budget: Budget) -> None:
    gate, db = opened(budget)
    with gate.reserve(part_of(budget, 3)) as reserved:
        assert gate.spent == Fraction(3, 10)
    assert gate.spent == Fraction(3, 10)
    assert list(gate.history) == [reserved, ReservationEnded(240)]
    assert isinstance(reserved, Reserved)
    assert (reserved.size, reserved.part) == (240, part_of(budget, 3))
    assert budget.amount(reserved.cost) == Fraction(3, 10)
    assert db.touched == 0


@pytest.mark.parametrize(
    ("budget", "noise", "each"),
    [
        (PURE, Laplace(20.0), Fraction(1, 20)),
        (ZCDP, Laplace(5.0), Fraction(1, 50)),
        (ZCDP, Gaussian(5.0), Fraction(1, 50)),
    ],
)
def test_the_block_is_paid_from_the_part_and_cannot_cost_more(budget: Budget, noise: Noise, each: Fraction) -> None:
    gate, _ = opened(budget)
    part = part_of(budget, 3)
    with gate.reserve(part):
        assert spend_all(gate, noise) == part.total // each
        assert gate.spent == part.total
    # What is left outside of it is all there is, and untouched.
    assert spend_all(gate, noise) == (1 - part.total) // each
    assert gate.spent <= 1


def test_a_refusal_within_the_block_speaks_of_the_part_and_touches_nothing() -> None:
    gate, db = opened(PURE)
    with gate.reserve(part_of(PURE, 3)):
        with pytest.raises(tr.BudgetExceeded, match=r"needs epsilon 0\.5, and 0\.3 is left of 0\.3"):
            gate.measure([JFK], Laplace(2.0))
        assert db.touched == 0


@pytest.mark.parametrize("total", [Fraction(8, 10), Fraction(2)])
def test_a_part_that_does_not_fit_is_refused_before_anything(total: Fraction) -> None:
    gate, db = opened(PURE)
    gate.measure([JFK], Laplace(4.0))
    before = (gate.spent, list(gate.history), db.touched)
    with pytest.raises(tr.BudgetExceeded, match="is left of 1"), gate.reserve(Budget("pure", total)):
        pytest.fail("the block must not run")
    assert (gate.spent, list(gate.history), db.touched) == before
    with gate.reserve(Budget("pure", Fraction(3, 4))):
        pass


def test_a_pure_part_of_a_zcdp_budget_costs_half_its_square() -> None:
    gate, _ = opened(ZCDP)
    with gate.reserve(Budget("pure", Fraction(1, 2))) as reserved:
        assert gate.spent == Fraction(1, 8)
        # Within it the part is what counts: five times 1/10, which would be 5/200 as zCDP.
        assert spend_all(gate, Laplace(10.0)) == 5
        with pytest.raises(tr.ParameterError, match="delta > 0"):
            gate.measure([JFK], Gaussian(10.0))
    assert gate.budget.amount(reserved.cost) == gate.spent == Fraction(1, 8)
    gate.measure([JFK], Gaussian(10.0))


def test_a_zcdp_part_of_a_pure_budget_is_refused_before_anything_is_charged() -> None:
    gate, db = opened(PURE)
    with pytest.raises(tr.ParameterError, match="pure guarantee"), gate.reserve(ZCDP):
        pytest.fail("the block must not run")
    assert gate.spent == len(gate.history) == db.touched == 0
    with gate.reserve(PURE):
        pass


# -- one at a time -----------------------------------------------------------------------------------------------------


def test_a_reservation_within_another_is_refused_and_leaves_it_alone() -> None:
    gate, _ = opened(PURE)
    with gate.reserve(part_of(PURE, 3)):
        with pytest.raises(tr.ParameterError, match="within another"), gate.reserve(part_of(PURE, 1)):
            pytest.fail("the block must not run")
        assert gate.spent == Fraction(3, 10)
        assert spend_all(gate, Laplace(10.0)) == 3
    assert [type(event) for event in gate.history] == [Reserved, Measured, Measured, Measured, ReservationEnded]
    with gate.reserve(part_of(PURE, 1)):
        pass
    assert gate.spent == Fraction(4, 10)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, tr.QueryError])
def test_an_error_passes_through_and_ends_the_reservation(error: type[BaseException]) -> None:
    gate, _ = opened(PURE)

    def fail() -> None:
        with gate.reserve(part_of(PURE, 3)):
            gate.measure([JFK], Laplace(10.0))
            gate.begin_run(SMALL_RUN)
            raise error("mid-way")

    with pytest.raises(error, match="mid-way"):
        fail()
    assert gate.spent == Fraction(3, 10)
    assert [type(event) for event in gate.history][-2:] == [RunEnded, ReservationEnded]
    gate.measure([JFK], Laplace(2.0))  # 1/2: more than the part was, so it is paid from the whole
    assert gate.spent == Fraction(8, 10)


# -- sparse-vector runs ------------------------------------------------------------------------------------------------


def test_a_run_begun_in_the_block_ends_with_it() -> None:
    gate, _ = opened(PURE)
    with gate.reserve(part_of(PURE, 3)):
        run = gate.begin_run(SMALL_RUN).run
        assert gate.first_exceeding(run, [JFK], [10**6]).crossing is None
    with pytest.raises(tr.Halted, match="is over"):
        gate.first_exceeding(run, [JFK], [10**6])
    assert gate.spent == Fraction(3, 10)
    with pytest.raises(KeyError):
        gate._desk.journal.secret(run)  # its secret is destroyed with it


def test_a_run_begun_before_waits_outside_and_lives_on() -> None:
    gate, _ = opened(PURE)
    run = gate.begin_run(SMALL_RUN).run
    before = gate.spent
    with gate.reserve(part_of(PURE, 3)):
        for use in (lambda: gate.first_exceeding(run, [JFK], [10**6]), lambda: gate.end_run(run)):
            with pytest.raises(tr.ParameterError, match="begun before the reservation"):
                use()
    assert gate.first_exceeding(run, [JFK], [10**6]).crossing is None
    # What it gives back goes to the whole budget, which paid for it.
    refund = gate.end_run(run).refund
    assert gate.spent == before + Fraction(3, 10) - refund


@pytest.mark.parametrize(
    ("whole", "part", "refund"),
    [
        (PURE, PURE, Fraction(3, 10)),  # 2/20 of the run, and 1/5 for the answer
        (ZCDP, ZCDP, Fraction(1, 50)),  # the answer alone
        # In the unit of the part, which paid: in a pure part all but 1/s1 comes back, whatever the whole counts.
        (ZCDP, PURE, Fraction(3, 10)),
    ],
)
def test_what_an_abandoned_run_gives_back_goes_to_the_part(whole: Budget, part: Budget, refund: Fraction) -> None:
    gate, db = opened(whole)
    with gate.reserve(part_of(part, 4)) as reserved:
        started = gate.begin_run(RUN)
        assert gate.end_run(started.run).refund == refund
        charged = whole.amount(reserved.cost)
        assert gate.spent == charged
        left = Fraction(4, 10) - part.amount(started.cost) + refund
        each = Fraction(1, 40) if part.kind == "pure" else Fraction(1, 3200)
        assert spend_all(gate, Laplace(40.0)) == left // each
    assert gate.spent == db.open_gate(whole).spent == charged


def test_a_run_with_a_sharp_answer_ends_well_in_a_pure_part_of_a_zcdp_budget() -> None:
    """Its answer's ρ is 50 and its ε is 10: giving back the one for the other would be wrong by far."""
    gate, db = opened(Budget("zcdp", Fraction(1000)))
    with gate.reserve(Budget("pure", Fraction(11))):
        gate.begin_run(RunRequest(10.0, 20.0, Laplace(0.1)))
    ended = [event for event in gate.history if isinstance(event, RunEnded)]
    assert [event.refund for event in ended] == [Fraction(1, 10) + 1 / Fraction(0.1)]
    assert gate.spent == db.open_gate(gate.budget).spent == Fraction(121, 2)


# -- what is on record -------------------------------------------------------------------------------------------------


def as_it_is(journal: Journal) -> MemoryJournal:
    """A copy, which what happens next does not reach."""
    assert isinstance(journal, MemoryJournal)
    copy = MemoryJournal()
    copy._events, copy._secrets = list(journal._events), dict(journal._secrets)
    return copy


@pytest.mark.parametrize("with_run", [False, True])
def test_a_life_that_ended_within_the_block_is_restored_outside_of_it(with_run: bool) -> None:
    """As after a crash: the journal ends in the middle of a reservation."""
    gate, db = opened(PURE)
    with gate.reserve(part_of(PURE, 3)):
        gate.measure([JFK], Laplace(10.0))
        if with_run:
            gate.begin_run(SMALL_RUN)
        db.journal = as_it_is(db.journal)
    crashed = len(db.journal.events())
    again = db.open_gate(PURE)
    assert [type(event) for event in again.history[crashed:]] == [RunEnded] * with_run + [ReservationEnded]
    assert again.spent == Fraction(3, 10)
    with pytest.raises(tr.Halted):
        again.first_exceeding(0, [JFK], [0])
    again.measure([JFK], Laplace(2.0))  # more than the part: it is over
    assert again.spent == Fraction(8, 10)
    third = db.open_gate(PURE)
    assert (third.spent, len(third.history)) == (again.spent, len(again.history))


STEPS: dict[str, Callable[[Kernel], Any]] = {
    "measure": lambda gate: gate.measure([JFK, SPRING], Laplace(30.0)),
    "gauss": lambda gate: gate.measure([JFK], Gaussian(9.0)),
    "histogram": lambda gate: gate.histogram(Laplace(40.0), [0]),
    "select": lambda gate: gate.select([JFK, SPRING], 50.0),
    "run": lambda gate: gate.begin_run(RunRequest(30.0, 40.0, Laplace(20.0))),
    "compare": lambda gate: gate.first_exceeding(max(gate._desk.charges.runs), [JFK], [10**6]),
    "end": lambda gate: gate.end_run(max(gate._desk.charges.runs)),
    "note": lambda gate: gate.note("a step"),
}
PARTS = [Budget("pure", Fraction(1, 4)), Budget("zcdp", Fraction(1, 10)), Budget("zcdp", Fraction(2, 3))]


@given(
    plan=st.lists(
        st.tuples(st.sampled_from([None, *PARTS]), st.lists(st.sampled_from(sorted(STEPS)), max_size=6)), max_size=5
    )
)
@settings(max_examples=60, deadline=None)
def test_a_restored_kernel_has_spent_what_the_live_one_has(plan: list[tuple[Budget | None, list[str]]]) -> None:
    """Blocks with and without a reservation, refusals included."""
    gate, db = opened(ZCDP)
    for part, steps in plan:
        if part is None:
            take(gate, steps)
            continue
        before = gate.spent
        try:
            with gate.reserve(part) as reserved:
                take(gate, steps)
                assert gate.spent == before + reserved.cost.rho
        except tr.BudgetExceeded:
            continue
        assert gate.spent == before + reserved.cost.rho
    again = db.open_gate(ZCDP)
    assert again.spent == gate.spent <= ZCDP.total
    assert again._desk.charges.runs.keys() == gate._desk.charges.runs.keys()
    assert list(again.history) == list(gate.history)


def take(gate: Kernel, steps: list[str]) -> None:
    for step in steps:
        if step in ("compare", "end") and not gate._desk.charges.runs:
            continue
        try:
            STEPS[step](gate)
        except (tr.BudgetExceeded, tr.ParameterError):
            continue


# -- threads -----------------------------------------------------------------------------------------------------------


def test_other_threads_wait_until_the_block_is_over() -> None:
    """An append, and a measurement that the part could not pay for."""
    gate, db = opened(PURE)
    sizes: list[int] = []

    def work() -> None:
        db.append_cells([0, 0, 0])
        sizes.append(gate.measure([JFK], Laplace(2.0)).size)

    other = threading.Thread(target=work)
    with gate.reserve(part_of(PURE, 3)):
        other.start()
        other.join(timeout=0.2)
        assert other.is_alive()
        assert db.size == gate.size == 240
        gate.measure([JFK], Laplace(10.0))
    other.join(timeout=10)
    assert sizes == [243]
    assert gate.spent == Fraction(8, 10)
    assert [type(event) for event in gate.history] == [Reserved, Measured, ReservationEnded, Measured]
