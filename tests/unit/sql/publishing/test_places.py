"""Where tables are published: a refresh replaces what was published before, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from treering.errors import EngineError, ParameterError
from treering.sql.publishing.places import place_of
from treering.sql.publishing.tables import NOTES, noted

Read = Callable[[Path, str], pa.Table]


def tables(*names: str, number: int = 1) -> dict[str, pa.Table]:
    """Tables of these names, with the notes."""
    made = {name: pa.table({"ward": ["north", None, "=x"], "n": [number, 2, 3]}) for name in names}
    return {**made, NOTES: noted(made, dict.fromkeys(names, "SELECT …"), "epsilon 1", 10)}


def of_duckdb(path: Path, name: str) -> pa.Table:
    with duckdb.connect(str(path)) as connection:
        return connection.sql(f'SELECT * FROM "{name}"').to_arrow_table()


def of_parquet(path: Path, name: str) -> pa.Table:
    return parquet.read_table(path / "current" / f"{name}.parquet")


def of_csv(path: Path, name: str) -> pa.Table:
    return csv.read_csv(path / "current" / f"{name}.csv")


KINDS: dict[str, Read] = {"duckdb": of_duckdb, "parquet": of_parquet, "csv": of_csv}


@pytest.mark.parametrize("kind", KINDS)
def test_a_refresh_replaces_what_was_published(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    place, read = place_of(f"{kind}:///{path}"), KINDS[kind]
    place.check(["first", "second"])
    place.write(tables("first", "second"))
    assert read(path, "second")["n"].to_pylist() == [1, 2, 3]
    assert read(path, NOTES)["table_name"].to_pylist() == ["first", "second"]
    place.check(["second", "third"])
    place.write(tables("second", "third", number=7))
    assert read(path, "second")["n"].to_pylist() == read(path, "third")["n"].to_pylist() == [7, 2, 3]
    with pytest.raises((duckdb.CatalogException, FileNotFoundError)):
        read(path, "first")


def test_a_spreadsheet_finds_no_formula(tmp_path: Path) -> None:
    place_of(f"csv:///{tmp_path / 'out'}").write(tables("a"))
    assert of_csv(tmp_path / "out", "a")["ward"].to_pylist() == ["north", "", "'=x"]


def test_a_folder_has_no_old_files(tmp_path: Path) -> None:
    place = place_of(f"parquet:///{tmp_path / 'out'}")
    for number in range(4):
        place.write(tables("a", number=number))
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["current", "version-4"]
    assert (tmp_path / "out" / "current").readlink() == Path("version-4")


def test_rejects_names_of_what_others_have_made_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE Mine AS SELECT 1 AS x")
        connection.execute("CREATE VIEW seen AS SELECT 1 AS x")
    place = place_of(f"duckdb:///{path}")
    for name in ("mine", "seen"):
        with pytest.raises(ParameterError, match="must not name what others have made"):
            place.check([name])
        with pytest.raises(ParameterError, match="must not name what others have made"):
            place.write(tables(name))
    place.write(tables("a"))
    assert of_duckdb(path, "Mine").num_rows == 1


def test_rejects_address_of_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    place = place_of(f"csv:///{tmp_path}")
    with pytest.raises(ParameterError, match=r"a folder of its own: .* has 'notes.txt'"):
        place.check(["a"])
    with pytest.raises(ParameterError, match=r"a folder of its own: .* has 'notes.txt'"):
        place.write(tables("a"))
    with pytest.raises(ParameterError, match="is a file"):
        place_of(f"csv:///{tmp_path / 'notes.txt'}").check(["a"])


def test_rejects_address_of_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("nothing of DuckDB's")
    with pytest.raises(EngineError, match="publishing to"):
        place_of(f"duckdb:///{tmp_path / 'x.duckdb'}").check(["a"])


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("sqlite:///x.db", "must be duckdb"),
        ("duckdb://", "must be duckdb"),
        ("duckdb:///x.duckdb#table", "must be duckdb"),
        ("parquet://host/folder", "must be duckdb"),
        ("csv://[::1", "must be duckdb"),
        (7, "must be duckdb"),
        ("duckdb:///nowhere/at/all.duckdb", "no folder that exists"),
        ("postgresql://me:secret@host/db", "must hold no password"),
        ("postgresql://me@host/db?password=secret", "must hold no password"),
    ],
)
def test_rejects_address_of_no_place(address: str, match: str) -> None:
    with pytest.raises(ParameterError, match=match) as refusal:
        place_of(address)
    assert "secret" not in str(refusal.value)


def test_a_server_that_is_absent_is_an_engines_failure() -> None:
    with pytest.raises(EngineError, match="publishing to PostgreSQL"):
        place_of("postgresql://nobody@127.0.0.1:1/db").check(["a"])
