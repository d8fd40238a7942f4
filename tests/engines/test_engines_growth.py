"""Tables that grow in every engine: what a refresh takes in, what is counted later, and which changes are refused."""

from __future__ import annotations

import traceback
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.engines import Stage, cells, dated_rows, histogram, nasty_rows, nasty_schema, taken
from treering.domain.attribute import categories, integers
from treering.domain.calendar import dates
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, SchemaError
from treering.trusted.engines.source import Source
from treering.trusted.engines.watermark import Watermark
from treering.trusted.rows.tally import Grouping

SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
JFK, EWR = (SCHEMA.cell({"origin": origin, "month": 3}) for origin in ("JFK", "EWR"))
SECRET = "s3cr3t"


def some_rows(*orders: int | None, origin: str = "JFK") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(orders, pa.int64()),
            "origin": pa.array([origin] * len(orders), pa.string()),
            "extra": pa.array([1.5] * len(orders), pa.float64()),
            "unused": pa.array([None] * len(orders), pa.string()),
            "month": pa.array([3] * len(orders), pa.int32()),
        }
    )


# -- what a refresh takes in -------------------------------------------------------------------------------------------


def test_only_rows_past_the_watermark_are_taken(stage: Stage) -> None:
    stage.create(some_rows(5, 7))
    source = Source.of(stage.source, SCHEMA)
    first = source.increment(None)
    assert (first.rows, first.dropped, first.watermark.value, first.watermark.rows) == (2, 0, 7, 2)
    assert histogram(source) == {JFK: 2}
    assert source.increment(first.watermark).rows == 0
    stage.add(some_rows(8, 1000, origin="EWR"))
    second = source.increment(first.watermark)
    assert (second.rows, second.watermark.value, second.watermark.rows) == (2, 1000, 4)
    # A watermark that went through a ledger is as good, and so is a source made anew.
    kept = Watermark.from_dict(first.watermark.to_dict())
    assert histogram(Source.of(stage.source, SCHEMA), kept) == {EWR: 2}


def test_an_empty_table_may_grow(stage: Stage) -> None:
    stage.create(some_rows())
    source = Source.of(stage.source, SCHEMA)
    nothing = source.increment(None)
    assert (nothing.rows, nothing.watermark.value, nothing.watermark.rows) == (0, None, 0)
    stage.add(some_rows(-3, 0))
    assert histogram(source, nothing.watermark) == {JFK: 2}


def test_nasty_rows_that_do_not_fit_are_refused_and_counted_by_column(stage: Stage) -> None:
    stage.create(nasty_rows())
    source = Source.of(stage.source, nasty_schema(open_ended=False))
    with pytest.raises(DataError, match="column 'origin': [0-9]+ rows .*; nothing was taken in"):
        source.increment(None)
    found = source.increment(None, on_invalid="drop")
    assert found.rows + found.dropped == 400 == found.watermark.rows
    assert found.watermark.dropped == found.dropped > 0


def test_instants_need_a_time_zone_in_the_schema(stage: Stage) -> None:
    if stage.name == "csv":
        return  # has no types: texts with an offset count as no valid dates
    stage.create(dated_rows(3))
    with pytest.raises(DataError, match="column 'instant' has timestamps with a time zone: the schema has to say"):
        Source.of(stage.source, Schema({"instant": dates("2013-01-01", "2013-12-31")}))


# -- what is counted later ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refreshes", [3, 40])
def test_the_rows_of_every_refresh_are_told_apart_by_one_statement(stage: Stage, refreshes: int) -> None:
    if refreshes > 3 and stage.name in ("spark", "postgres"):
        pytest.skip("each refresh would take long; the next test has their statement")
    stage.create(some_rows(-5, -4))
    database = tr.GrowingDatabase.from_table(stage.source, SCHEMA)
    edges = [0, 2]
    for number in range(refreshes):
        origin = "EWR" if number % 3 else "JFK"
        if new := range(100 * number, 100 * number + number % 4):
            stage.add(some_rows(*new, origin=origin))
        edges.append(database.refresh())
    edges = sorted(set(edges))
    leaf, _, rows = database._rows.tally(Groups.marginal(SCHEMA, ["origin"]), edges)
    assert np.bincount(leaf, rows).tolist() == np.diff(edges).tolist()
    parts = [database._rows.tally(Groups.marginal(SCHEMA, ["origin"]), pair) for pair in pairwise(edges)]
    assert [len(part[1]) for part in parts] == [1] * len(parts)
    assert rows.tolist() == [int(part[2][0]) for part in parts]


