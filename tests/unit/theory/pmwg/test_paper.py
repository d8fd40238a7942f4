from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad

from treering.errors import GuaranteeError, ParameterError
from treering.theory import pmwg
from treering.theory.sparse import paper_nsg_loss

REST = (0.25, 0.4, 0.51, 0.75, 0.9, 0.999)

sizes = st.integers(17, 10**10)
exponents = st.floats(0.25, 0.999)


# -- reference values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "start", "cells", "epsilon", "delta", "alpha", "p", "value"),
    [
        (1000, 1000, 64, 1.0, 0.0, 0.1, 0.5, 0.005577881289749317),
        (5000, 1000, 64, 1.0, 0.0, 0.1, 0.5, 0.012472521734303675),
        (5000, 1000, 64, 0.5, 1e-06, 0.1, 0.5, 0.188374642223301),
        (1000000, 100000, 4096, 1.0, 0.0, 0.05, 0.25, 0.100081574481737),
        (1000000, 100000, 4096, 0.3, 1e-09, 0.05, 0.75, 4.334330224270148),
    ],
)
def test_noise(
    size: int, start: int, cells: int, epsilon: float, delta: float, alpha: float, p: float, value: float
) -> None:
    assert pmwg.noise(size, start, cells, epsilon, delta, alpha, p) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("start", "cells", "epsilon", "delta", "beta", "kappa", "p", "value"),
    [
        (1000000, 1000, 1.0, 0.0, 0.05, 1, 0.5, 1.5575439032733156),
        (100000000, 1000000, 0.5, 0.0, 0.001, 100, 0.5, 0.5723090200491796),
        (100000000, 1000, 1.0, 0.0, 0.001, 1, 0.75, 0.9240501409089488),
        (10000000, 1000, 1.0, 1e-09, 0.005, 1, 0.5, 0.37563220531956987),
        (1000000000, 1000000, 0.2, 1e-06, 0.001, 1000, 0.25, 0.08391880960739183),
    ],
)
def test_alpha(
    start: int, cells: int, epsilon: float, delta: float, beta: float, kappa: float, p: float, value: float
) -> None:
    assert pmwg.alpha(start, cells, epsilon, delta, beta, kappa, p) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("start", "size", "cells", "alpha", "value"),
    [
        (100, 100, 8, 0.2, 1871.4973875118517),
        (100, 150, 8, 0.2, 4737.960293235328),
        (1000, 4000, 1024, 0.1, 102449.33809559695),
    ],
)
def test_hard_bound(start: int, size: int, cells: int, alpha: float, value: float) -> None:
    assert pmwg.hard_bound(start, size, cells, alpha) == pytest.approx(value, rel=1e-9)


# -- noise and accuracy ------------------------------------------------------------------------------------------------


def test_a_half_is_its_own_case_without_delta() -> None:
    """Erratum E13: the general formula at p → ½ gives 126·4 = 504, not 162; with δ > 0 there is no such jump."""
    near = math.nextafter(0.5, 1)
    ratio = pmwg.noise(10**6, 10**5, 64, 1, 0, 0.1, 0.5) / pmwg.noise(10**6, 10**5, 64, 1, 0, 0.1, near)
    assert ratio == pytest.approx(504 / 162, rel=1e-9)
    ratio = pmwg.noise(10**6, 10**5, 64, 1, 1e-6, 0.1, 0.5) / pmwg.noise(10**6, 10**5, 64, 1, 1e-6, 0.1, near)
    assert ratio == pytest.approx(1, rel=1e-9)


