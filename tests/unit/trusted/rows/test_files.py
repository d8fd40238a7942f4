"""Files of rows: what is read, what is refused and where, and that no row is ever quoted."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import treering as tr
import treering.trusted.rows.files as files
from support.coded import coded
from treering.domain.attribute import OTHER, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted.rows.files import blocks, line_of

SCHEMA = Schema({"code": categories("007", "NA", "é", other=True), "size": integers(1, 9, missing=True)})
TABLE = pa.table({"code": ["007", "NA", "x"], "size": [1, None, 3]})
TEXT = 'code;note;size\n007;a;1\nNA;b;\né;"two\nlines";3\n'


def cells(path: Path, schema: Schema = SCHEMA, **options: str) -> list[int]:
    """The cells of a file's rows, each as often as it is there."""
    found, dropped = coded(RowFile(path, **options), schema)
    assert dropped == 0
    return [int(cell) for cell in found]


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
    assert sum(1 for _ in blocks(RowFile(path), SCHEMA)) > 5
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


def test_a_text_that_is_no_boolean_is_refused_in_a_file_as_in_rows(tmp_path: Path) -> None:
    schema = Schema({"flag": categories(True, False, missing=True)})
    (tmp_path / "rows.csv").write_text("flag,more\ntrue,\nmaybe,\n")
    with tr.Vault.create(tmp_path / "v", schema, epsilon=1.0) as vault:
        for given in (tmp_path / "rows.csv", [{"flag": "maybe"}]):
            with pytest.raises(tr.DataError, match="'flag': the value is not among the categories True, False"):
                vault.append(given)
        assert vault.size == 0


def test_texts_mean_what_the_schema_wants(tmp_path: Path) -> None:
    schema = Schema(
        {
            "day": dates("2013-01-01", "2013-12-31", by="month", column="when"),
            "hour": dates(part="hour", column="when"),
            "late": bins([0, 1.5], other=True, missing=True, column="number"),
            "whole": integers(1, 3, other=True, missing=True, column="number"),
            "coded": categories(1, 2, other=True, missing=True, column="number"),
            "flag": categories(True, False, other=True, missing=True),
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
                "None;None;None;None;None;False",
                "ABOVE;0;BELOW;BELOW;None;True",
                "None;None;None;None;None;None",
                "datetime.date(2013, 12, 1);0;ABOVE;2;None;None",
            )
        ),
        key=str,
    )


# -- how much of a file is read at a time ------------------------------------------------------------------------------


def test_a_large_file_comes_in_several_blocks_and_a_row_may_be_long(tmp_path: Path) -> None:
    long = "x" * 300_000
    (tmp_path / "rows.csv").write_text("code,note,size\n" + f"007,{long},1\n" * 9)
    assert sum(1 for _ in blocks(RowFile(tmp_path / "rows.csv"), SCHEMA)) > 1
    assert cells(tmp_path / "rows.csv") == [SCHEMA.cell({"code": "007", "size": 1})] * 9
    (tmp_path / "rows.jsonl").write_text(f'{{"code": "007", "size": 1, "note": "{long}"}}\n' * 9)
    assert sum(1 for _ in blocks(RowFile(tmp_path / "rows.jsonl"), SCHEMA)) > 1
    assert cells(tmp_path / "rows.jsonl") == [SCHEMA.cell({"code": "007", "size": 1})] * 9
    many = pa.table({"code": pa.array(["007"]).take(pa.array([0] * 300_000)), "size": pa.array([1] * 300_000)})
    parquet.write_table(many, tmp_path / "rows.parquet")
    parts = [block.num_rows for block in blocks(RowFile(tmp_path / "rows.parquet"), SCHEMA)]
    assert sum(parts) == 300_000
    assert 1 < len(parts) < 100


