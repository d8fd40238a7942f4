"""Queries read back: each has one form, which means the same under every version of a schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.schemas import cell_weights, conjunctions, queries, schemas
from treering.domain.query import Query
from treering.trusted.ledger.codec import queries as module
from treering.trusted.ledger.codec.numbers import Unfit, write_array
from treering.trusted.ledger.codec.queries import Queries, write_query

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 1)})
WEIGHTED = Query.weighted(SCHEMA, [[0, 0.5], [0.25, 1]])
ZERO = {"cuts": [1], "classes": [1, 0, 1, 1]}
ONE = {"cuts": [1], "classes": [0, 1, 0, 0]}
APART = {"cuts": [1], "classes": [0, 1, 0, 0]}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_query_comes_back(data: st.DataObject) -> None:
    schema = data.draw(schemas(most_attributes=3, most_values=5))
    query = data.draw(conjunctions(schema) | queries(schema))
    assert Queries(schema).read(write_query(query)) == query


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_query_means_the_same_under_a_finer_schema(data: st.DataObject) -> None:
    """Edges are added and values leave *other*: what was written is read as the same rows, and written as before."""
    edges = sorted(data.draw(st.sets(st.integers(-9, 9), min_size=4, max_size=8)))
    inner = sorted({edges[0], edges[-1], *data.draw(st.sets(st.sampled_from(edges)))})
    words = data.draw(st.lists(st.text("abc", min_size=1, max_size=2), min_size=2, max_size=6, unique=True))
    known = data.draw(st.integers(1, len(words)))
    coarse, fine = (
        tr.Schema({"n": tr.bins(cuts, other=True), "w": tr.categories(*listed, other=True, missing=True)})
        for cuts, listed in ((inner, words[:known]), (edges, words))
    )
    query = data.draw(conjunctions(coarse) | queries(coarse))
    finer = Queries(fine).read(write_query(query))
    assert write_query(finer) == write_query(query)
    weights = cell_weights(query)
    for cell, weight in enumerate(cell_weights(finer)):
        values = fine.values(cell)
        seen = {"n": values["n"], "w": values["w"] if values["w"] in (*words[:known], None) else tr.OTHER}
        assert weight / finer.scale == weights[coarse.cell(seen)] / query.scale


def test_a_schema_that_lists_fewer_values_cannot_read_it() -> None:
    raw = write_query(tr.parse("w = 'b'", tr.Schema({"w": tr.categories("a", "b", other=True)})))
    with pytest.raises(Unfit, match="tells values apart that the schema does not"):
        Queries(tr.Schema({"w": tr.categories("a", other=True)})).read(raw)


def test_a_bound_within_a_bin_is_read_through_a_lens() -> None:
    schema = tr.Schema({"a": tr.bins([0, 2], other=True), "b": tr.integers(0, 3)})
    query = tr.parse("a <= 1.25 AND b = 2", schema, finer=True)
    found = Queries(schema).read(write_query(query))
    assert found == query
    assert found.schema.shape == (4, 4)


def test_conditions_are_on_values() -> None:
    assert write_query(Query.where(SCHEMA, a=0)) == {"where": {"a": ZERO}}
    assert write_query(Query.where(SCHEMA, a=1, b=1)) == {"where": {"a": ONE, "b": ONE}}
    words = tr.Schema({"w": tr.categories("x", "y", "z", other=True)})
    assert write_query(Query.where(words, w="y")) == {"where": {"w": {"listed": ["y"], "classes": [1, 0, 0, 0]}}}
    assert write_query(~Query.where(words, w="y")) == {"where": {"w": {"listed": ["y"], "classes": [0, 1, 1, 1]}}}


@pytest.mark.parametrize("over", [["a", "a"], ["b", "b"], ["b", "a"]])
def test_a_table_names_each_attribute_once_and_in_order(over: list[str]) -> None:
    raw = {"over": dict.fromkeys(over, APART), "scale": 4, "weights": write_array(np.array([[0, 2], [1, 4]]))}
    with pytest.raises(Unfit):
        Queries(SCHEMA).read(raw)


@pytest.mark.parametrize("scale", [0, -1, 2**63, 2**64])
def test_a_scale_is_a_positive_integer_of_64_bits(scale: int) -> None:
    with pytest.raises(Unfit, match="outside of 0 to its scale"):
        Queries(SCHEMA).read(table([0, 1], scale, ["a"]))


def test_queries_that_were_read_share_their_sets() -> None:
    """A ledger has millions of queries, and few sets: one array of flags for each."""
    queries = Queries(SCHEMA)
    one, other, both = (queries.read({"where": where}) for where in ({"a": ZERO}, {"a": ONE}, {"a": ZERO, "b": ONE}))
    assert one is queries.read({"where": {"a": ZERO}})
    assert one.masks is not None
    assert other.masks is not None
    assert both.masks is not None
    assert both.masks[0] is one.masks[0]
    assert both.masks[1] is not other.masks[0]  # of another attribute


WRONG: list[Any] = [
    *("a = 0", None, [], 7, {}),
    *({"where": 7}, {"where": {"a": ZERO}, "over": []}, {"over": "a", "scale": 1, "weights": {}}),
    *(
        {"where": {"a": 0}},
        {"where": {"a": []}},
        {"where": {"c": ZERO}},
        {"where": {"a": {}}},
        {"where": {"b": ONE, "a": ONE}},
    ),
    {"where": {"a": {"classes": ONE["classes"], "cuts": [1]}}},  # in another order
    {"where": {"a": {**ONE, "more": 1}}},
    {"where": {"a": {"listed": [1], "classes": [1, 0, 0, 0]}}},  # of what is cut
    {"where": {"a": {"cuts": [2], "classes": [0, 1, 0, 0]}}},  # where no row can be
    {"where": {"a": {"cuts": [1.0], "classes": ONE["classes"]}}},
    {"where": {"a": {"cuts": [True], "classes": ONE["classes"]}}},
    {"where": {"a": {"cuts": [2**63], "classes": ONE["classes"]}}},
    {"where": {"a": {"cuts": ["1"], "classes": ONE["classes"]}}},
    {"where": {"a": {"cuts": write_array(np.array([1])), "classes": ONE["classes"]}}},  # packed for nothing
    {"where": {"a": {"cuts": [1], "classes": [0, 1, 0]}}},
    {"where": {"a": {"cuts": [1], "classes": [0, 1, 1, 0]}}},  # another class of values that no row has
    {"where": {"a": {"cuts": [1], "classes": [0, 2, 0, 0]}}},
    {"where": {"a": {"cuts": [1], "classes": [1, 1, 1, 1]}}},
    {"where": {"a": {"cuts": [], "classes": [0, 0, 0]}}},
    {"where": {"a": {"cuts": [1, 1], "classes": [0, 1, 1, 0, 0]}}},
    {"where": {"a": {"cuts": [1, 0], "classes": [0, 1, 0, 0, 0]}}},
]


@pytest.mark.parametrize("raw", WRONG, ids=range(len(WRONG)))
def test_what_no_query_is_written_as_is_not_read(raw: Any) -> None:
    with pytest.raises(Unfit):
        Queries(SCHEMA).read(raw)


def test_what_is_no_query_is_not_written() -> None:
    wrong: Any
    for wrong in ("a = 0", None, {"a": 0}):
        with pytest.raises(Unfit, match=f"is {type(wrong).__name__}, not a query"):
            write_query(wrong)


def test_few_queries_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two or three at a time: what is forgotten is read again, as the same."""
    monkeypatch.setattr(module, "_REMEMBERED", 4 * (64 + 2))
    schema = tr.Schema({"a": tr.integers(0, 9)})
    queries, asked = Queries(schema), [Query.where(schema, a=code) for code in range(10)]
    for query in asked * 3:
        assert queries.read(write_query(query)) == query
        assert queries._entries <= 4 * (64 + 2)
        assert len(queries._known) <= 3
        assert len(queries._sets) <= 3
    assert queries.read(write_query(asked[-1])) is queries.read(write_query(asked[-1]))


