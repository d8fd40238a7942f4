"""Groups are disjoint by their form: what the queries say of every cell, by brute force, is what `place` says."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import treering as tr
from support.grouped import cells_of, labels_of
from support.schemas import cell_weights, conjunctions, queries, schemas
from treering.arrays import Ints
from treering.domain.groups import MOST_GROUPS, Groups
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError, SchemaError

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12), "late": tr.integers(0, 1)})
SMALL = schemas(most_attributes=3, most_values=4)


def named(schema: Schema, groups: Groups) -> tuple[int, ...]:
    """The attributes that the axes are about."""
    return tuple(position for position, _ in labels_of(groups, schema))


def members(parts: list[Query]) -> list[list[int]]:
    """For each cell, the queries that match it, by brute force."""
    matched = np.array([cell_weights(query) for query in parts])
    return [np.flatnonzero(column).tolist() for column in matched.T]


# -- groups of queries -------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_place_is_the_query_that_matches_and_overlaps_are_refused(data: st.DataObject) -> None:
    schema = data.draw(SMALL)
    parts = data.draw(st.lists(conjunctions(schema) | queries(schema), min_size=1, max_size=4))
    found = members(parts)
    empty = any(not cell_weights(query).any() for query in parts)
    if empty or any(len(each) > 1 for each in found):
        with pytest.raises(QueryError, match="overlap|matches no cell"):
            Groups.of(parts)
    else:
        _check(schema, parts, found)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_queries_that_were_made_disjoint_are_taken(data: st.DataObject) -> None:
    """Each query without what the earlier ones match; empty ones are left out."""
    schema = data.draw(SMALL)
    parts: list[Query] = []
    before = Query.none(schema)
    for query in data.draw(st.lists(conjunctions(schema) | queries(schema), min_size=1, max_size=5)):
        rest = query & ~before
        before = before | query
        if cell_weights(rest).any():
            parts.append(rest)
    assume(parts)
    _check(schema, parts, members(parts))


def _check(schema: Schema, parts: list[Query], found: list[list[int]]) -> None:
    groups = Groups.of(parts)
    assert cells_of(groups, schema) == [each[0] if each else -1 for each in found]
    assert groups.number == len(parts)
    assert groups.whole == all(found)
    assert groups.table is not None
    assert groups.shape == groups.table.shape
    assert named(schema, groups) == tuple(sorted({position for query in parts for position in query.attributes}))
    # Values that no query tells apart are in one class, and no others.
    universe = np.array(cells_of(groups, schema)).reshape(schema.shape)
    for (position, labels), size in zip(labels_of(groups, schema), groups.shape, strict=True):
        slices = [np.take(universe, value, position).tobytes() for value in range(schema.shape[position])]
        assert len(set(slices)) == size
        assert len(set(zip(slices, labels.tolist(), strict=True))) == size


def test_classes_are_as_few_as_the_queries_need() -> None:
    winter, summer = (Query.where(SCHEMA, month=months) for months in ([12, 1, 2], [6, 7, 8]))
    groups = Groups.of([winter, summer & Query.where(SCHEMA, late=1)])
    assert (named(SCHEMA, groups), groups.shape, groups.number, groups.whole) == ((1, 2), (3, 2), 2, False)
    assert groups.axes[0].cuts.tolist() == [3, 6, 9, 12]
    assert groups.axes[0].classes.tolist() == [0, 1, 2, 1, 0, 0, 0]
    both = Groups.of([winter, ~winter])
    assert (both.shape, both.number, both.whole) == ((2,), 2, True)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_pair_is_a_query_and_the_rest(data: st.DataObject) -> None:
    schema = data.draw(SMALL)
    query = data.draw(conjunctions(schema) | queries(schema))
    assume(not query.constant)
    groups = Groups.pair(query)
    assert cells_of(groups, schema) == [int(not weight) for weight in cell_weights(query)]
    assert (groups.number, groups.whole, named(schema, groups)) == (2, True, query.attributes)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_is_a_union_of_groups_of_a_table_is_reduced_to_them(data: st.DataObject) -> None:
    """By brute force over all cells: a query is one about the groups if and only if each group has one weight."""
    schema = data.draw(SMALL)
    parted = data.draw(conjunctions(schema) | queries(schema))
    assume(not parted.constant)
    parts = data.draw(st.sampled_from([[parted, ~parted], [~parted, parted]]))
    groups = data.draw(st.sampled_from([Groups.pair(parted), Groups.of(parts)]))
    query = data.draw(st.sampled_from([parted, ~parted, Query.all(schema)]) | conjunctions(schema) | queries(schema))
    classes, place, weights = groups.classes, np.array(cells_of(groups, schema)), cell_weights(query)
    values = [set(weights[place == group].tolist()) for group in range(groups.number)]
    reduced = groups.reduced(query, classes)
    assert classes.shape == (groups.number,)
    assert (reduced is not None) == all(len(each) == 1 for each in values)
    if reduced is not None:
        assert cell_weights(reduced).tolist() == [each.pop() for each in values]


def test_all_rows_are_a_group() -> None:
    every = Groups.of([Query.all(SCHEMA)])
    assert (every.axes, every.shape, every.number, every.whole) == ((), (), 1, True)


LATE = Query.where(SCHEMA, late=1)
OTHER = tr.Schema({"late": tr.integers(0, 1)})


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ([], "at least one query"),
        ([LATE, LATE], "overlap: query 2 matches cells of an earlier one"),
        ([LATE, ~LATE, Query.where(SCHEMA, late=1, month=3)], "overlap: query 3"),
        ([Query.all(SCHEMA), LATE], "overlap: query 2"),
        ([Query.all(SCHEMA), Query.all(SCHEMA)], "overlap"),
        ([Query.none(SCHEMA)], "query 1 matches no cell"),
        ([LATE, LATE & ~LATE], "query 2 matches no cell"),
        ([LATE, Query.weighted(SCHEMA, [0.25, 0], attributes=["late"])], "without weights"),
        ([LATE, Query.where(OTHER, late=0)], "about one schema"),
    ],
)
def test_what_is_no_group_is_refused(parts: list[Query], match: str) -> None:
    with pytest.raises(QueryError, match=match):
        Groups.of(parts)


def test_too_many_joint_classes_are_refused() -> None:
    wide = tr.Schema({name: tr.integers(0, 299) for name in "abc"})
    single = [Query.where(wide, **dict.fromkeys("abc", value)) for value in range(300)]
    with pytest.raises(QueryError, match=r"27,000,000 joint values apart; at most"):
        Groups.of(single)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_values_are_told_apart_by_any_number_of_queries(data: st.DataObject) -> None:
    schema = data.draw(SMALL)
    asked = data.draw(st.lists(conjunctions(schema) | queries(schema), min_size=1, max_size=90))
    named = [query for query in asked if not query.constant]
    assume(named)
    groups = Groups.atoms(named)
    for position, labels in groups.by_codes(schema) or ():
        told = [_weights_along(query, position) for query in named if position in query.attributes]
        rows = [tuple(each[code].tobytes() for each in told) for code in range(schema.shape[position])]
        for one, other in itertools.combinations(range(len(rows)), 2):
            if rows[one] != rows[other]:
                assert labels[one] != labels[other]


def _weights_along(query: Query, position: int) -> Ints:
    """A query's weights, a row for each value of an attribute."""
    return np.ascontiguousarray(np.moveaxis(query.weights(), query.attributes.index(position), 0))


