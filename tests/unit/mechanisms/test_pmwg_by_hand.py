"""PMWG and PMW, which are thin: what they hand to their engines, and where they refuse to start or to go on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import plan_of
from treering.mechanisms.paper import Paper, StaticPaper
from treering.mechanisms.tight import Tight, measuring_noise
from treering.theory.pmwg import at_most, forever, query_tail, run_tail, static, static_hard, static_size, static_start
from treering.theory.pmwg.tight import MOST_QUERIES, RENEWALS

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3)})
SIZE = 4000


def database(size: int = SIZE) -> TestDatabase:
    return TestDatabase(SCHEMA, [row % SCHEMA.cells for row in range(size)])


def make(db: TestDatabase, **options: Any) -> tr.PMWG:
    return tr.PMWG(db, **{"epsilon": 1000.0, "delta": 1e-6, "alpha": 0.2, "beta": 0.05, **options})


def static_one(db: TestDatabase, **options: Any) -> tr.PMW:
    given = {"epsilon": 1000.0, "delta": 1e-6, "alpha": 0.2, "beta": 0.05, "queries": 3, **options}
    return tr.PMW(db, **given)


# -- PMWG --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure_first", [True, False])
@pytest.mark.parametrize("warm", [False, True])
def test_the_plan_is_the_theorems(measure_first: bool, warm: bool) -> None:
    pmwg = make(database(), measure_first=measure_first, warm_start=np.arange(16) if warm else None)
    budget, potential = pmwg._promise.budget, math.log(160 if warm else 16)
    assert pmwg.potential == pytest.approx(potential)
    if measure_first:
        budget, potential = budget.share(Fraction(1, 2)), 2 * potential
    queries = at_most(MOST_QUERIES)
    expected = forever(SIZE, 16, budget, 0.2, 0.05, queries, potential=potential, renewals=RENEWALS)
    assert pmwg._plan(SIZE) == expected
    engine = pmwg._engine
    assert isinstance(engine, Tight)
    assert (engine._measure_first, engine.alpha, engine.beta, engine._limit) == (measure_first, 0.2, 0.05, None)
    shares = (0.9 * np.arange(16) / 120 + 0.1 / 16) if warm else np.full(16, 1 / 16)
    assert pmwg.hypothesis.marginal(["a", "b"]).reshape(-1) == pytest.approx(shares)


class Guarded:
    """In place of a plan, and of its guard: a run has this cost."""

    def __init__(self, price: float) -> None:
        self.guard, self.price = self, price
        self.asked: list[tuple[int, float, float]] = []

    def cost(self, size: int, run: float, query: float) -> float:
        self.asked.append((size, run, query))
        return self.price


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_can_start_where_half_of_the_budget_pays_for_a_measurement(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a run is possible, however dear."""
    pmwg = make(database(), epsilon=3.0, delta=delta)
    total = float(pmwg._promise.budget.total)
    starts = {}
    for price in (0.0, 1e300, math.inf):
        monkeypatch.setattr(pmwg, "_forever", lambda _, price=price: Guarded(price))
        starts[price] = [pmwg._can_start(size) for size in range(1, 200)]
    noises = [measuring_noise("zcdp" if delta else "pure", 0.2, 0.05, size, 0).scale for size in range(1, 200)]
    expected = [(1 / (2 * scale**2) if delta else 1 / scale) <= total / 2 for scale in noises]
    assert starts == {0.0: expected, 1e300: expected, math.inf: [False] * 199}
    assert len(set(expected)) == 2


def test_guarding_alone_it_can_start_where_the_budget_pays_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pmwg = make(database(), measure_first=False)
    total = float(pmwg._promise.budget.total)
    for price, starts in ((total, True), (math.nextafter(total, math.inf), False)):
        plan = Guarded(price)
        monkeypatch.setattr(pmwg, "_forever", lambda _, plan=plan: plan)
        assert pmwg._can_start(50) == starts
        assert plan.asked == [(50, run_tail(0.05, 1), query_tail(0.05, math.log(1000)))]


def test_a_refusal_doubles_the_size_until_it_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pmwg = make(database())
    for enough, named in ((11, 12), (12, 12), (13, 24), (6, 6)):
        monkeypatch.setattr(pmwg, "_can_start", lambda size, enough=enough: size >= enough)
        with pytest.raises(tr.GuaranteeError, match=f"3 rows cannot pay for one answer, {named} can"):
            pmwg._plan(3)
    monkeypatch.setattr(pmwg, "_can_start", lambda size: size >= 3)
    assert pmwg._plan(3).start == 3


