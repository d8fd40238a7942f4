"""Files of rows become typed tables, block by block: what is taken, refused and counted is that of all blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import treering as tr
from support.coded import taken
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted.rows import files, intake
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.intake import PERSON, Intake, _about, _in_order, typed_blocks
from treering.trusted.rows.persons import Persons

SCHEMA = tr.Schema({"x": tr.integers(0, 9), "v": tr.numbers(0, 10, step=1, edges=[0, 5, 10])})
NARROW = tr.Schema({"x": tr.integers(0, 5), "v": SCHEMA.attributes["v"]})
ROWS = [(place % 7, place % 11, f"p{place % 13}") for place in range(200)]


@pytest.fixture(params=["rows.csv", "rows.parquet", "rows.arrow"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of many blocks."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 128)
    monkeypatch.setattr(files, "BATCH_ROWS", 16)
    monkeypatch.setattr(intake, "BLOCK_ROWS", 13)
    made = tmp_path / str(request.param)
    table = pa.table(dict(zip(("x", "v", "who"), map(list, zip(*ROWS, strict=True)), strict=True)))
    if made.suffix == ".csv":
        made.write_text("x,v,who\n" + "".join(f"{x},{v},{who}\n" for x, v, who in ROWS))
    elif made.suffix == ".parquet":
        pq.write_table(table, made)
    else:
        feather.write_feather(table, made, chunksize=50)
    return made


def persons(limit: int) -> Persons:
    return Persons("who", limit, b"key")


def dicts(*, who: bool = True) -> list[dict[str, Any]]:
    return [{"x": x, "v": v, **({"who": name} if who else {})} for x, v, name in ROWS]


def digest(frame: Any, schema: tr.Schema = SCHEMA) -> str:
    whole = RowsDigest()
    for block in typed_blocks(frame, schema, None, drop=False, intake=Intake()):
        whole.add(block)
    return whole.keyed(b"salt")


def test_blocks_of_a_file_are_its_rows(path: Path) -> None:
    blocks = list(typed_blocks(RowFile(path), SCHEMA, None, drop=False, intake=Intake()))
    assert len(blocks) > 5
    assert max(block.num_rows for block in blocks) <= 13
    assert pa.concat_tables(blocks).combine_chunks().equals(taken(dicts(who=False), SCHEMA)[0].combine_chunks())
    assert digest(RowFile(path)) == digest(dicts(who=False))


def test_the_limit_of_a_person_holds_over_all_blocks(path: Path) -> None:
    found, read = taken(RowFile(path), SCHEMA, persons(200))
    assert found.combine_chunks().equals(taken(dicts(), SCHEMA, persons(200))[0].combine_chunks())
    assert sorted(Counter(found.column(PERSON).to_pylist()).values()) == sorted(
        Counter(row[2] for row in ROWS).values()
    )
    found, read = taken(RowFile(path), SCHEMA, persons(3), drop=True)
    whole, _ = taken(dicts(), SCHEMA, persons(3), drop=True)
    assert read.dropped == 200 - 3 * 13
    assert found.combine_chunks().equals(whole.combine_chunks())
    assert read.people is not None
    assert read.people.most == 3
    with pytest.raises(DataError) as caught:
        taken(RowFile(path), SCHEMA, persons(3))
    place = "line 41" if path.suffix == ".csv" else "row 39"
    assert str(caught.value).startswith(f"{path}, {place}: its person has 3 rows already")
    assert (caught.value.row, caught.value.column) == (39, "who")


def test_rows_that_do_not_fit_are_counted_over_all_blocks(path: Path) -> None:
    """Those that fit no value, and those beyond their person's limit."""
    for people in (None, persons(3)):
        found, read = taken(RowFile(path), NARROW, people, drop=True)
        whole, other = taken(dicts(who=people is not None), NARROW, people, drop=True)
        assert found.combine_chunks().equals(whole.combine_chunks())
        assert (read.rows, read.dropped) == (other.rows, other.dropped) == (whole.num_rows, 200 - whole.num_rows)
        assert read.columns["x"].outside == other.columns["x"].outside == sum(row[0] > 5 for row in ROWS)
        assert read.columns["v"].outside == other.columns["v"].outside == sum(row[1] == 10 for row in ROWS)
        with pytest.raises(DataError, match=f"{path}, (line 8|row 6), column 'x': the value is not among") as caught:
            taken(RowFile(path), NARROW, people)
        assert (caught.value.row, caught.value.column) == (6, "x")


