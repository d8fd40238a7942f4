"""Tables at addresses: what is read from files, and where DuckDB may spill."""

from __future__ import annotations

import atexit
import gc
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treering.domain.attribute import categories, integers
from treering.domain.schema import Schema
from treering.errors import EngineError
from treering.trusted.engines import spilling
from treering.trusted.engines.addresses import Address, _files, _plain
from treering.trusted.engines.spelling import Relation
from treering.trusted.engines.spilling import Spilling

SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})


# -- what is read ------------------------------------------------------------------------------------------------------


def rows_in(relation: Relation, rows: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = relation.connection.fetch(f"SELECT * FROM {rows or relation.rows} AS t").to_pylist()
    return found


def rows_at(address: str) -> list[dict[str, Any]]:
    with Address.parse(address).open(SCHEMA, "id") as relation:
        return rows_in(relation)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A DuckDB file with a table of one row in each of two schemas."""
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 2 AS id")
    return tmp_path / "rows.duckdb"


def test_a_table_of_a_file_is_read_only_and_the_file_is_free_afterwards(file: Path) -> None:
    assert rows_at(f"duckdb://{file}#t") == [{"id": 1}]
    assert rows_at(f"duckdb://{file}#s.t") == [{"id": 2}]
    with Address.parse(f"duckdb://{file}#t").open(SCHEMA, "id") as relation:
        connection: Any = relation.connection
        with pytest.raises(duckdb.Error, match="read-only"):
            connection._connection.execute("INSERT INTO t VALUES (3)")
        setting = "SELECT current_setting('autoinstall_known_extensions') AS allowed"
        assert connection.fetch(setting).to_pylist() == [{"allowed": False}]
    with pytest.raises(duckdb.Error, match="closed"):
        connection.fetch("SELECT 1")
    with duckdb.connect(str(file)) as writing:
        writing.execute("INSERT INTO t VALUES (4)")


def test_what_is_not_there_is_said(file: Path) -> None:
    for address, problem in (
        (f"duckdb://{file}#u", f"there is no table u in the database at duckdb://{file}#u"),
        (f"duckdb://{file}#s.u", "there is no table s.u in the database"),
        (f"duckdb://{file}.gone#t", "there is no DuckDB file"),
        (f"duckdb://{file.parent}#t", "there is no DuckDB file"),
    ):
        with pytest.raises(EngineError, match=problem):
            rows_at(address)
    assert not Path(f"{file}.gone").exists()
    file.write_text("no database")
    with pytest.raises(EngineError, match=f"cannot open the database at duckdb://{file}#t: .") as caught:
        rows_at(f"duckdb://{file}#t")
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


def test_an_engine_that_fails_without_a_word_is_named_by_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> Any:
        raise ConnectionError

    monkeypatch.setattr(psycopg, "connect", failing)
    with pytest.raises(EngineError, match="cannot open the database at postgresql://host/db#t: ConnectionError"):
        rows_at("postgresql://host/db#t")


def test_a_server_is_asked_for_a_connection_that_only_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def connect(**given: Any) -> Any:
        asked.update(given)
        raise ConnectionError

    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.setattr(spilling.SPILLING, "folder", lambda: pytest.fail("nothing of a server's is spilled here"))
    with pytest.raises(EngineError, match="cannot open"):
        rows_at("postgresql://me@host:5433/db?sslmode=require#s.t")
    assert asked == {
        "dbname": "db",
        "options": "-c default_transaction_read_only=on",
        "autocommit": True,
        "port": 5433,
        "host": "host",
        "user": "me",
        "sslmode": "require",
    }


def test_files_of_a_folder_and_of_those_below_in_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c.parquet", "month=3/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert _files(str(tmp_path), "csv") == [str(tmp_path / name) for name in ("a.csv", "b.csv", "month=3/d.csv")]
    assert _files(str(tmp_path / "c.parquet"), "csv") == [str(tmp_path / "c.parquet")]
    for place, ending in ((tmp_path / "gone", "csv"), (tmp_path / "month=3", "parquet")):
        with pytest.raises(EngineError, match=rf"there is no file or folder of \*\.{ending} at {place}"):
            _files(str(place), ending)


def test_the_names_of_folders_are_no_columns(tmp_path: Path) -> None:
    (tmp_path / "month=3").mkdir()
    pq.write_table(pa.table({"id": [1], "origin": ["JFK"]}), tmp_path / "month=3" / "a.parquet")
    assert rows_at(f"parquet://{tmp_path}") == [{"id": 1, "origin": "JFK"}]


def test_types_that_parquet_does_not_tell_apart() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())):
        assert _plain(kind) == pa.string()
    assert _plain(pa.dictionary(pa.int8(), pa.int16())) == pa.int16()
    for kind in (pa.int8(), pa.binary(), pa.large_binary(), pa.timestamp("us")):
        assert _plain(kind) == kind


def test_an_empty_field_is_null_and_a_quoted_one_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,origin,note\n1,"",x\n2,,7\n3,"a ""b"", c",\n')
    assert rows_at(f"csv://{tmp_path}") == [
        {"id": "1", "origin": "", "note": "x"},
        {"id": "2", "origin": None, "note": "7"},
        {"id": "3", "origin": 'a "b", c', "note": None},
    ]


# -- intervals of order values over several files ----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with the order values 0 to 9, 10 to 19, 20 to 29, and an empty one."""
    for name, start in (("b", 0), ("a", 10), ("it's", 20)):
        pq.write_table(pa.table({"id": range(start, start + 10)}), tmp_path / f"{name}.parquet", row_group_size=4)
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "d.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("after", "last", "cut"),
    [
        (None, None, []),
        (-1, 29, []),
        (None, 19, []),
        (9, 19, []),
        (9, None, []),
        (10, 19, ["a"]),
        (9, 18, ["a"]),
        (5, 25, ["b", "it''s"]),
        (12, 15, ["a"]),
        (29, None, None),
        (None, -1, None),
    ],
)
def test_only_files_of_which_a_part_is_meant_are_read_with_a_condition(
    folder: Path, after: int | None, last: int | None, cut: list[str] | None
) -> None:
    with Address.parse(f"parquet://{folder}").open(SCHEMA, "id") as relation:
        rows = relation.within('"id"', after, last)
        found = sorted(line["id"] for line in rows_in(relation, rows))
    low, high = -1 if after is None else after, 29 if last is None else last
    assert found == [number for number in range(30) if low < number <= high]
    assert sorted(_cut(rows)) == (["a", "b", "d", "it''s"] if cut is None else cut)


