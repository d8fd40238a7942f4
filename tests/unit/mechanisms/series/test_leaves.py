"""A series of leaves that are each counted by itself: exact without noise, one price a row, a fold over its events."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from support.exact_losses import transparent
from support.grown_series import GrownSeries
from support.row_lives import SCHEMA, account
from treering.budget.promise import Budget, BudgetKind
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.gate import Advanced, Ones, SegmentBegun, SegmentEnded
from treering.mechanisms.series import leaves as module
from treering.mechanisms.series.leaves import LeafSeries
from treering.noise import Laplace
from treering.theory.continual import leaves_law, start_noise
from treering.trusted.kernel import Kernel

GROUPS = Groups.of([Query.where(SCHEMA, b=0), Query.where(SCHEMA, b=2, a=1)])
ONE = Groups.of([Query.where(SCHEMA, b=[0, 1])])
PRICE = Fraction(1, 3)
KINDS = pytest.mark.parametrize("kind", ["pure", "zcdp"])
BOTH = pytest.mark.parametrize("groups", [GROUPS, ONE], ids=["two groups", "one group"])


@pytest.fixture(autouse=True)
def _no_noise() -> Iterator[None]:
    with transparent():
        yield


def grown(kind: BudgetKind, groups: Groups = GROUPS, start: int = 0) -> GrownSeries[LeafSeries]:
    return GrownSeries(lambda: LeafSeries(groups, Budget(kind, PRICE), start), Budget(kind, Fraction(1)), start)


@KINDS
@BOTH
@pytest.mark.parametrize("start", [0, 5])
def test_without_noise_every_period_of_whole_leaves_is_exact(kind: BudgetKind, groups: Groups, start: int) -> None:
    life = grown(kind, groups, start)
    # One group moves by half as much: half the noise is enough, or half its square.
    noise = start_noise(Budget(kind, PRICE * (1 if groups is GROUPS else 2)))
    assert life.series.boundaries == (start,)
    for leaf in range(1, 21):
        life.leaves([1 + leaf % 5])
        assert (life.series.leaf, life.series.size) == (leaf, len(life.rows))
        assert life.series.boundaries == tuple(life.sizes[:-1])
        for first, since in enumerate(life.sizes[:-1]):
            window = life.series.window(since)
            assert (window.start, window.end) == (since, len(life.rows))
            assert life.exact(window)
            assert window.law == leaves_law(noise, leaf - first)


@KINDS
@BOTH
def test_each_row_pays_the_price_once_and_no_more(kind: BudgetKind, groups: Groups) -> None:
    life = grown(kind, groups)
    for _ in range(20):
        life.leaves([2])
        paid = account(life.gate)
        assert max(paid) <= PRICE
        assert min(paid[:-1]) > PRICE * (1 - Fraction(1, 2**40))
        assert paid[-1] == 0
    assert {event.patterns for event in life.record if isinstance(event, Advanced)} == {(Ones(1),)}
    assert {event.room for event in life.record if isinstance(event, SegmentBegun)} == {1}


@KINDS
def test_replaying_the_record_gives_the_same_state_at_every_leaf(kind: BudgetKind) -> None:
    """And another kernel goes on with it."""
    life, other = grown(kind, start=2), grown(kind, start=2)
    for leaf in range(1, 21):
        life.leaves([1 + leaf % 3])
        assert life.again().fingerprint() == life.series.fingerprint()
        other.gate = Kernel(other.db.rows, other.gate.budget, other.journal)
        other.series = other.again()
        other.leaves([1 + leaf % 3])
    assert other.series.fingerprint() == life.series.fingerprint()
    assert account(other.gate) == account(life.gate)


@KINDS
def test_leaves_of_long_ago_are_one(kind: BudgetKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "kept_leaves", lambda _: 4)
    life = grown(kind)
    life.leaves([3] * 9)
    assert life.series.boundaries == (0, 18, 21, 24)
    assert life.series.leaf == 9
    assert all(life.exact(life.series.window(since)) for since in life.series.boundaries)
    assert life.series.window(0).law == leaves_law(start_noise(life.series.price), 9)
    assert life.again().fingerprint() == life.series.fingerprint()


@KINDS
def test_events_of_others_change_nothing(kind: BudgetKind) -> None:
    life = grown(kind)
    life.leaves([2] * 3)
    before, gate, own = life.series.fingerprint(), life.gate, len(life.record)
    gate.mark()
    other = gate.begin_segment(ONE, Laplace(100.0), 3, start=6, series=1).segment
    life.append([0])
    gate.advance(other, [Ones(1)])
    gate.end_segment(other, "theirs")
    for event in life.record[own:]:
        life.series.follow(event)
    assert life.series.fingerprint() == before
    assert life.again().fingerprint() == before


@KINDS
def test_closing_keeps_what_is_known(kind: BudgetKind) -> None:
    life = grown(kind)
    life.series.close(life.gate)
    assert not life.gate.history
    life.leaves([2, 3])
    life.series.close(life.gate)
    assert {type(event) for event in life.gate.history} == {SegmentEnded}
    assert life.again().fingerprint() == life.series.fingerprint()
    assert all(life.exact(life.series.window(since)) for since in (0, 2))


@KINDS
@pytest.mark.parametrize("begun", [False, True], ids=["nothing is done", "the next segment is begun"])
def test_what_an_interrupt_leaves_undone_is_done_by_the_next_leaf(kind: BudgetKind, begun: bool) -> None:
    """A leaf is there, and its segment has not ended: the series counts it, alive and replayed, and goes on."""
    life = grown(kind)
    life.leaves([2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeafSeries, "_turn", lambda *_: None)
        life.leaves([3])
    if begun:
        life.series._begin(life.gate)
    assert (life.series.leaf, life.series.size, life.series.boundaries) == (2, 5, (0, 2))
    assert life.again().fingerprint() == life.series.fingerprint()
    life.series.advance(life.gate)
    assert not any(isinstance(event, Advanced) and event.size > 5 for event in life.record)
    life.leaves([4])
    assert (life.series.leaf, life.series.size, life.series.boundaries) == (3, 9, (0, 2, 5))
    assert all(life.exact(life.series.window(since)) for since in life.series.boundaries)
    assert life.again().fingerprint() == life.series.fingerprint()
    assert max(account(life.gate)) <= PRICE
    assert sum(isinstance(event, SegmentEnded) for event in life.record) == 3


@KINDS
def test_what_the_next_leaf_will_bring_is_what_it_brings(kind: BudgetKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """The periods that can be asked about and the laws of their noise, before and after each leaf."""
    monkeypatch.setattr(module, "kept_leaves", lambda _: 4)
    life = grown(kind, start=3)
    noise = start_noise(Budget(kind, PRICE))
    assert (life.series.next_starts(3), life.series.next_law(3, 3)) == ((3,), leaves_law(noise, 1))
    for leaf in range(1, 9):
        life.append([0, 1])
        size = len(life.rows)
        starts = life.series.next_starts(size)
        laws = [life.series.next_law(size, since) for since in starts]
        life.series.advance(life.gate)
        assert life.series.boundaries == life.series.next_starts(size) == starts
        assert len(starts) == min(leaf, 4)
        assert [life.series.window(since).law for since in starts] == laws
        assert [life.series.next_law(size, since) for since in starts] == laws
        assert life.series.next_price == PRICE


def test_the_fingerprint_covers_every_leaf_and_the_start() -> None:
    """Of leaves that are over and of one that is not, their ends and their counts."""

    def life(sizes: tuple[int, ...], first: int = 0, *, start: int = 0, over: bool = True) -> str:
        found = grown("zcdp", start=start)
        with pytest.MonkeyPatch.context() as patch:
            for place, size in enumerate(sizes):
                if place == len(sizes) - 1 and not over:
                    patch.setattr(LeafSeries, "_turn", lambda *_: None)
                found.append([first if place == 0 else 0] + [0] * (size - 1))
                found.series.advance(found.gate)
        return found.series.fingerprint()

    prints = [
        *(life((2, 3, 2)), life((3, 2, 2)), life((2, 3, 3)), life((2, 3)), life((2, 3, 2), 5)),
        *(
            life((2, 3, 2), over=False),
            life((2, 3, 3), over=False),
            life((2, 3, 2), 5, over=False),
            life((2,), start=1),
        ),
    ]
    assert len(set(prints)) == len(prints)
    assert life((2, 3, 2)) == prints[0]
