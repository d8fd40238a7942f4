"""The kernel: the one implementation of the gate.

Every operation follows one order: derive the cost, charge it, read the data, add noise, write the journal, release. A
refusal depends on public state only and leaves everything as it was. What is returned or raised carries no true count
and no secret: noise is added in a call of its own, which returns what is noised, so that the frame that calls the
journal, whose error may be shown with the variables of every frame, holds no exact value.

Nothing that a caller hands in is taken at its word. Objects that say how sensitive they are (queries, noise, losses)
are taken by their exact types, which no subclass can override, and a query's weights are checked.

*Sparse-vector runs* (`Run`) use a frozen count scale (theory: ``treering.theory.sparse``). A run compares, for as long
as it lives and however much the data grow,

    gap + ν  ≥  W·η        gap = count − bar, or |count − estimate| − bar, in units of 1/W rows,

with one integer η of scale s1 for the whole run and a fresh ν of scale W·s2 for each query. A replaced row moves
every gap by at most W. Shifting η by one pays for all queries below, shifting the last ν by 2W for the one above: the
run is (1/s1 + 2/s2)-DP, whatever it is asked, adaptively, and whenever it halts. The argument uses nothing else of W:
a comparison with a ``reach`` multiplies gaps by `FINE`, and takes for W any public V that is at least `FINE` times what
a replaced row moves the gap by.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import DamagedVault, Halted, ParameterError, TreeringError
from treering.gate import (
    FINE,
    Compared,
    Condensed,
    Crossing,
    Event,
    ForeignReleased,
    HistogramReleased,
    Measured,
    Minimised,
    Noted,
    ReservationEnded,
    Reserved,
    RowsDrawn,
    RunEnded,
    RunRequest,
    RunStarted,
    Selected,
    Tallied,
    Told,
)
from treering.noise import Laplace, Noise
from treering.params import exact_scale
from treering.trusted import pricing, registry
from treering.trusted.cells import MAX_COUNT
from treering.trusted.charges import Charges
from treering.trusted.combining import Combining, Tallies
from treering.trusted.journal import Journal, Secret, ends_run, live_runs
from treering.trusted.noise import Ahead, Answering, check_noise, check_scale, draw, draw_laplace
from treering.trusted.operations.base import Desk, Operation
from treering.trusted.rows.kept import Rows
from treering.trusted.samplers.select import exponential
from treering.trusted.sealed import Sealed

if TYPE_CHECKING:
    from treering.domain.problem import Minimise
    from treering.domain.tally import Tally

Released = TypeVar("Released", bound=Event)


class Kernel(Combining):
    """The gate to one growing database under one budget; `treering.gate.Gate` explains the parameters.

    Guarantee: the transcript of all operations, chosen adaptively while the database grows, is (budget.total)-DP for
    a ``pure`` budget and (budget.total)-zCDP for a ``zcdp`` one, for databases that differ in one row, replaced.
    (Each operation has the cost that ``pricing`` derives, and is charged to the rows that it is about; the ledger by
    row keeps the sum of each row within the budget.)

    One thread at a time works in a kernel. A forked child is refused: it would use the same secret noise twice. A
    kernel made from a journal that is not empty continues where the journal ends.
    """

    __slots__ = (
        *("_answering", "_charges", "_first_reserved_run", "_journal", "_next_run", "_operations", "_process"),
        *("_retired", "_rows", "_runs", "_tallies"),
    )

    def __init__(self, rows: Rows, budget: Budget, journal: Journal) -> None:
        self._answering = Answering()
        self._rows = rows
        self._charges = Charges(budget)
        self._first_reserved_run = 0
        self._journal = journal
        self._operations: dict[str, Operation[Any, Any]] = {}
        self._retired = False
        self._runs: dict[int, Run] = {}
        self._tallies: dict[int, Tallies] = {}
        self._next_run = 0
        self._process = os.getpid()
        self._restore(journal.events())

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._rows.schema

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._rows.size

    @property
    def budget(self) -> Budget:
        """The total that may be spent, and its unit."""
        return self._charges.budget

    @property
    def spent(self) -> Fraction:
        """The most that any row has been charged, in the budget's unit."""
        return self._charges.spent

    @property
    def history(self) -> Sequence[Event]:
        """The events on record, oldest first."""
        return self._journal.events()

    def cost_of_measuring(self, queries: Sequence[Query], noise: Noise) -> Cost:
        """What `measure` would cost: free to ask."""
        return pricing.measuring(queries, noise)

    def cost_of_run(self, request: RunRequest) -> Cost:
        """What `begin_run` would cost: free to ask."""
        return pricing.running(request)

    # -- operations ---------------------------------------------------------------------------------------------------

    def measure(self, queries: Sequence[Query], noise: Noise) -> Measured:
        """Each query's count plus noise, in grid units. Cost: Σ r/s pure, Σ r²/(2σ²) zCDP (see ``pricing``)."""
        with self._working():
            asked, scales, largest = self._desk.check_queries(queries)
            check_noise(noise, largest)
            cost = pricing.measuring(asked, noise)
            self._charge(cost)
            noisy = self._rows.cells.count_many(asked) + self._answering.take(noise, scales)
            return self._release(Measured(self.size, cost, asked, noise, tuple(noisy.tolist())))

    def begin_run(self, request: RunRequest) -> RunStarted:
        """Start a sparse-vector run. Charged now: 1/s1 + 2/s2 pure for all its comparisons, and its numeric answer."""
        with self._working():
            _check_run(request)
            cost = pricing.running(request)
            self._charges.begin_run(self._next_run, cost)
            secret = Run.draw_threshold(request)
            event = RunStarted(self.size, cost, self._next_run, request)
            self._journal.begin(event, secret)
            self._runs[event.run] = Run(request, secret)
            self._next_run += 1
            return event

    def first_exceeding(
        self,
        run: int,
        queries: Sequence[Query],
        bars: Sequence[int],
        estimates: Sequence[int] | None = None,
        reach: int | None = None,
    ) -> Compared:
        """The first query whose noisy gap reaches the run's noisy threshold. Paid for by `begin_run`."""
        with self._working():
            live = self._live(run)
            finer = 1 if reach is None else FINE
            asked, scales, largest = self._desk.check_queries(queries, finer)
            if reach is not None:
                _check_reach(reach, asked, largest)
                scales, largest = reach * scales, reach * largest
            for scale in _scales(live.request):
                check_scale(scale, largest)
            most = MAX_COUNT // finer
            bar = _integers(bars, "bars", len(asked), most)
            estimate = None if estimates is None else _integers(estimates, "estimates", len(asked), most)
            crossing = self._first_exceeding(live, asked, scales, bar, estimate, finer)
            if crossing is None:
                return self._release(Compared(self.size, run, len(asked), None))
            self._end_run(run, Fraction(0))
            return self._release(Compared(self.size, run, crossing.index + 1, crossing))

    def end_run(self, run: int) -> RunEnded:
        """Abandon a run at a public moment, and refund what it can no longer release (see ``pricing.refund``)."""
        with self._working():
            refund = pricing.refund(self._live(run).request, self._charges.present)
            self._end_run(run, refund)
            return self._release(RunEnded(self.size, run, refund))

    def histogram(self, noise: Noise, attributes: Sequence[int] | None = None) -> HistogramReleased:
        """The counts over all cells, or over the joint values of some attributes, plus noise. Cost: 2/s pure, 1/σ²
        zCDP."""
        with self._working():
            chosen = self._desk.check_attributes(attributes)
            check_noise(noise, 1)
            cost = pricing.histogram(noise)
            self._charge(cost)
            noisy = self._noisy_marginal(noise, chosen)
            return self._release(HistogramReleased(self.size, cost, chosen, noise, noisy))

    def select(self, queries: Sequence[Query], scale: float, estimates: Sequence[int] | None = None) -> Selected:
        """One index, drawn exactly with probability ∝ e^{score/scale}, the score in rows: count, or |count − estimate|.

        Cost: ε = 2r/scale with r the largest spread of a query in rows; ε²/8-zCDP.
        """
        with self._working():
            asked, scales, _ = self._desk.check_queries(queries)
            if not asked:
                raise ParameterError("queries", "must name at least one candidate")
            estimate = None if estimates is None else _integers(estimates, "estimates", len(asked))
            cost = pricing.selecting(asked, scale)
            self._charge(cost)
            index = self._select(asked, scales, scale, estimate)
            return self._release(Selected(self.size, cost, asked, index))

    def draw_rows(self, queries: Sequence[Query], rows: int, scale: float) -> RowsDrawn:
        """A synthetic database, drawn exactly with probability ∝ e^{score/scale} (see ``synthesis``).

        Cost: ε = 2r/scale with r the largest spread of a query in rows; ε²/8-zCDP.
        """
        return self._carry_out(RowsDrawn, queries, rows, scale)

    def foreign(self, measurement: Any) -> ForeignReleased:
        """The output of an OpenDP measurement of the counts of all cells. Cost: by its privacy map (see ``opendp``)."""
        return self._carry_out(ForeignReleased, measurement)

    def minimise(
        self, request: Minimise, rows: tuple[int, int] | None = None, *, held: int = 0, progress: Told | None = None
    ) -> Minimised:
        """A private minimiser of an empirical risk on all rows or on those of an interval: see
        ``operations/minimise.py``."""
        return self._carry_out(Minimised, request, rows, held, progress)

    def tally(self, request: Tally, noise: Noise) -> Tallied:
        """Held-out rows counted by what a public model says of them, plus noise (see ``holding``). Cost, out of their
        room: 2/s pure, 1/σ² zCDP."""
        return self._carry_out(Tallied, request, noise)

    @contextmanager
    def reserve(self, part: Budget) -> Iterator[Reserved]:
        """Set ``part`` of the budget aside for the operations of the block, charged now: they cannot cost more.

        The operations together are (part.total)-DP or -zCDP by the filter over the part, whatever ends the block; the
        whole budget is charged exactly that.
        """
        with self._working():
            if self._charges.reserved:
                raise ParameterError("part", "cannot be reserved within another reservation")
            if type(part) is not Budget:
                raise ParameterError("part", f"must be a Budget, not a {type(part).__name__}")
            cost = pricing.reserving(part)
            self._charges.set_aside(cost)
            event = self._release(Reserved(self.size, cost, part))
            self._charges.open(part)
            self._first_reserved_run = self._next_run
            try:
                yield event
            finally:
                self._close_part()

    def condense(self, note: Any) -> Condensed:
        """Record a note that replaces all events so far. Their cost stays charged; runs and segments in progress go
        on."""
        with self._working():
            if self._charges.reserved:
                raise ParameterError("note", "cannot replace events within a reservation")
            begun = (event for event in self.history if isinstance(event, RunStarted | Condensed))
            started = [run for event in begun for run in (event.runs if isinstance(event, Condensed) else (event,))]
            running = tuple(run for run in started if run.run in self._runs)
            steps, segments, marks = self._charges.state
            return self._release(
                Condensed(
                    *(self.size, self.spent, self._next_run, running, note),
                    *(steps, self._charges.next_segment, segments, marks),
                )
            )

    def note(self, note: Any) -> Noted:
        """Record a public step of the mechanism itself."""
        with self._working():
            return self._release(Noted(note))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group operations into one durable step. What was charged inside stays charged, error or not."""
        with self._working(), self._journal.transaction():
            yield

    def mend(self) -> None:
        """Go on from the record, as a new kernel would: what is not on record was never released. A run that is in
        progress there and not here is over. Nothing of it is refunded, for it may have shown a crossing."""
        with self._working():
            for run in live_runs(self.history) - self._runs.keys():
                self._release(RunEnded(self.size, run, Fraction(0)))
            new = Kernel(self._rows, self.budget, self._journal)
            # In one step, which an interrupt cannot tear. (Of tallies there are none yet.)
            self._charges, self._runs, self._next_run, self._tallies = new._charges, new._runs, new._next_run, {}
            self._operations = {}

    def retire(self) -> None:
        """Refuse all further operations: another kernel continues the journal."""
        with self._rows.whole():
            self._retired = True

    # -- internals ----------------------------------------------------------------------------------------------------

    def _working(self) -> AbstractContextManager[object]:
        if os.getpid() != self._process:
            raise TreeringError("this database was opened by another process: a forked child must open its own")
        if self._retired:
            raise Halted("the share of this mechanism was lowered: ask the one that the vault has made in its place")
        return self._rows.whole()

    def _charge(self, cost: Cost) -> None:
        self._charges.charge(cost, self.size)

    @property
    def _desk(self) -> Desk:
        return Desk(self._rows, self._charges)

    def _carry_out(self, kind: type[Released], *request: Any) -> Released:
        """The registered operation that releases events of this ``kind``, in the kernel's order."""
        with self._working():
            operation, desk = self._operation(registry.EVENTS[kind.__name__]), self._desk
            checked = operation.check(desk, *request)
            cost = operation.price(checked, desk)
            operation.charge(checked, cost, desk)
            event: Released = operation.outcome(self._release(operation.perform(checked, cost, desk)), desk)
            return event

    def _operation(self, name: str) -> Operation[Any, Any]:
        """A registered operation, which remembers what it did through this gate."""
        if name not in self._operations:
            self._operations[name] = registry.operation(name)(self._operation)
        return self._operations[name]

    def _end_run(self, run: int, refund: Fraction) -> None:
        self._journal.ending(run)
        del self._runs[run]
        self._charges.end_run(run, self.size, refund)

    def _close_part(self) -> None:
        for run in [run for run in self._runs if run >= self._first_reserved_run]:
            self.end_run(run)
        self._charges.close(self.size)
        self._first_reserved_run = 0
        self._release(ReservationEnded(self.size))

    def _release(self, event: Released) -> Released:
        self._journal.write(event)
        return event

    def _restore(self, events: Sequence[Event]) -> None:
        """Continue from the journal's events: their charges, segments, and runs in progress."""
        begun: dict[int, RunRequest] = {}
        for event in events:
            self._charges.follow(event)
            if isinstance(event, Condensed):
                begun, self._next_run = {run.run: run.request for run in event.runs}, event.next_run
            elif isinstance(event, Reserved):
                self._first_reserved_run = self._next_run
            elif isinstance(event, ReservationEnded):
                self._first_reserved_run = 0
            elif isinstance(event, RunStarted):
                begun[event.run] = event.request
                self._next_run = event.run + 1
            elif ends_run(event):
                del begun[event.run]
        self._charges.catch_up()
        if max(self._charges.sizes, default=0) > self._rows.size:
            raise DamagedVault("there are fewer rows than the record tells of: restore a backup")
        self._runs = {run: Run(request, self._journal.secret(run)) for run, request in begun.items()}
        if self._charges.reserved:  # The last session ended within a reservation: end that now.
            self._close_part()

    def _live(self, run: int) -> Run:
        if run not in self._runs:
            raise Halted(f"run {run} is over, or was never begun")
        if run < self._first_reserved_run:
            raise ParameterError("run", "was begun before the reservation: it can go on once the reservation ends")
        return self._runs[run]

    def _first_exceeding(
        self, run: Run, queries: Sequence[Query], scales: Ints, bars: Ints, estimates: Ints | None, finer: int
    ) -> Crossing | None:
        """The first crossing, with its noisy answer if the run has one; compares ``run.block`` queries at a time."""
        start = 0
        while start < len(queries):
            part = slice(start, start + run.block)
            counts = self._rows.cells.count_many(queries[part])
            gaps = _gaps(counts, None if estimates is None else estimates[part])
            first = run.first_exceeding(finer * (gaps - bars[part]), scales[part])
            if first is not None:
                noise, index = run.request.answer, start + first
                value = None if noise is None else int(draw(noise, int(scales[index]), 1)[0] + finer * counts[first])
                return Crossing(index, value)
            start = part.stop
        return None

    def _noisy_marginal(self, noise: Noise, attributes: tuple[int, ...]) -> Ints:
        """The counts over the joint values of some attributes, plus noise."""
        shape = tuple(self.schema.shape[position] for position in attributes)
        noisy = draw(noise, 1, math.prod(shape)).reshape(shape) + self._rows.cells.marginal(attributes)
        noisy.setflags(write=False)
        return noisy

    def _select(self, queries: Sequence[Query], scales: Ints, scale: float, estimates: Ints | None) -> int:
        """An index, drawn by the exponential mechanism."""
        unit = math.lcm(*scales.tolist())
        gaps = _gaps(self._rows.cells.count_many(queries), estimates)
        scores = [gap * (unit // query.scale) for gap, query in zip(gaps.tolist(), queries, strict=True)]
        return exponential(scores, exact_scale(scale, "scale") * unit)


def _scales(request: RunRequest) -> tuple[float, ...]:
    comparing = request.threshold_scale, request.query_scale
    return comparing if request.answer is None else (*comparing, request.answer.scale)


def _check_run(request: RunRequest) -> None:
    if type(request) is not RunRequest:
        raise ParameterError("request", f"must be a RunRequest, not a {type(request).__name__}")
    for scale in _scales(request):
        check_scale(scale, 1)
    if request.answer is not None:
        check_noise(request.answer, 1)


def _check_reach(reach: int, queries: Sequence[Query], largest: int) -> None:
    """Refuse a reach that is no number, or less than a replaced row can move one of the queries by."""
    if isinstance(reach, bool) or not isinstance(reach, int) or not 1 <= reach < MAX_COUNT // largest:
        raise ParameterError("reach", f"must be a whole number from 1 to {MAX_COUNT // largest - 1:,}, not {reach}")
    if any(query.spread * FINE > query.scale * reach for query in queries):
        raise ParameterError("reach", f"is {reach / FINE:g} rows, and a replaced row can move a query by more")


def _gaps(counts: Ints, estimates: Ints | None) -> Ints:
    return counts if estimates is None else np.abs(counts - estimates)


def _integers(values: Sequence[int], name: str, length: int, below: int = MAX_COUNT) -> Ints:
    if len(values) != length:
        raise ParameterError(name, f"must be as many as the queries: {length}, not {len(values)}")
    if length == 1 and type(values[0]) is int and -below < values[0] < below:  # as below, in less time
        return np.array(values, dtype=np.int64)
    array = np.asarray(values if length else np.empty(0, dtype=np.int64))
    if array.dtype.kind not in "iu" or array.ndim != 1 or (length and not -below < array.min() <= array.max() < below):
        raise ParameterError(name, f"must be integers below 2^{below.bit_length() - 1}, in units of the query's grid")
    return array.astype(np.int64)


# -- sparse-vector runs ------------------------------------------------------------------------------------------------


FIRST_BLOCK: Final = 16
LARGEST_BLOCK: Final = 4096
"""The number of queries that a run compares at once: at first, and at most."""


class Run(Sealed):
    """A run in progress. Its threshold noise leaves this object only for the journal's private part.

    ``block`` is the number of queries to compare at once. It doubles while there is no crossing: an early crossing
    then wastes little noise, and a long run without one needs few calls.
    """

    __slots__ = ("_query_noise", "_threshold", "block", "request")

    def __init__(self, request: RunRequest, threshold: Secret) -> None:
        self.request = request
        self.block = FIRST_BLOCK
        self._threshold = threshold
        self._query_noise = Ahead(Laplace(request.query_scale))

    @staticmethod
    def draw_threshold(request: RunRequest) -> Secret:
        """The threshold noise η of a new run."""
        return Secret(int(draw_laplace(request.threshold_scale, 1)[0]))

    def first_exceeding(self, gaps: Ints, scales: Ints) -> int | None:
        """The first index whose noisy gap reaches the noisy threshold, if any. Every gap gets fresh noise."""
        above = gaps + self._query_noise.take_each(scales) >= scales * self._threshold.value
        first = int(above.argmax())
        if above[first]:
            return first
        if len(gaps) >= self.block:
            self.block = min(2 * self.block, LARGEST_BLOCK)
        return None
