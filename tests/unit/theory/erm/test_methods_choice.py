from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.budget.minimising import minimising
from treering.budget.promise import Budget, BudgetKind
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import Descent, Perturbation, Problem
from treering.theory.erm.methods import (
    PATIENCE,
    SLACK,
    THRIFT,
    Choice,
    Choosing,
    Descending,
    Perturbing,
    plan_descent,
    plan_net,
    plan_perturbation,
    rerun_passes,
    step_numbers,
)
from treering.theory.erm.steps import bound

LOGISTIC = Problem(Logistic(), 10, 2.0)
RIDGE = Problem(Squared(), 3, 1.0, 0.3)
CHOICES: list[tuple[Problem, Choice]] = [
    (LOGISTIC, Perturbing(LOGISTIC, 256)),
    (RIDGE, Perturbing(RIDGE, 256)),
    (Problem(HuberHinge(), 4), Perturbing(Problem(HuberHinge(), 4), 20_000)),
    (LOGISTIC, Descending(LOGISTIC, 256)),
    (RIDGE, Descending(RIDGE, 64)),
    (Problem(Distance(), 20), Descending(Problem(Distance(), 20), 64)),
    (Problem(Distance(), 2), Choosing(Problem(Distance(), 2))),
    (RIDGE, Choosing(RIDGE)),
    (LOGISTIC, Descending(LOGISTIC, 256, few=5)),
    (Problem(Distance(), 20), Descending(Problem(Distance(), 20), 64, few=3)),
]
places = st.sampled_from(CHOICES)
sizes = st.integers(1, 10**9)
totals = st.fractions(Fraction(1, 10**7), Fraction(100))
betas = st.floats(1e-12, 0.9)
kinds: st.SearchStrategy[BudgetKind] = st.sampled_from(("pure", "zcdp"))


def _budget(choice: Choice, kind: BudgetKind, total: Fraction) -> Budget:
    return Budget("zcdp" if choice.kind == "zcdp" else kind, total)


@given(places, kinds, sizes, totals, betas, st.booleans())
def test_a_method_costs_its_budget_at_most_and_keeps_to_alpha(
    place: tuple[Problem, Choice], kind: BudgetKind, size: int, total: Fraction, beta: float, warm: bool
) -> None:
    """Also at sizes that its solver does not reach, and from a start at the end of the ball."""
    problem, choice = place
    budget = _budget(choice, kind, total)
    start = (0.0,) * (problem.dimension - 1) + (problem.radius,) if warm else None
    method = choice.method(size, budget, beta, start)
    assert budget.amount(minimising(problem, method, size)) <= total
    assert bound(problem, method, size, beta) <= choice.alpha(size, budget, beta)


@given(places, kinds, sizes, totals, betas, st.integers(2, 1000))
def test_alpha_never_grows(
    place: tuple[Problem, Choice], kind: BudgetKind, size: int, total: Fraction, beta: float, factor: int
) -> None:
    _, choice = place
    budget = _budget(choice, kind, total)
    alpha = choice.alpha(size, budget, beta) * (1 + 1e-12)
    assert choice.alpha(size * factor, budget, beta) <= alpha
    assert choice.alpha(size, Budget(budget.kind, total * factor), beta) <= alpha
    assert choice.alpha(size, budget, min(0.95, beta * factor)) <= alpha


@given(places, kinds, st.integers(1, 10**4), st.fractions(Fraction(1, 100), Fraction(10)), betas, st.integers(2, 100))
def test_alpha_never_grows_when_size_replaces_budget(
    place: tuple[Problem, Choice], kind: BudgetKind, size: int, total: Fraction, beta: float, factor: int
) -> None:
    """Within the reach of output perturbation's solver: 10^6 entries, and more for losses that are not as flat."""
    _, choice = place
    before = _budget(choice, kind, total)
    after = Budget(before.kind, total / (factor if before.kind == "pure" else factor**2))
    assert choice.alpha(size * factor, after, beta) <= choice.alpha(size, before, beta) * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("size", [10, 10_000, 10**6])
