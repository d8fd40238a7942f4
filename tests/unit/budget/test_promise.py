from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering.budget.convert import epsilon_of, rho_of
from treering.budget.cost import gaussian, laplace
from treering.budget.promise import Budget, Promise
from treering.errors import ParameterError


def test_units_and_amounts() -> None:
    pure, zcdp = Budget("pure", Fraction(1)), Budget("zcdp", Fraction(1))
    assert (pure.unit, zcdp.unit) == ("epsilon", "rho")
    assert pure.amount(laplace(1, 10)) == Fraction(1, 10)
    assert zcdp.amount(laplace(1, 10)) == Fraction(1, 200)
    assert zcdp.amount(gaussian(2, 10)) == Fraction(1, 100)


def test_gaussian_noise_in_a_pure_budget_is_refused_with_the_remedy() -> None:
    with pytest.raises(ParameterError, match="delta > 0"):
        Budget("pure", Fraction(1)).amount(gaussian(1, 10))


@pytest.mark.parametrize("total", [0, -1, math.nan, math.inf, True, "1", None, 5e-324])
def test_a_budget_needs_a_positive_total(total: Any) -> None:
    with pytest.raises(ParameterError, match=r"^total must be"):
        Budget("pure", total)


def test_a_budget_has_one_of_two_kinds() -> None:
    kind: Any = "renyi"
    with pytest.raises(ParameterError, match="'pure' or 'zcdp'"):
        Budget(kind, Fraction(1))


def test_decimal_shares_are_exact() -> None:
    whole = Budget("zcdp", Fraction(1, 3))
    assert whole.share(0.1).total == Fraction(1, 30)
    parts = whole.split([0.1, 0.2, 0.7])
    assert sum(part.total for part in parts) == whole.total
    assert {part.kind for part in parts} == {"zcdp"}


def test_shares_beyond_the_whole_are_refused() -> None:
    with pytest.raises(ParameterError, match="sum to at most 1"):
        Budget("pure", Fraction(1)).split([0.5, 0.5, 1e-12])
    with pytest.raises(ParameterError, match="fraction must be at most 1"):
        Budget("pure", Fraction(1)).share(1.5)


@given(st.lists(st.fractions(min_value=Fraction(1, 100), max_value=1), min_size=1, max_size=8))
def test_a_split_never_spends_more_than_the_whole(weights: list[Fraction]) -> None:
    whole = Budget("pure", Fraction(7, 5))
    parts = whole.split([weight / sum(weights) for weight in weights])
    assert sum(part.total for part in parts) == whole.total


def test_a_pure_promise_is_divided_by_the_rows_of_a_person() -> None:
    assert Promise(0.3).budget == Budget("pure", Fraction(3, 10))
    assert Promise(0.3, 0, 3).budget == Budget("pure", Fraction(1, 10))


def test_a_zcdp_promise_is_divided_by_their_square() -> None:
    assert Promise(1.0, 1e-9).budget == Budget("zcdp", rho_of(1.0, 1e-9))
    assert Promise(1.0, 1e-9, 3).budget.total == rho_of(1.0, 1e-9) / 9


@given(st.floats(0.01, 20), st.floats(1e-30, 0.5), st.integers(1, 1000))
def test_group_privacy_gives_the_promise_back(epsilon: float, delta: float, rows: int) -> None:
    per_row = Promise(epsilon, delta, rows).budget.total
    assert epsilon_of(per_row * rows**2, delta) <= epsilon
    assert Promise(epsilon, rows_per_person=rows).budget.total * rows == Fraction(repr(epsilon))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0,), "epsilon"),
        ((math.nan,), "epsilon"),
        ((math.inf,), "epsilon"),
        ((-1.0,), "epsilon"),
        (("1",), "epsilon"),
        ((1.0, -1e-9), "delta"),
        ((1.0, 1.0), "delta"),
        ((1.0, math.nan), "delta"),
        ((1.0, 5e-324), "delta"),
        ((1.0, False), "delta"),
        ((1.0, None), "delta"),
        ((1.0, 0.0, 0), "rows_per_person"),
        ((1.0, 0.0, -2), "rows_per_person"),
        ((1.0, 0.0, 1.0), "rows_per_person"),
        ((1.0, 0.0, True), "rows_per_person"),
    ],
)
def test_impossible_promises_name_the_parameter(arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Promise(*arguments)
    assert caught.value.parameter == name
