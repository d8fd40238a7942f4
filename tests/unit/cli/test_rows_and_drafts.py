"""Files of rows, and drafts of schemas: what is read, what is refused, and that no row is ever quoted."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from pyarrow import csv, feather, parquet

from treering.cli.create import infer
from treering.cli.rows import check_output, read_table, write_table
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import MAX_CELLS, Schema
from treering.errors import DataError, SchemaError
from treering.trusted.database import GrowingDatabase

SCHEMA = Schema({"code": categories("007", "NA", other=True), "size": integers(1, 9, missing=True)})
TABLE = pa.table({"code": ["007", "NA", "x"], "size": [1, None, 3]})


@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.arrow", "rows.feather", "rows.jsonl"]
)
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    extra = TABLE.append_column("note", pa.array(["a", "b", "c"]))
    if name.endswith(".parquet"):
        parquet.write_table(extra, path)
    elif name.endswith((".arrow", ".feather")):
        feather.write_feather(extra, path)
    elif name.endswith(".jsonl"):
        path.write_text('{"code":"007","size":1,"note":"a"}\n{"code":"NA"}\n{"code":"x","size":3}\n')
    else:
        with pa.output_stream(path, compression="gzip" if name.endswith(".gz") else None) as stream:
            stream.write(b"code,note,size\n007,a,1\nNA,b,\nx,c,3\n")
    assert read_table(path, SCHEMA).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.jsonl"])
def test_a_file_that_is_something_else_is_refused_without_its_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b'a,b\nsecret,1,2\n"')
    with pytest.raises(DataError, match=f"{name} cannot be read as") as caught:
        read_table(path)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_file_without_a_header_shows_nothing_of_its_first_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("secret,secret\n007,1\n")
    rows = read_table(tmp_path / "rows.csv", SCHEMA)
    with pytest.raises(DataError, match="missing: 'code', 'size' .if a file has no header") as caught:
        GrowingDatabase(SCHEMA).append(rows)
    assert "secret" not in f"{caught.value} {caught.value.column}"


def test_unknown_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"must end in one of \.csv"):
        read_table(tmp_path / "rows.xlsx")
    with pytest.raises(typer.BadParameter, match="there is no file"):
        read_table(tmp_path / "rows.csv")
    with pytest.raises(typer.BadParameter, match=r"\.parquet or \.csv"):
        check_output(tmp_path / "rows.xlsx")
    with pytest.raises(typer.BadParameter, match="does not exist"):
        check_output(tmp_path / "nowhere" / "rows.csv")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_what_is_written_can_be_read(tmp_path: Path, name: str) -> None:
    write_table(TABLE, tmp_path / name)
    assert read_table(tmp_path / name, SCHEMA).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, name: str) -> None:
    twice = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["code", "code"])
    writers = {"rows.csv": csv.write_csv, "rows.parquet": parquet.write_table, "rows.arrow": feather.write_feather}
    writers[name](twice, tmp_path / name)
    with pytest.raises(DataError, match=re.escape(f"{name} has the column 'code' more than")):
        read_table(tmp_path / name, SCHEMA)
    assert infer(read_table(tmp_path / name).append_column("size", pa.array([1]))).schema.names == ("size",)


def test_a_column_that_nobody_asks_for_may_be_there_twice(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("note,code,size,note\na,x,1,b\n")
    assert read_table(tmp_path / "rows.csv", SCHEMA).to_pydict() == {"code": ["x"], "size": [1]}


def test_whose_a_row_is_comes_along_as_a_text(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("who,code,size,note\n7.0,x,1,a\n007,x,2,b\n7,x,3,c\n")
    rows = read_table(tmp_path / "rows.csv", SCHEMA, "who")
    assert rows.column_names == ["code", "size", "who"]
    assert rows["who"].to_pylist() == ["7.0", "007", "7"]
    for name, write in (("rows.parquet", parquet.write_table), ("rows.arrow", feather.write_feather)):
        write(rows.append_column("note", pa.array(list("abc"))), tmp_path / name)
        assert read_table(tmp_path / name, SCHEMA, "who").to_pydict() == rows.to_pydict()
    assert read_table(tmp_path / "rows.csv", SCHEMA, "nobody").column_names == ["code", "size"]


def test_a_draft_has_a_cell_for_what_the_sample_does_not_show() -> None:
    sample = pa.table(
        {
            "origin": ["JFK", "EWR", None],
            "month": [1, 12, 3],
            "distance": [80, 2586, 1400],
            "delay": [-5.5, 80.0, float("nan")],
            "flag": [True, False, True],
            "tail": pa.array([None] * 3, pa.string()),
            "day": pa.array([1, 2, 3], pa.date32()),
        }
    )
    draft = infer(sample)
    found = draft.schema.attributes
    assert found["origin"] == categories("EWR", "JFK", other=True, missing=True)
    assert found["month"] == integers(1, 12, other=True)
    assert found["distance"] == bins(range(0, 3001, 500), other=True)
    assert found["delay"] == bins(range(-20, 101, 20), other=True, missing=True)
    assert found["flag"] == categories(False, True)
    assert set(draft.left_out) == {"tail", "day"}


def test_many_texts_make_no_attribute() -> None:
    with pytest.raises(SchemaError, match="no column of the sample"):
        infer(pa.table({"name": [f"person {number}" for number in range(100)]}))


def test_an_odd_column_is_left_out_of_a_draft_and_the_others_stay() -> None:
    """The index that pandas writes has no name; spreadsheets bring quotes, line ends and names twice."""
    names = ["", 'a "quoted" one', "two\nlines", "Month", "MONTH", "twice", "twice", "month of birth", "tiny"]
    columns = [[1.0, 2.0]] * 8 + [[1.0, 1.0 + 1e-14]]
    draft = infer(pa.table([pa.array(each) for each in columns], names=names))
    assert draft.schema.names == ("Month", "month of birth")
    assert set(draft.left_out) == set(names) - set(draft.schema.names)
    assert draft.left_out["MONTH"] == "'Month' differs from it in upper and lower case only"
    assert draft.left_out["twice"] == "more than one column has that name"


def test_a_draft_has_no_more_cells_than_can_be_created() -> None:
    wide = {f"wide{number}": list(range(60)) for number in range(10)}
    narrow = {f"narrow{number}": [0, 1] * 30 for number in range(10)}
    draft = infer(pa.table({**wide, **narrow}))
    assert draft.schema.cells <= MAX_CELLS < draft.schema.cells * 61  # 60 numbers, and other ones
    assert draft.schema.names == (*list(wide)[:7], *narrow)
    assert draft.left_out == dict.fromkeys(["wide9", "wide8", "wide7"], "with it there would be more than 2^62 cells")
