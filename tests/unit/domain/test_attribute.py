"""Attributes: codes, values, and what they refuse."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.schemas import attributes, values
from treering.domain.attribute import (
    ABOVE,
    BELOW,
    MAX_VALUES,
    OTHER,
    Attribute,
    Value,
    bins,
    categories,
    integers,
    plain_number,
)
from treering.errors import SchemaError

ORIGIN = categories("EWR", "JFK", "LGA", other=True, missing=True)
DELAY = bins([-1440, 0, 15, 60, 1440], missing=True)


@given(attributes())
def test_code_and_value_are_inverse(attribute: Attribute) -> None:
    assert [attribute.code(attribute.value(code)) for code in range(attribute.size)] == list(range(attribute.size))


@given(attributes().flatmap(lambda attribute: st.tuples(st.just(attribute), values(attribute))))
def test_every_value_that_a_row_may_hold_has_a_code(pair: tuple[Attribute, Value]) -> None:
    attribute, value = pair
    assert 0 <= attribute.code(value) < attribute.size


@given(attributes())
def test_attributes_can_be_pickled(attribute: Attribute) -> None:
    assert pickle.loads(pickle.dumps(attribute)) == attribute


def test_codes_run_over_regular_values_then_other_then_missing() -> None:
    assert [ORIGIN.code(value) for value in ("EWR", "JFK", "LGA", OTHER, None)] == [0, 1, 2, 3, 4]
    assert (ORIGIN.regular, ORIGIN.size, ORIGIN.other_code, ORIGIN.missing_code) == (3, 5, 3, 4)
    assert (DELAY.other_code, DELAY.missing_code) == (None, 4)
    assert ORIGIN.code("SFO") == 3
    assert repr(OTHER) == "OTHER"


def test_categories_tell_types_apart() -> None:
    assert categories(0, 1, other=True).code(True) == 2
    assert categories(False, True, other=True).code(1) == 2
    assert categories("1", other=True).code(1) == 1


def test_integers_have_a_cell_below_and_one_above() -> None:
    month = integers(1, 12, other=True, missing=True)
    assert month.code(3.0) == 2
    assert [month.code(value) for value in (0, -math.inf, BELOW)] == [12] * 3
    assert [month.code(value) for value in (13, math.inf, 10**400, ABOVE)] == [13] * 4
    assert [month.code(value) for value in (3.5, "3", True, None)] == [14] * 4  # on neither side
    assert month.line == (12, *range(12), 13)
    with pytest.raises(SchemaError, match="OTHER is not among"):
        month.code(OTHER)


def test_what_is_on_neither_side_needs_both_cells() -> None:
    with pytest.raises(SchemaError, match="3.5 is not among"):
        integers(1, 12, other=True).code(3.5)
    with pytest.raises(SchemaError, match="3.5 is not among"):
        integers(1, 12, missing=True).code(3.5)


def test_the_last_edge_belongs_to_what_lies_above_if_that_has_a_cell() -> None:
    price = bins([0, 100, 5000], other=True)
    assert [price.code(value) for value in (-1, 0, 99.9, 100, 4999, 5000, 1e300)] == [2, 0, 0, 1, 1, 3, 3]
    assert [price.label(code) for code in range(price.size)] == ["[0, 100)", "[100, 5000)", "< 0", ">= 5000"]
    assert [bins([0, 100, 5000]).label(code) for code in range(2)] == ["[0, 100)", "[100, 5000]"]


def test_an_attribute_may_name_its_column() -> None:
    assert integers(1, 2, column="month").to_dict() == {"kind": "integers", "low": 1, "high": 2, "column": "month"}
    with pytest.raises(SchemaError, match="column is the name"):
        integers(1, 2, column="")


@pytest.mark.parametrize(
    ("value", "code"),
    [(-1440, 0), (-0.5, 0), (0, 1), (14.999, 1), (15, 2), (60, 3), (1440, 3), (math.nan, 4), (None, 4)],
)
def test_bins_are_closed_below_and_the_last_one_above(value: Value, code: int) -> None:
    assert DELAY.code(value) == code


@pytest.mark.parametrize("value", [-1440.5, 1441, math.inf, "15", True, OTHER])
def test_a_value_without_a_cell_is_refused(value: Value) -> None:
    with pytest.raises(SchemaError, match="is not among the numbers -1440 to 1440"):
        DELAY.code(value)


def test_a_missing_value_without_a_cell_is_refused() -> None:
    with pytest.raises(SchemaError, match="None is not among the integers 1 to 12"):
        integers(1, 12).code(None)


@pytest.mark.parametrize(
    ("attribute", "value", "code"),
    [
        (integers(1, 12), np.int64(3), 2),
        (categories("a", "b"), np.str_("b"), 1),
        (categories(True, False), np.bool_(False), 1),
        (DELAY, np.float32(math.nan), 4),
    ],
)
def test_numpy_values_are_values(attribute: Attribute, value: Any, code: int) -> None:
    assert attribute.code(value) == code


def test_minus_zero_is_zero() -> None:
    assert bins([-0.0, 1]) == bins([0, 1])
    assert str(bins([-0.0, 1]).to_dict()) == str(bins([0, 1]).to_dict())


@pytest.mark.parametrize("code", [-1, 5])
def test_a_code_outside_is_refused(code: int) -> None:
    with pytest.raises(SchemaError, match=r"outside 0\.\.4"):
        ORIGIN.value(code)


@pytest.mark.parametrize(
    ("make", "arguments", "options", "problem"),
    [
        (categories, (), {}, "at least one value"),
        (categories, ("a", 1), {}, "one type"),
        (categories, (1, True), {}, "one type"),
        (categories, (1.5,), {}, "one type"),
        (categories, (None,), {}, "one type"),
        (categories, ("a", "b", "a"), {}, "each value once"),
        (categories, ("\ud800",), {}, "UTF-8"),
        (categories, (2**63,), {}, "64 bits"),
        (categories, ("a",), {"other": 1}, "True or False"),
        (integers, (1.0, 3), {}, "two integers"),
        (integers, (True, 3), {}, "two integers"),
        (integers, (3, 1), {}, "low must not exceed high"),
        (integers, (2**53, 2**53 + 1), {}, "2\\^53"),
        (integers, (1, MAX_VALUES + 1), {}, "at most 1,048,576 values, not 1,048,577"),
        (integers, (1, MAX_VALUES), {"missing": True}, "at most 1,048,576 values"),
        (integers, (1, 3), {"missing": None}, "True or False"),
        (bins, ([1],), {}, "at least two edges"),
        (bins, ([0, 1],), {"strict": 1}, "strict is True or False"),
        (integers, (0, 1), {"strict": True, "missing": True}, "leave other and missing out"),
        (bins, ([],), {}, "at least two edges"),
        (bins, ("12",), {}, "numbers as edges"),
        (bins, ([0, True],), {}, "numbers as edges"),
        (bins, ([0, math.nan],), {}, "finite"),
        (bins, ([0, math.inf],), {}, "finite"),
        (bins, ([0, 10**400],), {}, "finite"),
        (bins, ([0, 2.0**53],), {}, "2\\^53"),
        (bins, ([0, 0],), {}, "strictly increasing"),
        (bins, ([0, -0.0, 1],), {}, "strictly increasing"),
        (bins, ([1, 0],), {}, "strictly increasing"),
    ],
)
def test_what_cannot_be_is_refused(
    make: Callable[..., Attribute], arguments: tuple[Any, ...], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        make(*arguments, **options)


def test_an_attribute_may_have_all_the_values_allowed() -> None:
    assert integers(1, MAX_VALUES - 3, other=True, missing=True).size == MAX_VALUES


@pytest.mark.parametrize(
    ("number", "text"), [(15.0, "15"), (-1440.0, "-1440"), (0.1, "0.1"), (1e-7, "1e-07"), (2.0**52, "4503599627370496")]
)
def test_plain_numbers(number: float, text: str) -> None:
    assert plain_number(number) == text


def test_descriptions_name_the_values() -> None:
    assert categories(*range(10)).describe() == "the categories 0, 1, 2, 3, 4, 5, 6, 7, …"
    assert bins([0.5, 1234567]).describe() == "the numbers 0.5 to 1234567"
