"""Fields by their declared types: what fits is written and read back, and everything else is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import treering as tr
from treering.arrays import Ints
from treering.errors import DamagedVault, VaultError
from treering.trusted.ledger.codec.fields import Codec, Fields, array_of, one_of, optional, row, same, sequence, table
from treering.trusted.ledger.codec.numbers import Unfit
from treering.trusted.ledger.codec.queries import Queries

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})
QUERIES = Queries(SCHEMA)


@dataclass(frozen=True)
class Inner:
    number: int


@dataclass(frozen=True)
class Other:
    word: str


@dataclass(frozen=True)
class Event:
    flag: bool
    inner: Inner
    either: Inner | Other | None
    pair: tuple[int, str]
    words: tuple[str, ...]
    named: dict[str, float]
    kind: Literal["one", "two"]
    anything: Any


FIELDS = Fields((Event,), (Inner, Other), (Inner,))
EVENT = Event(True, Inner(1), Other("x"), (1, "a"), ("a", "b"), {"a": 0.5}, "two", [Inner(2), (None, {"b": 3})])


def test_an_event_comes_back() -> None:
    codec = FIELDS.of(Event)
    raw = codec.write(EVENT)
    assert list(raw) == [*Event.__dataclass_fields__]
    assert codec.read(raw, QUERIES) == EVENT
    # Small values that recur are read as one object.
    assert codec.read(raw, QUERIES).inner is codec.read(raw, QUERIES).inner


def changed(**fields: Any) -> Event:
    return Event(**{**EVENT.__dict__, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flag": 1}, "Event.flag is not bool: a vault cannot keep it"),
        ({"inner": Other("x")}, "Event.inner is Other, not Inner: a vault cannot keep it"),
        ({"inner": Inner(True)}, "Inner.number is bool, not an integer: a vault cannot keep it"),
        ({"pair": [1, "a"]}, "Event.pair is not a tuple of 2: a vault cannot keep it"),
        ({"pair": (1, "a", 2)}, "Event.pair is not a tuple of 2: a vault cannot keep it"),
        ({"words": ["a"]}, "Event.words is list, not a tuple: a vault cannot keep it"),
        ({"words": ("a", 1)}, "Event.words is not str: a vault cannot keep it"),
        ({"named": [("a", 0.5)]}, "Event.named is list, not a dict: a vault cannot keep it"),
        ({"kind": "three"}, "Event.kind is not one of one, two: a vault cannot keep it"),
        ({"anything": object()}, "Event.anything holds object: a vault cannot keep it"),
        ({"anything": (1, {2})}, "Event.anything holds set: a vault cannot keep it"),
    ],
)
def test_what_does_not_fit_its_field_is_not_written(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(VaultError) as caught:
        FIELDS.of(Event).write(changed(**fields))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("field", "raw", "message"),
    [
        ("flag", 1, "Event.flag is not bool"),
        ("either", {"Event": {}}, "Event.either "),
        ("pair", [1], "Event.pair is not a list of 2"),
        ("pair", [1, 2], "Event.pair is not str"),
        ("words", "ab", "Event.words is not a list"),
        ("words", ["a", 1], "Event.words is not str"),
        ("named", [["a", 0.5], ["a", 0.25]], "Event.named has a key twice"),
        ("named", {"a": 0.5}, "Event.named is not a list"),
        ("kind", "three", "Event.kind is not one of one, two"),
        ("anything", {"Nothing": {}}, "Event.anything holds something unknown"),
        ("anything", {"int": 3}, "Event.anything holds a number under the name of its type"),
        ("anything", {"list": 3}, "Event.anything "),
        ("anything", {"a": 1, "b": 2}, "Event.anything does not name its type"),
        ("anything", {"dict": [[{"list": []}, 1]]}, "Event.anything has a key that cannot be hashed"),
    ],
)
def test_what_does_not_fit_its_field_is_not_read(field: str, raw: Any, message: str) -> None:
    codec = FIELDS.of(Event)
    with pytest.raises(DamagedVault) as caught:
        codec.read({**codec.write(EVENT), field: raw}, QUERIES)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (same(str), 7),
        (same(int), True),
        (one_of(("a", "b")), "c"),
        (one_of(("a", "b")), ["a"]),
        (optional(same(str)), 7),
        (sequence(same(str)), ["a"]),
        (sequence(same(str)), ("a", 7)),
        (row([same(str), same(int)]), ("a", "b")),
        (row([same(str), same(int)]), ("a",)),
        (row([same(str)]), ["a"]),
        (table(same(str), same(int)), [("a", 1)]),
        (table(same(str), same(int)), {1: 1}),
        (array_of(np.dtype(np.int64)), np.zeros(3)),
        (array_of(np.dtype(np.int64)), [0]),
    ],
)
def test_every_codec_writes_its_own_type_only(codec: Codec, value: Any) -> None:
    with pytest.raises(Unfit):
        codec.write(value)


def test_an_array_of_another_dtype_is_not_read() -> None:
    raw = array_of(np.dtype(np.float64)).write(np.zeros(3))
    with pytest.raises(Unfit, match="is not an array of int64"):
        array_of(np.dtype(np.int64)).read(raw, QUERIES)


# -- what a vault can keep at all --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    value: set[int]


@dataclass(frozen=True)
class Unclear:
    value: int | str


@dataclass(frozen=True)
class Arrayed:
    value: Ints


def test_a_class_must_be_on_the_list_and_its_fields_of_types_that_can_be_kept() -> None:
    with pytest.raises(TypeError, match="Event is not on the list of what a vault keeps"):
        Fields((), (Inner,), ()).of(Event)
    with pytest.raises(TypeError, match=r"a vault cannot keep set\[int\]"):
        Fields((Open,), (), ()).of(Open)
    with pytest.raises(TypeError, match="a vault cannot tell .*int.*str.* apart"):
        Fields((Unclear,), (), ()).of(Unclear)
    arrayed = Fields((Arrayed,), (), ()).of(Arrayed)
    read = arrayed.read(arrayed.write(Arrayed(np.arange(3))), QUERIES)
    assert read.value.tolist() == [0, 1, 2]


# -- values that recur -------------------------------------------------------------------------------------------------


def test_a_small_value_that_comes_again_is_written_once() -> None:
    """Consecutive events often hold the same value; one that is equal, and another object, is written anew."""
    fields = Fields((), (Inner, Other), (Inner,))
    shared, apart, one = fields.of(Inner), fields.of(Other), Inner(1)
    assert shared.write(one) is shared.write(one)
    assert shared.write(Inner(1)) == shared.write(one) == {"number": 1}
    assert shared.write(Inner(2)) == {"number": 2}
    other = Other("x")
    assert apart.write(other) is not apart.write(other)
    assert apart.read({"word": "x"}, QUERIES) is not apart.read({"word": "x"}, QUERIES)


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Positive:
    value: int

    def __post_init__(self) -> None:
        if self.value < 1:
            raise ValueError("private")


def test_what_a_class_refuses_is_damage_without_its_words() -> None:
    codec = Fields((Positive,), (), ()).of(Positive)
    assert codec.read({"value": 1}, QUERIES) == Positive(1)
    with pytest.raises(DamagedVault) as caught:
        codec.read({"value": 0}, QUERIES)
    assert str(caught.value) == "Positive cannot have such fields"
    with pytest.raises(DamagedVault, match=r"Nothing has the fields \(none\), in this order"):
        Fields((Nothing,), (), ()).of(Nothing).read({"a": 1}, QUERIES)


# -- sequences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [(), ("a",), ("a", "b"), ("a", "b", "c")])
def test_tuples_of_any_length(values: tuple[str, ...]) -> None:
    for codec in (sequence(same(str)), sequence(optional(same(str)))):
        assert codec.write(values) == list(values)
        assert codec.read(list(values), QUERIES) == values
        unlisted: list[Any] = [{}, "ab", values, None]
        for raw in unlisted:
            with pytest.raises(Unfit, match="is not a list"):
                codec.read(raw, QUERIES)
    mixed: list[list[Any]] = [[7], ["a", 7], [7, 7]]
    for each in mixed:
        with pytest.raises(Unfit, match="is not str"):
            sequence(same(str)).read(each, QUERIES)


@dataclass(frozen=True)
class Numbers:
    one: float
    several: tuple[float, ...]
    either: int | float | None


def test_integers_among_floats_stay_integers() -> None:
    codec = Fields((Numbers,), (), ()).of(Numbers)
    for value in (
        Numbers(1, (1, 2.5), 3),
        Numbers(1.5, (1.0, 2.0), None),
        Numbers(1.5, (), 0.5),
        Numbers(1.5, (2,), 1),
    ):
        read = codec.read(codec.write(value), QUERIES)
        assert read == value
        assert [type(each) for each in (read.one, *read.several, read.either)] == [
            type(each) for each in (value.one, *value.several, value.either)
        ]


@pytest.mark.parametrize("value", [None, True, "a", 1, 1.5, (), (1, ("a", None)), [], [1, (2,)], {}, {"a": [1]}])
def test_anything_that_a_note_may_hold(value: Any) -> None:
    codec = FIELDS.of(Event)
    raw = codec.write(changed(anything=value))
    found = codec.read(raw, QUERIES).anything
    assert (found, type(found)) == (value, type(value))
