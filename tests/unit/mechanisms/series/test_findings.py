"""What is measured for requests and items, query by query; and the cells that quantiles are read off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import transparent
from support.plans import carry_out, estimates_of, request_price
from treering.domain.groups import Groups
from treering.domain.language.items import Item
from treering.domain.language.measures import Count, Mean, Measure, Quantile, Request, Sum
from treering.domain.query import Query
from treering.mechanisms.series.policy import Needs, Steps, needs_of
from treering.mechanisms.series.ring import Opened

SCHEMA = tr.Schema(
    {
        "k": tr.integers(1, 2, other=True, missing=True),
        "a": tr.categories("x", "y"),
        "b": tr.bins([0, 1, 5]),
        "n": tr.integers(0, 3),
        "one": tr.integers(7, 7),
    }
)
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
EVERYONE, NOBODY = Query.all(SCHEMA), Query.none(SCHEMA)


def parsed(*texts: str) -> list[Query]:
    return [tr.parse(text, SCHEMA) for text in texts]


X, Y = parsed("a = 'x'", "a = 'y'")


@pytest.fixture(autouse=True)
def _no_noise() -> Iterator[None]:
    with transparent():
        yield


def made(delta: float = 1e-6, epsilon: float = 5.0) -> tuple[TestDatabase, tr.Rings]:
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(40 * SCHEMA.cells)])
    return db, tr.Rings(db, epsilon, delta, 1e-9)


# -- items -------------------------------------------------------------------------------------------------------------


@KINDS
def test_items_ask_for_what_is_not_public_and_for_each_once(delta: float) -> None:
    """Everyone's number is public, and everyone's sum is not; nobody has neither."""
    items = [
        *(Item("count", Y), Item("count", EVERYONE), Item("sum", X, 3), Item("sum", NOBODY, 0), Item("count", X)),
        *(Item("sum", EVERYONE, 0), Item("sum", Y, 3), Item("count", Y), Item("sum", X, 3), Item("count", NOBODY)),
        *(Item("quantile", X, 3), Item("mean", Y, 2), Item("quantile", X, 3, 0.9), Item("quantile", NOBODY, 3)),
    ]
    cells = [tuple(X & query for query in parsed(*(f"n = {value}" for value in range(4))))]
    cells.append(tuple(Y & query for query in parsed("b < 1", "b >= 1")))
    assert needs_of(items, pure=not delta) == Needs([Y, X], {3: [X, Y], 0: [EVERYONE]}, cells)
    assert needs_of([Item("count", EVERYONE), Item("quantile", NOBODY, 3)], pure=not delta) == Needs([], {}, [])


@KINDS
def test_items_are_told_as_requests_are(delta: float) -> None:
    """Sums in rows at the bound: half of the range is 3/2, its middle 3/2."""
    _, rings = made(delta)
    items = [Item("quantile", X, 3, 0.9), Item("mean", X, 2), Item("count", X), Item("sum", X, 3)]
    tall, average, number, total = estimates_of(rings, items)
    request = Request.of(SCHEMA, [Quantile("n", 0.9), Mean("b"), Count(), Sum("n")], (), X)
    ((tall_again, average_again, number_again, total_again),) = rings.release(request).rows
    assert (tall, average) == (tall_again, average_again)
    assert tall.value == 3
    assert number == number_again
    assert number.value == rings._gate.size / 2
    assert total_again.value == pytest.approx(1.5 * (total.value or 0) + 1.5 * (number.value or 0))


def test_weights_are_added_up_and_counts_are_whole_numbers() -> None:
    db, rings = made()
    db.append_cells([0])
    weighted = Query.weighted(SCHEMA, np.linspace(0.1, 0.73, SCHEMA.cells))
    count, total = estimates_of(rings, [Item("count", X), Item("count", weighted)])
    assert count.value == int(count.value or 0) == db.rows.cells.count(X)
    assert total.value == pytest.approx(db.rows.cells.count(weighted) / weighted.scale)
    assert total.value != round(total.value or 0)
    assert total.value is not None
    assert total.value - total.low == pytest.approx(total.margin)


# -- requests ----------------------------------------------------------------------------------------------------------


@KINDS
def test_a_request_asks_for_counts_sums_and_cells_of_each_group(delta: float) -> None:
    """Sums are over the rows that have a number, and under a pure promise these rows are counted as well. Measures of
    one column share what they need."""
    measures: list[Measure] = [
        Count(),
        Count("k"),
        Sum("k"),
        Mean("k"),
        Quantile("k", 0.5),
        Quantile("k", 0.9),
        Mean("b"),
        Sum("n"),
    ]
    request = Request.of(SCHEMA, measures, ["a"])
    known, listed = parsed("k IS NOT NULL", "k IN (1, 2)")
    below, above = (Query.conjunction(SCHEMA, {0: np.arange(5) == code}) for code in (2, 3))
    codes = [below, *parsed("k = 1", "k = 2"), above]
    counts: list[Query] = []
    sums: dict[int, list[Query]] = {0: [], 3: []}
    cells: list[tuple[Query, ...]] = []
    for group in (X, Y):
        of_k, of_b = [group & each for each in codes], [group & each for each in parsed("b < 1", "b >= 1")]
        counts += [group, group & known] if delta else [group, group & known, group & listed]
        sums[0].append(group & listed)
        sums[3].append(group)
        cells += [tuple(of_k), tuple(of_b)]
    assert needs_of(request.items(), pure=not delta) == Needs(counts, sums, cells)


@KINDS
def test_a_request_about_nobody_or_everybody_asks_for_little(delta: float) -> None:
    _, rings = made(delta)
    measures: list[Measure] = [Count(), Sum("n"), Quantile("n", 0.5)]
    nobody = Request.of(SCHEMA, measures, (), NOBODY)
    assert needs_of(nobody.items(), pure=not delta) == Needs([], {}, [])
    everyone = Request.of(SCHEMA, measures)
    cells = tuple(parsed(*(f"n = {value}" for value in range(4))))
    assert needs_of(everyone.items(), pure=not delta) == Needs([], {3: [EVERYONE]}, [cells])
    assert request_price(rings, nobody) == 0
    assert [each.value for each in rings.release(nobody).rows[0]] == [0, 0, None]


# -- cells -------------------------------------------------------------------------------------------------------------


def _told(rings: tr.Rings, cells: Sequence[Query]) -> int:
    """Which series tells the cells; and that it does so by the definitions, cell after cell."""
    found = rings._findings([], None)._cells(cells)
    (ring,) = [each for each in rings._shelf.rings if each.view(0).law == found.law and each.covers(cells[0])]
    view, reduced = ring.view(0), [ring.reduced(query) for query in cells]
    assert found.counts.tolist() == pytest.approx([rings._gate.size / len(cells)] * len(cells))
    assert found.numbers == [ring.series.groups.number // len(cells)] * len(cells)
    assert found.groups == ring.series.groups.number
    for place in range(len(cells)):
        assert found.below[place] == view.radii([reduce(or_, reduced[: place + 1])])[0]
        rest = reduced[place + 1 :]
        assert found.above[place] == (view.radii([reduce(or_, rest)])[0] if rest else 0)
    return ring.number


@KINDS
def test_cells_are_told_by_the_sharpest_series_that_is_current(delta: float) -> None:
    db, rings = made(delta)
    cells = parsed(*(f"n = {value}" for value in range(4)))
    finer = [each & group for each in cells for group in (X, Y)]
    carry_out(rings, rings._policy.steps(Needs([], {}, [tuple(finer)]), 500.0, None))
    assert _told(rings, cells) == 0
    carry_out(rings, rings._policy.steps(Needs([], {}, [tuple(cells)]), 300.0, None))
    assert _told(rings, cells) == 1
    db.append_cells(list(range(SCHEMA.cells)))
    rings._shelf._advance(rings._shelf.rings[0])
    assert _told(rings, cells) == 0
    rings._shelf._advance(rings._shelf.rings[1])
    assert _told(rings, cells) == 1
    assert (_told(rings, finer), len(rings._shelf.rings)) == (0, 2)
    opened = Opened(2, Groups.pair(cells[0]), rings._policy._least_left / 2, (cells[0],))
    # A third one is sharper about the first cell, and does not know the others.
    carry_out(rings, Steps([], [rings._shelf.made(opened)]))
    assert rings._shelf.rings[2].covers(cells[0])
    assert (_told(rings, cells), len(rings._shelf.rings)) == (1, 3)


def test_a_column_of_one_value_has_one_cell() -> None:
    _, rings = made()
    (told,) = estimates_of(rings, [Item("quantile", X, 4)])
    assert (told.value, told.low, told.high) == (7, 7, 7)


def test_cells_that_are_public_need_no_series() -> None:
    _, rings = made()
    found = rings._findings([], None)._cells([EVERYONE, NOBODY])
    assert found.counts.tolist() == [rings._gate.size, 0]
    assert (found.numbers, found.groups, found.law.variance, found.law.parts) == ([0, 0], 1, 0, ())
    assert not found.below.any()
    assert not found.above.any()
