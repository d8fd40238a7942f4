"""The edges of what rows are taken in: both sides of every limit; and all of a batch, or none of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.kept_rows import SCHEMA as SUMMED
from support.kept_rows import Value, ints, table, tallied
from treering.arrays import Ints
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import sums_of
from treering.errors import DataError
from treering.trusted.cells import MAX_COUNT
from treering.trusted.rows import kept
from treering.trusted.rows.kept import Rows

SCHEMA = Schema({"a": tr.categories("u", "v", "w"), "b": tr.categories(*"pqrst")})
"""Without sums."""
WIDE = Schema({f"x{place}": tr.integers(0, 999) for place in range(3)})
LAST: dict[int, tuple[Any, ...]] = {2: ("w", "t"), 3: (999, 999, 999)}
"""The values of the last cell of each."""
BOTH = pytest.mark.parametrize("schema", [SCHEMA, WIDE], ids=["dense", "sparse"])


ALL = Groups.marginal(SUMMED, [])


def refused(
    rows: Rows, match: str, cells: Ints, counts: Ints | None = None, *, sums: tuple[Ints, ...] | None = None
) -> None:
    """Nothing of it is taken in."""
    size, pieces = rows.size, rows._pieces
    with pytest.raises(DataError, match=match):
        rows.add_cells(cells, counts, sums, lambda: pytest.fail("it was refused"))
    assert (rows.size, rows._pieces) == (size, pieces)
    rows.check_whole()


# -- cells -------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_cell_outside_among_others_refuses_all(schema: Schema, place: int) -> None:
    rows = Rows(schema)
    for outside in (-1, schema.cells):
        cells = ints([0, 1, schema.cells - 1])
        cells[place] = outside
        refused(rows, "cell numbers must lie within", cells)
        refused(rows, "cell numbers must lie within", cells, ints([1, 1, 1]))
    rows.add_cells(ints([0, schema.cells - 1]))
    rows.add_cells(ints([0, schema.cells - 1]), ints([2, 3]))
    last = Groups.of([tr.Query.where(schema, **dict(zip(schema.names, LAST[len(schema.names)], strict=True)))])
    assert (rows.size, tallied(rows, last, (0, 7), None)) == (7, {(0, 0): 4})


@pytest.mark.parametrize(
    ("cells", "counts", "match"),
    [
        ([0, SCHEMA.cells], [1, 1], "cell numbers"),
        ([-1], [1], "cell numbers"),
        ([0], [0], "positive"),
        ([0, 1], [0, 5], "positive"),
        ([0, 1], [5, -1], "positive"),
        ([0, 1], [2**60, 2**60], "below 2\\^61"),
        ([0, 1], [1], "one length"),
        ([[0]], [[1]], "one length"),
        ([[0]], None, "one length"),
    ],
)
def test_cells_and_counts_that_cannot_be(cells: list[int], counts: list[int] | None, match: str) -> None:
    refused(Rows(SCHEMA), match, ints(cells), None if counts is None else ints(counts))


# -- numbers of rows ---------------------------------------------------------------------------------------------------


def test_rows_stay_below_the_largest_count_with_those_before() -> None:
    """Their sum is made in doubles, which cannot wrap around: near 2^61 they are 256 apart."""
    rows = Rows(SCHEMA)
    rows.add_cells(ints([0]), ints([MAX_COUNT // 2]))
    for number in (MAX_COUNT // 2, MAX_COUNT - 1, 2**63 - 1):
        refused(rows, r"below 2\^61 together with the rows before", ints([1]), ints([number]))
    rows.add_cells(ints([1]), ints([MAX_COUNT // 2 - 256]))
    assert rows.size == MAX_COUNT - 256


@pytest.mark.parametrize("kind", ["cells", "counts", "table", "file"])
def test_rows_times_the_most_steps_stay_below_the_largest_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """8 steps for each of five rows, three of them taken in before."""
    rows = Rows(SUMMED)
    rows.add_cells(ints([0, 1, 2]))
    add: dict[str, Callable[[], None]] = {
        "cells": lambda: rows.add_cells(ints([0, 0])),
        "counts": lambda: rows.add_cells(ints([0]), ints([2])),
        "table": lambda: rows.add(table([Value(0, 0, 0)] * 2)),
        "file": lambda: rows.add_file(tmp_path / "part", 2),
    }
    monkeypatch.setattr(kept, "MAX_COUNT", 5 * 8)
    with pytest.raises(DataError, match="8 steps are too many for so many rows"):
        add[kind]()
    assert (rows.size, len(rows._pieces)) == (3, 1)
    monkeypatch.setattr(kept, "MAX_COUNT", 5 * 8 + 1)
    add[kind]()
    assert rows.size == 5


def test_rows_and_steps_that_leave_64_bits_together_are_refused_whatever_sums_they_have() -> None:
    """2^60 rows of 8 steps: the largest sum that they can have is none of 64 bits."""
    refused(Rows(SUMMED), "8 steps are too many", ints([0]), ints([2**60]), sums=(ints([0]), ints([0])))


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_sum_beyond_its_rows_refuses_all(place: int, sign: int) -> None:
    """x has 3 steps for each row, and y has 8."""
    rows, cells, counts = Rows(SUMMED), ints([0, 1, 2]), ints([1, 2, 1])
    for column, steps in enumerate((3, 8)):
        sums = [ints([1, -1, 1]), ints([-1, 1, -1])]
        sums[column][place] = sign * steps * int(counts[place])
        rows.add_cells(cells, counts, (sums[0].copy(), sums[1].copy()))
        total = tallied(rows, ALL, (rows.size - 4, rows.size), sums_of(SUMMED, 1 + column, counts=False))
        assert total.get((0, 0), 0) == int(sums[column].sum())
        sums[column][place] += sign
        refused(rows, "within what its rows can sum to", cells, counts, sums=(sums[0], sums[1]))


@pytest.mark.parametrize(
    "sums",
    [
        (ints([4]), ints([0])),
        (ints([0]), ints([-9])),
        (ints([0, 0]), ints([0])),
        (ints([-(2**63)]), ints([0])),
        (ints([0]), ints([2**63 - 1])),
        (ints([0]),),
        (ints([0]), ints([0]), ints([0])),
        (),
    ],
)
def test_sums_that_cannot_be(sums: tuple[Ints, ...]) -> None:
    """The sensitivity of a sum rests on it."""
    rows = Rows(SUMMED)
    refused(rows, "an array for each attribute of numbers, within what", ints([0]), sums=sums)
    refused(rows, "an array for each attribute of numbers, within what", ints([0]), ints([1]), sums=sums)
    rows.add_cells(ints([0]), ints([3]), (ints([9]), ints([-24])))
    assert rows.size == 3


def test_where_there_are_no_numbers_there_are_no_sums() -> None:
    rows = Rows(SCHEMA)
    rows.add_cells(ints([0, 1]), sums=())
    refused(rows, "an array for each attribute of numbers", ints([0]), sums=(ints([0]),))
    assert tallied(rows, Groups.marginal(SCHEMA, ["b"]), (0, 2), None) == {(0, 0): 1, (0, 1): 1}


# -- what goes with rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("number", [0, 2, SCHEMA.cells + 1, 4 * SCHEMA.cells])
def test_what_goes_with_rows_is_called_once_when_they_are_in(number: int, used: bool) -> None:
    seen: list[int] = []
    rows = Rows(SCHEMA)
    if used:
        rows.cells.marginal((0,))
    rows.add_cells(np.arange(number) % SCHEMA.cells, then=lambda: seen.append(rows.size))
    assert seen == [number]
    rows.add_cells(ints([4]), ints([9]), then=lambda: seen.append(rows.size))
    assert seen == [number, number + 9]
    expected = np.bincount(np.arange(number) % SCHEMA.cells, minlength=SCHEMA.cells)
    expected[4] += 9
    assert rows.cells.marginal((0, 1)).reshape(-1).tolist() == expected.tolist()


def test_what_goes_with_tables_is_called_too() -> None:
    seen: list[int] = []
    rows = Rows(SUMMED)
    for number in (3, 0, 2):
        rows.add(table([Value(0, 0, 0)] * number), lambda: seen.append(rows.size))
    assert seen == [3, 3, 5]
