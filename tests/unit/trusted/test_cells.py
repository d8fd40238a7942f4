"""Counts of all cells: any sequence of appends equals a recount, dense and sparse alike; what is cached, and for how
long."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering.trusted.cells as module
from treering.arrays import Ints
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions
from treering.trusted.cells import Cells, merged, project

SCHEMA = Schema({"a": integers(0, 2), "b": integers(0, 4), "c": integers(0, 1), "d": integers(0, 3)})
WIDE = Schema({f"x{i}": integers(0, 999) for i in range(6)})
BOTH = pytest.mark.parametrize("schema", [SCHEMA, WIDE], ids=["dense", "sparse"])


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


@pytest.fixture(params=["dense", "sparse"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sparse":
        monkeypatch.setattr(module, "DENSE_CELLS", 1)
    return str(request.param)


def made(limit: int) -> Cells:
    """Dense up to this many cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DENSE_CELLS", limit)
        return Cells(SCHEMA)


def recount(schema: Schema, cells: Ints, query: Query) -> int:
    codes = np.unravel_index(cells, schema.shape)
    weights = query.weights()
    return (
        int(weights[tuple(codes[i] for i in query.attributes)].sum()) if query.attributes else int(weights) * len(cells)
    )


# -- counting ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(batches=st.lists(st.lists(st.integers(0, SCHEMA.cells - 1), max_size=30), max_size=8), seed=st.integers(0, 99))
@pytest.mark.parametrize("limit", [1, 2**24])
def test_appends_equal_a_recount(batches: list[list[int]], seed: int, limit: int) -> None:
    queries = random_conjunctions(SCHEMA, 12, np.random.default_rng(seed))
    queries += [Query.weighted(SCHEMA, np.random.default_rng(seed).random(SCHEMA.cells)), Query.all(SCHEMA)]
    counted, so_far = made(limit), list[int]()
    for batch in batches:
        counted.add(ints(*batch))
        so_far += batch
        truth = [recount(SCHEMA, ints(*so_far), query) for query in queries]
        assert [counted.count(query) for query in queries] == truth
        assert counted.count_many(queries).tolist() == truth


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, SCHEMA.cells - 1), st.integers(1, 10**12)), max_size=9), max_size=6
    )
)
@pytest.mark.parametrize("limit", [1, 2**24])
def test_rows_that_are_counted_already(batches: list[list[tuple[int, int]]], limit: int) -> None:
    """Cells may repeat and come in any order; cached marginals follow; 10^12 rows of a cell are one entry."""
    counted, truth = made(limit), np.zeros(SCHEMA.shape, dtype=np.int64)
    counted.marginal((1, 3))
    for batch in batches:
        cells, rows = (ints(*(pair[place] for pair in batch)) for place in (0, 1))
        counted.add(cells, rows)
        np.add.at(truth.reshape(-1), cells, rows)
        assert counted.count(Query.all(SCHEMA)) == int(truth.sum())
        assert np.array_equal(counted.marginal((1, 3)), truth.sum(axis=(0, 2)))
        assert np.array_equal(counted.marginal((0, 1, 2, 3)), truth)


def test_a_universe_beyond_memory() -> None:
    """10^18 cells: only the occupied ones are stored, and a conjunction over all of them is counted through these."""
    generator = np.random.default_rng(5)
    cells = generator.integers(0, WIDE.cells, 500)
    counted = Cells(WIDE)
    for part in np.array_split(cells, 9):
        counted.add(part)
    counted.add(cells[:100])
    codes = np.unravel_index(np.concatenate([cells, cells[:100]]), WIDE.shape)
    query = Query.where(WIDE, **{name: range(100, 1000) for name in WIDE.names})
    assert counted.count(query) == int(np.all([code >= 100 for code in codes], axis=0).sum())
    assert counted.count_many([query, Query.where(WIDE, x2=range(500))]).tolist() == [
        counted.count(query),
        int((codes[2] < 500).sum()),
    ]


