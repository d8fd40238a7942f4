"""The command line over tables that stay in real engines: create, refresh, status, and every refusal."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from support.cli import refused, treering
from support.engines import DuckDB, Files, Postgres, PostgresStage, Stage
from treering.domain.attribute import categories, integers
from treering.domain.schema import Schema

SCHEMA = Schema({"late": categories("no", "yes"), "month": integers(1, 12)})


@pytest.fixture(autouse=True)
def _own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    SCHEMA.save(tmp_path / "flights.toml")


@pytest.fixture(params=["duckdb", "parquet", "csv", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """A table of 30,000 flights, with the numbers 1 to 30,000; one in four is late."""
    made: Stage
    match request.param:
        case "duckdb":
            made = DuckDB(tmp_path)
        case "postgres":
            made = PostgresStage(request.getfixturevalue("postgres"), "cli_rows")
        case kind:
            made = Files(tmp_path, kind)
    made.create(flights(1, 30_001))
    return made


@pytest.fixture
def file(tmp_path: Path) -> DuckDB:
    """The same in DuckDB, for what does not depend on the engine."""
    made = DuckDB(tmp_path)
    made.create(flights(1, 30_001))
    return made


def flights(first: int, past: int, month: int | None = None) -> pa.Table:
    numbers = range(first, past)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "late": ["yes" if number % 4 == 0 else "no" for number in numbers],
            "month": pa.array([month or number % 12 + 1 for number in numbers], pa.int32()),
        }
    )


def create_arguments(folder: Path, address: str, *more: object, name: str = "v") -> tuple[object, ...]:
    promise = ("--schema", folder / "flights.toml", "--epsilon", 10, "--beta", 1e-9, "--mechanism", "continual")
    return ("create", folder / name, *promise, "--table", address, *more)


# -- what works --------------------------------------------------------------------------------------------------------


def test_rows_stay_and_are_taken_in_from_the_command_line(tmp_path: Path, table: Stage) -> None:
    vault = tmp_path / "v"
    made = treering(*create_arguments(tmp_path, table.source, "--order", "id", "--json")).json
    assert (made["table"], made["mechanisms"]) == (table.source, ["continual"])
    assert treering("status", vault, "--json").json["size"] == 0
    first = treering("refresh", vault, "--json").json
    assert first == {"table": table.source, "rows": 30_000, "dropped": 0, "size": 30_000}
    again = treering("refresh", vault, "--json").json
    assert again == {"table": table.source, "rows": 0, "dropped": 0, "size": 30_000}
    table.add(flights(30_001, 36_001))
    assert treering("refresh", vault, "--json").json == {**first, "rows": 6_000, "size": 36_000}
    asked = treering("ask", vault, "late = 'yes'", "--json").json
    assert asked["size"] == 36_000
    assert abs(asked["value"] - 0.25) <= asked["error"] < 0.05
    status = treering("status", vault, "--json").json
    assert (status["table"], status["order"], status["batches"]) == (table.source, "id", 2)
    assert treering("verify", vault).code == 0
    (tmp_path / "rows.csv").write_text("late,month\nno,1\n")
    line = refused(treering("append", vault, tmp_path / "rows.csv"))
    assert line.endswith(f"stay in {table.source}: add them there, then `treering refresh`")
    assert treering("status", vault, "--json").json == status


def test_what_people_see(tmp_path: Path, file: DuckDB) -> None:
    vault = tmp_path / "v"
    made = treering(*create_arguments(tmp_path, file.source)).out.splitlines()
    assert made[-2:] == [f"Rows stay in {file.source}.", f"Next: treering refresh {vault}"]
    shown = treering("refresh", vault).out.splitlines()
    assert shown[0].split() == ["table", "rows", "dropped", "size"]
    assert shown[2].split() == [file.source, "30,000", "0", "30,000"]
    assert shown[3] == f"{vault} has 30,000 rows."
    status = treering("status", vault).out.splitlines()
    assert status[0] == "30,000 rows in 1 batch; 24 cells."
    assert status[1] == f"Rows stay in {file.source}, by id; `treering refresh` takes in new ones."


def test_a_vault_without_a_table_has_none_in_its_json(tmp_path: Path) -> None:
    made = treering("create", tmp_path / "v", "--schema", tmp_path / "flights.toml", "--epsilon", 1, "--json").json
    status = treering("status", tmp_path / "v", "--json").json
    assert (made["table"], status["table"], status["order"]) == (None, None, None)


def test_another_order_column(tmp_path: Path, file: DuckDB) -> None:
    rows = flights(1, 101)
    file.create(rows.rename_columns(["number", "late", "month"]))
    assert "has no column 'id'" in refused(treering(*create_arguments(tmp_path, file.source)))
    assert treering(*create_arguments(tmp_path, file.source, "--order", "number")).code == 0
    assert treering("refresh", tmp_path / "v", "--json").json["rows"] == 100
    assert treering("status", tmp_path / "v", "--json").json["order"] == "number"


def test_a_password_is_read_each_time_and_kept_nowhere(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresStage(postgres, "cli_locked").create(flights(1, 1001))
    lock_out(postgres, "locked", "hunter2", "cli_locked")
    vault, address = tmp_path / "v", postgres.address("cli_locked", user="locked")
    create = create_arguments(tmp_path, address)
    for wrong in (None, "hunter3"):
        if wrong is not None:
            monkeypatch.setenv("PGPASSWORD", wrong)
        line = refused(treering(*create), code=1)
        assert "password" in line
        assert "hunter" not in line
        assert not vault.exists()
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    assert treering(*create).code == 0
    assert treering("refresh", vault, "--json").json["rows"] == 1000
    monkeypatch.delenv("PGPASSWORD")
    refused(treering("refresh", vault), code=1)
    (tmp_path / "pgpass").write_text("*:*:*:locked:hunter2\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    assert treering("refresh", vault, "--json").json == {"table": address, "rows": 0, "dropped": 0, "size": 1000}
    shown = [treering(name, vault, flag).out for name in ("status", "ledger") for flag in ("--json",)]
    kept = [path.read_bytes() for path in [*vault.rglob("*"), *(tmp_path / "state").rglob("*")] if path.is_file()]
    assert len(kept) >= 3
    assert all(b"hunter" not in each for each in [*kept, *(text.encode() for text in shown)])


def lock_out(server: Postgres, user: str, password: str, table: str) -> None:
    """A user who needs a password, once the server has read its configuration again."""
    server.execute(f"CREATE USER {user} PASSWORD '{password}'", f"GRANT SELECT ON {table} TO {user}")
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text()}")
    server.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            server.connect(user).close()
        except psycopg.OperationalError:
            return
        time.sleep(0.05)
    pytest.fail("the server still lets the user in without a password")


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_row_that_came_late_is_refused(tmp_path: Path, table: Stage) -> None:
    """The table has a row below its watermark that was not there before."""
    table.create(pa.concat_tables([flights(1, 50), flights(51, 101)]))
    assert treering(*create_arguments(tmp_path, table.source)).code == 0
    assert treering("refresh", tmp_path / "v", "--json").json["size"] == 99
    before = treering("status", tmp_path / "v", "--json").json
    table.add(pa.concat_tables([flights(50, 51), flights(101, 111)]))
    line = refused(treering("refresh", tmp_path / "v", "--json"), code=1)
    assert "the table has gained 1 of the 99 rows up to id = 100" in line
    assert treering("status", tmp_path / "v", "--json").json == before
    table.remove(50)
    assert treering("refresh", tmp_path / "v", "--json").json["rows"] == 10
    table.remove(7)
    assert "has lost 1 of the 109 rows" in refused(treering("refresh", tmp_path / "v"), code=1)


def test_rows_that_do_not_fit_are_refused_or_dropped(tmp_path: Path, table: Stage) -> None:
    assert treering(*create_arguments(tmp_path, table.source)).code == 0
    table.add(flights(30_001, 30_011, month=77))
    line = refused(treering("refresh", tmp_path / "v"))
    assert "column 'month': 10 rows" in line
    assert "77" not in line.replace(str(table.source), "")
    assert treering("status", tmp_path / "v", "--json").json["size"] == 0
    taken = treering("refresh", tmp_path / "v", "--on-invalid", "drop", "--json").json
    assert taken == {"table": table.source, "rows": 30_000, "dropped": 10, "size": 30_000}
    assert "10 rows did not fit and were dropped" in treering("status", tmp_path / "v").out


def test_a_wrong_order_column_makes_no_vault(tmp_path: Path, table: Stage) -> None:
    for order, says in (("day", "the table has no column 'day' among its "), ("late", "'late' has type")):
        assert says in refused(treering(*create_arguments(tmp_path, table.source, "--order", order)))
    assert not (tmp_path / "v").exists()
    assert treering(*create_arguments(tmp_path, table.source, "--order", "month")).code == 0
    assert "'month' repeats values" in refused(treering("refresh", tmp_path / "v"), code=1)


def test_a_table_that_is_not_there_makes_no_vault(tmp_path: Path, postgres: Postgres, file: DuckDB) -> None:
    absent = {
        postgres.address("cli_nowhere"): "table",
        file.source.replace("#rows", "#nowhere"): "table",
        f"duckdb://{tmp_path}/nowhere.duckdb#rows": f"there is no DuckDB file {tmp_path}/nowhere.duckdb",
        f"parquet://{tmp_path}/nowhere": f"there is no file or folder of *.parquet at {tmp_path}/nowhere",
    }
    for address, says in absent.items():
        assert says in refused(treering(*create_arguments(tmp_path, address)), code=1)
    assert not (tmp_path / "v").exists()


def test_a_server_that_cannot_be_reached_makes_no_vault(tmp_path: Path) -> None:
    address = f"postgresql://reader@/air?host={tmp_path}/nowhere&connect_timeout=5#flights"
    line = refused(treering(*create_arguments(tmp_path, address)), code=1)
    assert f"cannot open the database at {address}" in line
    assert not (tmp_path / "v").exists()


def test_an_engine_that_goes_away_loses_nothing(tmp_path: Path, file: DuckDB) -> None:
    assert treering(*create_arguments(tmp_path, file.source)).code == 0
    assert treering("refresh", tmp_path / "v").code == 0
    file.path.rename(tmp_path / "elsewhere.duckdb")
    assert "there is no DuckDB file" in refused(treering("refresh", tmp_path / "v"), code=1)
    (tmp_path / "rows.csv").write_text("late,month\nno,1\n")
    assert "treering refresh" in refused(treering("append", tmp_path / "v", tmp_path / "rows.csv"))
    for name in ("status", "ledger", "verify"):
        assert treering(name, tmp_path / "v").code == 0
    (tmp_path / "elsewhere.duckdb").rename(file.path)
    file.add(flights(30_001, 30_011))
    assert treering("refresh", tmp_path / "v", "--json").json["rows"] == 10


def test_a_second_vault_on_one_table_is_refused(tmp_path: Path, file: DuckDB) -> None:
    assert treering(*create_arguments(tmp_path, file.source)).code == 0
    line = refused(treering(*create_arguments(tmp_path, file.source, name="other")), code=1)
    assert "two promises about the same rows" in line
