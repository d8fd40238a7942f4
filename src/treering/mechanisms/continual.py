"""ContinualHistogram: noisy counts of every cell of a growing database, kept current for ever.

The gate releases noisy counts of the nodes of binary trees over the batches (``trusted/trees.py``). `TreeEstimate`
folds them into the best estimate of every node that is kept: its own counts, combined with its children's estimates.
`ContinualHistogram` answers queries from these estimates; ``theory/continual.py`` proves their errors.
"""

from __future__ import annotations

import bisect
import hashlib
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from treering.answer import Answer, Guarantee
from treering.arrays import Floats, Ints
from treering.budget.cost import Node, completed_by, last_leaf, prefix, segment_of
from treering.budget.promise import Promise
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Attributes, Marginal, Query, evaluate_many
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, TreeringError
from treering.gate import Database, Event, LeafCut, NodeReleased, TreeCondensed, TreeStarted
from treering.mechanisms.base import Answering
from treering.mechanisms.histogram.blocks import Tabulated
from treering.params import Number, probability, whole
from treering.theory.continual import StructuredBound, bound, first_leaves, kept_nodes, own_weight, start_noise, stretch

MAX_CELLS: Final = 2**22
"""The most cells: for each of them some 4·log2(batches) numbers are kept, and two are drawn for each batch."""

_FEW_NODES: Final = 16
"""The journal is not condensed before this many nodes were released."""

_ROUNDING: Final = 1 + 2.0**-20
_SHARE_ROUNDING: Final = 2.0**-30
"""Bounds on all rounding errors: of the noise's part in an answer (relative), and of the share itself (absolute). A sum
of 2^22 floats, in whatever order, is off by at most 2^-31 of the sum of their sizes; combining nodes and marginals adds
far less."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A node's estimate: how many of the rows from size ``start`` to size ``end`` are in each cell."""

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


