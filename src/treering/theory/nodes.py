"""The shape of the binary tree over batches.

The tree never ends: it says which batches a node of `ContinualHistogram` holds, and in which segment it lies. Leaves
(batches) are numbered 1, 2, …; node (level, index) holds the leaves index·2^level … (index+1)·2^level − 1. Nodes of one
level are disjoint. Segment k is the leaves 2^k … 2^{k+1}−1, and a complete tree of k+1 levels over them. A node with
index ≥ 1 lies within one segment: its leaves share their leading bit. (Index 0 would begin with a leaf 0 and span
several segments: there is no such node.) So a leaf of segment k lies in k+1 nodes, one at each level 0 … k.

>>> [(level, index) for level, index in nodes_of(6)], segment_of(6)
([(0, 6), (1, 3), (2, 1)], 2)
>>> completed_by(7), completed_by(5), prefix(6)
(((0, 7), (1, 3), (2, 1)), ((0, 5), (1, 2)), ((0, 1), (1, 1), (1, 2), (0, 6)))
"""

from __future__ import annotations

from typing import TypeAlias

Node: TypeAlias = tuple[int, int]
"""A level, 0 for leaves, and an index within the level, from 1 on."""


def segment_of(leaf: int) -> int:
    """The number of the segment that a leaf lies in."""
    return leaf.bit_length() - 1


def node_segment(node: Node) -> int:
    """The number of the segment that a node lies in."""
    level, index = node
    return level + segment_of(index)


def first_leaf(node: Node) -> int:
    """The first leaf of a node."""
    level, index = node
    return index << level


def last_leaf(node: Node) -> int:
    """The last leaf of a node."""
    level, index = node
    return ((index + 1) << level) - 1


def nodes_of(leaf: int) -> tuple[Node, ...]:
    """The nodes that a leaf lies in, from the leaf to its segment's root."""
    return tuple((level, leaf >> level) for level in range(segment_of(leaf) + 1))


def completed_by(leaf: int) -> tuple[Node, ...]:
    """The nodes whose last leaf is ``leaf``, the lowest level first."""
    return tuple(node for node in nodes_of(leaf) if last_leaf(node) == leaf)


def prefix(leaf: int) -> tuple[Node, ...]:
    """The fewest nodes that hold exactly the leaves 1 to ``leaf``: the roots of the earlier segments, and one node for
    each binary digit 1 of the number of leaves so far in its own."""
    segment = segment_of(leaf)
    nodes = [(level, 1) for level in range(segment)]
    cut, start = leaf + 1 - (1 << segment), 1 << segment
    for level in range(segment, -1, -1):
        if cut >> level & 1:
            nodes.append((level, start >> level))
            start += 1 << level
    return tuple(nodes)
