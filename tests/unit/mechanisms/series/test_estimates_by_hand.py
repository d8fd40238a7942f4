"""Counts, sums, averages and quantiles of readings that are given: every number by hand, at every boundary."""

from __future__ import annotations

import math
from datetime import date
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import transparent
from support.plans import estimates_of, noise_in
from treering.domain.language.items import Item
from treering.domain.query import Query
from treering.domain.sums import Grid
from treering.mechanisms.series.estimates import Cells, average, bounds, count, mean, plain, quantile, summed
from treering.mechanisms.series.view import Reading
from treering.theory.continual import Law
from treering.theory.quantiles import level_margins, ratio_end
from treering.theory.sums import fieller, quotient

SCHEMA = tr.Schema({"a": tr.categories("x", "y"), "n": tr.integers(0, 9), "b": tr.bins([0, 1, 2, 5, 10])})
GRID = Grid(-20.0, 80.0, 0.5, 200)  # The middle is 30, half of the range 50.
NEGATIVE = Grid(-80.0, 20.0, 0.5, 200)  # The middle is −30.


# -- counts and sums ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "found"),
    [
        (Reading(40.4, 2.4, 7.6, 3.0), (40, 38, 42, 8)),
        (Reading(40.6, 2.6, 7.4, 3.0), (41, 38, 43, 7)),
        (Reading(50.0, 0.0, 0.0, 0.0), (50, 50, 50, 0)),
        (Reading(50.0, 0.25, 0.25, 0.25), (50, 50, 50, 0)),
        (Reading(-7.0, 3.0, 9.0, 4.0), (0, 0, 3, 9)),
        (Reading(107.0, 3.0, 9.0, 4.0), (100, 97, 100, 9)),
    ],
)
def test_counts(reading: Reading, found: tuple[float, float, float, float]) -> None:
    assert count(reading, 100) == tr.Estimate(*found)


def test_a_number_as_it_was_read() -> None:
    assert plain(Reading(-4.0, 3.0, 9.0, 4.0)) == tr.Estimate(-4.0, -7.0, -1.0, 9.0)
    assert plain(Reading(-4.0, 3.0, 2.0, 4.0)) == tr.Estimate(-4.0, -7.0, -1.0, 3.0)


@pytest.mark.parametrize(("grid", "middle"), [(GRID, 30.0), (NEGATIVE, -30.0)])
def test_sums(grid: Grid, middle: float) -> None:
    total, rows = Reading(-100.0, 3.0, 9.0, 3.5), Reading(1000.0, 4.0, 12.0, 4.5)
    value = -50 * 100 + middle * 1000
    for normal, margin in ((True, math.hypot(150, 120)), (False, 50 * 3.5 + 30 * 4.5)):
        found = summed(grid, total, rows, normal, 2000)
        assert (found.value, found.low, found.high) == pytest.approx((value, value - margin, value + margin))
        assert found.error == pytest.approx(50 * 9 + 30 * 12)
        sure = summed(grid, total._replace(error=0.1), rows._replace(error=0.1), normal, 2000)
        assert sure.error == pytest.approx(margin)


@pytest.mark.parametrize("normal", [True, False])
def test_a_sum_keeps_to_what_the_schema_allows(normal: bool) -> None:
    fares = Grid.of(tr.numbers(0, 500, step=1))
    assert fares is not None
    low = summed(fares, Reading(-300.0, 50.0, 90.0, 60.0), Reading(100.0, 30.0, 40.0, 35.0), normal, 1000)
    assert (low.value, low.low) == (0.0, 0.0)
    assert 0 < low.high <= 1000 * 500
    high = summed(fares, Reading(3000.0, 50.0, 90.0, 60.0), Reading(3000.0, 30.0, 40.0, 35.0), normal, 1000)
    assert (high.value, high.high) == (500_000.0, 500_000.0)


