"""Sparse-vector runs, with a frozen count scale (theory: ``treering.theory.sparse``).

A run compares, for as long as it lives and however much the data grow,

    gap + ν  ≥  W·η        gap = count − bar, or |count − estimate| − bar, in units of 1/W rows,

with one integer η of scale s1 for the whole run and a fresh ν of scale W·s2 for each query. A replaced row moves
every gap by at most W. Shifting η by one pays for all queries below, shifting the last ν by 2W for the one above: the
run is (1/s1 + 2/s2)-DP, whatever it is asked, adaptively, and whenever it halts. The argument uses nothing else of W:
a comparison with a ``reach`` multiplies gaps by `FINE`, and takes for W any public V that is at least `FINE` times what
a replaced row moves the gap by.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

from treering.arrays import Ints
from treering.budget.cost import FREE, Cost, pure, silent_run, sparse_run
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.errors import Halted, ParameterError
from treering.gate import FINE, Compared, Crossing, RunEnded, RunRequest, RunStarted
from treering.noise import Laplace
from treering.params import exact_scale, positive
from treering.trusted import pricing
from treering.trusted.cells import MAX_COUNT
from treering.trusted.charges import Charges
from treering.trusted.journal import Secret
from treering.trusted.noise import Ahead, check_noise, check_scale, draw, draw_laplace
from treering.trusted.operations.base import Desk, Operation, Prepaid, gaps, integers
from treering.trusted.sealed import Sealed

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


class Live(Sealed):
    """PRIVATE: the runs in progress that were compared with through this gate."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: dict[int, Run] = {}


def named(desk: Desk, number: int) -> Run:
    """A run in progress that can go on now; refuses any other."""
    begun, live = desk.charges.runs.get(number), desk.own(Live).runs
    if begun is None:
        raise Halted(f"run {number} is over, or was never begun")
    if number < desk.charges.first_reserved:
        raise ParameterError("run", "was begun before the reservation: it can go on once the reservation ends")
    if number not in live:
        live[number] = Run(begun.request, desk.journal.secret(number))
    return live[number]


def end(desk: Desk, run: int, refund: Fraction) -> None:
    """A run is over: the event that says so is written next."""
    desk.journal.ending(run)
    desk.charges.end_run(run, desk.size, refund)
    desk.own(Live).runs.pop(run, None)


# -- beginning ---------------------------------------------------------------------------------------------------------


class Starting(Operation[RunRequest, RunStarted]):
    """A new run. Charged now: 1/s1 + 2/s2 pure for all its comparisons, and its numeric answer."""

    __slots__ = ()
    event = RunStarted
    cells = True

    def check(self, desk: Desk, *request: Any) -> RunRequest:
        """Refuse scales and noise that cannot be."""
        (asked,) = request
        if type(asked) is not RunRequest:
            raise ParameterError("request", f"must be a RunRequest, not a {type(asked).__name__}")
        for scale in _scales(asked):
            check_scale(scale, 1)
        if asked.answer is not None:
            check_noise(asked.answer, 1)
        return asked

    def price(self, checked: RunRequest, desk: Desk) -> Cost:
        """See `running`."""
        return running(checked)

    def charge(self, checked: RunRequest, cost: Cost, desk: Desk) -> None:
        """Charge all rows there are and, while the run lasts, all rows to come."""
        desk.charges.begin_run(desk.charges.next_run, cost)

    def perform(self, checked: RunRequest, cost: Cost, desk: Desk) -> RunStarted:
        """No row is read."""
        return RunStarted(desk.size, cost, desk.charges.next_run, checked)

    def record(self, event: RunStarted, desk: Desk) -> None:
        """Write the event, and the threshold in the private part."""
        desk.journal.begin(event, Run.draw_threshold(event.request))
        desk.charges.take_run(event)

    def follow(self, event: RunStarted, charges: Charges) -> None:
        """Charge all rows, and those to come."""
        charges.begin_run(event.run, event.cost)
        charges.take_run(event)


@lru_cache(maxsize=16)
def running(request: RunRequest) -> Cost:
    """A run, with its numeric answer. (Cached: a run is usually priced before it is begun.)"""
    return _comparing(request) + (FREE if request.answer is None else pricing.noisy(Fraction(1), request.answer))


def _comparing(request: RunRequest) -> Cost:
    return sparse_run(
        positive(request.threshold_scale, "threshold_scale"), positive(request.query_scale, "query_scale")
    )


def _scales(request: RunRequest) -> tuple[float, ...]:
    comparing = request.threshold_scale, request.query_scale
    return comparing if request.answer is None else (*comparing, request.answer.scale)


