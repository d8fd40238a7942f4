from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from treering.budget.convert import rho_of
from treering.errors import GuaranteeError, ParameterError
from treering.params import exact
from treering.theory import schedule
from treering.theory.conversion import paper_composition

Epochs = list[tuple[int, float, float, float]]

THIRD = 0.3333333333333333
SMALLDB = 14.508347649357903  # (64·log N·log k)^{1/3}, N = k = 1000


# -- reference values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "epsilon", "delta", "beta", "p", "g", "growth", "epochs"),
    [
        (
            1000000,
            1.0,
            0.0,
            0.05,
            THIRD,
            SMALLDB,
            0.3923508591870807,
            [
                (0, 0.07940572981178788, -3.044522437723423, 0.489223224856738),
                (1, 0.1140599429918816, -6.089044875446846, 0.489223224856738),
                (5, 0.09104574549242023, -18.26713462634054, 0.489223224856738),
                (40, 5.790128637864777e-06, -124.82541994666035, 0.489223224856738),
            ],
        ),
        (
            100000,
            0.5,
            0.0,
            0.01,
            1.0,
            2.0,
            0.05693959134913533,
            [
                (0, 0.0014511034136128948, -4.61512051684126, 0.06360843029582201),
                (1, 0.0027458587519853003, -9.23024103368252, 0.063608430295822),
                (5, 0.006600833573709979, -27.69072310104756, 0.063608430295822),
                (40, 0.006493451062200208, -189.21994119049165, 0.06360843029582201),
            ],
        ),
        (
            1000000,
            0.9,
            1e-06,
            0.05,
            0.5,
            3.0,
            0.10204854795364736,
            [
                (0, 0.0022742957482480295, -3.044522437723423, 0.10976335536256354),
                (1, 0.0041273966604667, -6.089044875446846, 0.10976335536256354),
                (5, 0.008394494645815515, -18.26713462634054, 0.10976335536256354),
                (40, 0.001912501255871968, -124.82541994666035, 0.10976335536256351),
            ],
        ),
    ],
)
def test_bbscheduler(
    start: int, epsilon: float, delta: float, beta: float, p: float, g: float, growth: float, epochs: Epochs
) -> None:
    plan = schedule.fixed(start, epsilon, delta, beta, p, g, "paper")
    assert plan.growth == pytest.approx(growth, rel=1e-9)
    for index, loss, log_beta, alpha in epochs:
        epoch = plan.epoch(index)
        assert epoch.epsilon == pytest.approx(loss, rel=1e-9)
        assert epoch.rho is None
        assert epoch.log_beta == pytest.approx(log_beta, rel=1e-12)
        assert epoch.beta == pytest.approx(math.exp(log_beta), rel=1e-9)
        assert epoch.alpha == pytest.approx(alpha, rel=1e-9)
        assert epoch.size == math.ceil(start * (1 + plan.growth) ** index)
    assert plan.alpha == pytest.approx(epochs[0][3] + growth / (1 + growth), rel=1e-9)


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "beta", "p", "p1", "p2", "g", "c", "loss", "failing", "alpha"),
    [
        (1000, 0.9, 1e-06, 0.05, 1.0, 1.0, 0.0, 10.0, 0.1, 0.0004045179383610068, 2.5e-08, 432.7222195139501),
        (1000000, 0.5, 1e-09, 0.01, 0.5, 1.0, 0.5, 2.0, 0.01, 3.1887439714009367e-06, 5e-15, 137.08396145486694),
    ],
)
@pytest.mark.parametrize("start", [1, 500, None])
def test_bbimprover(
    start: int | None,
    size: int,
    epsilon: float,
    delta: float,
    beta: float,
    p: float,
    p1: float,
    p2: float,
    g: float,
    c: float,
    loss: float,
    failing: float,
    alpha: float,
) -> None:
    plan = schedule.improving(start or size, epsilon, delta, beta, p, p1, p2, g, c, "paper")
    run = plan.at(size)
    assert run.size == size
    assert run.epsilon == pytest.approx(loss, rel=1e-9)
    assert run.beta == pytest.approx(failing, rel=1e-12)
    assert run.alpha == plan.alpha_at(size) == pytest.approx(alpha, rel=1e-9)
    assert plan.next_size(size) == size + 1
    assert plan.epoch(plan.index_at(size)) == run