def test_many_intervals_in_one_statement(stage: Stage) -> None:
    """More than are written into a CASE, where an engine has a better way."""
    stage.create(some_rows(*range(-50, 50)))
    source = Source.of(stage.source, SCHEMA)
    bounds = [None, *range(-49, 49, 3), 49]
    lines = source.count(Grouping(SCHEMA, Groups.marginal(SCHEMA, ["month"]), None), bounds, fitting=False)
    numbers = dict(zip(lines.leaf.tolist(), lines.rows.tolist(), strict=True))
    assert numbers == {0: 2, **dict.fromkeys(range(1, 33), 3), 33: 2}


def test_an_interval_ends_where_a_refresh_did(stage: Stage) -> None:
    stage.create(some_rows(5, 7))
    rows = taken(Source.of(stage.source, SCHEMA))
    with pytest.raises(EngineError, match="within rows that were taken in together"):
        rows.tally(Groups.marginal(SCHEMA, ["origin"]), (0, 1))


def test_rows_that_were_left_out_stay_out(stage: Stage) -> None:
    """Also those of a refresh that took in nothing else."""
    stage.create(pa.concat_tables([some_rows(1, 2), some_rows(3, origin="LGA")]))
    with pytest.warns(tr.DroppedRows):
        database = tr.GrowingDatabase.from_table(stage.source, SCHEMA, on_invalid="drop")
    stage.add(some_rows(4, 5, origin="LGA"))
    with pytest.warns(tr.DroppedRows):
        database.refresh("drop")
    stage.add(some_rows(6, origin="EWR"))
    assert (database.refresh(), database.dropped) == (3, 3)
    leaf, place, number = database._rows.tally(Groups.marginal(SCHEMA, ["month"]), (0, 2, 3))
    assert (leaf.tolist(), place.tolist(), number.tolist()) == ([0, 1], [2, 2], [2, 1])
    assert cells(database._rows) == {JFK: 2, EWR: 1}


# -- changes that are refused ------------------------------------------------------------------------------------------


def test_rows_gone_from_below_the_watermark_are_refused(stage: Stage) -> None:
    stage.create(some_rows(1, 2, 3))
    source = Source.of(stage.source, SCHEMA)
    mark = source.increment(None).watermark
    stage.remove(2)
    with pytest.raises(EngineError, match="lost 1 of the 3 rows up to id = 3"):
        source.increment(mark)
    stage.add(some_rows(2))
    assert source.increment(mark).rows == 0
    stage.remove(3)
    stage.add(some_rows(0))
    with pytest.raises(EngineError, match="the row with id = 3, .*is gone"):
        source.increment(mark)


def test_rows_that_come_below_the_watermark_are_refused(stage: Stage) -> None:
    stage.create(some_rows(1, 3))
    source = Source.of(stage.source, SCHEMA)
    mark = source.increment(None).watermark
    stage.add(some_rows(2, 4))
    with pytest.raises(EngineError, match="gained 1 of the 2 rows up to id = 3"):
        source.increment(mark)


def test_a_question_sees_that_rows_were_deleted_or_came_late(stage: Stage) -> None:
    """In just the interval where they did, although another has as many more."""
    stage.create(some_rows(1, 2, 3))
    database = tr.GrowingDatabase.from_table(stage.source, SCHEMA)
    stage.add(some_rows(10, 11))
    assert database.refresh() == 5
    groups = Groups.marginal(SCHEMA, ["origin"])
    stage.remove(2)
    with pytest.raises(EngineError, match="has 2 rows where 3 were taken in.* nothing was answered"):
        database._rows.tally(groups, (0, 3, 5))
    assert database._rows.tally(groups, (3, 5))[2].tolist() == [2]
    stage.add(some_rows(7))
    with pytest.raises(EngineError, match="has 2 rows where 3 were taken in"):
        database._rows.tally(groups, (0, 3, 5))
    with pytest.raises(EngineError, match="has 3 rows where 2 were taken in"):
        database._rows.tally(groups, (3, 5))
    assert database._rows.tally(groups, (0, 5))[2].tolist() == [5]


