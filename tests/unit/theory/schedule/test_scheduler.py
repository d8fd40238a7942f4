from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.convert import rho_of
from treering.budget.promise import Budget, BudgetKind, Promise
from treering.errors import GuaranteeError, ParameterError
from treering.theory import schedule
from treering.theory.ageing import Staleness
from treering.theory.conversion import paper_rho_of
from treering.theory.schedule.epochs import amount, rational_exp
from treering.theory.schedule.scheduler import (
    InverseSquares,
    Powers,
    RateFixed,
    fixed_within,
    geometric,
    log_sums,
    ramp_sums,
)
from treering.theory.search import least_near

THIRD = 1 / 3
SMALLDB = 14.508347649357903
PURE, ZCDP = Budget("pure", Fraction(1)), Budget("zcdp", rho_of(1, 1e-9))

starts = st.floats(3, 16).map(lambda power: int(10**power))
rates = st.sampled_from([(0.25, 1.0), (THIRD, 5.0), (0.5, 1.0), (1.0, 1.0), (1.0, 20.0), (2.0, 3.0)])
budgets = st.sampled_from([PURE, ZCDP, Budget("pure", Fraction(1, 100)), Budget("zcdp", Fraction(5))])
betas = st.sampled_from([1e-12, 0.01, 0.3, 0.95])


# -- the numbers of the issue ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "delta", "alpha"),
    [(10**8, 0.0, 0.22054), (10**10, 0.0, 0.07385), (10**8, 1e-9, 0.21103), (10**10, 1e-9, 0.06078)],
)
def test_smalldb_by_its_rate(start: int, delta: float, alpha: float) -> None:
    assert schedule.fixed(start, 1.0, delta, 0.05, THIRD, SMALLDB).alpha == pytest.approx(alpha, abs=1e-5)


@pytest.mark.parametrize(("start", "alpha"), [(10**8, 0.21795), (10**10, 0.06279)])
def test_smalldb_with_the_papers_conversion(start: int, alpha: float) -> None:
    budget = Budget("zcdp", paper_rho_of(1, 1e-9))
    assert fixed_within(start, budget, 0.05, THIRD, SMALLDB).alpha == pytest.approx(alpha, abs=1e-5)


def brute_force(start: int, budget: Budget, beta: float, p: float, g: float, centred: bool) -> float:
    """The least error on a grid of γ, every sum taken term by term: another way to the same number."""
    least = math.inf
    for growth in np.geomspace(0.004, 0.9, 150):
        index = np.arange(int(50 / growth))
        terms = np.log(np.pi**2 * (index + 1.0) ** 2 / (6 * beta)) * (1 + growth) ** -index.astype(float)
        reach = float(budget.total) if budget.kind == "pure" else math.sqrt(2 * float(budget.total))
        norm = terms.sum() if budget.kind == "pure" else math.sqrt((terms**2).sum())
        static = g * (norm / (reach * start)) ** p
        stale = growth / (1 + growth)
        total = (static + growth / 2) / (1 + growth) if centred else static + stale
        least = min(least, max(total, static))
    return least


@pytest.mark.parametrize("budget", [PURE, ZCDP])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("start", "p", "g"), [(10**8, THIRD, SMALLDB), (10**5, 1.0, 3.0), (10**6, 0.5, 1.0)])
def test_the_error_is_the_best_over_all_growths(budget: Budget, centred: bool, start: int, p: float, g: float) -> None:
    ours = fixed_within(start, budget, 0.05, p, g, centred).alpha
    assert ours == pytest.approx(brute_force(start, budget, 0.05, p, g, centred), rel=1e-3)


# -- privacy over all time ---------------------------------------------------------------------------------------------


def cost(kind: BudgetKind, epoch: schedule.PlannedEpoch) -> Fraction:
    return epoch.budget.total if kind == "pure" else epoch.budget.total**2 / 2


