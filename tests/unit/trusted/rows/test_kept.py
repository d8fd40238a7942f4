"""Rows that are kept: however they come and however they are cut, they are counted as a plain list of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.kept_rows import EVERY, SCHEMA, VALUES, WIDE, Away, Beside, Value, in_folder, ints, table, tallied
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.sums import Sums, sums_of
from treering.errors import DamagedVault, EngineError, TreeringError
from treering.trusted.rows import kept, tally
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.tally import Codes, Piece

GROUPS = (
    Groups.marginal(SCHEMA),
    Groups.marginal(SCHEMA, ["y"]),
    Groups.marginal(SCHEMA, []),
    Groups.of([Query.where(SCHEMA, a=[1, 2]) & tr.parse("x < 1 OR y >= 0", SCHEMA)]),
    Groups.of([Query.where(SCHEMA, a=0), tr.parse("a = 3 AND x >= 2", SCHEMA)]),
)
SUMS: tuple[Sums | None, ...] = (
    None,
    *(sums_of(SCHEMA, place, counts=counts) for place in EVERY for counts in (False, True)),
)
CELLS = st.lists(st.integers(0, SCHEMA.cells - 1), max_size=7)
KINDS = ["single", "typed"]


def append(beside: Beside, kind: str, data: st.DataObject) -> None:
    """A batch of some kind."""
    if kind in ("typed", "filed"):
        values = data.draw(VALUES)
        beside.typed(values) if kind == "typed" else beside.filed(values)
    elif kind == "single":
        beside.single(data.draw(CELLS))
    else:
        beside.elsewhere(data.draw(CELLS))


def cuts(beside: Beside, data: st.DataObject) -> list[int]:
    """Increasing edges, at least two."""
    known = sorted(beside.edges)
    return sorted(data.draw(st.sets(st.sampled_from(known), min_size=min(2, len(known)), max_size=9)))


# -- counting ----------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_appends_are_counted_as_a_plain_list(data: st.DataObject) -> None:
    """In any order of kinds, over any edges; the counts of all cells are made at any moment, and current from then
    on."""
    beside = Beside()
    used = data.draw(st.integers(0, 6))
    for number in range(data.draw(st.integers(1, 6))):
        if number >= used:
            beside.check_cells()
        append(beside, data.draw(st.sampled_from([*KINDS, "elsewhere"])), data)
        assert beside.rows.size == len(beside.plain)
    beside.check_cells()
    for _ in range(4):
        edges = cuts(beside, data)
        if len(edges) > 1:
            beside.check(data.draw(st.sampled_from(GROUPS)), edges, data.draw(st.sampled_from(SUMS)))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_so_they_are_by_statements_and_from_files(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tables of more than two rows are counted by DuckDB, and so are files."""
    folder = tmp_path_factory.mktemp("parts")
    beside = Beside(in_folder(folder), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "SMALL", 2)
        patch.setattr(kept, "MERGED", 6)
        for _ in range(data.draw(st.integers(1, 5))):
            append(beside, data.draw(st.sampled_from([*KINDS, "typed", "filed", "filed"])), data)
            if data.draw(st.booleans()):
                beside.check_cells()
        beside.check_cells()
        edges = cuts(beside, data)
        if len(edges) > 1:
            beside.check(data.draw(st.sampled_from(GROUPS)), edges, data.draw(st.sampled_from(SUMS)))
    beside.rows.engine().close()


def test_every_interval_of_many_small_appends() -> None:
    beside = Beside()
    for number in range(40):
        values = [Value((number + each) % 4, number % 7, each % 7) for each in range(number % 4)]
        beside.typed(values) if number % 10 < 6 else beside.single([value.row.cell for value in values])
    size = beside.rows.size
    for start in range(0, size, 3):
        beside.check(GROUPS[0], (start, size), SUMS[3])
        beside.check(GROUPS[1], (0, *((start,) if start else ()), size), None)
    beside.check(GROUPS[4], range(size + 1), SUMS[2])


@pytest.mark.parametrize("used", [False, True])
def test_a_universe_beyond_memory(used: bool) -> None:
    """More than 2^57 cells: codes take 64 bits, and only occupied cells are counted."""
    generator = np.random.default_rng(7)
    cells = generator.integers(0, WIDE.cells, 300)
    beside = Beside(Rows(WIDE))
    if used:
        assert beside.rows.cells.count(Query.all(WIDE)) == 0
    for part in np.array_split(cells, 11):
        beside.single(part.tolist())
    beside.elsewhere(cells[:50].tolist())
    beside.check(Groups.marginal(WIDE, ["w4", "x"]), (0, 7, 300, 350), sums_of(WIDE, 6, counts=True))
    high = Query.where(WIDE, **{f"w{place}": range(300, 1000) for place in range(5)})
    codes = np.unravel_index(ints([row.cell for row in beside.plain]), WIDE.shape)
    assert beside.rows.cells.count(high) == int(np.all([code >= 300 for code in codes[:5]], axis=0).sum())


