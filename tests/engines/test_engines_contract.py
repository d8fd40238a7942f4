"""What every engine does alike: the same rows give the same cells, and the same changes are refused."""

from __future__ import annotations

import traceback
from typing import Any

import pyarrow as pa
import pytest

from support.engines import (
    NASTY,
    ORDINARY,
    Stage,
    dated_rows,
    dated_schema,
    expected,
    generated_rows,
    histogram,
    lonely,
    nasty_rows,
    nasty_schema,
)
from treering.domain.attribute import categories, integers
from treering.domain.calendar import dates
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, SchemaError
from treering.trusted.engines.source import Source, Watermark

OPEN = nasty_schema(open_ended=True)
STRICT = nasty_schema(open_ended=False)
SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
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


def test_nasty_rows_land_in_the_cells_of_the_encoder(stage: Stage) -> None:
    rows = nasty_rows()
    stage.create(rows)
    increment = Source.of(stage.source, OPEN).increments(None)
    assert histogram(increment) == expected(rows, OPEN)
    assert (increment.rows, increment.dropped, increment.watermark.value) == (400, 0, 409)


def test_a_nasty_value_that_stands_alone_in_its_column_lands_in_the_cell_of_the_encoder(stage: Stage) -> None:
    """Statistics of files leave some values out, such as NaN: beside larger ones that goes unseen. (Parquet files have
    it in a row group of its own. Spark takes seconds for each table, and has those with NaN.)"""
    tables = lonely(NASTY, ORDINARY)
    for rows in tables[2:12:9] if stage.name == "spark" else tables:
        stage.create(rows)
        increment = Source.of(stage.source, OPEN).increments(None)
        assert histogram(increment) == expected(rows, OPEN), rows.slice(3).to_pylist()


def test_a_nasty_date_that_stands_alone_in_its_column_lands_in_the_cell_of_the_encoder(stage: Stage) -> None:
    if stage.name in ("csv", "spark"):
        pytest.skip("each table would take many seconds, and CSV files have no statistics")
    every, schema = dated_rows(), dated_schema()
    names = [name for name in every.column_names if name != "id"]
    values = {name: (every[name].type, every[name].to_pylist()[:29]) for name in names}
    tables = lonely(values, {name: every[name][7].as_py() for name in names})
    for rows in tables[:15]:
        stage.create(rows)
        assert histogram(Source.of(stage.source, schema).increments(None)) == expected(rows, schema)


def test_nasty_dates_and_decimals_land_in_the_cells_of_the_encoder(stage: Stage) -> None:
    """Time zones, leap days, the year 9999, corrupt texts, offsets, fractions of seconds: no row is refused."""
    rows, schema = dated_rows(), dated_schema()
    stage.create(rows)
    increment = Source.of(stage.source, schema).increments(None)
    assert histogram(increment) == expected(rows, schema)
    assert increment.rows == rows.num_rows


def test_instants_need_a_time_zone_in_the_schema(stage: Stage) -> None:
    if stage.name == "csv":
        return  # has no types: texts with an offset count as no valid dates
    stage.create(dated_rows(3))
    with pytest.raises(DataError, match="column 'instant' has timestamps with a time zone: the schema has to say"):
        Source.of(stage.source, Schema({"instant": dates("2013-01-01", "2013-12-31")}))


def test_nasty_rows_that_do_not_fit_are_refused_or_left_out(stage: Stage) -> None:
    rows = pa.concat_tables([nasty_rows(), fitting := _fitting_rows()])
    stage.create(rows)
    source = Source.of(stage.source, STRICT)
    with pytest.raises(DataError, match="column 'origin': [0-9]+ rows .*; nothing was taken in"):
        source.increments(None)
    increment = source.increments(None, on_invalid="drop")
    assert histogram(increment) == expected(rows, STRICT, drop=True)
    assert increment.rows >= fitting.num_rows
    assert increment.rows + increment.dropped == rows.num_rows == increment.watermark.rows
    assert increment.watermark.dropped == increment.dropped


def _fitting_rows() -> pa.Table:
    row = {"origin": "日本", "code": 7, "flag": True, "month": 12, "share": 900_000.0, "delay": 1440.0}
    listed = [{"id": 1000 + i, **row, "single": 0.7, "small": 7} for i in range(3)]
    return pa.Table.from_pylist(listed, schema=nasty_rows(1).schema)


def test_a_million_rows(stage: Stage) -> None:
    rows = generated_rows(1_000_000)
    schema = Schema({name: OPEN.attributes[name] for name in rows.column_names if name != "id"})
    stage.create(rows)
    increment = Source.of(stage.source, schema).increments(None)
    assert histogram(increment) == expected(rows, schema)
    assert increment.watermark.value == 999_999 * 3 - 17


