"""PUBLIC: the gate between public programs and private data.

A mechanism talks to a `Gate`. What it asks for is a request with noise scales; what it gets back is an *event*: a
frozen record of what was released. A journal keeps the same events, so a mechanism's public state is a fold over
`Gate.history`, and replaying the journal gives exactly the live state.

In every event ``size`` is the number of rows at the time, and ``cost`` what the event was charged.

Units: a query of weight scale W is compared and answered in units of 1/W rows ("grid units"), always integers.
Noise scales are in rows; the kernel multiplies them by W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.domain.problem import Method, Minimise, Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.noise import Noise
from treering.params import positive

# -- requests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A sparse-vector run: its noise, fixed for as long as it lives.

    ``threshold_scale``  scale, in rows, of the Laplace noise on the threshold, drawn once
    ``query_scale``      scale, in rows, of the fresh Laplace noise of each comparison
    ``answer``           noise of the numeric answer to the query that ends the run; None: no such answer
    """

    threshold_scale: float
    query_scale: float
    answer: Noise | None = None

    def __post_init__(self) -> None:
        positive(self.threshold_scale, "threshold_scale")
        positive(self.query_scale, "query_scale")


# -- events: what was released -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """``values``: each query's count plus ``noise``, in grid units."""

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    noise: Noise
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Sparse-vector run number ``run`` began: its whole cost, the numeric answer included, is charged."""

    size: int
    cost: Cost
    run: int
    request: RunRequest


@dataclass(frozen=True, slots=True)
class Crossing:
    """The first query of a batch above the noisy threshold, and its noisy answer in grid units (None without one)."""

    index: int
    value: int | None


@dataclass(frozen=True, slots=True)
class Compared:
    """``asked`` queries were compared: all were below the noisy threshold, except the last if there is a crossing,
    which ends the run."""

    size: int
    run: int
    asked: int
    crossing: Crossing | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run was abandoned at a public moment: ``refund`` is what it was charged for and can no longer release, in the
    budget's unit."""

    size: int
    run: int
    refund: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class HistogramReleased:
    """Noisy counts, in rows, over the joint values of ``attributes`` (positions in the schema)."""

    size: int
    cost: Cost
    attributes: tuple[int, ...]
    noise: Noise
    counts: Ints


@dataclass(frozen=True, slots=True)
class Selected:
    """The exponential mechanism drew ``queries[index]``."""

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    index: int


@dataclass(frozen=True, slots=True)
class RowsDrawn:
    """A synthetic database of ``rows`` rows that the exponential mechanism drew, as cells, increasing.

    Only the queries' values on it mean anything: among cells that no query tells apart, the first stands for all.
    """

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    rows: int
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForeignReleased:
    """The output of another library's measurement of the counts: a value for each cell, or no values if it failed."""

    size: int
    cost: Cost
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class TreeStarted:
    """A binary tree over batches began (see ``budget/cost.py``): the cost of all nodes it will ever have is charged.
    A node in segment 0 gets ``noise``; a node in segment k gets ``noise.shared(k + 1)``."""

    size: int
    cost: Cost
    tree: int
    noise: Noise


@dataclass(frozen=True, slots=True)
class LeafCut:
    """The rows since the last cut, up to ``size``, are leaf number ``leaf``."""

    size: int
    tree: int
    leaf: int


@dataclass(frozen=True, slots=True, eq=False)
class NodeReleased:
    """Noisy counts, over all cells, of the rows in the leaves below node (``level``, ``index``)."""

    size: int
    tree: int
    level: int
    index: int
    noise: Noise
    counts: Ints


@dataclass(frozen=True, slots=True, eq=False)
class TreeCondensed:
    """A note replaces all nodes released so far: replay begins with it, and a journal need not keep their counts.

    The next leaf lies in one node of each level: ``starts`` are the sizes at which these nodes begin, level 0 first.
    """

    size: int
    tree: int
    leaf: int
    starts: tuple[int, ...]
    note: Any


