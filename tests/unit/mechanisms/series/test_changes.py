"""What a changed row can move in an estimate of a series that goes on: the lemma of `changes`, added up; and its broken
twins."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.budget.weights import Weights
from treering.mechanisms.series.changes import Part, levels, widened
from treering.mechanisms.series.tree import TreeEstimate
from treering.mechanisms.series.view import Reading
from treering.noise import Laplace
from treering.theory import series as theory
from treering.theory.continual import start_noise
from treering.theory.nodes import completed_by

LAST = (1, 2, 3, 7, 32, 100, 257)


def parts_of_rows(weights: Weights, last: int) -> Iterator[tuple[bool, Floats]]:
    """For every period and every leaf: whether the period holds the leaf, and how much of a row of the leaf an estimate
    holds that was made of the first releases alone, then the first two, and so on."""
    column = weights.first(last).astype(np.float64)
    for first in theory.recent(last):
        coefficients = theory.window_coefficients(first, last, weights)
        for leaf in range(1, last + 1):
            yield leaf >= first, np.cumsum(coefficients[leaf - 1 :] * column[: last - leaf + 1])


@pytest.mark.parametrize("weights", list(Weights))
@pytest.mark.parametrize("last", LAST)
def test_a_row_counts_for_a_part_of_what_it_said_in_a_series_by_roots(weights: Weights, last: int) -> None:
    for inside, parts in parts_of_rows(weights, last):
        assert parts[-1] == pytest.approx(float(inside), abs=1e-9)
        least, most = (0.0, 1.0) if inside else (-1.0, 0.0)
        assert least - 1e-3 <= parts.min() <= parts.max() <= most + 1e-3
        assert np.abs(parts).max() <= 1 + 1e-9


@pytest.mark.parametrize("weights", list(Weights))
def test_half_a_row_for_each_that_was_changed_would_not_do(weights: Weights) -> None:
    """The bound is attained: a row that was erased long after it was counted is all but whole."""
    parts = [each for inside, each in parts_of_rows(weights, 100) if inside]
    assert max(each[-2] for each in parts if len(each) > 1) > 0.9
    assert min(each[0] for each in parts) < 0.2


@pytest.mark.parametrize("leaves", [1, 2, 3, 6, 13, 32])
def test_a_row_counts_for_a_part_of_what_it_said_in_a_tree(leaves: int) -> None:
    """A tree whose releases are 1 where the row was there: at each leaf from its own on, up to one at which it goes."""
    noise = start_noise(Budget("pure", Fraction(1)))
    assert isinstance(noise, Laplace)
    for born in range(1, leaves + 1):
        for gone in range(born, leaves + 2):
            tree = TreeEstimate(noise)
            for leaf in range(1, leaves + 1):
                nodes = completed_by(leaf)
                held = [level for level, _ in nodes if leaf - (1 << level) < born <= leaf < gone]
                tree.take(leaf, [np.array([int(level in held)]) for level, _ in nodes])
            for since in tree.boundaries:
                (found,) = tree.window(since).counts
                assert -1e-12 <= found <= (1 + 1e-12 if since < born else 1e-12)
                if gone > leaves:
                    assert found == pytest.approx(float(since < born))


def test_readings_are_wider_by_what_may_be_off() -> None:
    reading = Reading(0.5, 0.1, 0.2, 0.15)
    assert widened(reading, 0) is reading
    assert widened(reading, 0.25) == pytest.approx((0.5, 0.35, 0.45, 0.4))


def test_series_are_told_apart_by_how_many_rows_were_changed() -> None:
    parts = [Part(Reading(0, 0, 0, 0), variance, changed) for variance, changed in ((1, 3), (4, 0), (2, 3), (9, 7))]
    assert [(most, [each.variance for each in some]) for most, some in levels(parts)] == [
        (0, [4]),
        (3, [1, 4, 2]),
        (7, [1, 4, 2, 9]),
    ]
