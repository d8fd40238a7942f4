"""Rows become entries of the unit ball by declared bounds; what cannot is refused by position, and not repeated."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from treering.arrays import Floats
from treering.domain.problem import FEATURE_UNIT, on_grid
from treering.errors import DataError
from treering.trusted.learning.points import Bounds, Samples, features_of
from treering.trusted.memory.points import GrowingPoints

LATE = Bounds(classes=("late", "on time"))
finite = st.floats(allow_nan=False, allow_infinity=False)
bounds = st.floats(5e-324, 1e308)


@given(arrays(np.float64, (4, 3), elements=finite), bounds, st.booleans())
@settings(max_examples=200, deadline=None)
def test_entries_lie_in_the_unit_ball_whatever_rows_and_bound_are(rows: Floats, norm: float, intercept: bool) -> None:
    entries = Samples(rows, None, Bounds(norm, intercept)).entries
    assert entries.shape == (4, 3 + intercept)
    assert np.isfinite(entries).all()
    assert np.linalg.norm(entries, axis=1).max() <= 1 + 1e-12
    assert (np.square(on_grid(entries)).sum(axis=1) <= FEATURE_UNIT**2).all()


@given(arrays(np.float64, (4, 3), elements=finite), arrays(np.float64, 3, elements=finite), bounds)
@settings(max_examples=100, deadline=None)
def test_a_row_replaced_is_an_entry_replaced(rows: Floats, other: Floats, norm: float) -> None:
    """What the privacy proof rests on."""
    changed = rows.copy()
    changed[2] = other
    declared = Bounds(norm, True, label=2.0)
    before, after = Samples(rows, [0.0, 1.0, 2.0, -2.0], declared), Samples(changed, [0.0, 1.0, -1.0, -2.0], declared)
    assert before.labels is not None
    assert after.labels is not None
    kept = [0, 1, 3]
    assert np.array_equal(before.entries[kept], after.entries[kept])
    assert np.array_equal(before.labels[kept], after.labels[kept])
    assert after.labels[2] == -0.5


def test_rows_within_the_bound_are_divided_by_it_and_longer_ones_are_scaled_down() -> None:
    rows = Samples(
        [[3.0, 4.0], [30.0, 40.0], [0.0, 0.0]], ["late", "on time", "late"], Bounds(10.0, classes=LATE.classes)
    )
    assert rows.entries == pytest.approx(np.array([[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]]))
    assert rows.labels is not None
    assert rows.labels.tolist() == [-1, 1, -1]
    assert (rows.size, rows.dimension, rows.label_kind, rows.column) == (3, 2, "signs", False)


def test_without_labels_they_are_not_looked_at() -> None:
    class Untouchable:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    rows = Samples([[1.0]], Untouchable(), Bounds())
    assert rows.labels is None
    assert rows.label_kind == "none"
    assert rows.column is False


def test_a_column_of_labels_is_taken_and_told() -> None:
    rows = Samples([[1.0], [2.0]], [["late"], ["on time"]], LATE)
    assert rows.column
    assert rows.labels is not None
    assert rows.labels.tolist() == [-1, 1]


def test_rows_are_sealed() -> None:
    rows = Samples([[0.123456789]], ["late"], LATE)
    assert repr(rows) == str(rows) == "<Samples>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            leak(rows)


SECRET = "secret 123456789"


@pytest.mark.parametrize(
    ("features", "labels", "declared", "match"),
    [
        ([[1.0], [float("nan")]], ["late", "late"], LATE, "row 1, column 0: a feature is missing, NaN or infinity"),
        ([[1.0], [SECRET]], ["late", "late"], LATE, "X must be numbers"),
        ([["123456789"], ["2.5"]], ["late", "late"], LATE, "X must be numbers"),
        (np.array([[b"123456789"]]), ["late"], LATE, "X must be numbers"),
        (np.array([["2026-01-02"]], dtype="datetime64[D]"), ["late"], LATE, "X must be numbers"),
        (np.array([[123456789]], dtype="timedelta64[s]"), ["late"], LATE, "X must be numbers"),
        ([[1.0]], ["1.5"], Bounds(label=2.0), "y must be numbers"),
        ([[1.0]], np.array(["1970-01-02"], dtype="datetime64[D]"), Bounds(label=2.0), "y must be numbers"),
        ([[1.0, 2.0], [123456789.0]], ["late", "late"], LATE, "rows of the same length"),
        ([[1.0], [2.0]], ["late", SECRET], LATE, "y: row 1: .* declared classes, 'late' and 'on time'"),
        ([[1.0], [2.0]], ["late", pandas.NA], LATE, "cannot be compared"),
        ([[1.0], [2.0]], [1.0, 123456789.0], Bounds(label=2.0), "y: row 1: .* larger than the declared bound, 2:"),
        ([[1.0], [2.0]], [1.0, float("inf")], Bounds(label=2.0), "y: row 1: .* NaN or infinity"),
        ([[1.0], [2.0]], [1.0, SECRET], Bounds(label=2.0), "y must be numbers"),
        ([[1.0], [2.0]], ["late"], LATE, "as many labels, not 1"),
        ([[1.0], [2.0]], None, LATE, "requires y"),
        ([[1.0]], [["late", "late"]], LATE, "1d array"),
        ([[1.0]], csr_matrix([[1.0]]), LATE, "sparse labels"),
        (csr_matrix([[1.0]]), ["late"], LATE, "sparse features"),
        ([[1j]], ["late"], LATE, "Complex"),
        ([1.0], ["late"], LATE, "2D array, not 1D"),
        (np.empty((0, 2)), [], LATE, "0 sample"),
        (np.empty((2, 0)), ["late", "late"], LATE, "0 feature"),
    ],
)
def test_bad_rows_are_refused_without_their_values(features: Any, labels: Any, declared: Bounds, match: str) -> None:
    with pytest.raises(DataError, match=match) as refusal:
        Samples(features, labels, declared)
    shown = f"{refusal.value} {refusal.value.__cause__} {refusal.value.__context__}"
    assert "123456789" not in shown


def test_an_array_that_can_become_an_array_is_not_sparse() -> None:
    class Listed(list[list[float]]):
        """What a frame may offer, too."""

        def toarray(self) -> Any:
            return np.array(self)

    assert features_of(Listed([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]


def test_a_refusal_has_its_position() -> None:
    with pytest.raises(DataError) as refusal:
        features_of([[1.0, 2.0], [3.0, float("inf")]])
    assert (refusal.value.row, refusal.value.column) == (1, "1")


def test_an_array_that_raises_is_not_quoted() -> None:
    class Loud:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise RuntimeError(SECRET)

    with pytest.raises(DataError, match="must be an array") as refusal:
        features_of(Loud())
    assert refusal.value.__context__ is None


def test_a_collection_takes_rows_of_its_own_kind_alone() -> None:
    points = GrowingPoints(2, "signs")
    assert points.append_rows(Samples([[1.0, 2.0]], ["late"], LATE)) == 1
    assert points.append(np.empty((0, 2)), []) == 1
    with pytest.raises(DataError, match="rows of 2 numbers, not 1"):
        points.append_rows(Samples([[1.0]], ["late"], LATE))
    with pytest.raises(DataError, match="are signs, not numbers"):
        points.append_rows(Samples([[1.0, 2.0]], [0.5], Bounds(label=1.0)))
    assert points.size == 1
