"""The tight profile's decisions about money, on both sides of each boundary: plans and prices are stand-ins."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.gate import Noted, RunRequest
from treering.mechanisms.state import Grown, Measurement, RunState
from treering.mechanisms.tight import Tight
from treering.noise import Gaussian
from treering.theory.pmwg import until_spent
from treering.theory.pmwg.tight import MOST_QUERIES, scaled_for
from treering.theory.sparse import RunScales

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3)})
SIZE = 4000
QUERY = tr.parse("a = 1", SCHEMA)
REQUEST = RunRequest(1.0, 2.0, Gaussian(3.0))
TOTAL = Fraction(10)
TINY = Fraction(1, 2**40)


def made(**options: Any) -> Tight:
    given = {"epsilon": 1000.0, "delta": 1e-6, "alpha": 0.2, "beta": 0.05, **options}
    pmwg = tr.PMWG(TestDatabase(SCHEMA, [row % SCHEMA.cells for row in range(SIZE)]), **given)
    pmwg.ask("TRUE")
    assert isinstance(pmwg._engine, Tight)
    return pmwg._engine


class Priced:
    """In place of a plan: what its runs are estimated to cost, and which of them that was asked about."""

    def __init__(self, estimate: float, renewals: int = 0, last: int = 0) -> None:
        self.estimate, self.renewals, self.last = estimate, renewals, last
        self.asked: list[tuple[int, int, float | None]] = []
        self.served: list[tuple[int, int, int]] = []

    def cost_of_run(self, size: int, run: int, log_queries: float | None = None) -> float:
        self.asked.append((size, run, log_queries))
        return self.estimate

    def serves(self, scales: RunScales, size: int, run: int, query: int) -> bool:
        self.served.append((size, run, query))
        return query <= self.last


class Prices:
    """An engine whose measurements and runs have the prices that a test gives them, of a budget of ten."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = made()
        self.gate = SimpleNamespace(budget=Budget("pure", TOTAL), spent=Fraction(0), size=SIZE)
        self.due, self.run = Fraction(1), Fraction(1)
        self.runs: list[tuple[int, float | None, int]] = []
        monkeypatch.setattr(self.engine, "gate", self.gate)
        monkeypatch.setattr(self.engine, "_measuring_share", float(TOTAL) / 2)
        monkeypatch.setattr(self.engine, "_due", lambda *_: self.due)
        monkeypatch.setattr(self.engine, "_run", self._run)

    def _run(self, plan: Priced, size: int, log_queries: float | None, more: int = 0) -> tuple[RunRequest, Fraction]:
        self.runs.append((size, log_queries, more))
        return REQUEST, self.run


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> Prices:
    return Prices(monkeypatch)


def plan(estimate: float, renewals: int = 0, last: int = 0) -> Any:
    return Priced(estimate, renewals, last)


# -- measure, or begin a run -------------------------------------------------------------------------------------------


def test_a_run_is_begun_if_it_is_paid_for_twice_over_or_nothing_can_be_measured(prices: Prices) -> None:
    """By the streak, and by what is left; otherwise the query is measured, if measuring's half pays for it."""
    engine, state = prices.engine, prices.engine.state
    for streak, patience, due, measured, cost, spent in product((0, 3, 6), (1, 2), (1, 2), (3, 4), (3, 6), (4, 7)):
        state.streak, state.patience, state.measured = streak, patience, float(measured)
        prices.due, prices.run, prices.gate.spent = Fraction(due), Fraction(cost), Fraction(spent)
        worthwhile = streak * due >= patience * cost and spent + cost <= 10
        measure = measured + due <= 5 and not worthwhile
        expected = (None, Fraction(due)) if measure else (REQUEST, Fraction(cost))
        assert engine._choice(plan(float(cost)), QUERY, SIZE) == expected
        assert engine._choice(plan(0.0), QUERY, SIZE) == expected, "a low estimate decides nothing"


