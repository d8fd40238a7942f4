from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, strategies as st

from treering.budget.promise import BudgetKind
from treering.errors import GuaranteeError, ParameterError
from treering.theory import pmwg
from treering.theory.pmwg.tight import MOST_QUERIES, RENEWALS, scaled_for
from treering.theory.sparse import run_cost
from treering.theory.tails import gaussian_tail, laplace_tail, laplace_upper

Vector = npt.NDArray[np.float64]

shares = st.floats(0, 1)
inner = st.floats(1e-6, 1 - 1e-6)


def entropy(left: Vector, right: Vector) -> float:
    """RE(left‖right)."""
    held = left > 0
    return float(np.sum(left[held] * np.log(left[held] / right[held])))


def histogram(seed: int, cells: int, sharpness: float) -> Vector:
    weights = np.random.default_rng(seed).exponential(size=cells) ** sharpness
    return np.asarray(weights / weights.sum())


# -- potential ---------------------------------------------------------------------------------------------------------


@given(shares, inner)
def test_kl_is_pinskers_at_least(a: float, b: float) -> None:
    assert pmwg.kl(a, b) >= 2 * (a - b) ** 2 * (1 - 1e-9) - 1e-15
    assert pmwg.kl(a, a) == 0
    assert pmwg.kl(a, b) == pytest.approx(pmwg.kl(1 - a, 1 - b), rel=1e-6, abs=1e-12)


def test_kl_at_the_ends() -> None:
    assert pmwg.kl(0, 0.25) == pytest.approx(math.log(4 / 3))
    assert pmwg.kl(1, 0.25) == pytest.approx(math.log(4))
    assert pmwg.kl(1, 1) == 0
    assert pmwg.kl(0.5, 1) == math.inf


@given(st.integers(0, 10**6), st.floats(0.2, 6), st.floats(0.2, 6), inner, inner)
def test_growth_never_lifts_the_entropy_above_the_potential(
    seed: int, sharp: float, sharper: float, weight: float, mu: float
) -> None:
    cells = 12
    data, public, arrivals = histogram(seed, cells, sharp), histogram(seed + 1, cells, 1.0), np.zeros(cells)
    arrivals[seed % cells] = 1.0  # the worst: all new rows in one cell
    public = 0.999 * public + 0.001 / cells
    phi = entropy(data, public)
    for new in (arrivals, histogram(seed + 2, cells, sharper)):
        grown = (1 - weight) * data + weight * new
        mixed = (1 - mu) * public + mu / cells
        assert entropy(grown, mixed) <= pmwg.growth_potential(phi, weight, cells, mu) + 1e-9


def test_growth_is_tight_where_nothing_overlaps() -> None:
    """Old rows in cells where y is all but exact, new ones in a cell that only the uniform part covers."""
    weight, mu, cells = 0.5, 0.1, 4
    public = np.array([1 - 1e-9, 1e-9 / 3, 1e-9 / 3, 1e-9 / 3])
    data, new = np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    mixed = (1 - mu) * public + mu / cells
    bound = pmwg.growth_potential(entropy(data, public), weight, cells, mu)
    assert 0.98 * bound < entropy((1 - weight) * data + weight * new, mixed) <= bound


@given(inner, st.floats(1e-3, 1))
def test_growth_in_one_step_adds_no_more_than_the_rate(weight: float, forgetting: float) -> None:
    rate = pmwg.growth_rate(forgetting)
    assert pmwg.kl(weight, forgetting * weight) <= rate * -math.log1p(-weight) + 1e-12


def test_growth_rate_is_reached_by_small_steps() -> None:
    assert pmwg.kl(1e-4, 1e-4 / 8) / 1e-4 == pytest.approx(pmwg.growth_rate(1 / 8), rel=1e-3)


@given(
    st.integers(0, 10**6), st.integers(1, 11), st.sampled_from([60, 1000, 10**5]), st.floats(0.01, 0.3), st.floats(0, 1)
)
def test_a_hard_query_takes_its_decrease_off_the_entropy(
    seed: int, matching: int, size: int, gap: float, stray: float
) -> None:
    """A counting query, wherever its noisy answer falls within its error: y's projection onto the target."""
    cells = 12
    counts = np.random.default_rng(seed).multinomial(size, histogram(seed, cells, 3.0))
    public = histogram(seed + 1, cells, 1.0)
    inside = np.arange(cells) < matching
    true = int(counts[inside].sum())
    if true > size * public[inside].sum():  # so that r(y) is too high
        inside, true = ~inside, size - true
    believed = float(public[inside].sum())
    estimate = round(size * believed)
    assume(estimate - true >= gap * size + 1)
    error = gap / 2
    answer = true / size + (2 * stray - 1) * error
    target = pmwg.hard_target(estimate / size, answer, error, gap, size)
    assert true / size - 1e-12 <= target <= believed - gap * (1 - 1e-9)
    moved = np.where(inside, public * target / believed, public * (1 - target) / (1 - believed))
    data = counts / size
    drop = entropy(data, public) - entropy(data, moved)
    assert drop >= pmwg.kl(target, believed) - 1e-9 >= pmwg.hard_decrease(gap) - 2e-9


