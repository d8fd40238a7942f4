"""What is run over public values is a tree, and one SELECT."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from treering.errors import QueryError
from treering.sql.duck import run, written


def test_a_tree_is_worked_out_over_tables() -> None:
    tree = parse_one('SELECT SUM("x") AS s FROM t', dialect="duckdb")
    assert run(tree, {"t": pa.table({"x": [1, 2, 3]})})["s"].to_pylist() == [6]
    assert run("SELECT SUM(x) AS s FROM t", {"t": pa.table({"x": [4]})})["s"].to_pylist() == [4]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('file.csv')",
        "SELECT * FROM 'file.csv' AS t, glob('*')",
        "SELECT getenv('HOME')",
        "SELECT current_setting('memory_limit')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM information_schema.tables",
        "COPY (SELECT 1) TO 'file.csv'",
        "ATTACH 'file.db' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA version",
        "CREATE TABLE x AS SELECT 1",
        "CREATE OR REPLACE MACRO abs(x) AS 42",
        "SELECT 1; SELECT 2",
        "BEGIN TRANSACTION",
        "FROM x SELECT y; DROP TABLE x",
        "",
        ";",
    ],
)
def test_no_text_that_is_not_one_select_of_listed_nodes_is_run(text: str) -> None:
    with pytest.raises(QueryError):
        run(text, {})


def test_an_expression_is_written_for_duckdb() -> None:
    assert written(parse_one("SELECT TOP 3 [a] FROM [t]", dialect="tsql")) == 'SELECT "a" FROM "t" LIMIT 3'
    with pytest.raises(QueryError, match="cannot be worked out"):
        written(exp.Date())
