"""Texts as bytes, in the words of each engine, also of those for which no server runs here; columns without a type."""

from __future__ import annotations

import ibis
import pyarrow as pa
import pytest

import treering as tr
from treering.trusted.engines.binning import Counted, as_bytes, check_table, literal_bytes, statement

COLUMN = ibis.table({"origin": "string"}, name="rows")["origin"]


@pytest.mark.parametrize(
    ("engine", "call"),
    [("duckdb", "encode("), ("postgres", "convert_to("), ("pyspark", "encode(")],
    ids=["files", "server", "cluster"],
)
def test_a_column_of_texts_is_compared_as_bytes(engine: str, call: str) -> None:
    sql = ibis.to_sql(COLUMN.cast("string").pipe(lambda column: as_bytes(engine, column)), dialect=engine).lower()
    assert call in sql
    assert ("'utf8'" in sql, "'utf-8'" in sql) == (engine == "postgres", engine == "pyspark")


@pytest.mark.parametrize(
    ("engine", "written"),
    [("duckdb", "C3A9"), ("postgres", "c3a9"), ("pyspark", "C3A9")],
    ids=["files", "server", "cluster"],
)
def test_a_literal_is_its_bytes(engine: str, written: str) -> None:
    sql = ibis.to_sql(ibis.literal(0).pipe(lambda _: literal_bytes(engine, "é")), dialect=engine)
    assert written.lower() in sql.lower().replace("\\x", "")
    assert "é" not in sql
    assert ("decode(" in sql.lower()) == (engine == "postgres")


ROWS = ibis.memtable(pa.table({"id": [1, 2, 3], "late": ["no", "yes", "yes"]}))
GONE = {
    "categories": tr.categories("x", "y", missing=True),
    "integers": tr.integers(1, 12, missing=True),
    "bins": tr.bins([0, 1, 2], missing=True),
    "numbers": tr.numbers(0, 10, step=1, edges=[0, 5, 10]),
    "dates": tr.dates("2013-01-01", "2013-12-31", by="month"),
}


@pytest.mark.parametrize("name", GONE)
def test_a_column_without_a_type_is_missing_in_every_row(name: str) -> None:
    """As in a view that says NULL: engines know no type for it."""
    schema = tr.Schema({"late": tr.categories("no", "yes"), "gone": GONE[name]})
    rows = ROWS.mutate(gone=ibis.null())
    assert rows.gone.type().is_null()
    check_table(rows, schema, "id")
    found = ibis.duckdb.connect().to_pyarrow(statement(rows, schema, "id", None)).to_pylist()
    missing = GONE[name].missing_code
    counted = {line["key"]: line["rows"] for line in found if line["part"] == Counted.CELL}
    assert missing is not None
    assert counted == {late * schema.shape[1] + missing: rows for late, rows in ((0, 1), (1, 2))}


def test_a_column_without_a_type_that_has_no_cell_for_it_does_not_fit() -> None:
    schema = tr.Schema({"late": tr.categories("no", "yes"), "gone": tr.categories("x", "y")})
    rows = ROWS.mutate(gone=ibis.null())
    found = ibis.duckdb.connect().to_pyarrow(statement(rows, schema, "id", None)).to_pylist()
    assert [(line["key"], line["rows"]) for line in found if line["part"] == Counted.CELL] == [(-2, 3)]
