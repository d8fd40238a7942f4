"""Lives of a gate that tell rows apart, with what they must release and cost, counted another way.

`Keeping` is a journal that forgets nothing: from its whole record `recount` adds up what each row has paid, by the
formulas of the theorems and without the ledger. `Life` makes operations on a gate with noise that is always 0, and
checks every value that is released against the rows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

import treering as tr
from support.databases import TestDatabase
from support.grouped import place_of
from treering.arrays import Ints
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.gate import (
    Advanced,
    Combined,
    Compared,
    Event,
    Fading,
    HistogramReleased,
    Measured,
    Ones,
    Pattern,
    ReservationEnded,
    Reserved,
    RunEnded,
    RunRequest,
    RunStarted,
    SegmentBegun,
    SegmentEnded,
    Span,
)
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.journal import MemoryJournal, Secret
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
LOW = Query.where(SCHEMA, b=[0, 1])
GROUPS = (
    Groups.marginal(SCHEMA),
    Groups.marginal(SCHEMA, ["b"]),
    Groups.of([LOW]),
    Groups.of([Query.where(SCHEMA, a=0, b=0), Query.where(SCHEMA, a=1) & ~LOW]),
    Groups.marginal(SCHEMA, []),
)
"""All cells, a marginal, one group, two groups that are not all, and all rows in one group."""

PLENTY = {kind: Budget(kind, Fraction(10**18)) for kind in ("pure", "zcdp")}
SHARP: dict[str, Noise] = {"pure": Laplace(1e-6), "zcdp": Gaussian(0.05)}
"""Noise that is 0, but with probability e^{−200} or less."""


class Keeping(MemoryJournal):
    """A journal in memory, with the record of all that was ever written to it."""

    __slots__ = ("record",)

    def __init__(self) -> None:
        super().__init__()
        self.record: list[Event] = []

    def write(self, event: Event) -> None:
        self.record.append(event)
        super().write(event)

    def begin(self, event: RunStarted, secret: Secret) -> None:
        self.record.append(event)
        super().begin(event, secret)

    def copy(self) -> Keeping:
        """The same events and secrets in another object, as a file's would be."""
        again = Keeping()
        again._events, again._secrets, again.record = list(self._events), dict(self._secrets), list(self.record)
        return again


# -- costs, by the formulas --------------------------------------------------------------------------------------------


def unit(groups: int, noise: Noise, kind: str) -> Fraction:
    """What weight 1 costs a row: two groups move by one each, or one if there is only one."""
    moved, scale = min(groups, 2), Fraction(noise.scale)
    if kind == "pure":
        assert isinstance(noise, Laplace)
        return moved / scale
    return moved / (2 * scale**2)


def measure_of(weight: int, kind: str) -> int:
    return abs(weight) if kind == "pure" else weight**2


def weights(pattern: Pattern) -> list[int]:
    """The weights of the last leaves, the newest last."""
    if isinstance(pattern, Ones):
        return [1] * pattern.leaves
    nearest, fading = [], Fraction(1)
    for k in range(pattern.leaves):
        if k and isinstance(pattern, Fading):
            fading += Fraction(1, 6 * k)
        nearest.append(Fraction(2**12 * math.comb(2 * k, k), 4**k) / fading)
    return [math.floor(each + Fraction(1, 2)) for each in nearest][::-1]


