"""The public state of a continual histogram tells one life from another, and comes back on replay."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import known_answers
from treering.budget.promise import Promise
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.series.tree import TreeEstimate
from treering.noise import Laplace
from treering.theory.continual import alpha
from treering.theory.nodes import completed_by

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


def test_what_is_known_is_told_for_free_while_it_is_current() -> None:
    """Not before the first question, and not while there are rows that nobody told of."""
    db = TestDatabase(SCHEMA)
    histogram = ContinualHistogram(db, 1.0, 1e-6)
    queries = [tr.parse("a = 1", SCHEMA), tr.parse("b = 2", SCHEMA)]
    db.append_cells([0] * 20_000)
    assert known_answers(histogram, queries) is None
    assert not histogram.settled
    told = histogram.ask_many(queries)
    assert known_answers(histogram, queries) == told
    assert histogram.settled
    db.rows.add_cells(np.full(100, 11))
    spent, events = histogram.spent, db.journal.events()
    assert known_answers(histogram, queries) is None
    assert (histogram.spent, db.journal.events()) == (spent, events)
    assert known_answers(histogram, queries) != histogram.ask_many(queries) == known_answers(histogram, queries)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_guarantee_counts_the_batch_that_nobody_told_of(delta: float) -> None:
    """As it will be once that is taken in."""
    db = TestDatabase(SCHEMA, [0] * 20_000)
    histogram = ContinualHistogram(db, 1.0, delta, beta=0.01)
    for batch in range(1, 5):
        before = histogram.guarantee
        wanted = histogram._prospect([tr.parse("a = 1", SCHEMA)])
        assert histogram.ask("a = 1").margin == pytest.approx(wanted, rel=1e-9)
        assert histogram.guarantee == before
        assert before.alpha == pytest.approx(alpha(Promise(1.0, delta).budget, 256, db.size, 0.01, batch), rel=1e-5)
        assert f"after {batch} batches" in before.statement
        db.rows.add_cells(np.full(100, 11))
    assert histogram.batches == 4


def test_a_size_at_which_no_batch_ended_is_refused() -> None:
    db = TestDatabase(SCHEMA, [0] * 20_000)
    histogram = ContinualHistogram(db, 1.0, 1e-6)
    histogram.ask("a = 1")
    db.append_cells([1] * 30)
    db.append_cells([1] * 30)
    for since, nearest in ((1, "0 or 20,000"), (20_001, "20,000 or 20,030"), (20_040, "20,030")):
        for asked in (lambda size: histogram.ask("a = 1", since=size), histogram.counts):
            with pytest.raises(tr.ParameterError, match=f"still told apart: {nearest}$"):
                asked(since)
    for since in (0, 20_000, 20_030):
        assert histogram.counts(since).sum() == pytest.approx(db.size - since)
