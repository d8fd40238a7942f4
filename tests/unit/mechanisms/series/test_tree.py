"""A series by trees: what it asks of the gate and pays, what it knows, how it ends."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.segments import BATCHES, CELLS, SCHEMA, counted
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.gate import Advanced, Event, Ones, SegmentBegun, SegmentEnded
from treering.mechanisms.series.tree import TreeEstimate, TreeSeries
from treering.noise import Gaussian, Laplace
from treering.theory.continual import LARGEST_SCALE, first_leaves, start_noise, stretch, tree_law
from treering.theory.nodes import completed_by, last_leaf, nodes_of, segment_of
from treering.trusted import pricing
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.noise import check_noise

SHARP = Budget("pure", Fraction(2**40))
"""Pays for noise that is 0 but with probability e^{−2^20} or less."""
KINDS = pytest.mark.parametrize("kind", ["pure", "zcdp"])
ONE = Groups.of([tr.parse("a = 1", SCHEMA)])


class Copying(MemoryJournal):
    """A journal that forgets nothing."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Event] = []

    def write(self, event: Event) -> None:
        super().write(event)
        self.written.append(event)


def grown(leaves: int, price: Budget, groups: Groups = CELLS) -> tuple[TestDatabase, Kernel, TreeSeries, list[Event]]:
    """A series with so many leaves of one row each, and all that was written."""
    journal = Copying()
    db = TestDatabase(SCHEMA, (), journal)
    gate, series = db.open_gate(price), TreeSeries(groups, price)
    for leaf in range(1, leaves + 1):
        db.append_cells([leaf % SCHEMA.cells])
        series.advance(gate)
    return db, gate, series, journal.written


def again(db: TestDatabase, series: TreeSeries) -> TreeSeries:
    fresh = TreeSeries(series.groups, series.price, series.start)
    for event in db.journal.events():
        fresh.follow(event)
    return fresh


# -- what is released --------------------------------------------------------------------------------------------------


@KINDS
def test_each_leaf_releases_the_nodes_that_it_completes(kind: Any) -> None:
    _, _, series, written = grown(40, Budget(kind, Fraction(1)))
    releases = [event for event in written if isinstance(event, Advanced)]
    for leaf, event in enumerate(releases, start=1):
        assert event.patterns == tuple(Ones(2**level) for level, _ in completed_by(leaf))
    assert [event.leaf for event in releases] == [leaf - 2 ** segment_of(leaf) + 1 for leaf in range(1, 41)]
    assert series.leaf == 40


@KINDS
@pytest.mark.parametrize("groups", [CELLS, ONE], ids=["cells", "one group"])
def test_a_node_has_the_noise_of_its_segment(kind: Any, groups: Groups) -> None:
    """Of scale 2/ε or 1/√ρ, shared by the levels; one group needs half of it, or the root of a half."""
    _, _, _, written = grown(20, Budget(kind, Fraction(1, 16)), groups)
    half = 2 if groups is ONE else 1
    begun = [event for event in written if isinstance(event, SegmentBegun)]
    assert len(begun) == 5
    for levels, event in enumerate(begun, start=1):
        scale = 32 / half * levels if kind == "pure" else 4 * math.sqrt(levels / half)
        assert type(event.noise) is (Laplace if kind == "pure" else Gaussian)
        assert event.noise.scale == pytest.approx(scale, rel=1e-15)
        assert event.room == levels


# -- what it costs -----------------------------------------------------------------------------------------------------


@given(
    st.fractions(Fraction(1, 10**6), 10**6),
    st.sampled_from(["pure", "zcdp"]),
    st.integers(1, 10**6),
    st.sampled_from([1, 2]),
)
def test_the_nodes_that_a_row_lies_in_cost_together_no_more_than_the_price(
    price: Fraction, kind: Any, leaf: int, groups: int
) -> None:
    """In exact arithmetic, for the scales that the sampler gets; and next to nothing is wasted."""
    budget = Budget(kind, price)
    series = TreeSeries(CELLS if groups > 1 else ONE, budget)
    levels = len(nodes_of(leaf))
    assert levels == segment_of(leaf) + 1
    paid = budget.amount(pricing.leaf(groups, levels, series._noise.shared(levels), budget))
    assert Fraction(1 - 1e-12) * price <= paid <= price


