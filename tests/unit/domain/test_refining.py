"""Versions of a schema: each old cell is a union of new ones, and nothing else is a refinement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.schemas import cell_weights, conjunctions, queries
from treering.domain.axis import axes_of, coarser, refines
from treering.domain.refining import refined

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", other=True, missing=True),
        "cost": tr.numbers(0, 100, step=0.5, edges=[0, 10, 50]),
        "age": tr.bins([0, 18, 65, 120]),
        "day": tr.dates("2024-01-01", "2024-03-31", by="month"),
        "stay": tr.integers(0, 5, other=True),
        "open": tr.categories(True, False),
    }
)


@st.composite
def refinements(draw: st.DrawFn) -> dict[str, Any]:
    """What a version may add, at least one thing."""
    words = draw(st.lists(st.text("abc", min_size=1, max_size=2), max_size=3, unique=True))
    change: dict[str, Any] = {
        "add": {"ward": words} if words else {},
        "edges": {
            "cost": draw(st.lists(st.integers(-20, 200), min_size=1, max_size=3)),
            "age": draw(st.lists(st.integers(0, 120), min_size=1, max_size=3)),
        },
        "until": {"day": draw(st.sampled_from(["2024-04-01", "2030-12-31"]))},
        "bounds": {"cost": (0, draw(st.integers(100, 300))), "stay": (draw(st.integers(-3, 0)), 7)},
    }
    return change


@settings(max_examples=60, deadline=None)
@given(refinements(), st.data())
def test_a_question_means_the_same_under_the_next_version(change: dict[str, Any], data: st.DataObject) -> None:
    """Values of all kinds are sorted by both versions: a query weighs them the same through either."""
    new = refined(SCHEMA, **change)
    assert refines(new, SCHEMA)
    query = data.draw(conjunctions(SCHEMA) | queries(SCHEMA))
    finer = query.under(new)
    assert finer.seen_by(SCHEMA) == query
    for position in query.attributes:
        inner = coarser(SCHEMA, new, position)
        assert inner is not None
        values = _values(data, SCHEMA.names[position])
        old_codes, new_codes = (axes_of(each)[position].classify(values) for each in (SCHEMA, new))
        kept = old_codes >= 0
        assert inner[new_codes[kept]].tolist() == old_codes[kept].tolist()


def _values(data: st.DataObject, name: str) -> list[Any]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "ward": st.sampled_from(["north", "south", "a", "ab", "zz"]),
        "cost": st.floats(-50, 300),
        "age": st.floats(0, 120),
        "day": st.integers(1_700_000_000, 1_950_000_000).map(lambda second: second * 10**6),
        "stay": st.integers(-9, 20),
        "open": st.booleans(),
    }
    return data.draw(st.lists(kinds[name], min_size=1, max_size=8))


def test_versions_come_one_after_the_other() -> None:
    second = refined(SCHEMA, add={"ward": ["east"]}, edges={"cost": [25]})
    third = refined(second, add={"ward": ["west"]}, attributes={"week": _weeks()})
    assert third.attributes["ward"].size == SCHEMA.attributes["ward"].size + 2
    assert third.names[-1] == "week"
    assert refines(third, SCHEMA)
    assert not refines(SCHEMA, second)
    query = tr.parse("ward = 'north' AND cost < 10", SCHEMA)
    assert cell_weights(query.under(second).under(third).seen_by(SCHEMA)).tolist() == cell_weights(query).tolist()


def _weeks() -> Any:
    return tr.dates("2024-01-01", "2024-03-31", by="week", column="day")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({}, "refines nothing"),
        ({"edges": {"cost": [10]}}, "refines nothing"),
        ({"add": {"wrd": ["east"]}}, "no attribute 'wrd'"),
        ({"add": {"ward": ["north"]}}, "takes each value once"),
        ({"add": {"ward": "east"}}, "takes a list of values"),
        ({"add": {"ward": [7]}}, "values of one type"),
        ({"add": {"open": [True]}}, "no cell for values not listed"),
        ({"add": {"cost": [7]}}, "has no list"),
        ({"edges": {"ward": [7]}}, "only bins and numbers have"),
        ({"edges": {"age": [150]}}, "refuses rows outside its edges"),
        ({"edges": {"cost": [float("nan")]}}, "takes a list of numbers"),
        ({"edges": {"cost": []}}, "takes a list of numbers"),
        ({"edges": {"cost": ["7"]}}, "takes a list of numbers"),
        ({"edges": {"cost": [float("inf")]}}, "finite edges"),
        ({"until": {"day": "2024-02-15"}}, "an end can only be later"),
        ({"until": {"day": "soon"}}, "last is a date"),
        ({"until": {"age": "2030-01-01"}}, "has no last date"),
        ({"bounds": {"cost": (0, 50)}}, "they can only be wider"),
        ({"bounds": {"cost": 7}}, "a pair: low and high"),
        ({"bounds": {"cost": (0, 100.3)}}, "whole number of steps"),
        ({"bounds": {"age": (0, 200)}}, "only numbers and integers have"),
        ({"attributes": {"ward": tr.integers(0, 1)}}, "is there already"),
    ],
)
def test_rejects_what_is_no_refinement(change: dict[str, Any], match: str) -> None:
    with pytest.raises(tr.SchemaError, match=match):
        refined(SCHEMA, **change)


def test_rejects_more_cells_than_can_be_numbered() -> None:
    wide = tr.Schema({f"a{each}": tr.bins([0, 2**20], other=True) for each in range(20)})
    with pytest.raises(tr.SchemaError, match=r"at most 2\^62"):
        refined(wide, edges={f"a{each}": [1, 2, 3, 4, 5, 6, 7, 8] for each in range(20)})


def test_a_query_that_tells_more_apart_is_refused_by_the_old_version() -> None:
    new = refined(SCHEMA, add={"ward": ["east"]})
    with pytest.raises(tr.QueryError, match="tells more apart in ward"):
        tr.parse("ward = 'east'", new).seen_by(SCHEMA)
    both = np.array([0, 1])
    assert both.size == len(tr.parse("ward IN ('east', 'north')", new).shape) + 1
    with pytest.raises(tr.QueryError, match="tells more apart than the schema"):
        tr.parse("ward = 'east'", new).under(SCHEMA)
