"""Texts as bytes, in the words of each engine: also of those for which no server runs here."""

from __future__ import annotations

import ibis
import pytest

from treering.trusted.engines.binning import as_bytes, literal_bytes

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
