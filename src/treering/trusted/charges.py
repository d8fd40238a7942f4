"""The account of what a history of events has cost each row: all of it public.

A charge is made when an operation happens, and again when its event is followed after a restart: following the events
of a history gives the same account bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.budget.promise import Budget, Filter
from treering.budget.rows import Charge, RowLedger, Steps, priced
from treering.budget.weights import Weights
from treering.domain.sums import Capped, Sums
from treering.errors import ParameterError
from treering.gate import (
    Advanced,
    Condensed,
    Fading,
    OpenSegment,
    Pattern,
    Root,
    RunStarted,
    SegmentBegun,
    SegmentEnded,
    Span,
)
from treering.noise import Noise
from treering.trusted import pricing

_PART: Final = -1
"""The name under which the ledger holds a reserved part; runs have theirs from 0 on."""


class Charges:
    """The charges of one kernel: a ledger by row and, within a reservation, a filter over the reserved part.

    A part is held while it is set aside, on all rows and those that come meanwhile, as a run is; what is paid from the
    part costs nothing more.

    >>> from treering.budget.cost import laplace
    >>> charges = Charges(Budget("pure", Fraction(1)))
    >>> charges.charge(laplace(1, 4), 10)
    >>> charges.spent, charges.ledger.left(10), charges.ledger.left(11)
    (Fraction(1, 4), Fraction(3, 4), Fraction(1, 1))
    """

    __slots__ = (
        *("_behind", "_ledger", "_next_segment", "_part", "aside", "failures"),
        *("first_reserved", "marks", "next_run", "runs", "segments"),
    )

    def __init__(self, budget: Budget, aside: Fraction = Fraction(1)) -> None:
        self._ledger = RowLedger(budget)
        self.aside = aside
        """What is set aside of delta for discoveries."""
        self.failures = RowLedger(Budget("pure", aside)) if aside else None
        """The chances of failure of discoveries, by row: they add up."""
        self._behind = False
        """Whether some rows of leaves on record are not charged yet."""
        self._part: Filter | None = None
        self.runs: dict[int, RunStarted] = {}
        """The runs in progress, as they began."""
        self.next_run = 0
        """The number of the next run."""
        self.first_reserved = 0
        """Within a reservation, the number of the first run that begins in it; otherwise 0."""
        self.segments: dict[int, Segment] = {}
        """The segments in progress."""
        self._next_segment = 0
        self.marks: tuple[int, ...] = ()
        """The sizes at which rows can be told apart for good."""

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._ledger.budget

    @property
    def ledger(self) -> RowLedger:
        """The ledger by row."""
        self.catch_up()
        return self._ledger

    def catch_up(self) -> None:
        """Charge the leaves that were followed, those of a segment together: a record of very many leaves is followed
        quickly so, and the sums are the same. `BudgetExceeded` if no kernel can have written the record."""
        if self._behind:
            for segment in self.segments.values():
                self.advance(segment, segment.edges[-1])
            self._behind = False

    @property
    def spent(self) -> Fraction:
        """The most that any row has been charged, in the budget's unit."""
        return self.ledger.spent

    @property
    def reserved(self) -> bool:
        """Whether a part is reserved now."""
        return self._part is not None

    @property
    def present(self) -> Budget:
        """The budget that operations are paid from now: the reserved part, or the whole."""
        return self.budget if self._part is None else self._part.budget

    @property
    def next_segment(self) -> int:
        """The number of the next segment."""
        return self._next_segment

    @property
    def sizes(self) -> set[int]:
        """The sizes at which rows must be told apart: marks, and edges of leaves in progress."""
        edges = (edge for segment in self.segments.values() for edge in segment.edges)
        return {*self.marks, *edges} - {0}

    @property
    def state(self) -> tuple[Steps, tuple[OpenSegment, ...], tuple[int, ...]]:
        """What a condensed record keeps: charges by row, segments in progress, marks."""
        return self.ledger.steps, tuple(segment.record for segment in self.segments.values()), self.marks

    @property
    def failed(self) -> Steps | None:
        """What a condensed record keeps of the chances of failure: nothing where there were none."""
        return None if self.failures is None or not self.failures.spent else self.failures.steps

    # -- charging -----------------------------------------------------------------------------------------------------

    def charge(self, cost: Cost, size: int) -> None:
        """Charge all rows there are, or the reserved part; or raise `BudgetExceeded` and change nothing."""
        if self._part is None:
            self.ledger.charge(self.budget.amount(cost), size)
        else:
            self._part.charge(cost)

    def charge_rows(self, cost: Cost, start: int, end: int) -> None:
        """Charge the rows after position ``start``, up to ``end``; or raise `BudgetExceeded` and change nothing."""
        self.ledger.charge_rows([Charge(start, end, priced(self.budget.amount(cost), self.budget))])

    def begin_run(self, run: int, cost: Cost) -> None:
        """Charge all rows there are and, while the run lasts, all rows to come."""
        if self._part is None:
            self.ledger.hold(run, self.budget.amount(cost))
        else:
            self._part.charge(cost)

    def take_run(self, event: RunStarted) -> None:
        """Take up a run on record, which is charged."""
        self.runs[event.run], self.next_run = event, event.run + 1

    def end_run(self, run: int, size: int, refund: Fraction) -> None:
        """The run is over: rows to come do not meet it. See `Filter.refund` for when a refund is sound."""
        self.runs.pop(run, None)
        if self.ledger.holds(run):
            self.ledger.let_go(run, size, refund)
        elif self._part is not None:
            self._part.refund(refund)

    def combine(self, groups: int, spans: Sequence[Span], noise: Noise, sums: Sums | None = None) -> None:
        """Charge the rows of each span for its weight."""
        costs = [self.budget.amount(pricing.combining(groups, span.weight, noise, sums)) for span in spans]
        self.ledger.charge_rows(
            [Charge(span.start, span.end, priced(cost, self.budget)) for span, cost in zip(spans, costs, strict=True)]
        )

    def advance(self, segment: Segment, size: int) -> None:
        """Charge the rows since a segment's last leaf for its whole room. Rows that have paid, for a leaf that was then
        not released, do not pay again."""
        if segment.paid_until < size:
            self._ledger.charge_rows([Charge(segment.paid_until, size, segment.room_price)])
            segment.paid_until = size

    def set_aside(self, cost: Cost) -> None:
        """Charge all rows there are and, while the reservation lasts, all rows to come, for a part of the budget."""
        self.ledger.hold(_PART, self.budget.amount(cost))

    def open(self, part: Budget) -> None:
        """From now on operations are paid from the part."""
        self._part, self.first_reserved = Filter(part), self.next_run

    def close(self, size: int) -> None:
        """From now on operations are paid from the whole budget: rows to come do not meet the part."""
        self._part, self.first_reserved = None, 0
        self.ledger.let_go(_PART, size)

    # -- segments and marks -------------------------------------------------------------------------------------------

    def mark(self, size: int) -> None:
        """Rows up to this size and rows after it can be told apart for good."""
        if size not in self.marks:
            self.marks = (*self.marks, size)

    def begin_segment(self, begun: SegmentBegun) -> None:
        """A segment is in progress."""
        self._next_segment = begun.segment + 1
        self.segments[begun.segment] = Segment(begun, self.budget)

    def take(self, event: Advanced) -> None:
        """Take up a leaf on record, whose rows are charged with those of others: see `catch_up`."""
        self.segments[event.segment].take(event)
        self._behind = True

    def reopen(self, number: int, edges: Ints, drawn: Ints) -> None:
        """A segment as a condensed record has it. The record may have replaced leaves, whose rows are still to pay."""
        self.segments[number].restore(edges, drawn)
        self._behind = True

    def end_segment(self, event: SegmentEnded) -> None:
        """What the rows have paid takes the place of the room of those leaves that are on record: the end may have
        replaced the record of later ones, or of all."""
        segment = self.segments.pop(event.segment, None)
        self._ledger.settle_rows(() if segment is None else segment.reserved, event.charges)
        self._next_segment = max(self._next_segment, event.segment + 1)

    def check(self) -> None:
        """Raise `BudgetExceeded` if some row was charged more than the budget."""
        self._ledger.check()

    def restore(self, event: Condensed) -> None:
        """Continue from a condensed record."""
        self._ledger, self._behind = RowLedger(self.budget), False
        self._ledger.restore(event.steps)
        if event.failures is not None and self.failures is not None:
            self.failures.restore(event.failures)
        for run in event.runs:
            self._ledger.hold(run.run, self.budget.amount(run.cost))
        self.runs, self.next_run = {run.run: run for run in event.runs}, event.next_run
        self._next_segment, self.marks = event.next_segment, event.marks
        self.segments = {each.begun.segment: Segment.of(each, self.budget) for each in event.segments}


