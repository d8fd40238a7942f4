"""Tables on a caller's connection: what is asked of each engine, also of those for which no server runs here."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import ibis
import ibis.expr.operations as ops
import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from treering.domain.attribute import categories, integers
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError
from treering.trusted.engines import source as module
from treering.trusted.engines.binning import Counted
from treering.trusted.engines.source import LiveTable, Source, leaves, make_increment

SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})


@pytest.fixture
def connection() -> Iterator[Any]:
    made = ibis.duckdb.connect()
    made.raw_sql("CREATE TABLE rows (id BIGINT NOT NULL, origin VARCHAR, month BIGINT)").fetchall()
    yield made
    made.disconnect()


def lent(name: str) -> tuple[Any, MagicMock]:
    """A table whose backend is an engine of this name, as far as anybody asks."""
    backend = MagicMock()
    backend.name = name
    kinds = ibis.schema({"id": "int64", "origin": "string", "month": "int64"})
    backend.get_schema.return_value = kinds
    place = ops.Namespace(catalog="memory", database="main")
    leaf = ops.DatabaseTable(name="rows", schema=kinds, source=backend, namespace=place)
    return SimpleNamespace(get_backend=lambda: backend, op=lambda: leaf), backend


# -- each engine -------------------------------------------------------------------------------------------------------


def test_a_table_of_a_cluster_is_listed_anew_and_its_instants_have_a_zone() -> None:
    given, backend = lent("pyspark")
    kinds = {"id": "long", "origin": "timestamp_ntz", "month": "timestamp"}
    fields = [SimpleNamespace(name=name, dataType=SimpleNamespace(typeName=lambda kind=kind: kind))
              for name, kind in kinds.items()]  # fmt: skip
    backend._session.sql.return_value = SimpleNamespace(schema=fields)
    given.cast = lambda zoned: ("cast", {name: kind.timezone for name, kind in zoned.items()})
    with LiveTable(given).open(SCHEMA) as (found, schema):
        assert found == ("cast", {"month": "UTC"})
        assert schema is SCHEMA
    backend.raw_sql.assert_called_once_with("REFRESH TABLE `memory`.`main`.`rows`")
    backend._session.sql.assert_called_with(backend.compile.return_value)
    fields[2].dataType.typeName = lambda: "long"
    with LiveTable(given).open(SCHEMA) as (found, _):
        assert found is given


@pytest.mark.parametrize("closed", [True, False])
def test_a_connection_to_a_server_that_was_closed_is_opened_again(closed: bool) -> None:
    given, backend = lent("postgres")
    backend.con.closed = closed
    with LiveTable(given).open(SCHEMA) as (found, _):
        assert found is given
    assert backend.reconnect.call_count == closed
    backend.raw_sql.assert_not_called()


def test_a_table_of_a_file_is_taken_as_it_is() -> None:
    given, backend = lent("duckdb")
    backend.con.closed = True
    backend.con.execute.return_value.fetchall.return_value = [("join_order",)]
    with LiveTable(given).open(SCHEMA) as (found, _):
        assert found is given
    backend.con.execute.assert_called_with("SET disabled_optimizers = ?", ["join_order,statistics_propagation"])
    backend.reconnect.assert_not_called()
    backend.raw_sql.assert_not_called()
    backend.get_schema.assert_called_once_with("rows", catalog="memory", database="main")


@pytest.mark.parametrize(("name", "through"), [("pyspark", True), ("postgres", False), ("duckdb", False)],
                         ids=["cluster", "server", "files"])  # fmt: skip
def test_a_result_comes_as_arrow(name: str, through: bool) -> None:
    backend = MagicMock()
    backend.name = name
    backend.raw_sql.return_value.toArrow.return_value = "by rows"
    backend.to_pyarrow.return_value = "by Ibis"
    table: Any = SimpleNamespace(get_backend=lambda: backend)
    wanted: Any = "wanted"
    assert module._fetch(table, wanted) == ("by rows" if through else "by Ibis")
    if through:
        backend.compile.assert_called_once_with("wanted")
        backend.raw_sql.assert_called_once_with(backend.compile.return_value)


def test_names_of_tables_in_a_cluster_are_quoted() -> None:
    def leaf(catalog: str | None, database: str | None, name: str) -> Any:
        return SimpleNamespace(namespace=ops.Namespace(catalog=catalog, database=database), name=name)

    assert module._spark_name(leaf(None, None, "a`b")) == "`a``b`"
    assert module._spark_name(leaf(None, "d", "t")) == "`d`.`t`"
    assert module._spark_name(leaf("c", "d", "t")) == "`c`.`d`.`t`"
    backend = SimpleNamespace(name="pyspark", current_catalog="here")
    assert module._database(backend, leaf(None, "d", "t")) == "spark:here"
    assert module._database(backend, leaf("there", "d", "t")) == "spark:there"


def test_a_table_in_memory_is_named_by_its_connection_and_one_in_a_file_by_its_path(
    connection: Any, tmp_path: Any
) -> None:
    table = connection.table("rows")
    (leaf,) = leaves(table)
    assert module._database(connection, leaf) == f"duckdb:memory-{id(connection.con)}"
    assert module.identity(table) == f"duckdb:memory-{id(connection.con)}#main.rows"
    connection.raw_sql(f"ATTACH '{tmp_path}/a.duckdb' AS other; CREATE TABLE other.rows AS SELECT 1 AS id").fetchall()
    attached = connection.table("rows", database=("other", "main"))
    assert module.identity(attached) == f"duckdb:{tmp_path}/a.duckdb#main.rows"


# -- columns that change -----------------------------------------------------------------------------------------------


def test_whether_a_column_may_be_null_is_no_part_of_its_type(connection: Any) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    assert source.columns == (("id", "int64"), ("origin", "string"), ("month", "int64"))
    connection.raw_sql("ALTER TABLE rows ALTER COLUMN id DROP NOT NULL").fetchall()
    assert source.increment(None).rows == 0
    assert Source.of(connection.table("rows"), SCHEMA).columns == source.columns
    twice = Schema({"id": integers(0, 9)})
    assert Source.of(connection.table("rows"), twice).columns == (("id", "int64"),)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("ALTER TABLE rows DROP month", "the table 'rows' has changed: 'month', gone or of another type"),
        ("ALTER TABLE rows ALTER month TYPE DOUBLE", "the table 'rows' has changed: 'month', gone or of another type"),
    ],
)
def test_a_live_table_whose_columns_have_changed_is_refused(connection: Any, change: str, problem: str) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    connection.raw_sql(change).fetchall()
    with pytest.raises(EngineError, match=problem):
        source.increment(None)


def test_a_watermark_of_other_types_is_refused(connection: Any) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    mark = source.increment(None).watermark
    connection.raw_sql("ALTER TABLE rows ALTER month TYPE INTEGER").fetchall()
    with pytest.raises(EngineError, match="another type than before: 'month'; nothing was taken in"):
        Source.of(connection.table("rows"), SCHEMA).increment(mark)


# -- readings ----------------------------------------------------------------------------------------------------------


def lines(*listed: tuple[int, int, int, int]) -> pa.Table:
    return pa.table(dict(zip(("part", "key", "rows", "s0"), map(list, zip(*listed, strict=True)), strict=True)))


def test_the_lines_of_a_result_in_any_order() -> None:
    given = [(Counted.PAST, 12, 5, 0), (Counted.CELL, 3, 4, 40), (Counted.UNPLACED, 2, 1, 0), (Counted.CELL, -1, 1, 7)]
    found = module._reading(lines(*given), None)
    assert (found.cells.tolist(), found.counts.tolist(), found.sums[0].tolist()) == ([3, -1], [4, 1], [40, 7])
    assert (found.below, found.first, found.last, found.past, found.unplaced) == (None, 2, 12, 5, 1)
    found = module._reading(lines(*given, (Counted.BELOW, 6, 9, 0)), 7)
    assert (found.below, found.first, found.last, found.past, found.unplaced) == ((6, 9), 8, 12, 5, 1)


def test_sums_come_with_the_cells_of_an_increment(connection: Any) -> None:
    schema = Schema({"origin": categories("EWR", "JFK"), "month": tr.numbers(0, 10, step=1, edges=[0, 5, 10])})
    connection.raw_sql("INSERT INTO rows VALUES (1,'JFK',3), (2,'EWR',7), (3,'JFK',4), (4,'LGA',1)").fetchall()
    found = Source.of(connection.table("rows"), schema).increment(None, "drop")
    ewr, jfk = (schema.cell({"origin": origin, "month": value}) for origin, value in (("EWR", 7), ("JFK", 3)))
    assert (found.cells.tolist(), found.counts.tolist()) == ([ewr, jfk], [1, 2])
    assert [column.tolist() for column in found.sums] == [[4, 2 * 7 - 20]]
    assert (found.rows, found.dropped) == (3, 1)


def test_a_refusal_names_columns_and_numbers_of_rows(connection: Any) -> None:
    connection.raw_sql("INSERT INTO rows VALUES (1,'LGA',99), (2,'JFK',13), (3,'JFK',0), (4,'EWR',1)").fetchall()
    with pytest.raises(DataError) as caught:
        Source.of(connection.table("rows"), SCHEMA).increment(None)
    said = str(caught.value)
    assert said.startswith("column 'origin': 1 row with a value that is not among ")
    assert "; column 'month': 2 rows with a value that is not among " in said
    assert said.endswith("; nothing was taken in (a row counts for its first such column)")
    assert caught.value.column == "origin"
    connection.raw_sql("DELETE FROM rows WHERE id = 1").fetchall()
    with pytest.raises(DataError, match="^column 'month': 2 rows") as caught:
        Source.of(connection.table("rows"), SCHEMA).increment(None)
    assert caught.value.column == "month"


@pytest.mark.parametrize(("few", "refused"), [(3, True), (2, False)])
def test_repeated_order_values_are_looked_for_among_few_rows(
    connection: Any, few: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among more it would take too long; that they are too many for their range is seen at any size."""
    monkeypatch.setattr(module, "COUNTED_ROWS", few)
    connection.raw_sql("INSERT INTO rows VALUES (1,'JFK',3), (1,'JFK',3), (9,'JFK',4)").fetchall()
    source = Source.of(connection.table("rows"), SCHEMA)
    if refused:
        with pytest.raises(EngineError, match="repeats values"):
            source.increment(None)
    else:
        assert source.increment(None).rows == 3
    connection.raw_sql("DELETE FROM rows WHERE id = 9").fetchall()
    with pytest.raises(EngineError, match="repeats values"):
        source.increment(None)