# -- comparing ---------------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """A checked request."""

    number: int
    run: Run
    queries: tuple[Query, ...]
    scales: Ints
    bars: Ints
    estimates: Ints | None
    finer: int


class Comparing(Prepaid[Comparison, Compared]):
    """The first query whose noisy gap reaches the run's noisy threshold. Paid for when the run began."""

    __slots__ = ()
    event = Compared
    cells = True

    def check(self, desk: Desk, *request: Any) -> Comparison:
        """Refuse a run that is over, and queries, bars and estimates that cannot be."""
        number, queries, bars, estimates, reach = request
        run, finer = named(desk, number), 1 if reach is None else FINE
        asked, scales, largest = desk.check_queries(queries, finer)
        if reach is not None:
            _check_reach(reach, asked, largest)
            scales, largest = reach * scales, reach * largest
        for scale in _scales(run.request):
            check_scale(scale, largest)
        most = MAX_COUNT // finer
        bar = integers(bars, "bars", len(asked), most)
        known = None if estimates is None else integers(estimates, "estimates", len(asked), most)
        return Comparison(number, run, asked, scales, bar, known, finer)

    def perform(self, checked: Comparison, cost: Cost, desk: Desk) -> Compared:
        """The comparisons, up to the first crossing."""
        crossing = _crossing(checked, desk)
        asked = len(checked.queries) if crossing is None else crossing.index + 1
        return Compared(desk.size, checked.number, asked, crossing)

    def record(self, event: Compared, desk: Desk) -> None:
        """Write the event; a crossing ends the run."""
        if event.crossing is not None:
            end(desk, event.run, Fraction(0))
        desk.journal.write(event)

    def follow(self, event: Compared, charges: Charges) -> None:
        """A crossing ends the run."""
        if event.crossing is not None:
            charges.end_run(event.run, event.size, Fraction(0))


def _check_reach(reach: int, queries: Sequence[Query], largest: int) -> None:
    """Refuse a reach that is no number, or less than a replaced row can move one of the queries by."""
    if isinstance(reach, bool) or not isinstance(reach, int) or not 1 <= reach < MAX_COUNT // largest:
        raise ParameterError("reach", f"must be a whole number from 1 to {MAX_COUNT // largest - 1:,}, not {reach}")
    if any(query.spread * FINE > query.scale * reach for query in queries):
        raise ParameterError("reach", f"is {reach / FINE:g} rows, and a replaced row can move a query by more")


def _crossing(asked: Comparison, desk: Desk) -> Crossing | None:
    """The first crossing, with its noisy answer if the run has one; compares ``run.block`` queries at a time."""
    run, start = asked.run, 0
    while start < len(asked.queries):
        part = slice(start, start + run.block)
        counts = desk.cells.count_many(asked.queries[part])
        distances = gaps(counts, None if asked.estimates is None else asked.estimates[part])
        first = run.first_exceeding(asked.finer * (distances - asked.bars[part]), asked.scales[part])
        if first is not None:
            noise, index = run.request.answer, start + first
            if noise is None:
                return Crossing(index, None)
            return Crossing(index, int(draw(noise, int(asked.scales[index]), 1)[0] + asked.finer * counts[first]))
        start = part.stop
    return None


# -- abandoning --------------------------------------------------------------------------------------------------------


class Abandoning(Prepaid[int, RunEnded]):
    """A run ends at a public moment, and what it can no longer release is given back."""

    __slots__ = ()
    event = RunEnded

    def check(self, desk: Desk, *request: Any) -> int:
        """Refuse a run that is over."""
        (number,) = request
        named(desk, number)
        return int(number)

    def perform(self, checked: int, cost: Cost, desk: Desk) -> RunEnded:
        """No row is read."""
        given_back = refund(desk.charges.runs[checked].request, desk.charges.present)
        return RunEnded(desk.size, checked, given_back)

    def record(self, event: RunEnded, desk: Desk) -> None:
        """The run is over."""
        end(desk, event.run, event.refund)
        desk.journal.write(event)

    def follow(self, event: RunEnded, charges: Charges) -> None:
        """Give back what was given back."""
        charges.end_run(event.run, event.size, event.refund)


def refund(request: RunRequest, budget: Budget) -> Fraction:
    """The refund of an abandoned run: the answer that it never gave and, in a pure budget, 2/s2 of its comparisons.

    A transcript of nothing but "below" loses at most 1/s1. That holds for each transcript, which is enough for pure
    differential privacy; for zCDP there is no such statement about part of a run.
    """
    kept = _comparing(request)
    if budget.kind == "pure":
        kept = pure(silent_run(exact_scale(request.threshold_scale, "threshold_scale")))
    return budget.amount(running(request)) - budget.amount(kept)
