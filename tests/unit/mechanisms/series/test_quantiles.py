"""Quantiles in two steps: as narrow as the noise, paid for as planned, kept current; the second where it helps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from treering.answer import Estimate
from treering.domain.language.items import Item
from treering.domain.language.measures import Quantile, Request
from treering.domain.query import Query
from treering.mechanisms.series.quantiles import CELLS, coarse, finer

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south"),
        "cost": tr.numbers(0, 1000, step=0.01),
        "weight": tr.bins([0, 100, 200], other=True, missing=True),
        "age": tr.integers(0, 99),
    }
)
EVERYBODY = Query.all(SCHEMA)
COST, WEIGHT, AGE = (SCHEMA.index(name) for name in ("cost", "weight", "age"))


def table(rows: int, seed: int = 1) -> pa.Table:
    drawn = np.random.default_rng(seed)
    return pa.table(
        {
            "ward": drawn.choice(["north", "south"], rows),
            "cost": np.minimum(999.99, drawn.lognormal(4, 1, rows)).round(2),
            "weight": drawn.normal(80, 15, rows).clip(1, 199),
            "age": drawn.integers(0, 100, rows),
        }
    )


TABLE = table(100_000)


@pytest.fixture
def rings() -> tr.Rings:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(TABLE)
    return tr.Rings(db, epsilon=1.0, delta=1e-6)


def test_an_interval_is_as_narrow_as_the_noise_and_not_the_cell(rings: tr.Rings) -> None:
    found = rings.quantile("cost", 0.5)
    assert found.value is not None
    truth = float(np.quantile(TABLE["cost"].to_numpy(), 0.5))
    assert abs(found.value - truth) < 3
    assert found.high - found.low < 1000 / CELLS / 4
    weight = rings.quantile("weight", 0.25)  # bins have no step
    assert weight.high - weight.low < 1.5
    assert abs((weight.value or 0) - float(np.quantile(TABLE["weight"].to_numpy(), 0.25))) < 2


def test_no_more_is_paid_than_was_planned_and_asking_again_is_free(rings: tr.Rings) -> None:
    items = rings.items_of(Request.of(SCHEMA, [Quantile("cost", 0.5)], (), None))
    plan = rings.plan(items)
    assert not plan.exact
    found = rings.execute(plan).estimates()
    assert 0 < rings.spent <= plan.price
    assert len(rings.series) == 2
    again = rings.plan(items)
    assert again.exact
    assert again.price == 0
    assert again.known is not None
    assert again.known.estimates() == found


def test_rows_that_were_there_pay_nothing_while_the_interval_stays_within() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(TABLE)
    mine = tr.Rings(db, epsilon=1.0, delta=1e-6)
    mine.quantile("cost", 0.5)
    left, series = mine.left(1), len(mine.series)
    for seed in range(2, 6):
        db.append(table(5000, seed))
        mine.quantile("cost", 0.5)
    assert (mine.left(1), len(mine.series)) == (left, series)


def test_groups_have_one_grid_and_one_set_of_cuts(rings: tr.Rings) -> None:
    request = Request.of(SCHEMA, [Quantile("cost", 0.5), Quantile("cost", 0.25)], ["ward"])
    release = rings.release(request)
    assert len(rings.series) == 2
    for group in release.rows:
        for found in group:
            assert found.high - found.low < 1000 / CELLS / 2


def test_the_second_step_is_left_out_where_noise_is_wider_than_cells() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(table(300))
    rings = tr.Rings(db, epsilon=1.0, delta=1e-6)
    rings.quantile("cost", 0.5)
    assert len(rings.series) == 1


def test_columns_that_are_cut_finely_already_take_one_step(rings: tr.Rings) -> None:
    rings.quantile("age", 0.5)
    assert len(rings.series) == 1
    assert coarse([Item("quantile", EVERYBODY, AGE, 0.5)])[0].cuts == ()


def test_the_grid_lies_on_steps_and_has_the_declared_edges() -> None:
    schema = tr.Schema({"cost": tr.numbers(0, 10, step=0.25, edges=[0, 3.5, 10])})
    (item,) = coarse([Item("quantile", Query.all(schema), 0, 0.5)])
    assert item.cuts == tuple(place / 4 for place in range(41))
    assert len(item.cells()) == 42


def test_too_many_quantiles_are_read_off_declared_cells() -> None:
    items = [Item("quantile", EVERYBODY, COST, level / 2000) for level in range(1, 1100)]
    assert coarse(items) == items


@pytest.mark.parametrize(
    ("low", "high", "helps"),
    [(46.875, 62.5, True), (15.625, 93.75, True), (15.625, 500.0, False), (0.0, 1000.0, False), (-5.0, 15.0, False)],
)
def test_finer_cuts_are_made_for_intervals_of_few_cells(low: float, high: float, *, helps: bool) -> None:
    items = coarse([Item("quantile", EVERYBODY, COST, 0.5), Item("count", EVERYBODY)])
    (sharp, count) = finer(items, [Estimate(50.0, low, high), Estimate(1, 0, 2)], [])
    assert (sharp.cuts != items[0].cuts) == helps
    assert count.cuts == ()
    if helps:
        assert sharp.cuts[0] < low < high < sharp.cuts[-1]
        assert len(sharp.cuts) <= CELLS + 1


def test_a_wish_is_met_by_both_steps(rings: tr.Rings) -> None:
    before = rings.spent
    found = rings.release(Request.of(SCHEMA, [Quantile("cost", 0.5)], (), None), within=200)
    assert found.rows[0][0].value is not None
    assert rings.spent > before