@pytest.mark.parametrize(("high", "width"), [(2**11, np.int32), (2**11 + 1, np.int64)])
def test_codes_are_as_wide_as_the_universe_needs(high: int, width: type[np.generic]) -> None:
    """2^31 cells, and 2^20 more."""
    rows = Rows(tr.Schema({"a": tr.integers(1, high), "b": tr.integers(1, 2**20)}))
    last = rows.schema.cells - 1
    rows.add_cells(ints([0, last]))
    rows.add_cells(ints([last] * 100))
    (piece,) = rows._pieces
    assert isinstance(piece.content, Codes)
    assert piece.content.cells.dtype == width
    assert rows.cells.count(Query.where(rows.schema, a=high, b=2**20)) == 101


def test_rows_given_by_their_cells_have_the_middles_of_them() -> None:
    rows = Rows(SCHEMA)
    cells = ints([SCHEMA.cell({"a": 1, "x": 1.5, "y": 0.0}), SCHEMA.cell({"a": 2, "x": tr.ABOVE, "y": None})])
    rows.add_cells(np.repeat(cells, 2))
    rows.add_cells(np.repeat(cells[1:], 5))
    by_a = Groups.marginal(SCHEMA, ["a"])
    assert tallied(rows, by_a, (0, 4, 9), sums_of(SCHEMA, 1, counts=False)) == {
        (0, 1): 2 * Value(1, 3, 0).row.units[0],
        (0, 2): 2 * 3,
        (1, 2): 5 * 3,
    }
    assert tallied(rows, by_a, (0, 4, 9), sums_of(SCHEMA, 2, counts=False)) == {(0, 1): 2 * 4}  # of y = 1


def test_columns_that_the_schema_does_not_use_are_not_looked_at() -> None:
    rows, values = Rows(SCHEMA), [Value(1, 2, 3), Value(3, 2, 1)]
    rows.add(table(values).append_column("person:", pa.array([b"0" * 16, None], pa.binary(16))))
    assert tallied(rows, Groups.marginal(SCHEMA, ["a"]), (0, 2), None) == {(0, 1): 1, (0, 3): 1}


@pytest.mark.parametrize("edges", [(0, 4), (2, 4), (3, 4), (7, 9)])
def test_rows_that_are_not_there_are_noticed(edges: tuple[int, int]) -> None:
    for beside in (Beside(), Beside()):
        beside.single([1, 2]) if beside.plain else beside.typed([Value(0, 0, 0), Value(1, 1, 1)])
        beside.single([3])
        with pytest.raises(EngineError, match="rows where . were taken in: nothing was answered"):
            beside.rows.tally(GROUPS[0], edges)


def test_without_rows_nothing_is_counted() -> None:
    rows = Rows(SCHEMA)
    rows.add(table([]))
    rows.add_cells(ints([]))
    rows.add_elsewhere(Away(ints([])), 0)
    assert (rows.size, len(rows._pieces)) == (0, 0)
    assert not rows.cells.marginal(EVERY).any()


# -- pieces ------------------------------------------------------------------------------------------------------------


def lengths(rows: Rows) -> list[int]:
    return [piece.rows for piece in rows._pieces]


def test_small_tables_are_merged_as_they_come() -> None:
    """Each is at least twice as long as the next: there are few of them however many appends."""
    rows = Rows(SCHEMA)
    for number in range(200):
        rows.add(table([Value(0, 0, 0)] * (1 + number % 3)))
        found = lengths(rows)
        assert all(longer >= 2 * shorter for longer, shorter in pairwise(found))
        assert [piece.first for piece in rows._pieces] == [0, *np.cumsum(found)[:-1]]
        assert len(found) < 10


def test_large_tables_are_not_merged_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MERGED", 8)
    rows = Rows(SCHEMA)
    for number in (7, 8, 5, 9, 1, 1):
        rows.add(table([Value(0, 0, 0)] * number))
    assert lengths(rows) == [7, 8 + 5, 9, 1 + 1]


def test_codes_are_one_piece() -> None:
    """In room that doubles."""
    rows = Rows(SCHEMA)
    for number in range(100):
        rows.add_cells(ints([number % SCHEMA.cells] * 3))
    assert lengths(rows) == [300]
    (piece,) = rows._pieces
    assert isinstance(piece.content, Codes)
    assert len(piece.content.cells) == 512
    rows.add_elsewhere(Away(ints([1, 2])), 2)
    rows.add_cells(ints([1]))
    rows.add_cells(ints([1] * 70))
    assert lengths(rows) == [300, 2, 71]


