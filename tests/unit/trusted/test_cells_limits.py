"""The edges of what can be counted of cells: both sides of every limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
import treering.trusted.cells as module
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.trusted.cells import MAX_COUNT, Cells, check_query

SCHEMA = Schema({"a": tr.integers(0, 2), "b": tr.integers(0, 4)})


def by_hand(attributes: tuple[int, ...], table: Any, scale: int) -> Query:
    """A query past what makes queries."""
    query = Query(SCHEMA, ())
    query.__dict__.update(attributes=attributes, masks=None, table=np.array(table), scale=scale)
    return query


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


# -- numbers of rows ---------------------------------------------------------------------------------------------------


def counted(rows: int) -> Cells:
    cells = Cells(SCHEMA)
    cells.add(np.array([0]), np.array([rows]))
    return cells


def test_what_cannot_be_counted() -> None:
    first = Query.where(SCHEMA, a=0)
    assert counted(MAX_COUNT - 1).count(first) == MAX_COUNT - 1
    with pytest.raises(QueryError, match="2\\^61"):
        counted(MAX_COUNT).count(first)


def test_one_query_too_fine_for_the_size_is_refused_in_a_batch_too() -> None:
    """Its sum could wrap around 64 bits. The others, whose weights are coarser, could not."""
    coarse, fine = Query.where(SCHEMA, a=1), Query.weighted(SCHEMA, np.linspace(0, 1, SCHEMA.cells))
    assert fine.scale > coarse.scale == 1
    for size in (MAX_COUNT - 1, -(-MAX_COUNT // fine.scale)):
        cells = counted(size)
        assert cells.count_many([coarse, coarse]).tolist() == [0, 0]
        for batch in ([fine], [coarse, fine], [fine, coarse]):
            with pytest.raises(QueryError, match="2\\^61"):
                cells.count_many(batch)
    assert counted((MAX_COUNT - 1) // fine.scale).count_many([coarse, fine]).tolist() == [0, 0]
