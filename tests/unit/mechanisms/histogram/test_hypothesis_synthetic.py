"""Synthetic rows: the right numbers of them, in values that encode to the cells they stand for."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from datetime import date

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from support.coded import coded
from treering.domain.attribute import ABOVE, BELOW, OTHER, Attribute, Value, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.numeric import numbers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.mechanisms.histogram import hypothesis as synthetic
from treering.mechanisms.histogram.hypothesis import Hypothesis, cells_at, rows_of, stand_in

SCHEMA = Schema(
    {
        "origin": categories("EWR", "OTHER", other=True, missing=True),
        "wheels": categories(0, 1, 3, -7, other=True),
        "late": categories(True, other=True, missing=True),
        "early": categories(False, True),
        "month": integers(1, 3, other=True, missing=True),
        "delay": bins([-1.5, 0, 15.25], other=True, missing=True),
        "day": dates("2013-12-30", "2014-01-02"),
    }
)


def counts(table: pa.Table, schema: Schema) -> npt.NDArray[np.int64]:
    cells, _ = coded(table, schema, drop=False)
    return np.bincount(cells, minlength=schema.cells)


def moved(schema: Schema, seed: int) -> Hypothesis:
    generator = np.random.default_rng(seed)
    return Hypothesis.warm(schema, generator.random(schema.cells) ** 4, 0.05)


def test_every_cell_comes_back() -> None:
    cells = np.arange(SCHEMA.cells)
    encoded, bad = coded(rows_of(SCHEMA, cells), SCHEMA, drop=False)
    assert bad == 0
    np.testing.assert_array_equal(encoded, cells)


def test_rows_are_in_the_schemas_own_values() -> None:
    table = rows_of(SCHEMA, np.array([0, SCHEMA.cells - 1]))
    assert table.column_names == list(SCHEMA.names)
    assert [str(field.type) for field in table.schema] == [
        *("string", "int64", "bool", "bool", "int64", "double"),
        *("date32[day]",) * (len(SCHEMA.names) - 6),
    ]
    first, last = table.to_pylist()
    assert first == {
        "origin": "EWR",
        "wheels": 0,
        "late": True,
        "early": False,
        "month": 1,
        "delay": -0.75,
        "day": date(2013, 12, 30),
    }
    assert last == {"origin": None, "wheels": 2, "late": None, "early": True, "month": None, "delay": None, "day": None}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (categories("a", "b", other=True), "OTHER"),
        (categories("OTHER", "OTHER_", other=True), "OTHER__"),
        (categories(5, 7, other=True), 0),
        (categories(0, other=True), 1),
        (categories("OTHER", other=True), "OTHER_"),
        (categories(0, 1, 2**63 - 1, other=True), 2),
        (categories(True, other=True), False),
        (categories(False, other=True), True),
        (categories(False, True, other=True), None),
    ],
)
def test_a_value_not_listed_stands_in_for_all_of_them(attribute: Attribute, value: Value) -> None:
    assert stand_in(attribute, OTHER) == value
    if value is not None:
        assert attribute.code(value) == attribute.other_code


@pytest.mark.parametrize(
    "attribute",
    [
        integers(2**53 - 3, 2**53, other=True),
        integers(-(2**53), 2 - 2**53, other=True),
        bins([0, 0.25], other=True),
        bins([1 - 2**53, 2**53 - 1], other=True),
        numbers(-5, 5, edges=[0, 1]),
        dates("0002-01-01", "9998-12-31", by="year"),
        dates("2013-01-01", "2013-02-01"),
    ],
)
def test_a_value_below_and_one_above_stand_in_for_the_others(attribute: Attribute) -> None:
    for cell in (BELOW, ABOVE):
        assert attribute.code(stand_in(attribute, cell)) == attribute.code(cell)


@given(st.integers(0, 2**32), st.integers(0, 5000))
@settings(max_examples=30, deadline=None)
def test_a_systematic_sample_has_the_expected_counts_rounded(seed: int, rows: int) -> None:
    hypothesis = moved(SCHEMA, seed)
    expected = rows * hypothesis.marginal(SCHEMA.names).reshape(-1)
    found = counts(hypothesis.sample(rows), SCHEMA)
    assert found.sum() == rows
    assert (np.abs(found - expected) < 1 + 1e-9).all()
    assert hypothesis.sample(rows).equals(hypothesis.sample(rows))


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    hypothesis = moved(SCHEMA, 1)
    whole = hypothesis.sample(10_000)
    monkeypatch.setattr(synthetic, "_SLICE", 7)
    assert hypothesis.sample(10_000).equals(whole)


def test_few_rows_of_many_cells_need_little_memory() -> None:
    """Beside a histogram that fills the memory there is no room for another."""
    vector = np.ones(2**23)
    places = (np.arange(10) + 0.5) / 10
    tracemalloc.start()
    found = cells_at(places, len(vector), vector, 1 / len(vector), 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.tolist() == (places * len(vector)).astype(int).tolist()
    assert peak < vector.nbytes / 2


def test_a_uniform_histogram_gives_each_cell_its_rows() -> None:
    assert counts(Hypothesis(SCHEMA).sample(3 * SCHEMA.cells), SCHEMA).tolist() == [3] * SCHEMA.cells


def test_growth_and_steps_show_in_the_sample() -> None:
    hypothesis = Hypothesis(SCHEMA)
    query = Query.where(SCHEMA, early=True)
    hypothesis.project(query, 0.9)
    hypothesis.grow(0.5)
    late = hypothesis.sample(1000)["early"].to_pylist()
    assert sum(late) == pytest.approx(700, abs=1)


def test_independent_draws_follow_the_histogram() -> None:
    """Chi-square at the level 1e-6; the uniform distribution in its place would be far outside."""
    schema = Schema({"a": integers(0, 4), "b": integers(0, 3)})
    hypothesis = moved(schema, 5)
    shares = hypothesis.marginal(schema.names).reshape(-1)
    found = counts(hypothesis.sample(100_000, np.random.default_rng(9)), schema)
    bound = chi_square_bound(schema.cells - 1, 5.0)
    assert chi_square(found, shares) < bound
    assert chi_square(found, np.full(schema.cells, 1 / schema.cells)) > 10 * bound
    # Far more spread than a systematic sample, whose counts are all within one of their expectation.
    assert np.abs(found - 100_000 * shares).max() > 10


def test_independent_draws_come_in_no_order() -> None:
    hypothesis, draws = moved(SCHEMA, 5), 2000
    table = hypothesis.sample(draws, np.random.default_rng(1))
    cells, _ = coded(table, SCHEMA, drop=False)
    assert abs(np.corrcoef(np.arange(draws), cells)[0, 1]) < 0.2
    assert hypothesis.sample(draws, np.random.default_rng(1)).equals(table)
    assert not hypothesis.sample(draws, np.random.default_rng(2)).equals(table)


def chi_square(found: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]) -> float:
    expected = found.sum() * shares
    return float(((found - expected) ** 2 / expected).sum())


def chi_square_bound(degrees: int, deviations: float) -> float:
    """Wilson and Hilferty's approximation of a far quantile."""
    return degrees * (1 - 2 / (9 * degrees) + deviations * math.sqrt(2 / (9 * degrees))) ** 3


def test_no_rows_are_a_table_too() -> None:
    for draw in (lambda h: h.sample(0), lambda h: h.sample(0, np.random.default_rng(1))):
        make: Callable[[Hypothesis], pa.Table] = draw
        table = make(moved(SCHEMA, 1))
        assert table.num_rows == 0
        assert table.column_names == list(SCHEMA.names)


@pytest.mark.parametrize("rows", [-1, 1.5, True, "7"])
def test_bad_numbers_of_rows_are_refused(rows: int) -> None:
    with pytest.raises(ParameterError, match="rows must be an integer of at least 0"):
        Hypothesis(SCHEMA).sample(rows)