# -- averages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [GRID, NEGATIVE])
@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("total", [-300.0, 0.0, 250.0])
def test_averages(grid: Grid, normal: bool, total: float) -> None:
    """The middle and half of the range times the quotient, with the interval of Fieller or that of all quotients."""
    middle = (grid.low + grid.high) / 2
    for far in (0.5, 20.0):
        top, rows = Reading(total, 30.0, far * 30.0, 33.0), Reading(1000.0, 20.0, far * 20.0, 23.0)
        low, high = fieller(total, 1000.0, 30.0, 20.0, 1.0) if normal else quotient(total, 1000.0, 33.0, 23.0, 1.0)
        found = mean(grid, top, rows, normal)
        value = middle + 50 * total / 1000
        assert (found.value, found.low, found.high) == pytest.approx((value, middle + 50 * low, middle + 50 * high))
        least, most = quotient(total, 1000.0, far * 30.0, far * 20.0, 1.0)
        worst = max(value - middle - 50 * min(low, least), middle + 50 * max(high, most) - value)
        assert found.error == pytest.approx(worst)


@pytest.mark.parametrize(("rows", "known"), [(4.0, False), (4.001, True), (0.0, False), (-5.0, False), (3.0, False)])
def test_there_is_an_average_where_there_are_rows(rows: float, known: bool) -> None:
    for normal in (True, False):
        reading = Reading(rows, 4.0, 5.0, 4.0)
        found = mean(GRID, Reading(1.0, 0.1, 0.2, 0.1), reading, normal)
        assert (found.value is not None) == known
        if not known:
            assert (found.low, found.high, found.error) == (-20.0, 80.0, None)


def test_exact_readings_have_an_exact_average_and_none_of_no_rows() -> None:
    exact = Reading(10.0, 0.0, 0.0, 0.0)
    assert mean(GRID, exact._replace(value=5.0), exact, normal=True) == tr.Estimate(55.0, 55.0, 55.0, 0.0)
    assert mean(GRID, exact._replace(value=0.0), exact._replace(value=0.0), normal=True).value is None


@pytest.mark.parametrize(("total", "value"), [(20.0, 80.0), (-20.0, -20.0)])
def test_an_average_lies_within_the_range(total: float, value: float) -> None:
    """Noise may carry the sum beyond what its rows can have."""
    found = mean(GRID, Reading(total, 1.0, 2.0, 1.5), Reading(10.0, 1.0, 2.0, 1.5), normal=True)
    assert (found.value, found.high if value > 0 else found.low) == (value, value)


# -- cells -------------------------------------------------------------------------------------------------------------


def test_the_bounds_of_dates_and_parts_of_them() -> None:
    months = tr.dates("2020-01-15", "2020-02-10", by="month")
    first, second, third = (float((date(2020, month, 1) - date(1970, 1, 1)).days) for month in (1, 2, 3))
    found = bounds(months)
    assert found == [(-math.inf, first - 1), (first, second - 1), (second, third - 1), (third, math.inf)]
    assert bounds(tr.dates(part="weekday")) == [(float(day), float(day)) for day in range(1, 8)]
    assert bounds(tr.integers(3, 5)) == [(3, 3), (4, 4), (5, 5)]
    assert bounds(tr.bins([0, 1, 3])) == [(0, 1), (1, 3)]


def _cells(counts: list[float], deviation: float, radius: float = 0.0) -> Cells:
    number = len(counts)
    below, above = radius * np.arange(1.0, number + 1), 2 * radius * np.arange(number, 0.0, -1)
    return Cells(np.array(counts), [1] * number, number + 2, Law(deviation**2), below, above)


