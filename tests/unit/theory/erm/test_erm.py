"""Bounds for private learning: against other ways to compute them, and what schedules rely on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.budget.minimising import minimising
from treering.budget.promise import Budget, Promise
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import MOST_STEPS, Descent, Net, Perturbation, Problem
from treering.theory import erm
from treering.theory.erm.methods import possible
from treering.theory.erm.steps import RISES, Courses, Steps

PROBLEMS = {
    "logistic": Problem(Logistic(), 10, 1.0),
    "ridge": Problem(Squared(), 4, 1.0, 0.5),
    "svm": Problem(HuberHinge(), 3, 2.0, 0.01),
    "strong svm": Problem(HuberHinge(), 3, 1.0, 1.5),
    "median": Problem(Distance(), 2, 0.5),
    "strong median": Problem(Distance(), 2, 0.5, 1.0),
}
BUDGETS = [Budget("pure", Fraction(1, 2)), Budget("zcdp", Fraction(1, 50))]
TABLE: dict[str, Any] = {"dimension": 10, "size": 10**6, "epsilon": 1.0, "delta": 1e-9, "beta": 0.05}


# -- the paper ---------------------------------------------------------------------------------------------------------


def test_the_paper_s_table_is_computed_as_printed_but_for_e15() -> None:
    lipschitz, strong = erm.table(**TABLE, c=0.1, strong_convexity=0.5)
    sure, t = math.log(20), 1e6
    assert lipschitz.static_pure == pytest.approx(10 * sure / t)
    assert lipschitz.static == pytest.approx(math.sqrt(10) * math.log(1e15) ** 2 * sure / t)
    assert lipschitz.growing == pytest.approx(10 * math.sqrt(math.log(1e9)) * sure / (math.sqrt(0.1) * t**0.4))
    assert strong.static_pure == pytest.approx(100 * math.log(t) * sure**2 / (0.5 * t**2))
    assert strong.static == pytest.approx(10 * math.log(1e15) ** 3 * sure**2 / (0.5 * t**2))
    assert strong.growing == pytest.approx(100 * math.log(1e9) * sure**2 / (0.1 * 0.5 * t**0.9))


def test_the_growing_bound_follows_from_the_rate_as_in_the_proof() -> None:
    """E15: halving c multiplies the strongly convex bound by 2 at c → 0, where √c would by √2."""
    strong = [erm.paper_growing_bound(10, 1, 1.0, 1e-9, c=c, strong_convexity=1.0) for c in (1e-3, 5e-4)]
    assert strong[1] / strong[0] == pytest.approx(2)
    exact = [erm.paper_alpha_at(1000, 1.0, 1e-9, 0.05, c, erm.rate(10, 1.0), start=100) for c in (1e-6, 5e-7)]
    assert exact[1] / exact[0] == pytest.approx(2, rel=1e-4)


def test_the_exact_growing_alpha_is_the_rate_at_the_step_s_epsilon_and_beta() -> None:
    t, c = 5000, 0.1
    each = math.sqrt(c) / (3 * math.sqrt(math.log(1e9))) * t ** -(0.5 + c)
    expected = 10 / (each * t) * math.log(2 * t**2 / 0.05)
    assert erm.paper_alpha_at(t, 1.0, 1e-9, 0.05, c, erm.rate(10), start=100) == pytest.approx(expected)


def test_rates_are_the_paper_s() -> None:
    assert erm.rate(7, constant=3.0) == (1, 1, 0, 21)
    assert erm.rate(7, 0.5) == (2, 2, 1, 98)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: erm.paper_alpha_at(100, 1.0, 1e-9, 0.05, 60.0, erm.rate(2), start=100), tr.ParameterError, "half"),
        (lambda: erm.paper_alpha_at(100, 1.0, 1e-9, 0.05, 0.0, erm.rate(2), start=100), tr.ParameterError, "c must"),
        (lambda: erm.paper_alpha_at(100, 2.0, 1e-9, 0.05, 0.1, erm.rate(2), start=100), tr.GuaranteeError, "epsilon"),
        (lambda: erm.paper_static_bound(2, 100, 1.0, 0.1), tr.GuaranteeError, "delta < 1/size"),
        (lambda: erm.rate(2, 3.0), tr.ParameterError, "at most 2"),
        (lambda: erm.static_bound(2, 100, 1.0, profile=_profile("best")), tr.ParameterError, "profile"),
        (lambda: erm.static_bound(5, 100, 1.0), tr.GuaranteeError, "at most 3"),
        (lambda: erm.growing_bound(5, 100, 1.0, 1e-9, start=200), tr.ParameterError, "starting size"),
        (lambda: erm.net_rate(Problem(Distance(), 4)), tr.GuaranteeError, "3 dimensions"),
        (lambda: erm.plan_net(Problem(Distance(), 4), 9, BUDGETS[0], 0.1), tr.ParameterError, "at most 3"),
        (lambda: erm.plan_descent(PROBLEMS["ridge"], 9, BUDGETS[0], 0.1), tr.ParameterError, "zCDP"),
        (lambda: erm.plan(Problem(Distance(), 4), 9, BUDGETS[0], 0.1), tr.GuaranteeError, "delta > 0"),
    ],
)
def test_what_gives_no_bound_is_refused(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def _profile(name: str) -> Any:
    return name


# -- our bounds, computed another way ----------------------------------------------------------------------------------


def test_the_noise_norms_hold_and_are_not_far_off() -> None:
    generator = np.random.default_rng(0)
    gauss = np.linalg.norm(np.rint(generator.normal(size=(20000, 10)) * 50), axis=1)
    assert np.mean(gauss > erm.noise_norm("gaussian", 50.0, 10, 0.01)) < 0.01
    laplace = np.linalg.norm(np.rint(generator.laplace(size=(20000, 10)) * 50), axis=1)
    assert np.mean(laplace > erm.noise_norm("laplace", 50.0, 10, 0.01)) < 0.01
    assert erm.noise_norm("gaussian", 50.0, 10, 0.01) < 1.5 * np.quantile(gauss, 0.99)
    assert erm.noise_norm("laplace", 50.0, 10, 0.01) < 4 * np.quantile(laplace, 0.99)


def test_the_best_steps_are_the_best() -> None:
    for sigma in (1e-5, 0.01, 10.0):
        steps = Steps.of(PROBLEMS["logistic"], Courses.of([2, 30]), sigma, 2**16, None, 0.05)
        for best, of in ((steps.averaged_step(), steps.averaged), (steps.accelerated_step(), steps.accelerated)):
            assert of(best) == pytest.approx(of(None), rel=1e-9)
            for near in (1.001, 1.2):
                assert (of(best * near) > of(None)).all()
                assert (of(best / near) > of(None)).all()
        assert (steps.accelerated(10.0) == math.inf).all()


def test_without_noise_the_bounds_are_the_classical_ones() -> None:
    constant = Courses.of([99], [0.0])
    steps = Steps.of(Problem(HuberHinge(), 3, 1.0), constant, 1e-30, 2**30, None, 0.05)
    assert steps.averaged() == pytest.approx(1 / math.sqrt(100), rel=1e-6)
    assert steps.accelerated() == pytest.approx(2 * 1 / (99 * 100), rel=1e-4)
    strong = Steps.of(Problem(HuberHinge(), 3, 1.0, 0.5), constant, 1e-30, 2**30, None, 0.05)
    assert strong.strong() == pytest.approx(4 * 1.5**2 / (0.5 * 101), rel=1e-6)


def test_noise_costs_what_composition_says_whatever_the_number_of_steps() -> None:
    """√d/(n√ρ): the part of the bound that noise adds hardly grows with the steps."""
    problem = PROBLEMS["logistic"]
    noisy = [
        Steps.of(problem, Courses.of([k]), 1e-3 * math.sqrt(k), 2**30, None, 0.05).accelerated()
        - Steps.of(problem, Courses.of([k]), 1e-30, 2**30, None, 0.05).accelerated()
        for k in (100, 10_000)
    ]
    assert noisy[1] == pytest.approx(noisy[0], rel=0.1)


def test_rising_steps_count_distances_from_the_start_and_save_four_tenths() -> None:
    """With much noise and many steps: √((1+a)(2x + d·log(1+a))/a) of σ√S·D, where constant steps have √d + 2√(2x)."""
    d, x, problem = 10, math.log(2 / 0.001), PROBLEMS["logistic"]
    courses = Courses.of([100_000], [0.0, 2.0])
    steps = Steps.of(problem, courses, math.sqrt(100_000), 2**30, None, 0.001)
    constant, rising = math.sqrt(d) + 2 * math.sqrt(2 * x), math.sqrt(1.5 * (2 * x + d * math.log(3)))
    assert rising < 0.6 * constant
    accelerated = [2 / math.sqrt(3) * each for each in (constant, rising)]
    assert steps.accelerated()[0] == pytest.approx(accelerated, rel=0.01)
    assert steps.averaged()[0] == pytest.approx([constant, rising], rel=0.02)


@pytest.mark.parametrize("rise", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("number", [1, 2, 7, 4096])
def test_the_sums_of_steps_are_those_of_the_steps_that_are_made(number: int, rise: float) -> None:
    course = Courses.of([number], [rise])
    plain = np.array([Descent("averaged", number, 1.0, 1.0, rise=rise).length(k) for k in range(1, number + 1)])
    growing = [k * Descent("accelerated", number, 1.0, 1.0, rise=rise).length(k) for k in range(1, number + 1)]
    assert course.plain[0, 0] == pytest.approx(plain.sum(), rel=1e-12)
    assert course.plain_root[0, 0] == pytest.approx(np.linalg.norm(plain), rel=1e-12)
    assert course.growing[0, 0] == pytest.approx(sum(growing), rel=1e-12)
    assert course.growing_root[0, 0] == pytest.approx(np.linalg.norm(growing), rel=1e-12)
    assert plain[-1] == pytest.approx(1)
    assert max(growing) == pytest.approx(number**2)
    assert (np.diff(plain) >= 0).all()


def test_the_sums_of_many_steps_are_bounds_and_close() -> None:
    for rise in RISES:
        many, exact = Courses.of([4097], [rise]), Courses.of([4096], [rise])
        for name in ("plain", "growing"):
            ratio = getattr(many, name)[0, 0] / getattr(exact, name)[0, 0]
            assert 1 < ratio < 1.003
        for name in ("plain_root", "growing_root"):
            assert getattr(many, name)[0, 0] > getattr(exact, name)[0, 0]


@given(rise=st.sampled_from([0.0, 0.125, 0.5, 2.0]), number=st.integers(1, 40), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_step_s_inequality_holds_on_every_path(rise: float, number: int, seed: int) -> None:
    """The proof but for its tail bounds: with the noise that was drawn in place of them it holds always."""
    generator = np.random.default_rng(seed)
    steep = generator.random(3)
    aim = generator.normal(size=3)
    best = aim / max(1.0, float(np.linalg.norm(aim)))

    def excess(theta: Any) -> float:
        return float(steep @ np.square(theta - best) / 2)

    def project(theta: Any) -> Any:
        return theta / max(1.0, float(np.linalg.norm(theta)))

    size, noise = 0.1 + generator.random() * 0.3, generator.normal(size=(number, 3)) * generator.random() * 3
    method = Descent("accelerated", number, 1.0, size, rise=rise)
    theta = average = np.zeros(3)
    stray = norms = 0.0
    squares = number * (number + 1) * (2 * number + 1) / 6
    for k in range(1, number + 1):
        weight, each = 2 / (k + 1), noise[k - 1]
        between = (1 - weight) * average + weight * theta
        apart = theta - best
        stray -= k * float(each @ apart) + rise / (2 * size * squares) * k**2 * float(apart @ apart)
        norms += k * method.length(k) * float(each @ each)
        theta = project(theta - method.length(k) * (steep * (between - best) + each))
        average = (1 - weight) * average + weight * theta
    first = float(best @ best) * (1 + rise) / (2 * size)
    limit = 2 / (number * (number + 1)) * (first + norms / (2 * (1 - 2 * size)) + stray)
    assert excess(average) <= limit + 1e-9


def test_a_strongly_convex_minimiser_inside_the_ball_pays_the_square() -> None:
    problem = PROBLEMS["strong svm"]
    method = Perturbation("gaussian", 1.0, 2.0**-10, 300)
    moved = erm.perturbation_bound(problem, method, 0.05)
    displaced = 2.0**-10 * (math.sqrt(3) / 2 + erm.noise_norm("gaussian", 1.0, 3, 0.05))
    assert moved == pytest.approx(problem.smoothness / 2 * displaced**2, rel=1e-6)


def test_the_net_bound_adds_cover_draw_and_rounding() -> None:
    problem, method = PROBLEMS["median"], Net(0.1, 4.0)
    lattice = [(i, j) for i in range(-7, 8) for j in range(-7, 8) if math.hypot(i, j) * 0.1 <= 0.5 + 0.0708]
    drawn = 4.0 * (math.log(len(lattice)) + math.log(20)) / 1000
    found = erm.net_bound(problem, method, 1000, 0.05)
    assert found >= 0.1 / math.sqrt(2) + drawn
    assert found == pytest.approx(0.1 / math.sqrt(2) + drawn, rel=0.05)


def test_the_net_s_explicit_rate_is_above_its_bound() -> None:
    for dimension in (1, 2, 3):
        problem = Problem(Distance(), dimension, 0.5)
        rate = erm.net_rate(problem)
        for size in (50, 300, 1000):
            for epsilon in (0.1, 1.0):
                planned = erm.plan_net(problem, size, Promise(epsilon).budget, 0.05).alpha
                assert planned <= rate.g / (epsilon * size) * math.log(size) * math.log(20)


# -- plans -------------------------------------------------------------------------------------------------------------

CASES = given(
    name=st.sampled_from(sorted(PROBLEMS)),
    budget=st.sampled_from(BUDGETS),
    size=st.integers(1, 10**6),
    share=st.fractions(Fraction(1, 1000), 1),
    beta=st.floats(1e-9, 0.5),
)


def plans(name: str, budget: Budget, size: int, beta: float, passes: int = 40) -> dict[type, erm.Planned]:
    return {type(each.method): each for each in possible(PROBLEMS[name], size, budget, beta, passes=passes)}


@pytest.mark.parametrize(
    ("size", "beta", "passes", "parameter"), [(0, 0.05, 40, "size"), (10, 1.0, 40, "beta"), (10, 0.05, 0, "passes")]
)
def test_wrong_parameters_are_refused_by_name(size: int, beta: float, passes: int, parameter: str) -> None:
    """Before, no minimiser took them, and the error said that none fits the budget."""
    with pytest.raises(tr.ParameterError) as refused:
        erm.plan(PROBLEMS["logistic"], size, BUDGETS[0], beta, passes=passes)
    assert refused.value.parameter == parameter


@CASES
@settings(max_examples=60, deadline=None)
def test_a_plan_costs_its_budget_and_not_more(
    name: str, budget: Budget, size: int, share: Fraction, beta: float
) -> None:
    part = Budget(budget.kind, budget.total * share)
    for planned in plans(name, part, size, beta).values():
        spent = part.amount(minimising(PROBLEMS[name], planned.method, size))
        assert part.total * Fraction(99, 100) < spent <= part.total


@CASES
@settings(max_examples=60, deadline=None)
def test_a_plan_s_alpha_bounds_its_own_method(
    name: str, budget: Budget, size: int, share: Fraction, beta: float
) -> None:
    part = Budget(budget.kind, budget.total * share)
    for planned in plans(name, part, size, beta).values():
        found = erm.bound(PROBLEMS[name], planned.method, size, beta)
        assert found <= planned.alpha
        assert isinstance(planned.method, Perturbation) or found >= 0.999 * planned.alpha


@CASES
@settings(max_examples=60, deadline=None)
def test_alpha_falls_with_size_budget_and_beta_and_when_size_makes_up_for_budget(
    name: str, budget: Budget, size: int, share: Fraction, beta: float
) -> None:
    part = Budget(budget.kind, budget.total * share)
    base = plans(name, part, size, beta, MOST_STEPS)
    scaled = 3 if budget.kind == "pure" else 9
    better = [
        plans(name, part, 2 * size, beta, MOST_STEPS),
        plans(name, Budget(part.kind, part.total * 2), size, beta, MOST_STEPS),
        plans(name, part, size, min(0.9, beta * 1.5), MOST_STEPS),
        plans(name, Budget(part.kind, part.total / scaled), 3 * size, beta, MOST_STEPS),
    ]
    for kind, planned in base.items():
        assert all(other[kind].alpha <= planned.alpha * (1 + 1e-9) for other in better)


def test_passes_are_kept_to_and_few_are_enough_for_logistic_loss() -> None:
    problem, budget = PROBLEMS["logistic"], Promise(1.0, 1e-6).budget
    method = erm.plan_perturbation(problem, 10**5, budget, 0.05).method
    assert isinstance(method, Perturbation)
    assert method.iterations <= 8
    for passes in (1, 5, 10):
        descent = erm.plan_descent(problem, 10**5, budget, 0.05, passes=passes).method
        assert isinstance(descent, Descent)
        assert descent.steps <= passes
    squared = erm.plan_perturbation(PROBLEMS["ridge"], 10**5, budget, 0.05).method
    assert isinstance(squared, Perturbation)
    assert squared.iterations == 1


# -- growing -----------------------------------------------------------------------------------------------------------


def test_the_tight_growing_exponent_is_above_the_paper_s() -> None:
    """Lipschitz: 2/3 up to logarithms, where the paper has ½ − c."""
    low, high = (erm.growing_bound(10, 10**power, 1.0, 1e-6, start=1000) for power in (4, 8))
    assert math.log(low / high) / math.log(10**4) > 0.6
    strong = [erm.growing_bound(10, 10**power, 1.0, 1e-6, start=1000, strong_convexity=1.0) for power in (4, 8)]
    assert math.log(strong[0] / strong[1]) / math.log(10**4) > 0.85


def test_the_growing_budget_is_a_budget() -> None:
    """The shares of all doublings sum to at most 1, and a doubling's runs to its share."""
    budget = Budget("zcdp", Fraction(1, 50))
    doublings = [erm.grow(100, 100 * 2**k, budget, 0.05, lambda *_: 1.0, 1.0) for k in range(40)]
    assert sum(each.runs * each.budget.total for each in doublings) <= budget.total
    assert sum(each.runs * each.beta for each in doublings) <= 0.05


def test_the_growing_bound_balances_staleness_against_noise() -> None:
    budget = Budget("zcdp", Fraction(1, 50))

    def static(size: int, part: Budget, _: float) -> float:
        return 1 / (size * math.sqrt(part.total))

    grown = erm.grow(100, 1600, budget, 0.05, static, 1.0)
    brute = min(
        static(1600, budget.share(1 / 20).share(1 / runs), 0.05) + 1 - 2 ** (-1 / runs) for runs in range(1, 3000)
    )
    assert brute <= grown.alpha * (1 + 1e-9)
    assert grown.alpha <= 1.02 * brute


def test_static_bounds_of_both_profiles_fall_with_size() -> None:
    for profile in ("paper", "tight"):
        bounds = [
            erm.static_bound(2, size, 1.0, delta, profile=_profile(profile))
            for delta in (0.0, 1e-9)
            for size in (10**3, 10**5)
        ]
        assert bounds[0] > bounds[1]
        assert bounds[2] > bounds[3]
