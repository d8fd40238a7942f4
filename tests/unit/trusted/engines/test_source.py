"""Watermarks at their smallest: tables with no row, with one, and with rows that did not fit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.engines import histogram, taken
from treering.domain.attribute import categories, integers
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, ParameterError, SchemaError
from treering.trusted.engines import source as module
from treering.trusted.engines.live import LiveTable
from treering.trusted.engines.postgresql import server_of
from treering.trusted.engines.source import Source
from treering.trusted.engines.statements import distinct
from treering.trusted.engines.watermark import Counts, Increment, Watermark

SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
COLUMNS = (("id", "BIGINT"), ("origin", "VARCHAR"), ("month", "BIGINT"))
NONE = Watermark(None, 0, 0, COLUMNS)
ONE = Watermark(7, 1, 0, COLUMNS)


def counts(past: int = 0, first: int = 0, last: int = 0, below: int = 0, top: int | None = None, **more: Any) -> Counts:
    return Counts(more.get("unplaced", 0), below, top, past, first, last, more.get("unfit", {}))


# -- a table as it grows from nothing ----------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Any:
    made = ibis.duckdb.connect()
    made.raw_sql("CREATE TABLE rows (id BIGINT, origin VARCHAR, month BIGINT)")
    yield made
    made.disconnect()


@pytest.mark.parametrize("order", [-5, 0, 1, 2**40])
def test_a_table_grows_from_nothing_row_by_row(connection: Any, order: int) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    empty = source.increment(None)
    assert (empty.rows, empty.dropped) == (0, 0)
    assert (empty.watermark.value, empty.watermark.rows, empty.watermark.dropped) == (None, 0, 0)
    assert source.increment(empty.watermark).watermark == empty.watermark
    connection.raw_sql(f"INSERT INTO rows VALUES ({order}, 'JFK', 3)")
    for after in (None, empty.watermark, Watermark.from_dict(empty.watermark.to_dict())):
        first = source.increment(after)
        assert (histogram(source, after), first.rows) == ({14: 1}, 1)
        assert (first.watermark.value, first.watermark.rows) == (order, 1)
    again = source.increment(first.watermark)
    assert (again.rows, again.watermark) == (0, first.watermark)
    connection.raw_sql(f"INSERT INTO rows VALUES ({order + 1}, 'EWR', 1), ({order + 3}, 'EWR', 1)")
    second = source.increment(first.watermark)
    assert (histogram(source, first.watermark), second.rows) == ({0: 2}, 2)
    assert (second.watermark.value, second.watermark.rows) == (order + 3, 3)


def test_the_only_row_may_not_go_nor_come_twice(connection: Any) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    connection.raw_sql("INSERT INTO rows VALUES (7, 'JFK', 3)")
    mark = source.increment(None).watermark
    connection.raw_sql("INSERT INTO rows VALUES (7, 'JFK', 3)")
    for after in (None, mark):
        with pytest.raises(EngineError, match="repeats values" if after is None else "gained 1 of the 1 row"):
            source.increment(after)
    connection.raw_sql("DELETE FROM rows")
    with pytest.raises(EngineError, match="lost 1 of the 1 row up to id = 7"):
        source.increment(mark)
    connection.raw_sql("INSERT INTO rows VALUES (6, 'JFK', 3)")
    with pytest.raises(EngineError, match="row with id = 7, the last that was taken in, is gone"):
        source.increment(mark)


def test_a_row_that_comes_late_while_the_table_is_read_is_refused(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the last, after the statement that counted: the watermark would hide it for ever."""
    source = Source.of(connection.table("rows"), SCHEMA)
    connection.raw_sql("INSERT INTO rows VALUES (7, 'JFK', 3), (9, 'JFK', 3)")

    def distinct_once_one_came(relation: Any, *more: Any) -> int:
        connection.raw_sql("INSERT INTO rows VALUES (8, 'JFK', 3)")
        return distinct(relation, *more)

    monkeypatch.setattr(module, "distinct", distinct_once_one_came)
    with pytest.raises(
        EngineError, match="rows came late while the table was read, and nothing was taken in: try again"
    ):
        source.increment(None)
    monkeypatch.undo()
    assert source.increment(None).rows == 3


def test_a_table_whose_rows_do_not_fit_is_taken_in_all_the_same(connection: Any) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    connection.raw_sql("INSERT INTO rows VALUES (7, 'LGA', 3)")
    found = source.increment(None, on_invalid="drop")
    assert (found.rows, found.dropped) == (0, 1)
    assert (found.watermark.value, found.watermark.rows, found.watermark.dropped) == (7, 1, 1)
    connection.raw_sql("INSERT INTO rows VALUES (8, 'LGA', 3), (9, 'JFK', 1)")
    found = source.increment(found.watermark, on_invalid="drop")
    assert (found.rows, found.dropped) == (1, 1)
    assert (found.watermark.value, found.watermark.rows, found.watermark.dropped) == (9, 3, 2)


