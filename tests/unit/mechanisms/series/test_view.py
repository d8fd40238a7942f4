"""Estimates of a period: sums over cells one by one, and margins and errors with all rounding errors."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from treering.answer import Answer
from treering.domain.query import Query
from treering.mechanisms.series.base import Window
from treering.mechanisms.series.view import Reading, Totals, View, answer, constant, share, wide_margin
from treering.theory.continual import Law, bound
from treering.theory.rings import margin, spectrum

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "one": tr.integers(7, 7), "b": tr.integers(0, 3)})
COUNTS = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 8.0])
LAW = Law(2.25)
WEIGHTED = Query.weighted(SCHEMA, np.linspace(0, 1, 12))
QUERIES = [
    Query.where(SCHEMA, a=1),
    Query.where(SCHEMA, b=[0, 3]),
    Query.where(SCHEMA, a=[0, 2], b=2),
    Query.where(SCHEMA, a=1) | Query.where(SCHEMA, b=1),
    WEIGHTED,
]


def summed(query: Query, numbers: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Cell after cell."""
    total = 0.0
    for cell, number in enumerate(numbers.tolist()):
        codes = np.unravel_index(cell, SCHEMA.shape)
        total += number * float(query.weights()[tuple(codes[each] for each in query.attributes)]) / query.scale
    return total


def made(start: int = 10, end: int = 70) -> View:
    return View(SCHEMA, Window(start, end, COUNTS, LAW), bound(LAW, SCHEMA.shape, 0.01))


def test_a_view_is_centred_on_the_rows_of_its_period() -> None:
    """52 rows were estimated, and there are 60: two thirds of a row more in each of twelve cells."""
    view = made()
    assert view.size == 60
    assert view.law == LAW
    centred = COUNTS + 8 / 12
    np.testing.assert_allclose(view.counts, centred)
    assert view.counts.sum() == pytest.approx(60)
    assert view.sums(QUERIES) == pytest.approx([summed(query, centred) for query in QUERIES])
    view.counts[0] = 99.0
    assert view.counts[0] == pytest.approx(3 + 2 / 3)


def test_readings_of_a_view() -> None:
    view, limits = made(), bound(LAW, SCHEMA.shape, 0.01)
    for query, told, radius in zip(QUERIES, view.readings(QUERIES), limits.radius(QUERIES).tolist(), strict=True):
        assert told.value == pytest.approx(view.sums([query])[0] / 60)
        widths = margin(LAW, spectrum(query)), radius, margin(LAW, spectrum(query), 0.975)
        assert told[1:] == pytest.approx([width * (1 + 2.0**-20) / 60 + 2.0**-30 for width in widths], rel=1e-12)
        assert told.margin < told.wide < told.error


def test_radii_of_constants_are_zero() -> None:
    view = made()
    found = view.radii([Query.all(SCHEMA), QUERIES[0], Query.none(SCHEMA), QUERIES[4]])
    expected = bound(LAW, SCHEMA.shape, 0.01).radius([QUERIES[0], QUERIES[4]]) * (1 + 2.0**-20)
    assert found.tolist() == pytest.approx([0.0, expected[0], 0.0, expected[1]])
    assert view.radii([Query.all(SCHEMA)]).tolist() == [0.0]
    assert view.radii([]).tolist() == []


def test_answers_of_a_view() -> None:
    view = made()
    queries = [QUERIES[0], Query.all(SCHEMA), QUERIES[1]]
    first, everything, second = view.answers(queries)
    assert [first, second] == [answer(view.readings([query])[0], 60) for query in (QUERIES[0], QUERIES[1])]
    assert everything == Answer(1.0, 0.0, 60, "measured")


def test_an_answer_is_a_share() -> None:
    assert answer(Reading(0.3, 0.1, 0.2, 0.15), 50) == Answer(0.3, 0.2, 50, "measured", 0.1)
    assert answer(Reading(-0.3, 0.1, 0.2, 0.15), 50) == Answer(0.0, 0.2, 50, "measured", 0.1)
    assert answer(Reading(1.3, 2.0, 3.0, 2.5), 50) == Answer(1.0, 1.0, 50, "measured", 1.0)
    half = Query.weighted(SCHEMA, np.full(12, 0.5))
    assert constant(half, 50) == Answer(0.5, 0.0, 50, "measured", 0.0)
    assert constant(Query.none(SCHEMA), 50) == Answer(0.0, 0.0, 50, "measured", 0.0)


def test_shares_are_rounded_up() -> None:
    assert share(3.0, 60) == 3.0 * (1 + 2.0**-20) / 60 + 2.0**-30
    assert share(0.0, 60) == 2.0**-30
    assert made().share(3.0) == share(3.0, 60)
    assert wide_margin(LAW, ((0.5, 2),)) == margin(LAW, ((0.5, 2),), 0.975)
    assert Reading(1.0, 2.0, 3.0, 4.0).times(3.0) == (3.0, 6.0, 9.0, 12.0)


def test_totals_are_not_centred() -> None:
    totals, counting = Totals(SCHEMA, COUNTS, LAW), QUERIES[:3]
    told = totals.readings(counting, [5.0, 6.0, 7.0])
    for query, each, groups, error in zip(counting, told, (4, 6, 2), (5.0, 6.0, 7.0), strict=True):
        assert each.value == pytest.approx(summed(query, COUNTS))
        plain = ((1.0, groups),)
        expected = margin(LAW, plain), error, margin(LAW, plain, 0.975)
        assert each[1:] == pytest.approx([width * (1 + 2.0**-20) for width in expected], rel=1e-12)