def tail(plan: RateFixed, index: int) -> float:
    """Σ_{i≥index} of the costs, from above: log(1/β_i) is concave in i (or linear), so below its chord's extension."""
    kind = plan.budget.kind
    here, following = -plan.confidence.log_beta(index), -plan.confidence.log_beta(index + 1)
    slope, first = following - here, float(cost(kind, plan.epoch(index))) * (1 + 1e-9)
    q = plan.ratio ** (-1 if kind == "pure" else -2)
    zero, one, two = 1 / (1 - q), q / (1 - q) ** 2, q * (1 + q) / (1 - q) ** 3  # Σq^j, Σj·q^j, Σj²·q^j
    if kind == "pure":
        return first * (zero + slope / here * one)
    return first * (zero + 2 * slope / here * one + (slope / here) ** 2 * two)


@settings(max_examples=25, deadline=None)
@given(starts, budgets, betas, rates, st.booleans(), st.integers(0, 60))
def test_epochs_and_tail_are_within_the_budget(
    start: int, budget: Budget, beta: float, rate: tuple[float, float], centred: bool, epochs: int
) -> None:
    plan = fixed_within(start, budget, beta, *rate, centred)
    spent = sum((cost(budget.kind, plan.epoch(index)) for index in range(epochs)), Fraction(0))
    whole = float(budget.total)
    # The chord overestimates the tail, so only "not above" is tested at its end: from a late start of the tail.
    assert spent < budget.total
    late = max(epochs, min(600, math.ceil(12 / plan.growth)))
    head = math.fsum(float(cost(budget.kind, plan.epoch(index))) for index in range(late))
    assert head < whole
    if late * plan.growth > 11:
        assert head + tail(plan, late) < whole * (1 + 1e-6)
        assert head + tail(plan, late) > whole * (1 - 1e-9)


@pytest.mark.parametrize("budget", [PURE, ZCDP])
@pytest.mark.parametrize("way", [InverseSquares(0.05), Powers(0.05)])
@pytest.mark.parametrize("growth", [0.9, 0.2, 0.02])
def test_the_infinite_sum_is_the_budget_from_below(budget: Budget, way: InverseSquares | Powers, growth: float) -> None:
    rate = schedule.rate_of(1.0, 1.0, 0, 1.0)
    plan = RateFixed(10**6, budget, rate, way, growth, Staleness(1.0, sum=True))
    last = math.ceil(40 / math.log1p(growth))
    spent = sum((cost(budget.kind, plan.epoch(index)) for index in range(last)), Fraction(0))
    assert float(spent / budget.total) > 1 - 1e-9
    assert spent + Fraction(tail(plan, last)) < budget.total


@pytest.mark.parametrize("decay", [1e-7, 1e-4, 0.003, 0.05, 0.7, 2.0, 40.0])
def test_sums_over_all_epochs_are_bounded_from_above_and_tight(decay: float) -> None:
    index = np.arange(min(3 * 10**7, int(45 / decay) + 5000)) if decay > 1e-6 else None
    coarse, fine = log_sums(decay, False), log_sums(decay, True)
    for power in (0, 1):
        assert fine[power] <= coarse[power] * (1 + 1e-11)
        assert coarse[power] <= fine[power] * (1 + 1e-3)
        if index is not None:
            true = float(np.sum(np.log1p(index) ** (power + 1) * np.exp(-decay * index)))
            assert true * (1 - 1e-12) <= fine[power] <= true * (1 + 1e-9)


def test_the_fine_sums_at_tiny_decay() -> None:
    """Σlog(i+1)e^{−si} = (log(1/s) − Euler's constant)/s + O(log(1/s)), and the squares have π²/6 besides."""
    decay = 1e-12
    euler, logarithm = 0.5772156649015329, math.log(1e12)
    plain, squares = log_sums(decay, True)
    assert plain * decay == pytest.approx(logarithm - euler, rel=1e-9)
    assert squares * decay == pytest.approx((logarithm - euler) ** 2 + math.pi**2 / 6, rel=1e-9)


@given(st.floats(0.01, 5))
def test_closed_sums(decay: float) -> None:
    index = np.arange(int(60 / decay) + 2, dtype=float)
    weights = np.exp(-decay * index)
    assert geometric(decay) == pytest.approx(weights.sum(), rel=1e-9)
    assert ramp_sums(decay)[0] == pytest.approx(((index + 1) * weights).sum(), rel=1e-9)
    assert ramp_sums(decay)[1] == pytest.approx(((index + 1) ** 2 * weights).sum(), rel=1e-9)


