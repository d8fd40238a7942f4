"""Errors about rows of a file name the file and the line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from treering.errors import DataError
from treering.vault.intake import located, unreadable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n\n3,x\n")
    return tmp_path / "rows.csv"


def test_a_row_is_named_by_its_line(path: Path) -> None:
    error = DataError("row 1, column 'b': no; nothing of the batch was taken", row=1, column="b")
    found = located(error, path, ".csv")
    assert str(found) == f"{path}: line 4, column 'b': no; nothing of the file was taken in"
    assert (found.row, found.column) == (1, "b")
    assert located(found, path, ".csv") is found


def test_a_file_without_lines_has_rows(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "rows.parquet")
    found = located(DataError("row 0: no", row=0), tmp_path / "rows.parquet", ".parquet")
    assert str(found).endswith("rows.parquet: row 1, counted from 1: no")


def test_a_column_of_numbers_with_a_text_is_named_by_its_line(path: Path) -> None:
    found = located(DataError("column 'b' has Arrow type string", column="b"), path, ".csv")
    assert str(found) == f"{path}: line 4, column 'b': the value is no number; nothing of the file was taken in"


def test_what_is_wrong_with_the_file_is_added(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a;b\n")
    found = located(DataError("missing: 'a'", column="a"), tmp_path / "rows.csv", ".csv")
    assert str(found).endswith("missing: 'a'; its fields seem to be separated by semicolons, and not by commas")
    said = str(unreadable(tmp_path / "rows.csv", ".csv"))
    assert said.endswith(
        "rows.csv cannot be read as csv: its fields seem to be separated by semicolons, and not by commas"
    )
    assert str(unreadable(tmp_path / "no.csv", ".csv")).endswith("no.csv cannot be read as csv: it cannot be opened")