class ContinualHistogram(Answering):
    """The histogram over all cells, current after every append, for an endless stream of batches and questions.

    It starts at its first query: the rows there are become the first batch, and all of epsilon is charged. From then
    on each append is a batch of its own, and every answer is free: about all rows, or with ``since`` about those that
    came after an earlier size. New rows are disjoint from old ones, so nothing is ever charged again.

    *Formal guarantee.* Privacy: (epsilon, delta)-DP for the whole transcript, for ever, for databases that differ in
    one row, replaced, which keeps its arrival time (``trusted/trees.py`` has the proof). Accuracy: with probability at
    least 1 − beta every answer ever given, to whatever queries, chosen however adaptively, is within its ``error``
    (``theory/continual.py``). A query that names few attributes, or that few cells meet (or all but a few), has a small
    error. In rows errors grow with the logarithm of the number of batches alone; as shares they fall as 1/size.

    Answers are of kind "measured": sums of noisy counts of the rows themselves, clipped to [0, 1]. With ``since`` they
    are shares of the rows after that size, and ``answer.size`` is the number of those rows. Sizes at which ``since``
    may point are in `boundaries`: all recent ones, and fewer the longer ago.

    Memory is of the order of cells times the logarithm of the number of batches, whatever the number of rows; an append
    draws two numbers of noise for each cell, on average, which takes some 30 µs a cell. For large universes use `PMWG`.

    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that any answer, ever, is outside its error

    >>> import treering as tr
    >>> from treering.mechanisms.continual import ContinualHistogram
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 9000 + [{"late": "no"}] * 1000)
    10000
    >>> histogram = ContinualHistogram(db, epsilon=1.0, beta=1e-9)
    >>> answer = histogram.ask("late = 'yes'")
    >>> abs(answer.value - 0.9) <= answer.error < 0.01
    True
    >>> db.append([{"late": "no"}] * 1000)
    11000
    >>> recent = histogram.ask("late = 'yes'", since=10_000)
    >>> recent.value <= recent.error < 0.15, recent.size, histogram.boundaries
    (True, 1000, (0, 10000))
    """

    notes = (Estimates, Piece)

    def __init__(self, db: Database, epsilon: Number | Promise, delta: Number = 0.0, beta: Number = 0.05) -> None:
        promise = Promise.of(epsilon, delta)
        self._beta = float(probability(beta, "beta"))
        self._noise = start_noise(promise.budget)
        if db.schema.cells > MAX_CELLS:
            raise ParameterError(
                "db",
                f"has {db.schema.cells:,} cells, and all of them are kept, with noise drawn for each: at most "
                f"{MAX_CELLS:,} (2^22) can be; use coarser bins(), fewer attributes, or PMWG",
            )
        super().__init__(db, promise)
        self._estimate = TreeEstimate()
        self._views: dict[int, _View] = {}
        self._lock = threading.RLock()
        for event in self._gate.history:
            self._estimate.follow(event)
        db.watch(self._grown)

    def ask(self, query: Question, since: int | None = None) -> Answer:
        """The share of the rows that match ``query``, with its error.

        With ``since``, a size that is in `boundaries`: the share of the rows that came after the database had this
        size.
        """
        return self.answer([understand(query, self._gate.schema)], since)[0]

    def ask_many(self, queries: Iterable[Question], since: int | None = None) -> list[Answer]:
        """`ask` for a batch: all answers are about the same rows."""
        return self.answer(understand_all(queries, self._gate.schema), since)

    def answer(self, queries: Sequence[Query], since: int | None = None) -> list[Answer]:
        """See `Answering.answer`."""
        if since is not None:
            whole(since, "since", 0)
        if not queries:
            return []
        with self._lock:
            self._check_start(since)
            self._catch_up()
            view = self._view(since or 0)
        return view.answers(queries)

    def price(self, query: Question) -> Fraction:
        """What asking this query next costs, in the budget's unit: the whole budget for the first query, then 0."""
        understand(query, self._gate.schema)
        self._check_start(None)
        return Fraction(0) if self.batches else self._gate.budget.total

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes that ``since`` may be, increasing: 0, all recent ends of batches, and fewer the longer ago."""
        return self._estimate.boundaries

    @property
    def batches(self) -> int:
        """How many batches there have been; the rows present at the first query are the first batch."""
        return self._estimate.leaf

    @property
    def halted(self) -> bool:
        """False: all answers to come are paid for."""
        return False

    @property
    def state(self) -> tuple[int, int, str]:
        """The public state: number of batches, size at the end of the last one, and a fingerprint of all estimates."""
        return self.batches, self._estimate.size, self._estimate.fingerprint()

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the present size for queries about all rows. Most queries have smaller errors."""
        size = self._rows()
        leaf = self._estimate.leaf + (size > self._estimate.size)
        return Guarantee(
            float(self._promise.epsilon),
            float(self._promise.delta),
            min(1.0, _share(self._bound(leaf).worst, size)),
            self._beta,
            size,
            "every answer, to whatever queries and at whatever time, is within its own error of the true share; "
            f"about all rows, after {leaf:,} batches, no error is above alpha, which falls as log(batches)/size",
        )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _grown(self) -> None:
        """Called by the database after each append. An error here is left to the next query, which meets it again."""
        with self._lock:
            if self._estimate.tree is not None:
                try:
                    self._catch_up()
                except TreeringError:
                    return

    def _check_start(self, since: int | None) -> None:
        """Raise, before anything is charged, if starting at this size would promise nothing."""
        if self._estimate.tree is not None:
            return
        size = self._rows_to_share()
        if since:
            raise ParameterError(
                "since", "must be 0 before the first answer: the rows there are become the first batch"
            )
        rows = float(self._bound(1).every.radius(1)) * _ROUNDING
        if rows >= size:
            raise GuaranteeError(
                f"with this epsilon not even the count of a single cell is known within {size:,} rows, all there are; "
                f"it takes at least {math.floor(rows) + 1:,} rows, or a larger epsilon"
            )

    def _catch_up(self) -> None:
        """Begin the tree if there is none, and make the rows that are in no batch yet the next batch."""
        estimate = self._estimate
        if estimate.tree is not None and not estimate.pending and self._gate.size == estimate.size:
            return
        with self._gate.transaction():
            if estimate.tree is None:
                self._follow(self._gate.begin_tree(self._noise))
            self._measure()  # the nodes that an interrupted batch left unmeasured
            if self._gate.size > estimate.size:
                self._follow(self._gate.cut(self._tree))
                self._measure()
            if estimate.fresh >= max(_FEW_NODES, estimate.arrays):
                self._follow(self._gate.condense_tree(self._tree, estimate.note()))

    @property
    def _tree(self) -> int:
        assert self._estimate.tree is not None
        return self._estimate.tree

    def _measure(self) -> None:
        while self._estimate.pending:
            self._follow(self._gate.tree_node(self._tree, *self._estimate.pending[0]))

    def _follow(self, event: Event) -> None:
        self._estimate.follow(event)
        self._views.clear()

    def _bound(self, leaf: int, first: int = 1) -> StructuredBound:
        return bound(self._noise, self._gate.schema.shape, self._beta, leaf, first)

    def _view(self, since: int) -> _View:
        if since not in self._views:
            self._check_since(since)
            first = self._estimate.first_leaf_since(since)
            size, cells = self._estimate.rows(first)
            self._views[since] = _View(self._gate.schema, size, cells, self._bound(self._estimate.leaf, first))
        return self._views[since]

    def _check_since(self, since: int) -> None:
        sizes = self.boundaries
        if since in sizes:
            return
        place = bisect.bisect(sizes, since)
        nearest = " or ".join(f"{size:,}" for size in sizes[max(0, place - 1) : place + 1])
        raise ParameterError("since", f"must be a size at which a batch ended that is still told apart: {nearest}")


