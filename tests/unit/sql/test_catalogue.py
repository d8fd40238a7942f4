"""The catalogue: what is asked about the table costs nothing and touches no rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from treering import dbapi
from treering.errors import QueryError
from treering.sql.catalogue import shown, tables
from treering.sql.split import split

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", missing=True),
        "urgent": tr.categories(False, True),
        "month": tr.integers(1, 12),
        "cost": tr.numbers(0, 500, step=0.01, edges=[0, 100]),
        "day": tr.dates("2026-01-01", "2026-12-31"),
    }
)


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tr.Vault]:
    place = tmp_path_factory.mktemp("catalogue") / "clinic"
    with tr.Vault.create(place, SCHEMA, epsilon=1.0, delta=1e-6, name="visits") as vault:
        yield vault


def listed(vault: tr.Vault, text: str) -> list[dict[str, Any]]:
    """The rows of a result; asking has cost nothing, and left no line on the ledger."""
    before = vault.status()["head"]
    assert vault.price_sql(text).most == 0.0
    found: list[dict[str, Any]] = vault.sql(text).to_pylist()
    assert (vault.spent, vault.status()["head"]) == (0.0, before)
    return found


@pytest.mark.parametrize("text", ["SHOW TABLES", "show tables;", "  -- all\nSHOW\tTABLES ;"])
def test_tables_are_shown(vault: tr.Vault, text: str) -> None:
    assert listed(vault, text) == [{"name": "visits"}]


@pytest.mark.parametrize(
    "text",
    [
        *("SHOW COLUMNS FROM visits", "show columns in Visits;", "SHOW COLUMNS FROM `visits`", 'DESCRIBE "visits"'),
        *("DESCRIBE t", "DESC visits", "DESCRIBE TABLE visits"),
    ],
)
def test_columns_are_shown_with_what_can_be_asked(vault: tr.Vault, text: str) -> None:
    found = listed(vault, text)
    assert [(each["column_name"], each["column_type"], each["is_nullable"]) for each in found] == [
        ("ward", "VARCHAR", "YES"),
        ("urgent", "BOOLEAN", "NO"),
        ("month", "BIGINT", "NO"),
        ("cost", "DOUBLE", "YES"),
        ("day", "DATE", "YES"),
    ]
    assert [each["column_comment"] for each in found] == [each.describe() for each in SCHEMA.attributes.values()]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT 1", [{"1": 1}]),
        ("SELECT 1 + 1 AS two, 'a' AS a", [{"two": 2, "a": "a"}]),
        ("SELECT version()", [{"version()": f"treering {tr.__version__}"}]),
        ("SELECT current_schema(), current_database()", [{"current_schema()": "main", "current_database()": "visits"}]),
        ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'", [{"table_name": "visits"}]),
        ("SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES", [{"table_name": "visits"}]),
        ("SELECT `table_name` FROM information_schema.`tables`", [{"table_name": "visits"}]),
        ("SELECT COUNT(*) AS n FROM information_schema.columns WHERE data_type = 'DATE'", [{"n": 1}]),
        (
            "WITH c AS (SELECT * FROM information_schema.columns) SELECT t.table_type, COUNT(*) AS n "
            "FROM information_schema.tables t JOIN c ON t.table_name = c.table_name GROUP BY 1",
            [{"table_type": "BASE TABLE", "n": 5}],
        ),
        (
            "SELECT column_name FROM information_schema.columns ORDER BY ordinal_position DESC LIMIT 1",
            [{"column_name": "day"}],
        ),
    ],
)
def test_selects_about_no_rows_are_answered(vault: tr.Vault, text: str, rows: list[dict[str, Any]]) -> None:
    assert listed(vault, text) == rows


def test_explain_of_them_says_that_nothing_is_released(vault: tr.Vault) -> None:
    (plan,) = listed(vault, "EXPLAIN SELECT 1")
    assert (plan["numbers"], plan["price"]) == (0, 0.0)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("SELECT COUNT(*) FROM vists", "no table 'vists'; did you mean visits"),
        ("SELECT COUNT(*) FROM zoo", "no table 'zoo'; there is visits"),
        ("SELECT COUNT(*) FROM clinic", "no table 'clinic'"),  # the folder's name: another one was given
        ("WITH x AS (SELECT ward FROM vists) SELECT ward, COUNT(*) FROM x GROUP BY ward", "did you mean visits"),
        ("DESCRIBE vists", "did you mean visits"),
        ("SHOW COLUMNS FROM zoo", "no table 'zoo'"),
        ("SHOW DATABASES", "SHOW TABLES, SHOW COLUMNS FROM x and DESCRIBE x are answered"),
        ("SHOW TABLES; DROP TABLE visits", "SHOW TABLES, SHOW COLUMNS"),
        ("DESCRIBE SELECT 1", "SHOW TABLES, SHOW COLUMNS"),
        ("SELECT COUNT(*) FROM information_schema.schemata", "has the tables 'tables' and 'columns'"),
        ("SELECT COUNT(*) FROM visits, information_schema.tables", "do not go into one statement"),
        ("SELECT nothing FROM information_schema.tables", "cannot be understood"),
        ("SELECT * FROM information_schema_tables", "no table 'information_schema_tables'"),
        ("SELECT * FROM duckdb_settings", "no table 'duckdb_settings'"),
        ("SELECT * FROM pg_catalog.pg_class", "no table 'pg_class'"),
        ("SELECT * FROM duckdb_settings()", "table functions are not answered"),
        ("SELECT getenv('HOME')", "GETENV cannot be answered"),
        ("SELECT COUNT(*)", "asks about no table"),
        ("SELECT ward", "asks about no table"),
        ("SELECT *", "asks about no table"),
        ("DROP TABLE visits", "only SELECT statements"),
    ],
)
def test_rejects_text_about_something_else(vault: tr.Vault, text: str, match: str) -> None:
    with pytest.raises(QueryError, match=match):
        vault.sql(text)


def test_the_table_has_its_name_and_a_short_one(vault: tr.Vault) -> None:
    for name in ("visits", "VISITS", '"visits"', "t", "T", "visits AS v"):
        assert len(vault.statement(f"SELECT COUNT(*) FROM {name}").items) == 1
    assert split("SELECT COUNT(*) FROM anything", SCHEMA).items


def test_limits_are_those_of_any_statement() -> None:
    with pytest.raises(QueryError, match="at most 65,536 are read"):
        split("SHOW TABLES" + " " * 70_000, SCHEMA)
    with pytest.raises(QueryError, match="nested too deeply"):
        split(f"SELECT {'(' * 60}1{')' * 60}", SCHEMA)
    with pytest.raises(QueryError, match="more than 64 tables"):
        split("SELECT 1 FROM " + ", ".join(f"information_schema.tables a{n}" for n in range(65)), SCHEMA)
    inner = "(SELECT MAX(b.table_type) FROM information_schema.tables b WHERE b.table_name = a.table_name)"
    many = ", ".join(f"{inner} AS c{number}" for number in range(17))
    with pytest.raises(QueryError, match="name columns of the outer ones"):
        split(f"SELECT {many} FROM information_schema.tables a", SCHEMA)


def test_public_tables_hold_the_schema_alone() -> None:
    found = tables(SCHEMA, None)
    assert list(found) == ["information_schema_tables", "information_schema_columns"]
    assert found["information_schema_tables"]["table_name"].to_pylist() == ["t"]
    assert found["information_schema_columns"].schema.field("ordinal_position").type == pa.int64()
    assert shown("DESCRIBE anything", None).startswith("SELECT column_name")


def test_drivers_ask_about_the_table(vault: tr.Vault) -> None:
    with dbapi.connect(vault) as connection:
        cursor = connection.cursor()
        assert cursor.execute("SHOW TABLES").fetchall() == [("visits",)]
        assert cursor.execute("SELECT 1").fetchone() == (1,)
        asked = "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND data_type = ?"
        assert cursor.execute(asked, ["visits", "DATE"]).fetchall() == [("day",)]