# -- confidence --------------------------------------------------------------------------------------------------------


def test_all_failures_together_are_at_most_beta() -> None:
    """The weights telescope: the first k of β_j sum to β/2·(1 − 1/(1 + log(k+1))), below β/2 for ever."""
    beta, count = 0.05, 20_000
    for share, total in ((pmwg.query_beta, beta / 2), (pmwg.run_beta, beta / 4)):
        so_far = math.fsum(share(beta, index) for index in range(1, count + 1))
        assert so_far == pytest.approx(total * (1 - 1 / (1 + math.log(count + 1))), rel=1e-9)


@given(st.integers(1, 10**15), st.floats(1e-12, 0.5))
def test_tails_are_the_logarithms_of_the_shares(index: int, beta: float) -> None:
    assert math.exp(-pmwg.query_tail(beta, math.log(index))) == pytest.approx(
        2 * pmwg.query_beta(beta, index), rel=1e-9
    )
    assert math.exp(-pmwg.run_tail(beta, index)) == pytest.approx(pmwg.run_beta(beta, index), rel=1e-9)


@given(st.floats(0, 1e6), st.floats(1, 10), st.floats(1e-9, 0.9))
def test_a_tail_never_grows_faster_than_the_logarithm_of_the_number(
    log_queries: float, factor: float, beta: float
) -> None:
    assert pmwg.query_tail(beta, log_queries * factor) <= factor * pmwg.query_tail(beta, log_queries) * (1 + 1e-12)


# -- one run -----------------------------------------------------------------------------------------------------------

KINDS: tuple[BudgetKind, ...] = ("pure", "zcdp")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("size", "alpha", "beta", "run", "queries"),
    [
        (400, 0.5, 0.3, 1, 1),
        (3000, 0.3, 0.05, 4, 900),
        (10**6, 0.02, 1e-6, 77, 10**9),
        (10**9, 1e-3, 0.05, 10**6, 10**30),
    ],
)
def test_noise_strays_beyond_its_slack_with_no_more_than_its_share(
    kind: BudgetKind, size: int, alpha: float, beta: float, run: int, queries: int
) -> None:
    """By the exact tails of integer noise."""
    guard = pmwg.Guard(kind, alpha, pmwg.DEFAULT_SHARE[kind])
    tail1, tail2 = pmwg.run_tail(beta, run), pmwg.query_tail(beta, math.log(queries))
    scales = guard.scales(size, tail1, tail2)
    assert scales.answer is not None
    reach1 = scales.threshold * tail1 + 0.5
    assert laplace_tail(scales.threshold, math.floor(reach1) + 1) <= pmwg.run_beta(beta, run)
    for weight in (1, 7, 2**16):
        reach2 = weight * (scales.query * tail2 + 0.5)
        assert laplace_upper(weight * scales.query, math.floor(reach2) + 1) <= pmwg.query_beta(beta, queries)
        far = math.floor(guard.error * size * weight) + 1
        tail = laplace_tail if kind == "pure" else gaussian_tail
        assert tail(weight * scales.answer, far) <= pmwg.run_beta(beta, run)
    assert guard.gap >= 2 * guard.error


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(100, 10**9), st.floats(0.01, 1), st.floats(0.05, 0.45), st.floats(1, 50), st.floats(1, 500))
def test_a_run_costs_what_its_scales_say(
    kind: BudgetKind, size: int, alpha: float, share: float, tail1: float, tail2: float
) -> None:
    guard = pmwg.Guard(kind, alpha, share)
    cost = guard.cost(size, tail1, tail2)
    if cost == math.inf:
        with pytest.raises(GuaranteeError, match="rows"):
            guard.scales(size, tail1, tail2)
        return
    scales = guard.scales(size, tail1, tail2)
    assert scales.answer is not None
    assert guard.serves(scales, size, tail1, tail2)
    assert not guard.serves(scales, size, tail1, tail2 * (1 + 1e-9))
    run = run_cost(scales.threshold, scales.query)
    spent = run + 1 / scales.answer if kind == "pure" else run**2 / 2 + 1 / (2 * scales.answer**2)
    assert spent == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize(("alpha", "share"), [(0.5, 0.2), (0.4, 0.4), (0.6, 0.1)])
