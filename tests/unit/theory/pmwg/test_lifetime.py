from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.promise import Budget, BudgetKind, Promise
from treering.errors import ParameterError
from treering.theory import pmwg

KINDS: tuple[BudgetKind, ...] = ("pure", "zcdp")
GRID = list(product([10**3, 10**6], [10**6, 10**8, 10**10]))


# -- the number of queries ---------------------------------------------------------------------------------------------


@given(st.integers(21, 10**10), st.floats(1, 1e6), st.floats(0.25, 0.99), st.floats(0, 1e3), st.floats(1, 1e6))
def test_log_queries_never_outgrow_their_exponent(
    start: int, kappa: float, p: float, rate: float, factor: float
) -> None:
    queries = pmwg.QueryBound(math.log(kappa), rate, p)
    later = start * factor
    assert queries.log(later) <= queries.log(start) * factor**queries.exponent * (1 + 1e-12)


@pytest.mark.parametrize(("delta", "p"), [(0.0, 0.5), (0.0, 0.25), (1e-9, 0.5), (1e-9, 0.9)])
@pytest.mark.parametrize("growth", [1.0, 1.5, 10.0, 1000.0])
def test_the_papers_query_budget_is_below_its_bound(delta: float, p: float, growth: float) -> None:
    start, cells, beta = 10**4, 100, 0.005
    size = round(start * growth)
    alpha = pmwg.alpha(start, cells, 1, delta, beta, 2, p)
    allowed = pmwg.log_query_budget(start, size, cells, 1, delta, alpha, 2, p)
    bound = pmwg.paper_queries(start, cells, 1, delta, beta, 2, p).log(size)
    assert allowed <= bound
    if growth > 2:
        assert bound <= allowed + 0.1


# -- lifetime cost -----------------------------------------------------------------------------------------------------


def plan_for(kind: BudgetKind, queries: pmwg.QueryBound, **changes: Any) -> pmwg.ForeverPlan:
    options: dict[str, Any] = {"share": 0.2, **changes}
    return pmwg.forever(10**6, 100, Budget(kind, Fraction(1)), 0.5, 0.05, queries, **options)


def price(plan: pmwg.ForeverPlan, size: float, run: int) -> float:
    tail1, tail2 = pmwg.run_tail(plan.beta, run), pmwg.query_tail(plan.beta, plan.queries.log(size))
    return plan.guard.cost(size, tail1, tail2)


def greedy(plan: pmwg.ForeverPlan, hard: int) -> float:
    """The cost of so many hard queries, each as early as the potential allows, run by run."""
    decrease = pmwg.hard_decrease(plan.guard.gap)
    sizes = (plan.start * math.exp(max(0.0, (i * decrease - plan.potential) / plan.inflow)) for i in range(hard + 1))
    return math.fsum(price(plan, size, i) for i, size in enumerate(sizes, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "queries", [pmwg.at_most(10**5), pmwg.paper_queries(10**6, 100, 1, 0, 0.05, 1)], ids=["constant", "paper"]
)
def test_lifetime_cost_bounds_the_worst_life_and_not_by_much(kind: BudgetKind, queries: pmwg.QueryBound) -> None:
    """Hard queries as early as possible until the database is e^25 times its start: what comes after is negligible."""
    plan = plan_for(kind, queries)
    hard = math.ceil((plan.potential + 25 * plan.inflow) / pmwg.hard_decrease(plan.guard.gap))
    worst = greedy(plan, hard)
    assert worst <= plan.cost <= 1.04 * worst


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 40)), max_size=12))
@settings(deadline=None)
def test_no_life_costs_more(kind: BudgetKind, steps: list[tuple[float, int]]) -> None:
    """Any growth, any hard queries while the public potential lasts, run by run."""
    plan = plan_for(kind, pmwg.at_most(10**5))
    size, phi, runs = plan.start, plan.potential, 1
    spent = price(plan, size, 1)
    decrease = pmwg.hard_decrease(plan.guard.gap)
    for growth, wanted in steps:
        grown = round(size * math.exp(growth))
        weight = (grown - size) / grown
        size, phi = grown, pmwg.growth_potential(phi, weight, 100, weight / 8)
        for _ in range(min(wanted, math.floor(phi / decrease))):
            phi -= decrease
            runs += 1
            spent += price(plan, size, runs)
        assert phi <= plan.ceiling(size, runs - 1) + 1e-9
        assert runs - 1 <= plan.hard(size)
    assert spent <= plan.cost


