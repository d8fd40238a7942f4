from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.cost import sparse_run
from treering.errors import ParameterError
from treering.theory.sparse import (
    RunScales,
    accuracy,
    failure,
    nsg_accuracy,
    paper_atg_beta,
    paper_natg_beta,
    paper_nsg_beta,
    paper_scales,
    run_cost,
    scales_for,
    slack,
    split,
)
from treering.theory.tails import laplace_tail, laplace_upper

positive = st.floats(1e-3, 1e3)


def cost_of(scales: RunScales) -> Fraction:
    answer = Fraction(0) if scales.answer is None else 1 / Fraction(scales.answer)
    return 1 / Fraction(scales.threshold) + 2 / Fraction(scales.query) + answer


def accuracy_of(scales: RunScales, queries: int, beta: float, size: int = 10**6) -> float:
    return accuracy(scales.threshold, scales.query, scales.answer, queries, beta, size)


# -- cost and scales ---------------------------------------------------------------------------------------------------


@given(positive, positive)
def test_run_cost_is_the_ledgers(s1: float, s2: float) -> None:
    assert run_cost(s1, s2) == pytest.approx(float(sparse_run(Fraction(s1), Fraction(s2)).epsilon or 0), rel=1e-12)


@given(positive, positive, positive)
def test_split_keeps_the_slack_and_nothing_is_cheaper(room: float, tail1: float, tail2: float) -> None:
    best = split(room, tail1, tail2)
    assert best.threshold * tail1 + best.query * tail2 == pytest.approx(room, rel=1e-9)
    assert slack(best.cost, tail1, tail2) == pytest.approx(room, rel=1e-9)
    for tenth in range(1, 100):
        part = room * tenth / 100
        assert run_cost(part / tail1, (room - part) / tail2) >= best.cost * (1 - 1e-9)


@given(st.fractions(Fraction(1, 10**6), 10), st.integers(1, 10**9), st.floats(1e-12, 0.5), st.booleans())
@settings(max_examples=40)
def test_scales_cost_what_was_given_and_never_more(epsilon: Fraction, queries: int, beta: float, numeric: bool) -> None:
    scales = scales_for(epsilon, queries, beta, numeric)
    assert (scales.answer is not None) == numeric
    assert epsilon * (1 - Fraction(1, 10**9)) < cost_of(scales) <= epsilon


@pytest.mark.parametrize(
    ("queries", "beta", "numeric"), list(product([1, 100, 10**6], [0.1, 1e-3, 1e-9], [False, True]))
)
def test_no_other_scales_of_that_cost_serve_much_better(queries: int, beta: float, numeric: bool) -> None:
    epsilon = 0.01
    ours = accuracy_of(scales_for(Fraction(1, 100), queries, beta, numeric), queries, beta)
    others = []
    for run_share in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95) if numeric else (1.0,):
        for threshold_share in (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5):
            s1 = 1 / (epsilon * run_share * threshold_share)
            s2 = 2 / (epsilon * run_share * (1 - threshold_share))
            answer = 1 / (epsilon * (1 - run_share)) if numeric else None
            others.append(accuracy(s1, s2, answer, queries, beta, 10**6))
    assert ours <= 1.01 * min(others)


@pytest.mark.parametrize(("queries", "beta"), list(product([1, 100, 10**6], [0.1, 1e-3, 1e-9])))
def test_they_beat_the_split_of_beta_in_halves(queries: int, beta: float) -> None:
    """η and ν each within a radius of its own: the textbook union bound, at its own best scales."""
    textbook = slack(0.01, math.log(2 / beta), math.log(2 * queries / beta)) / 10**6
    assert accuracy_of(scales_for(Fraction(1, 100), queries, beta, False), queries, beta) < 0.9 * textbook


def test_scales_for_many_runs_share_queries_and_beta() -> None:
    shared = scales_for(Fraction(1, 100), 1000, 0.05, True, hard=20)
    single = scales_for(Fraction(1, 100), 1000, 0.05, True)
    judged = [nsg_accuracy(s.threshold, s.query, s.answer, 1000, 0.05, 10**6, hard=20) for s in (shared, single)]
    assert judged[0] <= judged[1]
    assert cost_of(shared) <= Fraction(1, 100)


# -- failure and accuracy ----------------------------------------------------------------------------------------------


def union_bound(s1: float, s2: float, queries: int, reach: int, weight: int, hard: int) -> float:
    """E[min(1, k·P(ν > N − W·M))], term by term, M the largest of ``hard`` draws."""
    furthest = math.ceil(60 * s1) + 2
    beyond = [1.0, *(-math.expm1(hard * math.log1p(-laplace_tail(s1, m))) for m in range(1, furthest + 1))]
    return math.fsum(
        (beyond[m] - beyond[m + 1]) * min(1.0, queries * laplace_upper(weight * s2, reach - weight * m + 1))
        for m in range(furthest)
    )