@KINDS
def test_each_row_pays_the_price_once_and_nothing_later(kind: Any) -> None:
    price = Budget(kind, Fraction(1, 7))
    db, gate, series, _ = grown(100, price)
    assert price.total * Fraction(1 - 1e-12) < gate.spent <= price.total
    # Leaves of the segments that are over paid for the nodes they are in: all of them.
    assert {price.total - gate.left(row) for row in range(1, 101)} <= {
        price.total - gate.left(row) for row in (1, 2, 4, 8, 16, 32, 64)
    }
    assert gate.left(101) == price.total
    db.append_cells([0])
    series.advance(gate)
    assert gate.left(101) < Fraction(1e-12) * price.total


def test_a_tree_has_no_last_leaf() -> None:
    """The noise of every segment that will ever come can be drawn: of 2^64 leaves, with the least budget there is."""
    least = Budget("pure", Fraction(2) / Fraction(LARGEST_SCALE))
    check_noise(start_noise(least).shared(64), 1)
    with pytest.raises(tr.ParameterError, match="too small"):
        start_noise(Budget("pure", least.total / 2))


# -- what it knows -----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(BATCHES, st.integers(0, 3), st.data())
def test_windows_are_the_truth_without_noise_and_replay_is_live(
    batches: list[list[int]], before: int, data: st.DataObject
) -> None:
    """Since every boundary, of all rows after the start, whenever the series was taken up again."""
    db = TestDatabase(SCHEMA, [0] * before)
    gate = db.open_gate(SHARP)
    series = TreeSeries(CELLS, SHARP, before)
    if before:
        gate.mark()
    rows: list[int] = [0] * before
    for leaf, batch in enumerate(batches, start=1):
        db.append_cells(batch)
        rows += batch
        if data.draw(st.booleans()):
            gate, series = db.open_gate(SHARP), again(db, series)
        series.advance(gate)
        assert again(db, series).fingerprint() == series.fingerprint()
        assert (series.leaf, series.size) == (leaf, db.size)
        ends = [before, *(before + size for size in accumulate(map(len, batches[:leaf])))]
        assert series.boundaries == tuple(ends[first - 1] for first in first_leaves(leaf))
        for since, first in zip(series.boundaries, first_leaves(leaf), strict=True):
            window = series.window(since)
            assert (window.start, window.end) == (since, db.size)
            assert window.counts == pytest.approx(counted([rows[since:]]), abs=1e-9)
            assert window.law == tree_law(series._noise, stretch(first, leaf))
            with pytest.raises(ValueError, match="read-only"):
                window.counts[0] = 7


def test_values_that_are_not_those_of_the_leafs_nodes_are_not_taken_in() -> None:
    estimate = TreeEstimate(Laplace(1.0))
    with pytest.raises(ValueError, match="zip"):
        estimate.take(1, [np.zeros(3, dtype=np.int64)] * 2)


def test_rows_that_came_with_no_leaf_are_no_leaf() -> None:
    db, gate, series, written = grown(3, SHARP)
    events = len(written)
    series.advance(gate)
    assert len(written) == events
    assert series.size == db.size


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", range(12))
def test_a_series_that_is_closed_knows_what_it_knew_and_has_paid_for_what_it_gave(leaves: int) -> None:
    price = Budget("pure", Fraction(1))
    db, gate, series, _ = grown(leaves, price)
    windows = {since: series.window(since).counts.tolist() for since in series.boundaries if leaves}
    series.close(gate)
    assert series.boundaries == (tuple(windows) or (0,))
    assert {since: series.window(since).counts.tolist() for since in windows} == windows
    assert {type(event) for event in db.journal.events()} <= {SegmentEnded}
    assert again(db, series).fingerprint() == series.fingerprint()
    for leaf in range(1, leaves + 1):
        levels = segment_of(leaf) + 1
        released = sum(last_leaf(node) <= leaves for node in nodes_of(leaf))
        assert 1 - gate.left(leaf) == Fraction(released, levels)
    series.close(gate)


def test_a_series_that_is_closed_before_its_first_leaf_leaves_nothing() -> None:
    db = TestDatabase(SCHEMA, [0])
    gate, series = db.open_gate(SHARP), TreeSeries(CELLS, SHARP)
    series._begin(gate)
    series.close(gate)
    assert gate.spent == 0
    assert series.leaf == again(db, series).leaf == 0
