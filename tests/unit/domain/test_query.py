"""Queries: canonical form, meaning, algebra, weights, limits."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.schemas import cell_weights, conjunctions, queries, schemas, weighted_queries
from treering.domain.attribute import MAX_VALUES, OTHER, bins, categories, integers
from treering.domain.query import MAX_TABLE, RESOLUTION, Query
from treering.domain.schema import Schema
from treering.errors import QueryError, SchemaError

FLIGHTS = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA", other=True),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
    }
)
WIDE = Schema({f"a{index}": integers(0, 1) for index in range(60)})
SMALL = schemas(most_attributes=3, most_values=3)

PAIRS = SMALL.flatmap(lambda schema: st.tuples(queries(schema), queries(schema)))
MIXED_PAIRS = SMALL.flatmap(
    lambda schema: st.tuples(*[queries(schema) | weighted_queries(schema) | conjunctions(schema)] * 2)
)


# -- meaning ----------------------------------------------------------------------------------------------------------


@given(MIXED_PAIRS)
def test_equal_means_the_same_weight_in_every_cell(pair: tuple[Query, Query]) -> None:
    left, right = pair
    same = np.array_equal(cell_weights(left) * right.scale, cell_weights(right) * left.scale)
    assert (left == right) == same
    if same:
        assert hash(left) == hash(right)


@given(SMALL.flatmap(lambda schema: queries(schema) | weighted_queries(schema)))
def test_a_query_rebuilt_from_all_its_cells_is_the_same_query(query: Query) -> None:
    weights = cell_weights(query) / query.scale
    again = Query.weighted(query.schema, weights, resolution=query.scale)
    assert again == query
    assert (again.attributes, again.scale, again.masks is None) == (query.attributes, query.scale, query.masks is None)


@given(PAIRS)
def test_algebra_is_that_of_cells(pair: tuple[Query, Query]) -> None:
    left, right = pair
    assert np.array_equal(cell_weights(left & right), cell_weights(left) & cell_weights(right))
    assert np.array_equal(cell_weights(left | right), cell_weights(left) | cell_weights(right))
    assert np.array_equal(cell_weights(~left), 1 - cell_weights(left))
    assert ~(left & right) == ~left | ~right
    assert ~~left == left


@given(SMALL.flatmap(weighted_queries))
def test_the_complement_of_weights(query: Query) -> None:
    assert np.array_equal(cell_weights(~query), query.scale - cell_weights(query))
    assert ~~query == query


@given(SMALL.flatmap(lambda schema: queries(schema) | weighted_queries(schema)))
def test_the_form_is_canonical(query: Query) -> None:
    weights = query.weights()
    assert weights.shape == query.shape
    for axis in range(weights.ndim):
        assert (weights != np.take(weights, [0], axis=axis)).any()
    assert math.gcd(query.scale, *weights.ravel().tolist()) == 1
    assert query.spread == int(weights.max() - weights.min())
    assert query.constant == (query.spread == 0)
    assert query.counting == (query.scale == 1)


@given(SMALL.flatmap(lambda schema: queries(schema) | weighted_queries(schema)))
def test_copies_are_equal_and_cannot_be_changed(query: Query) -> None:
    hash(query)
    for again in (pickle.loads(pickle.dumps(query)), copy.copy(query), copy.deepcopy(query)):
        assert again._hash is None, "a hash of texts is only good in the process that made it"
        assert again == query
        assert hash(again) == hash(query)
        arrays = [*(again.masks or ()), *(() if again.table is None else (again.table,))]
        assert not any(array.flags.writeable for array in arrays)


def test_two_ways_to_say_the_same_are_one_query() -> None:
    winter = Query.where(FLIGHTS, month=[12, 1, 2])
    assert winter == ~Query.where(FLIGHTS, month=range(3, 12))
    assert winter == Query.where(FLIGHTS, month=(1, 2)) | Query.where(FLIGHTS, month=12)
    assert winter != Query.where(FLIGHTS, month=[12, 1])
    assert winter != "winter"
    assert len({winter, Query.where(FLIGHTS, month=[1, 2, 12])}) == 1
    jfk = Query.where(FLIGHTS, origin="JFK")
    assert (winter & jfk) | (winter & ~jfk) == winter
    assert (jfk | winter).masks is None
    assert ((jfk | winter) & winter).attributes == (1,)


def test_queries_of_different_schemas_differ() -> None:
    year = [Schema({name: integers(1, 12)}) for name in ("month", "moon")]
    assert Query.where(year[0], month=1) != Query.where(year[1], moon=1)
    assert Query.all(year[0]) != Query.all(year[1])
    assert Query.where(year[0], month=1) == Query.where(Schema({"month": integers(1, 12)}), month=1)


def test_constants() -> None:
    everything, nothing = Query.all(FLIGHTS), Query.none(FLIGHTS)
    assert ~everything == nothing
    assert ~nothing == everything
    assert everything.constant
    assert nothing.constant
    assert Query.where(FLIGHTS) == everything
    assert Query.where(FLIGHTS, month=range(1, 13)) == everything
    assert Query.where(FLIGHTS, month=[]) == nothing
    assert everything.names == ()


def test_where_names_the_optional_cells() -> None:
    assert cell_weights(Query.where(FLIGHTS, origin=OTHER)).sum() == 60
    assert cell_weights(Query.where(FLIGHTS, delay=None)).sum() == 48
    assert cell_weights(Query.where(FLIGHTS, delay=math.nan)).sum() == 48
    assert Query.where(FLIGHTS, delay=[20, 59.5]) == Query.where(FLIGHTS, delay=15)
    assert Query.where(FLIGHTS, month=np.arange(1, 4)) == Query.where(FLIGHTS, month=[1, 2, 3])


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (
            {"origin": "SFO"},
            "attribute 'origin': 'SFO' is not among the categories .*; the cells of other values are OTHER",
        ),
        ({"month": 13}, "attribute 'month': 13 is not among the integers 1 to 12"),
        ({"month": [1, None]}, "attribute 'month': None is not among"),
        ({"delay": [0, 5000]}, "attribute 'delay': 5000 is not among"),
        ({"delay": OTHER}, "attribute 'delay': OTHER is not among"),
    ],
)
def test_a_value_that_is_not_there_is_refused(sets: dict[str, Any], problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        Query.where(FLIGHTS, **sets)


def test_an_attribute_that_is_not_there_is_refused() -> None:
    with pytest.raises(SchemaError, match="no attribute 'dest'"):
        Query.where(FLIGHTS, dest="SFO")


def test_queries_of_different_kinds_do_not_mix() -> None:
    query = Query.where(FLIGHTS, month=1)
    other = Query.where(Schema({"month": integers(1, 12)}), month=1)
    half = Query.weighted(FLIGHTS, np.full(240, 0.5))
    strange: Any = "month = 1"
    for partner, problem in ((other, "different schemas"), (half, "counting queries"), (strange, "not with str")):
        with pytest.raises(QueryError, match=problem):
            query & partner
        with pytest.raises(QueryError, match=problem):
            query | partner


# -- conjunctions by flags --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("masks", "problem"),
    [
        ({3: np.ones(4, dtype=np.bool_)}, "no attribute at position 3"),
        ({-1: np.ones(4, dtype=np.bool_)}, "no attribute at position -1"),
        ({0: np.ones(3, dtype=np.bool_)}, "'origin' needs 4 flags"),
        ({0: np.ones((4, 1), dtype=np.bool_)}, "'origin' needs 4 flags"),
        ({0: np.ones(4)}, "'origin' needs 4 flags"),
    ],
)
def test_flags_that_do_not_fit_are_refused(masks: dict[int, Any], problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        Query.conjunction(FLIGHTS, masks)


def test_a_query_does_not_share_the_flags_that_it_was_made_from() -> None:
    mask = np.array([True, False, False, False])
    query = Query.conjunction(FLIGHTS, {0: mask})
    mask[:] = True
    assert query == Query.where(FLIGHTS, origin="EWR")


# -- weights ----------------------------------------------------------------------------------------------------------


@given(st.data(), st.integers(1, 2**31))
def test_weights_are_quantised_to_the_nearest_step(data: st.DataObject, resolution: int) -> None:
    schema = Schema({"a": integers(1, 2), "b": integers(1, 3)})
    weights = data.draw(st.lists(st.floats(0, 1), min_size=6, max_size=6))
    query = Query.weighted(schema, weights, resolution=resolution)
    assert np.abs(cell_weights(query) / query.scale - weights).max() <= 1 / (2 * resolution) + 1e-15


def test_the_default_resolution() -> None:
    query = Query.weighted(FLIGHTS, np.arange(12) / 12, attributes=["month"])
    assert query.scale <= RESOLUTION
    assert np.abs(query.weights() / query.scale - np.arange(12) / 12).max() <= 1 / (2 * RESOLUTION)


def test_weights_are_reduced() -> None:
    query = Query.weighted(FLIGHTS, np.arange(12) / 16, attributes=["month"])
    assert query.scale == 16
    assert query.weights().tolist() == list(range(12))
    half = Query.weighted(FLIGHTS, np.full(240, 0.5))
    assert (half.scale, half.constant, int(half.weights())) == (2, True, 1)
    assert ~half == half
    assert Query.weighted(FLIGHTS, np.ones(240)) == Query.all(FLIGHTS)
    assert Query.weighted(FLIGHTS, np.zeros(240)) == Query.none(FLIGHTS)
    assert Query.weighted(FLIGHTS, 1, attributes=[]) == Query.all(FLIGHTS)


def test_weights_of_0_and_1_are_a_counting_query() -> None:
    delayed = Query.where(FLIGHTS, delay=[15, 60])
    assert Query.weighted(FLIGHTS, [0, 0, 1, 1, 0], attributes=["delay"]) == delayed
    assert Query.weighted(FLIGHTS, cell_weights(delayed), resolution=1) == delayed


@pytest.mark.parametrize(
    ("weights", "options", "problem"),
    [
        ([0.5] * 11, {"attributes": ["month"]}, "12 weights are needed, 11 were given"),
        ([0.5] * 12, {}, "240 weights are needed"),
        ([math.nan] * 12, {"attributes": ["month"]}, r"\[0, 1\]"),
        ([math.inf] * 12, {"attributes": ["month"]}, r"\[0, 1\]"),
        ([-1e-9] * 12, {"attributes": ["month"]}, r"\[0, 1\]"),
        ([1 + 1e-9] * 12, {"attributes": ["month"]}, r"\[0, 1\]"),
        ([None] * 12, {"attributes": ["month"]}, r"\[0, 1\]"),
        (["a"] * 12, {"attributes": ["month"]}, "must be numbers"),
        ([10**400] * 12, {"attributes": ["month"]}, "must be numbers"),
        ([[1], [1, 2]], {"attributes": ["month"]}, "must be numbers"),
        ([0.5] * 60, {"attributes": ["delay", "month"]}, "in the schema's order"),
        ([0.5] * 12, {"attributes": ["month", "month"]}, "once each"),
        ([0.5] * 12, {"attributes": ["month"], "resolution": 0}, "resolution"),
        ([0.5] * 12, {"attributes": ["month"], "resolution": True}, "resolution"),
        ([0.5] * 12, {"attributes": ["month"], "resolution": 2**31 + 1}, "resolution"),
        ([0.5] * 12, {"attributes": ["month"], "resolution": 10.0}, "resolution"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        Query.weighted(FLIGHTS, weights, **options)


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_conjunction_has_no_limit_but_a_table_has() -> None:
    wide = Query.where(WIDE, **dict.fromkeys(WIDE.names, 1))
    assert wide.joint == 2**60
    assert wide & Query.where(WIDE, a0=1) == wide
    assert wide & Query.where(WIDE, a0=0) == Query.none(WIDE)
    with pytest.raises(QueryError, match=r"1,152,921,504,606,846,976 joint values of a0, a1, .*at most 1,048,576"):
        wide | Query.where(WIDE, a0=0)
    with pytest.raises(QueryError, match="joint values"):
        operator.invert(wide)
    with pytest.raises(QueryError, match="joint values"):
        wide.weights()


def test_constants_combine_with_anything() -> None:
    wide = Query.where(WIDE, **dict.fromkeys(WIDE.names, 1))
    everything, nothing = Query.all(WIDE), Query.none(WIDE)
    assert [wide & everything, everything & wide, wide | nothing, nothing | wide] == [wide] * 4
    assert [wide & nothing, nothing & wide] == [nothing] * 2
    assert [wide | everything, everything | wide] == [everything] * 2


def test_a_table_may_be_as_large_as_the_limit() -> None:
    first = [Query.where(WIDE, **{name: 1}) for name in WIDE.names[:21]]
    query = first[0]
    for each in first[1:20]:
        query = query | each
    assert query.joint == MAX_TABLE
    with pytest.raises(QueryError, match="2,097,152 joint values"):
        query | first[20]


def test_an_attribute_of_the_largest_size_has_a_complement() -> None:
    schema = Schema({"a": integers(1, MAX_VALUES - 1, missing=True)})
    assert cell_weights(~Query.where(schema, a=[1, None])).sum() == MAX_VALUES - 2


def test_attributes_of_one_value_do_not_count() -> None:
    schema = Schema({f"a{index}": categories("only") for index in range(70)} | {"b": integers(1, 3)})
    query = Query.weighted(schema, [0, 1, 0])
    assert query == Query.where(schema, b=2, a0="only")
    assert query.names == ("b",)


@given(st.data())
def test_queries_have_one_digest_exactly_if_they_are_equal(data: st.DataObject) -> None:
    schema = Schema({"a": integers(0, 2), "b": integers(0, 1)})
    weights = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6)
    first, second = (Query.weighted(schema, data.draw(weights), resolution=2) for _ in range(2))
    assert (first.digest == second.digest) == (first == second)
    assert len(first.digest) == 32
