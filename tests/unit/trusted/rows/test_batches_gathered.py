"""Files of rows become one batch, block by block: counts, sums and persons are those of all blocks together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treering as tr
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted.rows import batches, files
from treering.trusted.rows.batches import DIGEST_BYTES, Batch, Gathered, numbers, packed_persons, read_persons, take_in
from treering.trusted.rows.persons import Persons

SCHEMA = tr.Schema({"x": tr.integers(0, 9), "v": tr.numbers(0, 10, step=1, edges=[0, 5, 10])})
ROWS = [(place % 7, place % 11, f"p{place % 13}") for place in range(200)]


@pytest.fixture(params=["rows.csv", "rows.parquet"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of many blocks."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 128)
    monkeypatch.setattr(files, "BATCH_ROWS", 16)
    made = tmp_path / str(request.param)
    if made.suffix == ".csv":
        made.write_text("x,v,who\n" + "".join(f"{x},{v},{who}\n" for x, v, who in ROWS))
    else:
        pq.write_table(pa.table(dict(zip(("x", "v", "who"), map(list, zip(*ROWS, strict=True)), strict=True))), made)
    return made


def by_cell(batch: Batch) -> dict[int, tuple[int, ...]]:
    columns = (column.tolist() for column in (batch.counts, *batch.sums))
    return dict(zip(batch.cells.tolist(), zip(*columns, strict=True), strict=True))


def persons(limit: int) -> Persons:
    return Persons("who", limit, b"key")


def dicts(*, who: bool) -> list[dict[str, Any]]:
    return [{"x": x, "v": v, **({"who": name} if who else {})} for x, v, name in ROWS]


def test_blocks_of_a_file_are_one_batch(path: Path) -> None:
    assert sum(1 for _ in files.blocks(RowFile(path), SCHEMA, None)) > 5
    found, dropped = take_in(RowFile(path), SCHEMA, None, drop=False)
    whole, _ = take_in(dicts(who=False), SCHEMA, None, drop=False)
    assert dropped == 0
    assert found.cells.tolist() == sorted(found.cells.tolist())
    assert by_cell(found) == by_cell(whole)
    assert found.persons == {}


def test_the_limit_of_a_person_holds_over_all_blocks(path: Path) -> None:
    everyone = persons(200)
    found, dropped = take_in(RowFile(path), SCHEMA, everyone, drop=False)
    whole, _ = take_in(dicts(who=True), SCHEMA, everyone, drop=False)
    assert (dropped, found.persons, by_cell(found)) == (0, whole.persons, by_cell(whole))
    assert sorted(found.persons.values()) == sorted(Counter(who for *_, who in ROWS).values())
    found, dropped = take_in(RowFile(path), SCHEMA, persons(3), drop=True)
    whole, left_out = take_in(dicts(who=True), SCHEMA, persons(3), drop=True)
    assert dropped == left_out == 200 - 3 * 13
    assert (found.persons, by_cell(found)) == (whole.persons, by_cell(whole))
    with pytest.raises(DataError) as caught:
        take_in(RowFile(path), SCHEMA, persons(3), drop=False)
    place = "line 41" if path.suffix == ".csv" else "row 39"
    assert str(caught.value).startswith(f"{path}, {place}: its person has 3 rows already")
    assert caught.value.column == "who"


def test_rows_that_do_not_fit_are_counted_over_all_blocks(path: Path) -> None:
    """Those that fit no value, and those beyond their person's limit."""
    narrow = tr.Schema({"x": tr.integers(0, 5), "v": SCHEMA.attributes["v"]})
    for people in (None, persons(3)):
        found, dropped = take_in(RowFile(path), narrow, people, drop=True)
        given = dicts(who=people is not None)
        whole, left_out = take_in(given, narrow, people, drop=True)
        assert dropped == left_out == 200 - whole.rows
        assert by_cell(found) == by_cell(whole)
        with pytest.raises(DataError, match=f"{path}, (line 8|row 6), column 'x': the value is not among"):
            take_in(RowFile(path), narrow, people, drop=False)


