"""What the kernel remembers of trees: across restarts, condensations, and for how long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.databases import TestDatabase
from support.trees import BATCHES, PLENTY, SCHEMA, SHARP, counted, grown, measure, refused, start
from treering.budget.cost import completed_by, first_leaf, last_leaf, segment_of
from treering.errors import VaultError
from treering.gate import LeafCut, TreeCondensed, TreeStarted
from treering.noise import Laplace
from treering.trusted import pricing
from treering.trusted.counts import Counts
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.trees import sizes_to_mark


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.data())
def test_a_kernel_made_from_the_journal_goes_on_exactly(batches: list[list[int]], data: st.DataObject) -> None:
    db = TestDatabase(SCHEMA)
    gate, tree = start(db)
    for leaf, batch in enumerate(batches, start=1):
        db.append_cells(batch)
        gate.cut(tree)
        for done, node in enumerate(completed_by(leaf)):
            if data.draw(st.booleans()):
                gate = db.open_gate(PLENTY)
                for earlier in completed_by(leaf)[:done]:
                    refused(gate, tree, *earlier, "was measured")
            event = gate.tree_node(tree, *node)
            assert np.array_equal(event.counts, counted(batches[first_leaf(node) - 1 : last_leaf(node)]))
        if data.draw(st.booleans()):
            gate.condense_tree(tree, leaf)
            gate = db.open_gate(PLENTY)
            for node in completed_by(leaf):
                refused(gate, tree, *node, "of the past")
    assert gate.spent == pricing.histogram(SHARP).epsilon


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.integers(0, 20), st.booleans())
def test_a_durable_store_brings_back_what_the_trees_need(batches: list[list[int]], stop: int, condense: bool) -> None:
    """Counts made anew from the batches, in order, marked at the sizes that the journal names."""
    journal = MemoryJournal()
    first = Counts(SCHEMA)
    gate = Kernel(first, PLENTY, journal)
    tree = gate.begin_tree(SHARP).tree
    for leaf, batch in enumerate(batches[:stop], start=1):
        first.add(np.array(batch))
        gate.cut(tree)
        measure(gate, tree, leaf)
    if condense:
        gate.condense_tree(tree, None)
    # The store is opened again. Its journal is another object, as a file's would be.
    events, journal = journal.events(), MemoryJournal()
    for event in events:
        journal.write(event)
    again, wanted = Counts(SCHEMA), sizes_to_mark(events)
    for batch in batches[:stop]:
        again.add(np.array(batch))
        if again.size in wanted:
            again.mark(journal)
    gate = Kernel(again, PLENTY, journal)
    for leaf, batch in enumerate(batches[stop:], start=min(stop, len(batches)) + 1):
        again.add(np.array(batch))
        gate.cut(tree)
        for event in measure(gate, tree, leaf):
            node = (event.level, event.index)
            assert np.array_equal(event.counts, counted(batches[first_leaf(node) - 1 : last_leaf(node)]))


def test_a_store_that_forgot_to_mark_is_refused() -> None:
    db, gate, _ = grown(5)
    assert sizes_to_mark(gate.history) == (3, 4, 5)
    fresh = Counts(SCHEMA)
    fresh.add(np.zeros(5, dtype=np.int64))
    with pytest.raises(VaultError, match="counts at size 3.*not marked"):
        Kernel(fresh, PLENTY, db.journal)


def test_a_condensed_tree_leaves_two_events_in_the_journal() -> None:
    db, gate, tree = grown(20)
    measure(gate, tree, 20)
    other = gate.begin_tree(SHARP).tree
    gate.cut(other)
    event = gate.condense_tree(tree, "all there was")
    assert (event.leaf, event.starts, event.note) == (20, (20, 19, 19, 15, 15), "all there was")
    assert [type(each) for each in gate.history] == [TreeStarted, TreeStarted, LeafCut, TreeCondensed]
    db.append_cells([0])
    gate.cut(tree)
    measure(gate, tree, 21)
    gate.condense_tree(tree, "again")
    assert [type(each) for each in gate.history] == [TreeStarted, TreeStarted, LeafCut, TreeCondensed]


def test_condensing_gives_up_what_was_not_measured() -> None:
    db, gate, tree = grown(3)
    gate.condense_tree(tree, None)
    refused(gate, tree, 0, 3, "of the past")
    db.append_cells([0])
    gate.cut(tree)
    assert gate.tree_node(tree, 0, 4).counts.sum() == 1


def test_the_counts_of_few_sizes_are_kept() -> None:
    for leaves in (*range(1, 40), 127, 128, 129, 1000):
        db = TestDatabase(SCHEMA)
        gate, tree = start(db)
        for _ in range(leaves):
            db.append_cells([0])
            gate.cut(tree)
        sizes = sizes_to_mark(gate.history)
        assert len(sizes) <= 2 * (segment_of(leaves) + 1) + 1
        for size in sizes:
            db.counts.check_mark(db.journal, size)
        others = set(range(1, leaves + 1)) - set(sizes)
        for size in others:
            with pytest.raises(VaultError):
                db.counts.check_mark(db.journal, size)


def test_a_tree_has_no_last_leaf() -> None:
    """Taken up at the last leaf but one of a segment of 2^40: 41 levels are completed by the next."""
    db = TestDatabase(SCHEMA, [0] * 7)
    db.journal.write(TreeStarted(7, pricing.histogram(Laplace(4.0)), 0, Laplace(4.0)))
    leaf = 2**41 - 2
    db.counts.mark(db.journal)
    db.journal.write(TreeCondensed(7, 0, leaf, (7,) * 41, None))
    gate = db.open_gate(PLENTY)
    db.append_cells([1])
    assert gate.cut(0).leaf == leaf + 1
    events = measure(gate, 0, leaf + 1)
    assert [event.level for event in events] == list(range(41))
    assert {event.noise for event in events} == {Laplace(4.0 * 41)}
    db.append_cells([1])
    gate.cut(0)
    assert gate.tree_node(0, 0, 2**41).noise == Laplace(4.0 * 42)