@given(sizes, st.integers(3, 10**9), st.floats(1e-3, 1), st.sampled_from([0.0, 1e-9]), st.floats(1e-9, 5e-3), exponents)
def test_alpha_is_where_the_proof_needs_it(
    start: int, cells: int, epsilon: float, delta: float, beta: float, p: float
) -> None:
    """The proofs ask cα·n^p/51 ≥ log(192κn/β), or 144; and E12: the query budget's exponent is 17/16 of that."""
    bound = pmwg.alpha(start, cells, epsilon, delta, beta, 3, p)
    constant = 192 if p == 0.5 and delta == 0 else 144
    need = math.log(constant * 3 * start / beta)
    assert bound * pmwg.noise(start, start, cells, epsilon, delta, bound, p) / 51 == pytest.approx(need, rel=1e-9)
    rate = pmwg.query_rate(start, cells, epsilon, delta, bound, p)
    assert rate * start**p == pytest.approx(17 / 16 * need, rel=1e-9)


def test_the_proofs_constant_for_queries_at_a_half_is_7776() -> None:
    start, cells, epsilon, error = 10**6, 1000, 0.7, 1.2
    expected = error**3 * epsilon * math.sqrt(start) / (7776 * math.log(cells * start))
    assert pmwg.query_rate(start, cells, epsilon, 0, error) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("delta", "p", "beta"), [(0.0, 0.5, 0.05), (0.0, 0.75, 0.005), (1e-9, 0.5, 0.005)])
@pytest.mark.parametrize("wanted", [0.5, 0.05])
def test_alpha_start_is_the_first_size_covered(delta: float, p: float, beta: float, wanted: float) -> None:
    first = pmwg.alpha_start(wanted, 1000, 1.0, delta, beta, 1, p)
    assert pmwg.alpha(first, 1000, 1.0, delta, beta, 1, p) <= wanted
    assert pmwg.alpha(first - 1, 1000, 1.0, delta, beta, 1, p) > wanted


def test_alpha_start_is_never_below_the_theorems_least_size() -> None:
    assert pmwg.alpha_start(1000.0, 1000, 1.0, 0, 0.05, 1) == 21
    assert pmwg.alpha_start(1000.0, 1000, 1.0, 1e-9, 0.005, 1) == 17


# -- queries -----------------------------------------------------------------------------------------------------------


@given(st.integers(17, 3000), st.integers(0, 3000), st.floats(0.05, 60), st.floats(1, 100), exponents, st.booleans())
@settings(max_examples=60, deadline=None)
def test_query_budget_is_the_sum_from_below(
    start: int, grown: int, alpha: float, kappa: float, p: float, pure: bool
) -> None:
    delta = 0.0 if pure else 1e-6
    rate = pmwg.query_rate(start, 100, 1.0, delta, alpha, p)
    top = rate * (start + grown) ** p
    total = math.fsum(math.exp(rate * size**p - top) for size in range(start, start + grown + 1))
    ours = pmwg.log_query_budget(start, start + grown, 100, 1.0, delta, alpha, kappa, p)
    exact = top + math.log(total) + math.log(kappa)
    assert exact - 1e-5 <= ours <= exact + 1e-13 * (1 + exact)


@pytest.mark.parametrize(
    ("start", "size"), [(10**6, 10**6 + 10), (10**6, 10**7), (10**10, 10**10 + 10**6), (21, 10**12)]
)
def test_query_budget_at_a_half_has_a_closed_integral(start: int, size: int) -> None:
    """∫e^{c√τ} = 2/c²·e^u(u−1), u = c√τ; the sum lies between it plus the first and plus the last term."""
    error = pmwg.alpha(start, 1000, 1, 0, 0.05, 1)
    rate = pmwg.query_rate(start, 1000, 1, 0, error)
    first, last = rate * math.sqrt(start), rate * math.sqrt(size)
    integral = 2 / rate**2 * ((last - 1) - math.exp(first - last) * (first - 1))
    ours = pmwg.log_query_budget(start, size, 1000, 1, 0, error, 1) - last
    assert math.log(integral + math.exp(first - last)) - 1e-5 <= ours <= math.log(integral + 1) + 1e-9 * last


