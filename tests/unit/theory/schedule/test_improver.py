from __future__ import annotations

import math
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.convert import rho_of
from treering.budget.promise import Budget
from treering.errors import ParameterError
from treering.theory import schedule
from treering.theory.schedule.improver import BoxImproving, doubling_share

PURE, ZCDP = Budget("pure", Fraction(1)), Budget("zcdp", rho_of(1, 1e-9))
STREAM = 10**6


def risk(size: int, budget: Budget, beta: float) -> float:
    """An ERM-like box of rate 1."""
    loss = float(budget.total) if budget.kind == "pure" else math.sqrt(2 * float(budget.total))
    return 5 * math.log(1 / beta) / (loss * size)


def plan_of(start: int, budget: Budget, centred: bool = True) -> BoxImproving:
    plan = schedule.improving_for(risk, start, budget, 0.05, centred=centred)
    assert isinstance(plan, BoxImproving)
    return plan


# -- privacy over all time ---------------------------------------------------------------------------------------------


def test_the_shares_of_all_doublings_sum_to_one() -> None:
    """And the first ten are equal, from where they fall without a step."""
    shares = [doubling_share(number) for number in range(1000)]
    assert sum(shares, Fraction(0)) == 1 - Fraction(10, 2 * 1000)
    assert set(shares[:10]) == {Fraction(1, 20)}
    assert all(Fraction(4, 5) * before < after < before for before, after in pairwise(shares[9:]))


