"""Trees over batches: what the kernel releases, charges, refuses and remembers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering as tr
from support.databases import TestDatabase
from support.trees import BATCHES, PLENTY, SCHEMA, SHARP, counted, grown, measure, refused, start
from treering.budget.cost import completed_by, first_leaf, last_leaf, nodes_of, segment_of
from treering.budget.promise import Budget
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted import pricing
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.trees import TREE_CELLS

# -- what is released --------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first noise drawn loads OpenDP
@given(BATCHES)
def test_a_node_counts_the_rows_of_its_leaves_and_no_others(batches: list[list[int]]) -> None:
    db = TestDatabase(SCHEMA)
    gate, tree = start(db)
    for leaf, batch in enumerate(batches, start=1):
        db.append_cells(batch)
        cut = gate.cut(tree)
        assert (cut.leaf, cut.size) == (leaf, db.size)
        for node, event in zip(completed_by(leaf), measure(gate, tree, leaf), strict=True):
            assert (event.level, event.index) == node
            assert np.array_equal(event.counts, counted(batches[first_leaf(node) - 1 : last_leaf(node)]))


def test_the_first_leaf_is_all_rows_there_are() -> None:
    db = TestDatabase(SCHEMA, [0, 1])
    gate, tree = start(db)
    db.append_cells([2])
    gate.cut(tree)
    assert np.array_equal(gate.tree_node(tree, 0, 1).counts, counted([[0, 1, 2]]))


def test_rows_that_come_after_a_cut_are_not_in_its_nodes() -> None:
    db, gate, tree = grown(3)
    db.append_cells([5] * 100)
    leaf, root = measure(gate, tree, 3)
    assert (leaf.counts.sum(), root.counts.sum()) == (1, 2)
    gate.cut(tree)
    assert gate.tree_node(tree, 0, 4).counts.sum() == 100


def test_released_counts_cannot_be_written_to() -> None:
    _, gate, tree = grown(1)
    with pytest.raises(ValueError, match="read-only"):
        gate.tree_node(tree, 0, 1).counts[0, 0] = 7


def test_trees_of_one_gate_and_of_two_do_not_disturb_each_other() -> None:
    db = TestDatabase(SCHEMA, [0])
    gate, one = start(db)
    two = gate.begin_tree(SHARP).tree
    other = Kernel(db.counts, PLENTY, MemoryJournal())
    third = other.begin_tree(SHARP).tree
    for leaf in range(1, 8):
        for kernel, tree in ((gate, one), (gate, two), (other, third)):
            if tree == two and leaf % 2:
                continue  # The second tree has a leaf for every two of the others.
            kernel.cut(tree)
            own = leaf if tree != two else leaf // 2
            for event in measure(kernel, tree, own):
                width = 2**event.level * (1 if tree != two else 2)
                assert event.counts.sum() == width
        db.append_cells([leaf % SCHEMA.cells])


# -- what it costs -----------------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e6), st.sampled_from([Laplace, Gaussian]), st.integers(1, 10**6))
def test_the_nodes_that_a_row_lies_in_cost_together_no_more_than_the_tree(
    scale: float, kind: type[Laplace] | type[Gaussian], leaf: int
) -> None:
    """In exact arithmetic, for the scales that the sampler gets; and next to nothing is wasted."""
    noise = kind(scale)
    each = pricing.histogram(noise.shared(segment_of(leaf) + 1))
    tree, levels = pricing.histogram(noise), len(nodes_of(leaf))
    assert Fraction(1 - 1e-12) * tree.rho <= levels * each.rho * (levels if kind is Laplace else 1) <= tree.rho
    if tree.epsilon is not None and each.epsilon is not None:
        assert Fraction(1 - 1e-12) * tree.epsilon <= levels * each.epsilon <= tree.epsilon


@pytest.mark.parametrize(("noise", "epsilon", "rho"), [(Laplace(4.0), "1/2", "1/16"), (Gaussian(4.0), None, "1/16")])
def test_all_is_charged_at_the_start(noise: Noise, epsilon: str | None, rho: str) -> None:
    gate = TestDatabase(SCHEMA, [0]).open_gate(Budget("zcdp", Fraction(1)))
    started = gate.begin_tree(noise)
    assert started.cost.epsilon == (None if epsilon is None else Fraction(epsilon))
    assert started.cost.rho == gate.spent == Fraction(rho)


def test_nothing_is_charged_later() -> None:
    _, gate, tree = grown(100, Laplace(4.0))
    measure(gate, tree, 100)
    assert gate.spent == Fraction(1, 2)


@pytest.mark.parametrize("leaf", [1, 2, 3, 4, 7, 8, 15, 16])
def test_a_node_has_the_noise_of_its_segment(leaf: int) -> None:
    levels = segment_of(leaf) + 1
    for noise, scale in ((Laplace(3.0), 3.0 * levels), (Gaussian(3.0), 3.0 * math.sqrt(levels))):
        _, gate, tree = grown(leaf, noise)
        for event in measure(gate, tree, leaf):
            assert type(event.noise) is type(noise)
            assert event.noise.scale == pytest.approx(scale, rel=1e-15)


def test_what_does_not_fit_is_refused_and_begins_nothing() -> None:
    db = TestDatabase(SCHEMA, [0])
    gate = db.open_gate(Budget("pure", Fraction(1)))
    with pytest.raises(tr.BudgetExceeded):
        gate.begin_tree(Laplace(1.0))
    with pytest.raises(tr.ParameterError, match="Laplace"):
        gate.begin_tree(Gaussian(1000.0))
    with pytest.raises(tr.ParameterError, match="2\\^48"):
        gate.begin_tree(Laplace(2.0**43))
    with pytest.raises(tr.ParameterError, match="never begun"):
        gate.cut(0)
    assert gate.spent == 0
    assert len(gate.history) == 0


def test_a_universe_too_large_is_refused_with_advice() -> None:
    wide = tr.Schema({"a": tr.integers(0, 4), "b": tr.integers(1, TREE_CELLS // 4)})
    gate = TestDatabase(wide).open_gate(PLENTY)
    with pytest.raises(tr.ParameterError, match="at most 4,194,304.*coarser"):
        gate.begin_tree(SHARP)
    assert gate.spent == 0


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_node_is_measured_once() -> None:
    _, gate, tree = grown(7)
    for node in completed_by(7):
        gate.tree_node(tree, *node)
        refused(gate, tree, *node, "was measured")


def test_a_node_that_is_not_complete_is_refused() -> None:
    _, gate, tree = grown(6)
    refused(gate, tree, 1, 3, "ends with leaf 7, and 6 are cut: not complete")
    refused(gate, tree, 2, 1, "not complete")
    refused(gate, tree, 0, 7, "not complete")
    refused(gate, tree, 40, 1, "not complete")


def test_a_node_of_the_past_is_refused_even_if_it_never_was_measured() -> None:
    db, gate, tree = grown(5)
    refused(gate, tree, 0, 4, "of the past")
    refused(gate, tree, 1, 1, "of the past")
    db.append_cells([0])
    gate.cut(tree)
    refused(gate, tree, 0, 5, "had to be measured when leaf 5 was cut")
    refused(gate, tree, 1, 2, "of the past")


def test_what_would_span_segments_is_no_node() -> None:
    """Index 0 of level 2 would be the leaves up to 3, of two segments: a row's share would not be what was charged."""
    _, gate, tree = grown(3)
    refused(gate, tree, 2, 0, "at least 1")
    refused(gate, tree, 0, 0, "at least 1")


@pytest.mark.parametrize(
    ("level", "index"),
    [(-1, 3), (0, -3), (True, 1), (0, True), (0.0, 3), (0, 3.0), ("0", 3), (None, 3), (0, None), (64, 1), (10**9, 1)],
)
def test_what_is_no_node_is_refused(level: Any, index: Any) -> None:
    _, gate, tree = grown(3)
    refused(gate, tree, level, index, "level|index")


def test_another_tree_is_refused() -> None:
    _, gate, tree = grown(3)
    refused(gate, tree + 1, 0, 3, "never begun")
    with pytest.raises(tr.ParameterError, match="never begun"):
        gate.condense_tree(tree + 1, None)


def test_an_empty_leaf_is_not_cut() -> None:
    db = TestDatabase(SCHEMA)
    gate, tree = start(db)
    for leaves in range(3):
        before = gate.history
        with pytest.raises(tr.ParameterError, match=f"no new rows since leaf {leaves}"):
            gate.cut(tree)
        assert gate.history == before
        db.append_cells([0])
        gate.cut(tree)