def _cut(rows: str) -> list[str]:
    """The files that are read with a condition."""
    found = re.search(r"\(SELECT \* FROM read_parquet\(\[([^]]*)\][^)]*\) AS f WHERE", rows)
    return [] if found is None else [Path(path).stem for path in found[1].strip("'").split("', '")]


COLUMNS = {"null": pa.array([1, None], pa.int64()), "real": pa.array([1.0, 2.0]), "text": pa.array(["1", "2"])}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_files_whose_order_values_are_not_known_are_read_with_a_condition(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"id": column}), tmp_path / "a.parquet")
    with Address.parse(f"parquet://{tmp_path}").open(SCHEMA, "id") as relation:
        assert relation.extents == ()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet", write_statistics=False)
    with Address.parse(f"parquet://{tmp_path}").open(SCHEMA, "id") as relation:
        assert relation.extents == ()
        assert [line["id"] for line in rows_in(relation, relation.within('"id"', 1, 2))] == [2]


# -- the folder for what DuckDB cannot keep in memory ------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_connections_that_are_open_at_a_time_share_a_private_folder(place: Path) -> None:
    folders = Spilling()
    with folders.folder() as first:
        assert Path(first).parent == place
        assert Path(first).name.startswith("treering-")
        assert Path(first).stat().st_mode & 0o777 == 0o700
        with folders.folder() as second:
            assert second == first
            (Path(first) / "spilled").write_text("rows")
        assert Path(first).is_dir()
    assert [*place.iterdir()] == []
    with folders.folder() as third:
        assert Path(third).is_dir()
    assert [*place.iterdir()] == []


def test_the_folder_goes_with_the_last_connection_whatever_ended_it(place: Path) -> None:
    folders = Spilling()
    with pytest.raises(KeyboardInterrupt), folders.folder():
        raise KeyboardInterrupt
    assert [*place.iterdir()] == []
    user = spilling.User()
    left = folders._enter(user)
    del user
    gc.collect()
    assert Path(left).is_dir()  # ended without a word: the next one removes it
    with folders.folder() as folder:
        assert folder != left
        assert [*place.iterdir()] == [Path(folder)]
    assert [*place.iterdir()] == []


@pytest.mark.usefixtures("place")
def test_a_child_makes_a_folder_of_its_own_and_leaves_its_parent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = Spilling()
    with folders.folder() as parent, monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -7)
        folders._leave(spilling.User())
        assert Path(parent).is_dir()
        with folders.folder() as own:
            assert own != parent
        assert not Path(own).exists()
        assert Path(parent).is_dir()


def test_the_end_of_the_process_removes_what_is_left(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(atexit, "register", lambda *call: kept.extend(call))
    folders = Spilling()
    user = spilling.User()
    left = folders._enter(user)
    leave, last = kept
    leave(last)
    assert Path(left).is_dir()
    del user
    gc.collect()
    leave(last)
    assert [*place.iterdir()] == []


def test_without_a_place_for_a_folder(place: Path) -> None:
    place.rmdir()
    with pytest.raises(EngineError, match="there is no place for DuckDB's temporary files: "), Spilling().folder():
        pass


@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_a_connection_spills_into_that_folder(place: Path, file: Path, kind: str) -> None:
    (place / "a.csv").write_text("id,origin,month\n1,JFK,3\n")
    address = f"csv://{place}/a.csv" if kind == "csv" else f"duckdb://{file}#t"
    before = {*place.iterdir()}
    with Address.parse(address).open(SCHEMA, "id") as relation:
        (folder,) = {*place.iterdir()} - before
        setting = "SELECT current_setting('temp_directory') AS place"
        assert relation.connection.fetch(setting).to_pylist() == [{"place": str(folder)}]
    assert {*place.iterdir()} == before
