"""Binary trees over batches (continual counting): all nodes of an endless tree, for the price of one histogram.

*Formal guarantee.* All nodes of a tree together, whatever public moments its leaves are cut at, and however they
interleave with other operations, cost what `begin_tree` charges: 2/s pure for Laplace noise of scale s, 1/σ² zCDP for
Gaussian noise of scale σ; neighbours replace one row, which keeps its arrival time.

*Proof.* Compare two neighbouring streams along one transcript. Cuts are made at public sizes, so the replaced row lies
in the same leaf of both, a leaf of some segment k. Only nodes that hold this leaf have other exact counts. At each
level 0 … k one node does (``budget/cost.py``), at higher levels none, and it is measured at most once: so at most
k+1 releases differ. In each, one row is in another cell: L1 distance 2, squared L2 distance 2. Its noise is
``noise.shared(k + 1)``: Laplace of scale at least (k+1)·s, so the release is 2/((k+1)·s)-DP; Gaussian of scale at least
√(k+1)·σ, so it is 1/((k+1)·σ²)-zCDP. Both add up under adaptive composition, and concurrently with other operations
(``budget/promise.py``); the sums are at most 2/s and 1/σ², whichever row was replaced.

*What is enforced here*, on public values alone: a node is measured at most once, and while its last leaf is the last
one that was cut. A node that was not measured before the next cut never will be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from treering.budget.cost import Cost, completed_by, last_leaf, node_segment, segment_of
from treering.errors import ParameterError
from treering.gate import Event, LeafCut, NodeReleased, TreeCondensed, TreeStarted
from treering.noise import Noise
from treering.trusted import pricing
from treering.trusted.counts import Counts
from treering.trusted.noise import check_noise, draw
from treering.trusted.sealed import Sealed

Released = TypeVar("Released", bound=Event)

TREE_CELLS: Final = 2**22
"""The most cells that a schema may have for a tree, which keeps the counts at a dozen sizes or more: 32 MiB each."""

MOST_LEVELS: Final = 64
"""Noise must be drawable for a tree of this many levels, or it is refused at the start: 2^64 leaves never come."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """The progress of a tree: public, a fold over its events."""

    noise: Noise
    leaf: int = 0
    """The number of the last leaf cut; 0: none yet."""
    starts: tuple[int, ...] = (0,)
    """The next leaf lies in one node of each level: the sizes at which these begin, level 0 (the last cut) first."""
    closing: tuple[int, ...] = ()
    """The same sizes for the last leaf cut; empty if its nodes can no longer be measured."""
    measured: frozenset[int] = frozenset()
    """The levels at which a node that ends with the last leaf was measured."""

    def after(self, event: LeafCut | NodeReleased | TreeCondensed) -> _Tree:
        """The tree after an event."""
        if isinstance(event, NodeReleased):
            return replace(self, measured=self.measured | {event.level})
        if isinstance(event, TreeCondensed):
            return _Tree(self.noise, event.leaf, event.starts)
        following = event.leaf + 1
        starts = tuple(
            event.size if following % (1 << level) == 0 else self.starts[level]
            for level in range(segment_of(following) + 1)
        )
        return _Tree(self.noise, event.leaf, starts, self.starts)

    @property
    def sizes(self) -> set[int]:
        """The sizes at which the counts will still be needed."""
        waiting = [level for level, _ in completed_by(self.leaf)] if self.closing else []
        return {*self.starts, *(self.closing[level] for level in waiting if level not in self.measured)}


class Trees(Sealed):
    """The trees of one journal. Only the kernel holds one: it charges, writes the events that `cut`, `measure` and
    `condense` return, and then passes them to `follow`."""

    __slots__ = ("_counts", "_journal", "_trees")

    def __init__(self, counts: Counts, journal: object) -> None:
        self._counts = counts
        self._journal = journal
        self._trees: dict[int, _Tree] = {}

    def __bool__(self) -> bool:
        return bool(self._trees)

    def check(self, noise: Noise) -> None:
        """Refuse a schema or noise with which a tree could not go on for ever."""
        cells = self._counts.schema.cells
        if cells > TREE_CELLS:
            raise ParameterError(
                "schema", f"has {cells:,} cells; a tree is kept for at most {TREE_CELLS:,} (2^22): use coarser bins()"
            )
        check_noise(noise, MOST_LEVELS)

    def begin(self, cost: Cost, noise: Noise) -> TreeStarted:
        """The start of a new tree, whose cost has been charged."""
        return TreeStarted(self._counts.size, cost, len(self._trees), noise)

    def cut(self, tree: int) -> LeafCut:
        """The next leaf: the rows since the last cut, at least one."""
        live, size = self._live(tree), self._counts.size
        if size == live.starts[0]:
            raise ParameterError("tree", f"has no new rows since leaf {live.leaf}: an empty leaf is not cut")
        self._counts.mark(self._journal)
        return LeafCut(size, tree, live.leaf + 1)

    def measure(self, tree: int, level: int, index: int) -> NodeReleased:
        """The counts of a node plus its noise."""
        live = self._live(tree)
        _check_node(live, level, index)
        exact = self._counts.between(self._journal, live.closing[level], live.starts[0])
        noise = live.noise.shared(node_segment((level, index)) + 1)
        noisy = (exact + draw(noise, 1, exact.size)).reshape(self._counts.schema.shape)
        noisy.setflags(write=False)
        return NodeReleased(self._counts.size, tree, level, index, noise, noisy)

    def condense(self, tree: int, note: Any) -> TreeCondensed:
        """A note that replaces all nodes so far."""
        live = self._live(tree)
        return TreeCondensed(self._counts.size, tree, live.leaf, live.starts, note)

    def follow(self, event: Event) -> None:
        """Update the trees by an event on record, and drop counts that no tree will need."""
        if self._take(event):
            self._counts.keep_marks(self._journal, _sizes(self._trees))

    def restore(self, events: Iterable[Event]) -> None:
        """Continue from the events of a journal. The counts must be marked at the sizes that `sizes_to_mark` gives."""
        for event in events:
            self._take(event)
        for size in sorted(_sizes(self._trees)):
            self._counts.check_mark(self._journal, size)

    def _take(self, event: Event) -> bool:
        return _take(self._trees, event)

    def _live(self, tree: int) -> _Tree:
        if tree not in self._trees:
            raise ParameterError("tree", f"{tree} was never begun")
        return self._trees[tree]


class TreeOperations(Sealed, ABC):
    """The kernel's operations on trees, in the kernel's order: charge, read, add noise, write, release."""

    __slots__ = ()
    _trees: Trees

    @abstractmethod
    def _working(self) -> AbstractContextManager[object]:
        """Hold the lock; refuse a forked child."""

    @abstractmethod
    def _charge(self, cost: Cost) -> None:
        """Charge a cost, or raise `BudgetExceeded`."""

    @abstractmethod
    def _release(self, event: Released) -> Released:
        """Write an event to the journal, then `Trees.follow` it."""

    def begin_tree(self, noise: Noise) -> TreeStarted:
        """Start a binary tree over batches: all its nodes together cost 2/s pure, 1/σ² zCDP, charged now."""
        with self._working():
            self._trees.check(noise)
            cost = pricing.histogram(noise)
            self._charge(cost)
            return self._release(self._trees.begin(cost, noise))

    def cut(self, tree: int) -> LeafCut:
        """Make the rows that came since the last cut (at the first cut: all rows) the tree's next leaf."""
        with self._working():
            return self._release(self._trees.cut(tree))

    def tree_node(self, tree: int, level: int, index: int) -> NodeReleased:
        """The noisy counts of a node that the last leaf cut has completed; each node once. Paid for by `begin_tree`."""
        with self._working():
            return self._release(self._trees.measure(tree, level, index))

    def condense_tree(self, tree: int, note: Any) -> TreeCondensed:
        """Record a note that replaces all nodes of a tree so far. Nodes not measured by now never will be."""
        with self._working():
            return self._release(self._trees.condense(tree, note))