def test_room_is_counted_by_flags_and_weights() -> None:
    """Each set and each query counts 64 more than its flags or weights; one of sets alone has one entry."""
    schema = tr.Schema({"a": tr.integers(0, 9), "b": tr.integers(0, 2)})
    queries = Queries(schema)
    queries.read(write_query(Query.where(schema, a=0)))
    assert queries._entries == (64 + 10) + (64 + 1)
    queries.read(write_query(Query.where(schema, a=0, b=1)))
    assert queries._entries == (64 + 10) + (64 + 3) + 2 * (64 + 1)
    weighted = Query.weighted(schema, np.linspace(0, 1, 30).reshape(10, 3))
    before = queries._entries
    queries.read(write_query(weighted))
    assert queries._entries == before + 64 + 30


@pytest.mark.parametrize("values", [64, 65, 5_000])
def test_conditions_with_many_values_are_packed_and_come_back(values: int) -> None:
    schema = tr.Schema({"a": tr.integers(0, 2 * values - 1), "w": tr.categories(*map(str, range(values)), other=True)})
    query = Query.where(schema, a=range(0, 2 * values, 2), w=[str(each) for each in range(0, values, 2)])
    assert Queries(schema).read(write_query(query)) == query


# -- tables of weights -------------------------------------------------------------------------------------------------


