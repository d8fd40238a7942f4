"""Publishing: tables are what SQL answers, of one moment, for the price that was shown; only released numbers leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import treering as tr
from treering.answer import Bill
from treering.errors import BudgetExceeded, Dearer, ParameterError, QueryError

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south"),
        "month": tr.integers(1, 12),
        "cost": tr.numbers(0, 500, step=0.5, edges=[0, 100]),
    }
)
STATEMENTS = {
    "by_ward": "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY ward ORDER BY ward",
    "late": "SELECT month, COUNT(*) FILTER (WHERE cost > 50) * 100.0 / COUNT(*) AS percent FROM t GROUP BY month",
}


def rows(number: int, first: int = 0) -> pa.Table:
    places = range(first, first + number)
    return pa.table(
        {
            "ward": [("north", "south")[place % 2] for place in places],
            "month": [place % 12 + 1 for place in places],
            "cost": [float(place % 200) for place in places],
        }
    )


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[tr.Vault]:
    with tr.Vault.create(tmp_path / "visits", SCHEMA, epsilon=4.0, delta=1e-6) as vault:
        vault.append(rows(6000))
        yield vault


def read(path: Path, name: str) -> pa.Table:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.sql(f"SELECT * FROM {name}").to_arrow_table()


def test_thirty_refreshes_are_what_sql_answers(vault: tr.Vault, tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    for number in range(30):
        price = vault.publish(f"duckdb:///{path}", STATEMENTS, dry_run=True)
        made = vault.publish(f"duckdb:///{path}", STATEMENTS)
        assert made.cost == pytest.approx(price.price.most)
        assert made.cost > 0
        for name, statement in STATEMENTS.items():
            assert vault.price_sql(statement).most == 0
            told, there = vault.sql(statement), read(path, name)
            assert there.select(told.column_names).to_pylist() == told.to_pylist()
            assert there.equals(made.tables[name].cast(there.schema))
        notes = read(path, "treering_notes")
        assert notes["rows"].to_pylist() == [vault.size] * 2
        assert notes["statement"].to_pylist() == list(STATEMENTS.values())
        vault.append(rows(100 + number, number))


def test_a_dry_run_asks_and_writes_nothing(vault: tr.Vault, tmp_path: Path) -> None:
    found = vault.publish(f"duckdb:///{tmp_path / 'out.duckdb'}", STATEMENTS, dry_run=True)
    assert (found.cost, dict(found.tables), vault.spent) == (0.0, {}, 0.0)
    assert found.price.most > 0
    assert not (tmp_path / "out.duckdb").exists()


def test_what_is_published_is_free_when_asked_again(vault: tr.Vault, tmp_path: Path) -> None:
    first = vault.publish(f"duckdb:///{tmp_path / 'out.duckdb'}", STATEMENTS)
    again = vault.publish(f"parquet:///{tmp_path / 'out'}", STATEMENTS)
    assert first.cost > again.cost == again.price.most == 0.0
    assert all(again.tables[name].equals(first.tables[name]) for name in STATEMENTS)


@pytest.mark.parametrize("kind", ["pmwg", "continual"])
def test_other_mechanisms_publish_counts(kind: str, tmp_path: Path) -> None:
    counts = {"by_ward": "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"}
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=4.0, delta=1e-6, mechanism=kind) as vault:
        vault.append(rows(6000))
        first = vault.publish(f"csv:///{tmp_path / 'out'}", counts)
        assert first.cost == pytest.approx(vault.spent)
        assert vault.publish(f"csv:///{tmp_path / 'out'}", counts).cost == 0.0


def test_a_wish_and_a_limit_hold_for_all_statements(vault: tr.Vault, tmp_path: Path) -> None:
    address = f"duckdb:///{tmp_path / 'out.duckdb'}"
    with pytest.raises(Dearer):
        vault.publish(address, STATEMENTS, bill=Bill(most=1e-9))
    assert vault.spent == 0.0
    found = vault.publish(address, {"by_ward": "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"}, within=150)
    assert max(found.tables["by_ward"]["n_margin"].to_pylist()) <= 150
    with pytest.raises((BudgetExceeded, tr.GuaranteeError)):
        vault.publish(address, {"by_ward": "SELECT ward, month, COUNT(*) AS n FROM t GROUP BY 1, 2"}, within=0.0001)


@pytest.mark.parametrize(
    ("statements", "error", "match"),
    [
        ({}, ParameterError, "must name a table"),
        (["SELECT COUNT(*) FROM t"], ParameterError, "must be a mapping"),
        ({"a b": "SELECT COUNT(*) FROM t"}, ParameterError, "letters, digits"),
        ({"a": "SELECT * FROM t"}, QueryError, "rows are private"),
        ({"a": "SELECT COUNT(*) FROM vsits"}, QueryError, "did you mean visits"),
        ({"a": "EXPLAIN SELECT COUNT(*) FROM t"}, QueryError, "without EXPLAIN"),
        ({"a": "SHOW TABLES"}, QueryError, "a SELECT about the rows"),
        ({"a": "SELECT COUNT(*) AS n, COUNT(*) AS n FROM t"}, QueryError, "other names for its columns"),
        ({"ok": "SELECT COUNT(*) FROM t", "a": "SELECT COUNT(*) AS n, 1 AS n_low FROM t"}, QueryError, "n_low"),
    ],
)
def test_rejects_statements_before_a_charge(
    statements: dict[str, str], error: type[Exception], match: str, vault: tr.Vault, tmp_path: Path
) -> None:
    with pytest.raises(error, match=match):
        vault.publish(f"duckdb:///{tmp_path / 'out.duckdb'}", statements)
    assert vault.spent == 0.0
    assert not (tmp_path / "out.duckdb").exists()


def test_rejects_address_before_a_charge(vault: tr.Vault, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        connection.execute("CREATE TABLE by_ward AS SELECT 1 AS x")
    with pytest.raises(ParameterError, match="must not name what others have made"):
        vault.publish(f"duckdb:///{tmp_path / 'out.duckdb'}", STATEMENTS)
    assert vault.spent == 0.0