@pytest.mark.parametrize("beta", [1e-12, 0.01, 0.95])
@pytest.mark.parametrize("way", [InverseSquares, Powers])
def test_confidence_is_shared_out(beta: float, way: type[InverseSquares] | type[Powers]) -> None:
    shares = [math.exp(way(beta).log_beta(index)) for index in range(10**4)]
    assert beta * (1 - 1e-4) < math.fsum(shares) < beta * (1 + 1e-12)


@given(st.floats(1e-3, 1e3), st.floats(1e-9, 0.99), st.integers(0, 10**5))
def test_amounts_are_rounded_down(value: float, growth: float, index: int) -> None:
    ratio = 1 + growth
    exponent = index * math.log2(ratio)
    given_amount = amount(value, ratio, index)
    if index < 60:
        assert given_amount <= Fraction(value) / Fraction(ratio) ** index
        assert given_amount >= Fraction(value) / Fraction(ratio) ** index * (1 - Fraction(2) ** -39)
    elif exponent < 1000:
        assert float(given_amount) == pytest.approx(value / ratio**index, rel=1e-9)
    else:
        assert 0 < given_amount < Fraction(value) / 2 ** (math.floor(exponent) - 1)


@given(st.floats(-5000, 700))
def test_rational_exponentials_are_rounded_down(exponent: float) -> None:
    found = rational_exp(exponent)
    if exponent > -700:
        assert Fraction(math.exp(exponent)) * (1 - Fraction(2) ** -38) < found < Fraction(math.exp(exponent))
    else:
        assert 0 < found < Fraction(math.exp(-700))


# -- accuracy ----------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(starts, budgets, betas, rates, st.booleans(), st.integers(0, 10**4))
def test_every_epoch_has_the_same_error_and_every_size_is_within_alpha(
    start: int, budget: Budget, beta: float, rate: tuple[float, float], centred: bool, index: int
) -> None:
    plan, (p, g) = fixed_within(start, budget, beta, *rate, centred), rate
    epoch = plan.epoch(index)
    assert epoch.alpha == plan.static
    if epoch.size < schedule.MOST_ROWS:
        assert epoch.epsilon is not None
        own = g * (-epoch.log_beta / (epoch.epsilon * epoch.size)) ** p
        assert own <= plan.static * (1 + 1e-12)
        if epoch.size > 10**6 and plan.size_of(index + 1) > epoch.size + 10**4:
            assert own == pytest.approx(plan.static, rel=1e-3)  # only rounding up the size separates them
        last = plan.next_size(epoch.size) - 1
        assert plan.alpha_at(last) <= plan.alpha


@settings(max_examples=25, deadline=None)
@given(starts, budgets, rates, st.integers(0, 10**5))
def test_sizes_indices_and_next_sizes_agree(start: int, budget: Budget, rate: tuple[float, float], index: int) -> None:
    plan = fixed_within(start, budget, 0.05, *rate)
    size = plan.size_of(index)
    assert plan.epoch(index).size == size
    latest = plan.index_at(size)
    assert latest >= index  # equal sizes collapse into the last of them
    assert plan.size_of(latest) == size < plan.size_of(latest + 1)
    assert plan.next_size(size) == plan.size_of(latest + 1)
    assert plan.index_at(plan.next_size(size) - 1) == latest
    assert plan.index_at(size - 1) < index or size == start if size > start else latest >= 0


def test_equal_sizes_collapse_and_the_rest_rises() -> None:
    plan = RateFixed(10, PURE, schedule.rate_of(1, 1, 0, 1), InverseSquares(0.05), 0.01, Staleness(1.0, sum=True))
    assert [plan.size_of(index) for index in range(12)] == [10] + [11] * 9 + [12, 12]
    assert [plan.index_at(size) for size in (10, 11, 12)] == [0, 9, 18]
    sizes, size = [plan.start], plan.start
    while size < 10**4:
        size = plan.next_size(size)
        sizes.append(size)
    assert all(before < after for before, after in pairwise(sizes))
    opened = sum((plan.epoch(plan.index_at(size)).budget.total for size in sizes), Fraction(0))
    assert opened < Fraction(1, 2)  # what collapsed is not spent


