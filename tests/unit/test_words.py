"""Numbers in sentences."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from treering.errors import BudgetExceeded
from treering.words import counted, readable


def test_one_is_not_many() -> None:
    assert [counted(number, "row") for number in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [counted(number, "query", "queries") for number in (1, 1000)] == ["1 query", "1,000 queries"]


@given(st.floats(1e-6, 1e12), st.integers(1, 8))
def test_a_readable_number_has_no_exponent_and_is_near(value: float, digits: int) -> None:
    text = readable(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.6 * 10.0 ** (1 - digits), abs=0.5)
    assert readable(-value, digits) == f"-{text}"


def test_what_has_no_digits_is_shown_too() -> None:
    assert [readable(value) for value in (0.0, math.inf, 1e-9, 410.0, 41_000.0)] == [
        "0",
        "inf",
        "1e-09",
        "410",
        "41,000",
    ]


def test_a_refusal_tells_what_is_left_from_what_is_wanted_however_near() -> None:
    near = Fraction(1, 10) + Fraction(1, 10**7)
    told = str(BudgetExceeded("rho", spent=Fraction(9, 10), requested=near, total=Fraction(1), remedy="wait"))
    assert told.endswith("it needs rho 0.1000001, and 0.1 is left of 1; wait")