def _quantile(attribute: Any, level: float, cells: Cells) -> tr.Estimate:
    """The definition, cell after cell."""
    limits, total = bounds(attribute), float(cells.counts.sum())
    levels = [float(cells.counts[: place + 1].sum()) - level * total for place in range(len(limits))]

    def span(margins: list[float]) -> tuple[float, float]:
        first = [place for place in range(len(levels) - 1) if levels[place] + margins[place] >= -1]
        last = [place for place in range(1, len(levels)) if levels[place - 1] - margins[place - 1] < 1]
        ends = (first[0] if first else len(levels) - 1), (last[-1] if last else 0)
        return limits[min(ends)][0], limits[max(ends)][1]

    low, high = span(level_margins(cells.law, cells.numbers, cells.groups, level))
    if total <= 0:
        return tr.Estimate(None, low, high)
    rising = [max(levels[: place + 1]) for place in range(len(levels))]
    cell = next((place for place, each in enumerate(rising) if each >= 0), len(rising) - 1)
    part = 0.5
    if cell and rising[cell] > rising[cell - 1]:
        part = min(1.0, max(0.0, -rising[cell - 1] / (rising[cell] - rising[cell - 1])))
    start, end = limits[cell]
    if math.isinf(start):
        value = end
    elif math.isinf(end):
        value = start
    else:
        value = start + part * (end - start)
    value = min(high, max(low, value))
    wide = span([(1 - level) * one + level * two for one, two in zip(cells.below, cells.above, strict=True)])
    error = max(value - min(low, wide[0]), max(high, wide[1]) - value)
    return tr.Estimate(value, low, high, error if math.isfinite(error) else None)


COUNTS: list[list[float]] = [
    [10.0, 20.0, 10.0, 5.0],
    [100.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 50.0],
    [30.0, -8.0, 25.0, 12.0],
    [-5.0, -5.0, 2.0, 3.0],
    [1.0, 1.0, 1.0, 1.0],
]


@pytest.mark.parametrize(("counts", "deviation"), list(product(COUNTS, [0.0, 1.0, 6.0])))
def test_quantiles(counts: list[float], deviation: float) -> None:
    for attribute, level, radius in product(
        (tr.bins([0, 10, 25, 30, 50]), tr.bins([0, 10, 30], other=True), tr.integers(2, 5)), (0.05, 0.5, 0.9), (0, 2)
    ):
        cells = _cells(counts, deviation, radius)
        found, wanted = quantile(bounds(attribute), level, cells), _quantile(attribute, level, cells)
        assert (found.low, found.high, found.error) == pytest.approx((wanted.low, wanted.high, wanted.error))
        assert found.value == pytest.approx(wanted.value)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("deviation", [0.0, 1.0, 30.0])
def test_averages_over_bins(other: bool, deviation: float) -> None:
    """Of the bins that have two ends: their ends and middles, weighed by their rows."""
    inner = [10.0, 20.0, 10.0]
    cells = _cells([7.0, *inner, 9.0] if other else inner, deviation)
    found = average(tr.bins([0, 10, 25, 60], other=other), cells)
    starts, ends = np.array([0.0, 10.0, 25.0]), np.array([10.0, 25.0, 60.0])
    low, high = (
        ratio_end(each, np.array(inner), [1, 1, 1], cells.groups, cells.law, upper=upper)
        for each, upper in ((starts, False), (ends, True))
    )
    value = float((starts + ends) / 2 @ np.array(inner)) / 40
    assert (found.value, found.low, found.high, found.error) == pytest.approx((value, max(0, low), min(60, high), None))


def test_an_average_over_bins_keeps_to_their_ends() -> None:
    attribute = tr.bins([0, 10, 20])
    assert average(attribute, _cells([-5.0, 30.0], 0.0)).high == 20.0
    upper = average(attribute, _cells([-5.0, 30.0], 0.5))
    assert upper.value is not None
    assert upper.low <= upper.value <= upper.high == 20.0
    lower = average(attribute, _cells([30.0, -5.0], 0.5))
    assert lower.value is not None
    assert 0.0 == lower.low <= lower.value <= lower.high
    assert average(attribute, _cells([3.0, -3.0], 0.5)) == tr.Estimate(None, 0.0, 20.0)
    # (−5·0 + 10·10)/5 = 20: even the least average that is possible is the greatest value.
    assert average(attribute, _cells([-5.0, 10.0], 0.0)) == tr.Estimate(None, 0.0, 20.0)


