"""Tables on a caller's connection: what is asked of each engine, also of those for which no server runs here."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import ibis
import ibis.expr.operations as ops
import pytest

from treering.domain.attribute import categories, integers
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError
from treering.trusted.engines import live as module, source as source_module
from treering.trusted.engines.duckdb import DuckDB
from treering.trusted.engines.live import LiveTable, leaves
from treering.trusted.engines.postgresql import PostgreSQL
from treering.trusted.engines.source import Source
from treering.trusted.engines.spark import Spark

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


def described(*columns: tuple[str, str]) -> SimpleNamespace:
    fields = [SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda kind=kind: kind))
              for name, kind in columns]  # fmt: skip
    return SimpleNamespace(schema=SimpleNamespace(fields=fields))


def test_a_table_of_a_cluster_is_listed_anew() -> None:
    given, backend = lent("pyspark")
    backend.compile.return_value = "SELECT 1"
    backend._session.sql.return_value = described(("id", "bigint"), ("origin", "timestamp_ntz"), ("month", "timestamp"))
    with LiveTable(given).open(SCHEMA, "id") as relation:
        assert isinstance(relation.connection, Spark)
        assert relation.rows == "(SELECT 1)"
        assert [column.kind for column in relation.columns.values()] == ["integer", "moment", "instant"]
    backend.raw_sql.assert_called_once_with("REFRESH TABLE `memory`.`main`.`rows`")
    backend._session.sql.assert_called_once_with("SELECT * FROM (SELECT 1) AS t")


@pytest.mark.parametrize("closed", [True, False])
def test_a_connection_to_a_server_that_was_closed_is_opened_again(closed: bool) -> None:
    given, backend = lent("postgres")
    backend.con.closed = closed
    with LiveTable(given).open(SCHEMA, "id") as relation:
        assert isinstance(relation.connection, PostgreSQL)
    assert backend.reconnect.call_count == closed
    backend.raw_sql.assert_not_called()


def test_statistics_are_no_longer_believed_and_nothing_else_changes() -> None:
    connection = MagicMock()
    connection.execute.return_value.fetchall.return_value = [("join_order",)]
    module.distrust_statistics(connection)
    connection.execute.assert_called_with("SET disabled_optimizers = ?", ["join_order,statistics_propagation"])
    connection.execute.return_value.fetchall.return_value = [("join_order, statistics_propagation",)]
    connection.execute.reset_mock()
    module.distrust_statistics(connection)
    connection.execute.assert_called_once_with("SELECT current_setting('disabled_optimizers')")


def test_a_table_is_read_over_its_own_connection(connection: Any) -> None:
    with LiveTable(connection.table("rows")).open(SCHEMA, "id") as relation:
        assert isinstance(relation.connection, DuckDB)
        assert {name: column.type for name, column in relation.columns.items()} == {
            "id": "BIGINT",
            "origin": "VARCHAR",
            "month": "BIGINT",
        }


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
    assert Source.of(table, SCHEMA).identity == f"duckdb:memory-{id(connection.con)}#main.rows"
    connection.raw_sql(
        f"ATTACH '{tmp_path}/a.duckdb' AS other; CREATE TABLE other.rows AS SELECT * FROM rows"
    ).fetchall()
    attached = connection.table("rows", database=("other", "main"))
    assert Source.of(attached, SCHEMA).identity == f"duckdb:{tmp_path}/a.duckdb#main.rows"


# -- columns that change -----------------------------------------------------------------------------------------------


def test_whether_a_column_may_be_null_is_no_part_of_its_type(connection: Any) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    assert source.columns == (("id", "BIGINT"), ("origin", "VARCHAR"), ("month", "BIGINT"))
    connection.raw_sql("ALTER TABLE rows ALTER COLUMN id DROP NOT NULL").fetchall()
    assert source.increment(None).rows == 0
    assert Source.of(connection.table("rows"), SCHEMA).columns == source.columns
    twice = Schema({"id": integers(0, 9)})
    assert Source.of(connection.table("rows"), twice).columns == (("id", "BIGINT"),)


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ("ALTER TABLE rows DROP month", DataError, "the table has no column 'month'"),
        ("ALTER TABLE rows ALTER month TYPE DOUBLE", EngineError, "another type than before: 'month'"),
        ("DROP TABLE rows", EngineError, "could not be read .CatalogException in the engine."),
    ],
)
def test_a_live_table_whose_columns_have_changed_is_refused(
    connection: Any, change: str, error: type[Exception], problem: str
) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    connection.raw_sql(change).fetchall()
    with pytest.raises(error, match=problem):
        source.increment(None)


def test_a_watermark_of_other_types_is_refused(connection: Any) -> None:
    source = Source.of(connection.table("rows"), SCHEMA)
    mark = source.increment(None).watermark
    connection.raw_sql("ALTER TABLE rows ALTER month TYPE INTEGER").fetchall()
    with pytest.raises(EngineError, match="another type than before: 'month'; nothing was taken in"):
        Source.of(connection.table("rows"), SCHEMA).increment(mark)


# -- refreshes --------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(source_module, "COUNTED_ROWS", few)
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
