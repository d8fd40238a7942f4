from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import dp_accounting
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, strategies as st
from opendp.combinators import make_zCDP_to_approxDP
from opendp.domains import atom_domain
from opendp.measurements import make_gaussian
from opendp.metrics import absolute_distance
from opendp.mod import enable_features

from treering.budget.convert import delta_of, epsilon_of, log_inverse, rho_of
from treering.errors import GuaranteeError, ParameterError
from treering.theory.conversion import paper_composition, paper_composition_simple, paper_epsilon_of, paper_rho_of

RHOS = [1e-12, 1e-6, 1e-3, 0.05, 0.5, 3.0, 100.0, 1e4]
DELTAS = [1e-300, 1e-30, 1e-9, 1e-5, 0.01, 0.3, 0.9]
EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 8.0, 300.0, 1e4]

rhos = st.floats(1e-12, 1e4)
deltas = st.floats(1e-300, 0.9)
epsilons = st.floats(1e-6, 1e4)


def least_epsilon(rho: float, delta: float) -> Decimal:
    """Corollary 13 minimised with fifty digits, not clipped at 0."""
    with localcontext() as context:
        context.prec = 50
        cost, tail = Decimal(rho), -Decimal(repr(delta)).ln()
        low, high = Decimal(0), (tail / cost).sqrt()
        for _ in range(110):
            middle = (low + high) / 2
            low, high = (middle, high) if cost * middle**2 + (1 + middle).ln() < tail else (low, middle)
        return (1 + high) * cost - (1 + 1 / high).ln() + (tail - (1 + high).ln()) / high


@pytest.mark.parametrize(("rho", "delta"), list(product(RHOS, DELTAS)))
def test_tight_epsilon_is_rounded_up_and_hardly(rho: float, delta: float) -> None:
    value, least = Decimal(epsilon_of(rho, delta)), max(Decimal(0), least_epsilon(rho, delta))
    assert value >= least
    assert value <= least * (1 + Decimal("1e-9")) + Decimal("1e-12")


def least_log_delta(rho: float, epsilon: float) -> Decimal:
    """The logarithm of Corollary 13's delta, minimised with fifty digits."""
    with localcontext() as context:
        context.prec = 50
        cost, goal = Decimal(rho), Decimal(epsilon)
        low, high = Decimal(0), max(Decimal(1), (goal + 1) / (2 * cost))
        for _ in range(200):
            x = (low + high) / 2
            low, high = (x, high) if (1 + 2 * x) * cost - goal - (1 + 1 / x).ln() < 0 else (low, x)
        return high * (1 + high) * cost - high * goal - high * (1 + 1 / high).ln() - (1 + high).ln()


@pytest.mark.parametrize(
    ("rho", "epsilon"), [pair for pair in product(RHOS, [0.0, *EPSILONS]) if least_log_delta(*pair) > -700]
)
def test_tight_delta_is_rounded_up_and_hardly(rho: float, epsilon: float) -> None:
    """In logarithms, which are as precise as a sum of such terms can be."""
    found, least = Decimal(delta_of(rho, epsilon)).ln(), min(Decimal(0), least_log_delta(rho, epsilon))
    assert least <= found <= least + Decimal("1e-9")


def test_no_delta_is_above_one_although_rounding_would_make_it_so() -> None:
    """Rho and epsilon of 1e16 nearly cancel: what rounding may have cost is more than what is left of them."""
    for less in (4, 10, 20, 40):
        assert delta_of(1e16, 1e16 - less) == 1
    for rho in (40, 100, 200):
        assert delta_of(rho, 1.0) == 1


@pytest.mark.parametrize("rho", [10, 15, 20, 25])
def test_a_delta_near_one_is_rounded_up(rho: float) -> None:
    """Its terms are tiny: what counts is the rounding of the exponential itself."""
    for epsilon in (0.0, 0.1, 0.5):
        found = Decimal(delta_of(rho, epsilon)).ln()
        assert least_log_delta(rho, epsilon) <= found < 0


@pytest.mark.parametrize("rho", [number / 7 for number in range(1, 60)])
def test_a_tiny_delta_is_rounded_up_although_its_terms_are_large(rho: float) -> None:
    """Some 1e-260: terms in the thousands nearly cancel, and each of them carries its own rounding error."""
    epsilon = rho + math.sqrt(4 * rho * 600)
    least = least_log_delta(rho, epsilon)
    assert -640 < least < -590
    assert Decimal(delta_of(rho, epsilon)).ln() >= least


