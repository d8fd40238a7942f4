"""A series by binary trees, for pure differential privacy and for very many groups.

`treering.theory.nodes` says which leaves a node holds, `treering.theory.continual` what the best estimates are.
`TreeEstimate` folds the noisy counts of nodes into the best estimate of every node that is kept: its own counts,
combined with its children's estimates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.sums import Kept
from treering.gate import Advanced, Event, Ones, SegmentBegun, SegmentCondensed, SegmentEnded
from treering.mechanisms.series.base import Series, Window
from treering.noise import Noise
from treering.protocols import Gate
from treering.theory.continual import Law, first_leaves, kept_nodes, own_weight, start_noise, stretch, tree_law
from treering.theory.nodes import Node, completed_by, last_leaf, segment_of

_FEW_NODES: Final = 16
"""Releases are not condensed before there are this many of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A node's estimate: how many of the rows from size ``start`` to size ``end`` are in each group."""

    start: int
    end: int
    cells: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """NOTE: all estimates of a tree."""

    sizes: tuple[int, int]
    """The sizes at which the last leaf begins and ends."""
    pieces: dict[Node, Piece]
    """The estimates of the nodes that are kept."""
    past: Floats | None
    """The sum of the estimates of all complete segments; None before the first is complete."""


class TreeSeries(Series):
    """Prefix sums by binary trees over the leaves, in segments of 1, 2, 4, 8, … leaves.

    Guarantee: the releases cost each row that the series has counted at most the price, and no other row anything
    (`treering.theory.continual`; the kernel enforces it). Estimates are unbiased, with the law that their `Window`
    states.
    """

    notes = (Estimates, Piece)

    def __init__(
        self, groups: Groups, price: Budget, start: int = 0, number: int = 0, sums: Kept | None = None
    ) -> None:
        super().__init__(groups, price, start, number, sums)
        alone = self.numbers == 1  # One count moves by one, where two would move by one each.
        self._noise = start_noise(Budget(price.kind, 2 * price.total) if alone else self.noise_price)
        self._estimate = TreeEstimate(self._noise, start)

    @property
    def leaf(self) -> int:
        """How many leaves there are."""
        return self._estimate.leaf

    @property
    def size(self) -> int:
        """The size at the end of the last leaf."""
        return self._estimate.size

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing."""
        return self._estimate.boundaries

    def advance(self, gate: Gate) -> None:
        """Make the rows since the last leaf, if there are any, the next leaf."""
        if gate.size <= self.size:
            return
        self._turn(gate)
        if self._segment is None:
            self._begin(gate)
        assert self._segment is not None
        self.follow(gate.advance(self._segment.segment, [Ones(1 << level) for level, _ in completed_by(self.leaf + 1)]))
        if self._complete:
            self._turn(gate)
        elif self._estimate.fresh >= max(_FEW_NODES, self._estimate.arrays):
            self.follow(gate.condense_segment(self._segment.segment, self._estimate.note()))

    @property
    def _complete(self) -> bool:
        return (
            self._segment is not None
            and self._segment.start < self.size
            and segment_of(self.leaf + 1) > segment_of(self.leaf)
        )

    def _begin(self, gate: Gate) -> None:
        """Begin a segment after the last leaf."""
        levels = segment_of(self.leaf + 1) + 1
        noise = self._noise.shared(levels)
        self.follow(gate.begin_segment(self.groups, noise, levels, self.size, self.number, self.sums))

    def follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, SegmentBegun):
            self._follow_begun(event)
        elif isinstance(event, Advanced) and self._is_current(event.segment):
            self._estimate.take(event.size, event.values)
            self.fresh += sum(map(len, event.values))
        elif isinstance(event, SegmentCondensed):
            self._follow_note(event)
        elif isinstance(event, SegmentEnded) and self._concerns(event):
            if event.note is not None:
                self._estimate.restore(event.note)
            self._follow_end()

    def _end(self, gate: Gate) -> None:
        """End the current segment. The estimates go over to the next one, whose own end will replace them: so they are
        on record once, however many segments there were."""
        assert self._segment is not None
        note = self._estimate.note() if self.leaf else None
        if self._next is not None:
            self.follow(gate.condense_segment(self._next.segment, note))
            note = None
        self.follow(gate.end_segment(self._segment.segment, note))

    def _follow_note(self, event: SegmentCondensed) -> None:
        if self._is_current(event.segment):
            self._estimate.restore(event.note)
        elif self._next is not None and self._next.segment == event.segment:
            self._estimate.restore(event.note)
            if self._segment is None:  # It ended long ago, and this note stands for it, too.
                self._segment, self._next = self._next, None

    def window(self, since: int) -> Window:
        """The estimate of the rows since one of the `boundaries`."""
        return self._estimate.window(since)

    def next_starts(self, size: int) -> tuple[int, ...]:
        """The `boundaries` once the series is current at a size."""
        return tuple(self._next_leaves(size))

    def next_law(self, size: int, since: int) -> Law:
        """The law of the noise of a group's number since one of the `next_starts`, once the series is current."""
        leaf = max(1, self.leaf + (size > self.size))
        return tree_law(self._noise, stretch(self._next_leaves(size)[since], leaf))

    def _next_leaves(self, size: int) -> dict[int, int]:
        """For each of the `next_starts`, the leaf that begins there: the next one begins where the last one ended, and
        for it some older start is forgotten."""
        known = dict(zip(self.boundaries, first_leaves(max(1, self.leaf)), strict=True))
        if size <= self.size:
            return known
        known[self.size] = self.leaf + 1
        kept = set(first_leaves(self.leaf + 1))
        return {since: leaf for since, leaf in known.items() if leaf in kept}

    @property
    def kept(self) -> int:
        """How many numbers `keep` holds, about."""
        return self._estimate.arrays * self.numbers

    def keep(self) -> Estimates:
        """A note of the whole public state, but for the segments of the gate that are open."""
        self.fresh = 0
        return self._estimate.note()

    def restore(self, note: Estimates, segments: Sequence[SegmentBegun]) -> None:
        """Go on from a note of `keep`, with the segments of this series that are open."""
        self._estimate.restore(note)
        self._reopen(segments)

    def fingerprint(self) -> str:
        """A hash of the public state."""
        segment = self._segment and self._segment.segment
        return hashlib.sha256(repr((segment, self._estimate.fingerprint())).encode()).hexdigest()