class Segment:
    """A segment in progress: its leaves, and how much of its room each of them has used. Public.

    What each leaf has used is computed when it is needed: to follow a record takes no time in the number of leaves.
    """

    __slots__ = ("_budget", "_drawn", "_unit_price", "_waiting", "begun", "edges", "paid_until")

    def __init__(self, begun: SegmentBegun, budget: Budget) -> None:
        self.begun = begun
        self._budget = budget
        self._unit_price = budget.amount(pricing.combining(begun.groups.number, 1, begun.noise, begun.sums))
        self.edges: list[int] = [begun.start]
        """The sizes at which leaves begin; the last is where the next leaf begins."""
        self.paid_until = begun.start
        """Rows up to this position have paid."""
        self._drawn: Ints = np.zeros(0, dtype=np.int64)
        self._waiting: list[tuple[int, tuple[Pattern, ...]]] = []

    @classmethod
    def of(cls, record: OpenSegment, budget: Budget) -> Segment:
        """A segment as a condensed record has it."""
        segment = cls(record.begun, budget)
        segment.restore(record.edges, record.drawn)
        segment.paid_until = segment.edges[-1]
        return segment

    @property
    def room_price(self) -> Fraction:
        """What a row pays for the whole room, in the budget's unit; or a person, for all segments of the series."""
        sums = self.begun.sums
        return priced(sums.price, self._budget) if isinstance(sums, Capped) else self._price(self.begun.room)

    def _price(self, room: int) -> Fraction:
        return priced(room * self._unit_price, self._budget)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return len(self.edges) - 1

    @property
    def drawn(self) -> Ints:
        """How much of the room each leaf has used."""
        if self._waiting:
            drawn = np.zeros(self.leaves, dtype=np.int64)
            drawn[: len(self._drawn)] = self._drawn
            for leaf, patterns in self._waiting:
                drawn[:leaf] += self.use(leaf, patterns)
            self._drawn, self._waiting = drawn, []
        return self._drawn

    @property
    def record(self) -> OpenSegment:
        """The segment for a condensed record."""
        return OpenSegment(self.begun, np.array(self.edges, dtype=np.int64), self.drawn)

    def use(self, leaf: int, patterns: Iterable[Pattern]) -> Ints:
        """How much of the room some releases use, for each leaf, when ``leaf`` is the newest."""
        used = np.zeros(leaf, dtype=np.int64)
        for pattern in patterns:
            weights = newest_last(pattern)
            used[leaf - len(weights) :] += np.abs(weights) if self._budget.kind == "pure" else weights * weights
        return used

    def check(self, patterns: Sequence[Pattern]) -> None:
        """Refuse releases for which a leaf, the next one included, has no room."""
        leaf = self.leaves + 1
        for pattern in patterns:
            if not 1 <= pattern.leaves <= leaf:
                raise ParameterError("patterns", f"name the last leaves, 1 to {leaf:,} of them, not {pattern.leaves:,}")
        used = self.use(leaf, patterns)
        used[:-1] += self.drawn
        if int(used.max(initial=0)) > self.begun.room:
            raise ParameterError("patterns", "use more of a leaf's room than its segment was begun with")

    def take(self, event: Advanced) -> None:
        """Take up a leaf and its releases, in one step: an interrupt leaves both or none."""
        last, waiting = len(self.edges), len(self._waiting)
        self.edges[last:], self._waiting[waiting:] = [event.size], [(event.leaf, event.patterns)]

    def restore(self, edges: Ints, drawn: Ints) -> None:
        """Continue from a condensed record."""
        self.edges, self._drawn, self._waiting = edges.tolist(), drawn, []

    @property
    def paid(self) -> tuple[Charge, ...]:
        """What the rows of each leaf have paid for the room that was used; equal neighbours as one. (What a person has
        paid is for all segments, and is not given back.)"""
        if isinstance(self.begun.sums, Capped):
            return self.reserved
        return tuple(Charge(start, end, self._price(used)) for start, end, used in self._stretches() if used)

    @property
    def reserved(self) -> tuple[Charge, ...]:
        """What rows were charged for the room: those of all leaves, and of one that was not released."""
        start = self.edges[0]
        return (Charge(start, self.paid_until, self.room_price),) if start < self.paid_until else ()

    def _stretches(self) -> Iterator[tuple[int, int, int]]:
        """Neighbouring leaves that have used equal room: where they begin and end, and how much."""
        drawn = self.drawn
        changes = [0, *(np.flatnonzero(np.diff(drawn)) + 1).tolist(), len(drawn)] if len(drawn) else []
        for first, last in pairwise(changes):
            yield self.edges[first], self.edges[last], int(drawn[first])


def newest_last(pattern: Pattern) -> Ints:
    """The weights of a pattern, for the last leaves, in their order."""
    if isinstance(pattern, Root | Fading):
        return (Weights.ROOT if isinstance(pattern, Root) else Weights.FADING).first(pattern.leaves)[::-1]
    return np.ones(pattern.leaves, dtype=np.int64)