def test_a_guarantee_is_the_promise_and_the_outlook() -> None:
    pmwg = make(database())
    found = pmwg.guarantee
    promised = (1000.0, 1e-6, 0.2, 0.05, SIZE)
    assert (found.epsilon, found.delta, found.alpha, found.beta, found.size) == promised
    outlook = pmwg._engine.outlook()
    assert (found.statement, found.forever, found.hard_left, found.hard_possible, found.queries_left) == outlook


def test_the_papers_parameters_are_handed_over() -> None:
    for kappa in (None, 3):
        pmwg = make(database(), epsilon=1.0, profile="paper", kappa=kappa, p=0.75)
        assert isinstance(pmwg._engine, Paper)
        given = pmwg._engine.parameters
        assert (given.epsilon, given.delta, given.alpha, given.beta) == (1.0, 1e-6, 0.2, 0.05)
        assert (given.p, given.kappa) == (0.75, kappa or 1)
    assert not pmwg.halted
    with pytest.raises(tr.ParameterError, match="warm_start belongs to the tight profile"):
        make(database(), profile="paper", warm_start=np.ones(16))
    with pytest.raises(tr.ParameterError, match='profile must be "tight" under a promise that is shared'):
        make(database(), epsilon=tr.Promise(1.0, 1e-6, rows_per_person=2), delta=0.0, profile="paper")


def test_over_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pmwg = make(database(), epsilon=1.0, profile="paper")
    monkeypatch.setattr(type(pmwg._engine), "over", True)
    assert pmwg.halted
    for refused in (pmwg.ask, pmwg.price, lambda query: plan_of(pmwg, [query])):
        with pytest.raises(tr.Halted, match="more queries were hard than the paper's theorem allows for"):
            refused(tr.Query.all(SCHEMA))


# -- PMW ---------------------------------------------------------------------------------------------------------------


def test_the_static_plan_is_the_theorems() -> None:
    pmw = static_one(database())
    engine, budget = pmw._engine, pmw._promise.budget
    assert isinstance(engine, Tight)
    assert (engine._measure_first, engine._limit, engine.potential) == (False, 3, math.log(16))
    plan = static(SIZE, 16, budget, 0.2, 0.05, 3)
    assert pmw._plan(SIZE) == plan
    needed = static_size(16, budget, 0.2, 0.05, 3)
    assert pmw._plan(needed).fits
    with pytest.raises(
        tr.GuaranteeError, match=f"for 3 queries needs at least {needed:,} rows .*there are {needed - 1:,}"
    ):
        pmw._plan(needed - 1)
    found = pmw.guarantee
    assert (found.epsilon, found.delta, found.alpha, found.beta, found.size) == (1000.0, 1e-6, 0.2, 0.05, SIZE)
    assert f"for 3 queries; at most {plan.hard(SIZE):,} of them are hard" in found.statement


def test_it_is_about_the_size_of_the_first_question() -> None:
    db = database()
    pmw = static_one(db)
    assert pmw.guarantee.size == SIZE
    db.append_cells([0])
    assert pmw.guarantee.size == SIZE + 1
    pmw.ask("TRUE")
    for size in (SIZE + 1, SIZE + 2):
        assert pmw.guarantee.size == SIZE + 1
        if size > SIZE + 1:
            for refused in (pmw.ask, pmw.price, lambda query: plan_of(pmw, [query])):
                with pytest.raises(tr.GuaranteeError, match="the database has grown from 4,001 to 4,002 rows"):
                    refused(tr.Query.all(SCHEMA))
        db.append_cells([0])


def test_it_halts_when_all_were_asked() -> None:
    pmw = static_one(database())
    for asked, halted in ((0, False), (2, False), (3, True), (4, True)):
        engine = pmw._engine
        assert isinstance(engine, Tight)
        engine.state.asked = asked
        assert pmw.halted is halted


def test_the_static_papers_promise_is_its_theorems(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = static_start(0.9, 16, 1.0, 1e-6, 0.05, 3)
    db = database(rows)
    pmw = static_one(db, epsilon=1.0, alpha=0.9, profile="paper")
    engine = pmw._engine
    assert isinstance(engine, StaticPaper)
    given = engine.parameters
    assert (given.epsilon, given.delta, given.alpha, given.beta, given.p) == (1.0, 1e-6, 0.9, 0.05, 0.5)
    found = pmw.guarantee
    assert (found.size, found.alpha) == (rows, 0.9)
    assert f"at most {math.floor(static_hard(16, 0.9)):,} of them are hard" in found.statement
    pmw.ask("TRUE")
    db.append_cells([0])
    assert pmw.guarantee.size == rows
    assert not pmw.halted
    monkeypatch.setattr(StaticPaper, "over", True)
    assert pmw.halted
    few = static_one(database(rows - 1), epsilon=1.0, alpha=0.9, profile="paper")
    with pytest.raises(tr.GuaranteeError, match=f"from {rows:,} rows on; there are {rows - 1:,}"):
        _ = few.guarantee
