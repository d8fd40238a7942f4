"""Files of rows: what is read, what is refused and where, and that no row is ever quoted."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import treering.trusted.rows.files as files
from treering.domain.attribute import bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted.rows.batches import take_in
from treering.trusted.rows.files import blocks, line_of

SCHEMA = Schema({"code": categories("007", "NA", "é", other=True), "size": integers(1, 9, missing=True)})
TABLE = pa.table({"code": ["007", "NA", "x"], "size": [1, None, 3]})
TEXT = 'code;note;size\n007;a;1\nNA;b;\né;"two\nlines";3\n'


def cells(path: Path, schema: Schema = SCHEMA, **options: str) -> list[int]:
    """The cells of a file's rows, each as often as it is there."""
    batch, dropped = take_in(RowFile(path, **options), schema, None, drop=False)
    assert dropped == 0
    return [cell for cell, count in zip(batch.cells.tolist(), batch.counts.tolist(), strict=True) for _ in range(count)]


@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.arrow", "rows.feather", "rows.jsonl", "rows.jsonl.gz"]
)
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    extra = TABLE.append_column("note", pa.array(["a", "b", "c"]))
    if name.endswith(".parquet"):
        parquet.write_table(extra, path)
    elif name.endswith((".arrow", ".feather")):
        feather.write_feather(extra, path)
    else:
        lines = b'{"code":"007","size":1,"note":"a"}\n{"code":"NA"}\n{"code":"x","size":3}\n'
        content = lines if "jsonl" in name else b"code,note,size\n007,a,1\nNA,b,\nx,c,3\n"
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    expected = [SCHEMA.cell({"code": code, "size": size}) for code, size in (("007", 1), ("NA", None), ("x", 3))]
    assert sorted(cells(path)) == sorted(expected)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiter_and_encoding_are_found(tmp_path: Path, encoding: str, delimiter: str, end: str) -> None:
    (tmp_path / "rows.csv").write_bytes(TEXT.replace(";", delimiter).replace("\n", end).encode(encoding))
    expected = [SCHEMA.cell({"code": code, "size": size}) for code, size in (("007", 1), ("NA", None), ("é", 3))]
    assert sorted(cells(tmp_path / "rows.csv")) == sorted(expected)
    assert sorted(cells(tmp_path / "rows.csv", delimiter=delimiter, encoding=encoding)) == sorted(expected)


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("size,code\n" + "".join(f"{1 + row % 9},{row % 3}\n" for row in range(2000)))
    whole = cells(path)
    monkeypatch.setattr(files, "BLOCK_BYTES", 600)
    assert sum(1 for _ in blocks(RowFile(path), SCHEMA, None)) > 5
    assert cells(path) == whole
    rows = pa.table({"size": [1 + row % 9 for row in range(2000)], "code": [str(row % 3) for row in range(2000)]})
    parquet.write_table(rows, path.with_suffix(".parquet"))
    monkeypatch.setattr(files, "BATCH_ROWS", 7)
    assert cells(path.with_suffix(".parquet")) == whole


def test_a_row_that_does_not_fit_is_named_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    (tmp_path / "rows.csv").write_text('code,note,size\n"x","two\nlines",1\n\n' + "x,a,2\n" * 30 + "x,a,secret\n")
    with pytest.raises(DataError, match=r"rows\.csv, line 35, column 'size': the value is not among") as caught:
        cells(tmp_path / "rows.csv")
    assert "secret" not in str(caught.value)
    assert line_of(RowFile(tmp_path / "rows.csv"), SCHEMA, 0) == 3
    parquet.write_table(pa.table({"code": ["x"] * 3, "size": [1, 2, 77]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"rows\.parquet, row 2, column 'size'"):
        cells(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"code,size\nx,1\nsecret,1,2\n", "line 3: 3 fields where the header has 2"),
        (b"code,size\nx,1\nsecret\n", "line 3: 1 field where the header has 2"),
        (b"secret,secret\nx,1\n", "its first line names none of the columns code, size: has it a header"),
        (b"", "it is empty"),
        (b"PK\x03\x04secret", "it is a zip file, or a spreadsheet"),
        (b"code,size,size\nx,1,1\n", "it has the column 'size' more than once"),
        (b"\x1f\x8bsecret", "it is no separated text"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(problem)) as caught:
        cells(tmp_path / "rows.csv")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("rows.parquet", b"a,b\nsecret,1", "it does not begin as a file of that kind does"),
        ("rows.parquet", b"PAR1secret", "it is no file of parquet, or it is damaged"),
        ("rows.arrow", b"a,b\nsecret,1", "it does not begin as a file of that kind does"),
        ("rows.arrow", b"ARROW1secret", "it is no file of arrow, or it is damaged"),
        ("rows.jsonl", b'{"code": "x", "size": 1}\nsecret\n', "line 2 is no JSON object"),
    ],
)
def test_a_file_that_is_something_else_is_refused_without_its_content(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} cannot be read: {problem}") as caught:
        cells(tmp_path / name)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_wrong_encoding_is_said(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"code,size\n" + b"x,1\n" * 300_000 + "é,1\n".encode("cp1252"))
    with pytest.raises(DataError, match="no separated text in utf-8: another --encoding"):
        cells(tmp_path / "rows.csv")
    assert len(cells(tmp_path / "rows.csv", encoding="cp1252")) == 300_001


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, name: str) -> None:
    twice = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["code", "code"])
    {"rows.parquet": parquet.write_table, "rows.arrow": feather.write_feather}[name](twice, tmp_path / name)
    with pytest.raises(DataError, match="it has the column 'code' more than once"):
        cells(tmp_path / name)


def test_a_column_that_nobody_asks_for_may_be_there_twice(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("note,code,size,note\na,x,1,b\n")
    assert cells(tmp_path / "rows.csv") == [SCHEMA.cell({"code": "x", "size": 1})]


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("code,secret\nx,1\n")
    with pytest.raises(DataError, match="the columns must be code, size; missing: 'size'") as caught:
        cells(tmp_path / "rows.csv")
    assert "secret" not in str(caught.value)


def test_texts_mean_what_the_schema_wants(tmp_path: Path) -> None:
    schema = Schema(
        {
            "day": dates("2013-01-01", "2013-12-31", by="month", column="when"),
            "hour": dates(part="hour", column="when"),
            "late": bins([0, 1.5], other=True, missing=True, column="number"),
            "whole": integers(1, 3, other=True, missing=True, column="number"),
            "coded": categories(1, 2, other=True, missing=True, column="number"),
            "flag": categories(True, False, missing=True),
        }
    )
    (tmp_path / "rows.csv").write_text(
        "when,number,flag\n2013-03-01 10:00,1,true\ncorrupt,abc,FALSE\n2014-01-01,-1e400,1\n,,\n"
        "2013-12-31, 2.0 ,maybe\n"
    )
    found = [schema.values(cell) for cell in cells(tmp_path / "rows.csv", schema)]
    plain = [{name: repr(value) for name, value in row.items()} for row in found]
    assert sorted(plain, key=str) == sorted(
        (
            dict(zip(schema.names, each.split(";"), strict=True))
            for each in (
                "datetime.date(2013, 3, 1);10;0.75;1;1;True",
                "None;None;None;None;OTHER;False",
                "ABOVE;0;BELOW;BELOW;OTHER;True",
                "None;None;None;None;None;None",
                "datetime.date(2013, 12, 1);0;ABOVE;2;OTHER;None",
            )
        ),
        key=str,
    )