def test_a_conjunction_too_large_to_cache(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MARGINAL_CELLS", 4)
    counted = Cells(SCHEMA)
    counted.add(np.arange(SCHEMA.cells))
    query = Query.where(SCHEMA, a=[0, 1], b=[1, 2, 3], d=2)
    assert counted.count(query) == 2 * 3 * 2, store
    assert len(counted._marginals) == 0


@given(st.lists(st.integers(0, SCHEMA.cells - 1), max_size=20), st.sets(st.integers(0, 3)))
def test_project(cells: list[int], chosen: set[int]) -> None:
    attributes = tuple(sorted(chosen))
    codes = np.unravel_index(ints(*cells), SCHEMA.shape)
    expected = np.zeros(len(cells), dtype=np.int64)
    for position in attributes:
        expected = expected * SCHEMA.shape[position] + codes[position]
    assert project(SCHEMA, ints(*cells), attributes).tolist() == expected.tolist()


def test_runs_together_have_every_place_once() -> None:
    """However far apart the places lie."""
    places, sums = merged(
        [(ints(10**17, 4, 4), ints(1, 2, -5)), (ints(), ints()), (ints(10**17 + 1, 10**17), ints(2, 3))]
    )
    assert (places.tolist(), sums.tolist()) == ([4, 10**17, 10**17 + 1], [-3, 4, 2])
    assert [each.tolist() for each in merged([(ints(), ints())])] == [[], []]


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_marginals_are_maintained_not_recomputed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Cells(SCHEMA)
    query = Query.where(SCHEMA, a=1, d=[0, 3])
    counted.add(np.arange(SCHEMA.cells))
    before = counted.count(query)
    monkeypatch.setattr(type(counted._store), "marginal", lambda *_: pytest.fail("recomputed"))
    counted.add(ints(*[SCHEMA.cell({"a": 1, "b": 0, "c": 0, "d": 3})] * 7))
    counted.add(ints(SCHEMA.cell({"a": 1, "b": 4, "c": 1, "d": 0})), ints(11))
    counted.add(ints(*[SCHEMA.cell({"a": 2, "b": 0, "c": 0, "d": 3})] * 5))
    assert counted.count(query) == before + 18, store


def test_the_cache_is_bounded(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_CELLS", 20)
    counted = Cells(SCHEMA)
    counted.add(np.arange(SCHEMA.cells))
    for name in ("a", "b", "c", "d"):
        for other in ("a", "b", "c", "d"):
            if name != other:
                assert counted.count(Query.where(SCHEMA, **{name: 0, other: 0})) > 0
    assert sum(each.size for each in counted._marginals.values()) <= 20
    assert store


@BOTH
def test_the_marginal_that_was_not_used_for_longest_is_dropped_first(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = schema.shape
    counted = Cells(schema)
    monkeypatch.setattr(module, "CACHED_CELLS", sizes[0] + sizes[1] + 1)
    first, second = counted.marginal((0,)), counted.marginal((1,))
    assert counted.marginal((0,)) is first
    counted.marginal(())  # There is room for it beside them.
    assert list(counted._marginals) == [(1,), (0,), ()]
    monkeypatch.setattr(module, "CACHED_CELLS", sizes[0] + sizes[1])
    assert counted.marginal((1,)) is second  # Nothing is dropped for what is there.
    assert list(counted._marginals) == [(0,), (), (1,)]
    counted.marginal((0, 1))  # Too large for any other beside it, and kept all the same.
    assert list(counted._marginals) == [(0, 1)]


@BOTH
def test_a_marginal_is_no_view_of_the_counts(schema: Schema) -> None:
    """Those of all cells too: an append adds to both."""
    counted = Cells(schema)
    for attributes in (range(2), range(1), ()):
        counted.marginal(tuple(attributes))
    counted.add(ints(0, 0, 1))
    counted.add(ints(0), ints(4))
    assert [int(counted.marginal(tuple(attributes)).sum()) for attributes in (range(2), range(1), ())] == [7, 7, 7]


def test_runs_of_occupied_cells_are_each_twice_as_long_as_the_next() -> None:
    """So there are few of them, and a row is merged a few times only."""
    counted, generator = Cells(WIDE), np.random.default_rng(3)
    store = counted._store
    assert isinstance(store, module._Sparse)
    for _ in range(100):
        counted.add(generator.integers(0, WIDE.cells, int(generator.integers(1, 9))))
        lengths = [len(run[0]) for run in store._runs]
        assert all(longer >= 2 * shorter for longer, shorter in pairwise(lengths))


def test_a_run_exactly_twice_as_long_as_the_next_is_left_alone() -> None:
    counted = Cells(WIDE)
    store = counted._store
    assert isinstance(store, module._Sparse)
    counted.add(np.arange(4))
    counted.add(ints(10, 11))
    assert [len(run[0]) for run in store._runs] == [4, 2]
    counted.add(ints(20, 21))
    assert [len(run[0]) for run in store._runs] == [8]


def test_few_new_rows_touch_few_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append takes time in the number of its rows; where these are many, one pass over all counters is faster."""
    passes: list[int] = []
    bincount = np.bincount

    def spied(index: Any, minlength: int = 0) -> Any:
        passes.append(len(index))
        return bincount(index, minlength=minlength)

    monkeypatch.setattr(np, "bincount", spied)
    for rows in (0, 1, 24, 25, 26, 200):
        index = (7 * np.arange(rows)) % 100
        for numbers in (None, index + 1):
            tally, expected = np.arange(100), np.arange(100)
            module._tally(tally, index, numbers)
            for place, number in zip(index.tolist(), [1] * rows if numbers is None else numbers.tolist(), strict=True):
                expected[place] += number
            assert tally.tolist() == expected.tolist()
    assert passes == [25, 26, 200]


# -- what leaves -------------------------------------------------------------------------------------------------------


def test_counts_are_sealed() -> None:
    counted = Cells(SCHEMA)
    counted.add(ints(7, 7, 7))
    assert repr(counted) == str(counted) == "<Cells>"
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            escape(counted)
