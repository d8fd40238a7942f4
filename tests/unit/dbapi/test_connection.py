"""PEP 249 over a vault: module, connections, cursors, rows, Arrow, exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import treering as tr
from treering import dbapi

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", "O'Neill's", other=True),
        "cost": tr.numbers(0, 500, step=0.01, edges=[0, 100, 500]),
        "day": tr.dates("2026-01-01", "2026-12-31"),
    }
)
ROWS = [
    {"ward": ward, "cost": cost, "day": date(2026, month, 3)}
    for ward, cost, month in (("north", 20.0, 1), ("south", 150.0, 2), ("O'Neill's", 37.5, 3))
] * 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dbapi") / "visits.treering"
    with tr.Vault.create(place, SCHEMA, epsilon=50.0, delta=1e-6) as vault:
        vault.append(ROWS)
    return place


@pytest.fixture
def connection(folder: Path) -> Iterator[dbapi.Connection]:
    with dbapi.connect(folder) as connection:
        yield connection


def test_the_module_says_what_it_keeps() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.ProgrammingError, dbapi.DatabaseError)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert dbapi.DateFromTicks(0).year in (1969, 1970)
    assert dbapi.TimeFromTicks(0) == dbapi.TimestampFromTicks(0).time()


def test_a_result_is_fetched_row_by_row_and_all_at_once(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount) == (None, -1)
    cursor.execute("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 500 ORDER BY ward")
    assert [each[0] for each in cursor.description or ()] == ["ward", "n", "n_margin"]
    assert cursor.rowcount == 3
    first = cursor.fetchone()
    assert first is not None
    assert first[0] == "O'Neill's"
    assert abs(first[1] - 2000) <= 50
    assert len(cursor.fetchmany(1)) == 1
    assert [row[0] for row in cursor] == ["south"]
    assert cursor.fetchone() is None
    assert cursor.fetchall() == []


def test_columns_have_types(connection: dbapi.Connection) -> None:
    cursor = connection.cursor().execute("SELECT ward, day, COUNT(*) AS n, AVG(cost) AS a FROM visits GROUP BY 1, 2")
    codes = {each[0]: each[1] for each in cursor.description or ()}
    assert codes["ward"] == dbapi.STRING
    assert codes["day"] in (dbapi.DATETIME, dbapi.STRING)
    assert codes["n"] == dbapi.NUMBER
    assert codes["a"] == dbapi.NUMBER
    assert codes["a"] != dbapi.STRING
    assert len({dbapi.STRING, dbapi.NUMBER}) == 2


@pytest.mark.parametrize(
    ("condition", "parameters", "rows"),
    [
        ("ward = ?", ["north"], 2000),
        ("ward = ?", ["O'Neill's"], 2000),
        ("ward = :ward AND cost < :most", {"ward": "O'Neill's", "most": Decimal("37.51")}, 2000),
        ("cost > ?", [100], 2000),
        ("cost BETWEEN ? AND ?", [37.5, np.float64(150.0)], 4000),
        ("day >= ?", [date(2026, 2, 1)], 4000),
        ("day < ?", [datetime(2026, 2, 1)], 2000),
        ("ward IN (?, ?)", ("north", "south"), 4000),
        ("cost > ?", [-1], 6000),
    ],
)
def test_parameters_are_values(connection: dbapi.Connection, condition: str, parameters: Any, rows: int) -> None:
    ((n, margin),) = connection.cursor().execute(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", parameters)
    assert abs(n - rows) <= max(50, 2 * margin)


@pytest.mark.parametrize(
    "value",
    [
        "' OR 1=1 --",
        "'; DROP TABLE visits; --",
        "/*",
        '"',
        "north' OR ward = 'south",
        "\\' OR 1=1",
        "x" * 500,
        "’",
        "?",
    ],
)
def test_a_value_stays_one_value(connection: dbapi.Connection, value: str) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="not among|is not"):
        connection.cursor().execute("SELECT COUNT(*) AS n FROM visits WHERE ward = ?", [value])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"north", object(), [1]])
def test_rejects_parameters_without_a_literal(connection: dbapi.Connection, value: Any) -> None:
    with pytest.raises(dbapi.DataError, match="a parameter is"):
        connection.cursor().execute("SELECT COUNT(*) AS n FROM visits WHERE cost < ?", [value])


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("SELECT COUNT(*) FROM visits WHERE ward = ?", ["a", "b"]),
        ("SELECT COUNT(*) FROM visits WHERE ward = ?", {"ward": "north"}),
        ("SELECT COUNT(*) FROM visits WHERE ward = :ward", ["north"]),
        ("SELECT COUNT(*) FROM visits WHERE ward = :ward", {"other": "north"}),
        ("SELECT COUNT(*) FROM visits WHERE ward = ?", "north"),
    ],
)
def test_rejects_parameters_that_do_not_fit(connection: dbapi.Connection, statement: str, parameters: Any) -> None:
    with pytest.raises(dbapi.InterfaceError):
        connection.cursor().execute(statement, parameters)


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("SELECT * FROM visits", None),
        ("SELECT nothing FROM visits GROUP BY 1", None),
        ("DELETE FROM visits", None),
        ("SELECT ((((", [1]),
        ("SELECT COUNT(*) FROM visits WHERE cost < ?; SELECT 1", [1]),
        ("DROP TABLE visits -- ?", [1]),
    ],
)
def test_rejects_statements_that_cannot_be_answered(
    connection: dbapi.Connection, statement: str, parameters: Any
) -> None:
    with pytest.raises(dbapi.Error) as caught:
        connection.cursor().execute(statement, parameters)
    assert isinstance(caught.value, dbapi.ProgrammingError | dbapi.InterfaceError)


def test_many_parameters_leave_the_last_result(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    cursor.executemany("SELECT COUNT(*) AS n FROM visits WHERE cost < ?", [[1], [1000]])
    assert cursor.fetchall()[0][0] >= 5900


def test_a_spent_budget_is_an_operational_error(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "poor", SCHEMA, epsilon=0.01, delta=1e-6) as vault:
        vault.append(ROWS)
    with dbapi.connect(tmp_path / "poor", within=1) as exact, pytest.raises(dbapi.OperationalError) as caught:
        exact.cursor().execute("SELECT COUNT(*) AS n FROM t WHERE day < ?", [date(2026, 5, 7)])
    assert isinstance(caught.value.__cause__, tr.BudgetExceeded)


def test_closed_things_are_refused(folder: Path) -> None:
    connection = dbapi.connect(folder)
    cursor = connection.cursor()
    with pytest.raises(dbapi.Error, match="execute a statement first"):
        cursor.fetchone()
    with pytest.raises(dbapi.NotSupportedError):
        cursor.callproc("x")
    connection.commit()
    connection.rollback()
    connection.close()
    connection.close()
    with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
        cursor.execute("SELECT COUNT(*) FROM t")
    with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
        connection.cursor()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.fetchall()


def test_a_vault_that_is_absent_is_an_operational_error(tmp_path: Path) -> None:
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(tmp_path / "nothing")
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("http://127.0.0.1:9", "treering_x")


def test_an_open_vault_stays_open(folder: Path) -> None:
    with tr.Vault.open(folder) as vault:
        with dbapi.connect(vault) as connection:
            assert connection.cursor().execute("SELECT COUNT(*) AS n FROM visits").fetchall()[0][0] == 6000
        assert vault.size == 6000


def test_pandas_and_polars_read_statements(connection: dbapi.Connection) -> None:
    statement = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward"
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pd.read_sql(statement, connection)
    assert list(frame.columns) == ["ward", "n", "n_margin"]
    cursor = connection.cursor().execute(statement)
    assert pl.DataFrame(cursor).shape == frame.shape
    table = connection.cursor().execute(statement).fetch_arrow_table()
    assert isinstance(table, pa.Table)
    assert pl.read_database(statement, connection).shape == frame.shape
