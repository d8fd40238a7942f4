"""Queries read back: each has one form, and what is in none of them is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.domain.query import Query
from treering.vault.codec import queries as module
from treering.vault.codec.queries import Queries, write_query
from treering.vault.codec.values import Unfit, write_array

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 1)})
WEIGHTED = Query.weighted(SCHEMA, [[0, 0.5], [0.25, 1]])


def test_a_table_of_weights_comes_back() -> None:
    assert Queries(SCHEMA).read(write_query(WEIGHTED)) == WEIGHTED


@pytest.mark.parametrize("over", [["a", "a"], ["b", "b"], ["b", "a"]])
def test_a_table_names_each_attribute_once_and_in_order(over: list[str]) -> None:
    """An attribute named twice would be a question about pairs of values that no row has."""
    raw = {"over": over, "scale": 4, "weights": write_array(np.array([[0, 2], [1, 4]]))}
    with pytest.raises(Unfit, match="in another order than the schema's"):
        Queries(SCHEMA).read(raw)


@pytest.mark.parametrize("scale", [0, -1, 2**63, 2**64])
def test_a_scale_is_a_positive_integer_of_64_bits(scale: int) -> None:
    raw = {"over": ["a"], "scale": scale, "weights": write_array(np.array([0, 1]))}
    with pytest.raises(Unfit, match="outside of 0 to its scale"):
        Queries(SCHEMA).read(raw)


def test_queries_that_were_read_share_their_sets() -> None:
    """A ledger has millions of queries, and few sets: one array of flags for each."""
    queries = Queries(SCHEMA)
    one, other, both = (queries.read({"where": where}) for where in ({"a": "0"}, {"a": "1"}, {"a": "0", "b": "1"}))
    again = queries.read({"where": {"a": "0"}})
    assert one is again
    assert one.masks is not None
    assert other.masks is not None
    assert both.masks is not None
    assert both.masks[0] is one.masks[0]
    assert both.masks[1] is not other.masks[0]  # of another attribute


def test_what_is_no_query_is_neither_written_nor_read() -> None:
    wrong: Any
    for wrong in ("a = 0", None, {"a": 0}):
        with pytest.raises(Unfit, match=f"is {type(wrong).__name__}, not a query"):
            write_query(wrong)
    for wrong in ("a = 0", None, [], 7):
        with pytest.raises(Unfit, match="is not a query"):
            Queries(SCHEMA).read(wrong)
    for wrong in ({"where": 7}, {"where": {"a": "0"}, "over": []}, {}, {"over": "a", "scale": 1, "weights": {}}):
        with pytest.raises(Unfit, match="is neither a conjunction nor a table of weights"):
            Queries(SCHEMA).read(wrong)
    for wrong, match in (({"a": 0}, "no text"), ({"a": []}, "no text"), ({"c": "0"}, "does not have")):
        with pytest.raises(Unfit, match=match):
            Queries(SCHEMA).read({"where": wrong})


def test_few_queries_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two or three at a time: what is forgotten is read again, as the same."""
    monkeypatch.setattr(module, "_REMEMBERED", 4 * (64 + 2))
    schema = tr.Schema({"a": tr.integers(0, 9)})
    queries, raws = Queries(schema), [{"where": {"a": str(code)}} for code in range(10)]
    for raw in raws * 3:
        assert queries.read(raw) == Query.where(schema, a=int(raw["where"]["a"]))
        assert queries._entries <= 4 * (64 + 2)
        assert len(queries._known) <= 3
        assert len(queries._sets) <= 3
    assert queries.read(raws[-1]) is queries.read(raws[-1])


def test_room_is_counted_by_flags_and_weights() -> None:
    """Each set and each query counts 64 more than its flags or weights; one of sets alone has one entry."""
    schema = tr.Schema({"a": tr.integers(0, 9), "b": tr.integers(0, 2)})
    queries = Queries(schema)
    queries.read({"where": {"a": "0"}})
    assert queries._entries == (64 + 10) + (64 + 1)
    queries.read({"where": {"a": "0", "b": "1"}})
    assert queries._entries == (64 + 10) + (64 + 3) + 2 * (64 + 1)
    weighted = Query.weighted(schema, np.linspace(0, 1, 30).reshape(10, 3))
    before = queries._entries
    queries.read(write_query(weighted))
    assert queries._entries == before + 64 + 30
