"""The edges of what can be counted: both sides of every limit, and what is kept in between."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import treering as tr
import treering.trusted.counts as module
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import DataError, QueryError
from treering.trusted.counts import MAX_COUNT, Counts, check_query

SCHEMA = Schema({"a": tr.integers(0, 2), "b": tr.integers(0, 4)})
WIDE = Schema({f"x{place}": tr.integers(0, 999) for place in range(3)})
"""More cells than are kept as an array."""
SUMMED = Schema({"x": tr.numbers(0, 3), "y": tr.numbers(-2, 2, step=0.5)})
"""x has 3 steps, and y has 8."""
BOTH = pytest.mark.parametrize("schema", [SCHEMA, WIDE], ids=["dense", "sparse"])


class Journal:
    """Somebody who marks."""


def by_hand(attributes: tuple[int, ...], table: Any, scale: int) -> Query:
    """A query past what makes queries."""
    query = Query(SCHEMA, ())
    query.__dict__.update(attributes=attributes, masks=None, table=np.array(table), scale=scale)
    return query


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


# -- queries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weights", "scale"), [([0, 2**31, 5], 2**31), ([0, 1, 1], 1), ([3, 3, 3], 3)])
def test_the_finest_weights_and_those_at_both_ends_are_taken(weights: list[int], scale: int) -> None:
    query = by_hand((0,), weights, scale)
    check_query(query, SCHEMA)
    assert query.spread == max(weights) - min(weights)


@pytest.mark.parametrize(("weights", "scale"), [([0, 1, 2**31 + 1], 2**31 + 1), ([0, 4, 3], 3), ([-1, 0, 3], 3)])
def test_finer_weights_and_those_beyond_either_end_are_not(weights: list[int], scale: int) -> None:
    with pytest.raises(QueryError, match=r"scale of a query is|lie within 0 and its scale"):
        check_query(by_hand((0,), weights, scale), SCHEMA)


def test_a_conjunction_moves_by_one_row_unless_it_has_no_condition() -> None:
    """Whatever it says of itself."""
    conjunctions = {1: [Query.where(SCHEMA, a=1), Query.where(SCHEMA, a=[0, 1], b=3)], 0: [Query.all(SCHEMA)]}
    for spread, queries in conjunctions.items():
        for query in queries:
            query.__dict__["spread"] = 5
            check_query(query, SCHEMA)
            assert query.spread == spread


def test_a_table_may_be_as_large_as_the_largest_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TABLE", SCHEMA.cells)
    check_query(by_hand((0, 1), np.eye(3, 5, dtype=np.int64), 1), SCHEMA)
    monkeypatch.setattr(module, "MAX_TABLE", SCHEMA.cells - 1)
    with pytest.raises(QueryError, match="64-bit integers, one for each joint value"):
        check_query(by_hand((0, 1), np.eye(3, 5, dtype=np.int64), 1), SCHEMA)


# -- rows --------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_cell_outside_among_others_refuses_all(schema: Schema, place: int) -> None:
    counts = Counts(schema)
    for outside in (-1, schema.cells):
        cells = ints(0, 1, schema.cells - 1)
        cells[place] = outside
        with pytest.raises(DataError, match="cell numbers must lie within"):
            counts.add(cells)
        with pytest.raises(DataError, match="cell numbers must lie within"):
            counts.add_counted(cells, ints(1, 1, 1))
    assert counts.size == 0
    counts.add(ints(0, schema.cells - 1))
    counts.add_counted(ints(0, schema.cells - 1), ints(2, 3))
    assert (counts.size, [each.tolist() for each in counts.stretches()[7]]) == (7, [[0, schema.cells - 1], [3, 4]])


@BOTH
@pytest.mark.parametrize("place", [0, 1])
def test_every_cell_has_at_least_one_row(schema: Schema, place: int) -> None:
    counts, rows = Counts(schema), ints(2, 2)
    rows[place] = 0
    with pytest.raises(DataError, match="counts must be positive"):
        counts.add_counted(ints(0, 1), rows)
    assert counts.size == 0


def test_rows_stay_below_the_largest_count_with_those_before() -> None:
    """Their sum is made in doubles, which cannot wrap around: near 2^61 they are 256 apart."""
    counts = Counts(SCHEMA)
    counts.add_counted(ints(0), ints(MAX_COUNT // 2))
    for rows in (MAX_COUNT // 2, MAX_COUNT - 1, 2**63 - 1):
        with pytest.raises(DataError, match=r"below 2\^61 together with the rows before"):
            counts.add_counted(ints(1), ints(rows))
    assert counts.size == MAX_COUNT // 2
    counts.add_counted(ints(1), ints(MAX_COUNT // 2 - 256))
    assert counts.size == MAX_COUNT - 256


@pytest.mark.parametrize("counted", [False, True])
def test_rows_times_the_most_steps_stay_below_the_largest_count(monkeypatch: pytest.MonkeyPatch, counted: bool) -> None:
    """8 steps for each of five rows, three of them taken in before."""
    counts = Counts(SUMMED)
    counts.add(ints(0, 1, 2))

    def add() -> None:
        counts.add_counted(ints(0), ints(2)) if counted else counts.add(ints(0, 0))

    monkeypatch.setattr(module, "MAX_COUNT", 5 * 8)
    with pytest.raises(DataError, match="8 steps are too many for so many rows"):
        add()
    assert counts.size == 3
    monkeypatch.setattr(module, "MAX_COUNT", 5 * 8 + 1)
    add()
    assert counts.size == 5


def test_more_rows_than_cells_keep_the_sums_they_came_with() -> None:
    """Rows without sums of their own may be counted by cell first; these may not."""
    counts = Counts(SUMMED)
    cells = np.zeros(2 * SUMMED.cells, dtype=np.int64)
    counts.add(cells, sums=(np.full_like(cells, 3), np.full_like(cells, -7)))
    (columns,) = counts.stretches().values()
    number = len(cells)
    assert [each.tolist() for each in columns] == [[0], [number], [3 * number], [-7 * number]]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_sum_beyond_its_rows_refuses_all(place: int, sign: int) -> None:
    """x has 3 steps for each row, and y has 8."""
    counts, cells, rows = Counts(SUMMED), ints(0, 1, 2), ints(1, 2, 1)
    for column, steps in enumerate((3, 8)):
        sums = [ints(1, -1, 1), ints(-1, 1, -1)]
        sums[column][place] = sign * steps * int(rows[place])
        counts.add_counted(cells, rows, sums=(sums[0], sums[1]))
        size = counts.size
        sums[column][place] += sign
        with pytest.raises(DataError, match="within what its rows can sum to"):
            counts.add_counted(cells, rows, sums=(sums[0], sums[1]))
        assert counts.size == size


@BOTH
def test_rows_that_were_counted_before_are_told_apart_by_arrival_too(schema: Schema) -> None:
    counts, journal = Counts(schema), Journal()
    counts.add_counted(ints(3, 1), ints(2, 4))
    counts.mark(journal)
    counts.add_counted(ints(1, 2), ints(5, 1))
    assert {end: [each.tolist() for each in found] for end, found in counts.stretches().items()} == {
        6: [[1, 3], [4, 2]],
        12: [[1, 2], [5, 1]],
    }


@pytest.mark.parametrize("rows", [0, 2, SCHEMA.cells, SCHEMA.cells + 1, 4 * SCHEMA.cells])
def test_what_goes_with_rows_is_called_once_when_they_are_in(rows: int) -> None:
    seen: list[int] = []
    counts = Counts(SCHEMA)
    counts.add(np.arange(rows) % SCHEMA.cells, then=lambda: seen.append(counts.size))
    assert seen == [rows]
    counts.add_counted(ints(4), ints(9), then=lambda: seen.append(counts.size))
    assert seen == [rows, rows + 9]
    assert counts.marginal((0, 1)).reshape(-1).tolist() == [
        *(rows // SCHEMA.cells + (cell < rows % SCHEMA.cells) + 9 * (cell == 4) for cell in range(SCHEMA.cells)),
    ]


# -- what is kept ------------------------------------------------------------------------------------------------------


@BOTH
def test_the_marginal_that_was_not_used_for_longest_is_dropped_first(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = schema.shape
    counts = Counts(schema)
    monkeypatch.setattr(module, "CACHED_CELLS", sizes[0] + sizes[1] + 1)
    first, second = counts.marginal((0,)), counts.marginal((1,))
    assert counts.marginal((0,)) is first
    counts.marginal(())  # There is room for it beside them.
    assert list(counts._marginals) == [(1,), (0,), ()]
    monkeypatch.setattr(module, "CACHED_CELLS", sizes[0] + sizes[1])
    assert counts.marginal((1,)) is second  # Nothing is dropped for what is there.
    assert list(counts._marginals) == [(0,), (), (1,)]
    counts.marginal((0, 1))  # Too large for any other beside it, and kept all the same.
    assert list(counts._marginals) == [(0, 1)]


def test_runs_of_occupied_cells_are_each_twice_as_long_as_the_next() -> None:
    """So there are few of them, and a row is merged a few times only."""
    counts, generator = Counts(WIDE), np.random.default_rng(3)
    store = counts._store
    assert isinstance(store, module._Sparse)
    for _ in range(100):
        counts.add(generator.integers(0, WIDE.cells, int(generator.integers(1, 9))))
        lengths = [len(run[0]) for run in store._runs]
        assert all(longer >= 2 * shorter for longer, shorter in pairwise(lengths))


def test_a_run_exactly_twice_as_long_as_the_next_is_left_alone() -> None:
    counts = Counts(WIDE)
    store = counts._store
    assert isinstance(store, module._Sparse)
    counts.add(np.arange(4))
    counts.add(ints(10, 11))
    assert [len(run[0]) for run in store._runs] == [4, 2]
    counts.add(ints(20, 21))
    assert [len(run[0]) for run in store._runs] == [8]


@pytest.mark.parametrize("schema", [SUMMED, Schema({**WIDE.attributes, **SUMMED.attributes})], ids=["dense", "sparse"])
def test_an_empty_database_has_a_column_for_every_sum(schema: Schema) -> None:
    assert [each.tolist() for each in Counts(schema).stretches()[0]] == [[], [], [], []]
    assert all(each.dtype == np.int64 for each in Counts(schema).stretches()[0])


def test_few_new_rows_touch_few_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append takes time in the number of its rows; where these are many, one pass over all counters is faster."""
    passes: list[int] = []
    bincount = np.bincount

    def spied(index: Any, minlength: int = 0) -> Any:
        passes.append(len(index))
        return bincount(index, minlength=minlength)

    monkeypatch.setattr(np, "bincount", spied)
    for rows in (0, 1, 24, 25, 26, 200):
        tally = np.arange(100)
        index = (7 * np.arange(rows)) % 100
        module._tally(tally, index)
        expected = np.arange(100)
        for place in index.tolist():
            expected[place] += 1
        assert tally.tolist() == expected.tolist()
    assert passes == [25, 26, 200]