@pytest.mark.parametrize(("rho", "delta"), list(product(RHOS, DELTAS)))
def test_tight_is_never_worse_than_the_paper(rho: float, delta: float) -> None:
    assert epsilon_of(rho, delta) < paper_epsilon_of(rho, delta)


@pytest.mark.parametrize(("epsilon", "delta"), list(product(EPSILONS, DELTAS)))
def test_tight_rho_is_valid_and_the_most(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * Fraction(1_000_001, 1_000_000), delta) > epsilon
    assert rho > paper_rho_of(epsilon, delta)
    assert delta_of(rho, epsilon) <= delta * (1 + 1e-9)


@given(epsilons, deltas)
def test_conversions_are_inverse_on_the_safe_side(epsilon: float, delta: float) -> None:
    assert epsilon_of(rho_of(epsilon, delta), delta) <= epsilon
    assert paper_epsilon_of(paper_rho_of(epsilon, delta), delta) <= epsilon


@given(rhos, deltas)
def test_delta_of_and_epsilon_of_agree(rho: float, delta: float) -> None:
    epsilon = epsilon_of(rho, delta)
    assert delta_of(rho, epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0:
        assert delta_of(rho, epsilon * 0.999) > delta * (1 - 1e-9)


@given(rhos, rhos, deltas)
def test_epsilon_grows_with_rho(first: float, second: float, delta: float) -> None:
    low, high = sorted((first, second))
    assert epsilon_of(low, delta) <= epsilon_of(high, delta) * (1 + 1e-9)


@pytest.fixture(scope="module")
def opendp_profile() -> Callable[[float], Any]:
    enable_features("contrib")
    gaussian = make_gaussian(atom_domain(T=float, nan=False), absolute_distance(T=float), scale=1.0)
    return make_zCDP_to_approxDP(gaussian).map


@pytest.mark.parametrize(
    ("rho", "delta"), list(product([1e-6, 1e-3, 0.05, 0.5, 3.0, 100.0], [1e-30, 1e-9, 1e-5, 0.01]))
)
def test_opendp_agrees(opendp_profile: Callable[[float], Any], rho: float, delta: float) -> None:
    profile = opendp_profile(math.sqrt(2 * rho))
    assert epsilon_of(rho, delta) == pytest.approx(profile.epsilon(delta), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("rho", "epsilon"), list(product([1e-3, 0.05, 0.5, 3.0], [0.1, 1.0, 8.0])))
def test_opendp_agrees_on_delta(opendp_profile: Callable[[float], Any], rho: float, epsilon: float) -> None:
    theirs = opendp_profile(math.sqrt(2 * rho)).delta(epsilon)
    assert delta_of(rho, epsilon) == pytest.approx(theirs, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize(("rho", "delta"), list(product([1e-3, 0.05, 0.5, 3.0], [1e-30, 1e-9, 1e-5, 0.01])))
def test_dp_accounting_agrees(rho: float, delta: float) -> None:
    orders = [1 + math.exp(step / 200) for step in range(-800, 2400)]
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, [rho * order for order in orders], delta)
    ours = epsilon_of(rho, delta)
    assert ours == pytest.approx(theirs, rel=1e-4)
    # Theirs searches a grid: it cannot find less than the minimum, which ours is.
    assert ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize(("sigma", "delta"), list(product([0.3, 1.0, 5.0, 50.0], [1e-12, 1e-5, 0.01])))
def test_a_gaussian_keeps_what_we_promise_of_it(sigma: float, delta: float) -> None:
    """The Gaussian mechanism's true ε lies below what its zCDP implies, and not far below."""
    truth = dp_accounting.get_epsilon_gaussian(sigma, delta)
    ours = epsilon_of(1 / (2 * sigma**2), delta)
    assert truth <= ours <= 1.35 * truth + 5e-3


@pytest.mark.parametrize(("rho", "delta", "value"), [(0.01, 1e-6, 0.7533844377699678), (0.5, 1e-5, 5.298525912188081)])
def test_paper_epsilon_reference_values(rho: float, delta: float, value: float) -> None:
    assert paper_epsilon_of(rho, delta) == pytest.approx(value, rel=1e-9)
    assert paper_epsilon_of(rho, delta) >= value * (1 - 1e-15)
    assert float(paper_rho_of(value, delta)) == pytest.approx(rho, rel=1e-9)


def test_paper_composition_is_the_papers_formula() -> None:
    epsilons, delta = [0.1, 0.2, 0.3], 1e-6
    squares = 0.14
    expected = squares / 2 + math.sqrt(2 * squares * math.log(1 / delta))
    assert paper_composition(epsilons, delta) == pytest.approx(expected, rel=1e-9)
    simple = paper_composition_simple(epsilons, delta)
    assert simple == pytest.approx(2 * math.sqrt(squares * math.log(1 / delta)), rel=1e-9)
    assert paper_composition([], delta) == 0


@given(st.lists(st.floats(1e-6, 0.5), min_size=1, max_size=4), st.floats(1e-300, 0.36))
def test_the_simple_form_is_the_larger(epsilons: list[float], delta: float) -> None:
    assert paper_composition(epsilons, delta) <= paper_composition_simple(epsilons, delta)


@pytest.mark.parametrize("delta", [1e-300, 1e-9, 0.01, Fraction(math.exp(-1))])
def test_what_the_paper_says_is_rounded_up_and_hardly(delta: float | Fraction) -> None:
    """Against fifty digits, up to the largest sum of squares and the largest delta of the simple form."""
    for squares, epsilons in ((Fraction(1), [1.0]), (Fraction(5, 8), [0.75, 0.25])):
        with localcontext() as context:
            context.prec = 50
            sum_, chance = (Decimal(each.numerator) / each.denominator for each in (squares, Fraction(delta)))
            simple = 2 * (-sum_ * chance.ln()).sqrt()
            exact = sum_ / 2 + (-2 * sum_ * chance.ln()).sqrt()
        room = 1 + Decimal(2) ** -42
        assert simple <= Decimal(paper_composition_simple(epsilons, delta)) <= simple * room
        assert exact <= Decimal(paper_composition(epsilons, delta)) <= exact * room


@pytest.mark.parametrize(
    ("epsilons", "delta"),
    [([0.1], 0.4), ([1.0, 0.01], 1e-6), ([0.1], math.nextafter(math.exp(-1), 1)), ([1.001], 1e-6)],
)
def test_the_simple_form_states_its_conditions(epsilons: list[float], delta: float) -> None:
    with pytest.raises(GuaranteeError, match="1/e"):
        paper_composition_simple(epsilons, delta)


def test_nothing_spent_is_nothing_lost() -> None:
    assert epsilon_of(0, 1e-9) == paper_epsilon_of(Fraction(0), 1e-9) == delta_of(0, 1.0) == 0


def test_beyond_the_floats_results_stay_on_the_safe_side() -> None:
    assert epsilon_of(Fraction(1, 10**400), 1e-9) >= 0
    assert epsilon_of(1e200, 1e-9) == paper_epsilon_of(1e200, 1e-9) == math.inf
    assert delta_of(1e200, 1.0) == 1
    assert 0 < delta_of(1e-12, 1e4) < 1e-300
    assert delta_of(1e4, 1e-6) == 1
    assert 0 < rho_of(1.0, Fraction(1, 10**400)) < rho_of(1.0, 1e-300)
    assert rho_of(1e300, 1e-9) > 0
    with pytest.raises(ParameterError, match="epsilon is too small"):
        rho_of(1e-200, 1e-200)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, True, "1", 5e-324])