def test_a_row_without_a_person_is_named_by_its_place_in_the_file(path: Path) -> None:
    if path.suffix != ".csv":
        return
    path.write_text("x,v,who\n" + "1,2,ann\n" * 100 + "1,2,\n")
    with pytest.raises(DataError, match=f"{path}, line 102, column 'who': there is no person") as caught:
        taken(RowFile(path), SCHEMA, persons(300), drop=True)
    assert caught.value.row == 100


def test_the_digest_of_what_is_read_knows_no_limit(path: Path) -> None:
    """So the same rows are known again when their persons have no room left."""
    first, second, kept = RowsDigest(), RowsDigest(), RowsDigest()
    for block in typed_blocks(RowFile(path), NARROW, persons(2), drop=True, intake=Intake(), read=first):
        kept.add(block)
    for _ in typed_blocks(dicts(), NARROW, persons(2).unlimited(), drop=True, intake=Intake(), read=second):
        pass
    assert first.keyed(b"s") == second.keyed(b"s") != kept.keyed(b"s")
    assert first.rows == sum(row[0] <= 5 for row in ROWS)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
def test_files_without_rows(tmp_path: Path, ending: str) -> None:
    made, table = (
        tmp_path / f"rows.{ending}",
        pa.table({"x": pa.array([], pa.int64()), "v": pa.array([], pa.float64())}),
    )
    if ending == "csv":
        made.write_text("x,v\n")
    elif ending == "jsonl":
        made.write_text('{"x": 77, "v": 1}\n')
    else:
        (pq.write_table if ending == "parquet" else feather.write_feather)(table, made)
    found, read = taken(RowFile(made), SCHEMA, drop=True)
    assert (found.num_rows, read.rows, read.dropped) == (0, 0, int(ending == "jsonl"))


def test_a_file_of_arrow_may_change_after_it_was_read(tmp_path: Path) -> None:
    made = tmp_path / "rows.arrow"
    feather.write_feather(pa.table({"x": [1, 2, 3], "v": [1.0, 2.0, 3.0]}), made, compression="uncompressed")
    found, _ = taken(RowFile(made), SCHEMA)
    with made.open("r+b") as stream:
        stream.write(b"\xff" * made.stat().st_size)
    assert found.column(0).to_pylist() == [1, 2, 3]
    assert found.column(1).to_pylist() == [1.0, 2.0, 3.0]


# -- errors ------------------------------------------------------------------------------------------------------------

FILE: Any = SimpleNamespace(path="rows.csv")


def test_an_error_about_a_column_names_the_file() -> None:
    with pytest.raises(DataError) as caught, _about(FILE):
        raise DataError("has no column a", column="a")
    assert (str(caught.value), caught.value.row, caught.value.column) == ("rows.csv: has no column a", None, "a")


def test_an_error_about_a_row_stays_as_it_is() -> None:
    error = DataError("rows.csv, line 3: is too large", row=3, column="a")
    with pytest.raises(DataError) as caught, _about(FILE):
        raise error
    assert caught.value is error


def test_without_an_error_nothing_is_raised() -> None:
    with _about(FILE):
        pass


def numbered(last: int) -> Iterator[int]:
    yield from range(last)
    raise DataError("the file is damaged")


def test_work_is_done_in_order_and_the_first_error_is_raised() -> None:
    def work(item: int) -> int:
        if item == 7:
            raise DataError("row 7", row=7)
        return item

    with pytest.raises(DataError, match="the file is damaged"):
        list(_in_order(work, numbered(5)))
    results = _in_order(work, numbered(9))
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(DataError, match="row 7"):
        next(results)
    assert list(_in_order(work, range(6))) == list(range(6))
    assert list(_in_order(work, [])) == []


def test_a_damaged_line_after_a_row_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row comes first, and is reported first."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    made = tmp_path / "rows.csv"
    made.write_text("x,v\n" + "1,2\n" * 20 + "77,2\n" + "1,2\n" * 15 + "1,2,3\n")
    with pytest.raises(DataError, match="line 22, column 'x'"):
        taken(RowFile(made), SCHEMA)
    made.write_text("x,v\n" + "1,2\n" * 40 + "1,2,3\n")
    with pytest.raises(DataError, match="3 fields where the header has 2"):
        taken(RowFile(made), SCHEMA)
