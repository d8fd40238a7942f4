"""The engine in this process: a database of its own for each statement, and limits."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from treering.deadline import Deadline, until
from treering.errors import QueryError, TimeLimit
from treering.sql.engine.limits import Limits
from treering.sql.engine.local import Local

ENDLESS = "SELECT COUNT(*) FROM range(10000000) AS a, range(10000000) AS b WHERE (a.range * b.range) % 7 = 3"
ENGINE = Local()


def test_tables_are_there_for_one_statement_only() -> None:
    assert ENGINE.run("SELECT SUM(x) AS s FROM t", {"t": pa.table({"x": [1, 2, 3]})})["s"].to_pylist() == [6]
    with ENGINE.together():
        assert ENGINE.run("SELECT SUM(x) AS s FROM t", {"t": pa.table({"x": [4]})})["s"].to_pylist() == [4]
        with pytest.raises(QueryError, match="t does not exist|Table with name t"):
            ENGINE.run("SELECT * FROM t", {})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM glob('{file}')",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "PRAGMA version",
        "CREATE OR REPLACE MACRO abs(x) AS 42",
        "SELECT 1; SELECT 2",
        "SELECT 1; CREATE OR REPLACE MACRO abs(x) AS 42",
        "BEGIN TRANSACTION",
        "BEGIN TRANSACTION; SELECT error('x')",
        "SET VARIABLE x = 1",
        "PREPARE x AS SELECT 1",
        "",
    ],
)
def test_nothing_but_one_select_over_the_tables_is_run(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("x\n1\n")
    with ENGINE.together():
        with pytest.raises(QueryError):
            ENGINE.run(text.format(file=file), {})
        assert ENGINE.run("SELECT abs(-1) AS x", {})["x"].to_pylist() == [1]
    assert file.read_text() == "x\n1\n"


def test_after_a_result_that_is_too_large_the_database_goes_on() -> None:
    engine, table = Local(Limits(rows=10)), pa.table({"x": range(100_000)})
    with engine.together():
        for _ in range(2):
            with pytest.raises(QueryError, match="more than 10 rows"):
                engine.run("SELECT * FROM t", {"t": table})
        assert engine.run("SELECT COUNT(*) AS n FROM t", {"t": table})["n"].to_pylist() == [100_000]


def test_a_statement_that_takes_too_long_is_interrupted() -> None:
    start = time.monotonic()
    with pytest.raises(TimeLimit, match=r"0\.2 seconds to work out"):
        Local(Limits(seconds=0.2)).run(ENDLESS, {})
    assert time.monotonic() - start < 5


def test_the_request_s_deadline_interrupts_it_too() -> None:
    with until(Deadline(0.2)), pytest.raises(TimeLimit, match=r"0\.2 seconds"):
        ENGINE.run(ENDLESS, {})
    with until(Deadline(0)), pytest.raises(TimeLimit):
        ENGINE.run("SELECT 1", {})


def test_a_statement_whose_caller_goes_is_interrupted() -> None:
    deadline = Deadline(60)
    threading.Timer(0.2, deadline.cancel).start()
    start = time.monotonic()
    with until(deadline), pytest.raises(TimeLimit, match="the caller has gone"):
        ENGINE.run(ENDLESS, {})
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("text", "limits", "problem"),
    [
        ("SELECT * FROM range(10000)", Limits(rows=5000), "more than 5,000 rows"),
        ("SELECT repeat('x', 1000) FROM range(1000000000)", Limits(bytes=10**7), "more than 10,000,000 bytes"),
        ("SELECT COUNT(DISTINCT range) FROM range(100000000)", Limits(memory=2**26), "more than 64 MiB of memory"),
    ],
)
def test_what_is_too_large_is_refused_with_the_limit(text: str, limits: Limits, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        Local(limits).run(text, {})


def test_threads_share_nothing() -> None:
    numbers: dict[int, list[int]] = {}

    def work(number: int) -> None:
        numbers[number] = ENGINE.run("SELECT x FROM t", {"t": pa.table({"x": [number]})})["x"].to_pylist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers == {number: [number] for number in range(4)}


def test_an_error_is_one_line() -> None:
    with pytest.raises(QueryError) as caught:
        ENGINE.run("SELECT nothing_here FROM t", {"t": pa.table({"x": [1]})})
    assert len(str(caught.value).splitlines()) == 1


def test_an_empty_result_has_its_columns() -> None:
    result = ENGINE.run("SELECT x, x + 1 AS y FROM t WHERE FALSE", {"t": pa.table({"x": [1]})})
    assert result.schema.names == ["x", "y"]
    assert result.num_rows == 0
