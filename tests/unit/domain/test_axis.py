"""Axes: the same classes as the codes of attributes, one form for one meaning, and what lies within what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.schemas import schemas
from treering.arrays import Flags
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.axis import EMPTY, Axis, Scalar, joined, moment
from treering.domain.calendar import DatePart, Dates
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.errors import SchemaError


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    """One attribute of any kind."""
    schema = draw(schemas(most_attributes=1, most_values=8))
    return schema.attributes[schema.names[0]]


def nearby(attribute: Attribute) -> list[Any]:
    """Values at, just beside and far from everything that an attribute tells apart; None."""
    if isinstance(attribute, Categories):
        kind = type(attribute.values[0])
        others: dict[type, list[Any]] = {str: ["", "else"], int: [-77, 10**12], bool: []}
        return [None, *attribute.values, *(each for each in others[kind] if each not in attribute.values)]
    if isinstance(attribute, Dates):
        edges = [datetime(day.year, day.month, day.day) for day in attribute.edges]
        return [None, *(edge + timedelta(microseconds=beside) for edge in edges for beside in (-1, 0, 1))]
    if isinstance(attribute, Bins):
        beside = [math.nextafter(edge, side) for edge in attribute.edges for side in (-math.inf, math.inf)]
        return [None, *attribute.edges, *beside, -1e300, 1e300]
    if isinstance(attribute, DatePart):  # Every date has a part, within its range.
        return [None, *range(attribute.low, attribute.high + 1)]
    assert isinstance(attribute, Integers)
    return [None, *range(attribute.low - 2, min(attribute.high + 3, attribute.low + 20)), attribute.high + 1]


def scalar(value: Any) -> Any:
    """A value as an axis has it."""
    return moment(value) if isinstance(value, date) else value


def code(attribute: Attribute, value: Any) -> int:
    """The code of a value, `EMPTY` if the attribute refuses it."""
    try:
        return attribute.code(value)
    except SchemaError:
        return EMPTY


@given(attributes())
def test_the_classes_of_an_attribute_are_its_codes(attribute: Attribute) -> None:
    axis = Axis.of("x", attribute)
    values = nearby(attribute)
    expected = [code(attribute, value) for value in values]
    assert axis.classify([scalar(value) for value in values]).tolist() == expected
    assert axis.number == attribute.size
    assert axis.missing == (EMPTY if attribute.missing_code is None else attribute.missing_code)


@given(attributes(), st.data())
def test_a_set_of_codes_is_told_by_an_axis_of_two_classes(attribute: Attribute, data: st.DataObject) -> None:
    axis, flags = Axis.of("x", attribute), drawn_flags(data, attribute.size)
    chosen = axis.chosen(flags).minimal
    values = [value for value in nearby(attribute) if code(attribute, value) != EMPTY]
    classes = chosen.classify([scalar(value) for value in values])
    members = np.array([flags[code(attribute, value)] for value in values], dtype=np.bool_)
    assert len(set(classes[members].tolist()) & set(classes[~members].tolist())) == 0
    assert chosen.number == len({bool(each) for each in flags})
    onto = axis.onto(chosen)
    assert onto is not None
    for one in range(attribute.size):
        for other in range(attribute.size):
            assert (onto[one] == onto[other]) == (flags[one] == flags[other])


def drawn_flags(data: st.DataObject, size: int) -> Flags:
    return np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=np.bool_)


@given(attributes(), st.data())
def test_a_minimal_axis_is_the_same_however_it_was_made(attribute: Attribute, data: st.DataObject) -> None:
    axis, flags = Axis.of("x", attribute), drawn_flags(data, attribute.size)
    labels = np.array(data.draw(st.permutations(range(attribute.size))), dtype=np.int64)
    through = axis.relabelled(labels).chosen([flags[place] for place in np.argsort(labels)]).minimal
    direct = axis.chosen(flags).minimal
    assert direct == through
    assert hash(direct) == hash(through)
    assert direct.minimal == direct
    opposite = axis.chosen(~flags).minimal
    assert (direct.cuts.tolist(), direct.listed) == (opposite.cuts.tolist(), opposite.listed)


@given(attributes(), st.data())
def test_a_joined_axis_tells_apart_what_one_of_them_does_and_no_more(attribute: Attribute, data: st.DataObject) -> None:
    axis = Axis.of("x", attribute)
    sets = [drawn_flags(data, attribute.size) for _ in range(data.draw(st.integers(1, 3)))]
    together = joined([axis.chosen(each).minimal for each in sets])
    assert together.number == len({tuple(bool(each[one]) for each in sets) for one in range(attribute.size)})
    for each in sets:
        assert together.onto(axis.chosen(each)) is not None
    assert axis.onto(together) is not None


@st.composite
def refined(draw: st.DrawFn) -> tuple[Attribute, Attribute]:
    """An attribute, and one that tells more apart."""
    kind = draw(st.sampled_from(["bins", "categories", "dates"]))
    if kind == "bins":
        edges = draw(st.lists(st.integers(-50, 50), min_size=4, max_size=9, unique=True).map(sorted))
        fewer = sorted({edges[0], edges[-1], *draw(st.lists(st.sampled_from(edges)))})
        return tr.bins(fewer, other=True, missing=True), tr.bins(edges, other=True, missing=True)
    if kind == "categories":
        words = draw(st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=8, unique=True))
        number = draw(st.integers(1, len(words)))
        return tr.categories(*words[:number], other=True, missing=True), tr.categories(*words, other=True, missing=True)
    coarse = draw(st.sampled_from(["month", "quarter", "year"]))
    later = draw(st.sampled_from(["2013-12-31", "2015-12-31"]))
    return tr.dates("2013-01-01", "2013-12-31", by=coarse), tr.dates("2013-01-01", later, by="month")


@given(refined())
def test_a_finer_attribute_lies_in_a_coarser_one(pair: tuple[Attribute, Attribute]) -> None:
    coarse, fine = pair
    onto = Axis.of("x", fine).onto(Axis.of("x", coarse))
    assert onto is not None
    minimal = Axis.of("x", coarse).minimal
    for value in nearby(fine):
        expected = minimal.classify([scalar(value)])[0]
        assert onto[fine.code(value)] == expected


@given(refined(), st.data())
def test_a_question_means_the_same_under_every_version(pair: tuple[Attribute, Attribute], data: st.DataObject) -> None:
    """Its axis is equal whether it was asked before the schema was refined, or after it."""
    coarse, fine = (Axis.of("x", each) for each in pair)
    flags = drawn_flags(data, coarse.number)
    onto = fine.onto(coarse.relabelled(flags.astype(np.int64)))
    before = coarse.chosen(flags).minimal
    assert onto is not None
    assert fine.relabelled(onto).minimal == before


def test_what_cuts_an_interval_or_lists_another_value_is_no_union() -> None:
    ten = Axis.of("x", tr.bins([0, 10], other=True))
    assert ten.onto(Axis.of("x", tr.bins([0, 5, 10], other=True))) is None
    assert ten.onto(Axis.of("y", tr.bins([0, 10], other=True))) is None
    assert ten.onto(Axis.of("x", tr.integers(0, 9, other=True))) is None
    letters = Axis.of("x", tr.categories("a", "b", other=True))
    assert letters.onto(Axis.of("x", tr.categories("a", "c", other=True))) is None
    assert letters.onto(Axis.of("x", tr.categories("a", other=True))) is not None


def test_comparisons_are_exact_on_both_sides_of_a_bound() -> None:
    closed, half_open = tr.bins([0.0, 0.1]), tr.bins([0.0, 0.1], other=True)
    assert Axis.of("x", closed).classify([0.1, math.nextafter(0.1, 1)]).tolist() == [0, EMPTY]
    assert Axis.of("x", half_open).classify([math.nextafter(0.1, 0), 0.1]).tolist() == [0, 2]


@given(st.data())
@settings(max_examples=50)
def test_unions_of_groups_are_those_that_groups_find(data: st.DataObject) -> None:
    """The oracle: `Groups.reduced` on the masks of one schema."""
    schema = data.draw(schemas(most_attributes=2, most_values=5))
    masks = {place: drawn_flags(data, size) for place, size in enumerate(schema.shape)}
    if any(mask.all() or not mask.any() for mask in masks.values()):
        return
    groups = Groups.atoms([Query.conjunction(schema, masks)])
    asked = Query.conjunction(schema, {0: drawn_flags(data, schema.shape[0])})
    expected = groups.reduced(asked, groups.classes) is not None
    if asked.constant or asked.masks is None:
        return
    question = Axis.of(schema.names[0], schema.attributes[schema.names[0]]).chosen(asked.masks[0])
    assert (groups.axes[0].onto(question) is not None) == expected


def test_a_moment_is_counted_from_1970() -> None:
    assert moment(date(1970, 1, 2)) == 86_400 * 10**6
    assert moment(datetime(1969, 12, 31, 23, 59, 59, 999_999)) == -1
    assert moment(datetime(9999, 12, 31, 23, 59, 59, 999_999)) < 2**63


@pytest.mark.parametrize(
    ("cuts", "listed", "classes"),
    [([2, 1], (), [0, 1, 2, 3, 3]), ([1, 1], (), [0, 1, 2, 3, 3]), ([1], (), [0, 1, 2]), ([1], ("a",), [0, 1, 2, 2])],
)
def test_rejects_an_axis_that_sorts_nothing(cuts: Sequence[int], listed: tuple[str, ...], classes: list[int]) -> None:
    with pytest.raises(SchemaError):
        Axis(Scalar("x", "integer"), np.array(cuts, dtype=np.int64), listed, np.array(classes))


def test_rejects_axes_of_several_scalars() -> None:
    with pytest.raises(SchemaError, match="about one scalar"):
        joined([Axis.of("x", tr.integers(0, 1)), Axis.of("y", tr.integers(0, 1))])
