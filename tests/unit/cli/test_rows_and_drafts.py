"""Files of rows, and drafts of schemas: what is read, what is refused, and that no row is ever quoted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import typer
from pyarrow import csv, feather, parquet

from treering.cli.rows import check_output, read_sample, row_file, write_table
from treering.domain.attribute import categories, integers
from treering.domain.calendar import dates
from treering.domain.drafting import infer
from treering.domain.numeric import numbers
from treering.domain.schema import MAX_CELLS, Schema
from treering.errors import DataError, SchemaError

TABLE = pa.table({"code": ["007", "NA", "x"], "size": [1, 2, 3]})


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.jsonl"])
def test_a_sample_that_is_something_else_is_refused_without_its_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b'a,b\nsecret,1,2\n"')
    with pytest.raises(DataError, match=f"{name} cannot be read: it is no file of") as caught:
        read_sample(path)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_unknown_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(typer.BadParameter, match=r"must end in one of \.csv"):
        row_file(tmp_path / "rows.xlsx")
    with pytest.raises(typer.BadParameter, match="there is no file"):
        row_file(tmp_path / "rows.csv")
    with pytest.raises(typer.BadParameter, match=r"\.parquet or \.csv"):
        check_output(tmp_path / "rows.xlsx")
    with pytest.raises(typer.BadParameter, match="does not exist"):
        check_output(tmp_path / "nowhere" / "rows.csv")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_what_is_written_can_be_read(tmp_path: Path, name: str) -> None:
    write_table(TABLE, tmp_path / name)
    assert read_sample(tmp_path / name).num_rows == 3


def test_the_delimiter_of_a_sample_is_found(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("code;size\nx;1\n")
    assert read_sample(tmp_path / "rows.csv").column_names == ["code", "size"]
    (tmp_path / "rows.tsv").write_text("code\tsize\nx\t1\n")
    assert read_sample(tmp_path / "rows.tsv").column_names == ["code", "size"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow"])
def test_a_column_that_is_there_twice_is_left_out_of_a_draft(tmp_path: Path, name: str) -> None:
    twice = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["code", "code"])
    writers = {"rows.csv": csv.write_csv, "rows.parquet": parquet.write_table, "rows.arrow": feather.write_feather}
    writers[name](twice, tmp_path / name)
    assert infer(read_sample(tmp_path / name).append_column("size", pa.array([1]))).schema.names == ("size",)


def test_a_draft_has_a_cell_for_what_the_sample_does_not_show() -> None:
    sample = pa.table(
        {
            "origin": ["JFK", "EWR", None],
            "month": [1, 12, 3],
            "distance": [80, 2586, 1400],
            "delay": [-5.5, 80.0, float("nan")],
            "flag": [True, False, True],
            "tail": pa.array([None] * 3, pa.string()),
            "fare": [1.25, 99.5, 3.0],
            "day": pa.array([1, 2, 3], pa.date32()),
            "moment": pa.array([0, 1, 4_000_000_000], pa.timestamp("s", "UTC")),
            "raw": pa.array([b"a", b"b", b"c"]),
        }
    )
    draft = infer(sample)
    found = draft.schema.attributes
    assert found["origin"] == categories("EWR", "JFK", other=True, missing=True)
    assert found["month"] == integers(1, 12, other=True)
    assert found["distance"] == numbers(0, 3000, step=1, edges=range(0, 3001, 500))
    assert found["delay"] == numbers(-20, 100, step=0.1, edges=range(-20, 101, 20))
    assert found["fare"] == numbers(0, 100, step=0.01, edges=range(0, 101, 20))
    assert found["flag"] == categories(False, True)
    assert found["day"] == dates("1970-01-01", "1980-12-31", by="month")
    assert found["moment"] == dates("1970-01-01", "2106-12-31", by="year", tz="UTC")
    assert set(draft.left_out) == {"tail", "raw"}
    assert Schema.from_dict(draft.schema.to_dict()) == draft.schema


def test_numbers_with_a_word_for_missing_and_numbers_of_any_size_make_attributes() -> None:
    texts = [f"{number / 10}" for number in range(200)] + ["nil"] * 9
    sample = pa.table({"isig": texts, "volume": [number * 1_000_000 + 7 for number in range(209)]})
    draft = infer(sample)
    assert draft.schema.attributes["isig"] == numbers(0, 20, step=0.1, edges=[0, 2, 5, 8, 10, 12, 15, 18, 20])
    volume = draft.schema.attributes["volume"]
    edges = [0, 3e7, 5e7, 8e7, 1e8, 1.3e8, 1.6e8, 1.8e8, 2.5e8]
    assert volume == numbers(0, 250_000_000, step=1000, edges=edges)
    assert draft.left_out == {}


def test_dates_that_are_written_otherwise_are_left_out_with_the_reason() -> None:
    days = [f"2012/{1 + number % 12:02}/{1 + number // 12:02}" for number in range(100)]
    draft = infer(pa.table({"date": days, "size": range(100)}))
    assert draft.left_out == {"date": "its dates are not written as 2012-01-31, the way that they are read"}


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
    assert draft.schema.cells <= MAX_CELLS < draft.schema.cells * 62  # 60 numbers, and two cells outside
    assert draft.schema.names == (*list(wide)[:7], *narrow)
    assert draft.left_out == dict.fromkeys(["wide9", "wide8", "wide7"], "with it there would be more than 2^62 cells")