def test_query_budget_beyond_the_floats_is_the_largest_float() -> None:
    error = pmwg.alpha(10**6, 1000, 1, 0, 0.05, 1)
    assert pmwg.query_budget(10**6, 10**12, 1000, 1, 0, error, 1) == sys.float_info.max
    assert pmwg.query_budget(10**6, 10**6, 1000, 1, 0, error, 2) == pytest.approx(2 * (192e6 / 0.05) ** (17 / 16))


# -- hard queries ------------------------------------------------------------------------------------------------------


def injected(size: int, cells: int) -> float:
    return math.log(cells) / size + math.log(size - 1) / size + math.log(size / (size - 1))


@pytest.mark.parametrize(("start", "size"), [(1, 3), (17, 9000), (900, 1100), (1023, 1025), (1024, 40000)])
def test_hard_bound_is_the_sum(start: int, size: int) -> None:
    total = math.fsum(injected(t, 50) for t in range(start + 1, size + 1))
    assert pmwg.hard_bound(start, size, 50, 0.3) == pytest.approx(36 / 0.09 * (math.log(50) + total), rel=1e-12)


@pytest.mark.parametrize(
    ("start", "size"),
    [(2000, 10**7), (10**6, 10**12), (10**10, 10**10 + 1), (10**10, 10**10 + 10**6), (10**10, 10**12)],
)
@pytest.mark.parametrize("cells", [3, 10**9])
def test_hard_bound_far_out(start: int, size: int, cells: int) -> None:
    """By the midpoint rule, whose error is |h''|/24 a term, in u = log x."""

    def integrand(u: float) -> float:
        return math.log(cells) + u + math.log1p(-math.exp(-u))

    middle = quad(integrand, math.log(start + 0.5), math.log(size + 0.5), epsabs=0, epsrel=1e-13)[0]
    expected = math.log(cells) + middle + math.log(size / start)
    assert pmwg.hard_bound(start, size, cells, 1.0) / 36 == pytest.approx(expected, rel=1e-9)


# -- privacy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "epsilon"), [(0.0, 0.01), (0.0, 1.0), (0.0, 20.0), (1e-9, 0.01), (1e-9, 1.0), (0.3, 1.0)]
)
def test_the_schedules_lose_less_than_they_promise(delta: float, epsilon: float) -> None:
    """Within the requirements, over a grid: at most .92ε (δ = 0, p = ½), .50ε (δ = 0), .36ε (δ > 0)."""
    for cells, start, alpha, p in product(
        (3, 1000, 10**9), (21, 1000, 10**6, 10**10), (1e-3, 0.05, 0.3, 1.0), (0.5, *REST)
    ):
        pmwg.check_paper(start, cells, epsilon, delta, 0.005, p)
        loss = pmwg.privacy_loss(start, cells, epsilon, delta, alpha, p)
        bound = 0.36 if delta > 0 else 0.922 if p == 0.5 else 0.50
        assert loss <= bound * epsilon
        reserved = pmwg.privacy_loss(start, cells, epsilon, delta, alpha, p, reserved=True)
        assert loss < reserved <= (bound + 0.005) * epsilon


def test_without_erratum_14_the_promise_would_break() -> None:
    """General p, δ > 0, ε = 50: with three cells the loss is 1.18 times the promise, with 10¹³ cells 1.51 times."""
    for cells, ratio in ((3, 1.18), (10**13, 1.51)):
        loss = pmwg.privacy_loss(17, cells, 50.0, 0.3, 1.0, 0.25)
        assert loss / 50 == pytest.approx(ratio, abs=0.005)
        assert loss == max(pmwg.privacy_loss(17, cells, 50.0, 0.3, 1.0, p) for p in REST)
    with pytest.raises(GuaranteeError, match="epsilon must be at most 1"):
        pmwg.check_paper(17, 3, 50.0, 0.3, 0.001, 0.9)


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_what_a_larger_p_buys_and_costs(delta: float) -> None:
    """The remark on general noise: α grows as (1−p)^{−2/3} (δ > 0: −1/2), and at the theorem's α the number of queries
    at size τ is κ·(144κn/β)^{17/16·(τ/n)^p}."""
    start, cells, beta, kappa = 10**6, 1000, 0.005, 3
    least = pmwg.alpha(start, cells, 1, delta, beta, kappa, 0.3)
    for p in (0.3, 0.6, 0.9):
        alpha = pmwg.alpha(start, cells, 1, delta, beta, kappa, p)
        assert alpha / least == pytest.approx(((1 - 0.3) / (1 - p)) ** (1 / 2 if delta else 2 / 3), rel=1e-9)
        rate = pmwg.query_rate(start, cells, 1, delta, alpha, p)
        for grown in (1, 4):
            log_number = 17 / 16 * grown**p * math.log(144 * kappa * start / beta)
            assert rate * (grown * start) ** p == pytest.approx(log_number, rel=1e-9)


