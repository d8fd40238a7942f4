"""What no rows should be is refused by the name of its column, at every door: nothing is taken, charged or quoted."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import treering as tr
from support.engines import Embedded, Postgres, Stage, cells

BEYOND = 2.0**53 + 2
SECRET = "s3cr3t"


@pytest.fixture(autouse=True)
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def rows(column: pa.Array) -> pa.Table:
    """Rows of one column, and an order."""
    return pa.table({"id": pa.array(range(len(column)), pa.int64()), "x": column})


def refusal(store: Stage, attribute: Any, table: pa.Table) -> str:
    """What is said of rows that are refused."""
    store.create(table)
    with pytest.raises(tr.DataError) as caught:
        store.database(tr.Schema({"x": attribute}))
    assert caught.value.column == "x" or "column 'x'" in str(caught.value)
    return "".join(traceback.format_exception(caught.value))


# -- floats beyond 2^53, of which no integer is known ------------------------------------------------------------------

LARGE = pa.array([BEYOND, -BEYOND, 2.0**63, 1e300, 1.0], pa.float64())


def test_integers_as_floats_beyond_2_53_lie_outside_wherever_they_are_counted(store: Stage) -> None:
    """A range of integers lies within ±2^53, so they are outside of it whichever integer they were."""
    store.create(rows(LARGE))
    database = store.database(tr.Schema({"x": tr.integers(0, 2, strict=False)}))
    assert cells(database._rows) == {1: 1, 3: 1, 4: 3}


def test_rejects_integers_as_floats_beyond_2_53_where_the_range_is_strict(store: Stage) -> None:
    said = refusal(store, tr.integers(0, 2, strict=True), rows(LARGE))
    assert "integers 0 to 2" in said
    assert not any(word in said for word in ("9007199254740994", "1e+300", "1e300", "9.007"))


def test_rejects_floats_for_a_list_of_integers(store: Stage) -> None:
    """There the nearest integer might be on the list."""
    if store.name == "csv":
        pytest.skip("a CSV file has no types: a text is read as the integer that it is")
    said = refusal(store, tr.categories(2**53, 2**53 + 1, strict=False), rows(LARGE))
    assert "the schema wants int" in said


# -- columns of another type -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        (tr.categories(True, False, strict=False), pa.array(["true", SECRET, "0", None])),
        (tr.integers(0, 9, strict=False), pa.array(["1", SECRET])),
        (tr.bins([0, 9], strict=False), pa.array([True, False])),
        (tr.categories("1", "2", strict=False), pa.array([1, 2])),
        (tr.dates("2013-01-01", "2013-12-31"), pa.array([20130101, 20130102])),
    ],
    ids=["booleans as text", "integers as text", "booleans as numbers", "texts as numbers", "dates as numbers"],
)
def test_rejects_a_column_of_another_type(store: Stage, attribute: Any, column: pa.Array) -> None:
    if store.name == "csv":
        pytest.skip("a CSV file has no types: the next test")
    assert SECRET not in refusal(store, attribute, rows(column)).split("DataError")[-1]


def test_booleans_as_text_of_a_csv_file_are_read_as_what_they_say(store: Stage) -> None:
    if store.name != "csv":
        pytest.skip("other tables have types: the test before")
    store.create(rows(pa.array(["true", "F", "no boolean", "", None, "0"])))
    found = cells(store.database(tr.Schema({"x": tr.categories(True, False, strict=False)}))._rows)
    assert found == {0: 1, 1: 2, 3: 3}


def test_rejects_a_column_that_changes_its_type_between_appends() -> None:
    """(Of an engine: ``test_engines_growth.py``.)"""
    store = Embedded()
    store.create(rows(pa.array([1, 2])))
    database = store.database(tr.Schema({"x": tr.integers(0, 9, strict=False)}))
    for column in (pa.array(["1"]), pa.array([True]), pa.array([[1]])):
        with pytest.raises(tr.DataError, match="column 'x' has Arrow type") as caught:
            database.append(rows(column))
        assert caught.value.column == "x"
        assert database.size == 2
    assert database.append(rows(pa.array([3.0, 2.5]))) == 4  # Floats hold integers.


# -- a lens that does not evaluate -------------------------------------------------------------------------------------


def test_a_lens_that_does_not_evaluate_costs_nothing_in_duckdb(tmp_path: Path) -> None:
    file = tmp_path / "rows.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT i AS id, i::VARCHAR AS x FROM range(100) r(i)")
        connection.execute(
            f"CREATE VIEW rows AS SELECT id, CASE WHEN id = 7 THEN error('{SECRET}') ELSE x END AS x FROM kept"
        )
    check_uncharged(tmp_path / "vault", f"duckdb://{file}#rows")


def test_a_lens_that_does_not_evaluate_costs_nothing_in_postgresql(tmp_path: Path, postgres: Postgres) -> None:
    postgres.execute(
        "DROP VIEW IF EXISTS torn",
        "DROP TABLE IF EXISTS whole",
        "CREATE TABLE whole (id bigint PRIMARY KEY, x text)",
        "INSERT INTO whole SELECT i, i::text FROM generate_series(0, 99) i",
        f"CREATE VIEW torn AS SELECT id, CASE WHEN id = 7 THEN ('{SECRET}' || x)::int::text ELSE x END AS x FROM whole",
    )
    check_uncharged(tmp_path / "vault", postgres.address("torn"))


def check_uncharged(place: Path, address: str) -> None:
    """A question whose statement fails is refused, names no value, and leaves ledger and account as they were."""
    schema = tr.Schema({"x": tr.categories("1", "2", strict=False)})
    with tr.Vault.create(place, schema, 10.0, 1e-6, table=address) as vault:
        assert vault.refresh() == 100
        before = vault.status()
        with pytest.raises(tr.EngineError) as caught:
            vault.ask("x = '1'")
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert vault.status() == before
