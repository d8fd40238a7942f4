"""The edges of what rows are taken in: both sides of every limit; and all of a batch, or none of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.kept_rows import SCHEMA as SUMMED, Away, Value, ints, table, tallied
from treering.arrays import Ints
from treering.domain.groups import Groups
from treering.domain.schema import Schema
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


def refused(rows: Rows, match: str, cells: Ints) -> None:
    """Nothing of it is taken in."""
    size, pieces = rows.size, rows._pieces
    with pytest.raises(DataError, match=match):
        rows.add_cells(cells, lambda: pytest.fail("it was refused"))
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
    rows.add_cells(ints([0, schema.cells - 1]))
    rows.add_cells(ints([0, 0] + [schema.cells - 1] * 3))
    last = Groups.of([tr.Query.where(schema, **dict(zip(schema.names, LAST[len(schema.names)], strict=True)))])
    assert (rows.size, tallied(rows, last, (0, 7), None)) == (7, {(0, 0): 4})


def test_cells_come_as_one_array() -> None:
    refused(Rows(SCHEMA), "one array", np.zeros((1, 1), dtype=np.int64))


# -- numbers of rows ---------------------------------------------------------------------------------------------------


def test_rows_stay_below_the_largest_count_with_those_before() -> None:
    rows = Rows(SCHEMA)
    rows.add_elsewhere(Away(ints([])), MAX_COUNT // 2)
    for number in (MAX_COUNT // 2, MAX_COUNT - 1, 2**63 - 1):
        with pytest.raises(DataError, match=r"must stay below 2\^61"):
            rows.add_elsewhere(Away(ints([])), number)
    rows.add_elsewhere(Away(ints([])), MAX_COUNT // 2 - 1)
    assert rows.size == MAX_COUNT - 1


@pytest.mark.parametrize("kind", ["cells", "elsewhere", "table", "file"])
def test_rows_times_the_most_steps_stay_below_the_largest_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """8 steps for each of five rows, three of them taken in before."""
    rows = Rows(SUMMED)
    rows.add_cells(ints([0, 1, 2]))
    add: dict[str, Callable[[], None]] = {
        "cells": lambda: rows.add_cells(ints([0, 0])),
        "elsewhere": lambda: rows.add_elsewhere(Away(ints([0, 0])), 2),
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
    rows.add_cells(ints([4] * 9), then=lambda: seen.append(rows.size))
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