def test_sizes_far_beyond_the_floats() -> None:
    plan = schedule.fixed(10**6, 1.0, 0.0, 0.05, 1.0, 1.0)
    index = math.ceil(2000 / plan.growth)
    size = plan.size_of(index)
    assert size.bit_length() == pytest.approx(index * math.log2(plan.ratio) + 20, abs=1)
    assert plan.index_at(size) == index
    assert 0 < plan.epoch(index).budget.total < Fraction(1, 2**2000)
    with pytest.raises(ParameterError, match="index is beyond all sizes"):
        plan.epoch(10**30)


def test_a_growing_database_sees_growing_staleness_within_an_epoch() -> None:
    for centred in (False, True):
        plan = schedule.fixed(10**8, 1.0, 0.0, 0.05, THIRD, SMALLDB, centred=centred)
        first, last = plan.epoch(3).size, plan.epoch(4).size - 1
        errors = [plan.alpha_at(int(size)) for size in np.linspace(first, last, 20)]
        assert all(before < after for before, after in pairwise(errors))
        assert errors[0] == plan.static
        assert errors[-1] == pytest.approx(plan.alpha, rel=1e-6)


# -- tight and paper ---------------------------------------------------------------------------------------------------

GRID = list(product((2, 10**3, 10**8, 10**18), (1e-3, 1.0), (0.0, 1e-12, 0.3), (1e-9, 0.9)))


@pytest.mark.parametrize("p", [0.25, THIRD, 0.5, 1.0, 2.0])
def test_tight_is_never_above_paper(p: float) -> None:
    compared, below = 0, 0
    for (start, epsilon, delta, beta), g in product(GRID, (0.05, 15.0)):
        try:
            paper = schedule.fixed(start, epsilon, delta, beta, p, g, "paper")
        except GuaranteeError:
            continue
        tight = schedule.fixed(start, epsilon, delta, beta, p, g, "tight")
        assert tight.alpha <= paper.alpha, (start, epsilon, delta, beta, g)
        compared += 1
        below += tight.alpha < 0.9 * paper.alpha
    assert compared > 30
    assert below > compared / 2


def test_large_beta_and_few_rows_take_the_papers_confidence() -> None:
    """The other candidate is needed: with inverse squares alone tight would be above paper here."""
    budget, rate = Budget("pure", Fraction(1, 10)), schedule.rate_of(0.25, 0.25, 0, 0.5)
    tight, paper = fixed_within(3, budget, 0.99, 0.25, 0.5), schedule.fixed(3, 0.1, 0.0, 0.99, 0.25, 0.5, "paper")
    assert isinstance(tight.confidence, Powers)
    assert tight.alpha < paper.alpha
    others = [
        RateFixed(3, budget, rate, InverseSquares(0.99), growth, Staleness(1.0, sum=True)).alpha
        for growth in np.geomspace(0.01, 0.9999, 200)
    ]
    assert min(others) > paper.alpha