def test_it_is_as_good_as_the_planner(kind: BudgetKind, size: int) -> None:
    budget = Budget(kind, Fraction(1, 3))
    perturbing = plan_perturbation(LOGISTIC, size, budget, 0.05, passes=256).alpha
    assert CHOICES[0][1].alpha(size, budget, 0.05) == pytest.approx(perturbing, rel=1e-5)
    net = plan_net(Problem(Distance(), 2), size, budget, 0.05).alpha
    assert CHOICES[6][1].alpha(size, budget, 0.05) == pytest.approx(net, rel=1e-5)
    if kind == "zcdp":
        best = plan_descent(LOGISTIC, size, budget, 0.05, passes=256).alpha
        assert CHOICES[3][1].alpha(size, budget, 0.05) == pytest.approx(best * THRIFT, rel=1e-5)


def test_descent_takes_few_steps_and_starts_at_the_centre() -> None:
    budget = Budget("zcdp", Fraction(1, 10**5))
    method = CHOICES[3][1].method(100_000, budget, 0.05, (1.0,) + (0.0,) * 9)
    assert isinstance(method, Descent)
    assert method.steps <= 30
    assert method.start is None


@settings(max_examples=50)
@given(sizes, totals, betas)
def test_a_rerun_makes_few_passes_and_the_best_of_them(size: int, total: Fraction, beta: float) -> None:
    budget, choice = Budget("zcdp", total), CHOICES[8][1]
    most = max(number for number in step_numbers(256) if number <= rerun_passes(size, 5))
    method = choice.method(size, budget, beta, None)
    assert isinstance(method, Descent)
    allowed, best = (plan_descent(LOGISTIC, size, budget, beta, passes=each).alpha for each in (most, 256))
    if allowed * SLACK <= best * PATIENCE:
        assert method.steps <= most
        assert choice.alpha(size, budget, beta) == pytest.approx(allowed * SLACK, rel=1e-6)
    else:
        assert choice.alpha(size, budget, beta) <= best * PATIENCE * (1 + 1e-6)


def test_where_noise_is_little_more_passes_are_made() -> None:
    budget = Budget("zcdp", Fraction(10**6))
    method = CHOICES[8][1].method(10_000, budget, 0.05, None)
    assert isinstance(method, Descent)
    assert 100 < method.steps < 256


def test_slack_makes_steps_longer() -> None:
    budget = Budget("zcdp", Fraction(1, 10**5))
    slack, best = (
        CHOICES[8][1].method(100_000, budget, 0.05, None),
        plan_descent(LOGISTIC, 100_000, budget, 0.05, passes=9),
    )
    assert isinstance(slack, Descent)
    assert isinstance(best.method, Descent)
    assert slack.steps == best.method.steps == 9
    assert 1.1 < slack.step_size / best.method.step_size <= 2
    assert best.alpha < bound(LOGISTIC, slack, 100_000, 0.05) <= SLACK * best.alpha


def test_passes_grow_with_the_cube_root_of_the_size() -> None:
    """At most ten at 100,000 entries."""
    assert [rerun_passes(size, 5) for size in (1, 26_999, 27_000, 100_000, 124_999, 125_000)] == [5, 5, 6, 9, 9, 10]
    assert rerun_passes(10**9, 5) == 200


def test_the_solver_starts_where_it_is_told() -> None:
    start = (1.0,) + (0.0,) * 9
    method = CHOICES[0][1].method(100_000, Budget("pure", Fraction(1)), 0.05, start)
    assert isinstance(method, Perturbation)
    assert method.start == start
    assert method.iterations <= 30


def test_descent_is_no_pure_method() -> None:
    with pytest.raises(tr.ParameterError, match="zCDP"):
        CHOICES[3][1].alpha(1000, Budget("pure", Fraction(1)), 0.05)


def test_what_a_method_cannot_do_is_refused() -> None:
    with pytest.raises(tr.ParameterError, match="not smooth"):
        Perturbing(Problem(Distance(), 2), 100)
    with pytest.raises(tr.ParameterError, match="output perturbation") as caught:
        Choosing(LOGISTIC)
    assert caught.value.parameter == "dimension"
    assert math.isfinite(Descending(LOGISTIC, 1).alpha(1, Budget("zcdp", Fraction(1)), 0.05))