# -- what is read, and what it is called -------------------------------------------------------------------------------


def test_what_no_source_can_be_made_of(connection: Any) -> None:
    wrong: Any = {"origin": "EWR"}
    with pytest.raises(SchemaError, match="a table is read by a Schema, not by dict"):
        Source.of(connection.table("rows"), wrong)
    with pytest.raises(ParameterError, match="order must be the name of a column"):
        Source.of(connection.table("rows"), SCHEMA, wrong)
    with pytest.raises(DataError, match="the table has no column 'number'"):
        Source.of(connection.table("rows"), SCHEMA, "number")
    with pytest.raises(ParameterError, match="table must be an Ibis table or an address, not dict"):
        Source.of(wrong, SCHEMA)
    source = Source.of(connection.table("rows"), SCHEMA)
    with pytest.raises(ParameterError, match='on_invalid must be "refuse" or "drop"'):
        source.increment(None, wrong)


def test_another_engine_is_refused_by_its_name() -> None:
    backend = SimpleNamespace(name="sqlite")
    table: Any = SimpleNamespace(get_backend=lambda: backend)
    with pytest.raises(ParameterError, match="table must live in one of duckdb, postgres, pyspark, not in sqlite"):
        LiveTable(table)


@pytest.mark.parametrize(("allowed", "name"), [(True, "7301"), (False, "host:5433")])
def test_a_server_is_known_by_its_number_or_else_by_where_it_is(allowed: bool, name: str) -> None:
    """The number of a cluster is for those who may read it."""
    connection = MagicMock()
    connection.info = SimpleNamespace(host="host", port=5433, dbname="flights")
    executed = connection.cursor.return_value.__enter__.return_value.execute
    executed.side_effect = lambda sql: SimpleNamespace(fetchone=lambda: (allowed if "privilege" in sql else 7301,))
    assert server_of(connection) == name


def test_an_expression_has_a_name_of_its_own(connection: Any) -> None:
    connection.raw_sql("CREATE TABLE others (id BIGINT, origin VARCHAR, month BIGINT)")
    rows, others = connection.table("rows"), connection.table("others")
    made = [rows, others, rows.filter(rows.month < 6), rows.filter(rows.month < 7), rows.union(others)]
    names = [Source.of(table, SCHEMA).identity for table in made]
    assert len(set(names)) == len(names)
    assert [Source.of(table, SCHEMA).identity for table in made] == names
    assert Source.of(rows.filter(rows.month < 6), SCHEMA).identity == names[2]
    plain, expressed, both = names[0], names[2], names[4]
    assert expressed.startswith(f"{plain}?")
    assert len(expressed.rpartition("?")[2]) == 16
    assert both.rpartition("?")[0] == "+".join(sorted(names[:2]))


def test_a_column_without_any_value_is_missing_everywhere(connection: Any) -> None:
    connection.raw_sql("INSERT INTO rows VALUES (7, 'JFK', 3), (8, 'EWR', 4)")
    rows = connection.table("rows")
    with_missing = {"origin": categories("EWR", "JFK", missing=True), "month": integers(1, 12, missing=True)}
    for empty, cells in (
        (rows.mutate(origin=ibis.null()), [2 * 13 + 2, 2 * 13 + 3]),
        (rows.mutate(month=ibis.null()), [0 * 13 + 12, 1 * 13 + 12]),
    ):
        assert sorted(histogram(Source.of(empty, Schema(with_missing)))) == cells
        assert Source.of(empty, SCHEMA).increment(None, on_invalid="drop").dropped == 2


# -- a table that has changed its columns since ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ("SELECT id, origin FROM rows", DataError, r"the table has no column 'month' among its 2 "),
        ("SELECT origin, month FROM rows", DataError, r"the table has no column 'id' among its 2 "),
        ("SELECT id::DOUBLE AS id, origin, month FROM rows", DataError, "the order column 'id' has type DOUBLE"),
        ("SELECT id, 1 AS origin, month FROM rows", DataError, "column 'origin' has type .*, the schema wants str"),
        ("SELECT id, origin, month::INTEGER AS month FROM rows", EngineError, "another type than before: 'month'"),
    ],
)
def test_columns_are_looked_at_again_at_every_reading(
    connection: Any, tmp_path: Path, changed: str, error: type[Exception], match: str
) -> None:
    connection.raw_sql("INSERT INTO rows VALUES (7, 'JFK', 3)")
    file = tmp_path / "rows.parquet"
    connection.raw_sql(f"COPY rows TO '{file}'")
    source = Source.of(f"parquet:{file}", SCHEMA)
    assert source.increment(None).rows == 1
    file.unlink()
    connection.raw_sql(f"COPY ({changed}) TO '{file}'")
    with pytest.raises(error, match=match):
        source.increment(None)


# -- what a refresh finds ---------------------------------------------------------------------------------------------


