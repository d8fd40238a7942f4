from __future__ import annotations

from hypothesis import given, strategies as st

from treering.theory.nodes import completed_by, first_leaf, last_leaf, node_segment, nodes_of, prefix, segment_of

LEAVES = st.integers(1, 5000)


def leaves(node: tuple[int, int]) -> range:
    return range(first_leaf(node), last_leaf(node) + 1)


@given(LEAVES)
def test_a_leaf_of_segment_k_lies_in_one_node_of_each_of_its_levels_and_in_no_other(leaf: int) -> None:
    segment = segment_of(leaf)
    assert 2**segment <= leaf < 2 ** (segment + 1)
    assert [level for level, _ in nodes_of(leaf)] == list(range(segment + 1))
    for level in range(segment + 3):
        holding = [index for index in range(1, leaf + 2) if leaf in leaves((level, index))]
        assert holding == [index for at, index in nodes_of(leaf) if at == level]


@given(st.integers(0, 8), st.integers(1, 300))
def test_a_node_lies_within_one_segment(level: int, index: int) -> None:
    node = (level, index)
    assert len(leaves(node)) == 2**level
    assert {segment_of(leaf) for leaf in leaves(node)} == {node_segment(node)}


@given(LEAVES)
def test_every_node_is_completed_once_by_its_last_leaf(leaf: int) -> None:
    assert completed_by(leaf)[0] == (0, leaf)
    assert all(last_leaf(node) == leaf for node in completed_by(leaf))
    assert completed_by(leaf) == tuple(node for node in nodes_of(leaf) if last_leaf(node) <= leaf)


@given(LEAVES)
def test_a_prefix_is_the_fewest_nodes_that_hold_it(leaf: int) -> None:
    nodes = prefix(leaf)
    assert [each for node in nodes for each in leaves(node)] == list(range(1, leaf + 1))
    # A node cannot hold leaves of two segments, and within one the binary digits are the fewest.
    segment = segment_of(leaf)
    assert len(nodes) == segment + (leaf + 1 - 2**segment).bit_count()