@pytest.mark.parametrize("renewals", [0, 3])
def test_it_is_the_next_run_that_is_priced(prices: Prices, renewals: int) -> None:
    """For all queries, or for a number of them if it can be renewed."""
    engine, given = prices.engine, plan(0.0, renewals)
    engine.state.runs, engine.state.asked = 4, 70
    queries = math.log(scaled_for(70)) if renewals else None
    engine._choice(given, QUERY, SIZE)
    assert (given.asked, prices.runs) == ([(SIZE, 5, queries)], [(SIZE, queries, 0)])
    engine._measure_first = False
    assert engine._choice(given, QUERY, 2 * SIZE) == (REQUEST, Fraction(1))
    assert (given.asked[1:], prices.runs[1:]) == ([], [(2 * SIZE, queries, 0)])
    prices.gate.spent = TOTAL
    assert not engine._payable(given, QUERY, 3 * SIZE)
    assert given.asked[1:] == [(3 * SIZE, 5, queries)]


def test_a_question_may_take_the_last_of_the_budget_and_no_more(
    prices: Prices, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, given = prices.engine, plan(0.0)
    chosen: list[tuple[RunRequest | None, Fraction]] = [(None, Fraction(3)), (REQUEST, Fraction(3))]
    for choice in chosen:
        monkeypatch.setattr(engine, "_choice", lambda *_, choice=choice: choice)
        prices.gate.spent = Fraction(7)
        assert engine._next(given, QUERY, SIZE) == choice
        prices.gate.spent = 7 + TINY
        with pytest.raises(tr.BudgetExceeded) as caught:
            engine._next(given, QUERY, SIZE)
        refused = caught.value
        assert (refused.spent, refused.requested, refused.total) == (7 + TINY, Fraction(3), TOTAL)
        assert refused.unit == "epsilon"


@pytest.mark.parametrize(
    ("enough", "says"),
    [
        (2 * SIZE, "from about 8,000 rows on it is cheap enough"),
        (2**49, "rows on it is cheap"),
        (2**52, "is left of 10"),
    ],
)
def test_a_refusal_names_the_size_that_would_do_if_it_is_not_too_far_off(
    prices: Prices, enough: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = prices.engine
    prices.due, prices.gate.spent = 2 * TOTAL, Fraction(0)
    asked: list[int] = []

    def payable(_: Any, query: tr.Query, size: int) -> bool:
        asked.append(size)
        return query is QUERY and size >= enough

    monkeypatch.setattr(engine, "_payable", payable)
    prices.run = 2 * TOTAL
    with pytest.raises(tr.BudgetExceeded, match=says) as caught:
        engine._next(plan(0.0), QUERY, SIZE)
    assert ("on it is cheap enough" in str(caught.value)) == (enough < 2**50)
    assert asked[0] == 2 * SIZE
    assert 2**48 < max(asked) < 2**52 or enough == 2 * SIZE


def test_what_is_left_pays_for_a_measurement_or_for_a_run(prices: Prices) -> None:
    engine, state, dear = prices.engine, prices.engine.state, plan(100.0)
    prices.due = Fraction(2)
    for spent, measured, payable in (
        (Fraction(8), 3.0, True),
        (8 + TINY, 3.0, False),
        (Fraction(8), 3.0 + 2.0**-40, False),
        (Fraction(0), 3.0, True),
        (Fraction(8), 0.0, True),
        (Fraction(0), 5.0, False),
    ):
        prices.gate.spent, state.measured = spent, measured
        assert engine._payable(dear, QUERY, SIZE) == payable
    prices.due, prices.gate.spent = TOTAL, Fraction(7)
    for measure_first in (True, False):
        engine._measure_first = measure_first
        assert not engine._payable(plan(3.0), QUERY, SIZE)
        assert engine._payable(plan(math.nextafter(3.0, 0)), QUERY, SIZE)
    prices.due = Fraction(0)
    assert not engine._payable(plan(3.0), QUERY, SIZE), "who only guards measures nothing"


# -- prices ------------------------------------------------------------------------------------------------------------


def test_the_next_query_is_free_while_the_run_serves_it(prices: Prices, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, state = prices.engine, prices.engine.state
    state.run, state.asked = RunState(0, 3, RunScales(1.0, 1.0, None)), 6
    for last, price in ((6, 1), (7, 0), (8, 0)):
        given = plan(1000.0, last=last)
        monkeypatch.setattr(engine, "plan", given)
        assert engine.price(QUERY) == price
        assert given.served == [(SIZE, 3, 7)]
    state.run = None
    assert engine.price(QUERY) == 1


@pytest.mark.parametrize("renewals", [0, 3])
def test_the_price_of_many_is_that_of_the_last_of_them(
    prices: Prices, renewals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all had been asked: if a run might begin, each costs a run; otherwise each costs a measurement."""
    engine, state, queries = prices.engine, prices.engine.state, [tr.parse(f"b = {b}", SCHEMA) for b in range(3)]
    state.asked, state.runs, state.streak, state.patience = 70, 4, 2, 2
    mores: list[int] = []

    def due(query: tr.Query, _: int, more: int = 0) -> Fraction:
        mores.append(more)
        return Fraction(1 + queries.index(query), 4)  # the dearest costs 3/4

    monkeypatch.setattr(engine, "_due", due)
    prices.run = Fraction(1, 2)
    number = math.log(scaled_for(70)) if renewals else None
    for estimate, price in ((1.8, Fraction(9, 4)), (1.9, Fraction(9, 4))):
        # A streak of 5 saves 5·3/4 = 3.75, which is 0.99 · patience · 1.894.
        given = plan(estimate, renewals)
        monkeypatch.setattr(engine, "plan", given)
        del mores[:], prices.runs[:]
        assert engine.price_many(queries) == price
        assert mores[-3:] == [3, 3, 3]
        assert given.asked[-1] == (SIZE, 5, number)
        begun = [] if estimate == 1.9 else [(SIZE, None if number is None else number + math.log1p(3 / 570), 3)]
        assert prices.runs == begun
    prices.run = Fraction(7, 8)
    monkeypatch.setattr(engine, "plan", plan(1.8, renewals))
    assert engine.price_many(queries) == Fraction(21, 8)


def test_many_are_measured_only_as_far_as_measuring_has_a_share(
    prices: Prices, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, state, queries = prices.engine, prices.engine.state, [tr.parse(f"b = {b}", SCHEMA) for b in range(3)]
    monkeypatch.setattr(engine, "plan", plan(1e9))
    prices.run = Fraction(3)
    for state.measured, price in ((1.94, 3), (1.96, 9)):  # 3 · 1 of 0.99 · 5
        assert engine.price_many(queries) == price
    state.measured = 0.0
    engine._measure_first = False
    assert engine.price_many(queries) == 9


def test_many_are_refused_if_not_even_the_first_can_be_paid_for(
    prices: Prices, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, queries = prices.engine, [tr.parse(f"b = {b}", SCHEMA) for b in range(3)]
    monkeypatch.setattr(engine, "plan", plan(1e9))
    monkeypatch.setattr(engine, "_due", lambda query, *_: Fraction(11 if query is queries[0] else 1))
    prices.run = Fraction(11)
    with pytest.raises(tr.BudgetExceeded):
        engine.price_many(queries)
    assert engine.price_many(queries[::-1]) == 33


def test_prices_before_the_first_question_are_those_of_a_plan_for_this_size() -> None:
    begun = made()
    db = TestDatabase(SCHEMA, [row % SCHEMA.cells for row in range(SIZE)])
    pmwg = tr.PMWG(db, 1000.0, 1e-6, alpha=0.2, beta=0.05)
    assert isinstance(pmwg._engine, Tight)
    fresh = pmwg._engine
    assert fresh.plan is None
    others = [tr.parse("b = 1", SCHEMA), tr.parse("b = 2", SCHEMA)]
    assert fresh.price(QUERY) == begun.price(QUERY) > 0
    assert fresh.price_many(others) == begun.price_many(others) > 0
    assert fresh.outlook() == begun.outlook()
    assert (fresh.plan, db.touched, db.journal.events()) == (None, 0, ())


def test_a_record_is_followed_from_its_beginning() -> None:
    db = TestDatabase(SCHEMA, [0] * SIZE)
    for asked in (0, 1, 2):
        pmwg = tr.PMWG(db, 1000.0, 1e-6, alpha=0.2, beta=0.05)
        assert (pmwg.state[0].size, pmwg.state[0].asked) == (SIZE if asked else 0, asked)
        pmwg._engine.ask_many([tr.Query.where(SCHEMA, b=asked)], [])


def test_before_the_first_question_nothing_is_behind() -> None:
    pmwg = tr.PMWG(TestDatabase(SCHEMA, [0]), 1000.0, 1e-6, alpha=0.2, beta=0.05)
    assert (pmwg.backlog, pmwg.halted, pmwg.hard_queries) == (0, False, 0)


# -- what is known -----------------------------------------------------------------------------------------------------


def test_a_record_serves_up_to_alpha_itself() -> None:
    engine = made()
    for error, kind in ((0.2, "cached"), (math.nextafter(0.2, 1), None)):
        engine.records.keep(QUERY, Measurement(0.25, error, SIZE))
        known = engine.recall(QUERY)
        assert (known and (known.kind, known.error, known.value, known.size)) == (kind and (kind, 0.2, 0.25, SIZE))
    engine.records.keep(QUERY, Measurement(1.1, 0.15, SIZE))
    assert engine._recall(QUERY, SIZE) == tr.Answer(1.0, 0.15, SIZE, "cached")


def test_what_is_known_is_free() -> None:
    engine = made()
    everyone = tr.Query.all(SCHEMA)
    assert engine.price(QUERY) > 0
    engine.records.keep(QUERY, Measurement(0.25, 0.2, SIZE))
    for query in (QUERY, ~QUERY, everyone, ~everyone):
        assert engine.price(query) == 0
        assert isinstance(engine.price(query), Fraction)


def test_nothing_is_recalled_before_the_first_question() -> None:
    pmwg = tr.PMWG(TestDatabase(SCHEMA, [0] * SIZE), 1000.0, 1e-6, alpha=0.2, beta=0.05)
    everyone = tr.Query.all(SCHEMA)
    assert pmwg._engine.recall(everyone) is None
    pmwg.ask("TRUE")
    assert pmwg._engine.recall(everyone) == tr.Answer(1.0, 0.0, SIZE, "easy")
    quarter = tr.Query.weighted(SCHEMA, [0.25] * SCHEMA.cells)
    assert pmwg._engine.recall(quarter) == tr.Answer(0.25, 0.0, SIZE, "easy")


def test_a_size_that_promises_nothing_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, [0])
    engine = tr.PMWG(db, 1.0, 1e-6, alpha=0.2, beta=0.05)._engine

    def planner(size: int) -> None:
        raise tr.GuaranteeError(f"{size} row is not enough")

    monkeypatch.setattr(engine, "_planner", planner)
    with pytest.raises(tr.GuaranteeError, match="1 row is not enough"):
        engine.ask_many([QUERY], [])
    assert db.journal.events() == ()


def test_growth_is_noted_once() -> None:
    db = TestDatabase(SCHEMA, [0] * SIZE)
    pmwg = tr.PMWG(db, 1000.0, 1e-6, alpha=0.2, beta=0.05)
    for _ in range(3):
        pmwg.ask("TRUE")
    db.append_cells([1])
    for _ in range(2):
        pmwg.ask("TRUE")
    assert [event for event in db.journal.events() if isinstance(event, Noted)] == [
        Noted(Grown(SIZE)),
        Noted(Grown(SIZE + 1)),
    ]


# -- how long it lasts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_run", [False, True])
def test_the_outlook_is_what_the_rest_of_the_budget_pays_for(in_run: bool) -> None:
    engine = made(epsilon=200.0)
    engine.gate.measure([QUERY], Gaussian(math.sqrt(1 / engine.gate.budget.total)))  # half of the budget
    state, given = engine.state, engine._plan
    state.asked, state.runs, state.hard = 123_456, 7, 3
    state.run = RunState(0, 7, RunScales(1.0, 1.0, None)) if in_run else None
    left = float(engine.gate.budget.total - engine.gate.spent)
    assert left == pytest.approx(float(engine.gate.budget.total) / 2)
    ceiling = given.ceiling(SIZE, 3)
    expected = until_spent(SIZE, given.guard, 0.05, left, ceiling, scaled_for(123_456), 7, in_run=in_run)
    assert expected.affordable > 10
    found = engine.outlook()
    assert (found.hard_left, found.hard_possible, found.queries_left) == (
        expected.affordable,
        expected.possible,
        math.inf,
    )
    assert found.forever is given.fits is False
    assert f"pays for {expected.affordable:,} more hard queries at this size" in found.statement


def test_a_budget_for_ever_says_for_how_many_queries() -> None:
    found = made(epsilon=10_000.0, alpha=0.45).outlook()
    assert found.forever
    assert f"the budget lasts for ever, for up to {MOST_QUERIES:,} queries" in found.statement
