"""The public state of a continual histogram tells one life from another, and comes back on replay."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.cost import completed_by
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.series.tree import TreeEstimate
from treering.noise import Laplace

SCHEMA = tr.Schema({"a": tr.integers(1, 16), "b": tr.integers(1, 16)})
BATCHES = 7


def lived(delta: float) -> tuple[TestDatabase, list[object]]:
    """A database with a histogram's life on record, and its states in between. The noise of any two lives is equal with
    a chance below 10^-100: there are 256 cells."""
    db = TestDatabase(SCHEMA)
    histogram = ContinualHistogram(db, 1.0, delta)
    states: list[object] = []
    for _ in range(BATCHES):
        db.append_cells(list(range(SCHEMA.cells)) * 40)
        histogram.ask("a = 1")
        states.append(histogram.state)
    return db, states


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_batch_and_every_life_has_its_own_state(delta: float) -> None:
    (db, states), (_, others) = lived(delta), lived(delta)
    assert len({*states, *others}) == 2 * BATCHES
    assert ContinualHistogram(db, 1.0, delta).state == states[-1]
    # By the fingerprint alone, which is its last part: batches and sizes are equal.
    *numbers, print_ = ContinualHistogram(db, 1.0, delta).state
    assert numbers == [BATCHES, BATCHES * 40 * SCHEMA.cells]
    assert len(print_) == 64


def estimate(*, sizes: tuple[int, ...] = (10, 20, 30, 40), changed: tuple[int, int] | None = None) -> TreeEstimate:
    """A tree over four leaves of two groups, with one count changed: that of a leaf's n-th node."""
    tree = TreeEstimate(Laplace(2.0))
    for leaf, size in enumerate(sizes, 1):
        counts = [np.array([leaf, number]) for number in range(len(completed_by(leaf)))]
        if changed is not None and changed[0] == leaf:
            counts[changed[1]] += 1
        tree.take(size, counts)
    return tree


def test_the_fingerprint_of_a_tree_covers_all_that_it_keeps() -> None:
    # All nodes of the four leaves, and the sizes at which the second and the last of them end.
    nodes = [(leaf, number) for leaf in range(1, 5) for number in range(len(completed_by(leaf)))]
    others = [estimate(changed=each) for each in nodes]
    others += [estimate(sizes=(10, 21, 30, 40)), estimate(sizes=(10, 20, 30, 41)), estimate(sizes=(10, 20, 30))]
    prints = [each.fingerprint() for each in (estimate(), *others)]
    assert len(set(prints)) == len(prints) == 1 + len(nodes) + 3
    assert estimate().fingerprint() == prints[0]
    restored = TreeEstimate(Laplace(2.0))
    restored.restore(estimate().note())
    assert restored.fingerprint() == prints[0]


def test_no_error_above_one_is_stated() -> None:
    """With so few rows the count of all cells may be off by more rows than there are."""
    histogram = ContinualHistogram(TestDatabase(SCHEMA, [0] * 20), 0.1)
    assert histogram.guarantee.alpha == 1.0
    assert 0 < ContinualHistogram(TestDatabase(SCHEMA, [0] * 200_000), 0.5).guarantee.alpha < 1