def test_only_rows_past_the_watermark_are_taken(stage: Stage) -> None:
    stage.create(some_rows(5, 7))
    source = Source.of(stage.source, SCHEMA)
    first = source.increments(None)
    jfk, ewr = SCHEMA.cell({"origin": "JFK", "month": 3}), SCHEMA.cell({"origin": "EWR", "month": 3})
    assert histogram(first) == {jfk: 2}
    assert source.increments(first.watermark).rows == 0
    stage.add(some_rows(8, 1000, origin="EWR"))
    second = source.increments(first.watermark)
    assert histogram(second) == {ewr: 2}
    assert (second.watermark.value, second.watermark.rows) == (1000, 4)
    # A watermark that went through a ledger is as good, and so is a source made anew.
    kept = Watermark.from_dict(first.watermark.to_dict())
    assert histogram(Source.of(stage.source, SCHEMA).increments(kept)) == {ewr: 2}


def test_an_empty_table_may_grow(stage: Stage) -> None:
    stage.create(some_rows())
    source = Source.of(stage.source, SCHEMA)
    nothing = source.increments(None)
    assert (nothing.rows, nothing.watermark.value, nothing.watermark.rows) == (0, None, 0)
    stage.add(some_rows(-3, 0))
    assert source.increments(nothing.watermark).rows == 2


def test_rows_gone_from_below_the_watermark_are_refused(stage: Stage) -> None:
    stage.create(some_rows(1, 2, 3))
    source = Source.of(stage.source, SCHEMA)
    mark = source.increments(None).watermark
    stage.remove(2)
    with pytest.raises(EngineError, match="lost 1 of the 3 rows up to id = 3"):
        source.increments(mark)
    stage.add(some_rows(2))
    assert source.increments(mark).rows == 0
    stage.remove(3)
    stage.add(some_rows(0))
    with pytest.raises(EngineError, match="the row with id = 3, .*is gone"):
        source.increments(mark)


def test_rows_that_come_below_the_watermark_are_refused(stage: Stage) -> None:
    stage.create(some_rows(1, 3))
    source = Source.of(stage.source, SCHEMA)
    mark = source.increments(None).watermark
    stage.add(some_rows(2, 4))
    with pytest.raises(EngineError, match="gained 1 of the 2 rows up to id = 3"):
        source.increments(mark)


def test_a_column_that_changes_its_type_is_refused(stage: Stage) -> None:
    if stage.name == "csv":
        pytest.skip("a CSV file has no types: the schema gives them")
    stage.create(some_rows(1, 3))
    source = Source.of(stage.source, SCHEMA)
    mark = source.increments(None).watermark
    stage.retype()
    with pytest.raises(EngineError, match="'month'"):
        source.increments(mark)
    with pytest.raises(EngineError, match="another type than before: 'month'"):
        Source.of(stage.source, SCHEMA).increments(mark)


@pytest.mark.parametrize("orders", [(1, 1, 2), (1, 1, 900), (2**63 - 1, -(2**63), 5, 5)])
def test_order_values_that_repeat_are_refused(stage: Stage, orders: tuple[int, ...]) -> None:
    stage.create(some_rows(*orders))
    with pytest.raises(EngineError, match="order column 'id' repeats values"):
        Source.of(stage.source, SCHEMA).increments(None)


def test_rows_without_an_order_value_are_refused(stage: Stage) -> None:
    stage.create(some_rows(1, None, None))
    with pytest.raises(EngineError, match="2 rows without a value in the order column 'id'"):
        Source.of(stage.source, SCHEMA).increments(None)


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
    with pytest.raises(DataError, match="column 'month' has type !?int32, the schema wants str"):
        Source.of(stage.source, Schema({"month": categories("AA")}))
    with pytest.raises(DataError, match="order column 'extra' has type !?float64"):
        Source.of(stage.source, SCHEMA, "extra")


def test_no_error_carries_a_value(stage: Stage) -> None:
    stage.create(some_rows(1, origin=SECRET))
    with pytest.raises(DataError, match="column 'origin': 1 row with") as caught:
        Source.of(stage.source, SCHEMA).increments(None)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_the_same_table_is_known_by_one_name(stage: Stage) -> None:
    stage.create(some_rows(1))
    one, again = Source.of(stage.source, SCHEMA), Source.of(stage.source, SCHEMA)
    assert one.identity == again.identity
    address: Any = stage.source if isinstance(stage.source, str) else None
    assert one.address == address
