from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering.errors import ParameterError
from treering.params import at_least, exact, exact_scale, probability, root_at_least, share_of, whole

ABSURD: list[Any] = [
    0,
    0.0,
    -0.0,
    -1,
    -0.5,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    sys.float_info.min / 2,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal(0),
    Fraction(0),
    Fraction(-1, 3),
    True,
    False,
    None,
    "1",
    1j,
    10**400,
    -(10**400),
    Fraction(10**400),
    Decimal("1e400"),
]


@pytest.mark.parametrize("value", ABSURD, ids=repr)
@pytest.mark.parametrize("reader", [exact, exact_scale, share_of, probability])
def test_absurd_numbers_are_refused_by_name(reader: Any, value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^budget must be") as caught:
        reader(value, "budget")
    assert caught.value.parameter == "budget"


def test_a_number_is_what_its_decimal_text_says() -> None:
    assert exact(0.1, "x") == Fraction(1, 10)
    assert exact(1e-9, "x") == Fraction(1, 10**9)
    assert exact(Decimal("0.3"), "x") == 3 * exact(0.1, "x")
    assert exact(Fraction(1, 3), "x") == Fraction(1, 3)
    assert exact(7, "x") == 7


def test_a_scale_is_the_float_the_sampler_gets() -> None:
    assert exact_scale(0.1, "x") == Fraction(0.1) != Fraction(1, 10)


@pytest.mark.parametrize("vanishing", [Fraction(1, 10**400), Fraction(1, 10**310)])
def test_a_scale_that_vanishes_as_a_float_is_refused(vanishing: Any) -> None:
    with pytest.raises(ParameterError, match=r"^scale must be"):
        exact_scale(vanishing, "scale")


def test_shares_and_probabilities_end_at_one() -> None:
    assert share_of(1, "share") == 1
    with pytest.raises(ParameterError, match="share must be at most 1"):
        share_of(1.0000000000000002, "share")
    assert probability(math.nextafter(1, 0), "beta") < 1
    with pytest.raises(ParameterError, match="beta must be below 1"):
        probability(1.0, "beta")


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_at_least_is_the_smallest_float_not_below(value: Fraction) -> None:
    rounded = at_least(value)
    assert Fraction(rounded) >= value > Fraction(math.nextafter(rounded, 0))


@given(st.floats(min_value=sys.float_info.min, allow_infinity=False))
def test_every_normal_float_is_taken(value: float) -> None:
    assert float(exact(value, "x")) == value
    assert exact_scale(value, "x") == Fraction(value)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, Fraction(1)])
def test_whole_refuses_all_but_integers_of_the_least_size(value: Any) -> None:
    with pytest.raises(ParameterError, match="count must be an integer of at least 1"):
        whole(value, "count")
    assert whole(1, "count") == 1
    assert whole(0, "count", least=0) == 0


@given(st.integers(1, 2**200), st.integers(1, 2**200), st.integers(-1500, 1500))
def test_a_root_is_the_smallest_float_whose_square_is_not_below(above: int, below: int, exponent: int) -> None:
    value = Fraction(above, below) * Fraction(2) ** exponent
    root = root_at_least(value)
    assert Fraction(root) ** 2 >= value
    assert Fraction(math.nextafter(root, 0.0)) ** 2 < value
