"""Numbers grouped by steps: every double falls into the group that DuckDB's own value of the expression names."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, strategies as st
from sqlglot import exp, parse_one

import treering as tr
from treering.domain.attribute import Bins
from treering.sql.keys import Key, key
from treering.sql.steps import bucketed

SCHEMA = tr.Schema({"cost": tr.numbers(0, 500, step=0.01, edges=[0, 50, 500]), "ward": tr.categories("north", "south")})

EXPRESSIONS = [
    "floor(cost / 10) * 10",
    "floor(cost / 0.1)",
    "floor((cost - 7.3) * 3) / 3",
    "ceil(cost * 0.01)",
    "-floor(-cost / 7)",
    "floor(100 - cost)",
    "round(cost)",
    "round(cost, -2)",
    "CAST(floor(cost / 250) AS INTEGER)",
    "floor(cost / 100) % 2",
    "CASE WHEN cost < 37.5 THEN floor(cost / 10) ELSE 99 END",
    "CASE WHEN cost <= 37.5 THEN 1 WHEN 120 < cost THEN 3 ELSE 2 END",
]


def groups(text: str) -> Key:
    tree = parse_one(text, read="duckdb")
    for column in tree.find_all(exp.Column):
        column.set("this", exp.to_identifier(column.name, quoted=True))
    return key(bucketed(tree) if isinstance(tree, exp.WidthBucket) else tree, SCHEMA)


def label_of(found: Key, value: float) -> Any:
    """The label of the group that a number is in."""
    matching = []
    for group in found:
        lens = group.rows.schema
        code = lens.attributes["cost"].code(value)
        assert group.rows.masks is not None
        if group.rows.masks[0][code]:
            matching.append(group.label)
    (label,) = matching
    return label


def worked_out(text: str, value: float) -> Any:
    ((found,),) = duckdb.execute(f"SELECT {text} FROM (SELECT ?::DOUBLE AS cost)", [value]).fetchall()
    return found


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_label_is_the_value_of_the_expression_on_both_sides_of_every_cut(text: str) -> None:
    found = groups(text)
    attributes = [group.rows.schema.attributes["cost"] for group in found]
    cuts = {edge for attribute in attributes if isinstance(attribute, Bins) for edge in attribute.edges}
    for cut in sorted(cuts)[:60]:
        for value in (math.nextafter(cut, -math.inf), cut, math.nextafter(cut, math.inf)):
            if 0 <= value < 500:
                assert label_of(found, value) == worked_out(text, value)


FOUND = {text: groups(text) for text in EXPRESSIONS}


@given(st.sampled_from(EXPRESSIONS), st.floats(0, 500, exclude_max=True))
def test_a_label_is_the_value_of_the_expression(text: str, value: float) -> None:
    assert label_of(FOUND[text], value) == worked_out(text, value)


def test_width_bucket_counts_from_1() -> None:
    found = groups("width_bucket(cost, 100, 300, 4)")
    assert [label_of(found, value) for value in (0.0, 99.99, 100.0, 149.99, 150.0, 299.9, 300.0, 499.0)] == [
        *(0, 0, 1, 1, 2, 4, 5, 5)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "cost * 2",
        "floor(cost * cost)",
        "floor(cost) + cost",
        "round(cost, 1)",
        "floor(cost / 0)",
        "floor(sqrt(cost))",
        "floor(1 / cost)",
        "floor(1e999 * cost)",
    ],
)
def test_rejects_expressions_that_are_no_steps_of_a_line(text: str) -> None:
    with pytest.raises(tr.QueryError):
        groups(text)


def test_rejects_steps_that_are_too_many() -> None:
    with pytest.raises(tr.QueryError, match="groups; at most 10,000"):
        groups("floor(cost * 1000)")


def test_rejects_width_bucket_of_a_list() -> None:
    with pytest.raises(tr.QueryError, match="takes four arguments"):
        bucketed(exp.WidthBucket(this=exp.column("cost"), min_value=exp.Literal.number(1)))


def test_counts_by_steps_are_those_of_the_rows() -> None:
    rows = np.random.default_rng(7).lognormal(4, 0.8, 20_000).clip(0, 499.9)
    db = tr.GrowingDatabase(SCHEMA)
    db.append([{"cost": float(value), "ward": "north"} for value in rows])
    with_noise = tr.Rings(db, epsilon=10**6)
    items = {
        group.label: with_noise.ask(group.rows).count
        for group in groups("floor(cost / 100) * 100")
        if not group.special
    }
    exact = {float(low): int(((rows >= low) & (rows < low + 100)).sum()) for low in range(0, 500, 100)}
    assert items == exact
