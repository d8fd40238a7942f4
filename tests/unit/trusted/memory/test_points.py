"""Points to learn from that grow in memory: what they take, show and refuse."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.trusted.learning.points import POINTS, Bounds, Samples
from treering.trusted.memory.points import GrowingPoints


class Watcher:
    """Counts how often it was told."""

    def __init__(self, db: Any) -> None:
        self.told = 0
        db.watch(self.grown)

    def grown(self) -> None:
        self.told += 1


def test_points_grow_and_tell_who_watches() -> None:
    points = GrowingPoints(2, "signs")
    watcher = Watcher(points)
    assert points.append([[0.5, 0.5], [0.0, -1.0]], [1, -1]) == points.size == 2
    assert points.append([[0.5, 0.0]], [1]) == points.size == 3
    assert watcher.told == 2
    with pytest.raises(tr.DataError):
        points.append([[0.5, 0.0]], [7])
    assert (points.size, watcher.told) == (3, 2)


def test_what_of_points_is_public() -> None:
    points = GrowingPoints(3, "numbers")
    assert (points.schema, points.dimension, points.label_kind) == (POINTS, 3, "numbers")
    assert GrowingPoints(1, "none").append([[0.5]]) == 1
    assert repr(points) == "GrowingPoints(0 points; 3 features)"
    points.append(np.zeros((1234, 3)), np.zeros(1234))
    assert repr(points) == str(points) == "GrowingPoints(1,234 points; 3 features)"
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            escape(points)


def test_rows_that_were_checked_are_points_as_well() -> None:
    points = GrowingPoints(2, "signs")
    watcher = Watcher(points)
    rows = Samples([[3.0], [4.0]], ["late", "on time"], Bounds(10.0, 1.0, ("late", "on time"), None))
    assert points.append_rows(rows) == points.size == 2
    assert watcher.told == 1