def table(weights: Any, scale: int = 4, over: Any = ("a", "b")) -> dict[str, Any]:
    return {"over": dict.fromkeys(over, APART), "scale": scale, "weights": write_array(np.array(weights))}


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (table([[0, 2], [1, 4]], over=["a"]), "another shape"),
        (table([0, 2, 1, 4]), "another shape"),
        (table([[0.0, 2.0], [1.0, 4.0]]), "another shape"),
        (table([[0, 2], [1, 5]]), "outside of 0 to its scale"),
        (table([[-1, 2], [1, 4]]), "outside of 0 to its scale"),
        (table([[0, 2], [2, 4]]), "is not in its simplest form"),  # half of everything
        (table([[0, 1], [0, 1]], 2), "is not in its simplest form"),  # of one attribute
        (table([[0, 0], [0, 1]], 1), "is not in its simplest form"),  # a conjunction
        ({**table([[0, 2], [1, 4]]), "more": 1}, "neither a conjunction nor a table"),
    ],
)
def test_a_table_that_is_not_written_so_is_not_read(raw: dict[str, Any], match: str) -> None:
    with pytest.raises(Unfit, match=match):
        Queries(SCHEMA).read(raw)


def test_a_table_may_have_weights_up_to_its_scale() -> None:
    found = Queries(SCHEMA).read(table([[0, 2], [1, 4]]))
    assert found == WEIGHTED
    assert (found.scale, found.weights().tolist()) == (4, [[0, 2], [1, 4]])
    largest = 2**63 - 1
    assert Queries(SCHEMA).read(table([0, 1], largest, ["a"])).scale == largest


def test_a_table_has_the_weights_of_classes_not_of_codes() -> None:
    schema = tr.Schema({"a": tr.integers(0, 9), "b": tr.integers(0, 1)})
    either = tr.parse("a >= 5 OR b = 1", schema)
    raw = write_query(either)
    assert raw["over"]["a"] == {"cuts": [5], "classes": [0, 1, 0, 0]}
    assert raw["weights"]["shape"] == [2, 2]


def test_numbers_and_texts_that_python_takes_for_equal_are_other_queries() -> None:
    queries = Queries(SCHEMA)
    queries.read(table([[0, 2], [1, 4]]))
    wrong: Any = {**table([[0, 2], [1, 4]]), "scale": 4.0}
    with pytest.raises(Unfit):
        queries.read(wrong)
