"""Persons whose rows stay in an engine: flags and caps by its own statements, against the same rows in a vault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import treering as tr
from support.clinic import SCHEMA, SHARP, WARDS, first, matching, patients, visits
from support.engines import Stage

FRAME = visits(300)
ROWS = FRAME.append_column("id", pa.array(range(1, FRAME.num_rows + 1)))
WHOLE = "SELECT ward, COUNT(DISTINCT patient) AS n FROM v GROUP BY ward ORDER BY ward"


@pytest.fixture(autouse=True)
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def insert(file: Path, rows: pa.Table) -> str:
    """The address of a table with these rows, and those before."""
    with duckdb.connect(str(file)) as connection:
        connection.register("given", rows)
        connection.execute("CREATE TABLE IF NOT EXISTS visits AS SELECT * FROM given LIMIT 0")
        connection.execute("INSERT INTO visits SELECT * FROM given")
    return f"duckdb://{file}#visits"


def opened(place: Path, table: str, **options: Any) -> tr.Vault:
    given = {**SHARP, "person": "patient", "rows_per_person": 30, "table": table, "order": "id", **options}
    return tr.Vault.create(place, SCHEMA, **given)


@pytest.mark.parametrize("named", [str, int])
def test_persons_of_a_table_are_counted_where_they_are(named: type, tmp_path: Path) -> None:
    rows, file = ROWS, tmp_path / "rows.duckdb"
    if named is int:
        numbers = pa.array([int(name[1:]) for name in rows["patient"].to_pylist()])
        rows = rows.set_column(0, "patient", numbers)
    with opened(tmp_path / "vault", insert(file, rows.slice(0, 1500))) as vault:
        for end in (1500, 2500, rows.num_rows):
            if end > 1500:
                insert(file, rows.slice(vault.size, end - vault.size))
            assert vault.refresh() == end
            seen = rows.slice(0, end)
            answer = vault.ask("ward = 'eyes'", count="persons")
            assert (answer.count, answer.size) == (patients(seen, ward="eyes"), len(seen.column("patient").unique()))
            asked = [f"ward = '{ward}'" for ward in WARDS]
            found = [each.count for each in vault.ask_many(asked, per_person=3)]
            assert found == [matching(first(seen, 3), ward=ward).num_rows for ward in WARDS]
        told = vault.sql(WHOLE).to_pylist()
        assert [row["n"] for row in told] == [patients(rows, ward=ward) for ward in sorted(WARDS)]
    with tr.Vault.open(tmp_path / "vault") as again:
        assert again.ask("ward = 'eyes'", count="persons") == answer
        sums = again.sql("SELECT SUM(cost) AS s FROM v", per_person=2)["s"][0].as_py()
        assert sums == pytest.approx(sum(first(rows, 2).column("cost").to_pylist()), abs=5)


def test_a_person_beyond_the_limit_refuses_a_refresh(tmp_path: Path) -> None:
    with opened(tmp_path / "vault", insert(tmp_path / "rows.duckdb", ROWS), rows_per_person=5) as vault:
        with pytest.raises(tr.DataError, match="would have more than 5 rows, which is rows_per_person"):
            vault.refresh()
        assert vault.size == 0


def test_rows_of_no_person_refuse_a_refresh(tmp_path: Path) -> None:
    nobody = ROWS.slice(0, 3).set_column(0, "patient", pa.array(["p1", None, "p2"]))
    with opened(tmp_path / "vault", insert(tmp_path / "rows.duckdb", nobody)) as vault:
        with pytest.raises(tr.DataError, match="1 row have no person"):
            vault.refresh()
        assert vault.size == 0


def test_rejects_person_columns_that_name_nobody(tmp_path: Path) -> None:
    floats = ROWS.set_column(0, "patient", pa.array([float(row) for row in range(ROWS.num_rows)]))
    table = insert(tmp_path / "rows.duckdb", floats)
    with pytest.raises(tr.DataError, match="a person is an integer or a text"):
        opened(tmp_path / "vault", table)
    with pytest.raises(tr.DataError, match="no column 'whose'"):
        opened(tmp_path / "vault", table, person="whose")


def test_persons_are_counted_by_every_engine(stage: Stage, tmp_path: Path) -> None:
    begun, rest = ROWS.slice(0, 2000), ROWS.slice(2000)
    stage.create(begun)
    given = {**SHARP, "person": "patient", "rows_per_person": 30, "table": stage.source, "order": "id"}
    with tr.Vault.create(tmp_path / "vault", SCHEMA, **given) as vault:
        vault.refresh()
        assert vault.ask("ward = 'eyes'", count="persons").count == patients(begun, ward="eyes")
        vault.sql(WHOLE, per_person=3)
        stage.add(rest)
        vault.refresh()
        assert vault.ask("ward = 'eyes'", count="persons").count == patients(ROWS, ward="eyes")
        assert vault.sql(WHOLE)["n"].to_pylist() == [patients(ROWS, ward=ward) for ward in sorted(WARDS)]
        found = vault.sql("SELECT ward, COUNT(*) AS n FROM v GROUP BY ward ORDER BY ward", per_person=3)
        assert found["n"].to_pylist() == [matching(first(ROWS, 3), ward=ward).num_rows for ward in sorted(WARDS)]
