"""A series by trees: without noise its estimates are the truth, no row pays more than the price, its state is a fold.

``test_root`` has the same for square roots.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from support.exact_losses import transparent
from support.grown_series import GrownSeries
from support.row_lives import SCHEMA, account
from treering.budget.promise import Budget, BudgetKind
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.gate import Advanced, Ones, SegmentBegun, SegmentCondensed, SegmentEnded
from treering.mechanisms.series.tree import TreeEstimate, TreeSeries
from treering.noise import Laplace
from treering.theory.continual import first_leaves, start_noise, stretch, tree_law
from treering.theory.nodes import completed_by, segment_of
from treering.trusted.kernel import Kernel

GROUPS = Groups.of([Query.where(SCHEMA, b=0), Query.where(SCHEMA, b=2, a=1)])
ONE = Groups.of([Query.where(SCHEMA, b=[0, 1])])
KINDS = pytest.mark.parametrize("kind", ["pure", "zcdp"])


@pytest.fixture(autouse=True)
def _no_noise() -> Iterator[None]:
    with transparent():
        yield


def grown(kind: BudgetKind, groups: Groups = GROUPS, start: int = 0) -> GrownSeries[TreeSeries]:
    price = Budget(kind, Fraction(1, 3))
    return GrownSeries(lambda: TreeSeries(groups, price, start), Budget(kind, Fraction(1)), start)


@KINDS
@pytest.mark.parametrize("groups", [GROUPS, ONE], ids=["two groups", "one group"])
@pytest.mark.parametrize("start", [0, 5])
def test_without_noise_every_window_is_exact(kind: BudgetKind, groups: Groups, start: int) -> None:
    life = grown(kind, groups, start)
    series = life.series
    # One group moves by half as much: half the noise is enough, or half its square.
    noise = start_noise(Budget(kind, Fraction(1, 3) * (1 if groups is GROUPS else 2)))
    for leaf in range(1, 41):
        life.leaves([1 + leaf % 5])
        assert (series.leaf, series.size) == (leaf, len(life.rows))
        firsts = first_leaves(leaf)
        assert series.boundaries == tuple(life.sizes[first - 1] for first in firsts)
        for first, since in zip(firsts, series.boundaries, strict=True):
            window = series.window(since)
            assert (window.start, window.end) == (since, len(life.rows))
            assert life.exact(window)
            assert window.law == tree_law(noise, stretch(first, leaf))


@KINDS
@pytest.mark.parametrize("groups", [GROUPS, ONE], ids=["two groups", "one group"])
def test_each_row_pays_the_price_once_and_no_more(kind: BudgetKind, groups: Groups) -> None:
    life = grown(kind, groups)
    for _ in range(40):
        life.leaves([2])
        paid = account(life.gate)
        assert max(paid) <= Fraction(1, 3)
        assert min(paid[:-1]) > Fraction(1, 3) * (1 - Fraction(1, 2**40))
        assert paid[-1] == 0
    events = [event for event in life.record if isinstance(event, Advanced)]
    assert [event.patterns for event in events] == [
        tuple(Ones(1 << level) for level, _ in completed_by(leaf)) for leaf in range(1, 41)
    ]
    begun = [event for event in life.record if isinstance(event, SegmentBegun)]
    assert [event.room for event in begun] == [segment_of(1 << number) + 1 for number in range(6)]


@KINDS
def test_replaying_the_record_gives_the_same_state_at_every_leaf(kind: BudgetKind) -> None:
    """Also where releases were condensed; and another kernel goes on with it."""
    life, other = grown(kind, start=2), grown(kind, start=2)
    for leaf in range(1, 71):
        life.leaves([1 + leaf % 3])
        assert life.again().fingerprint() == life.series.fingerprint()
        other.gate = Kernel(other.db.rows, other.gate.budget, other.journal)
        other.series = other.again()
        other.leaves([1 + leaf % 3])
    assert other.series.fingerprint() == life.series.fingerprint()
    assert account(other.gate) == account(life.gate)
    assert len(life.gate.history) < 30


@KINDS
@pytest.mark.parametrize("leaves", [1, 5, 7])
def test_events_of_others_change_nothing(kind: BudgetKind, leaves: int) -> None:
    life = grown(kind)
    life.leaves([2] * leaves)
    before, gate, own = life.series.fingerprint(), life.gate, len(life.record)
    gate.mark()
    other = gate.begin_segment(ONE, Laplace(100.0), 3, start=2 * leaves, series=1).segment
    life.append([0])
    gate.advance(other, [Ones(1)])
    gate.condense_segment(other, "theirs")
    gate.end_segment(other, "theirs")
    for event in life.record[own:]:
        life.series.follow(event)
    assert life.series.fingerprint() == before
    assert life.again().fingerprint() == before


@KINDS
def test_closing_gives_back_what_will_not_be_used(kind: BudgetKind) -> None:
    life = grown(kind)
    life.leaves([2] * 9)  # The last two are in a segment of eight.
    before = account(life.gate)
    life.series.close(life.gate)
    after = account(life.gate)
    assert after[:14] == before[:14]
    # Leaf 8 is in nodes of the two lowest levels by now, and so is leaf 9; there would be four.
    assert [float(paid / whole) for paid, whole in zip(after[14:18], before[14:18], strict=True)] == [0.5] * 4
    assert life.exact(life.series.window(0))
    assert life.again().fingerprint() == life.series.fingerprint()


@KINDS
def test_a_series_that_is_closed_before_its_first_leaf(kind: BudgetKind) -> None:
    """As after a leaf that old rows could not pay."""
    life = grown(kind)
    life.series.close(life.gate)
    assert not life.gate.history
    life.append([0])
    life.gate.begin_segment(GROUPS, start_noise(life.series.price), 1)
    life.series.follow(life.gate.history[0])
    life.series.close(life.gate)
    assert [type(event) for event in life.gate.history] == [SegmentEnded]
    assert life.again().fingerprint() == life.series.fingerprint()
    assert life.gate.spent == 0
    life.series.advance(life.gate)
    assert life.exact(life.series.window(0))


def test_releases_since_the_last_note_and_numbers_that_are_kept_are_counted() -> None:
    estimate = TreeEstimate(Laplace(2.0))
    assert (estimate.fresh, estimate.arrays) == (0, 0)
    nodes = 0
    for leaf in range(1, 40):
        estimate.take(leaf, [np.array([leaf, 1])] * len(completed_by(leaf)))
        nodes += len(completed_by(leaf))
        note = estimate.note()
        assert estimate.fresh == nodes
        assert estimate.arrays == len(note.pieces) + (note.past is not None)
        again = TreeEstimate(Laplace(2.0))
        again.restore(note)
        assert (again.fresh, again.arrays, again.leaf) == (0, estimate.arrays, leaf)


@KINDS
def test_a_long_segment_is_condensed_and_read_back(kind: BudgetKind) -> None:
    """Sixteen releases after the last note, or as many as numbers are kept: all from one note."""
    life = grown(kind)
    fresh = 0
    for leaf in range(1, 36):
        life.leaves([1])
        fresh += 2 * len(completed_by(leaf))
        assert life.series.fresh == fresh
        assert life.series.kept == 2 * life.series._estimate.arrays
        if leaf >= 15:
            again = life.again()
            assert again.fingerprint() == life.series.fingerprint()
            assert life.exact(again.window(0))
        assert life.series._estimate.fresh < max(16, life.series._estimate.arrays)
    condensed = [event for event in life.record if isinstance(event, SegmentCondensed)]
    assert len(condensed) >= 5
    life.series.keep()
    assert life.series.fresh == 0