class _View:
    """The estimate of the rows from one leaf on, which answers queries for free."""

    def __init__(self, schema: Schema, size: int, cells: Floats, errors: StructuredBound) -> None:
        self._size = size
        self._schema = schema
        self._errors = errors
        # Axes are the attributes with more than one value.
        positions = [position for position, values in enumerate(schema.shape) if values > 1]
        self._axes = {position: axis for axis, position in enumerate(positions)}
        self._table = Tabulated(cells, tuple(schema.shape[position] for position in positions))

    def answers(self, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query, about the same rows."""
        counts = evaluate_many(queries, self._marginal, np.float64)
        radii = self._errors.radius(queries)
        return [self._answer(*each) for each in zip(queries, counts.tolist(), radii.tolist(), strict=True)]

    def _answer(self, query: Query, count: float, radius: float) -> Answer:
        if query.constant:
            return Answer(int(query.weights()) / query.scale, 0.0, self._size, "measured")
        value = min(1.0, max(0.0, count / (query.scale * self._size)))
        return Answer(value, min(1.0, _share(radius, self._size)), self._size, "measured")

    def _marginal(self, attributes: Attributes) -> Marginal[np.float64]:
        sums = self._table.sums(tuple(self._axes[position] for position in attributes))
        return sums.reshape([self._schema.shape[position] for position in attributes])


def _share(rows: float, size: int) -> float:
    return rows * _ROUNDING / size + _SHARE_ROUNDING


# -- estimates from the noisy counts of a tree -------------------------------------------------------------------------


class TreeEstimate:
    """Estimates of the rows of a tree, cell by cell: a fold over the gate's events.

    Equal events in equal order give equal bits; condensing changes none of them.
    """

    def __init__(self) -> None:
        self.tree: int | None = None
        """The gate's handle of the tree: the first one begun."""
        self.leaf = 0
        self.pending: tuple[Node, ...] = ()
        """Nodes that the last leaf completed and that are not measured yet."""
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
        """How many numbers are kept for each cell."""
        return len(self._pieces) + (self._past is not None)

    def follow(self, event: object) -> None:
        """Update the estimates by an event of the gate's history; events that are not this tree's change nothing."""
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
        """The note that stands for all events so far."""
        return Estimates(self._sizes, dict(self._pieces), self._past)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing; the first is 0."""
        return tuple(self._start(first) for first in first_leaves(self.leaf)) if self.leaf else (0,)

    def first_leaf_since(self, size: int) -> int:
        """The leaf that begins at this size, one of the `boundaries`."""
        return first_leaves(self.leaf)[self.boundaries.index(size)]

    def rows(self, first: int) -> tuple[int, Floats]:
        """How many rows there are from leaf ``first`` on, and the estimate of those in each cell. The total is exact.

        The number of rows is public, so the noise of the total is known, and an equal part of it is taken off each
        cell.
        """
        if first == 1:
            parts = [] if self._past is None else [self._past]
            nodes = [node for node in prefix(self.leaf) if node not in _past_roots(self.leaf)]
        else:
            parts, nodes = [], list(stretch(first, self.leaf))
        # In order of time. Which parts there are, and so every bit, depends on the leaf alone.
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
        """Combine a node's own counts with the sum of its children's estimates, weighted by `own_weight`."""
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
        """After a leaf's last node: add a segment that is complete to the past, and drop nodes that are not kept."""
        root = (segment_of(self.leaf), 1)
        if last_leaf(root) == self.leaf:
            cells = self._pieces[root].cells
            past = cells if self._past is None else self._past + cells
            past.setflags(write=False)
            self._past = past
        kept = set(kept_nodes(self.leaf))
        self._pieces = {node: piece for node, piece in self._pieces.items() if node in kept}


def _past_roots(leaf: int) -> set[Node]:
    """The roots of the segments that are complete at this leaf."""
    return {(level, 1) for level in range(segment_of(leaf + 1))}
