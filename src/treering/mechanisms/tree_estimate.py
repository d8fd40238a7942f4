"""The best estimate of every kept node of a tree, from the noisy counts of the nodes below it: a fold over events."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.segments import Node, completed_by, last_leaf, prefix, segment_of
from treering.errors import ParameterError
from treering.gate import LeafCut, NodeReleased, TreeCondensed, TreeStarted
from treering.theory.continual import first_leaves, kept_nodes, own_weight, stretch


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A node's estimate: of the rows after size ``start``, up to size ``end``, those in each cell."""

    start: int
    end: int
    cells: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """NOTE: all that a tree's estimates are: of the nodes that are kept, and of all segments that are complete."""

    sizes: tuple[int, int]
    """The sizes at which the last leaf begins and ends."""
    pieces: dict[Node, Piece]
    past: Floats | None


class TreeEstimate:
    """What is known of a tree's rows. Equal events in equal order give equal bits; condensing changes none of them."""

    def __init__(self) -> None:
        self.tree: int | None = None
        """The tree that is followed: the first one begun."""
        self.leaf = 0
        self.pending: tuple[Node, ...] = ()
        """Nodes that the last leaf completed and that are still to be measured."""
        self.fresh = 0
        """Nodes released since the tree was condensed."""
        self._sizes = (0, 0)
        self._pieces: dict[Node, Piece] = {}
        self._past: Floats | None = None

    @property
    def size(self) -> int:
        """The size at the last cut."""
        return self._sizes[1]

    @property
    def arrays(self) -> int:
        """How many numbers for each cell are kept."""
        return len(self._pieces) + (self._past is not None)

    def follow(self, event: object) -> None:
        """Take in an event of the gate's history; all but this tree's change nothing."""
        if isinstance(event, TreeStarted) and self.tree is None:
            self.tree = event.tree
        elif isinstance(event, LeafCut):
            self.leaf, self.pending = event.leaf, completed_by(event.leaf)
            self._sizes = (self.size, event.size)
        elif isinstance(event, NodeReleased):
            self._combine((event.level, event.index), event.counts)
        elif isinstance(event, TreeCondensed):
            note: Estimates = event.note
            self.leaf, self.pending, self.fresh = event.leaf, (), 0
            self._sizes, self._pieces, self._past = note.sizes, dict(note.pieces), note.past

    def note(self) -> Estimates:
        """What stands for all events so far."""
        return Estimates(self._sizes, dict(self._pieces), self._past)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes since which rows can be asked about, increasing; the first is 0."""
        return tuple(self._start(first) for first in first_leaves(self.leaf)) if self.leaf else (0,)

    def first_leaf_since(self, size: int) -> int:
        """The leaf that begins at one of the boundaries."""
        return first_leaves(self.leaf)[self.boundaries.index(size)]

    def rows(self, first: int) -> tuple[int, Floats]:
        """How many rows there are from a leaf on, and the estimate of those in each cell: the total is exact.

        The number of rows is public, so the noise of the total is known; each cell gives up its equal part of it.
        """
        if first == 1:
            parts = [] if self._past is None else [self._past]
            nodes = [node for node in prefix(self.leaf) if node not in _past_roots(self.leaf)]
        else:
            parts, nodes = [], list(stretch(first, self.leaf))
        # In time's order: which parts there are, and so every bit, depends on the leaf alone.
        total = np.zeros_like(next(iter(self._pieces.values())).cells)
        for part in [*parts, *(self._pieces[node].cells for node in nodes)]:
            total += part
        size = self.size - self._start(first)
        total -= (float(total.sum()) - size) / len(total)
        return size, total

    def fingerprint(self) -> str:
        """A hash of all estimates."""
        digest = hashlib.sha256(repr((self.tree, self.leaf, self.pending, self._sizes)).encode())
        for node, piece in sorted(self._pieces.items()):
            digest.update(repr((node, piece.start, piece.end)).encode())
            digest.update(piece.cells.tobytes())
        digest.update(b"" if self._past is None else self._past.tobytes())
        return digest.hexdigest()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _start(self, first: int) -> int:
        return 0 if first == 1 else self._pieces[stretch(first, self.leaf)[0]].start

    def _combine(self, node: Node, counts: Ints) -> None:
        """Weigh a node's own counts against the sum of its children's estimates."""
        if not self.pending or node != self.pending[0]:
            raise ParameterError("node", f"{node} was not expected: children come before their parents")
        level, index = node
        own = counts.reshape(-1).astype(np.float64)
        if level == 0:
            piece = Piece(*self._sizes, own)
        else:
            left, right = (self._pieces[level - 1, 2 * index + side] for side in (0, 1))
            weight = own_weight(level)
            own *= float(weight)
            own += float(1 - weight) * (left.cells + right.cells)
            piece = Piece(left.start, right.end, own)
        own.setflags(write=False)
        self._pieces[node] = piece
        self.pending, self.fresh = self.pending[1:], self.fresh + 1
        if not self.pending:
            self._settle()

    def _settle(self) -> None:
        """The leaf is done: let go of nodes that are not kept, and add a segment that is complete to the past."""
        root = (segment_of(self.leaf), 1)
        if last_leaf(root) == self.leaf:
            cells = self._pieces[root].cells
            past = cells if self._past is None else self._past + cells
            past.setflags(write=False)
            self._past = past
        kept = set(kept_nodes(self.leaf))
        self._pieces = {node: piece for node, piece in self._pieces.items() if node in kept}


def _past_roots(leaf: int) -> set[Node]:
    """The roots of the segments that are complete."""
    return {(level, 1) for level in range(segment_of(leaf + 1))}