def test_many_queries_about_many_values_take_little_room() -> None:
    schema = tr.Schema({"place": tr.integers(1, 4000)})
    parts = [Query.where(schema, place=value) for value in range(1, 4001)]
    tracemalloc.start()
    groups = Groups.atoms(parts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert groups.number == 4000
    assert peak < 4000 * 4000  # a byte for each query and value


# -- marginals ---------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_marginal_has_a_group_for_each_joint_value(data: st.DataObject) -> None:
    schema = data.draw(SMALL)
    names = data.draw(st.lists(st.sampled_from(schema.names), unique=True))
    groups = Groups.marginal(schema, names)
    positions = sorted(schema.index(name) for name in names)
    assert named(schema, groups) == tuple(positions)
    assert groups.shape == tuple(schema.shape[position] for position in positions)
    assert groups.number == math.prod(groups.shape)
    assert groups.whole
    every = np.array(np.unravel_index(np.arange(schema.cells), schema.shape))
    expected = [np.ravel_multi_index(tuple(each), groups.shape) for each in every[positions].T] if positions else []
    assert cells_of(groups, schema) == (expected or [0] * schema.cells)


def test_a_marginal_without_names_is_of_all_attributes() -> None:
    groups = Groups.marginal(SCHEMA)
    assert groups.number == SCHEMA.cells
    assert cells_of(groups, SCHEMA) == list(range(SCHEMA.cells))
    assert named(SCHEMA, Groups.marginal(SCHEMA, ["late", "origin", "late"])) == (0, 2)


def test_a_marginal_too_large_or_of_nothing_known_is_refused() -> None:
    wide = tr.Schema({"a": tr.integers(0, 2047), "b": tr.integers(0, 2047), "c": tr.integers(0, 1)})
    assert Groups.marginal(wide, ["a", "b"]).number == MOST_GROUPS
    with pytest.raises(ParameterError, match=r"names span 8,388,608 joint values"):
        Groups.marginal(wide)
    with pytest.raises(SchemaError, match="carrier"):
        Groups.marginal(SCHEMA, ["carrier"])


# -- their form --------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_labels_and_table_say_a_cell_is_in_one_group_at_most(data: st.DataObject) -> None:
    """Groups by hand: a cell's group is the table at its labels, and there is one for each cell."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    schema = tr.Schema({f"a{axis}": tr.integers(0, size - 1) for axis, size in enumerate(shape)})
    labels = [
        np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), dtype=np.int64) for size in shape
    ]
    classes = [int(each.max()) + 1 for each in labels]
    table = None
    if data.draw(st.booleans()):
        listed = data.draw(st.lists(st.integers(-1, 4), min_size=math.prod(classes), max_size=math.prod(classes)))
        table = np.array(listed, dtype=np.int64).reshape(classes)
    groups = Groups.over(schema, range(len(shape)), labels, table)
    found = cells_of(groups, schema)
    for cell, place in enumerate(found):
        own = [int(label[code]) for label, code in zip(labels, np.unravel_index(cell, shape), strict=True)]
        if table is None:
            assert place == np.ravel_multi_index(own, classes)
        else:
            assert place == table[tuple(own)]
    assert max(found, default=-1) < max(1, groups.number)
    assert groups.whole == (table is None or bool((table >= 0).all()))


def test_rejects_labels_of_no_class() -> None:
    with pytest.raises(QueryError, match="each value of an attribute has a class, from 0 on"):
        Groups.over(SCHEMA, [0], [np.array([0, -1])])


def test_groups_do_not_change() -> None:
    groups = Groups.of([LATE, ~LATE])
    assert groups.table is not None
    for array in (groups.axes[0].classes, groups.axes[0].cuts, groups.table):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    for name in ("axes", "table"):
        with pytest.raises(FrozenInstanceError):
            setattr(groups, name, None)
