"""Publishing to PostgreSQL: one transaction, readers are not held up, views and rights stay, others' tables too."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr
from support.engines import USER, Postgres
from treering.errors import ParameterError

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south; DROP", missing=True),
        "urgent": tr.categories(False, True),
        "day": tr.dates("2026-01-01", "2026-01-03"),
        "cost": tr.numbers(0, 500, step=0.5, edges=[0, 100]),
    }
)
STATEMENTS = {
    "by_ward": 'SELECT ward, urgent, COUNT(*) AS n, AVG(cost) AS "mean cost" FROM t GROUP BY 1, 2 ORDER BY 1, 2',
    "by_day": "SELECT day, COUNT(*) AS n, SUM(cost) / 0 AS nothing FROM t GROUP BY day ORDER BY day",
}
ROWS = [
    {"ward": ward, "urgent": urgent, "day": f"2026-01-0{day}", "cost": 20.0 * day}
    for ward in ("north", "south; DROP", None)
    for urgent in (False, True)
    for day in (1, 2, 3)
]


def test_refreshes_are_what_sql_answers(postgres: Postgres, tmp_path: Path) -> None:
    address = f"postgresql://{USER}@/postgres?host={postgres.folder}#reports"
    postgres.execute("DROP SCHEMA IF EXISTS reports CASCADE", "CREATE SCHEMA reports")
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=20.0, delta=1e-6) as vault, postgres.connect() as reader:
        for number in range(30):
            vault.append(ROWS * 20)
            made = vault.publish(address, STATEMENTS)
            for name, table in made.tables.items():
                found = reader.execute(f"SELECT * FROM reports.{name}".encode())
                assert [each.name for each in found.description or ()] == table.column_names
                assert found.fetchall() == [tuple(row.values()) for row in table.to_pylist()]
            rows = reader.execute("SELECT DISTINCT rows FROM reports.treering_notes").fetchall()
            assert rows == [(vault.size,)]
            if number == 0:
                reader.execute("CREATE VIEW reports.seen AS SELECT ward, n FROM reports.by_ward")
        shown = made.tables["by_ward"]
        seen = reader.execute("SELECT ward, n FROM reports.seen").fetchall()
        assert seen == list(zip(shown["ward"].to_pylist(), shown["n"].to_pylist(), strict=True))


def test_readers_see_the_old_tables_until_the_new_ones_are_whole(postgres: Postgres, tmp_path: Path) -> None:
    address = f"postgresql://{USER}@/postgres?host={postgres.folder}#turns"
    postgres.execute("DROP SCHEMA IF EXISTS turns CASCADE", "CREATE SCHEMA turns")
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=20.0, delta=1e-6) as vault, postgres.connect() as reader:
        vault.append(ROWS * 20)
        vault.publish(address, STATEMENTS)
        with reader.transaction():
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = reader.execute("SELECT n FROM turns.by_day").fetchall()
            vault.append(ROWS * 20)
            vault.publish(address, STATEMENTS)
            assert reader.execute("SELECT n FROM turns.by_day").fetchall() == before
            assert reader.execute("SELECT DISTINCT rows FROM turns.treering_notes").fetchall() == [(len(ROWS) * 20,)]
        assert reader.execute("SELECT DISTINCT rows FROM turns.treering_notes").fetchall() == [(len(ROWS) * 40,)]
        vault.publish(address, {"by_day": "SELECT day, COUNT(*) AS rows_of_day FROM t GROUP BY day"})
        columns = reader.execute("SELECT * FROM turns.by_day").description or ()
        assert [each.name for each in columns][:2] == ["day", "rows_of_day"]
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'turns' ORDER BY 1"
        assert reader.execute(tables.encode()).fetchall() == [("by_day",), ("treering_notes",)]


def test_rejects_statements_that_others_have_made_tables_for(postgres: Postgres, tmp_path: Path) -> None:
    address = f"postgresql://{USER}@/postgres?host={postgres.folder}#others"
    postgres.execute(
        "DROP SCHEMA IF EXISTS others CASCADE", "CREATE SCHEMA others", "CREATE TABLE others.by_day (x int)"
    )
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=20.0, delta=1e-6) as vault:
        vault.append(ROWS * 20)
        with pytest.raises(ParameterError, match="must not name what others have made there: by_day"):
            vault.publish(address, STATEMENTS)
        assert vault.spent == 0.0
