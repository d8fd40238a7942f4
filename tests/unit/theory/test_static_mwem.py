"""MWEM's plan: what it costs, what it promises, and that no other number of rounds would promise more."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.budget.cost import exponential, gaussian, laplace
from treering.budget.promise import Budget, BudgetKind
from treering.noise import Gaussian, Laplace
from treering.theory.static import MOST_ROUNDS, Rounds, mwem_plan

ONE = Fraction(1)


def cost(planned: Rounds, spread: Fraction, kind: BudgetKind) -> Fraction:
    selecting = exponential(spread, Fraction(planned.selection_scale))
    scale = Fraction(planned.noise.scale)
    measuring = laplace(spread, scale) if isinstance(planned.noise, Laplace) else gaussian(spread**2, scale)
    return planned.rounds * Budget(kind, ONE).amount(selecting + measuring)


@given(
    kind=st.sampled_from(["pure", "zcdp"]),
    total=st.fractions(Fraction(1, 1000), Fraction(50)),
    spread=st.fractions(Fraction(1, 100), Fraction(1)),
    queries=st.integers(1, 10**6),
    size=st.integers(1, 10**12),
    beta=st.floats(1e-12, 0.99),
)
@settings(deadline=None)
def test_a_plan_costs_the_budget_or_a_hair_less(
    kind: BudgetKind, total: Fraction, spread: Fraction, queries: int, size: int, beta: float
) -> None:
    planned = mwem_plan(10**4, queries, spread, size, Budget(kind, total), beta)
    assert (1 - 1e-9) * total < cost(planned, spread, kind) <= total
    assert 1 <= planned.rounds <= MOST_ROUNDS


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("size", [1000, 10**5, 10**7, 10**9])
def test_the_number_of_rounds_is_about_the_best(kind: BudgetKind, size: int) -> None:
    budget = Budget(kind, Fraction(1, 2))
    chosen = mwem_plan(10**6, 1000, ONE, size, budget, 0.05)
    others = [
        mwem_plan(10**6, 1000, ONE, size, budget, 0.05, rounds) for rounds in (*range(1, 60), 100, 300, 1000, 4096)
    ]
    assert chosen.alpha(10**6, size) <= 1.02 * min(each.alpha(10**6, size) for each in others)


def test_the_bound_is_the_theorems() -> None:
    """By hand: pure ε = 1, T = 10, k = 101, β = 0.1."""
    planned = mwem_plan(1000, 101, ONE, 10**6, Budget("pure", ONE), 0.1, rounds=10)
    assert isinstance(planned.noise, Laplace)
    share = 0.1 / 20
    xi = planned.selection_scale * math.log(100 / share)
    width = planned.noise.scale
    radius = width * (math.log(2 / share) - math.log1p(math.exp(-1 / width)))
    right = math.sqrt(math.log(1000) / 20) + (1.5 + xi + 2 * radius) / 10**6
    assert planned.alpha(1000, 10**6) == pytest.approx(right, rel=1e-8)
    assert 10 * (2 / planned.selection_scale + 1 / width) == pytest.approx(1)


def test_it_is_far_below_the_papers_bound() -> None:
    """Hardt, Ligett and McSherry: 2√(log N/T) + 10T·log k/(nε), at its best T, for a constant beta."""
    cells, queries, size = 10**6, 1000, 10**6
    published = min(
        2 * math.sqrt(math.log(cells) / rounds) + 10 * rounds * math.log(queries) / size for rounds in range(1, 5000)
    )
    ours = mwem_plan(cells, queries, ONE, size, Budget("pure", ONE), 0.05)
    assert ours.alpha(cells, size) < published / 1.5


def test_one_query_needs_no_selection() -> None:
    assert mwem_plan(100, 1, ONE, 1000, Budget("pure", ONE), 0.05).selection_error == 0


def test_the_sharpest_selection_is_booked() -> None:
    """The kernel's exponential mechanism is no sharper than at a scale of 1/1024 rows."""
    planned = mwem_plan(100, 50, ONE, 10**6, Budget("pure", Fraction(10**9)), 0.05)
    assert planned.selection_scale < 2**-11
    assert planned.selection_error >= 2**-10 * math.log(49 / planned.share)


def test_gaussian_noise_is_for_zcdp() -> None:
    assert isinstance(mwem_plan(100, 50, ONE, 1000, Budget("zcdp", ONE), 0.05).noise, Gaussian)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("size", {"size": 0}),
        ("queries", {"queries": 0}),
        ("cells", {"cells": 0}),
        ("beta", {"beta": 1.0}),
        ("beta", {"beta": math.nan}),
        ("rounds", {"rounds": 0}),
        ("rounds", {"rounds": 2.0}),
    ],
)
def test_bad_parameters_are_refused(name: str, options: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "cells": 100,
        "queries": 5,
        "spread": ONE,
        "size": 1000,
        "budget": Budget("pure", ONE),
        "beta": 0.05,
    }
    with pytest.raises(tr.ParameterError, match=name):
        mwem_plan(**{**given, **options})
