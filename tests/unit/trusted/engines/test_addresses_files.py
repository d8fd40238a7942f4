"""Tables at addresses: what is read from files, how a CSV field is understood, and where DuckDB may spill."""

from __future__ import annotations

import atexit
import gc
import math
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.schema import Schema
from treering.errors import EngineError
from treering.trusted.engines import addresses
from treering.trusted.engines.addresses import BEYOND, Address, _files, _integer, _plain, _read, _Spilling, read_columns

SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})


# -- what is read ------------------------------------------------------------------------------------------------------


def rows_at(address: str, schema: Schema = SCHEMA) -> list[dict[str, Any]]:
    with Address.parse(address).open(schema) as (table, _):
        found: list[dict[str, Any]] = table.get_backend().to_pyarrow(table).to_pylist()
        return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A DuckDB file with a table of one row in each of two schemas."""
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 2 AS id")
    return tmp_path / "rows.duckdb"


def test_a_table_of_a_file_is_read_only_and_the_file_is_free_afterwards(file: Path) -> None:
    assert rows_at(f"duckdb://{file}#t") == [{"id": 1}]
    assert rows_at(f"duckdb://{file}#s.t") == [{"id": 2}]
    with Address.parse(f"duckdb://{file}#t").open(SCHEMA) as (table, schema):
        assert schema is SCHEMA
        connection = table.get_backend().con
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("INSERT INTO t VALUES (3)")
        assert connection.execute("SELECT current_setting('autoinstall_known_extensions')").fetchone() == (False,)
    with pytest.raises(duckdb.Error, match="closed"):
        connection.execute("SELECT 1")
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

    monkeypatch.setattr(ibis.duckdb, "connect", failing)
    with pytest.raises(EngineError, match="cannot open the database at csv:///a: ConnectionError"):
        rows_at("csv:///a")


def test_a_server_is_asked_for_a_connection_that_only_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    gone: list[bool] = []
    table = ibis.table({"id": "int64"}, name="t")
    made = SimpleNamespace(table=lambda name, database: (table, name, database), disconnect=lambda: gone.append(True))
    monkeypatch.setattr(addresses, "find_spec", lambda _: True)
    monkeypatch.setattr(ibis.postgres, "connect", lambda **given: asked.update(given) or made)
    monkeypatch.setattr(addresses.SPILLING, "folder", lambda: pytest.fail("nothing of a server's is spilled here"))
    with Address.parse("postgresql://me@host:5433/db?sslmode=require#s.t").open(SCHEMA) as (found, schema):
        assert found == (table, "t", "s")
        assert schema is SCHEMA
        assert not gone
    assert gone == [True]
    assert asked == {
        "database": "db",
        "options": "-c default_transaction_read_only=on",
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


# -- CSV fields --------------------------------------------------------------------------------------------------------


def fields(attribute: Attribute, *texts: str | None) -> list[Any]:
    """What texts mean to an attribute."""
    table = ibis.memtable(pa.table({"place": range(len(texts)), "x": pa.array(texts, pa.string())}))
    connection = ibis.duckdb.connect()
    try:
        found = connection.to_pyarrow(table.select("place", value=_read(attribute, table.x))).sort_by("place")
    finally:
        connection.disconnect()
    return [None if each is None or each != each else each for each in found["value"].to_pylist()]


def test_fields_of_bins() -> None:
    texts = ("1.5", " 2 ", "-1e400", "x", "", "nan", None)
    assert fields(bins([0, 1]), *texts) == [1.5, 2.0, -math.inf, math.inf, math.inf, None, None]
    assert fields(bins([0, 1], other=True), *texts) == [1.5, 2.0, -math.inf, None, None, None, None]


def test_fields_of_integers() -> None:
    texts = ("3", "3.0", "2.5", "x", "1001", "-1", "1e30", "-1e30", "9" * 30, "-" + "9" * 30, None)
    far = [BEYOND, -BEYOND, BEYOND, -BEYOND, None]
    assert fields(integers(0, 1000), *texts) == [3, 3, BEYOND, BEYOND, 1001, -1, *far]
    assert fields(integers(0, 1000, other=True), *texts) == [3, 3, None, None, 1001, -1, *far]
    assert fields(integers(0, 1000), "1000.0", "1001.0", "0.0", "-1.0") == [1000, BEYOND, 0, -BEYOND]
    assert 2**53 < BEYOND < 2**63


def test_fields_of_listed_numbers_and_of_booleans() -> None:
    texts = ("7", " 0 ", "+1", "-5", "1.0", "x", "9" * 30, None)
    assert fields(categories(0, 1, 7), *texts) == [7, 0, 1, -5, 2, 2, 2, None]
    assert fields(categories(0, 1, 7, other=True), *texts) == [7, 0, 1, -5, None, None, None, None]
    assert fields(categories(5), "5", "x") == [5, 0]
    words = ("TRUE", "t", " 1 ", "False", "f", "0", "yes", "", None)
    assert fields(categories(True), *words) == [1, 1, 1, 0, 0, 0, 2, 2, None]
    assert fields(categories(True, other=True), *words) == [1, 1, 1, 0, 0, 0, None, None, None]


def test_fields_that_stay_texts() -> None:
    for attribute in (categories("1", "2"), categories("x"), dates("2013-01-01", "2013-12-31")):
        assert fields(attribute, "1", "2013-01-01", "", None) == ["1", "2013-01-01", "", None]


def test_texts_of_digits_as_integers() -> None:
    connection = ibis.duckdb.connect()
    for text, number in (("12", 12), (" -7 ", -7), ("+3", 3), ("1.0", None), ("x", None), ("9" * 30, None)):
        assert connection.to_pyarrow(_integer(ibis.literal(text))).as_py() == number
    connection.disconnect()


def test_an_empty_field_is_null_and_a_quoted_one_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,origin,month,note\n1,"",3,x\n2,,4,7\n3,"a ""b"", c",5,\n')
    assert rows_at(f"csv://{tmp_path}") == [
        {"origin": "", "month": 3, "id": 1, "note": None},
        {"origin": None, "month": 4, "id": 2, "note": 7},
        {"origin": 'a "b", c', "month": 5, "id": 3, "note": None},
    ]


def test_a_column_of_several_attributes_is_read_once_for_each() -> None:
    schema = Schema(
        {
            "day": dates("2013-01-01", "2013-12-31", column="when"),
            "hour": dates(part="hour", column="when"),
            "coded": categories(True, False, column="number"),
            "whole": integers(1, 3, column="number"),
            "alone": categories(True, False),
            "absent": integers(1, 3),
        }
    )
    table, read = read_columns(ibis.table(dict.fromkeys(("id", "when", "number", "alone"), "string"), name="t"), schema)
    kinds = {name: str(kind) for name, kind in table.schema().items()}
    assert kinds == {
        "when#day": "string",
        "when": "string",
        "when#hour": "string",
        "number#coded": "int64",
        "number": "string",
        "number#whole": "int64",
        "alone": "int64",
        "id": "int64",
    }
    assert read.names == schema.names
    assert read.sources == ("when#day", "when#hour", "number#coded", "number#whole", "alone", "absent")
    assert read.attributes["coded"] == categories(1, 0, column="number#coded")
    assert read.attributes["alone"] == categories(1, 0, column="alone")
    assert read.attributes["whole"] == integers(1, 3, column="number#whole")


# -- the folder for what DuckDB cannot keep in memory ------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_connections_that_are_open_at_a_time_share_a_private_folder(place: Path) -> None:
    spilling = _Spilling()
    with spilling.folder() as first:
        assert Path(first).parent == place
        assert Path(first).name.startswith("treering-")
        assert Path(first).stat().st_mode & 0o777 == 0o700
        with spilling.folder() as second:
            assert second == first
            (Path(first) / "spilled").write_text("rows")
        assert Path(first).is_dir()
    assert [*place.iterdir()] == []
    with spilling.folder() as third:
        assert Path(third).is_dir()
    assert [*place.iterdir()] == []


def test_the_folder_goes_with_the_last_connection_whatever_ended_it(place: Path) -> None:
    spilling = _Spilling()
    with pytest.raises(KeyboardInterrupt), spilling.folder():
        raise KeyboardInterrupt
    assert [*place.iterdir()] == []
    user = addresses._User()
    left = spilling._enter(user)
    del user
    gc.collect()
    assert Path(left).is_dir()  # ended without a word: the next one removes it
    with spilling.folder() as folder:
        assert folder != left
        assert [*place.iterdir()] == [Path(folder)]
    assert [*place.iterdir()] == []


@pytest.mark.usefixtures("place")
def test_a_child_makes_a_folder_of_its_own_and_leaves_its_parent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    spilling = _Spilling()
    with spilling.folder() as parent, monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -7)
        spilling._leave(addresses._User())
        assert Path(parent).is_dir()
        with spilling.folder() as own:
            assert own != parent
        assert not Path(own).exists()
        assert Path(parent).is_dir()


def test_the_end_of_the_process_removes_what_is_left(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(atexit, "register", lambda *call: kept.extend(call))
    spilling = _Spilling()
    user = addresses._User()
    left = spilling._enter(user)
    leave, last = kept
    leave(last)
    assert Path(left).is_dir()
    del user
    gc.collect()
    leave(last)
    assert [*place.iterdir()] == []


def test_without_a_place_for_a_folder(place: Path) -> None:
    place.rmdir()
    with pytest.raises(EngineError, match="there is no place for DuckDB's temporary files: "), _Spilling().folder():
        pass


@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_a_connection_spills_into_that_folder(place: Path, file: Path, kind: str) -> None:
    (place / "a.csv").write_text("id,origin,month\n1,JFK,3\n")
    address = f"csv://{place}/a.csv" if kind == "csv" else f"duckdb://{file}#t"
    before = {*place.iterdir()}
    with Address.parse(address).open(SCHEMA) as (table, _):
        (folder,) = {*place.iterdir()} - before
        given = table.get_backend().con.execute("SELECT current_setting('temp_directory')").fetchone()
        assert given == (str(folder),)
    assert {*place.iterdir()} == before
