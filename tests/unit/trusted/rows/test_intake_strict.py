"""Only a strict attribute refuses a row for its value."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import treering as tr
from support.coded import taken
from support.schemas import attributes
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.calendar import Dated

NAN = float("nan")
NUMBERS: list[Any] = [None, NAN, float("inf"), -float("inf"), -0.0, 0.5, 1e300, -(2.0**60), 2.0**53]
TEXTS: list[Any] = [None, "", "NULL", "nobody listed this", "\0", "日本", "x" * 10_000]
MOMENTS: list[Any] = [None, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(2012, 2, 29)]
WHOLE: list[Any] = [None, -(2**63), 2**63 - 1, 2**53 + 1, 0]


def nasty(attribute: Attribute) -> pa.Array:
    """Values of the type that the attribute's column has, nasty ones."""
    if isinstance(attribute, Dated):
        return pa.array(MOMENTS, pa.timestamp("us"))
    if isinstance(attribute, Categories):
        kind = type(attribute.values[0])
        known: dict[type, tuple[list[Any], pa.DataType]] = {
            str: (TEXTS, pa.string()),
            bool: ([None, True, False], pa.bool_()),
            int: (WHOLE, pa.int64()),
        }
        values, arrow = known[kind]
        return pa.array(values, arrow)
    assert isinstance(attribute, Integers | Bins)
    return pa.array(NUMBERS, pa.float64(), from_pandas=False)


def refused(attribute: Attribute, values: pa.Array) -> bool:
    """Whether a batch of these values is refused, as a table and as dicts."""
    schema = tr.Schema({"x": attribute})
    found = []
    for frame in (pa.table({"x": values}), [{"x": each} for each in values.to_pylist()]):
        try:
            taken(frame, schema)
        except tr.DataError:
            found.append(True)
        else:
            found.append(False)
    assert found[0] == found[1]
    return found[0]


@given(attributes())
def test_some_value_is_refused_just_where_an_attribute_is_strict(attribute: Attribute) -> None:
    complete = isinstance(attribute, Categories) and {*attribute.values} == {True, False} and attribute.missing
    assert refused(attribute, nasty(attribute)) == (attribute.strict and not complete)


@given(attributes(), st.booleans())
def test_an_attribute_that_is_not_strict_has_a_cell_for_every_value(attribute: Attribute, whole: bool) -> None:
    if attribute.strict:
        return
    rows, _ = taken(pa.table({"x": nasty(attribute)}), tr.Schema({"x": attribute}), drop=whole)
    assert rows.num_rows == len(nasty(attribute))


@pytest.mark.parametrize(
    "attribute",
    [
        tr.categories("a", "b", strict=False),
        tr.categories(1, 2, strict=False),
        tr.categories(True, strict=False),
        tr.integers(1, 12, strict=False),
        tr.bins([0, 1], strict=False),
        tr.numbers(0, 1),
        tr.dates("2013-01-01", "2013-12-31"),
        tr.dates(part="hour"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_attribute_with_all_its_cells_takes_in_whatever_comes(attribute: Attribute) -> None:
    assert not attribute.strict
    assert not refused(attribute, nasty(attribute))


@pytest.mark.parametrize("values", [[2], [None], ["x", "a"]])
def test_one_value_refuses_its_whole_batch_and_nothing_private_is_said(values: list[Any]) -> None:
    kind = type(next((each for each in values if each is not None), 1))
    attribute = tr.categories("a", strict=True) if kind is str else tr.integers(0, 1, strict=True)
    db = tr.GrowingDatabase(tr.Schema({"x": attribute}))
    good = [{"x": "a" if kind is str else 1}]
    with pytest.raises(tr.DataError, match="row 1, column 'x'.*nothing of the batch was taken") as caught:
        db.append([*good, *({"x": each} for each in values), *good])
    assert db.size == 0
    assert "'x': the value is" in str(caught.value)


def test_a_date_is_never_refused() -> None:
    assert not refused(tr.dates(date(2013, 1, 1), date(2013, 1, 2)), pa.array(["", "31/12/2013", None], pa.string()))
