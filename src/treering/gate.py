"""PUBLIC: the gate between public programs and private data.

A mechanism talks to a `Gate`. What it asks for is a request with noise scales; what it gets back is an *event*: a
frozen record of what was released, at which size, at which cost. The same events are what a journal keeps, so a
mechanism's public state is a fold over `Gate.history`, and replaying the journal gives exactly the live state.

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
    """A sparse-vector run: noise scales in rows, fixed for its life, and the noise of its numeric answer (if any)."""

    threshold_scale: float
    query_scale: float
    answer: Noise | None = None

    def __post_init__(self) -> None:
        positive(self.threshold_scale, "threshold_scale")
        positive(self.query_scale, "query_scale")


# -- events: what was released -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Noisy answers, in grid units."""

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    noise: Noise
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run began: its whole cost, the numeric answer included, is charged."""

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
    """A batch was compared: ``asked`` queries, all below but the last if there is a crossing. The run is then over."""

    size: int
    run: int
    asked: int
    crossing: Crossing | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run was abandoned at a public moment; what it can no longer lose is refunded."""

    size: int
    run: int
    refund: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class HistogramReleased:
    """Noisy counts over the joint values of ``attributes``."""

    size: int
    cost: Cost
    attributes: tuple[int, ...]
    noise: Noise
    counts: Ints


@dataclass(frozen=True, slots=True)
class Selected:
    """The index that the exponential mechanism drew."""

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    index: int


@dataclass(frozen=True, slots=True)
class RowsDrawn:
    """A synthetic database of ``rows`` rows that the exponential mechanism drew, as cells, increasing.

    Only the queries' values on it mean anything: each row is the first cell of those that no query tells apart.
    """

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    rows: int
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForeignReleased:
    """What a measurement of another library made of the counts: a value for each cell, none if it failed."""

    size: int
    cost: Cost
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class TreeStarted:
    """A tree over the batches to come began (see ``budget/cost.py``): the cost of all its nodes is charged.
    ``noise`` is that of a node in segment 0; a node in segment k has ``noise.shared(k + 1)``."""

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
    """Noisy counts, over all cells, of the rows of one node's leaves."""

    size: int
    tree: int
    level: int
    index: int
    noise: Noise
    counts: Ints


@dataclass(frozen=True, slots=True, eq=False)
class TreeCondensed:
    """A note stands for all nodes released so far: replay begins with it, and a journal need not keep their counts.

    ``starts`` are the sizes at which the node of each level that the next leaf lies in begins.
    """

    size: int
    tree: int
    leaf: int
    starts: tuple[int, ...]
    note: Any


@dataclass(frozen=True, slots=True)
class Minimised:
    """A model in the ball whose empirical risk is near the least: see `treering.theory.erm` for how near."""

    size: int
    cost: Cost
    problem: Problem
    method: Method
    theta: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A part of the budget was set aside and charged: what follows, up to `ReservationEnded`, is paid from it."""

    size: int
    cost: Cost
    part: Budget


@dataclass(frozen=True, slots=True)
class ReservationEnded:
    """What follows is paid from the whole budget again. What was left of the part stays spent."""

    size: int


@dataclass(frozen=True, slots=True)
class Condensed:
    """A note stands for all events so far, which cost ``spent``: replay begins with it. ``runs`` are not over."""

    size: int
    spent: Fraction
    next_run: int
    runs: tuple[RunStarted, ...]
    note: Any


@dataclass(frozen=True, slots=True)
class Noted:
    """A step of a mechanism's own, recorded so that replay need not recompute it."""

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

# -- the two protocols -------------------------------------------------------------------------------------------------


class Gate(Protocol):
    """All that a public program may ask of private data under one budget.

    Every operation derives its cost from scales and sensitivity, charges it or raises `BudgetExceeded` before data
    are touched, draws exact noise, writes the journal and only then returns.
    """

    @property
    def schema(self) -> Schema:
        """The universe."""

    @property
    def size(self) -> int:
        """The number of rows: public."""

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""

    @property
    def spent(self) -> Fraction:
        """What has been charged, in the budget's unit."""

    @property
    def history(self) -> Sequence[Event]:
        """All that was released so far, oldest first; where a tree was condensed, what that left of it."""

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """What `measure` would cost: free to ask."""

    def cost_of_run(self, request: RunRequest) -> Cost:
        """What `begin_run` would cost: free to ask."""

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """Each query's count plus noise."""

    def begin_run(self, request: RunRequest) -> RunStarted:
        """Start a sparse-vector run: draw its secret threshold noise and reserve its numeric answer."""

    def first_exceeding(
        self, run: int, queries: Sequence[Query], bars: Sequence[int], estimates: Sequence[int] | None = None
    ) -> Compared:
        """The first query whose noisy count reaches its bar plus the run's noise; with it, the run is over.

        ``bars`` and ``estimates`` are in grid units. With estimates the comparison is two-sided: |count − estimate|.
        """

    def end_run(self, run: int) -> RunEnded:
        """Abandon a run."""

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """All cells, or all joint values of some attributes, plus noise."""

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """One query, drawn by the exponential mechanism with score count, or |count − estimate|, over ``scale``
        rows."""

    def draw_rows(self, queries: Sequence[Query], rows: int, scale: float) -> RowsDrawn:
        """A synthetic database, drawn by the exponential mechanism with score −max_f |count of f − (size/rows)·its
        synthetic count| over ``scale`` rows."""

    def foreign(self, measurement: Any) -> ForeignReleased:
        """What a measurement of OpenDP's makes of the counts of all cells. Its own privacy map is charged."""

    def begin_tree(self, noise: Noise) -> TreeStarted:
        """Start a tree over batches, and charge all nodes it will ever have: 2/s pure, 1/σ² zCDP."""

    def cut(self, tree: int) -> LeafCut:
        """Make the rows that came since the last cut (the first one: all rows) the next leaf."""

    def tree_node(self, tree: int, level: int, index: int) -> NodeReleased:
        """The noisy counts of a node that the last leaf cut has completed: each once, and before the next cut."""

    def condense_tree(self, tree: int, note: Any) -> TreeCondensed:
        """Record a note that stands for all nodes of the tree so far. Nodes not measured by now are given up."""

    def minimise(self, request: Minimise) -> Minimised:
        """A private minimiser of an empirical risk, over points or over the counts of cells."""

    def reserve(self, part: Budget) -> AbstractContextManager[Reserved]:
        """Set a part of the budget aside, charged at once, for the operations of the block: they cannot cost more.

        One at a time. A run begun in the block must end in it.
        """

    def condense(self, note: Any) -> Condensed:
        """Record a note that stands for all events so far. Refused within a reservation, and where there are trees."""

    def note(self, note: Any) -> Noted:
        """Record a public step of the mechanism's own."""

    def transaction(self) -> AbstractContextManager[None]:
        """Group operations into one durable step. An answer leaves the mechanism only after the block."""


class Database(Protocol):
    """A growing database, seen from the public side."""

    @property
    def schema(self) -> Schema:
        """The universe."""

    @property
    def size(self) -> int:
        """The number of rows: public."""

    def open_gate(self, budget: Budget) -> Gate:
        """A gate with a budget of its own. Budgets of several gates add up."""

    def watch(self, grown: Callable[[], None]) -> None:
        """Call a method after every append, for as long as its object lives. It must not raise."""