# -- estimates from the noisy counts of a tree -------------------------------------------------------------------------


class TreeEstimate:
    """Estimates of the rows of a tree, group by group. ``noise`` is that of segment 0, rows after ``start`` count.

    Equal releases in equal order give equal bits; restoring a note changes none of them.
    """

    def __init__(self, noise: Noise, start: int = 0) -> None:
        self._noise, self._origin = noise, start
        self.leaf = 0
        """How many leaves there are."""
        self.fresh = 0
        """Releases since the last note."""
        self._sizes = (start, start)
        self._pieces: dict[Node, Piece] = {}
        self._past: Floats | None = None

    @property
    def size(self) -> int:
        """The size at the end of the last leaf."""
        return self._sizes[1]

    @property
    def arrays(self) -> int:
        """How many numbers are kept for each group."""
        return len(self._pieces) + (self._past is not None)

    def take(self, size: int, values: Sequence[Ints]) -> None:
        """The next leaf, up to ``size``, and the noisy counts of the nodes that it completes, the leaf itself first."""
        self.cut(size)
        for node, counts in zip(completed_by(self.leaf), values, strict=True):
            self.combine(node, counts)
        self.settle()

    def note(self) -> Estimates:
        """The note that stands for all releases so far."""
        return Estimates(self._sizes, dict(self._pieces), self._past)

    def restore(self, note: Estimates) -> None:
        """Continue from a note."""
        self._sizes, self._pieces, self._past = note.sizes, dict(note.pieces), note.past
        self.leaf, self.fresh = max(map(last_leaf, note.pieces), default=0), 0

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing."""
        return tuple(self._start(first) for first in first_leaves(self.leaf)) if self.leaf else (self.size,)

    def window(self, since: int) -> Window:
        """The estimate of the rows since one of the `boundaries`."""
        first = first_leaves(self.leaf)[self.boundaries.index(since)]
        nodes = stretch(first, self.leaf)
        past = self._past if first == 1 else None
        fresh = nodes if past is None else [node for node in nodes if node not in _past_roots(self.leaf)]
        # In order of time. Which parts there are, and so every bit, depends on the leaf alone.
        total = np.zeros_like(next(iter(self._pieces.values())).cells)
        for part in [*([] if past is None else [past]), *(self._pieces[node].cells for node in fresh)]:
            total += part
        total.setflags(write=False)
        return Window(since, self.size, total, tree_law(self._noise, nodes))

    def fingerprint(self) -> str:
        """A hash of all estimates."""
        digest = hashlib.sha256(repr((self.leaf, self._sizes)).encode())
        for node, piece in sorted(self._pieces.items()):
            digest.update(repr((node, piece.start, piece.end)).encode())
            digest.update(piece.cells.tobytes())
        digest.update(b"" if self._past is None else self._past.tobytes())
        return digest.hexdigest()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _start(self, first: int) -> int:
        return self._origin if first == 1 else self._pieces[stretch(first, self.leaf)[0]].start

    def cut(self, size: int) -> None:
        """The rows since the last leaf are the next one."""
        self.leaf, self._sizes = self.leaf + 1, (self.size, size)

    def combine(self, node: Node, counts: Ints) -> None:
        """Combine a node's own counts with the sum of its children's estimates, weighted by `own_weight`. Children come
        before their parents."""
        level, _ = node
        own = counts.reshape(-1).astype(np.float64)
        if level == 0:
            piece = Piece(*self._sizes, own)
        else:
            left, right = (self._pieces[child] for child in _children(node))
            weight = own_weight(level)
            own *= float(weight)
            own += float(1 - weight) * (left.cells + right.cells)
            piece = Piece(left.start, right.end, own)
        own.setflags(write=False)
        self._pieces[node] = piece
        self.fresh += 1

    def settle(self) -> None:
        """After a leaf's last node: add a segment that is complete to the past, and drop nodes that are not kept."""
        root = (segment_of(self.leaf), 1)
        if last_leaf(root) == self.leaf:
            cells = self._pieces[root].cells
            past = cells if self._past is None else self._past + cells
            past.setflags(write=False)
            self._past = past
        kept = set(kept_nodes(self.leaf))
        self._pieces = {node: piece for node, piece in self._pieces.items() if node in kept}


def _children(node: Node) -> tuple[Node, Node]:
    level, index = node
    return (level - 1, 2 * index), (level - 1, 2 * index + 1)


def _past_roots(leaf: int) -> set[Node]:
    """The roots of the segments that are complete at this leaf."""
    return {(level, 1) for level in range(segment_of(leaf + 1))}