@pytest.mark.parametrize(("p", "g"), [(0.25, 1.0), (THIRD, SMALLDB), (0.5, 3.0), (1.0, 10.0), (2.0, 2.0)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_exponents(p: float, g: float, centred: bool, delta: float) -> None:
    """α ~ (n/Λ)^−e, e = p/(p+1) or p/(p/2+1), over 10^6 … 10^14 rows; the paper's exponents are smaller."""
    sizes = [10**power for power in range(6, 15)]
    plans = [schedule.fixed(size, 1.0, delta, 0.05, p, g, centred=centred) for size in sizes]
    effective = [size / schedule.fixed_logarithm(0.05, plan.growth) for size, plan in zip(sizes, plans, strict=True)]
    slope = -np.polyfit(np.log(effective), np.log([plan.alpha for plan in plans]), 1)[0]
    wanted, papers = (p / (p / 2 + 1), p / (1.5 * p + 1)) if delta else (p / (p + 1), p / (2 * p + 1))
    assert slope == pytest.approx(wanted, abs=0.02)
    assert wanted - papers > 0.02


@settings(max_examples=25, deadline=None)
@given(st.floats(4, 16).map(lambda power: int(10**power)), st.sampled_from([PURE, ZCDP]), betas, rates)
def test_the_proven_rate(start: int, budget: Budget, beta: float, rate: tuple[float, float]) -> None:
    """α ≤ (1+2^p)·γ at the γ that solves γ = g^{1/(p+1)}(Λ(γ)/(εn))^{p/(p+1)}, or its zCDP twin, if that is below 1."""
    p, g = rate

    def gap(log_growth: float) -> float:
        growth = math.exp(log_growth)
        logarithm = schedule.fixed_logarithm(beta, growth)
        if budget.kind == "pure":
            bound = (math.log(g) + p * math.log(logarithm / (float(budget.total) * start))) / (p + 1)
        else:
            twice = 2 * math.sqrt(float(budget.total)) * start
            bound = (math.log(g) + p * math.log((logarithm + 2) / twice)) / (p / 2 + 1)
        return log_growth - bound

    low, high = math.log(2.0**-39), math.log(0.999)
    if gap(high) < 0 or gap(low) > 0:
        return
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) < 0 else (low, middle)
    assert fixed_within(start, budget, beta, p, g).alpha <= (1 + 2**p) * math.exp(high) * (1 + 1e-6) + 1e-14


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("centred", [False, True])
def test_too_few_rows_name_the_rows_that_would_do(delta: float, centred: bool) -> None:
    with pytest.raises(GuaranteeError, match="start with about") as refusal:
        schedule.fixed(100, 1.0, delta, 0.05, THIRD, SMALLDB, centred=centred)
    needed = schedule.fixed_start(Promise(1.0, delta).budget, 0.05, THIRD, SMALLDB, centred)
    assert f"about {needed:,} rows" in str(refusal.value)
    assert schedule.fixed(needed, 1.0, delta, 0.05, THIRD, SMALLDB, centred=centred).alpha < 1
    assert fixed_within(needed * 9 // 10, Promise(1.0, delta).budget, 0.05, THIRD, SMALLDB, centred).alpha > 1


def test_where_the_paper_has_a_schedule_so_have_we() -> None:
    paper = schedule.fixed(10**3, 1.0, 0.0, 0.05, 1.0, 100.0, "paper")
    tight = schedule.fixed(10**3, 1.0, 0.0, 0.05, 1.0, 100.0)
    assert 1 < tight.alpha < paper.alpha  # neither promises anything


@pytest.mark.parametrize("growth", [0.0, -1.0, 1.0, 2.0**-41, math.nan])
def test_a_growth_outside_0_and_1_is_refused(growth: float) -> None:
    with pytest.raises(ParameterError, match="growth must lie between"):
        RateFixed(10, PURE, schedule.rate_of(1, 1, 0, 1), InverseSquares(0.05), growth, Staleness(1.0))
    with pytest.raises(ParameterError, match="growth must lie between"):
        schedule.fixed_logarithm(0.05, growth)


@given(st.floats(0.02, 50))
def test_the_search_finds_a_minimum(where: float) -> None:
    found = least_near(lambda x: (math.log(x) - math.log(where)) ** 2, [2.0**power for power in range(-8, 9)], 30)
    assert found == pytest.approx(where, rel=1e-4)


def test_staleness_is_worst_at_an_end() -> None:
    for waiting in (Staleness(1.0, sum=True), Staleness(1.0), Staleness(0.5), Staleness(3.0)):
        for alpha, growth in product((0.01, 0.4, 0.7, 2.0), (0.01, 0.5)):
            shares = np.linspace(0, growth / (1 + growth), 50).tolist()
            worst = max(waiting.total(alpha, stale) for stale in shares)
            assert waiting.worst(alpha, growth) == pytest.approx(worst, rel=1e-12)
            most = waiting.most_alpha(growth, 1.0)
            assert most <= 0 or waiting.worst(most, growth) == pytest.approx(1)