def test_repeated_order_values_are_looked_for_among_many_rows(connection: Any) -> None:
    connection.raw_sql("INSERT INTO rows SELECT 2 * range, 'JFK', 3 FROM range(2000)").fetchall()
    source = Source.of(connection.table("rows"), SCHEMA)
    assert source.increment(None).rows == 2000
    connection.raw_sql("INSERT INTO rows VALUES (500, 'JFK', 3)").fetchall()
    with pytest.raises(EngineError, match="repeats values"):
        source.increment(None)


def test_the_cells_of_an_increment_are_in_order_with_their_counts_and_sums() -> None:
    given = [(Counted.PAST, 12, 10, 0), (Counted.UNPLACED, 2, 0, 0)]
    cells = [(Counted.CELL, key, rows, 10 * key) for key, rows in ((9, 1), (-2, 2), (3, 3), (5, 4))]
    found = make_increment(module._reading(lines(*cells, *given), None), None, SCHEMA, (), drop=True)
    assert (found.cells.tolist(), found.counts.tolist(), found.sums[0].tolist()) == ([3, 5, 9], [3, 4, 1], [30, 50, 90])
    assert (found.rows, found.dropped, found.watermark.dropped) == (8, 2, 2)
    assert all(column.dtype == np.int64 for column in (found.cells, found.counts, *found.sums))