@pytest.mark.parametrize("kind", KINDS)
@given(st.floats(0, 12), st.integers(1, 10**4))
def test_a_run_for_the_plans_queries_serves_for_ever(kind: BudgetKind, growth: float, run: int) -> None:
    plan = plan_for(kind, pmwg.paper_queries(10**6, 100, 1, 0, 0.05, 1))
    scales = plan.scales(plan.start, run)
    later = round(plan.start * math.exp(growth))
    tail2 = pmwg.query_tail(plan.beta, plan.queries.log(later))
    assert plan.guard.serves(scales, later, pmwg.run_tail(plan.beta, run), tail2)


def test_a_cheaper_run_needs_a_renewal_that_growth_postpones() -> None:
    plan = plan_for("pure", pmwg.at_most(10**9))
    cheap = plan.scales(10**6, 1, math.log(1000))
    assert cheap.query > plan.scales(10**6, 1).query
    assert plan.serves(cheap, 10**6, 1, 1000)
    assert not plan.serves(cheap, 10**6, 1, 1001)
    assert plan.serves(cheap, 2 * 10**6, 1, 10**9)


@pytest.mark.parametrize("kind", KINDS)
def test_renewals_are_paid_at_the_highest_price(kind: BudgetKind) -> None:
    queries = pmwg.at_most(10**5)
    without, seven = plan_for(kind, queries), plan_for(kind, queries, renewals=7)
    assert seven.cost >= without.cost + 7 * price(without, without.start, 1)
    assert seven.cost <= 1.3 * without.cost


def test_a_warm_start_costs_what_its_potential_says() -> None:
    queries = pmwg.at_most(10**5)
    cold = plan_for("pure", queries)
    assert plan_for("pure", queries, potential=math.log(100)).cost == cold.cost
    assert plan_for("pure", queries, potential=math.log(100 / 0.01)).cost > cold.cost


def test_uniform_growth_costs_less_in_the_worst_case() -> None:
    """μ = w adds log N per e-fold of growth, μ = w/8 another 1.2: the price of forgetting eight times more slowly."""
    queries = pmwg.at_most(10**5)
    uniform, slow = plan_for("pure", queries, forgetting=1.0), plan_for("pure", queries)
    assert uniform.inflow == pytest.approx(math.log(100))
    assert slow.inflow == pytest.approx(math.log(100) + math.log(8) - 7 / 8)
    assert uniform.cost < slow.cost


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_chosen_share_is_nearly_the_best(kind: BudgetKind, alpha: float) -> None:
    def cost(share: float | None) -> float:
        queries = pmwg.at_most(10**5)
        return pmwg.forever(10**6, 100, Budget(kind, Fraction(1)), alpha, 0.05, queries, share=share).cost

    assert cost(None) <= 1.002 * min(cost(hundredth / 100) for hundredth in range(3, 48))


def test_a_plan_fits_its_budget_or_not() -> None:
    queries = pmwg.at_most(10**5)
    cost = plan_for("pure", queries).cost
    for total, fits in ((Fraction(cost), True), (Fraction(cost) * Fraction(999, 1000), False)):
        plan = pmwg.forever(10**6, 100, Budget("pure", total), 0.5, 0.05, queries, share=0.2)
        assert plan.fits == fits
    assert not pmwg.forever(10, 100, Budget("pure", Fraction(1)), 0.5, 0.05, queries).fits


