"""The plain form of attributes: read back, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from support.schemas import attributes
from treering.domain.attribute import Attribute, bins
from treering.domain.calendar import dates
from treering.domain.numeric import numbers
from treering.domain.schema import attribute_from_dict
from treering.errors import SchemaError


@given(attributes())
def test_a_plain_form_is_read_back(attribute: Attribute) -> None:
    assert attribute_from_dict("x", attribute.to_dict()) == attribute


@pytest.mark.parametrize(
    "attribute",
    [
        numbers(0, 2000, step=0.01, edges=[0, 50, 2000], column="fare"),
        dates("2013-01-01", "2033-12-31", by="quarter", tz="UTC"),
        dates(part="weekday", column="day"),
        bins([0, 1], other=True, missing=True),
    ],
)
def test_so_are_those_with_more_to_say(attribute: Attribute) -> None:
    assert attribute_from_dict("x", attribute.to_dict()) == attribute


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ({}, "kind must be one of categories, integers, bins"),
        ({"kind": ["bins"]}, "kind must be one of"),
        ({"kind": "floats"}, "kind must be one of"),
        ({"kind": "integers", "low": 1}, "absent: high"),
        ({"kind": "bins", "edges": [0, 1], "closed": True}, "unknown: closed"),
        ({"kind": "bins", "edges": [0, 1], "other": 1}, "true or false"),
        ({"kind": "bins", "edges": [0, 1], "strict": "yes"}, "true or false"),
        ({"kind": "integers", "low": 0, "high": 1, "strict": True, "missing": True}, "leave other and missing out"),
        ({"kind": "numbers", "low": 0, "high": 1, "strict": True}, "unknown: strict"),
        ({"kind": "categories", "values": "abc"}, "values is a list"),
        ({"kind": "categories", "values": {"a": 1}}, "values is a list"),
        ({"kind": "bins", "edges": 3}, "edges is a list"),
        ({"kind": "bins", "edges": [1, 0]}, "strictly increasing"),
        ({"kind": "integers", "low": "1", "high": 2}, "two integers"),
        ({"kind": "categories", "values": ["a"], "other": "together"}, "true or false"),
        ({"kind": "numbers", "low": 0, "high": 1, "other": True}, "unknown: other"),
        ({"kind": "numbers", "low": 0, "high": 1, "edges": 3}, "edges is a list"),
        ({"kind": "dates", "first": "2013-01-01"}, "a first and a last date, or a part"),
        ({"kind": "dates", "part": "minute"}, "part is one of hour, weekday, month"),
        ({"kind": "dates", "part": "hour", "tz": "Mars/Olympus"}, "is no time zone"),
    ],
)
def test_a_plain_form_that_cannot_be_is_refused_by_name(plain: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=f"attribute 'x': .*{problem}"):
        attribute_from_dict("x", plain)


@pytest.mark.parametrize(
    "plain",
    [
        {"kind": "categories", "values": ["a"]},
        {"kind": "integers", "low": 0, "high": 4},
        {"kind": "bins", "edges": [0, 1]},
    ],
    ids=lambda each: each["kind"],
)
def test_strict_says_which_cells_there_are(plain: dict[str, Any]) -> None:
    """All, or none: the same attribute as with the options spelled out, and written down as these."""
    default, strict, loose = (
        attribute_from_dict("x", {**plain, **more}) for more in ({}, {"strict": True}, {"strict": False})
    )
    assert default == strict != loose == attribute_from_dict("x", {**plain, "other": True, "missing": True})
    assert (strict.strict, loose.strict) == (True, False)
    assert "strict" not in loose.to_dict()
    for flag in ("other", "missing"):
        assert attribute_from_dict("x", {**plain, flag: True}).strict
        with pytest.raises(SchemaError, match="a strict attribute has no cells"):
            attribute_from_dict("x", {**plain, "strict": True, flag: True})
