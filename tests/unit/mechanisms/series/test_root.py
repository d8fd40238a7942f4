"""A series by square roots: without noise its estimates are the truth, whatever the leaves; its state is a fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.exact_losses import transparent
from support.grown_series import GrownSeries
from support.row_lives import SCHEMA, account
from treering.budget.promise import Budget
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.errors import BudgetExceeded
from treering.gate import Advanced, Fading, Ones, Root, SegmentBegun, SegmentEnded, Span
from treering.mechanisms.series.root import RootSeries
from treering.noise import Gaussian
from treering.theory import series as theory
from treering.trusted.kernel import Kernel

GROUPS = Groups.of([Query.where(SCHEMA, b=0), Query.where(SCHEMA, b=2, a=1)])
ONE = Groups.of([Query.where(SCHEMA, b=[0, 1])])
BUDGET = Budget("zcdp", Fraction(1))
PRICE = Budget("zcdp", Fraction(1, 3))
SHORT = 16
"""The leaves of a segment in most tests, so that there are several: 2^20 in truth."""


@pytest.fixture(autouse=True)
def _no_noise(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(theory, "LONGEST", SHORT)
    with transparent():
        yield


class Grown(GrownSeries[RootSeries]):
    """A series by square roots."""

    def __init__(self, groups: Groups = GROUPS, price: Budget = PRICE, start: int = 0) -> None:
        super().__init__(lambda: RootSeries(groups, price, start), BUDGET, start)


def check(grown: Grown) -> None:
    """Every window that can be asked about: its rows, its boundary and its variance."""
    series, sizes, groups = grown.series, grown.sizes, grown.series.groups.number
    assert (series.leaf, series.size) == (len(sizes) - 1, len(grown.rows))
    firsts = theory.starts(series.leaf, groups)
    assert series.boundaries == tuple(sizes[first - 1] for first in firsts)
    assert series.next_starts(series.size) == series.boundaries
    for first, since in zip(firsts, series.boundaries, strict=True):
        window = series.window(since)
        assert (window.start, window.end) == (since, len(grown.rows))
        assert grown.exact(window)
        stated = theory.variance(first, series.leaf, PRICE.total, groups)
        assert window.law.deviation**2 == pytest.approx(stated, rel=1e-9)
        assert series.next_law(series.size, since).variance == pytest.approx(stated, rel=1e-9)


# -- estimates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [GROUPS, ONE], ids=["two groups", "one group"])
@pytest.mark.parametrize("start", [0, 5])
def test_without_noise_every_window_is_exact(groups: Groups, start: int) -> None:
    grown = Grown(groups, start=start)
    for leaf in range(1, 41):
        grown.leaves([1 + leaf % 5])
        check(grown)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=25))
def test_whatever_the_leaves_are(sizes: list[int]) -> None:
    with transparent():
        grown = Grown()
        grown.leaves(sizes)
        check(grown)


def test_without_noise_long_segments_and_the_next_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,030 leaves of as many groups as make segments short: the first long one is complete with leaf 1,025."""
    monkeypatch.setattr(theory, "LONGEST", 1024)
    grown = Grown()
    grown.leaves([1] * 1022)
    for leaf in range(1023, 1030):
        grown.leaves([2])
        assert grown.series.leaf == leaf
        check(grown)
    assert [theory.place(leaf, 2) for leaf in (1025, 1026)] == [(1, 1024), (2, 1)]
    assert grown.again().fingerprint() == grown.series.fingerprint()


def test_what_the_next_leaf_will_bring_is_what_it_brings() -> None:
    """The periods that can be asked about, the laws of their noise, and the price: before and after each leaf."""
    grown = Grown()
    for _ in range(2 * SHORT + 5):
        grown.append([0, 1])
        size = len(grown.rows)
        starts = grown.series.next_starts(size)
        laws = [grown.series.next_law(size, since).variance for since in starts]
        price = grown.series.next_price
        grown.series.advance(grown.gate)
        grown.sizes.append(size)
        assert grown.series.boundaries == starts
        assert [grown.series.window(since).law.variance for since in starts] == pytest.approx(laws, rel=1e-9)
        assert float(account(grown.gate)[size - 1]) == pytest.approx(float(price), rel=1e-9)