def sizes_to_mark(events: Iterable[Event]) -> tuple[int, ...]:
    """The sizes at which a durable store marks the counts while it takes in its batches again.

    See `treering.trusted.counts.Bookmarks`.
    """
    trees: dict[int, _Tree] = {}
    for event in events:
        _take(trees, event)
    return tuple(sorted(_sizes(trees)))


def _take(trees: dict[int, _Tree], event: Event) -> bool:
    """Update the trees by an event; True if it was about a tree."""
    if isinstance(event, TreeStarted):
        trees[event.tree] = _Tree(event.noise)
    elif isinstance(event, LeafCut | NodeReleased | TreeCondensed):
        trees[event.tree] = trees[event.tree].after(event)
    else:
        return False
    return True


def _sizes(trees: dict[int, _Tree]) -> set[int]:
    return {size for tree in trees.values() for size in tree.sizes if size > 0}


def _check_node(tree: _Tree, level: int, index: int) -> None:
    """Refuse a node that does not exist, or that cannot be measured now."""
    for value, name, least in ((level, "level", 0), (index, "index", 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ParameterError(name, f"of a node must be an integer of at least {least}")
    if level >= MOST_LEVELS:
        raise ParameterError("level", f"of a node must be below {MOST_LEVELS}")
    last = last_leaf((level, index))
    if last > tree.leaf:
        raise ParameterError("index", f"names a node that ends with leaf {last}, and {tree.leaf} are cut: not complete")
    if last < tree.leaf or not tree.closing:
        raise ParameterError("index", f"names a node of the past: it had to be measured when leaf {last} was cut")
    if level in tree.measured:
        raise ParameterError("index", f"names a node of level {level} that was measured already: each is measured once")