# -- items -------------------------------------------------------------------------------------------------------------


def test_items_without_noise_are_the_truth() -> None:
    """Each kind beside the others, in any order, some twice, some about nobody."""
    generator = np.random.default_rng(3)
    groups, numbers = generator.choice(["x", "y"], 4000), generator.integers(0, 10, 4000)
    db = tr.GrowingDatabase(SCHEMA)
    db.append(pa.table({"a": groups, "n": numbers, "b": generator.random(4000) * 9}))
    x, y = Query.where(SCHEMA, a="x"), Query.where(SCHEMA, a="y")
    items = [
        Item("sum", y, 1),
        Item("count", x),
        Item("quantile", x, 1, 0.3),
        Item("count", Query.none(SCHEMA)),
        Item("sum", Query.none(SCHEMA), 1),
        Item("mean", y, 2),
        Item("sum", x, 1),
        Item("count", x),
        Item("quantile", Query.none(SCHEMA), 1),
        Item("count", Query.all(SCHEMA)),
    ]
    with transparent():
        rings = tr.Rings(db, 5.0, 1e-6, 1e-9)
        quoted = rings.plan(items).price
        told = estimates_of(rings, items)
        assert rings.plan(items).price == 0 < quoted
    _check_items(items, told, groups, numbers)
    drawn = noise_in(rings, items).draw(told, 30)
    assert drawn.shape == (30, 10)
    assert not drawn[:, [3, 4, 8, 9]].any()
    np.testing.assert_array_equal(drawn[:, 1], drawn[:, 7])
    np.testing.assert_array_equal(drawn[:, 0] + drawn[:, 6] != 0, True)  # Sums are not centred, as counts are.
    np.testing.assert_array_equal(rings.drawing(items, noise_in(rings, items).sources).draw(told, 30), drawn)
    assert drawn[:, 2].any() == bool(told[2].margin)
    assert drawn[:, 5].any()


def test_noise_of_the_first_column_s_sums_is_drawn_as_that_of_any_other() -> None:
    """The same column in the first place and in the last: the same draws, if the same numbers were released."""
    number, group = tr.integers(0, 4), tr.categories("x", "y")
    drawn, released = [], list[tr.Estimate]()
    for schema, position in ((tr.Schema({"n": number, "a": group}), 0), (tr.Schema({"a": group, "n": number}), 1)):
        x = Query.where(schema, a="x")
        db = TestDatabase(schema, [cell % schema.cells for cell in range(5000)])
        rings = tr.Rings(db, 5.0, 1e-6)
        items = [Item("count", x), Item("sum", x, position), Item("quantile", x, position), Item("sum", ~x, position)]
        released = released or estimates_of(rings, items)
        estimates_of(rings, items)
        found = noise_in(rings, items).draw(released, 20)
        assert found[:, [1, 3]].all()
        sources = noise_in(rings, items).sources
        assert {source.position for source in sources} == {-1, position}
        drawn.append(found[:, [1, 3]])
    np.testing.assert_allclose(drawn[0], drawn[1])


def _check_items(items: list[Item], told: list[tr.Estimate], groups: Any, numbers: Any) -> None:
    units = (2 * numbers - 9) / 9
    assert len(told) == len(items)
    assert told[0].value == pytest.approx(units[groups == "y"].sum(), abs=1e-6)
    assert told[6].value == pytest.approx(units[groups == "x"].sum(), abs=1e-6)
    assert told[1] == told[7]
    assert [told[place].value for place in (1, 3, 4, 9)] == [(groups == "x").sum(), 0, 0, 4000]
    assert told[3] == tr.Estimate(0, 0, 0, 0)
    assert told[2].value == np.quantile(numbers[groups == "x"], 0.3, method="inverted_cdf")
    assert told[8].value is None
    assert told[5].value is not None
    assert told[5].low <= told[5].value <= told[5].high