def test_what_a_refresh_leaves_behind() -> None:
    assert Increment.past(None, counts(), COLUMNS).watermark == NONE
    assert Increment.past(ONE, counts(), COLUMNS).watermark == ONE
    assert Increment.past(None, counts(1, 7, 7), COLUMNS).watermark == ONE
    assert Increment.past(NONE, counts(1, 7, 7), COLUMNS).watermark == ONE
    more = Increment.past(ONE, counts(3, 8, 12, unfit={"origin": 1, "month": 0}), COLUMNS)
    assert more == Increment(2, 1, Watermark(12, 4, 1, COLUMNS))


def test_rows_fit_between_the_first_and_the_last_order_value() -> None:
    counts(1, 7, 7).check(None, "id")
    counts(2, 7, 8).check(None, "id")
    counts().check(None, "id")
    counts(below=1, top=7).check(ONE, "id")
    for crowded in (counts(2, 7, 7), counts(3, 7, 8)):
        with pytest.raises(EngineError, match="repeats values"):
            crowded.check(None, "id")


@pytest.mark.parametrize(
    ("top", "below", "problem"),
    [
        (7, 1, "the table has lost 2 of the 3 rows up to id = 7 that were taken in, and nothing more was"),
        (7, 4, "the table has gained 1 of the 3 rows up to id = 7 that were taken in, and nothing more was"),
        (6, 3, "the row with id = 7, the last that was taken in, is gone from the table"),
    ],
)
def test_a_table_that_changed_below_its_watermark_is_refused(top: int, below: int, problem: str) -> None:
    mark = Watermark(7, 3, 0, COLUMNS)
    counts(below=3, top=7).check(mark, "id")
    counts(below=below, top=top).check(NONE, "id")
    counts(below=below, top=top).check(None, "id")
    with pytest.raises(EngineError, match=problem):
        counts(below=below, top=top).check(mark, "id")


def test_a_row_without_a_place_is_refused() -> None:
    with pytest.raises(EngineError, match="1 row without a value in the order column 'id'"):
        counts(unplaced=1).check(None, "id")


# -- what the engine does not evaluate ---------------------------------------------------------------------------------


def test_a_column_that_the_engine_does_not_evaluate_is_named(connection: Any) -> None:
    """A view that casts what it cannot cast: found out when it is read, and told without a value."""
    connection.raw_sql(
        "CREATE VIEW cast_view AS SELECT id, origin, CAST(replace(origin, 'JFK', '3') AS BIGINT) AS month FROM rows"
    )
    source = Source.of(connection.table("cast_view"), SCHEMA)
    connection.raw_sql("INSERT INTO rows VALUES (7, 'JFK', 3)")
    rows = taken(source)
    connection.raw_sql("UPDATE rows SET origin = 's3cr3t'")
    with pytest.raises(
        EngineError, match="column 'month' of the table could not be read .ConversionException"
    ) as caught:
        rows.tally(Groups.marginal(SCHEMA), (0, 1))
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(EngineError, match="column 'month' of the table could not be read"):
        source.increment(None)


def test_texts_that_are_no_utf_8_are_refused_by_the_name_of_their_column(tmp_path: Path) -> None:
    """DuckDB does not read them."""
    offsets = pa.array([0, 3, 5], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"JFK\xff\xfe")])
    pq.write_table(pa.table({"id": [1, 2], "month": [3, 3], "origin": texts}), tmp_path / "rows.parquet")
    with pytest.raises(EngineError, match="column 'origin' of the table could not be read"):
        Source.of(f"parquet://{tmp_path}", SCHEMA).increment(None)


def test_a_file_that_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("no rows")
    with pytest.raises(EngineError, match=f"{tmp_path}/rows.parquet is no Parquet file"):
        Source.of(f"parquet://{tmp_path}", SCHEMA)


# -- watermarks as they are kept ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [NONE, ONE, Watermark(0, 1, 1, COLUMNS), Watermark(-1, 3, 0, COLUMNS)])
def test_a_watermark_comes_back(mark: Watermark) -> None:
    assert Watermark.from_dict(mark.to_dict()) == mark


@pytest.mark.parametrize(
    ("field", "value"), [("value", None), ("rows", 0), ("rows", -1), ("dropped", 2), ("dropped", -1)]
)
def test_a_watermark_that_contradicts_itself_is_refused(field: str, value: int | None) -> None:
    with pytest.raises(EngineError, match="contradict each other"):
        Watermark.from_dict({**ONE.to_dict(), field: value})


def test_rows_without_a_last_one_are_refused() -> None:
    with pytest.raises(EngineError, match="contradict each other"):
        Watermark.from_dict({**NONE.to_dict(), "value": 7})


@pytest.mark.parametrize("field", ["value", "rows", "dropped", "columns"])
def test_what_is_no_watermark_is_refused(field: str) -> None:
    plain = ONE.to_dict()
    for wrong in ({name: plain[name] for name in plain if name != field}, {**plain, field: "x"}):
        with pytest.raises(EngineError, match="not a watermark: it has value, rows, dropped and columns"):
            Watermark.from_dict(wrong)
