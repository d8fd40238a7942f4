"""BROKEN ON PURPOSE: trees over batches that lose more than they claim. Never point one at real rows.

The negative controls of ContinualHistogram. As those of ``broken.py`` they read exact counts from an `Exposed`
stream, which the auditor made up. Each releases, after every batch, the noisy counts of a query and of its complement
in every node that the batch completes: all there is to see in a universe of two cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from support.broken import Exposed
from treering.domain.query import Query
from treering.params import exact
from treering.theory.nodes import Node, completed_by, first_leaf, node_segment
from treering.trusted.noise import draw_laplace

_BLOCK: Final = 2048


class _Tree:
    """A correct tree, unless its heir tampers with it: Laplace noise of scale 2(k+1)/ε in segment k."""

    def __init__(self, db: Exposed, epsilon: float) -> None:
        self._db = db
        self.scale = 2 / float(exact(epsilon, "epsilon"))
        self._ends: list[tuple[int, int]] = [(0, 0)]

    def ask(self, query: Query) -> tuple[tuple[int, int], ...]:
        """To be asked once after each batch, about the same query."""
        count = self._db.exact_count(query)
        self._ends.append((count, self._db.size * query.scale - count))
        return tuple(self._node(node) for node in completed_by(len(self._ends) - 1))

    def _node(self, node: Node) -> tuple[int, int]:
        inside, outside = next(_pairs(self.scale_of(node)))
        before, after = self._ends[self.start_of(node)], self._ends[-1]
        return after[0] - before[0] + inside, after[1] - before[1] + outside

    def scale_of(self, node: Node) -> float:
        """The scale of a node's noise."""
        return self.scale * (node_segment(node) + 1)

    def start_of(self, node: Node) -> int:
        """The number of batches before a node's first row."""
        return first_leaf(node) - 1


class HonestTree(_Tree):
    """NO DEFECT: what shows that an audit does not accuse everything."""


class FullBudgetTree(_Tree):
    """DEFECT: every level of a segment spends the whole epsilon, as if a row were in one node and not in k+1.

    A row of segment k loses (k+1)·ε.
    """

    def scale_of(self, node: Node) -> float:
        """That of segment 0, everywhere."""
        return self.scale


class OverlappingLeavesTree(_Tree):
    """DEFECT: a node begins one batch too early, a slip at the ends of a half-open range: nodes of a level overlap.

    A batch is in its own leaf and in the next one, and may be in two nodes of every level: up to 2ε.
    """

    def start_of(self, node: Node) -> int:
        """One too few."""
        return max(0, first_leaf(node) - 2)


@cache
def _pairs(scale: float) -> Iterator[list[int]]:
    """Two draws at a time, made in vectors: an audit needs many thousands."""

    def draws() -> Iterator[list[int]]:
        while True:
            yield from draw_laplace(scale, 2 * _BLOCK).reshape(-1, 2).tolist()

    return draws()