def test_what_was_read_before_an_append_does_not_change() -> None:
    """A list of pieces is never changed, only replaced."""
    rows = Rows(SCHEMA)
    rows.add_cells(ints([0, 1]))
    before = rows._pieces
    (piece,) = before
    rows.add_cells(ints([2] * 5))
    rows.add(table([Value(0, 0, 0)]))
    assert (before, piece.rows, lengths(rows)) == ([piece], 2, [7, 1])


# -- rows that lie in a file now ---------------------------------------------------------------------------------------


def written(folder: Path, name: str, values: Sequence[Value]) -> Path:
    path = folder / name
    pq.write_table(table(values), path, row_group_size=3)
    return path


def every_answer(rows: Rows) -> list[Any]:
    edges = [(0, rows.size), tuple(range(rows.size + 1)), (1, 4, rows.size - 1)]
    asked = list(zip(GROUPS, (None, *SUMS[3:]), strict=True))
    found: list[Any] = [tallied(rows, groups, each, sums) for groups, sums in asked for each in edges]
    return [*found, rows.size, rows.cells.marginal(EVERY).tolist()]


@pytest.mark.parametrize("used", [False, True])
def test_rows_that_move_into_a_file_are_the_same_rows(tmp_path: Path, used: bool) -> None:
    values = [Value(number % 4, number % 7, number * number % 7) for number in range(12)]
    plain, rows = Rows(SCHEMA), in_folder(tmp_path)
    for start, end in ((0, 3), (3, 5), (5, 12)):
        plain.add(table(values[start:end]))
    rows.add_file(written(tmp_path, "1", values[:3]), 3)
    rows.add(table(values[3:5]))
    if used:
        rows.cells.marginal((0,))
    expected = every_answer(plain)
    rows.replace(3, 5, written(tmp_path, "2", values[3:5]))
    rows.add(table(values[5:]))
    assert lengths(rows) == [3, 2, 7]
    assert every_answer(rows) == expected
    rows.replace(0, 5, written(tmp_path, "3", values[:5]))
    for name in ("1", "2"):
        (tmp_path / name).unlink()
    assert lengths(rows) == [5, 7]
    assert every_answer(rows) == expected
    rows.replace(0, 12, written(tmp_path, "4", values))
    assert lengths(rows) == [12]
    assert every_answer(rows) == expected
    rows.engine().close()


@pytest.mark.parametrize("edges", [(0, 2), (1, 3), (3, 3), (5, 3), (3, 6), (-1, 3), (0, 0)])
def test_a_file_holds_whole_pieces(tmp_path: Path, edges: tuple[int, int]) -> None:
    rows = Rows(SCHEMA)
    rows.add_cells(ints([0, 1, 2]))
    rows.add(table([Value(0, 0, 0)] * 2))
    with pytest.raises(TreeringError, match="begin and end where pieces do"):
        rows.replace(*edges, tmp_path / "part")
    assert lengths(rows) == [3, 2]


def test_a_file_that_is_gone_is_damage(tmp_path: Path) -> None:
    rows = in_folder(tmp_path)
    rows.add_file(written(tmp_path, "part", [Value(0, 0, 0)] * 4), 4)
    assert tallied(rows, GROUPS[2], (0, 4), None) == {(0, 0): 4}
    (tmp_path / "part").unlink()
    with pytest.raises(DamagedVault, match="missing, or not what was written"):
        rows.tally(GROUPS[2], (0, 4))
    rows.engine().close()


@pytest.mark.parametrize("rows", [3, 5])
def test_a_file_of_another_number_of_rows_is_noticed(tmp_path: Path, rows: int) -> None:
    """Of fewer at once; of more, when it is read whole."""
    own = in_folder(tmp_path)
    own.add_file(written(tmp_path, "part", [Value(0, 0, 0)] * rows), 4)
    with pytest.raises(EngineError, match=f"there are {rows} rows where 4 were taken in"):
        own.tally(GROUPS[2], (0, 4))
    own.engine().close()


# -- what leaves -------------------------------------------------------------------------------------------------------


def test_rows_are_sealed() -> None:
    rows = Rows(SCHEMA)
    rows.add_cells(ints([7, 7, 7]))
    rows.add(table([Value(1, 2, 3)]))
    assert repr(rows) == str(rows) == "<Rows>"
    assert [repr(piece) for piece in rows._pieces] == ["<Piece>", "<Piece>"]
    first, second = rows._pieces
    assert repr(first.content) == "<Codes>"
    for sealed in (rows, first, second, first.content):
        for escape in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="private"):
                escape(sealed)
    assert isinstance(first, Piece)
