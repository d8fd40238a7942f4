"""Integers that are binned: grouped by value where there are few, by bin where there are many, into the same cells."""

from __future__ import annotations

from math import prod
from typing import Any

import ibis
import pyarrow as pa
import pytest

from support.engines import Stage, expected, histogram
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.trusted.engines import binning
from treering.trusted.engines.source import Source

OPEN: dict[str, Any] = {"other": True, "missing": True}
SCHEMA = Schema(
    {"hour": bins([0, 6, 12, 18, 24], **OPEN), "small": bins([-20.5, 0, 7.5, 20], **OPEN), "month": integers(1, 12)}
)
HOURS = [0, 5, 6, 11, 12, 23, 24, 25, -1, None, 2**63 - 1, -(2**63), 2**53 + 1]
SMALLS = [-21, -20, -1, 0, 7, 8, 20, 21, None, 2**15 - 1, -(2**15)]
LAST = 2**53
"""From here on, integers are no doubles; the edges of bins lie within."""


def rows() -> pa.Table:
    pairs = [(hour, small) for hour in HOURS for small in SMALLS]
    return pa.table(
        {
            "id": pa.array(range(len(pairs)), pa.int64()),
            "hour": pa.array([hour for hour, _ in pairs], pa.int64()),
            "small": pa.array([small for _, small in pairs], pa.int16()),
            "month": pa.array([1 + place % 12 for place in range(len(pairs))], pa.int32()),
        }
    )


def live(table: pa.Table) -> Any:
    return ibis.duckdb.connect().create_table("given", table)


@pytest.mark.parametrize("few", [0, binning.FEW_GROUPS])
def test_both_ways_give_the_cells_of_the_encoder(stage: Stage, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binning, "FEW_GROUPS", few)
    stage.create(rows())
    assert histogram(Source.of(stage.source, SCHEMA).increments(None)) == expected(rows(), SCHEMA)


def test_both_ways_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    table = live(rows())
    assert binning.grouped_by_value(table, SCHEMA) == {"hour": (0, 23), "small": (-20, 19), "month": (1, 12)}
    monkeypatch.setattr(binning, "FEW_GROUPS", 0)
    assert binning.grouped_by_value(table, SCHEMA) == {"month": (1, 12)}


def test_there_are_never_more_than_few_groups_for_the_sake_of_bins() -> None:
    binned = {f"x{place}": bins([0, 3, 6]) for place in range(5)}
    schema = Schema({**binned, "y": integers(0, 1), "wide": bins([1 - LAST, 0, LAST - 1]), "z": categories(1, 2)})
    spans = binning.grouped_by_value(live(pa.table({name: [1] for name in schema.names})), schema)
    assert set(spans) == {"x0", "x1", "x2", "y"}
    groups = {name: high - low + 3 for name, (low, high) in spans.items() if name in binned}
    assert prod(groups.get(name, each.size) for name, each in schema.attributes.items()) <= binning.FEW_GROUPS


def test_columns_of_doubles_are_grouped_by_bin() -> None:
    table = live(pa.table({"hour": [0.5], "small": [1], "month": [1.0]}))
    assert binning.grouped_by_value(table, SCHEMA) == {"small": (-20, 19), "month": (1, 12)}


@pytest.mark.parametrize("edges", [[LAST - 6, LAST - 3, LAST - 1], [1 - LAST, 3 - LAST, 6 - LAST], [0.25, 0.5, 0.75]])
def test_integers_that_are_no_doubles_fall_where_their_doubles_do(edges: list[float]) -> None:
    schema = Schema({"x": bins(edges, **OPEN)})
    near = [int(edge) + step for edge in edges for step in range(-4, 5)]
    table = pa.table({"id": range(len(near)), "x": pa.array(near, pa.int64())})
    assert histogram(Source.of(live(table), schema).increments(None)) == expected(table, schema)


@pytest.mark.parametrize("low", [-1, -(2**40), 1 - LAST])
def test_a_column_without_a_sign_is_compared_with_negative_bounds(low: int) -> None:
    schema = Schema({"x": integers(low, min(5, low + 7), **OPEN), "y": bins([low, low + 4, low + 7], **OPEN)})
    values = [0, 3, 5, 6, 2**64 - 1, None]
    column = pa.array(values, pa.uint64())
    table = pa.table({"id": range(len(values)), "x": column, "y": column})
    assert histogram(Source.of(live(table), schema).increments(None)) == expected(table, schema)


def test_cells_beyond_short_integers(stage: Stage) -> None:
    schema = Schema({f"x{place}": bins(range(301)) for place in range(4)})
    table = pa.table({"id": [1, 2, 3], **{name: [0.0, 299.5, 300.0] for name in schema.names}})
    stage.create(table)
    found = Source.of(stage.source, schema).increments(None)
    assert histogram(found) == expected(table, schema) == {0: 1, 300**4 - 1: 2}
