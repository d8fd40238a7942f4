"""The kernel: the one implementation of the gate.

Every operation follows one order: derive the cost, charge it, read the data, add noise, write the journal, release. A
refusal depends on public state only and leaves everything as it was. What is returned or raised carries no true count
and no secret: noise is added in a call of its own, which returns what is noised, so that the frame that calls the
journal, whose error may be shown with the variables of every frame, holds no exact value.

Nothing that a caller hands in is taken at its word. Objects that say how sensitive they are (queries, noise, losses)
are taken by their exact types, which no subclass can override, and a query's weights are checked.

What an operation is about, costs and reads is in a file of its own (``operations/``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from treering.budget.cost import Cost, pure
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Kept, Sums
from treering.errors import DamagedVault, Halted, ParameterError, TreeringError
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
    ReservationEnded,
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
from treering.params import whole
from treering.trusted.charges import Charges
from treering.trusted.journal import Journal, live_runs
from treering.trusted.operations.base import Desk, Operation
from treering.trusted.operations.count import measuring
from treering.trusted.operations.run import running
from treering.trusted.operations.table import operation
from treering.trusted.rows.kept import Need, Rows
from treering.trusted.sealed import Sealed

if TYPE_CHECKING:
    from treering.domain.problem import Minimise
    from treering.domain.tally import Tally

Released = TypeVar("Released", bound=Event)
Operations: TypeAlias = Callable[[type[Any]], Operation[Any, Any]]
"""The operation that releases events of a class."""


class Kernel(Sealed):
    """The gate to one growing database under one budget; `treering.protocols.Gate` explains the parameters.

    Guarantee: the transcript of all operations, chosen adaptively while the database grows, is (budget.total)-DP for
    a ``pure`` budget and (budget.total)-zCDP for a ``zcdp`` one, for databases that differ in one row, replaced.
    (Each operation has the cost that its file derives, and is charged to the rows that it is about; the ledger by row
    keeps the sum of each row within the budget.)

    One thread at a time works in a kernel. A forked child is refused: it would use the same secret noise twice. A
    kernel made from a journal that is not empty continues where the journal ends.
    """

    __slots__ = ("_desk", "_operations", "_process", "_retired")

    def __init__(
        self,
        rows: Rows,
        budget: Budget,
        journal: Journal,
        lens: Schema | None = None,
        operations: Operations = operation,
        aside: Fraction = Fraction(0),
    ) -> None:
        """``lens`` is the version of the schema that is kept; None: always the newest of the rows. ``operations`` are
        those that there are; others are refused. ``aside`` is what is set aside for discoveries: all is then what the
        budget says but for a failure of this chance."""
        self._desk = Desk(rows, Charges(budget, aside), journal, lens)
        self._retired, self._operations = False, operations
        self._process = os.getpid()
        self._restore(journal.events())

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._desk.schema

    def keep_lens(self) -> None:
        """Keep the version of the schema that the rows have now."""
        self._desk.lens = self._desk.schema

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._desk.size

    def rows_between(self, start: int, end: int) -> int:
        """The number of rows after position ``start``, up to ``end``, that were not erased: public."""
        return self._desk.rows.between(start, end)

    @property
    def budget(self) -> Budget:
        """The total that may be spent, and its unit."""
        return self._desk.charges.budget

    @property
    def spent(self) -> Fraction:
        """The most that any row has been charged, in the budget's unit."""
        return self._desk.charges.spent

    @property
    def history(self) -> Sequence[Event]:
        """The events on record, oldest first."""
        return self._desk.journal.events()

    def left(self, position: int) -> Fraction:
        """What the row at this position may still be charged, in the budget's unit."""
        return self._desk.charges.ledger.left(whole(position, "position"))

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """What `measure` would cost: free to ask."""
        return measuring(queries, noise)

    def cost_of_run(self, request: RunRequest) -> Cost:
        """What `begin_run` would cost: free to ask."""
        return running(request)

    # -- operations ---------------------------------------------------------------------------------------------------

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """Each query's count plus noise, in grid units."""
        return self._carry_out(Measured, queries, noise)

    def begin_run(self, request: RunRequest) -> RunStarted:
        """Start a sparse-vector run."""
        return self._carry_out(RunStarted, request)

    def first_exceeding(
        self,
        run: int,
        queries: Sequence[Query],
        bars: Sequence[int],
        estimates: Sequence[int] | None = None,
        reach: int | None = None,
    ) -> Compared:
        """The first query whose noisy gap reaches the run's noisy threshold. Paid for by `begin_run`."""
        return self._carry_out(Compared, run, queries, bars, estimates, reach)

    def end_run(self, run: int) -> RunEnded:
        """Abandon a run at a public moment, and refund what it can no longer release."""
        return self._carry_out(RunEnded, run)

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """The counts over all cells, or over the joint values of some attributes, plus noise."""
        return self._carry_out(HistogramReleased, noise, attributes)

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """One index, drawn exactly with probability ∝ e^{score/scale}, the score a count or |count − estimate|."""
        return self._carry_out(Selected, queries, scale, estimates)

    def draw_rows(self, queries: Sequence[Query], rows: int, scale: float) -> RowsDrawn:
        """A synthetic database, drawn exactly with probability ∝ e^{score/scale}."""
        return self._carry_out(RowsDrawn, queries, rows, scale)

    def foreign(self, measurement: Any) -> ForeignReleased:
        """The output of an OpenDP measurement of the counts of all cells. Cost: by its privacy map."""
        return self._carry_out(ForeignReleased, measurement)

    def combine(self, groups: Groups, spans: Sequence[Span], noise: Noise, sums: Sums | None = None) -> Combined:
        """Weighted counts, or sums, of groups over spans of rows, plus noise."""
        return self._carry_out(Combined, groups, spans, noise, sums)

    def count_persons(self) -> PersonsCounted:
        """How many persons have rows: public."""
        return self._carry_out(PersonsCounted)

    def mark(self) -> Marked:
        """Tell rows up to the present size and rows after it apart from now on."""
        return self._carry_out(Marked)

    def begin_segment(
        self, groups: Groups, noise: Noise, room: int, start: int = 0, series: int = 0, sums: Kept | None = None
    ) -> SegmentBegun:
        """Begin a segment of the rows after ``start``. Costs nothing before its first leaf."""
        return self._carry_out(SegmentBegun, groups, noise, room, start, series, sums)

    def advance(self, segment: int, patterns: Sequence[Pattern]) -> Advanced:
        """The next leaf of a segment, and a weighted count of leaves for each pattern. The new rows pay for the whole
        room; no other row pays anything."""
        return self._carry_out(Advanced, segment, patterns)

    def condense_segment(self, segment: int, note: Any) -> SegmentCondensed:
        """Record a note that replaces the releases of a segment so far."""
        return self._carry_out(SegmentCondensed, segment, note)

    def end_segment(self, segment: int, note: Any = None) -> SegmentEnded:
        """End a segment, and give its rows back what they paid for room that was not used."""
        return self._carry_out(SegmentEnded, segment, note)

    def minimise(
        self, request: Minimise, rows: tuple[int, int] | None = None, *, held: int = 0, progress: Told | None = None
    ) -> Minimised:
        """A private minimiser of an empirical risk on all rows or on those of an interval."""
        return self._carry_out(Minimised, request, rows, held, progress)

    def tally(self, request: Tally, noise: Noise) -> Tallied:
        """Held-out rows counted by what a public model says of them, plus noise."""
        return self._carry_out(Tallied, request, noise)

    def discover(self, request: Discovery) -> Discovered:
        """The values of a column that are not listed and that enough rows have, with noisy counts."""
        return self._carry_out(Discovered, request)

    def prepare(self, leaves: Sequence[Coming] | None = None) -> None:
        """Have rows that stay in an engine counted for what comes next. Nothing is charged, and nothing released."""
        with self._working():
            desk, ahead = self._desk, self._desk.rows.ahead
            if ahead is not None:
                cells, able = desk.rows.need_of_cells, self._operations(Advanced)
                ahead.prepare(cells(desk.schema) if leaves is None else able.coming(leaves, desk))

    # -- reservations, notes, transactions ----------------------------------------------------------------------------

    @contextmanager
    def reserve(self, part: Budget) -> Iterator[Reserved]:
        """Set ``part`` of the budget aside for the operations of the block, charged now: they cannot cost more.

        The operations together are (part.total)-DP or -zCDP by the filter over the part, whatever ends the block; the
        whole budget is charged exactly that.
        """
        with self._working():
            desk = self._desk
            charges = desk.charges
            if charges.reserved:
                raise ParameterError("part", "cannot be reserved within another reservation")
            if type(part) is not Budget:
                raise ParameterError("part", f"must be a Budget, not a {type(part).__name__}")
            cost = reserving(part)
            # An engine that failed in the block would cost the part.
            self._count_ahead(desk.rows.need_of_cells(desk.schema), lambda tried: tried.charges.set_aside(cost))
            charges.set_aside(cost)
            event = self._write(Reserved(self.size, cost, part))
            charges.open(part)
            try:
                yield event
            finally:
                self._close_part()

    def condense(self, note: Any) -> Condensed:
        """Record a note that replaces all events so far. Their cost stays charged; runs and segments in progress go
        on."""
        with self._working():
            charges = self._desk.charges
            if charges.reserved:
                raise ParameterError("note", "cannot replace events within a reservation")
            steps, segments, marks = charges.state
            runs = charges.next_run, tuple(charges.runs.values())
            return self._write(
                Condensed(
                    self.size, self.spent, *runs, note, steps, charges.next_segment, segments, marks, charges.failed
                )
            )

    def note(self, note: Any) -> Noted:
        """Record a public step of the mechanism itself."""
        with self._working():
            return self._write(Noted(note))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group operations into one durable step. What was charged inside stays charged, error or not."""
        with self._working(), self._desk.journal.transaction():
            yield

    def mend(self) -> None:
        """Go on from the record, as a new kernel would: what is not on record was never released. A run that is in
        progress there and not here is over. Nothing of it is refunded, for it may have shown a crossing."""
        with self._working():
            for run in live_runs(self.history) - self._desk.charges.runs.keys():
                self._write(RunEnded(self.size, run, Fraction(0)))
            desk = self._desk
            new = Kernel(desk.rows, self.budget, desk.journal, desk.lens, self._operations, desk.charges.aside)
            self._desk = new._desk  # In one step, which an interrupt cannot tear.

    def retire(self) -> None:
        """Refuse all further operations: another kernel continues the journal."""
        with self._desk.rows.whole():
            self._retired = True

    # -- internals ----------------------------------------------------------------------------------------------------

    def _carry_out(self, kind: type[Released], *request: Any) -> Released:
        """The operation that releases events of this ``kind``, in the kernel's order."""
        with self._working():
            done, desk = self._operations(kind), self._desk
            checked = done.check(desk, *request)
            cost = done.price(checked, desk)
            self._count_ahead(done.needs(checked, desk), lambda tried: done.charge(checked, cost, tried))
            done.charge(checked, cost, desk)
            event: Released = done.perform(checked, cost, desk)
            done.record(event, desk)
            outcome: Released = done.outcome(event, desk)
            return outcome

    def _count_ahead(self, needs: Sequence[Need], charge: Callable[[Desk], None]) -> None:
        """Have an engine count what is read next, where rows stay in one; once it is known that a copy of the account
        can be charged."""
        desk, ahead = self._desk, self._desk.rows.ahead
        if ahead is not None and (absent := ahead.absent(needs)):
            charge(Desk(desk.rows, deepcopy(desk.charges), desk.journal, desk.lens))
            ahead.prepare(absent)

    def _working(self) -> AbstractContextManager[object]:
        if os.getpid() != self._process:
            raise TreeringError("this database was opened by another process: a forked child must open its own")
        if self._retired:
            raise Halted("the share of this mechanism was lowered: ask the one that the vault has made in its place")
        return self._desk.rows.whole()

    def _write(self, event: Released) -> Released:
        self._desk.journal.write(event)
        return event

    def _close_part(self) -> None:
        charges = self._desk.charges
        for run in [run for run in charges.runs if run >= charges.first_reserved]:
            self.end_run(run)
        charges.close(self.size)
        self._write(ReservationEnded(self.size))

    def _restore(self, events: Sequence[Event]) -> None:
        """Continue from the journal's events: their charges, segments, and runs in progress."""
        charges = self._desk.charges
        for event in events:
            follow(event, charges)
        charges.catch_up()
        if max(charges.sizes, default=0) > self.size:
            raise DamagedVault("there are fewer rows than the record tells of: restore a backup")
        if charges.reserved:  # The last session ended within a reservation: end that now.
            self._close_part()


def reserving(part: Budget) -> Cost:
    """All that a filter over the part admits: (part.total)-DP if the part is pure, (part.total)-zCDP if it is zCDP."""
    return pure(part.total) if part.kind == "pure" else Cost(None, part.total)


# -- following a history -----------------------------------------------------------------------------------------------


def follow(event: Event, charges: Charges) -> None:
    """Repeat the charge or the refund that an earlier event made, and what it changed."""
    if type(event) not in _OWN:  # First: of some there may be very many.
        operation(type(event)).follow(event, charges)
    elif isinstance(event, Reserved):
        charges.set_aside(event.cost)
        charges.open(event.part)
    elif isinstance(event, ReservationEnded):
        charges.close(event.size)
    elif isinstance(event, Condensed):
        charges.restore(event)


_OWN: Final = frozenset({Reserved, ReservationEnded, Condensed, Noted})
"""The kernel's own events."""