def test_bad_numbers_are_refused_by_name(wrong: Any) -> None:
    for to_epsilon in (epsilon_of, paper_epsilon_of):
        with pytest.raises(ParameterError, match=r"^rho must be"):
            to_epsilon(wrong, 1e-9)
    for to_rho in (rho_of, paper_rho_of):
        with pytest.raises(ParameterError, match=r"^epsilon must be"):
            to_rho(wrong, 1e-9)
    with pytest.raises(ParameterError, match=r"^epsilon must be"):
        delta_of(1.0, wrong)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, math.nan])
def test_bad_deltas_are_refused(wrong: float) -> None:
    for convert in (epsilon_of, rho_of, paper_epsilon_of, paper_rho_of):
        with pytest.raises(ParameterError, match=r"^delta must be"):
            convert(1.0, wrong)


@pytest.mark.parametrize("delta", [0.9, 0.3, 1e-5, 1e-9, 1e-300, Fraction(1, 10**400), Fraction(2, 3)])
def test_the_logarithm_of_delta_is_rounded_up(delta: float | Fraction) -> None:
    """Against fifty digits: never below, and hardly above."""
    with localcontext() as context:
        context.prec = 50
        chance = Fraction(delta)
        exact = (Decimal(chance.denominator) / Decimal(chance.numerator)).ln()
        found = Decimal(log_inverse(delta))
    assert exact <= found <= exact + (1 + exact) * Decimal(2) ** -43