def test_rows_that_no_longer_fit_are_seen_where_some_were_left_out(stage: Stage) -> None:
    if stage.name in ("csv", "parquet", "spark"):
        return  # Files are not changed in place.
    stage.create(pa.concat_tables([some_rows(1, 2), some_rows(3, origin="LGA")]))
    with pytest.warns(tr.DroppedRows):
        database = tr.GrowingDatabase.from_table(stage.source, SCHEMA, on_invalid="drop")
    stage.remove(2)
    stage.add(some_rows(2, origin="BOS"))
    with pytest.raises(EngineError, match="has 1 rows where 2 were taken in"):
        database._rows.tally(Groups.marginal(SCHEMA, ["month"]), (0, 2))


def test_a_column_that_changes_its_type_is_refused(stage: Stage) -> None:
    if stage.name == "csv":
        pytest.skip("a CSV file has no types: the schema gives them")
    stage.create(some_rows(1, 3))
    source = Source.of(stage.source, SCHEMA)
    rows, mark = taken(source), source.increment(None).watermark
    stage.retype()
    with pytest.raises(EngineError, match="another type than before: 'month'"):
        source.increment(mark)
    with pytest.raises(EngineError, match="another type than before: 'month'"):
        Source.of(stage.source, SCHEMA).increment(mark)
    with pytest.raises(EngineError, match="another type than before: 'month'"):
        rows.tally(Groups.marginal(SCHEMA, ["origin"]), (0, 2))


@pytest.mark.parametrize("orders", [(1, 1, 2), (1, 1, 900), (2**63 - 1, -(2**63), 5, 5)])
def test_order_values_that_repeat_are_refused(stage: Stage, orders: tuple[int, ...]) -> None:
    stage.create(some_rows(*orders))
    with pytest.raises(EngineError, match="order column 'id' repeats values"):
        Source.of(stage.source, SCHEMA).increment(None)


def test_the_least_and_the_greatest_order_value(stage: Stage) -> None:
    stage.create(some_rows(-(2**63), 0))
    database = tr.GrowingDatabase.from_table(stage.source, SCHEMA)
    stage.add(some_rows(2**63 - 2, 2**63 - 1))
    assert database.refresh() == 4
    leaf, _, number = database._rows.tally(Groups.marginal(SCHEMA, ["origin"]), (0, 2, 4))
    assert (leaf.tolist(), number.tolist()) == ([0, 1], [2, 2])


def test_rows_without_an_order_value_are_refused(stage: Stage) -> None:
    stage.create(some_rows(1, None, None))
    with pytest.raises(EngineError, match="2 rows without a value in the order column 'id'"):
        Source.of(stage.source, SCHEMA).increment(None)
    stage.create(some_rows(1))
    source = Source.of(stage.source, SCHEMA)
    mark = source.increment(None).watermark
    stage.add(some_rows(2, None))
    with pytest.raises(EngineError, match="1 row without a value in the order column 'id'"):
        source.increment(mark)


def test_a_table_that_cannot_hold_the_schema_is_refused(stage: Stage) -> None:
    stage.create(some_rows(1))
    with pytest.raises(DataError, match="no column 'carrier'"):
        Source.of(stage.source, Schema({"carrier": categories("AA")}))
    with pytest.raises(DataError, match="no column 'key'"):
        Source.of(stage.source, SCHEMA, "key")
    with pytest.raises(SchemaError, match="at most 4,096 categories"):
        Source.of(stage.source, Schema({"origin": categories(*map(str, range(5000)))}))
    if stage.name == "csv":
        return
    with pytest.raises(DataError, match="column 'month' has type (INTEGER|int4|int), the schema wants str"):
        Source.of(stage.source, Schema({"month": categories("AA")}))
    with pytest.raises(DataError, match="order column 'extra' has type (DOUBLE|float8|double)"):
        Source.of(stage.source, SCHEMA, "extra")


def test_no_error_carries_a_value(stage: Stage) -> None:
    stage.create(some_rows(1, origin=SECRET))
    with pytest.raises(DataError, match="column 'origin': 1 row with") as caught:
        Source.of(stage.source, SCHEMA).increment(None)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_the_same_table_is_known_by_one_name(stage: Stage) -> None:
    stage.create(some_rows(1))
    one, again = Source.of(stage.source, SCHEMA), Source.of(stage.source, SCHEMA)
    assert one.identity == again.identity
    address: Any = stage.source if isinstance(stage.source, str) else None
    assert one.address == address