# -- alpha -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delta", "beta", "ratio"), [(0.0, 0.05, 0.22), (1e-9, 0.005, 0.16)])
@pytest.mark.parametrize(("cells", "start"), GRID)
def test_tight_alpha_is_a_fraction_of_the_papers(
    cells: int, start: int, delta: float, beta: float, ratio: float
) -> None:
    paper = pmwg.alpha(start, cells, 1, delta, beta, 1)
    whole = pmwg.tight_alpha(start, cells, 1, delta, beta, 1)
    half = pmwg.tight_alpha(start, cells, 1, delta, beta, 1, part=0.5)
    assert 0.1 * paper < whole <= ratio * paper
    assert whole < half < 0.3 * paper


@pytest.mark.parametrize(("delta", "beta"), [(0.0, 0.05), (0.0, 1e-6), (1e-9, 0.005), (0.01, 1e-6)])
def test_tight_never_promises_less_than_the_paper(delta: float, beta: float) -> None:
    """Not even on half the budget, wherever the paper promises anything, and beyond."""
    real = 0
    for cells, start, epsilon, kappa in product((3, 10**9), (21, 10**6, 10**8, 10**10), (0.01, 1.0, 10.0), (1, 10**6)):
        if delta > 0 and epsilon > 1:
            continue
        pmwg.check_paper(start, cells, epsilon, delta, beta)
        paper = pmwg.alpha(start, cells, epsilon, delta, beta, kappa)
        real += paper < 1
        assert pmwg.tight_alpha(start, cells, epsilon, delta, beta, kappa, part=0.5) < paper
    assert real >= 10


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_tight_alpha_is_the_smallest_that_fits(delta: float) -> None:
    alpha = pmwg.tight_alpha(10**7, 500, 0.5, delta, 0.01, 3)
    budget, queries = Promise(0.5, delta).budget, pmwg.paper_queries(10**7, 500, 0.5, delta, 0.01, 3)
    assert pmwg.forever(10**7, 500, budget, alpha, 0.01, queries).fits
    assert not pmwg.forever(10**7, 500, budget, alpha * 0.999, 0.01, queries).fits


def test_tight_alpha_is_one_when_there_is_too_little_data() -> None:
    assert pmwg.tight_alpha(100, 500, 0.01, 0.0, 0.05, 1) == 1
    assert pmwg.tight_alpha(10**5, 500, 1.0, 0.0, 0.05, 1) < 1


# -- bad parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pmwg.QueryBound(-1.0), "log_factor"),
        (lambda: pmwg.QueryBound(0.0, math.inf), "rate"),
        (lambda: pmwg.QueryBound(0.0, 1.0, 1.0), "p"),
        (lambda: pmwg.at_most(0.5), "queries"),
        (lambda: plan_for("pure", pmwg.at_most(10), renewals=-1), "renewals"),
        (lambda: plan_for("pure", pmwg.at_most(10), share=0.5), "share"),
        (lambda: plan_for("pure", pmwg.at_most(10), potential=0.0), "potential"),
        (lambda: plan_for("pure", pmwg.at_most(10)).hard(10**6 - 1), "size"),
        (lambda: pmwg.forever(0, 100, Budget("pure", Fraction(1)), 0.5, 0.05, pmwg.at_most(10)), "start"),
        (lambda: pmwg.forever(10, 1, Budget("pure", Fraction(1)), 0.5, 0.05, pmwg.at_most(10)), "cells"),
        (lambda: pmwg.forever(10, 10, Budget("pure", Fraction(1)), 0.5, 1.0, pmwg.at_most(10)), "beta"),
        (lambda: pmwg.tight_alpha(10**6, 100, 1.0, 0.0, 0.05, 0.5), "kappa"),
        (lambda: pmwg.tight_alpha(10**6, 100, 1.0, 0.0, 0.05, 1, part=1.5), "part"),
    ],
)
def test_bad_parameters_are_refused_by_name(call: Any, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.parameter == name