@pytest.mark.parametrize("budget", [PURE, ZCDP])
@pytest.mark.parametrize("start", [1, 7, 1000, 10**9])
def test_the_runs_of_a_doubling_cost_its_share_exactly(budget: Budget, start: int) -> None:
    plan, first, failing = plan_of(start, budget), 0, 0.0
    for number in range(20):
        doubling = plan.doubling(number)
        assert doubling.first == first
        assert doubling.budget.total * doubling.runs == budget.total * doubling_share(number)
        for index in {first, first + doubling.runs // 2, first + doubling.runs - 1}:
            epoch = plan.epoch(index)
            assert epoch.budget == doubling.budget
            assert epoch.rho == (float(doubling.budget.total) if budget.kind == "zcdp" else None)
            assert start << number <= epoch.size < start << (number + 1)
        failing += doubling.beta * doubling.runs
        first += doubling.runs
    assert failing == pytest.approx(0.05 * (1 - 10 / 40))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_pure_runs_of_a_rate_stay_within_the_budget(delta: float) -> None:
    plan = schedule.improving(1000, 0.9, delta, 0.05, 1, 1, 0, 10)
    assert isinstance(plan, BoxImproving)
    for number in range(25):
        doubling = plan.doubling(number)
        epsilon = plan.epoch(doubling.first).budget
        assert epsilon.kind == "pure"
        cost = epsilon.total if delta == 0 else epsilon.total**2 / 2
        share = plan.budget.total * doubling_share(number)
        assert share * (1 - Fraction(2) ** -35) < cost * doubling.runs <= share
    assert plan.budget == (Budget("pure", Fraction(9, 10)) if delta == 0 else Budget("zcdp", rho_of(0.9, delta)))


# -- sizes -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 3, 100, 10**5, 10**9]), st.sampled_from([PURE, ZCDP]), st.floats(0, 1))
def test_sizes_indices_and_next_sizes_agree(start: int, budget: Budget, where: float) -> None:
    plan = plan_of(start, budget)
    size = min(2**61, math.ceil(start * (2**61 / start) ** where))
    index = plan.index_at(size)
    assert plan.size_of(index) <= size < plan.size_of(index + 1) == plan.next_size(size)
    assert plan.index_at(plan.next_size(size)) > index
    assert plan.epoch(index).size == plan.size_of(index)
    served = plan.at(size)
    assert (served.index, served.size, served.alpha) == (index, plan.size_of(index), plan.alpha_at(size))
    assert plan.epoch(index).alpha == risk(served.size, served.budget, served.beta)
    kept = served.size / size
    assert plan.alpha_at(size) == pytest.approx(kept * plan.epoch(index).alpha + (1 - kept) / 2, rel=1e-12)


def test_all_sizes_of_a_short_stream() -> None:
    plan = plan_of(50, ZCDP)
    opened = sorted({plan.size_of(index) for index in range(plan.index_at(5000) + 1)})
    seen, size = [plan.start], plan.start
    while (size := plan.next_size(size)) <= 5000:
        seen.append(size)
    assert seen == opened
    for size in range(50, 5001):
        assert plan.epoch(plan.index_at(size)).size == max(each for each in opened if each <= size)


def test_a_run_at_every_size_when_waiting_is_dear() -> None:
    plan = schedule.improving_for(risk, 1000, PURE, 0.05, staleness=1e9)
    assert isinstance(plan, BoxImproving)
    assert plan.doubling(0).runs == 1000
    assert [plan.size_of(index) for index in (0, 1, 999, 1000)] == [1000, 1001, 1999, 2000]
    assert plan.alpha_at(1500) == risk(1500, plan.at(1500).budget, plan.at(1500).beta)


def test_the_largest_sizes_are_answered_at_once() -> None:
    plan = plan_of(1000, ZCDP)
    began = time.perf_counter()
    index = plan.index_at(2**61)
    assert plan.epoch(index).size <= 2**61
    assert index > 10**6
    assert time.perf_counter() - began < 5
    assert plan.alpha_at(2**61) < 1e-9
    beyond = plan.epoch(plan.index_at(2**70))
    assert beyond.alpha == math.inf
    assert beyond.budget.total > 0


# -- accuracy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [PURE, ZCDP])
@pytest.mark.parametrize("centred", [False, True])
def test_the_number_of_runs_is_the_best(budget: Budget, centred: bool) -> None:
    plan = plan_of(1000, budget, centred)
    constant = 0.5 if centred else 1.0
    for number in (0, 1, 5, 15):
        doubling, share = plan.doubling(number), doubling_share(number)
        errors = {}
        for runs in range(1, min(5000, 4 * doubling.runs + 3)):
            alpha = risk(doubling.size, Budget(budget.kind, budget.total * share / runs), 0.05 * float(share) / runs)
            kept = 2 ** (-1 / runs)
            errors[runs] = max(alpha, kept * alpha + (1 - kept) * constant)
        assert errors[doubling.runs] <= min(errors.values()) * 1.01
        sizes = np.linspace(doubling.size, 2 * doubling.size - 1, 200).astype(int).tolist()
        assert max(plan.alpha_at(size) for size in sizes) <= errors[doubling.runs] * (1 + 1e-9)


def test_errors_fall_with_the_epochs_of_a_doubling_and_with_the_doublings() -> None:
    plan = plan_of(10**4, ZCDP)
    worst = []
    for number in range(12):
        doubling = plan.doubling(number)
        static = [plan.epoch(doubling.first + run).alpha for run in range(0, doubling.runs, 1 + doubling.runs // 9)]
        assert all(before > after for before, after in pairwise(static))
        sizes = np.linspace(doubling.size, 2 * doubling.size - 1, 300).astype(int).tolist()
        worst.append(max(plan.alpha_at(size) for size in sizes))
    assert all(before > 1.3 * after for before, after in pairwise(worst))


def slope(sizes: list[int], values: list[float]) -> float:
    return float(-np.polyfit(np.log(sizes), np.log(values), 1)[0])


@pytest.mark.parametrize("start", [1000, 10**4, 10**5])
@pytest.mark.parametrize("g", [0.1, 1.0, 10.0])
def test_the_noise_of_a_rate_1_box_falls_faster_than_the_papers(start: int, g: float) -> None:
    """Over a stream to 10^6 rows, with few runs, and below the paper's error throughout."""
    tight = schedule.improving(start, 0.9, 1e-6, 0.05, 1, 1, 0, g)
    paper = schedule.improving(start, 0.9, 1e-6, 0.05, 1, 1, 0, g, 0.05, "paper")
    sizes = np.unique(np.geomspace(start, STREAM, 300).astype(int)).tolist()
    noise = [
        [1 / (float(plan.at(size).budget.total) * plan.at(size).size) for size in sizes] for plan in (tight, paper)
    ]
    assert slope(sizes, noise[0]) > 0.6
    assert slope(sizes, noise[1]) < 0.5
    assert tight.index_at(STREAM) < 0.03 * (STREAM - start)
    assert all(tight.alpha_at(size) < paper.alpha_at(size) for size in sizes)


@pytest.mark.parametrize(("delta", "p"), [(1e-9, 0.5), (1e-9, 1.0), (0.0, 0.5), (0.0, 1.0)])
def test_exponents(delta: float, p: float) -> None:
    """T^−a up to logarithms, a = p/(1+p/2) or p/(1+p), with of the order of T^a runs; log = log(m/(βw))/√w or /w."""
    plan = schedule.improving(1000, 1.0, delta, 0.05, p, p, 0, 1.0)
    assert isinstance(plan, BoxImproving)
    doublings = [plan.doubling(number) for number in range(20, 50)]
    a = p / (1 + p / 2) if delta else p / (1 + p)
    effective, worst, runs = [], [], []
    for number, doubling in enumerate(doublings, 20):
        logarithm = math.log(1 / doubling.beta) / float(doubling_share(number)) ** (0.5 if delta else 1.0)
        effective.append(doubling.size / logarithm)
        worst.append(plan.alpha_at(plan.size_of(doubling.first + 1) - 1))
        runs.append(doubling.runs)
    ordinary = [int(each) for each in effective]
    assert slope(ordinary, worst) == pytest.approx(a, abs=0.02)
    assert -slope(ordinary, [float(each) for each in runs]) == pytest.approx(a, abs=0.02)


def test_fast_boxes_are_run_more_often() -> None:
    """p ≥ 2: in the end at every size, and the error falls as T^{−p/2} up to logarithms."""
    plan = schedule.improving(1000, 1.0, 1e-9, 0.05, 4, 4, 0, 1.0)
    assert isinstance(plan, BoxImproving)
    assert plan.doubling(20).runs < plan.doubling(20).size
    assert all(plan.doubling(number).runs == plan.doubling(number).size for number in range(38, 50))
    assert plan.alpha_at(1000 << 49) < plan.alpha_at(1000 << 39) * 2 ** (-10 * 1.7)


def test_excess_risk_waits_at_its_own_price() -> None:
    plain, dear = plan_of(10**5, ZCDP, centred=False), schedule.improving_for(risk, 10**5, ZCDP, 0.05, staleness=8)
    assert isinstance(dear, BoxImproving)
    assert dear.doubling(3).runs > 2 * plain.doubling(3).runs
    size = dear.next_size(10**5) - 1
    kept = 10**5 / size
    assert dear.alpha_at(size) == pytest.approx(kept * dear.epoch(0).alpha + (1 - kept) * 8)


def test_budgets_below_the_floats() -> None:
    plan = schedule.improving(1000, 1e-305, 0.0, 0.05, 1, 1, 0, 1)
    assert isinstance(plan, BoxImproving)
    epoch = plan.epoch(plan.index_at(10**15))
    assert plan.doubling(39).runs * epoch.budget.total == plan.budget.total * doubling_share(39)
    assert epoch.alpha > 1e280


def test_c_is_the_papers_only() -> None:
    with_c, without = (schedule.improving(1000, 1.0, 1e-9, 0.05, 1, 1, 0, 1, c) for c in (0.3, None))
    assert [with_c.epoch(index) for index in range(30)] == [without.epoch(index) for index in range(30)]
    with pytest.raises(ParameterError, match="p must be a positive"):
        schedule.improving_for(risk, 1000, PURE, 0.05, p=-1)
