"""A growing database whose rows stay in their engine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import treering as tr
from treering.errors import EngineError
from treering.trusted.engines.watermark import Watermark

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "flights.duckdb"
    execute(
        file, "CREATE TABLE flights (id BIGINT, origin VARCHAR, month INT)", "INSERT INTO flights VALUES (1,'JFK',1)"
    )
    return file


def execute(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


class Watcher:
    def __init__(self) -> None:
        self.called = 0

    def grown(self) -> None:
        self.called += 1


def test_it_takes_in_what_is_there_and_then_what_comes(path: Path) -> None:
    db = tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", SCHEMA, order="id")
    watcher = Watcher()
    db.watch(watcher.grown)
    assert db.size == 1
    execute(path, "INSERT INTO flights SELECT 2 + range, 'EWR', 2 FROM range(500)")
    assert db.refresh() == db.size == 501
    assert db.refresh() == 501
    assert watcher.called == 2
    assert repr(db) == "GrowingDatabase(501 rows; 24 cells)"


def test_answers_are_those_of_the_same_rows_appended(path: Path) -> None:
    execute(path, "INSERT INTO flights SELECT 2 + range, 'EWR', 1 + range % 12 FROM range(5000)")
    db = tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", SCHEMA)
    answer = tr.ContinualHistogram(db, epsilon=1e6, beta=1e-9).ask("origin = 'EWR' AND month = 12")
    assert answer.count == 416


def test_rows_that_do_not_fit_leave_it_as_it_was(path: Path) -> None:
    db = tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", SCHEMA)
    execute(path, "INSERT INTO flights VALUES (2, 'EWR', 2), (3, 'BOS', 1), (4, NULL, 99)")
    with pytest.raises(tr.DataError, match="column 'origin': 2 rows"):
        db.refresh()
    assert (db.size, db.dropped) == (1, 0)
    with pytest.warns(tr.DroppedRows, match="2 of 3 rows"):
        assert db.refresh(on_invalid="drop") == 2
    assert db.dropped == 2
    assert db.refresh() == 2
    word: Any = "ignore"
    with pytest.raises(tr.ParameterError, match="on_invalid"):
        db.refresh(word)


def test_each_kind_refuses_what_belongs_to_the_other(path: Path) -> None:
    db = tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", SCHEMA)
    with pytest.raises(EngineError, match="add them there, and call refresh"):
        db.append([{"origin": "JFK", "month": 1}])
    with pytest.raises(EngineError, match="add them there, and call refresh"):
        db.append_cells(np.array([1]))
    with pytest.raises(EngineError, match="made by from_table"):
        tr.GrowingDatabase(SCHEMA).refresh()
    assert db.size == 1


def test_two_threads_that_refresh_take_each_row_once(path: Path) -> None:
    db = tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", SCHEMA)
    execute(path, "INSERT INTO flights SELECT 2 + range, 'EWR', 2 FROM range(1000)")
    threads = [threading.Thread(target=db.refresh) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.size == 1001


def test_a_watermark_reads_back() -> None:
    mark = Watermark(value=-5, rows=7, dropped=2, columns=(("id", "int64"), ("x", "string")))
    assert Watermark.from_dict(mark.to_dict()) == mark
    for change in ({"value": None}, {"rows": -1}, {"dropped": 8}, {"columns": None}, {"value": "x"}):
        with pytest.raises(EngineError, match="not a watermark"):
            Watermark.from_dict({**mark.to_dict(), **change})
    with pytest.raises(EngineError, match="not a watermark"):
        Watermark.from_dict({})


def test_the_schema_and_order_are_checked(path: Path) -> None:
    nothing: Any = None
    with pytest.raises(tr.SchemaError):
        tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", nothing)
    with pytest.raises(tr.ParameterError, match="order"):
        tr.GrowingDatabase.from_table(f"duckdb://{path}#flights", SCHEMA, nothing)