def test_the_delta_lemma_s_step_needs_four_rows() -> None:
    """Erratum E21: (n−1)^{−2q} ≤ 2n^{−2q} for all q ≤ 1 from n = 4 on; the lemma's bound holds at n = 3, too."""
    assert (2 / 3) ** -2 > 2 > (3 / 4) ** -2
    for start, q in product((3, 4, 17), (0.1, 0.5, 1.0)):
        factor = 585 / 16  # at α = 1
        terms = math.fsum(injected(t, 3) * t ** (-2 * q) for t in range(start + 1, 100_000))
        tail = (1 + math.log(3) + math.log(1e5)) * 1e5 ** (-2 * q) * (1 / (2 * q) + 1 / (2 * q) ** 2)
        squares = (1 + factor * math.log(3)) * start ** (-2 * q) + factor * (terms + tail)
        bound = 12 * start**-q * math.sqrt(math.log(3 * start)) / q
        assert math.sqrt(squares) < 0.54 * bound


@pytest.mark.parametrize("start", [1000, 10**6])
@pytest.mark.parametrize("cells", [3, 10**6])
def test_growth_adds_half_of_log_nt_to_the_paper_s_potential(start: int, cells: int) -> None:
    """(log N + ½ log(nt) + 1)·log(t/n), as the table of the theory's first page says."""
    for size in (2 * start, 1000 * start, 10**12):
        added = pmwg.hard_bound(start, size, cells, 6) - math.log(cells)
        stated = (math.log(cells) + math.log(start * size) / 2 + 1) * math.log(size / start)
        assert added == pytest.approx(stated, rel=1 / start)