@pytest.mark.parametrize(
    ("s1", "s2", "queries", "weight"), list(product([0.4, 3.0, 5.0], [0.7, 3.0, 8.0], [2, 50], [1, 4]))
)
def test_failure_sums_the_union_bound(s1: float, s2: float, queries: int, weight: int) -> None:
    for reach in (0, 1, 7, 30, 90):
        rows = Fraction(2 * reach + 1, 2 * weight)
        bound = failure(s1, s2, None, queries, float(rows), 1, weight=weight)
        assert bound == pytest.approx(min(1.0, union_bound(s1, s2, queries, reach, weight, 1)), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("s1", "s2", "hard"), list(product([0.4, 3.0, 9.0], [0.7, 3.0, 8.0], [2, 30])))
def test_failure_of_many_runs_bounds_the_union_bound(s1: float, s2: float, hard: int) -> None:
    for reach in (20, 60, 120):
        bound = failure(s1, s2, None, 50, reach + 0.5, 1, hard=hard)
        truth = union_bound(s1, s2, 50, reach, 1, hard)
        assert truth * (1 - 1e-9) <= bound <= max(1.6 * truth, 1e-13)


def worst_chance(s1: float, s2: float, queries: int, rows: Fraction, above: bool) -> float:
    """The true chance that queries, all just beyond α on one side of the threshold, meet a wrong answer.

    The threshold lies at ±½ and is rounded to 0, in the direction that hurts. Queries go on until one is wrong.
    """
    nearest = Fraction(1, 2) - Fraction(1, 10**9)
    count = math.ceil(nearest - rows) - 1 if above else math.floor(rows - nearest) + 1
    furthest = math.ceil(50 * s1) + 2
    p = math.exp(-1 / s1)
    total = 0.0
    for eta in range(-furthest, furthest + 1):
        halt = laplace_upper(s2, eta - count)
        wrong = -math.expm1(queries * math.log1p(-min(halt, 1 - 1e-16))) if above else 1 - halt
        total += (1 - p) / (1 + p) * p ** abs(eta) * wrong
    return total


@pytest.mark.parametrize(("s1", "s2", "queries"), list(product([0.05, 2.0, 5.0], [3.0, 8.0], [1, 20])))
def test_failure_bounds_the_truth(s1: float, s2: float, queries: int) -> None:
    for doubled in range(1, 160, 7):
        rows = Fraction(doubled, 2)
        bound = failure(s1, s2, None, queries, float(rows), 1)
        truth = worst_chance(s1, s2, queries, rows, above=True)
        assert truth <= bound
        assert worst_chance(s1, s2, queries, rows, above=False) <= bound
        if bound < 0.01:
            # One sign of η is harmless to such queries, and the proof pays for both.
            assert bound <= (1.01 if s1 < 0.1 else 2.5) * truth


@pytest.mark.parametrize("weight", [1, 7, 2**16])
def test_a_numeric_answer_adds_its_own_tail(weight: int) -> None:
    alpha = 123.4
    silent = failure(5.0, 5.0, None, 10, alpha, 1, weight=weight)
    numeric = failure(5.0, 5.0, 20.0, 10, alpha, 1, weight=weight, hard=1)
    tail = laplace_tail(20.0 * weight, math.floor(alpha * weight) + 1)
    assert numeric - silent == pytest.approx(tail, rel=1e-9)


@given(
    st.tuples(positive, positive, st.none() | positive),
    st.integers(1, 10**9),
    st.integers(1, 10**4),
    st.integers(1, 2**16),
    st.booleans(),
    st.floats(0.01, 1e5),
)
@settings(max_examples=300)
def test_a_mixture_is_no_better_than_any_of_its_weights(
    scales: tuple[float, float, float | None], queries: int, hard: int, weight: int, two_sided: bool, alpha: float
) -> None:
    one = failure(*scales, queries, alpha, 1, hard=hard, weight=weight, two_sided=two_sided)
    assert 0 <= one <= failure(*scales, queries, alpha, 1, hard=hard, weight=None, two_sided=two_sided) * (1 + 1e-9)


@given(
    st.tuples(positive, positive, st.none() | positive),
    st.integers(1, 10**9),
    st.floats(1e-300, 0.9),
    st.integers(1, 10**9),
    st.sampled_from([1, 3, 2**16, None]),
    st.booleans(),
)
@settings(max_examples=200)
def test_accuracy_is_the_least_alpha_with_that_failure(
    scales: tuple[float, float, float | None],
    queries: int,
    beta: float,
    size: int,
    weight: int | None,
    two_sided: bool,
) -> None:
    alpha = accuracy(*scales, queries, beta, size, weight=weight, two_sided=two_sided)
    assert failure(*scales, queries, alpha, size, weight=weight, two_sided=two_sided) <= beta
    step = 1 / (2 * (weight or 1) * size)
    if alpha > 1.1 * step:
        assert failure(*scales, queries, alpha - 1.0001 * step, size, weight=weight, two_sided=two_sided) > beta


