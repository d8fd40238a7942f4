"""What DuckDB cannot keep in memory are values of rows: nobody else can read them, and nothing of them stays."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support.engines import histogram
from treering.domain.attribute import bins
from treering.domain.schema import Schema
from treering.errors import EngineError
from treering.trusted.engines import duckdb as engine
from treering.trusted.engines.addresses import Address
from treering.trusted.engines.source import Source

SCHEMA = Schema({"height": bins([float(edge) ** 3 for edge in range(150)], other=True, missing=True)})
"""So many uneven bins that rows are grouped by value."""
PLANTED = "planted-person-"
ROWS = 3_000_000


class Watch:
    """A thread that notes the mode of everything that appears below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modes: dict[Path, int] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.is_set():
            for path, folders, files in os.walk(self.folder):
                for name in (*folders, *files):
                    self._note(Path(path, name))
            time.sleep(0.002)

    def _note(self, path: Path) -> None:
        try:
            self.modes[path.relative_to(self.folder)] = path.stat().st_mode & 0o777
        except OSError:
            return  # gone again


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for data, an empty one to work in, and one for temporary files."""
    for name in ("data", "here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setitem(engine.SETTINGS, "threads", 1)
    return tmp_path


def planted(kind: str, folder: Path) -> str:
    """The address of a table of so many persons that their heights do not fit into memory."""
    rows = f"SELECT range AS id, range + 0.5::DOUBLE AS height FROM range({ROWS})"
    file = folder / f"rows.{kind}"
    with duckdb.connect(str(file) if kind == "duckdb" else ":memory:") as connection:
        connection.execute(f"CREATE TABLE t AS {rows}" if kind == "duckdb" else f"COPY ({rows}) TO '{file}'")
    return f"{kind}://{file}" + ("#t" if kind == "duckdb" else "")


@pytest.mark.parametrize(("kind", "memory"), [("parquet", "60MB"), ("csv", "100MB"), ("duckdb", "60MB")])
def test_what_is_spilled_is_in_a_private_folder_and_gone_after(
    kind: str, memory: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = planted(kind, place / "data")
    monkeypatch.setitem(engine.SETTINGS, "memory_limit", memory)
    with Watch(place) as watch:
        assert sum(histogram(Source.of(address, SCHEMA)).values()) == ROWS
    assert any(path.name.startswith("duckdb_temp") for path in watch.modes), "nothing was spilled: the test is empty"
    seen = {path: mode for path, mode in watch.modes.items() if len(path.parts) > 1 and path.parts[0] != "data"}
    folders = {Path(*path.parts[:2]) for path in seen}
    assert {path.parts[0] for path in folders} == {"temporary"}
    assert {seen[path] for path in folders} == {0o700}
    assert [*(place / "data").iterdir()] == [place / "data" / f"rows.{kind}"]
    assert not {path for path in watch.modes if path.parts[0] == "data" and path.suffix == ".tmp"}
    assert not any((place / "temporary").iterdir())
    assert not any((place / "here").iterdir())


@contextmanager
def opened(address: str) -> Iterator[Any]:
    with Address.parse(address).open(SCHEMA, "id") as relation:
        yield relation.connection


def directory(connection: Any) -> Path:
    return Path(connection.fetch("SELECT current_setting('temp_directory') AS place").to_pylist()[0]["place"])


def test_the_folder_is_gone_after_an_error(place: Path) -> None:
    (place / "data" / "rows.csv").write_text("id,height\n1,2\n")

    def fail() -> None:
        with opened(f"csv://{place}/data/rows.csv") as connection:
            (directory(connection) / "left.tmp").write_text(PLANTED)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any((place / "temporary").iterdir())
    with pytest.raises(EngineError, match="no DuckDB file"):
        Source.of(f"duckdb://{place}/none.duckdb#t", SCHEMA)
    assert not any((place / "temporary").iterdir())


def test_two_readings_of_one_file_at_a_time(place: Path) -> None:
    with duckdb.connect(str(place / "data" / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 2.0 AS height")
    address = f"duckdb://{place}/data/rows.duckdb#t"
    with opened(address) as first:
        with opened(address) as second:
            assert directory(first) == directory(second)
        assert directory(first).is_dir()
        assert Source.of(address, SCHEMA).increment(None).rows == 1
    assert not any((place / "temporary").iterdir())
    with opened(address) as third:
        assert directory(third).is_dir()


def test_without_a_place_for_temporary_files(place: Path) -> None:
    (place / "data" / "rows.csv").write_text("id,height\n1,2\n")
    (place / "temporary").rmdir()
    with pytest.raises(EngineError, match="no place for DuckDB's temporary files"):
        Source.of(f"csv://{place}/data/rows.csv", SCHEMA)
