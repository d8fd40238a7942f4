"""Exact counts: any sequence of appends equals a recount, dense and sparse alike."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering.trusted.counts as counts_module
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions
from treering.errors import DataError, QueryError
from treering.trusted.counts import Counts, project
from treering.trusted.engines.source import Reading

SCHEMA = Schema({"a": integers(0, 2), "b": integers(0, 4), "c": integers(0, 1), "d": integers(0, 3)})
WIDE = Schema({f"x{i}": integers(0, 999) for i in range(6)})


@pytest.fixture(params=["dense", "sparse"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sparse":
        monkeypatch.setattr(counts_module, "DENSE_CELLS", 1)
    return str(request.param)


def recount(schema: Schema, cells: npt.NDArray[np.int64], query: Query) -> int:
    codes = np.unravel_index(cells, schema.shape)
    weights = query.weights()
    return (
        int(weights[tuple(codes[i] for i in query.attributes)].sum()) if query.attributes else int(weights) * len(cells)
    )


@settings(max_examples=40, deadline=None)
@given(batches=st.lists(st.lists(st.integers(0, SCHEMA.cells - 1), max_size=30), max_size=8), seed=st.integers(0, 99))
@pytest.mark.parametrize("limit", [1, 2**24])
def test_appends_equal_a_recount(batches: list[list[int]], seed: int, limit: int) -> None:
    queries = random_conjunctions(SCHEMA, 12, np.random.default_rng(seed))
    queries += [Query.weighted(SCHEMA, np.random.default_rng(seed).random(SCHEMA.cells)), Query.all(SCHEMA)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_module, "DENSE_CELLS", limit)
        counts = Counts(SCHEMA)
    so_far: list[int] = []
    for batch in batches:
        counts.add(np.array(batch, dtype=np.int64))
        so_far += batch
        cells = np.array(so_far, dtype=np.int64)
        truth = [recount(SCHEMA, cells, query) for query in queries]
        assert counts.size == len(so_far)
        assert [counts.count(query) for query in queries] == truth
        assert counts.count_many(queries).tolist() == truth


def test_marginals_are_maintained_not_recomputed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(SCHEMA)
    query = Query.where(SCHEMA, a=1, d=[0, 3])
    counts.add(np.arange(SCHEMA.cells))
    before = counts.count(query)
    monkeypatch.setattr(type(counts._store), "marginal", lambda *_: pytest.fail("recomputed"))
    counts.add(np.array([SCHEMA.cell({"a": 1, "b": 0, "c": 0, "d": 3})] * 7))
    counts.add(np.array([SCHEMA.cell({"a": 2, "b": 0, "c": 0, "d": 3})] * 5))
    assert counts.count(query) == before + 7, store


def test_the_cache_is_bounded(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "CACHED_CELLS", 20)
    counts = Counts(SCHEMA)
    counts.add(np.arange(SCHEMA.cells))
    for name in ("a", "b", "c", "d"):
        for other in ("a", "b", "c", "d"):
            if name != other:
                assert counts.count(Query.where(SCHEMA, **{name: 0, other: 0})) > 0
    assert sum(each.size for each in counts._marginals.values()) <= 20
    assert store


def test_a_universe_beyond_memory() -> None:
    """10^18 cells: only the occupied ones are stored, and a conjunction over all of them is counted through these."""
    generator = np.random.default_rng(5)
    cells = generator.integers(0, WIDE.cells, 500)
    counts = Counts(WIDE)
    for part in np.array_split(cells, 9):
        counts.add(part)
    counts.add(cells[:100])
    full = np.concatenate([cells, cells[:100]])
    codes = np.unravel_index(full, WIDE.shape)
    query = Query.where(WIDE, **{name: range(100, 1000) for name in WIDE.names})
    assert counts.count(query) == int(np.all([code >= 100 for code in codes], axis=0).sum())
    assert counts.count_many([query, Query.where(WIDE, x2=range(500))]).tolist() == [
        counts.count(query),
        int((codes[2] < 500).sum()),
    ]


def test_a_conjunction_too_large_to_cache(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "MARGINAL_CELLS", 4)
    counts = Counts(SCHEMA)
    counts.add(np.arange(SCHEMA.cells))
    query = Query.where(SCHEMA, a=[0, 1], b=[1, 2, 3], d=2)
    assert counts.count(query) == 2 * 3 * 2, store
    assert len(counts._marginals) == 0


@given(st.lists(st.integers(0, SCHEMA.cells - 1), max_size=20), st.sets(st.integers(0, 3)))
def test_project(cells: list[int], chosen: set[int]) -> None:
    attributes = tuple(sorted(chosen))
    codes = np.unravel_index(np.array(cells, dtype=np.int64), SCHEMA.shape)
    expected = np.zeros(len(cells), dtype=np.int64)
    for position in attributes:
        expected = expected * SCHEMA.shape[position] + codes[position]
    assert project(SCHEMA, np.array(cells, dtype=np.int64), attributes).tolist() == expected.tolist()


def test_counts_are_sealed() -> None:
    counts = Counts(SCHEMA)
    counts.add(np.array([7, 7, 7]))
    assert repr(counts) == str(counts) == "<Counts>"
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            escape(counts)


def test_what_cannot_be_counted() -> None:
    counts = Counts(SCHEMA)
    for cell in (-1, SCHEMA.cells):
        with pytest.raises(DataError, match="cell numbers must lie within"):
            counts.add(np.array([cell]))
    assert counts.size == 0
    counts.add(np.array([], dtype=np.int64))
    counts._size = 2**61
    with pytest.raises(QueryError, match="2\\^61"):
        counts.count(Query.where(SCHEMA, a=1))


def test_one_query_too_fine_for_the_size_is_refused_in_a_batch_too() -> None:
    """Its sum could wrap around 64 bits. The others, whose weights are coarser, could not."""
    counts = Counts(SCHEMA)
    coarse, fine = Query.where(SCHEMA, a=1), Query.weighted(SCHEMA, np.linspace(0, 1, SCHEMA.cells))
    assert fine.scale > coarse.scale == 1
    for size in (2**61 - 1, -(-(2**61) // fine.scale)):
        counts._size = size
        assert counts.count_many([coarse, coarse]).tolist() == [0, 0]
        for batch in ([fine], [coarse, fine], [fine, coarse]):
            with pytest.raises(QueryError, match="2\\^61"):
                counts.count_many(batch)
    counts._size = (2**61 - 1) // fine.scale
    assert counts.count_many([coarse, fine]).tolist() == [0, 0]


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, SCHEMA.cells - 1), st.integers(1, 10**12)), max_size=9), max_size=6
    )
)
@pytest.mark.parametrize("limit", [1, 2**24])
def test_rows_that_are_counted_already(batches: list[list[tuple[int, int]]], limit: int) -> None:
    """Cells may repeat and come in any order; cached marginals follow; 10^12 rows of a cell are one line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_module, "DENSE_CELLS", limit)
        counts = Counts(SCHEMA)
    truth = np.zeros(SCHEMA.shape, dtype=np.int64)
    counts.marginal((1, 3))
    for batch in batches:
        cells, rows = (np.array([pair[place] for pair in batch], dtype=np.int64) for place in (0, 1))
        counts.add_counted(cells, rows)
        np.add.at(truth.reshape(-1), cells, rows)
        assert counts.size == int(truth.sum())
        assert np.array_equal(counts.marginal((1, 3)), truth.sum(axis=(0, 2)))
        assert np.array_equal(counts.marginal((0, 1, 2, 3)), truth)


@pytest.mark.parametrize(
    ("cells", "rows", "match"),
    [
        ([0, SCHEMA.cells], [1, 1], "cell numbers"),
        ([-1], [1], "cell numbers"),
        ([0], [0], "positive"),
        ([0, 1], [5, -1], "positive"),
        ([0, 1], [2**60, 2**60], "below 2\\^61"),
        ([0, 1], [1], "one length"),
        ([[0]], [[1]], "one length"),
    ],
)
def test_counts_that_cannot_be(cells: list[int], rows: list[int], match: str) -> None:
    counts = Counts(SCHEMA)
    with pytest.raises(DataError, match=match):
        counts.add_counted(np.array(cells, dtype=np.int64), np.array(rows, dtype=np.int64))
    assert counts.size == 0
    assert counts.marginal((0,)).sum() == 0


def test_what_an_engine_counted_is_sealed() -> None:
    """Its numbers are exact counts: neither printed nor pickled."""
    reading = Reading(np.array([7]), np.array([12345]), None, 1, 12345, 12345, 0)
    assert repr(reading) == "<Reading>"
    with pytest.raises(TypeError, match="private values"):
        pickle.dumps(reading)