@pytest.mark.parametrize("p", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("start", [21, 5000])
def test_privacy_loss_is_the_infinite_sum_from_above(start: int, p: float) -> None:
    """Partial sums stay below it, and with the tail's integral they come within 1e-4."""
    cells, alpha, last = 20, 0.2, 200_000
    xi = pmwg.noise(start, start, cells, 1, 0, alpha, p)
    coefficient = xi / start**p
    factor = 81 / (2 * alpha**2)
    partial = (1 + factor * math.log(cells)) * xi / start
    partial += factor * math.fsum(injected(t, cells) * coefficient * t ** (p - 1) for t in range(start + 1, last + 1))
    rest = quad(
        lambda u: (math.log(cells) + 1 + u) * math.exp((p - 1) * u), math.log(last + 0.5), math.inf, epsrel=1e-10
    )[0]
    loss = pmwg.privacy_loss(start, cells, 1, 0, alpha, p)
    assert partial < partial + factor * coefficient * rest <= loss <= (partial + factor * coefficient * rest) * 1.0001


def test_privacy_loss_covers_a_stream_with_all_its_hard_queries() -> None:
    """NSG's theorem, with as many hard queries at each size as the bound allows."""
    start, cells, alpha, length = 50, 10, 0.5, 400
    xi = [pmwg.noise(t, start, cells, 1, 0, alpha) for t in range(start, start + length)]
    bounds = [math.floor(pmwg.hard_bound(start, t, cells, alpha)) for t in range(start, start + length)]
    hard = [bounds[0], *(later - earlier for earlier, later in pairwise(bounds))]
    spent = paper_nsg_loss(start, xi, hard)
    loss = pmwg.privacy_loss(start, cells, 1, 0, alpha)
    assert 0.5 * loss < spent <= loss


def test_privacy_loss_with_delta_composes_squares() -> None:
    """Two terms of the sum by hand, far above the rest: a steep decay."""
    start, cells, alpha, p = 10**6, 3, 1.0, 0.25
    first = (1 + 585 / 16 * math.log(cells)) * (pmwg.noise(start, start, cells, 1, 1e-6, alpha, p) / start) ** 2
    floor = first / 2 + math.sqrt(2 * first * math.log(1e6))
    assert floor < pmwg.privacy_loss(start, cells, 1, 1e-6, alpha, p) < 5 * floor


# -- requirements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ((20, 3, 1, 0, 0.05, 0.5), "at least 21 rows"),
        ((16, 3, 1, 0, 0.001, 0.75), "at least 17 rows"),
        ((16, 3, 1, 1e-9, 0.001, 0.5), "at least 17 rows"),
        ((100, 2, 1, 0, 0.05, 0.5), "cells must be at least 3"),
        ((100, 3, 1, 0, 0.001, 0.2), r"\[1/4, 1\)"),
        ((100, 3, 1.5, 1e-9, 0.001, 0.5), "epsilon must be at most 1"),
        ((100, 3, 1, 0.4, 0.001, 0.5), "delta must be below 1/e"),
        ((100, 3, 1, 1e-9, 0.006, 0.5), r"beta must be below 2\^\(-15/2\)"),
        ((100, 3, 1, 0, 0.006, 0.75), r"beta must be below 2\^\(-15/2\)"),
    ],
)
def test_requirements_are_refused_with_what_would_do(parameters: Any, text: str) -> None:
    with pytest.raises(GuaranteeError, match=text):
        pmwg.check_paper(*parameters)


@pytest.mark.parametrize(
    "parameters",
    [(21, 3, 50, 0, 0.9, 0.5), (17, 3, 50, 0, 0.0055, 0.25), (17, 3, 1, Fraction(1, 3), 0.0055, 0.999)],
)
def test_requirements_just_met(parameters: Any) -> None:
    pmwg.check_paper(*parameters)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(GuaranteeError, match=r"cells.*rows.*beta.*epsilon.*delta"):
        pmwg.check_paper(2, 2, 2, 0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pmwg.noise(99, 100, 8, 1, 0, 0.1), "size"),
        (lambda: pmwg.noise(100, 100, 8, 1, 0, 0.1, p=1.0), "p"),
        (lambda: pmwg.noise(100, 100, 1, 1, 0, 0.1), "cells"),
        (lambda: pmwg.noise(100, 100, 8, 0, 0, 0.1), "epsilon"),
        (lambda: pmwg.noise(100, 100, 8, 1, 1.0, 0.1), "delta"),
        (lambda: pmwg.noise(100, 100, 8, 1, Fraction(1, 10**400), 0.1), "delta"),
        (lambda: pmwg.alpha(100, 8, 1, 0, 0, 1), "beta"),
        (lambda: pmwg.alpha(100, 8, 1, 0, 0.1, 0.5), "kappa"),
        (lambda: pmwg.alpha(True, 8, 1, 0, 0.1, 1), "start"),
        (lambda: pmwg.hard_bound(100, 99, 8, 0.1), "size"),
        (lambda: pmwg.hard_bound(100, 200, 8, math.nan), "alpha"),
        (lambda: pmwg.query_budget(100, 99, 8, 1, 0, 0.1, 1), "size"),
        (lambda: pmwg.privacy_loss(100, 2, 1, 0, 0.1), "cells"),
        (lambda: pmwg.alpha_start(0, 8, 1, 0, 0.1, 1), "wanted"),
    ],
)
def test_bad_parameters_are_refused_by_name(call: Any, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.parameter == name
