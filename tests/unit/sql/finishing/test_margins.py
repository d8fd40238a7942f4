"""Margins from what a result is when its numbers are moved."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from treering.sql.finishing.margins import Again, Moves


def again(labels: list[str], moved: list[str], moves: list[int], by: Moves) -> Again:
    return Again.of([pa.array(labels)], [pa.array(moved)], np.array(moves), len(labels), by)


def test_rows_are_found_by_their_labels_and_the_distance_that_most_draws_keep_is_taken() -> None:
    draws = 100
    labels = ["a", "b", "c"]
    moved = ["b", "a", "z"] * draws
    moves = np.repeat(np.arange(draws), 3).tolist()
    values = np.array([(10.0 + each, 5.0 - 2.0 * each, 0.0) for each in range(draws)]).ravel()
    found = again(labels, moved, moves, Moves(np.zeros((draws, 1)), draws))
    margins, without = found.margins(np.array([5.0, 10.0, 1.0]), values)
    assert margins[:2].tolist() == [2.0 * 95, 95.0]  # The 96th of 100, counted from 0.
    assert math.isnan(margins[2])
    assert without.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("draws", "least"), [(1, 1), (10, 10), (19, 19), (20, 20), (39, 38), (100, 96), (101, 97)])
def test_the_distance_is_the_least_that_holds_one_more_with_95_percent(draws: int, least: int) -> None:
    found = again(["a"], ["a"] * draws, list(range(draws)), Moves(np.zeros((draws, 1)), draws))
    margins, _ = found.margins(np.array([0.0]), np.arange(1.0, draws + 1))
    assert margins.tolist() == [least]


def test_corners_widen_and_what_has_no_value_is_counted() -> None:
    values = np.array([1.0, -1.0, np.nan, 2.0, 7.0, -4.0])
    found = again(["a"], ["a"] * 6, list(range(6)), Moves(np.zeros((6, 1)), 4))
    margins, without = found.margins(np.array([0.0]), values)
    assert margins.tolist() == [7.0]
    assert without.tolist() == pytest.approx([1 / 6])


def test_changes_by_single_numbers_are_added_up() -> None:
    # Two numbers, each moved up and down: the larger change of each counts.
    found = again(["a", "b"], ["a", "b"] * 4, [0, 0, 1, 1, 2, 2, 3, 3], Moves(np.zeros((4, 2)), 0))
    values = np.array([3.0, 10.0, -2.0, 10.0, 0.5, 14.0, -0.5, 9.0])
    margins, _ = found.margins(np.array([0.0, 10.0]), values)
    assert margins.tolist() == [3.5, 4.0]
