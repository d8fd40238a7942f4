"""The price of each operation, against its formula: ε and ρ, from scales and sensitivities."""

from __future__ import annotations

from fractions import Fraction

import pytest

import treering as tr
from treering.budget.cost import FREE, Cost
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query
from treering.domain.sums import Sums, sums_of
from treering.gate import RunRequest
from treering.noise import Gaussian, Laplace
from treering.trusted import pricing
from treering.trusted.kernel import reserving
from treering.trusted.operations.count import measuring
from treering.trusted.operations.histogram import tabulating
from treering.trusted.operations.run import refund, running
from treering.trusted.operations.select import selecting

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "b": tr.integers(0, 1)})
TENS = tr.Schema({"n": tr.integers(0, 10)})
ALL = Query.all(SCHEMA)
ONE = Query.where(SCHEMA, a=1)
QUARTER = Query.weighted(SCHEMA, [0.5, 0.25, 0.5], attributes=["a"], resolution=4)
THIRD = Query.weighted(SCHEMA, [1 / 3, 0, 1 / 3], attributes=["a"], resolution=3)
SPREADS = {ALL: Fraction(0), ONE: Fraction(1), QUARTER: Fraction(1, 4), THIRD: Fraction(1, 3)}
BATCHES = [[], [ALL], [ONE], [QUARTER], [THIRD], [ONE, ONE], [ONE, QUARTER], [QUARTER, THIRD, QUARTER, ALL, ONE]]


@pytest.mark.parametrize("queries", BATCHES, ids=len)
def test_answers_add_up(queries: list[Query]) -> None:
    """Σ r/s and Σ (r/s)²/2; Σ r²/(2σ²), and no ε, unless nothing is revealed."""
    ratios = [SPREADS[query] for query in queries]
    squares = sum((ratio**2 for ratio in ratios), Fraction(0))
    for _ in range(2):
        laplace = measuring(queries, Laplace(5.0))
        assert laplace == Cost(sum(ratios, Fraction(0)) / 5, squares / 50)
        gaussian = measuring(queries, Gaussian(3.0))
        assert gaussian == Cost(None if any(ratios) else Fraction(0), squares / 18)


def test_a_price_is_for_the_exact_scale() -> None:
    assert measuring([ONE], Laplace(0.1)).epsilon == 1 / Fraction(0.1) != 10
    assert measuring([ONE], Gaussian(0.1)).rho == 1 / (2 * Fraction(0.1) ** 2)


def test_a_histogram_costs_two_answers() -> None:
    assert tabulating(Laplace(5.0)) == Cost(Fraction(2, 5), Fraction(1, 25))
    assert tabulating(Gaussian(5.0)) == Cost(None, Fraction(1, 25))


@pytest.mark.parametrize("weight", [1, 3, -3])
def test_two_groups_move_by_the_weight_and_one_alone_costs_half(weight: int) -> None:
    for groups, share in ((1, Fraction(1, 2)), (2, Fraction(1)), (7, Fraction(1))):
        laplace, gaussian = (pricing.combining(groups, weight, noise) for noise in (Laplace(4.0), Gaussian(4.0)))
        assert laplace == Cost(share * 2 * abs(weight) / 4, share * weight**2 / 16)
        assert gaussian == Cost(None, share * weight**2 / 16)


@pytest.mark.parametrize("groups", [1, 2, 7])
@pytest.mark.parametrize("weight", [1, -3])
@pytest.mark.parametrize("counts", [False, True])
def test_sums_move_by_twice_their_reach_also_in_one_group(groups: int, weight: int, counts: bool) -> None:
    sums = sums_of(TENS, 0, counts=counts)
    moved = 2 * 10 * abs(weight)
    assert pricing.combining(groups, weight, Laplace(4.0), sums).epsilon == Fraction(moved * (2 if counts else 1), 4)
    assert pricing.combining(groups, weight, Gaussian(4.0), sums) == Cost(None, Fraction(moved**2, 32))


@pytest.mark.parametrize(
    ("kind", "noise", "sums", "each"),
    [
        ("pure", Laplace(4.0), None, Fraction(2, 4)),
        ("zcdp", Laplace(4.0), None, Fraction(1, 16)),
        ("zcdp", Gaussian(4.0), None, Fraction(1, 16)),
        ("zcdp", Gaussian(4.0), sums_of(TENS, 0, counts=True), Fraction(200, 16)),
    ],
)
def test_a_leaf_costs_its_room_times_a_weight_of_one(
    kind: BudgetKind, noise: Laplace | Gaussian, sums: Sums | None, each: Fraction
) -> None:
    found = pricing.leaf(2, 6, noise, Budget(kind, Fraction(100)), sums)
    assert found == (Cost(6 * each, (6 * each) ** 2 / 2) if kind == "pure" else Cost(None, 6 * each))


def test_the_exponential_mechanism_costs_by_the_query_that_moves_most() -> None:
    """ε = 2r/scale, and ε²/8."""
    for queries, most in (([ALL], 0), ([QUARTER], Fraction(1, 4)), ([THIRD, QUARTER, ALL], Fraction(1, 3)), ([ONE], 1)):
        epsilon = 2 * Fraction(most) / 5
        assert selecting(queries, 5.0) == Cost(epsilon, epsilon**2 / 8)
        assert selecting(queries[::-1], 5.0) == Cost(epsilon, epsilon**2 / 8)


def test_a_part_costs_its_total() -> None:
    assert reserving(Budget("pure", Fraction(3, 7))) == Cost(Fraction(3, 7), Fraction(9, 98))
    assert reserving(Budget("zcdp", Fraction(3, 7))) == Cost(None, Fraction(3, 7))


def test_a_run_costs_its_comparisons_and_its_answer_and_gives_back_what_it_cannot_release() -> None:
    pure, zcdp = Budget("pure", Fraction(100)), Budget("zcdp", Fraction(100))
    silent = RunRequest(10.0, 40.0)
    assert running(silent) == Cost(Fraction(3, 20), Fraction(9, 800))
    assert refund(silent, pure) == Fraction(2, 40)
    assert refund(silent, zcdp) == 0
    numeric = RunRequest(10.0, 40.0, Laplace(5.0))
    assert running(numeric) == Cost(Fraction(3, 20) + Fraction(1, 5), Fraction(9, 800) + Fraction(1, 50))
    assert refund(numeric, pure) == Fraction(2, 40) + Fraction(1, 5)
    assert refund(numeric, zcdp) == Fraction(1, 50)
    bell = RunRequest(10.0, 40.0, Gaussian(5.0))
    assert running(bell) == Cost(None, Fraction(9, 800) + Fraction(1, 50))
    assert refund(bell, zcdp) == Fraction(1, 50)


def test_what_reveals_nothing_is_free_under_either_promise() -> None:
    for noise in (Laplace(5.0), Gaussian(5.0)):
        assert measuring([ALL], noise) == measuring([ALL, ALL], noise) == FREE


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_cannot_be_have_no_price(scale: float) -> None:
    """Also where noise was made by hand, past its own check."""
    for noise in (Laplace(1.0), Gaussian(1.0)):
        object.__setattr__(noise, "scale", scale)
        with pytest.raises(tr.ParameterError, match="scale"):
            measuring([ONE], noise)
        with pytest.raises(tr.ParameterError, match="scale"):
            tabulating(noise)
    for name in ("threshold_scale", "query_scale"):
        request = RunRequest(1.0, 1.0)
        object.__setattr__(request, name, scale)
        with pytest.raises(tr.ParameterError, match=name):
            running(request)
    with pytest.raises(tr.ParameterError, match="scale"):
        selecting([ONE], scale)