def test_the_encoding_is_looked_for_in_much_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"code,size\n" + b"x,1\n" * 100_000 + "é,1\n".encode("cp1252"))
    assert files.encoding_of(RowFile(tmp_path / "rows.csv")) == "cp1252"
    cut = "é".encode() * (files.SEEN_BYTES // 2)
    (tmp_path / "rows.csv").write_bytes(b"," + cut)  # the last letter that is looked at is there by half
    assert files.encoding_of(RowFile(tmp_path / "rows.csv")) == "utf-8"


# -- the columns that are read, and lines ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.jsonl"])
def test_the_columns_of_the_schema_and_of_persons_are_read_and_no_others(tmp_path: Path, name: str) -> None:
    table = TABLE.append_column("note", pa.array(["a", "b", "c"])).append_column("who", pa.array(["p", "q", "r"]))
    path = tmp_path / name
    if name.endswith((".csv", ".jsonl")):
        lines = {
            "rows.csv": "note,who,size,code\na,p,1,007\nb,q,,NA\nc,r,3,x\n",
            "rows.jsonl": "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()),
        }
        path.write_text(lines[name])
    else:
        {"rows.parquet": parquet.write_table, "rows.arrow": feather.write_feather}[name](table, path)

    def read(person: str | None) -> pa.Table:
        return pa.concat_tables(list(blocks(RowFile(path), SCHEMA, *([person] if person else []))))

    assert read(None).column_names == ["code", "size"]
    assert read("code").column_names == ["code", "size"]
    assert read("who").column_names == ["code", "size", "who"]
    assert read("nobody").column_names == ["code", "size"]
    assert read("who")["who"].to_pylist() == ["p", "q", "r"]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.csv"])
def test_a_file_without_rows_has_its_columns(tmp_path: Path, name: str) -> None:
    write = {
        "rows.parquet": lambda path: parquet.write_table(TABLE.slice(0, 0), path),
        "rows.arrow": lambda path: feather.write_feather(TABLE.slice(0, 0), path),
        "rows.csv": lambda path: path.write_text("code,size\n"),
    }
    write[name](tmp_path / name)
    assert cells(tmp_path / name) == []
    if name == "rows.csv":
        return  # columns that are absent are reported with the first rows
    missing = Schema({**SCHEMA.attributes, "gone": integers(1, 2)})
    with pytest.raises(DataError, match="missing: 'gone'"):
        cells(tmp_path / name, missing)


@pytest.mark.parametrize("end", ["arrow", "feather"])
def test_arrow_files_and_streams_of_several_batches(tmp_path: Path, end: str) -> None:
    whole = pa.concat_tables([TABLE] * 3)
    wanted = sorted(SCHEMA.cell(row) if row["code"] != "x" else SCHEMA.cell({**row, "code": OTHER})
                    for row in whole.to_pylist())  # fmt: skip
    path = tmp_path / f"rows.{end}"
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        if end == "feather" and make is pa.ipc.new_stream:
            continue
        with make(str(path), TABLE.schema) as sink:
            for batch in whole.to_batches():
                sink.write_batch(batch)
        assert sorted(cells(path)) == wanted


def test_lines_of_rows_are_counted_with_blank_ones_and_those_within_fields(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('code,size\n\nx,1\n"y\nz",2\n\n\nx,3\n')
    file = RowFile(tmp_path / "rows.csv")
    assert [line_of(file, SCHEMA, row) for row in range(3)] == [3, 5, 8]
    assert line_of(file, SCHEMA, 3) == 5  # beyond the last, as if every row were a line
    with gzip.open(tmp_path / "rows.csv.gz", "wt") as stream:
        stream.write("code,size\nx,1\nx,2\n")
    assert line_of(RowFile(tmp_path / "rows.csv.gz"), SCHEMA, 1) == 3


def test_the_first_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for content, problem in (
        ('{"code": "x", "size": 1}\n\n[1]\n', "line 3 is no JSON object"),
        ('{"code": "x", "size": 1}\n{"code": "x", "size": \n', "line 2 is no JSON object"),
        ('{"code": "x", "size": 1}\n{"code": 7, "size": 1}\n', "a column has values of several types"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=problem):
            cells(path)


def test_an_unknown_text_is_no_delimiter_and_a_tie_goes_to_the_usual_one(tmp_path: Path) -> None:
    one = Schema({"code": SCHEMA.attributes["code"]})
    for name, usual in (("rows.csv", ","), ("rows.tsv", "\t"), ("rows.txt", ",")):
        (tmp_path / name).write_text("code\n007\n")
        assert files.delimiter_of(RowFile(tmp_path / name), one) == usual
    (tmp_path / "rows.csv").write_text("a,b,c;code;size\n")
    assert files.delimiter_of(RowFile(tmp_path / "rows.csv"), SCHEMA) == ";"
    assert files.header_of(RowFile(tmp_path / "rows.csv"), SCHEMA) == ["a,b,c", "code", "size"]