def test_the_first_row_beyond_a_limit_is_named_among_those_that_fit() -> None:
    given = [{"x": place, "v": 1, "who": "ann"} for place in (99, 1, 2, 98, 3)]
    found, dropped = take_in(given, SCHEMA, persons(2), drop=True)
    assert (found.rows, dropped) == (2, 3)
    with pytest.raises(DataError, match="row 2: its person has 1 row already") as caught:
        take_in([given[1], {**given[2], "who": "bob"}, given[4]], SCHEMA, persons(1), drop=False)
    assert caught.value.row == 2


# -- how they are gathered ---------------------------------------------------------------------------------------------


def kept(gathered: Gathered) -> list[int]:
    return [len(each.cells) for each in gathered._batches]


def test_batches_are_merged_once_there_is_more_to_merge_than_was_merged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """So memory grows with the cells alone, and the work of merging with the rows alone."""
    monkeypatch.setattr(batches, "MERGED", 4)
    gathered = Gathered(1)
    seen = []
    for start in (0, 0, 2, 4, 6, 8, 10, 12):
        cells = np.array([start, start + 1])
        gathered.add(Batch(cells, np.array([1, 2]), np.array([3, -4]), persons={b"x" * DIGEST_BYTES: start}))
        seen.append(kept(gathered))
    assert seen == [[2], [2, 2], [2, 2, 2], [6], [6, 2], [6, 2, 2], [6, 2, 2, 2], [14]]
    whole = gathered.batch()
    assert by_cell(whole) == {cell: ((1, 3), (2, -4))[cell % 2] for cell in range(2, 14)} | {0: (2, 6), 1: (4, -8)}
    assert whole.persons == {b"x" * DIGEST_BYTES: 42}


@pytest.mark.parametrize("sums", [0, 2])
def test_no_batch_is_gathered_to_an_empty_one(sums: int) -> None:
    nothing = Gathered(sums).batch()
    assert [len(column) for column in (nothing.cells, nothing.counts, *nothing.sums)] == [0] * (2 + sums)
    assert nothing.rows == 0


# -- columns of files --------------------------------------------------------------------------------------------------


class Part:
    """A column whose parts were combined without a copy, as some versions of Arrow do."""

    def __init__(self, combined: pa.Array) -> None:
        self._combined = combined

    def __len__(self) -> int:
        return len(self._combined)

    def combine_chunks(self) -> pa.Array:
        return self._combined


def test_a_column_may_be_in_parts_and_a_part_of_another() -> None:
    long = pa.array(range(100), pa.int64())
    assert numbers(pa.chunked_array([long.slice(3, 2), long.slice(90)])).tolist() == [3, 4, *range(90, 100)]
    for column in (pa.chunked_array([long.slice(3, 4)]), Part(long.slice(3, 4))):
        assert numbers(column).tolist() == [3, 4, 5, 6]
    without_buffer = pa.Array.from_buffers(pa.int64(), 0, [None, None])
    assert numbers(Part(without_buffer)).tolist() == []


def test_digests_may_be_a_part_of_another_column(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [bytes([place]) * DIGEST_BYTES for place in range(5)]
    digests, rows = pa.array(names, pa.binary(DIGEST_BYTES)), pa.array(range(5), pa.int64())

    def read(digests: pa.Array, rows: pa.Array) -> dict[bytes, int]:
        columns = {"person": Part(digests), "rows": Part(rows)}
        table = SimpleNamespace(num_rows=len(rows), column=columns.__getitem__)
        monkeypatch.setattr(batches, "read_table", lambda *_: table)
        return read_persons(b"", "x")

    assert read(digests.slice(2, 2), rows.slice(2, 2)) == {names[2]: 2, names[3]: 3}
    assert read(pa.Array.from_buffers(pa.binary(DIGEST_BYTES), 0, [None, None]), rows.slice(0, 0)) == {}


def test_persons_are_sorted_by_the_whole_of_their_digests() -> None:
    halves = [b"\0" * 8, b"\0" * 7 + b"\1", b"\1" + b"\0" * 7, b"\xff" * 8]
    names = [first + second for second in reversed(halves) for first in (halves[2], *halves[:2], halves[3])]
    content = packed_persons({name: 1 + place for place, name in enumerate(names)})
    assert content is not None
    assert list(read_persons(content, "x").items()) == sorted((name, 1 + place) for place, name in enumerate(names))
