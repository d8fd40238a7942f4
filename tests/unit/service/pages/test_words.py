"""What can be typed: completion and examples."""

from __future__ import annotations

import pytest

import treering as tr
from treering.domain.attribute import Categories
from treering.domain.language.parse import parse
from treering.service.pages.results import is_statement
from treering.service.pages.words import MOST_VALUES, examples, words
from treering.sql.split import split

SCHEMAS = [
    tr.Schema({"origin": tr.categories("EWR", "O'Hare"), "month": tr.integers(1, 12)}),
    tr.Schema({"order": tr.categories(True, False)}),
    tr.Schema({"Day of travel": tr.dates("2013-01-01", "2013-12-31", by="month"), "x": tr.bins([0, 1.5, 9])}),
    tr.Schema({"hour": tr.dates(part="hour", column="time"), "fare": tr.numbers(0, 100, step=0.5, edges=[0, 50, 100])}),
    tr.Schema({"id": tr.integers(0, 10**6)}),
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_example_and_every_completed_comparison_is_understood(schema: tr.Schema) -> None:
    for each in examples(schema):
        if is_statement(each):
            split(each, schema, sums=False)
        else:
            parse(each, schema)
    for attribute, told in zip(schema.attributes.values(), words(schema)["attributes"], strict=True):
        assert told["values"]
        compared = "=" if isinstance(attribute, Categories) else ">="
        for value in told["values"][:20] if len(told["values"]) > 20 else told["values"][:-1]:
            parse(f"{told['name']} {compared} {value}", schema)


def test_there_are_not_too_many_values() -> None:
    (attribute,) = words(SCHEMAS[-1])["attributes"]
    assert len(attribute["values"]) == MOST_VALUES
    assert "missing" in words(tr.Schema({"x": tr.bins([0, 1], missing=True)}))["attributes"][0]["describes"]