def test_an_interrupt_between_segments_changes_nothing_of_that() -> None:
    """A segment is complete and the next one not begun, or the complete one not ended."""
    for done in ("nothing", "the next segment is begun"):
        grown = Grown()
        grown.leaves([1] * SHORT)
        with pytest.MonkeyPatch.context() as patch:
            kept = RootSeries._end if done == "nothing" else RootSeries._begin
            patch.setattr(RootSeries, "_turn", lambda *_: None)
            grown.leaves([1])
            if done != "nothing":
                kept(grown.series, grown.gate)
        assert grown.series.leaf == SHORT + 1
        grown.append([0])
        size = len(grown.rows)
        starts, price = grown.series.next_starts(size), grown.series.next_price
        laws = [grown.series.next_law(size, since).variance for since in starts]
        assert price == PRICE.total
        grown.series.advance(grown.gate)
        grown.sizes.append(size)
        assert grown.series.boundaries == starts
        assert [grown.series.window(since).law.variance for since in starts] == pytest.approx(laws, rel=1e-9)
        assert grown.exact(grown.series.window(0))
        assert grown.again().fingerprint() == grown.series.fingerprint()


def test_a_leaf_needs_rows() -> None:
    grown = Grown()
    grown.series.advance(grown.gate)
    assert (grown.series.leaf, grown.series.boundaries, grown.gate.history) == (0, (0,), ())
    grown.leaves([3])
    before = grown.series.fingerprint(), grown.gate.history
    grown.series.advance(grown.gate)
    assert (grown.series.fingerprint(), grown.gate.history) == before
    check(grown)


# -- costs -------------------------------------------------------------------------------------------------------------


def test_each_row_pays_the_price_once_and_no_more() -> None:
    grown = Grown()
    price = Fraction(1, 3)
    for leaf in range(1, 41):
        grown.append([leaf % 6, 0])
        grown.series.advance(grown.gate)
        paid = account(grown.gate)
        assert max(paid) <= price
        assert paid[-1] == 0
        # While a segment lasts its rows have paid for all of it; nearly the price, and never more.
        assert min(paid[:-1]) > 0
        assert paid[-2] > price * Fraction(999, 1000) or theory.place(leaf, 2) in [(0, 1), (1, 16), (2, 16)]
    assert grown.gate.spent <= price


@pytest.mark.parametrize("longest", [SHORT, 2**20])
def test_segments_have_the_noise_and_the_room_of_the_theory(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "LONGEST", longest)
    grown = Grown()
    grown.leaves([1] * 20)
    begun = [event for event in grown.record if isinstance(event, SegmentBegun)]
    right = [(Weights.FADING, 1), (Weights.FADING, longest), (Weights.ROOT, longest)]
    for segment, (event, (weights, length)) in enumerate(zip(begun, right, strict=False)):
        assert event.segment == segment
        assert event.room == weights.squares(length)
        assert isinstance(event.noise, Gaussian)
        cost = Fraction(event.room) / Fraction(event.noise.scale) ** 2
        below = Fraction(event.room) / Fraction(np.nextafter(event.noise.scale, 0.0)) ** 2
        assert cost <= PRICE.total < below
    patterns = [event.patterns for event in grown.record if isinstance(event, Advanced)]
    kinds = [(Root if theory.place(leaf, 2)[0] == 2 else Fading)(theory.place(leaf, 2)[1]) for leaf in range(1, 21)]
    assert patterns == [(each,) for each in kinds]


def test_a_whole_budget_is_enough_for_ever() -> None:
    grown = Grown(price=BUDGET)
    grown.leaves([1] * 40)
    assert grown.gate.spent <= 1
    with pytest.raises(BudgetExceeded):
        grown.gate.combine(GROUPS, [Span(0, 40, 1)], Gaussian(100.0))


def test_closing_gives_back_what_will_not_be_used() -> None:
    grown = Grown()
    grown.leaves([2] * 30)
    window = grown.series.window(0)
    before = account(grown.gate)
    grown.series.close(grown.gate)
    after = account(grown.gate)
    # Of the current segment, position k of 13 has been in 14 − k releases.
    noise = theory.release_noise(PRICE.total, SHORT, 2, Weights.ROOT)
    for leaf in range(18, 31):
        used = Weights.ROOT.squares(31 - leaf) / Fraction(noise.scale) ** 2
        for position in (2 * leaf - 2, 2 * leaf - 1):
            assert after[position] < before[position]
            assert 0 <= after[position] - used < Fraction(1, 2**200)
    assert after[:34] == before[:34]
    assert isinstance(grown.gate.history[-1], SegmentEnded)
    # What is known stays.
    assert grown.exact(grown.series.window(0))
    assert np.allclose(grown.series.window(0).counts, window.counts, rtol=0, atol=1e-9)
    assert grown.series.window(0).law.deviation == pytest.approx(window.law.deviation)
    assert grown.again().fingerprint() == grown.series.fingerprint()
    grown.series.close(grown.gate)
    assert account(grown.gate) == after