@pytest.mark.parametrize(
    ("start", "delta", "alpha"),
    [(10**8, 0.0, 0.30716), (10**10, 0.0, 0.12328), (10**8, 1e-9, 0.43680), (10**10, 1e-9, 0.16040)],
)
def test_smalldb(start: int, delta: float, alpha: float) -> None:
    assert schedule.fixed(start, 1.0, delta, 0.05, THIRD, SMALLDB, "paper").alpha == pytest.approx(alpha, abs=5e-6)


# -- privacy over all time ---------------------------------------------------------------------------------------------

CASES = list(product((10**5, 10**12), (0.1, 1.0), (0.01, 0.5), (0.25, 1 / 3, 1.0, 2.0), (0.5, 3.0)))


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.3])
def test_the_epochs_spend_the_budget_and_no_more(delta: float) -> None:
    checked = 0
    for start, epsilon, beta, p, g in CASES:
        try:
            plan = schedule.fixed(start, epsilon, delta, beta, p, g, "paper")
        except GuaranteeError:
            continue
        ratio = Fraction(plan.ratio)
        first = plan.epoch(0).budget.total * (1 + Fraction(2) ** -41)
        for index in (0, 1, 7, 100):
            assert plan.epoch(index).budget.total <= first * (index + 1) / ratio**index
        q = 1 / ratio  # Σ(i+1)q^i = 1/(1−q)², Σ(i+1)²q^{2i} = (1+q²)/(1−q²)³
        if delta == 0:
            assert 1 - Fraction(1, 10**9) < first / (1 - q) ** 2 / exact(epsilon, "epsilon") <= 1
        else:
            assert first**2 / 2 * (1 + q**2) / (1 - q**2) ** 3 < rho_of(epsilon, delta) / 3
        checked += 1
    assert checked > 40


def test_the_first_epochs_summed_exactly() -> None:
    plan = schedule.fixed(10**6, 1, 0.0, 0.05, THIRD, SMALLDB, "paper")
    spent = sum((plan.epoch(index).budget.total for index in range(150)), Fraction(0))
    assert 1 - 1e-9 < spent < 1
    private = schedule.fixed(10**6, 0.9, 1e-6, 0.05, 0.5, 3.0, "paper")
    losses = [private.epoch(index).budget.total for index in range(600)]
    assert 0.2 < paper_composition(losses, 1e-6) < 0.9


@pytest.mark.parametrize(("start", "c"), [(1, 0.5), (2, 1.0), (10, 0.001), (1000, 0.1), (1000, 5.0)])
@pytest.mark.parametrize("delta", [1e-9, 0.3])
def test_a_run_at_every_size_stays_within_the_budget(start: int, c: float, delta: float) -> None:
    plan = schedule.improving(start, 1.0, delta, 0.05, 1, 1, 0, 1, c, "paper")
    first, last = plan.epoch(0), 20_000
    assert first.epsilon is not None
    for size in (start + 1, 3 * start, 10**6):
        assert plan.at(size).epsilon == pytest.approx(first.epsilon * (start / size) ** (0.5 + c), rel=1e-9)
    # The rest: Σ_{t>m} t^{−1−2c} ≤ m^{−2c}/(2c).
    terms = math.fsum((start / size) ** (1 + 2 * c) for size in range(start, start + last))
    tail = start ** (1 + 2 * c) * (start + last - 1) ** (-2 * c) / (2 * c)
    assert first.epsilon**2 / 2 * (terms + tail) <= 0.48 * float(rho_of(1.0, delta))


def test_c_beyond_half_of_the_start_would_overspend() -> None:
    """The condition of erratum E6 is needed: the proof's bound on the sum fails beyond it."""
    start, c = 2, 6.0
    terms = math.fsum(size ** (-1 - 2 * c) for size in range(start, 10_000))
    assert terms > 1 / (c * start ** (2 * c))
    with pytest.raises(GuaranteeError, match="half of the starting size, 1"):
        schedule.improving(start, 1.0, 1e-9, 0.05, 1, 1, 0, 1, c, "paper")


@settings(max_examples=30)
@given(st.floats(0.001, 0.999), st.integers(0, 100))
def test_confidence_is_shared_out(beta: float, epochs: int) -> None:
    plan = schedule.fixed(10**9, 1.0, 0.0, beta, 1.0, 1.0, "paper")
    ratio = beta / (1 + beta)
    spent = math.fsum(math.exp(plan.epoch(index).log_beta) for index in range(epochs))
    assert spent == pytest.approx(beta * (1 - ratio**epochs), rel=1e-9)


