"""DuckDB over public values: nothing from outside, and not for ever."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from treering.errors import QueryError
from treering.sql import duck
from treering.sql.duck import run, written

ENDLESS = "SELECT COUNT(*) FROM range(10000000) AS a, range(10000000) AS b WHERE (a.range * b.range) % 7 = 3"


def test_tables_are_there_for_one_statement_only() -> None:
    assert run("SELECT SUM(x) AS s FROM t", {"t": pa.table({"x": [1, 2, 3]})})["s"].to_pylist() == [6]
    with pytest.raises(QueryError, match="t does not exist|Table with name t"):
        run("SELECT * FROM t", {})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_text('{file}')",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
    ],
)
def test_nothing_outside_is_read_or_written(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("x\n1\n")
    with pytest.raises(QueryError):
        run(text.format(file=file), {})
    assert file.read_text() == "x\n1\n"


def test_a_statement_that_takes_too_long_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "SECONDS", 0.2)
    with pytest.raises(QueryError, match="seconds to work out"):
        run(ENDLESS, {})
    assert run("SELECT 1 AS one", {})["one"].to_pylist() == [1]


def test_each_thread_has_a_database_of_its_own() -> None:
    found: dict[int, list[int]] = {}

    def work(number: int) -> None:
        found[number] = run("SELECT x FROM t", {"t": pa.table({"x": [number]})})["x"].to_pylist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [number] for number in range(4)}


def test_an_error_is_one_line() -> None:
    with pytest.raises(QueryError) as caught:
        run("SELECT nothing_here FROM t", {"t": pa.table({"x": [1]})})
    assert len(str(caught.value).splitlines()) == 1


def test_an_expression_is_written_for_duckdb() -> None:
    assert written(parse_one("SELECT TOP 3 [a] FROM [t]", dialect="tsql")) == 'SELECT "a" FROM "t" LIMIT 3'
    with pytest.raises(QueryError, match="cannot be worked out"):
        written(exp.Date())