def recount(record: Iterable[Event], budget: Budget, size: int) -> list[Fraction]:
    """What the rows 1 to ``size`` have paid, and last what a row that comes next has paid already."""
    kind = budget.kind
    changes = [Fraction(0)] * (size + 2)
    held: dict[int, Fraction] = {}
    begun: dict[int, SegmentBegun] = {}
    edges: dict[int, list[int]] = {}
    drawn: dict[int, list[int]] = {}
    reserved, inner = False, set[int]()

    def add(start: int, end: int, amount: Fraction) -> None:
        changes[start] += amount
        changes[end] -= amount

    for event in record:
        if isinstance(event, Measured | HistogramReleased) and not reserved:
            number = len(event.queries) if isinstance(event, Measured) else 2
            add(0, max(1, event.size), number * unit(1, event.noise, kind))
        elif isinstance(event, Reserved):
            held[-1], reserved = event.part.total, True
        elif isinstance(event, ReservationEnded):
            add(0, max(1, event.size), held.pop(-1))
            reserved = False
        elif isinstance(event, RunStarted):
            assert event.request.answer is None
            epsilon = 1 / Fraction(event.request.threshold_scale) + 2 / Fraction(event.request.query_scale)
            if reserved:
                inner.add(event.run)
            else:
                held[event.run] = epsilon if kind == "pure" else epsilon**2 / 2
        elif isinstance(event, RunEnded) or (isinstance(event, Compared) and event.crossing is not None):
            if event.run not in inner:
                amount = held.pop(event.run)
                add(0, max(1, event.size), amount - (event.refund if isinstance(event, RunEnded) else 0))
        elif isinstance(event, Combined):
            for span in event.spans:
                price = unit(event.groups.number, event.noise, kind)
                add(span.start, span.end, measure_of(span.weight, kind) * price)
        elif isinstance(event, SegmentBegun):
            begun[event.segment], edges[event.segment], drawn[event.segment] = event, [event.start], []
        elif isinstance(event, Advanced):
            first = begun[event.segment]
            add(edges[event.segment][-1], event.size, first.room * unit(first.groups.number, first.noise, kind))
            edges[event.segment].append(event.size)
            drawn[event.segment].append(0)
            for pattern in event.patterns:
                for back, weight in enumerate(reversed(weights(pattern)), start=1):
                    drawn[event.segment][-back] += measure_of(weight, kind)
        elif isinstance(event, SegmentEnded) and event.segment in begun:
            first, cuts = begun[event.segment], edges[event.segment]
            price = unit(first.groups.number, first.noise, kind)
            for used, start, end in zip(drawn[event.segment], cuts, cuts[1:], strict=False):
                add(start, end, (used - first.room) * price)
        elif isinstance(event, SegmentEnded):  # Only the end is on record.
            for charge in event.charges:
                add(charge.start, charge.end, charge.amount)
    return [amount + sum(held.values()) for amount in accumulate(changes[:-1])]


def account(gate: Kernel) -> list[Fraction]:
    """What the ledger says of the same rows: what each has paid."""
    return [gate.budget.total - gate.left(position) for position in range(1, gate.size + 2)]


def agrees(gate: Kernel, record: Iterable[Event]) -> bool:
    """Whether the ledger is the recount: never below it, and above by no more than its grid; and `spent` the most."""
    total = gate.budget.total
    ledger, counted = account(gate), recount(record, gate.budget, gate.size)
    near = all(0 <= one - other <= total / 2**190 for one, other in zip(ledger, counted, strict=True))
    return near and gate.spent == max(ledger)


# -- values, by the rows -----------------------------------------------------------------------------------------------


def groups_of(groups: Groups, schema: Schema, cells: Sequence[int]) -> list[int]:
    """The group of each row, one by one; −1: in none."""
    codes = np.array(np.unravel_index(np.array(cells, dtype=np.int64), schema.shape), dtype=np.int64)
    return [int(each) for each in place_of(groups, schema, codes)]


def combined(groups: Groups, schema: Schema, cells: Sequence[int], spans: Sequence[Span]) -> list[int]:
    """The weighted counts of groups over spans of the rows."""
    totals = [0] * groups.number
    for span in spans:
        for group in groups_of(groups, schema, cells[span.start : span.end]):
            if group >= 0:
                totals[group] += span.weight
    return totals


# -- a life ------------------------------------------------------------------------------------------------------------