def test_a_vanishing_beta_is_never_zero() -> None:
    plan = schedule.fixed(10**6, 1.0, 0.0, 1e-9, 1.0, 1.0, "paper")
    epoch = plan.epoch(10**4)
    assert epoch.log_beta == pytest.approx(-math.log1p(1e9) * 10_001)
    assert epoch.beta == 2.0**-1022
    assert epoch.budget.total > 0


# -- accuracy ----------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(10**5, 10**9), st.integers(0, 200))
def test_the_error_at_every_size_is_within_alpha(start: int, index: int) -> None:
    plan = schedule.fixed(start, 1.0, 0.0, 0.05, 1.0, 2.0, "paper")
    epoch, last = plan.epoch(index), plan.size_of(index + 1) - 1
    assert plan.alpha_at(epoch.size) == epoch.alpha
    assert plan.alpha_at(last) == pytest.approx(epoch.alpha + 1 - epoch.size / last, rel=1e-12)
    assert plan.alpha_at(last) <= plan.alpha


def test_centred_answers_have_half_the_staleness() -> None:
    plain = schedule.fixed(10**8, 1.0, 0.0, 0.05, THIRD, SMALLDB, "paper")
    centred = schedule.fixed(10**8, 1.0, 0.0, 0.05, THIRD, SMALLDB, "paper", centred=True)
    assert centred.growth == plain.growth
    assert centred.alpha == pytest.approx((plain.static + plain.growth / 2) / (1 + plain.growth), rel=1e-9)


@settings(max_examples=50)
@given(st.integers(10**5, 10**12), st.floats(0.05, 3), st.floats(0.5, 3))
def test_the_two_terms_of_the_fixed_bound_balance(start: int, p: float, g: float) -> None:
    """Erratum E19: g·Z^p·(γ/2)^{−2p} is 2^{2p}·γ, as Z is left with the power p − 2p²/(2p+1) = p/(2p+1)."""
    growth = schedule.paper_growth(start, 1.0, 0.0, 0.05, p, g)
    z = math.log(21) / start
    assert g * z**p * (growth / 2) ** (-2 * p) == pytest.approx(2 ** (2 * p) * growth, rel=1e-9)
    assert p - 2 * p**2 / (2 * p + 1) == pytest.approx(p / (2 * p + 1))
    if growth < 1:
        assert schedule.fixed(start, 1.0, 0.0, 0.05, p, g, "paper").alpha <= (2 ** (2 * p) + 1) * growth


@pytest.mark.parametrize(("c", "least"), [(0.2, 4.4), (0.05, 16.1), (0.01, 75.0)])
def test_the_improving_constant_depends_on_c_and_beta(c: float, least: float) -> None:
    """Erratum E20: the least C of α_t ≤ C·g·log(1/β)·√log(1/δ)/(√c·ε·t^{½−2c}) from 1,000 rows on, p = p' = g = 1."""
    rate, shrunk = schedule.rate_of(1, 1, 0, 1), math.log(math.sqrt(c) / 3)  # ε = log(1/δ) = 1

    def constant(beta: float, log_size: float) -> float:
        size = round(math.exp(log_size))
        alpha = rate.alpha(size, shrunk - (0.5 + c) * math.log(size), math.log(beta / 2) - 2 * math.log(size))
        return alpha * math.sqrt(c) * math.exp((0.5 - 2 * c) * math.log(size)) / math.log(1 / beta)

    sizes = [math.log(1000) + step / 10 for step in range(1000)]
    assert max(constant(0.05, each) for each in sizes) == pytest.approx(least, rel=0.01)
    assert max(constant(1 - 1e-6, each) for each in sizes) > 10**5


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("p", "g"), [(THIRD, SMALLDB), (1.0, 100.0), (2.0, 1e6)])
def test_too_few_rows_name_the_rows_that_would_do(delta: float, p: float, g: float) -> None:
    needed = schedule.paper_start(0.5, delta, 0.05, p, g)
    assert schedule.fixed(needed, 0.5, delta, 0.05, p, g, "paper").growth < 1
    with pytest.raises(GuaranteeError, match=f"at least {needed:,} rows"):
        schedule.fixed(needed - 1, 0.5, delta, 0.05, p, g, "paper")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 1.01}, "epsilon must be at most 1"),
        ({"delta": 0.4}, "delta must be below 1/e"),
        ({"start": 3}, "at least"),
        ({"g": 1e-300}, "finer than 2"),
    ],
)
def test_the_fixed_theorem_has_conditions(change: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"start": 10**6, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05, "p": 1.0, "g": 1.0}
    right |= {"profile": "paper"}
    schedule.fixed(**right)
    with pytest.raises(GuaranteeError, match=words):
        schedule.fixed(**(right | change))