@pytest.mark.parametrize("weight", [1, 3])
def test_what_a_comparison_says_is_true_while_noise_stays_within_its_slack(
    alpha: float, share: float, weight: int
) -> None:
    """All counts, estimates between grid points, and noise at its furthest: statements (a) and (b)."""
    size, tail1, tail2 = 60, 1.0, 1.3
    guard = pmwg.Guard("pure", alpha, share)
    scales = guard.scales(size, tail1, tail2)
    furthest1 = math.floor(scales.threshold * tail1 + 0.5)
    furthest2 = math.floor(weight * (scales.query * tail2 + 0.5))
    bar = round(guard.threshold * size * weight)
    seen = set()
    for count, believed, eta, nu in product(
        range(size * weight + 1),
        (0.0, 0.2 + 0.49 / (size * weight), 0.5, 0.777),
        (-furthest1, furthest1),
        (-furthest2, furthest2),
    ):
        estimate = round(believed * size * weight)
        above = abs(count - estimate) + nu >= bar + weight * eta
        seen.add(above)
        if above:
            assert abs(count - estimate) >= (guard.gap * size + 1) * weight
        else:
            assert abs(count / (size * weight) - believed) <= alpha
    assert seen == {True, False}


def test_a_run_too_fine_for_whole_rows_is_refused_with_a_size_that_would_do() -> None:
    guard = pmwg.Guard("zcdp", 0.01, 0.25)
    with pytest.raises(GuaranteeError, match="at least 2,000 rows"):
        guard.scales(999, 5.0, 9.0)
    assert guard.scales(2000, 5.0, 9.0).query > 0


@pytest.mark.parametrize("kind", KINDS)
def test_runs_grow_cheaper_as_one_over_the_size(kind: BudgetKind) -> None:
    guard = pmwg.Guard(kind, 0.05, 0.2)
    ratio = guard.cost(10**8, 10, 40) / guard.cost(2 * 10**8, 10, 40)
    assert ratio == pytest.approx(2 if kind == "pure" else 4, rel=1e-4)


def test_renewals_reach_the_planned_number_of_queries_and_one_more_twice_as_many() -> None:
    asked = renewals = 0
    for doubled in range(6):
        planned = MOST_QUERIES << doubled
        while scaled_for(asked) < planned:
            asked, renewals = scaled_for(asked), renewals + 1  # all that the run was scaled for were asked
        assert scaled_for(asked) == scaled_for(planned - 1) == planned  # for more there is no run before they are due
        assert renewals <= RENEWALS + doubled
    assert renewals == RENEWALS - 1 + 5


# -- until spent -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_rest_of_a_budget_pays_for_that_many_runs(kind: BudgetKind) -> None:
    size, beta, queries, runs, remaining = 10**6, 0.05, 10**5, 3, 0.9
    guard = pmwg.Guard(kind, 0.05, pmwg.DEFAULT_SHARE[kind])
    left = pmwg.until_spent(size, guard, beta, remaining, 5.0, queries, runs)
    tail2 = pmwg.query_tail(beta, math.log(queries))

    def price(run: int) -> float:
        return guard.cost(size, pmwg.run_tail(beta, run), tail2)

    assert left.affordable > 10
    spent = math.fsum(price(runs + i) for i in range(1, left.affordable + 1))
    assert spent <= remaining < spent + 0.2 * remaining
    assert left.possible == math.floor(5.0 / (2 * guard.gap**2))
    assert left.suffices == (left.affordable >= left.possible)


def test_the_run_in_progress_is_paid_for() -> None:
    guard = pmwg.Guard("pure", 0.05, 1 / 6)
    assert pmwg.until_spent(10**6, guard, 0.05, 0, 0.0, 100, 1, in_run=True) == pmwg.UntilSpent(1, 0)
    assert pmwg.until_spent(10**6, guard, 0.05, 0, 0.0, 100, 1) == pmwg.UntilSpent(0, 0)


# -- bad parameters ----------------------------------------------------------------------------------------------------

UNKNOWN: Any = "renyi"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pmwg.kl(-0.1, 0.5), "a"),
        (lambda: pmwg.kl(0.1, math.nan), "b"),
        (lambda: pmwg.growth_potential(1.0, 1.5, 8, 0.5), "weight"),
        (lambda: pmwg.growth_rate(1.5), "forgetting"),
        (lambda: pmwg.query_beta(0.1, 0), "query"),
        (lambda: pmwg.run_beta(1.0, 1), "beta"),
        (lambda: pmwg.hard_target(0.5, 0.4, 0.1, 0.1, 0), "size"),
        (lambda: pmwg.Guard("pure", 0.1, 0.5), "share"),
        (lambda: pmwg.Guard("pure", -0.1, 0.2), "alpha"),
        (lambda: pmwg.Guard(UNKNOWN, 0.1, 0.2), "kind"),
        (lambda: pmwg.until_spent(100, pmwg.Guard("pure", 0.5, 0.2), 0.1, -1, 1.0, 10, 0), "remaining"),
    ],
)
def test_bad_parameters_are_refused_by_name(call: Any, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.parameter == name