@dataclass(frozen=True, slots=True)
class Minimised:
    """A model ``theta`` in the ball whose empirical risk is near the minimum: `treering.theory.erm` bounds how near."""

    size: int
    cost: Cost
    problem: Problem
    method: Method
    theta: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A part of the budget was set aside and charged: operations up to `ReservationEnded` are paid from it."""

    size: int
    cost: Cost
    part: Budget


@dataclass(frozen=True, slots=True)
class ReservationEnded:
    """Operations are paid from the whole budget again. What was left of the part stays spent."""

    size: int


@dataclass(frozen=True, slots=True)
class Condensed:
    """A note replaces all events so far, which cost ``spent``: replay begins with it. ``runs`` are in progress."""

    size: int
    spent: Fraction
    next_run: int
    runs: tuple[RunStarted, ...]
    note: Any


@dataclass(frozen=True, slots=True)
class Noted:
    """A public step of the mechanism itself, recorded so that replay need not recompute it."""

    note: Any


Event: TypeAlias = (
    Measured
    | RunStarted
    | Compared
    | RunEnded
    | HistogramReleased
    | Selected
    | RowsDrawn
    | ForeignReleased
    | TreeStarted
    | LeafCut
    | NodeReleased
    | TreeCondensed
    | Minimised
    | Reserved
    | ReservationEnded
    | Condensed
    | Noted
)

# -- protocols: the gate, and the database that opens one --------------------------------------------------------------


class Gate(Protocol):
    """Everything that a public program may ask of private data, under one budget.

    Every operation derives its cost from scales and sensitivity, charges it or raises `BudgetExceeded` before data
    are touched, draws exact noise, writes the journal and only then returns.
    """

    @property
    def schema(self) -> Schema:
        """The universe: the attributes, and the cells that their joint values make."""

    @property
    def size(self) -> int:
        """The number of rows: public."""

    @property
    def budget(self) -> Budget:
        """The total that may be spent, and its unit."""

    @property
    def spent(self) -> Fraction:
        """What has been charged, in the budget's unit."""

    @property
    def history(self) -> Sequence[Event]:
        """The events so far, oldest first, without those that a later `condense` or `condense_tree` replaced."""

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """What `measure` would cost: free to ask."""

    def cost_of_run(self, request: RunRequest) -> Cost:
        """What `begin_run` would cost: free to ask."""

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """Each query's count plus independent ``noise``, whose scale is in rows."""

    def begin_run(self, request: RunRequest) -> RunStarted:
        """Start a sparse-vector run: draw its secret threshold noise and reserve its numeric answer."""

    def first_exceeding(
        self, run: int, queries: Sequence[Query], bars: Sequence[int], estimates: Sequence[int] | None = None
    ) -> Compared:
        """The first query whose noisy count reaches its bar plus the run's threshold noise; finding one ends the run.

        ``run`` is the number of a run in progress (`RunStarted.run`). ``bars``, one for each query, and ``estimates``
        are in grid units. With estimates the comparison is two-sided: |count − estimate|.
        """

    def end_run(self, run: int) -> RunEnded:
        """Abandon a run in progress, and refund what it can no longer release."""

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """The counts of all cells plus ``noise``; or those of all joint values of ``attributes``, which are increasing
        positions in the schema."""

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """One query, drawn by the exponential mechanism with probability ∝ e^{score/scale}.

        A query's score is its count or, with ``estimates`` (in grid units), |count − estimate|; scores and ``scale``
        are in rows.
        """

    def draw_rows(self, queries: Sequence[Query], rows: int, scale: float) -> RowsDrawn:
        """A synthetic database of ``rows`` rows, drawn by the exponential mechanism with probability ∝ e^{score/scale}.

        The score is −max_f |count of f − (size/rows)·its synthetic count| over the ``queries`` f; it and ``scale`` are
        in rows.
        """

    def foreign(self, measurement: Any) -> ForeignReleased:
        """The output of an OpenDP ``measurement`` of the counts of all cells; its own privacy map gives the cost."""

    def begin_tree(self, noise: Noise) -> TreeStarted:
        """Start a binary tree over batches, and charge all nodes it will ever have: 2/s pure, 1/σ² zCDP.

        ``noise``, of scale s or σ in rows, is that of the nodes in segment 0 (see `TreeStarted`).
        """

    def cut(self, tree: int) -> LeafCut:
        """Make the rows that came since the last cut (at the first cut: all rows) the next leaf of the tree."""

    def tree_node(self, tree: int, level: int, index: int) -> NodeReleased:
        """The noisy counts of node (``level``, ``index``), numbered as in ``budget/cost.py``.

        The last leaf cut must have completed it; each node is released once, and before the next cut.
        """

    def condense_tree(self, tree: int, note: Any) -> TreeCondensed:
        """Record a note that replaces all nodes of the tree so far. Nodes not released by now never will be."""

    def minimise(self, request: Minimise) -> Minimised:
        """A private minimiser of an empirical risk, over points or over the counts of cells."""

    def reserve(self, part: Budget) -> AbstractContextManager[Reserved]:
        """Set a part of the budget aside, charged at once, for the operations of the block: they cannot cost more.

        There is one reservation at a time. A run begun in the block ends with it at the latest.
        """

    def condense(self, note: Any) -> Condensed:
        """Record a note that replaces all events so far. Refused within a reservation, and where there are trees."""

    def note(self, note: Any) -> Noted:
        """Record a public step of the mechanism itself."""

    def transaction(self) -> AbstractContextManager[None]:
        """Group operations into one durable step. An answer leaves the mechanism only after the block."""


class Database(Protocol):
    """A growing database, seen from the public side."""

    @property
    def schema(self) -> Schema:
        """The universe: public."""

    @property
    def size(self) -> int:
        """The number of rows: public."""

    def open_gate(self, budget: Budget) -> Gate:
        """A gate with a budget of its own. The budgets of several gates add up."""

    def watch(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` after every append, for as long as its object lives. It must not raise."""