def test_without_delta_any_epsilon_will_do() -> None:
    assert schedule.fixed(10**6, 5.0, 0.0, 0.05, 1.0, 1.0, "paper").alpha < 0.02


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 1.01}, "epsilon must be at most 1"),
        ({"delta": 0.4}, "delta must be below 1/e"),
        ({"delta": 0.0}, "the tight profile has a pure version"),
        ({"c": 501.0}, "half of the starting size, 500"),
    ],
)
def test_the_improving_theorem_has_conditions(change: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "beta": 0.05, "p": 1.0, "p1": 1.0, "p2": 0.0, "g": 1.0}
    right |= {"c": 0.1, "profile": "paper", "start": 1000}
    schedule.improving(**right)
    with pytest.raises(GuaranteeError, match=words):
        schedule.improving(**(right | change))


BAD: list[tuple[str, Any]] = [
    *(("start", value) for value in (0, -1, 1.5, True, math.nan)),
    *(("epsilon", value) for value in (0, -1.0, math.nan, math.inf, "1", None, True)),
    *(("delta", value) for value in (-0.1, 1.0, math.nan, True)),
    *(("beta", value) for value in (0, 1, -0.1, math.nan)),
    *(("p", value) for value in (0, -1, math.nan, math.inf)),
    *(("g", value) for value in (0, -1, math.nan, math.inf)),
    *(("profile", value) for value in ("loose", None)),
]


@pytest.mark.parametrize(("name", "value"), BAD)
@pytest.mark.parametrize("profile", ["paper", "tight"])
def test_bad_parameters_are_named(name: str, value: Any, profile: str) -> None:
    right: dict[str, Any] = {"start": 10**6, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05, "p": 1.0, "g": 1.0}
    right |= {"profile": profile}
    with pytest.raises(ParameterError, match=name):
        schedule.fixed(**(right | {name: value}))
    with pytest.raises(ParameterError, match=name):
        schedule.improving(**({"p1": 1.0, "p2": 0.0, "c": 0.1} | right | {name: value}))


@pytest.mark.parametrize(
    ("name", "value"), [("p1", -1), ("p1", math.nan), ("p2", -0.5), ("p2", True), ("c", 0), ("c", -1), ("c", math.nan)]
)
@pytest.mark.parametrize("profile", ["paper", "tight"])
def test_bad_parameters_of_improving_are_named(name: str, value: Any, profile: str) -> None:
    right: dict[str, Any] = {"start": 10**6, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05, "p": 1.0, "g": 1.0}
    right |= {"p1": 1.0, "p2": 0.0, "c": 0.1, "profile": profile}
    schedule.improving(**right)
    with pytest.raises(ParameterError, match=name):
        schedule.improving(**(right | {name: value}))


def test_the_papers_improver_needs_its_c() -> None:
    with pytest.raises(ParameterError, match="c must be given"):
        schedule.improving(1000, 1.0, 1e-6, 0.05, 1, 1, 0, 1, profile="paper")


@pytest.mark.parametrize("profile", ["paper", "tight"])
def test_sizes_below_the_start_and_bad_indices_are_refused(profile: schedule.Profile) -> None:
    for plan in (
        schedule.fixed(10**6, 1.0, 1e-6, 0.05, 1.0, 1.0, profile),
        schedule.improving(10**6, 1.0, 1e-6, 0.05, 1, 1, 0, 1, 0.1, profile),
    ):
        assert plan.start == plan.epoch(0).size == 10**6
        assert plan.next_size(10**6 - 1) == plan.next_size(0) == 10**6
        with pytest.raises(ParameterError, match="at least 1,000,000, where the schedule starts"):
            plan.index_at(10**6 - 1)
        with pytest.raises(ParameterError, match="size"):
            plan.alpha_at(5)
        with pytest.raises(ParameterError, match="index"):
            plan.epoch(-1)
        with pytest.raises(ParameterError, match="size"):
            plan.next_size(-1)
