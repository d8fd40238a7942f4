"""Queries read back: each has one form, and what is in none of them is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.domain.query import Query
from treering.trusted.ledger.codec import queries as module
from treering.trusted.ledger.codec.numbers import Unfit, write_array, write_bytes
from treering.trusted.ledger.codec.queries import Queries, write_query

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


# -- sets of codes -----------------------------------------------------------------------------------------------------


def written(mask: list[int]) -> str:
    """How a condition on one attribute is written, and read back."""
    schema = tr.Schema({"a": tr.integers(0, len(mask) - 1)})
    query = Query(schema, (0,), masks=(np.array(mask, dtype=np.bool_),))
    raw = write_query(query)
    assert Queries(schema).read(raw) == query
    return str(raw["where"]["a"])


@pytest.mark.parametrize(
    ("mask", "codes"),
    [
        ([1, 0, 0], "0"),
        ([0, 0, 1], "2"),
        ([1, 1, 0], "0-1"),
        ([0, 1, 1], "1-2"),
        ([1, 0, 1], "0,2"),
        ([0, 1, 1, 1, 0, 1, 0, 0, 1, 1], "1-3,5,8-9"),
    ],
)
def test_codes_are_spelt_as_numbers_and_ranges(mask: list[int], codes: str) -> None:
    assert written(mask) == codes


def test_a_set_is_spelt_out_if_a_person_can_read_it() -> None:
    """Up to 40 characters, even if its bitmap is shorter; and whatever its length, if that is not longer."""
    forty, more = [0, 2, 4, 6, 8, *range(10, 28, 2), 100], range(10, 38, 2)
    for codes in (forty, more, range(0, 8, 2), range(0, 118, 2), [0, 1000]):
        mask = [int(code in codes) for code in range(codes[-1] + 2)]
        spelt = ",".join(str(code) for code in codes)
        packed = write_bytes(np.packbits(np.array(mask, dtype=np.bool_)).tobytes())
        assert written(mask) == (spelt if len(spelt) <= 40 or len(spelt) <= len(packed) else packed)
    lengths = [len(",".join(str(code) for code in codes)) for codes in (forty, more)]
    assert lengths == [40, 41]


def test_a_set_of_many_ranges_is_written_in_the_shorter_way() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        ends = np.sort(generator.choice(20_000, size=40, replace=False))
        mask = np.zeros(20_001, dtype=np.bool_)
        for start, end in ends.reshape(-1, 2):
            mask[start:end] = True
        spelt, packed = module._spelt(mask), write_bytes(np.packbits(mask).tobytes())
        assert spelt is not None
        assert module._codes(mask) == (packed if len(packed) < len(spelt) else spelt)
        assert (module._mask(module._codes(mask), len(mask)) == mask).all()


@pytest.mark.parametrize(("stretches", "spelt"), [(256, True), (257, False)])
def test_a_set_of_very_many_ranges_is_a_bitmap(stretches: int, spelt: bool) -> None:
    mask = [1, 0] * stretches
    found = module._spelt(np.array(mask, dtype=np.bool_))
    assert found == (",".join(str(code) for code in range(0, 2 * stretches, 2)) if spelt else None)
    assert written(mask)[1] == ":"


@pytest.mark.parametrize(
    "codes",
    [
        *("", "0,", ",0", "0-", "-1", "0-0", "01", "1,0", "0,0", "0,1", "0-1,2", "0-2,1", "2-1", "4", "0-4", "3-9"),
        *("+1", " 1", "1_0", "0;2", "0--1", "0-3", "x"),
    ],
)
def test_what_no_set_is_written_as_is_not_read(codes: str) -> None:
    """Not in order, adjacent ranges, out of range, all values, other digits."""
    with pytest.raises(Unfit, match="has a condition that"):
        Queries(tr.Schema({"a": tr.integers(0, 3)})).read({"where": {"a": codes}})


@pytest.mark.parametrize("size", [7, 8, 9, 16, 17])
def test_a_bitmap_has_no_bits_beyond_its_attribute(size: int) -> None:
    queries, length = Queries(tr.Schema({"a": tr.integers(0, size - 1)})), -(-size // 8)
    whole = np.packbits(np.array([1] + [0] * (8 * length - 1), dtype=np.bool_))
    read = queries.read({"where": {"a": write_bytes(whole.tobytes())}})
    assert read == Query.where(queries.schema, a=0)
    for bit in range(size, 8 * length):
        beyond = np.zeros(8 * length, dtype=np.bool_)
        beyond[[0, bit]] = True
        with pytest.raises(Unfit, match="does not fit its attribute"):
            queries.read({"where": {"a": write_bytes(np.packbits(beyond).tobytes())}})
    for wrong in (length - 1, length + 1):
        with pytest.raises(Unfit, match="has packed bytes of another length"):
            queries.read({"where": {"a": write_bytes(bytes([128] * wrong))}})
    for none_or_all in (bytes(length), np.packbits(np.ones(size, dtype=np.bool_)).tobytes()):
        with pytest.raises(Unfit, match="that all values meet, or none"):
            queries.read({"where": {"a": write_bytes(none_or_all)}})


# -- tables of weights -------------------------------------------------------------------------------------------------


def table(weights: Any, scale: int = 4, over: Any = ("a", "b")) -> dict[str, Any]:
    return {"over": list(over), "scale": scale, "weights": write_array(np.array(weights))}


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


def test_numbers_and_texts_that_python_takes_for_equal_are_other_queries() -> None:
    queries = Queries(SCHEMA)
    queries.read(table([[0, 2], [1, 4]]))
    wrong: Any = {**table([[0, 2], [1, 4]]), "scale": 4.0}
    with pytest.raises(Unfit):
        queries.read(wrong)
