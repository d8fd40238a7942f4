"""What the kernel remembers of segments: across restarts, condensations, and for how long."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.segments import BATCHES, CELLS, PLENTY, ROOM, SCHEMA, SHARP, begin, combined, counted, grown, refused
from treering.budget.weights import Weights
from treering.gate import (
    Advanced,
    Fading,
    Marked,
    Ones,
    Pattern,
    Root,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Span,
)
from treering.noise import Laplace
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.rows.kept import Rows


def every(leaf: int) -> list[Pattern]:
    return [Ones(1), Ones(leaf), Root(leaf), Fading(leaf)]


def check(event: Advanced, batches: list[list[int]]) -> None:
    assert event.leaf == len(batches)
    for pattern, values in zip(event.patterns, event.values, strict=True):
        assert np.array_equal(values, combined(batches, pattern))


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.data())
def test_a_kernel_made_from_the_journal_goes_on_exactly(batches: list[list[int]], data: st.DataObject) -> None:
    """It knows the leaves, what they have used of their room, and what each row has paid, to the bit."""
    db = TestDatabase(SCHEMA, batches[0])
    gate, segment = begin(db, room=len(batches) + 6)
    for leaf, batch in enumerate(batches, start=1):
        if leaf > 1:
            db.append_cells(batch)
        if data.draw(st.booleans()):
            gate = db.open_gate(PLENTY)
        check(gate.advance(segment, [Ones(1), Ones(leaf)]), batches[:leaf])
        if data.draw(st.booleans()):
            gate.condense_segment(segment, leaf)
        again = db.open_gate(PLENTY)
        assert again.spent == gate.spent
        assert [again.left(row) for row in range(1, db.size + 2)] == [gate.left(row) for row in range(1, db.size + 2)]
    db.append_cells([0])
    again = db.open_gate(PLENTY)
    for kernel in (gate, again):
        refused(kernel, segment, [Ones(len(batches) + 1)] * 6, "room")  # The first leaf has used all but 5.
    again.advance(segment, [Ones(len(batches) + 1)] * 5)
    ended = again.end_segment(segment, "all")
    lefts = [again.left(row) for row in range(1, db.size + 2)]
    assert db.journal.events() == (ended,)
    reopened = db.open_gate(PLENTY)
    assert [reopened.left(row) for row in range(1, db.size + 2)] == lefts
    assert reopened.begin_segment(CELLS, SHARP, 1).segment == segment + 1


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.integers(1, 20), st.sampled_from(["", "condense", "end", "all"]))
def test_a_durable_store_brings_back_what_the_segments_need(batches: list[list[int]], stop: int, then: str) -> None:
    """Rows made anew from the batches, in order, however they are cut."""
    journal = MemoryJournal()
    first = Rows(SCHEMA)
    first.add_cells(np.array(batches[0]))
    gate = Kernel(first, PLENTY, journal)
    segment = gate.begin_segment(CELLS, SHARP, ROOM).segment
    origin = 0
    stop = min(stop, len(batches))
    for leaf, batch in enumerate(batches[:stop], start=1):
        if leaf > 1:
            first.add_cells(np.array(batch))
        if leaf == 2:
            gate.mark()
        gate.advance(segment, every(leaf))
    if then == "condense":
        gate.condense_segment(segment, None)
    elif then == "all":
        gate.condense(None)
    elif then == "end":
        origin, old = stop, segment
        segment = gate.begin_segment(CELLS, SHARP, ROOM, start=first.size).segment
        gate.end_segment(old, None)
    # The store is opened again. Its journal is another object, as a file's would be.
    events, journal = journal.events(), MemoryJournal()
    for event in events:
        journal.write(event)
    again = Rows(SCHEMA)
    again.add_cells(np.concatenate([np.array(batch) for batch in batches[:stop]]))
    gate = Kernel(again, PLENTY, journal)
    for leaf, batch in enumerate(batches[stop:], start=stop + 1):
        again.add_cells(np.array(batch))
        check(gate.advance(segment, every(leaf - origin)), batches[origin:leaf])
    if stop > 1:
        two = len(batches[0]) + len(batches[1])
        spans = [Span(0, two, 1), *([Span(two, again.size, -2)] if again.size > two else [])]
        found = gate.combine(CELLS, spans, SHARP).values
        assert np.array_equal(found, counted(batches[:2]) - 2 * counted(batches[2:]))


def test_a_condensed_segment_leaves_two_events_in_the_journal_and_one_that_ended_one() -> None:
    db, gate, segment = grown(19)
    gate.advance(segment, [Root(20)])
    other = gate.begin_segment(CELLS, SHARP, ROOM).segment
    gate.advance(other, [])
    event = gate.condense_segment(segment, "all there was")
    assert (event.edges.tolist(), event.note) == (list(range(21)), "all there was")
    assert event.drawn.tolist() == Weights.ROOT.first(20)[::-1].tolist()
    kinds = [SegmentBegun, SegmentBegun, Advanced, SegmentCondensed]
    assert [type(each) for each in gate.history] == kinds
    db.append_cells([0])
    gate.advance(segment, [Ones(1)])
    gate.condense_segment(segment, "again")
    assert [type(each) for each in gate.history] == kinds
    gate.end_segment(segment, "and that was it")
    assert [type(each) for each in gate.history] == [SegmentBegun, Advanced, SegmentEnded]


def test_rejects_fewer_rows_than_the_record_tells_of() -> None:
    db, gate, segment = grown(3)
    gate.advance(segment, [Ones(1)])
    short = Rows(SCHEMA)
    short.add_cells(np.zeros(db.size - 1, dtype=np.int64))
    with pytest.raises(tr.DamagedVault, match="fewer rows than the record tells of"):
        Kernel(short, gate.budget, db.journal)
    short.add_cells(np.zeros(1, dtype=np.int64))
    Kernel(short, gate.budget, db.journal)


def test_condensing_gives_up_nothing() -> None:
    """Leaves can be asked about after it as before."""
    db, gate, segment = grown(3)
    gate.condense_segment(segment, None)
    assert int(gate.advance(segment, [Ones(4)]).values[0].sum()) == 4
    db.append_cells([0])
    assert int(db.open_gate(PLENTY).advance(segment, [Ones(5)]).values[0].sum()) == 5


def test_rows_are_told_apart_where_they_are_needed_and_nowhere_else() -> None:
    """At the leaves of segments in progress, and at marks."""
    db, gate, segment = grown(6)
    other = gate.begin_segment(CELLS, SHARP, ROOM, start=3).segment
    gate.advance(other, [])
    db.append_cells([0])
    gate.mark()
    told_apart(db, gate, {*range(1, 7), 7, 8})
    gate.end_segment(segment)
    told_apart(db, gate, {3, 7, 8})
    gate.combine(CELLS, [Span(3, 7, 1)], SHARP)
    db.append_cells([0])
    gate.combine(CELLS, [Span(3, 9, 1)], SHARP)
    told_apart(db, gate, {3, 7, 8})
    gate.end_segment(other)
    told_apart(db, gate, {8})
    assert [type(each) for each in gate.history if isinstance(each, Marked)] == [Marked]


def told_apart(db: TestDatabase, gate: Kernel, sizes: set[int]) -> None:
    for kernel in (gate, db.open_gate(PLENTY)):
        assert kernel._desk.charges.sizes == sizes
    for size in range(1, db.size):
        if size not in sizes:
            with pytest.raises(tr.ParameterError, match="spans must be a size at which rows are told apart"):
                gate.combine(CELLS, [Span(0, size, 1)], SHARP)


def test_a_history_that_costs_a_row_more_than_its_budget_is_refused() -> None:
    """It is none that a kernel wrote."""
    db, gate, segment = grown(2, Laplace(4.0), room=3)
    gate.end_segment(segment)
    gate.advance(gate.begin_segment(CELLS, Laplace(4.0), 3).segment, [Ones(1)])
    assert db.open_gate(PLENTY).spent == gate.spent == Fraction(3, 2)
    with pytest.raises(tr.BudgetExceeded):
        db.open_gate(tr.Promise(1.0).budget)
