"""One-hot features: in the unit ball, made of codes, and refused where they would tell the label."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.domain.problem import FEATURE_UNIT, CellFeatures, OneHot

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", other=True),
        "month": tr.integers(1, 3),
        "hour": tr.bins([0, 8, 24], missing=True),
        "delay": tr.integers(0, 30),
    }
)
LATE = "delay >= 15"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.booleans(), st.data())
def test_a_vector_has_a_one_per_attribute_and_norm_at_most_one_exactly(
    sizes: list[int], intercept: bool, data: st.DataObject
) -> None:
    hot = OneHot(tuple(sizes), intercept)
    codes = [data.draw(st.integers(0, size - 1)) for size in sizes]
    (vector,) = hot.of_codes(np.array(codes)[:, None]).tolist()
    assert len(vector) == hot.dimension == sum(sizes) + intercept
    expected = {sum(sizes[:place]) + code for place, code in enumerate(codes)} | ({sum(sizes)} if intercept else set())
    assert {place for place, value in enumerate(vector) if value} == expected
    squared = sum(value**2 for value in vector)
    assert (1 - 2 * len(expected) / FEATURE_UNIT) * FEATURE_UNIT**2 < squared <= FEATURE_UNIT**2


@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_the_map_that_a_table_of_the_same_vectors_gives(intercept: bool) -> None:
    """Names in any order; the attributes in between do not matter."""
    features = CellFeatures.one_hot(SCHEMA, ["hour", "origin"], LATE, intercept=intercept)
    ones = [np.eye(3)[code] for code in np.indices((3, 3)).reshape(2, -1)]
    columns = [*ones, np.ones((9, 1))] if intercept else ones
    table = CellFeatures(
        SCHEMA, ["origin", "hour"], np.hstack(columns) / math.sqrt(len(columns)), tr.parse(LATE, SCHEMA)
    )
    assert features.joint == table.joint == (0, 2, 3)
    assert features.entries == table.entries == 3 * 3 * 31
    assert np.abs(features.grid - table.grid).max() <= 1
    assert np.array_equal(features.labels, table.labels)
    assert features.dimension == table.dimension == 6 + intercept
    assert np.array_equal(features.part(40, 77), features.grid[40:77])
    assert np.array_equal(table.part(270, 10_000), table.grid[270:])


def test_a_large_map_takes_no_memory_until_it_is_read() -> None:
    schema = tr.Schema({"a": tr.integers(1, 1000), "b": tr.integers(1, 1000), "c": tr.categories("n", "y")})
    features = CellFeatures.one_hot(tr.Schema(dict(list(schema.attributes.items())[:2])), ["a", "b"])
    assert (features.entries, features.dimension) == (10**6, 2001)
    assert features.part(123_456, 123_458).nonzero()[1].tolist() == [123, 1456, 2000, 123, 1457, 2000]
    assert "grid" not in vars(features)


def test_rows_at_hand_become_the_vectors_of_their_cells() -> None:
    features = CellFeatures.one_hot(SCHEMA, ["origin", "month", "hour"])
    for cell in range(0, SCHEMA.cells, 31):
        row = SCHEMA.values(cell)
        assert np.array_equal(features.vectors_of([row])[0], features.grid[cell // 31] / FEATURE_UNIT)
    del row["delay"]
    assert features.vectors_of([row, row]).shape == (2, 10)
    assert features.vectors_of([]).shape == (0, 10)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"origin": "EWR"}, "row 1 has no 'month': a prediction needs origin, month"),
        ({"origin": "EWR", "month": 4}, "row 1, attribute 'month': 4 is not among the integers 1 to 3"),
    ],
)
def test_rows_without_a_place_are_refused(row: dict[str, Any], match: str) -> None:
    features = CellFeatures.one_hot(SCHEMA, ["origin", "month"])
    with pytest.raises(tr.SchemaError, match=match):
        features.vectors_of([{"origin": "nowhere", "month": 1}, row])


@pytest.mark.parametrize(
    ("names", "target", "error", "match"),
    [
        (["origin", "weather"], LATE, tr.SchemaError, "no attribute 'weather'; there are origin, month"),
        (["origin", "delay"], LATE, tr.ParameterError, "must leave out delay, which the target asks about"),
        (["month", "month"], LATE, tr.ParameterError, "month is there twice"),
        (["origin"], "delay >= 0", tr.ParameterError, "target is the same for all rows"),
        (["origin"], "delay >=", tr.QueryError, "delay >="),
        (["origin"], "weather = 'rain'", tr.QueryError, "weather"),
        (["origin"], 15, tr.QueryError, "target must be a Query or its text, not int"),
        ([], LATE, tr.ParameterError, "at least one attribute"),
        ("origin", LATE, tr.ParameterError, r'such as \["origin"\], not one text'),
    ],
)
def test_what_cannot_be_features_is_refused(names: Any, target: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        CellFeatures.one_hot(SCHEMA, names, target)


def test_too_many_values_are_refused_before_anything_is_made() -> None:
    schema = tr.Schema({"a": tr.integers(1, 2**20), "late": tr.categories("n", "y")})
    with pytest.raises(tr.ParameterError, match="1,048,576 values; at most 4,095"):
        CellFeatures.one_hot(schema, ["a"])
    with pytest.raises(tr.ParameterError, match="are for attributes"):
        CellFeatures(SCHEMA, ["origin"], OneHot((4,)))
    with pytest.raises(tr.ParameterError, match="another schema"):
        CellFeatures.one_hot(SCHEMA, ["origin"], tr.parse("late = 'y'", schema))


def test_without_a_target_there_are_no_labels() -> None:
    assert CellFeatures.one_hot(SCHEMA, ["origin"]).label_kind == "none"
    assert CellFeatures.one_hot(SCHEMA, ["origin"], LATE).label_kind == "signs"