class Life:
    """A growing database, a gate with noise that is 0, and the rows themselves beside it."""

    def __init__(self, kind: str, cells: Sequence[int] = ()) -> None:
        self.kind = kind
        self.batches: list[list[int]] = []
        self.journal = Keeping()
        self.db = TestDatabase(SCHEMA, journal=self.journal)
        self.gate = self.db.open_gate(PLENTY[kind])
        self.runs: list[int] = []
        self.segments: dict[int, list[int]] = {}
        """The sizes at which the leaves of each segment in progress begin and end."""
        if cells:
            self.append(cells)

    @property
    def rows(self) -> list[int]:
        return [cell for batch in self.batches for cell in batch]

    @property
    def edges(self) -> list[int]:
        """The sizes at which spans may begin and end."""
        return sorted({0, self.gate.size, *self.gate._desk.charges.sizes})

    def append(self, cells: Sequence[int]) -> None:
        self.batches.append(list(cells))
        self.db.append_cells(list(cells))

    def combine(self, groups: Groups, spans: Sequence[Span]) -> None:
        event = self.gate.combine(groups, spans, SHARP[self.kind])
        assert event.values.tolist() == combined(groups, SCHEMA, self.rows, spans)
        assert not event.values.flags.writeable

    def begin_segment(self, groups: Groups, room: int, start: int) -> int:
        event = self.gate.begin_segment(groups, SHARP[self.kind], room, start)
        self.segments[event.segment] = [start]
        return event.segment

    def advance(self, segment: int, patterns: Sequence[Pattern]) -> Advanced:
        event = self.gate.advance(segment, patterns)
        edges = self.segments[segment]
        edges.append(self.gate.size)
        assert (event.leaf, event.size) == (len(edges) - 1, self.gate.size)
        groups = self.gate._desk.charges.segments[segment].begun.groups
        for pattern, values in zip(patterns, event.values, strict=True):
            last = zip(edges[-pattern.leaves - 1 :], edges[-pattern.leaves :], weights(pattern), strict=False)
            assert values.tolist() == combined(groups, SCHEMA, self.rows, [Span(*each) for each in last])
        return event

    def end_segment(self, segment: int) -> None:
        self.gate.end_segment(segment)
        del self.segments[segment]

    def begin_run(self) -> int:
        run = self.gate.begin_run(RunRequest(3.0, 5.0)).run
        self.runs.append(run)
        return run

    def end_run(self, run: int) -> None:
        self.gate.end_run(run)
        self.runs.remove(run)

    def measure(self) -> None:
        assert self.gate.histogram(SHARP[self.kind]).counts.sum() == len(self.rows)

    def reopen(self) -> None:
        """Another kernel over the same journal and rows: the same account, bit for bit."""
        before = self.state()
        self.gate = self.db.open_gate(self.gate.budget)
        assert self.state() == before

    def restart(self) -> None:
        """Another process: the rows come back batch by batch."""
        before = self.state()
        self.journal = self.journal.copy()
        self.db = TestDatabase(SCHEMA, journal=self.journal)
        for batch in self.batches:
            self.db.append_cells(batch)
        self.gate = Kernel(self.db.rows, self.gate.budget, self.journal)
        assert self.state() == before

    def state(self) -> Any:
        """All that the account knows: charges, segments, marks; and what each row has left."""
        return state(self.gate)

    def agrees(self) -> bool:
        return agrees(self.gate, self.journal.record)


def state(gate: Kernel) -> Any:
    """The public state of a gate, as something that can be compared."""
    steps, segments, marks = gate._desk.charges.state
    opened = [
        (
            each.begun.segment,
            each.begun.start,
            each.begun.room,
            each.begun.noise,
            each.edges.tolist(),
            listed(each.drawn),
        )
        for each in segments
    ]
    sizes = sorted(gate._desk.charges.sizes)
    return (
        steps,
        opened,
        marks,
        sizes,
        gate.spent,
        account(gate),
        gate._desk.charges.next_segment,
        gate._desk.charges.next_run,
    )


def listed(values: Ints) -> list[int]:
    return [int(each) for each in values]
