"""PUBLIC: what public programs talk to: a gate to private data, and a database that opens one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Kept, Sums
from treering.gate import (
    Advanced,
    Combined,
    Coming,
    Compared,
    Condensed,
    Discovered,
    Discovery,
    Event,
    ForeignReleased,
    HistogramReleased,
    Marked,
    Measured,
    Minimised,
    Noted,
    Pattern,
    PersonsCounted,
    Reserved,
    RowsDrawn,
    RunEnded,
    RunRequest,
    RunStarted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Selected,
    Span,
    Tallied,
    Told,
)
from treering.noise import Noise

if TYPE_CHECKING:
    from treering.domain.problem import Minimise
    from treering.domain.tally import Tally


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
        """The number of rows that ever came, that of the last position: public."""

    def rows_between(self, start: int, end: int) -> int:
        """The number of rows after position ``start``, up to ``end``, that were not erased: public."""

    @property
    def budget(self) -> Budget:
        """The total that may be spent, and its unit."""

    @property
    def spent(self) -> Fraction:
        """The most that any row has been charged, in the budget's unit."""

    @property
    def history(self) -> Sequence[Event]:
        """The events so far, oldest first, without those that a later `condense`, `condense_segment` or `end_segment`
        replaced."""

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """What `measure` would cost: free to ask."""

    def cost_of_run(self, request: RunRequest) -> Cost:
        """What `begin_run` would cost: free to ask."""

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """Each query's count plus independent ``noise``, whose scale is in rows."""

    def begin_run(self, request: RunRequest) -> RunStarted:
        """Start a sparse-vector run: draw its secret threshold noise and reserve its numeric answer."""

    def first_exceeding(
        self,
        run: int,
        queries: Sequence[Query],
        bars: Sequence[int],
        estimates: Sequence[int] | None = None,
        reach: int | None = None,
    ) -> Compared:
        """The first query whose noisy count reaches its bar plus the run's threshold noise; finding one ends the run.

        ``run`` is the number of a run in progress (`RunStarted.run`). ``bars``, one for each query, and ``estimates``
        are in grid units. With estimates the comparison is two-sided: |count − estimate|.

        ``reach`` stretches all of the run's noise for these queries: its scales are then in units of ``reach``/`FINE`
        rows, and a replaced row must not move any of the queries by more than one unit. The numeric answer is then in
        units of 1/`FINE` grid units.
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

    def combine(self, groups: Groups, spans: Sequence[Span], noise: Noise, sums: Sums | None = None) -> Combined:
        """For each group, the sum over ``spans`` of weight × the group's rows in the span, plus ``noise``.

        Spans do not overlap, and begin and end at sizes at which rows can be told apart (see `mark`). ``noise`` is in
        units of weight 1. A span of weight w costs its rows 2|w|/s pure, w²/σ² zCDP, and half of it for one group; no
        other row pays anything. With ``sums``, those take the place of rows, or come with them; a span of weight w then
        costs 2R|w|/s pure (4R|w|/s with counts) and 2R²w²/σ² zCDP (with counts or without), also for one group.
        """

    def begin_segment(
        self, groups: Groups, noise: Noise, room: int, start: int = 0, series: int = 0, sums: Kept | None = None
    ) -> SegmentBegun:
        """Begin a segment of the rows after position ``start``. Costs nothing before its first leaf. ``series`` is any
        number by which the caller will know it again. ``sums`` is as in `combine`."""

    def advance(self, segment: int, patterns: Sequence[Pattern]) -> Advanced:
        """Make the rows since the last leaf the segment's next leaf, and release a combination of leaves for each
        pattern. The new rows are charged for the room of the whole segment; no other row pays anything."""

    def prepare(self, leaves: Sequence[Coming] | None = None) -> None:
        """Have rows that stay in an engine counted for what comes next: the leaves of segments or, by default, the
        counts of all cells. An engine that fails then fails before anything was charged. Nothing is charged or released
        here, and where rows are kept nothing is done."""

    def condense_segment(self, segment: int, note: Any) -> SegmentCondensed:
        """Record a note that replaces the releases of a segment so far."""

    def end_segment(self, segment: int, note: Any = None) -> SegmentEnded:
        """End a segment, and give its rows back what they paid for room that was not used."""

    def count_persons(self) -> PersonsCounted:
        """How many persons have rows: public, and free. (A gate whose rows are not of persons refuses.)"""

    def mark(self) -> Marked:
        """Tell rows up to the present size and rows after it apart from now on, so that spans can begin here."""

    def left(self, position: int) -> Fraction:
        """What the row at this position may still be charged, in the budget's unit."""

    def minimise(
        self, request: Minimise, rows: tuple[int, int] | None = None, *, held: int = 0, progress: Told | None = None
    ) -> Minimised:
        """A private minimiser of an empirical risk, over points or over the counts of cells.

        With ``rows`` = (a, b) it is the risk on the rows after position a, up to b, sizes at which rows can be told
        apart (see `mark`): no other row is read, and no other pays anything. None: all rows there are. ``held`` of
        these rows, drawn at random, are held out for `tally`; ``progress`` is called at each step.
        """

    def tally(self, request: Tally, noise: Noise) -> Tallied:
        """The rows that the last `minimise` held out, counted by what a public model says of them, plus noise. They
        have paid for it with the model: all counts together may cost as much as the model did. Once the gate is opened
        anew, there are none."""

    def discover(self, request: Discovery) -> Discovered:
        """The values of a column that are not listed and that enough rows have, with noisy counts. The rows of the
        request pay 1/σ² zCDP, and ``request.failure`` of what is set aside of delta; no other row is read."""

    def reserve(self, part: Budget) -> AbstractContextManager[Reserved]:
        """Set a part of the budget aside, charged at once, for the operations of the block: they cannot cost more.

        There is one reservation at a time. A run begun in the block ends with it at the latest.
        """

    def condense(self, note: Any) -> Condensed:
        """Record a note that replaces all events so far. Refused within a reservation."""

    def note(self, note: Any) -> Noted:
        """Record a public step of the mechanism itself."""

    def transaction(self) -> AbstractContextManager[None]:
        """Group operations into one durable step. An answer leaves the mechanism only after the block."""

    def mend(self) -> None:
        """Go on from `history` after an interrupt. A run that was kept from beginning or ending whole is over."""


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
