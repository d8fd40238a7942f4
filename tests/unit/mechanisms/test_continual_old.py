"""A continual histogram over the tree of a vault that version 0.1.0 made: it goes on where that one ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import transparent
from treering.budget.cost import Cost, completed_by, first_leaf, last_leaf
from treering.budget.promise import Promise
from treering.gate import LeafCut, NodeReleased, TreeStarted
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.series.tree import RecordedTree, TreeEstimate
from treering.mechanisms.series.view import share
from treering.noise import Noise
from treering.theory.continual import Law, bound, leaf_beta, start_noise, stretch, tree_law
from treering.theory.rings import margin, spectrum

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "b": tr.integers(0, 1)})
A = tr.parse("a = 1", SCHEMA)
ROWS = 4000
OLD = 3
"""Leaves of the old tree: those of the first two segments."""


@pytest.fixture(autouse=True)
def _no_noise() -> Iterator[None]:
    with transparent():
        yield


def cells(leaf: int) -> list[int]:
    return [(row * row + leaf) % SCHEMA.cells for row in range(ROWS)]


def recorded(leaves: int = OLD, more: int = 0) -> TestDatabase:
    """A database with the record of a tree whose every node has the true counts of its leaves, and ``more``."""
    db = TestDatabase(SCHEMA)
    noise = start_noise(Promise(1.0).budget)
    for leaf in range(1, leaves + 1):
        db.append_cells(cells(leaf))
        db.counts.mark(db.journal)
        if leaf == 1:
            db.journal.write(TreeStarted(ROWS, Cost(Fraction(1), Fraction(1, 2)), 0, noise))
        db.journal.write(LeafCut(db.size, 0, leaf))
        for node in completed_by(leaf):
            rows = [cell for each in range(first_leaf(node), last_leaf(node) + 1) for cell in cells(each)]
            counts = np.bincount(rows, minlength=SCHEMA.cells) + more
            db.journal.write(NodeReleased(db.size, 0, *node, noise, counts))
    return db


def check(histogram: ContinualHistogram, old: TreeEstimate, leaves: int, noise: Noise) -> None:
    """Each period that can be asked about: the truth, with the noise of the old nodes and of the new ones."""
    rows = [cell for leaf in range(1, leaves + 1) for cell in cells(leaf)]
    assert histogram.batches == leaves
    assert histogram.boundaries == tuple(ROWS * leaf for leaf in range(leaves))
    part = leaf_beta(0.01, leaves, leaves)
    for since in histogram.boundaries:
        law = old.window(since).law if since < old.size else Law(0.0)
        if leaves > OLD:
            law += tree_law(noise, stretch(max(1, since // ROWS - OLD + 1), leaves - OLD))
        size = len(rows) - since
        answer = histogram.ask(A, since=since)
        assert answer.size == size
        assert answer.value == pytest.approx(share_of(rows[since:]), abs=1e-9)
        assert answer.margin == pytest.approx(share(margin(law, spectrum(A)), size), rel=1e-9)
        limits = bound(law, SCHEMA.shape, part)
        assert answer.error == pytest.approx(share(float(limits.radius([A])[0]), size), rel=1e-9)
        counts = np.bincount(rows[since:], minlength=SCHEMA.cells)
        np.testing.assert_allclose(histogram.counts(since), counts, atol=1e-6)
        if since == 0 and leaves > OLD:
            assert histogram.guarantee.alpha == pytest.approx(share(limits.worst, size), rel=1e-9)


def share_of(rows: Sequence[int]) -> float:
    return sum(cell // 2 == 1 for cell in rows) / len(rows)


def test_it_goes_on_where_the_old_tree_ends() -> None:
    db = recorded()
    histogram = ContinualHistogram(db, 1.0, beta=0.01)
    noise = start_noise(Promise(1.0).budget)
    tree = RecordedTree()
    for event in db.journal.events():
        tree.follow(event)
    assert tree.estimate is not None
    assert [histogram.spent, histogram.price("a = 1"), histogram.settled] == [1.0, 0, True]
    assert histogram.ask(A).error < histogram.guarantee.alpha < 0.005
    for leaves in range(OLD, OLD + 4):
        check(histogram, tree.estimate, leaves, noise)
        assert ContinualHistogram(db, 1.0, beta=0.01).state == histogram.state
        # What will be is known before: nobody has told it of these rows.
        db.counts.add(np.array(cells(leaves + 1)))
        foreseen, wanted = histogram.guarantee, histogram.prospect([A])
        assert histogram.batches == leaves
        assert histogram.ask(A).margin == pytest.approx(wanted, rel=1e-9)
        assert histogram.guarantee == foreseen
    assert histogram.spent == 1.0


def test_the_old_tree_is_part_of_the_state() -> None:
    one, other = (ContinualHistogram(recorded(more=more), 1.0) for more in (0, 1))
    assert one.state[:2] == other.state[:2] == (OLD, OLD * ROWS)
    assert one.state[2] != other.state[2]
