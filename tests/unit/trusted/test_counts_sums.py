"""Sums beside counts: dense, sparse and by arrival, against a plain recount; and what cannot be a sum."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering as tr
from treering.domain.schema import Schema
from treering.domain.sums import of_codes
from treering.errors import DataError
from treering.trusted.counts import Counts

DENSE = Schema({"a": tr.integers(0, 3), "x": tr.numbers(0, 3), "y": tr.numbers(-2, 2, step=0.5)})
SPARSE = Schema({**{f"w{place}": tr.integers(0, 999) for place in range(5)}, **DENSE.attributes})
"""More than 2^57 cells."""
Row = tuple[int, int, int]
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 63), st.integers(-3, 3), st.integers(-8, 8)), max_size=8), min_size=1, max_size=6
)


class Owner:
    """Somebody who marks."""


def arrays(rows: Sequence[Row]) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return columns[:, 0], (columns[:, 1], columns[:, 2])


def expected(rows: Sequence[Row], column: int | None) -> Counter[int]:
    found: Counter[int] = Counter()
    for cell, *sums in rows:
        found[cell] += 1 if column is None else sums[column]
    return found


@pytest.mark.parametrize("schema", [DENSE, SPARSE], ids=["dense", "sparse"])
@given(BATCHES, st.data())
@settings(max_examples=60, deadline=None)
def test_sums_by_cell_and_by_arrival(schema: Schema, batches: list[list[Row]], data: st.DataObject) -> None:
    counts, owner = Counts(schema), Owner()
    arrived: list[Row] = []
    marks = [0]
    for batch in batches:
        cells, sums = arrays(batch)
        if data.draw(st.booleans()):
            counts.add(cells, sums=sums)
        else:  # As an engine gives them: counted by cell.
            unique = np.unique(cells)
            numbers = np.array([int((cells == cell).sum()) for cell in unique], dtype=np.int64)
            totals = tuple(
                np.array([int(each[cells == cell].sum()) for cell in unique], dtype=np.int64) for each in sums
            )
            counts.add_counted(unique, numbers, sums=totals)
        arrived += batch
        if data.draw(st.booleans()):
            counts.mark(owner)
            marks.append(len(arrived))
    counts.mark(owner)
    marks = sorted({*marks, len(arrived)})
    for start, end in pairwise(marks):
        for column in (None, 0, 1):
            found: defaultdict[int, int] = defaultdict(int)
            for cells, numbers in counts.between(start, end, column):
                for cell, number in zip(cells.tolist(), numbers.tolist(), strict=True):
                    found[cell] += number
            wanted = expected(arrived[start:end], column)
            assert {cell: number for cell, number in found.items() if cell in wanted} == dict(wanted)
    for (cells, rows, *stored), (start, end) in zip(counts.stretches().values(), pairwise(marks), strict=False):
        for column, numbers in zip((None, 0, 1), (rows, *stored), strict=True):
            assert dict(zip(cells.tolist(), numbers.tolist(), strict=True)) == dict(
                expected(arrived[start:end], column)
            )


def test_rows_given_by_their_cells_have_the_middles_of_them() -> None:
    counts = Counts(DENSE)
    cells = np.array([DENSE.cell({"a": 1, "x": 1.5, "y": 0.0}), DENSE.cell({"a": 2, "x": tr.ABOVE, "y": None})])
    counts.add(np.repeat(cells, 2))
    ((found, rows, *both),) = counts.stretches().values()
    x, y = both
    assert (found.tolist(), rows.tolist()) == (cells.tolist(), [2, 2])
    middle = int(of_codes(DENSE.attributes["x"])[0])
    assert (x.tolist(), y.tolist()) == ([2 * middle, 6], [0, 0])
    counts.add_counted(cells[1:], np.array([5]))
    ((_, _, *both),) = counts.stretches().values()
    assert both[0].tolist() == [2 * middle, 21]


@pytest.mark.parametrize(
    "sums",
    [
        (np.array([4]), np.array([0])),
        (np.array([0]), np.array([-9])),
        (np.array([0, 0]), np.array([0])),
        (np.array([-(2**63)]), np.array([0])),
    ],
)
def test_sums_beyond_what_rows_can_have_are_refused(sums: tuple[np.ndarray, ...]) -> None:
    """The sensitivity of a sum rests on it."""
    counts = Counts(DENSE)
    with pytest.raises(DataError, match="within what its rows can sum to"):
        counts.add(np.array([0]), sums=sums)
    with pytest.raises(DataError, match="within what its rows can sum to"):
        counts.add_counted(np.array([0]), np.array([1]), sums=sums)
    assert counts.size == 0
    counts.add_counted(np.array([0]), np.array([3]), sums=(np.array([9]), np.array([-24])))
    assert counts.size == 3


def test_columns_that_are_missing_are_refused() -> None:
    counts = Counts(DENSE)
    with pytest.raises(DataError, match="an array for each attribute of numbers"):
        counts.add(np.array([0]), sums=(np.array([0]),))
    assert counts.size == 0
