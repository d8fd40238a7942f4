"""Evaluating queries on marginals: against a sum over all cells."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from support.schemas import cell_weights, queries, schemas, weighted_queries
from treering.domain import query as module
from treering.domain.attribute import integers
from treering.domain.query import Query, evaluate, evaluate_many, widest
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions

BATCHES = schemas(most_attributes=3, most_values=3).flatmap(
    lambda schema: st.lists(queries(schema) | weighted_queries(schema), max_size=12).map(lambda each: (schema, each))
)


class Histogram:
    """Counts for every cell, and their marginals."""

    def __init__(self, schema: Schema, seed: int) -> None:
        self.schema = schema
        self.counts = np.random.default_rng(seed).integers(0, 10**6, size=schema.cells)

    def integers(self, attributes: tuple[int, ...]) -> npt.NDArray[np.int64]:
        dropped = tuple(axis for axis in range(len(self.schema.shape)) if axis not in attributes)
        return np.asarray(self.counts.reshape(self.schema.shape).sum(axis=dropped), dtype=np.int64)

    def floats(self, attributes: tuple[int, ...]) -> npt.NDArray[np.float64]:
        return np.asarray(self.integers(attributes) / self.counts.sum().clip(1), dtype=np.float64)

    def truth(self, query: Query) -> int:
        return int(cell_weights(query) @ self.counts)


@given(BATCHES, st.integers(0, 99))
def test_integers_are_exact(batch: tuple[Schema, list[Query]], seed: int) -> None:
    schema, asked = batch
    histogram = Histogram(schema, seed)
    values = evaluate_many(asked, histogram.integers, np.int64)
    assert values.dtype == np.int64
    assert values.tolist() == [histogram.truth(query) for query in asked]
    for query in asked:
        value = evaluate(query, histogram.integers(query.attributes))
        assert isinstance(value, np.int64)
        assert value == histogram.truth(query)


@given(BATCHES, st.integers(0, 99))
def test_floats_are_close(batch: tuple[Schema, list[Query]], seed: int) -> None:
    schema, asked = batch
    histogram = Histogram(schema, seed)
    truth = np.array([histogram.truth(query) for query in asked]) / histogram.counts.sum().clip(1)
    np.testing.assert_allclose(evaluate_many(asked, histogram.floats, np.float64), truth, rtol=1e-12, atol=1e-12)
    single = [evaluate(query, histogram.floats(query.attributes)) for query in asked]
    np.testing.assert_allclose(single, truth, rtol=1e-12, atol=1e-12)
    assert all(isinstance(value, np.float64) for value in single)


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
def test_batches_over_the_same_attributes_are_exact(ways: int) -> None:
    schema = Schema({name: integers(1, size) for name, size in zip("abcd", (2, 3, 4, 5), strict=True)})
    histogram = Histogram(schema, ways)
    asked = random_conjunctions(schema, 60, np.random.default_rng(1), ways=(ways, ways))
    asked += [one | two for one, two in itertools.pairwise(asked[:20])]
    truth = [histogram.truth(query) for query in asked]
    assert evaluate_many(asked, histogram.integers, np.int64).tolist() == truth
    floats = evaluate_many(asked, histogram.floats, np.float64) * histogram.counts.sum()
    np.testing.assert_allclose(floats, truth, rtol=1e-12)


@settings(max_examples=25)
@given(batch=BATCHES)
def test_blocks_change_nothing(batch: tuple[Schema, list[Query]]) -> None:
    schema, asked = batch
    histogram = Histogram(schema, 1)
    whole = evaluate_many(asked, histogram.integers, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", 4)
        assert evaluate_many(asked, histogram.integers, np.int64).tolist() == whole.tolist()


def test_counts_beyond_what_floats_hold_are_exact() -> None:
    schema = Schema({"a": integers(1, 3), "b": integers(1, 2)})
    large = np.full((3, 2), 2**60 + 1, dtype=np.int64)
    one, two = Query.where(schema, a=[1, 2], b=1), Query.where(schema, a=1) | Query.where(schema, b=1)
    assert evaluate(one, large) == 2 * (2**60 + 1)
    assert evaluate(two, large) == 4 * (2**60 + 1)
    assert (
        evaluate_many([one, one, two, two], lambda _: large, np.int64).tolist()
        == [2 * (2**60 + 1)] * 2 + [4 * (2**60 + 1)] * 2
    )


def test_parts_of_products_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema({name: integers(1, 4) for name in "abc"})
    histogram = Histogram(schema, 5)
    asked = random_conjunctions(schema, 60, np.random.default_rng(2), ways=(3, 3))
    monkeypatch.setattr(module, "_SERIAL", 1)
    monkeypatch.setattr(module, "_FEW", 7)
    assert evaluate_many(asked, histogram.integers, np.int64).tolist() == [histogram.truth(query) for query in asked]


def test_sums_that_floats_would_round_are_exact() -> None:
    schema = Schema({"a": integers(1, 3), "b": integers(1, 2)})
    counts = np.array([[2**53 + 1, 2], [4, 6], [8, 10]])
    asked = [Query.where(schema, a=[1, 2], b=1), Query.where(schema, a=[1, 3], b=2), Query.where(schema, a=1, b=1)]
    assert evaluate_many(asked, lambda _: counts, np.int64).tolist() == [2**53 + 5, 12, 2**53 + 1]


def test_weighted_sums_that_floats_would_round_are_exact() -> None:
    schema = Schema({"a": integers(1, 3)})
    counts = np.array([2**40 + 1, 3, 5])
    asked = [Query.weighted(schema, [(2**16 - 1) / 2**16, 0, 1]), Query.weighted(schema, [1 / 2**16, 1, 0])]
    expected = [(2**40 + 1) * (2**16 - 1) + 5 * 2**16, 2**40 + 1 + 3 * 2**16]
    assert evaluate_many(asked, lambda _: counts, np.int64).tolist() == expected


def test_the_widest_query_counts() -> None:
    schema = Schema({"a": integers(1, 3), "b": integers(1, 2), "c": integers(1, 7)})
    narrow, wide = Query.where(schema, c=1), Query.where(schema, a=1, b=1, c=1)
    assert widest([]) == widest([Query.all(schema)]) == 1
    assert widest([narrow, narrow]) == 7
    assert widest([narrow, wide, narrow]) == wide.joint == 42


def test_each_marginal_is_asked_for_once() -> None:
    schema = Schema({"a": integers(1, 3), "b": integers(1, 2)})
    histogram = Histogram(schema, 1)
    seen: list[Any] = []

    def watched(attributes: tuple[int, ...]) -> npt.NDArray[np.int64]:
        seen.append(attributes)
        return histogram.integers(attributes)

    asked = [Query.where(schema, a=1), Query.where(schema, b=1), Query.where(schema, a=[1, 2]), Query.all(schema)]
    evaluate_many(asked, watched, np.int64)
    assert sorted(seen) == [(), (0,), (1,)]
    assert evaluate_many([], watched, np.int64).shape == (0,)