def test_a_series_that_never_began_costs_nothing_to_close() -> None:
    grown = Grown()
    grown.series.close(grown.gate)
    assert not grown.gate.history
    grown.append([0])
    segment = grown.gate.begin_segment(GROUPS, Gaussian(4096.0), 4096**2).segment
    grown.series.follow(grown.gate.history[0])
    grown.series.close(grown.gate)
    ended = grown.gate.history[-1]
    assert isinstance(ended, SegmentEnded)
    assert (ended.segment, ended.charges, ended.note) == (segment, (), None)
    assert grown.gate.spent == 0


# -- a fold ------------------------------------------------------------------------------------------------------------


def test_replaying_the_record_gives_the_same_state_at_every_leaf() -> None:
    grown = Grown(start=2)
    for leaf in range(1, 41):
        grown.leaves([1 + leaf % 3])
        again = grown.again()
        assert again.fingerprint() == grown.series.fingerprint()
        assert (again.leaf, again.size, again.boundaries) == (leaf, grown.series.size, grown.series.boundaries)
        for since in again.boundaries:
            one, other = again.window(since), grown.series.window(since)
            assert one.counts.tobytes() == other.counts.tobytes()
            assert one.law == other.law


def test_a_series_goes_on_over_another_kernel() -> None:
    grown, other = Grown(), Grown()
    sizes = [1 + leaf % 4 for leaf in range(40)]
    grown.leaves(sizes)
    for size in sizes:
        other.gate = Kernel(other.db.rows, BUDGET, other.db.journal)
        other.series = other.again()
        other.leaves([size])
    assert other.series.fingerprint() == grown.series.fingerprint()
    assert account(other.gate) == account(grown.gate)


def test_complete_segments_are_short_on_record() -> None:
    grown = Grown()
    grown.leaves([1] * 30)
    kinds = Counter(type(event).__name__ for event in grown.gate.history)
    assert kinds == {"SegmentEnded": 2, "SegmentBegun": 1, "Advanced": 13}
    # Of segments before the last two that are complete, only the estimate of all rows is kept.
    grown.leaves([1] * 20)
    kept = [len(each.tails) for each in grown.series._finished]
    assert kept == [1, 1, *[len(theory.recent(SHORT))] * 2]


def test_events_of_others_change_nothing() -> None:
    grown = Grown()
    grown.leaves([2] * 5)
    before, gate, own = grown.series.fingerprint(), grown.gate, len(grown.record)
    gate.mark()
    gate.combine(GROUPS, [Span(0, 10, 1)], Gaussian(100.0))
    other = gate.begin_segment(ONE, Gaussian(100.0), 3, start=10).segment
    grown.append([0])
    gate.advance(other, [Ones(1)])
    gate.condense_segment(other, "theirs")
    gate.end_segment(other, "theirs")
    gate.note("anything")
    for event in grown.record[own:]:
        grown.series.follow(event)
    assert grown.series.fingerprint() == before
    assert grown.again().fingerprint() == before


def test_sizes_follow_leaves() -> None:
    grown = Grown()
    sizes = [3, 1, 4, 1, 5]
    grown.leaves(sizes)
    assert grown.sizes == [0, *accumulate(sizes)]
    assert grown.series.boundaries == (0, 3, 4, 8, 9)


def test_what_was_released_since_the_last_note_is_counted() -> None:
    """Two numbers a leaf; a note holds those of the current segment, and cannot be written to."""
    grown = Grown()
    assert (grown.series.fresh, grown.series.kept) == (0, 0)
    grown.leaves([1] * 5)
    assert (grown.series.fresh, grown.series.kept) == (10, 8)
    assert grown.again().fresh == 8  # What is on record: the first segment is over.
    before = grown.series.fingerprint()
    note = grown.series.keep()
    assert (grown.series.fresh, grown.series.kept) == (0, 8)
    assert grown.series.fingerprint() == before
    assert note.edges.tolist() == [1, 2, 3, 4, 5]
    assert note.releases.shape == (4, 2)
    for each in (note.releases, *grown.series._releases):
        assert not each.flags.writeable
    grown.leaves([1])
    assert (grown.series.fresh, grown.series.kept) == (2, 10)
    assert note.releases.shape == (4, 2)
    begun = [event for event in grown.record if isinstance(event, SegmentBegun)]
    other = RootSeries(GROUPS, PRICE)
    other.fresh = 7
    other.restore(note, begun[1:])
    assert (other.fresh, other.fingerprint()) == (0, before)
    empty = RootSeries(GROUPS, PRICE).keep()
    assert (empty.releases.shape, empty.finished) == ((0, 0), ())
    assert not empty.releases.flags.writeable