def test_accuracy_moves_the_right_way() -> None:
    base = accuracy(10.0, 20.0, 30.0, 100, 0.05, 1000)
    assert accuracy(10.0, 20.0, 30.0, 200, 0.05, 1000) > base
    assert accuracy(10.0, 20.0, 30.0, 100, 0.01, 1000) > base
    assert accuracy(10.0, 20.0, 60.0, 100, 0.05, 1000) > base > accuracy(10.0, 20.0, None, 100, 0.05, 1000)
    assert accuracy(10.0, 20.0, 30.0, 100, 0.05, 2000) == base / 2
    assert nsg_accuracy(10.0, 20.0, 30.0, 100, 0.05, 1000, hard=10) > base
    assert nsg_accuracy(10.0, 20.0, 30.0, 100, 0.05, 1000, hard=1) == base
    sides = [accuracy(1.0, 2.0, None, 100, 0.05, 1000, two_sided=two_sided) for two_sided in (False, True)]
    assert sides[1] - sides[0] == pytest.approx(0.5 / 1000)


def test_even_tiny_noise_leaves_the_rounding_of_the_threshold() -> None:
    assert accuracy(1e-3, 1e-3, None, 10, 0.05, 1) == 0.5
    assert accuracy(1e-3, 1e-3, None, 10, 0.05, 1, two_sided=True) == 1.0
    assert accuracy(1e-6, 1e-6, None, 10, 0.05, 1, weight=2**10) == 0.5 / 2**10


@pytest.mark.parametrize(
    ("size", "xi", "queries", "beta"),
    list(product([10**3, 10**6], [0.5, 20.0, 400.0], [1, 10, 10**6], [0.3, 0.05, 1e-6, 1e-30])),
)
def test_never_less_than_the_papers_theorem_for_the_same_run(size: int, xi: float, queries: int, beta: float) -> None:
    s1, s2, s3 = paper_scales(size, xi)
    atg = 8 / xi * math.log((queries + 1) / beta)
    natg = 8 / xi * math.log((queries + 2) / beta)
    assert paper_atg_beta(atg, [xi], [queries]) == pytest.approx(beta)
    assert paper_natg_beta(natg, [xi], [queries]) == pytest.approx(beta)
    assert accuracy(s1, s2, None, queries, beta, size) <= atg
    assert accuracy(s1, s2, s3, queries, beta, size) <= natg
    # The paper asks both signs of f − estimate, one query each.
    both = 8 / xi * math.log((2 * queries + 2) / beta)
    assert accuracy(s1, s2, s3, queries, beta, size, two_sided=True) <= both


@pytest.mark.parametrize(
    ("size", "xi", "hard", "beta"), list(product([10**3, 10**6], [0.5, 20.0, 400.0], [1, 10, 1000], [0.3, 0.05, 1e-6]))
)
def test_never_less_than_the_papers_nsg(size: int, xi: float, hard: int, beta: float) -> None:
    queries = 1000
    s1, s2, s3 = paper_scales(size, xi)
    alpha = 8 / xi * math.log((1 + queries + 2 * hard) / beta)
    assert paper_nsg_beta(alpha, [xi], [queries], [hard]) == pytest.approx(beta)
    # As many runs start as halt, and one more.
    assert nsg_accuracy(s1, s2, s3, queries, beta, size, hard=hard + 1) <= alpha


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"threshold_scale": 0.0}, "threshold_scale"),
        ({"query_scale": math.nan}, "query_scale"),
        ({"answer_scale": -1.0}, "answer_scale"),
        ({"queries": 0}, "queries"),
        ({"queries": 1.5}, "queries"),
        ({"beta": 1.0}, "beta"),
        ({"beta": 0.0}, "beta"),
        ({"size": 0}, "size"),
        ({"weight": 0}, "weight"),
        ({"weight": True}, "weight"),
    ],
)
def test_bad_parameters_are_refused_by_name(change: dict[str, Any], name: str) -> None:
    good: dict[str, Any] = {
        "threshold_scale": 1.0,
        "query_scale": 1.0,
        "answer_scale": 1.0,
        "queries": 1,
        "beta": 0.1,
        "size": 1,
    }
    with pytest.raises(ParameterError) as caught:
        accuracy(**(good | change))
    assert caught.value.parameter == name


def test_other_bad_parameters() -> None:
    with pytest.raises(ParameterError, match="hard must be"):
        nsg_accuracy(1.0, 1.0, 1.0, 1, 0.1, 1, hard=0)
    with pytest.raises(ParameterError, match="hard must be"):
        scales_for(1.0, 1, 0.1, True, hard=0)
    with pytest.raises(ParameterError, match="alpha must be"):
        failure(1.0, 1.0, None, 1, -0.1, 1)
    with pytest.raises(ParameterError, match="epsilon must be"):
        scales_for(0.0, 1, 0.1, True)
    with pytest.raises(ParameterError, match="slack must be"):
        split(math.inf, 1.0, 1.0)
    with pytest.raises(ParameterError, match="tail1 must be"):
        slack(1.0, 0.0, 1.0)
