"""The broken trees have the defects that they name, and no others."""

from __future__ import annotations

import pytest

import treering as tr
from support.broken import Exposed, expose
from support.broken_trees import FullBudgetTree, HonestTree, OverlappingLeavesTree
from treering.audit import Stream
from treering.theory.nodes import Node, completed_by, first_leaf, segment_of

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.Query.where(SCHEMA, late="yes")
STREAM = Stream(SCHEMA, tuple((0,) * batch + (1,) * 2 for batch in range(1, 9)))
SHARP = 1e6


def nodes(
    tree: type[HonestTree] | type[FullBudgetTree] | type[OverlappingLeavesTree],
) -> dict[tuple[int, int], tuple[int, int]]:
    """The counts of all nodes, without noise to speak of."""
    found: dict[Node, tuple[int, int]] = {}
    control = None
    for time, db in enumerate(expose(STREAM), start=1):
        control = control or tree(db, SHARP)
        found |= dict(zip(completed_by(time), control.ask(LATE), strict=True))
    return found


@pytest.mark.parametrize("tree", [HonestTree, FullBudgetTree])
def test_a_node_counts_its_batches(tree: type[HonestTree] | type[FullBudgetTree]) -> None:
    for (level, index), counts in nodes(tree).items():
        held = range(first_leaf((level, index)), first_leaf((level, index)) + 2**level)
        assert counts == (2 * len(held), sum(held))


def test_overlapping_leaves_count_the_batch_before_again() -> None:
    found = nodes(OverlappingLeavesTree)
    assert found[0, 1] == (2, 1)
    assert found[0, 5] == (4, 4 + 5)
    assert found[1, 2] == (6, 3 + 4 + 5)


def test_the_scales() -> None:
    db = Exposed(STREAM)
    for leaf in (1, 2, 5, 8):
        for node in completed_by(leaf):
            levels = segment_of(leaf) + 1
            assert HonestTree(db, 0.5).scale_of(node) == OverlappingLeavesTree(db, 0.5).scale_of(node) == 4.0 * levels
            assert FullBudgetTree(db, 0.5).scale_of(node) == 4.0
