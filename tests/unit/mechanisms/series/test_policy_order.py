"""Which of several series is brought up to date: the sharpest first, no more than is needed, and what that costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import carry_out
from treering.domain.groups import Groups
from treering.domain.sums import Capped
from treering.mechanisms.series.policy import Needs, Steps, _alone, _spreads_in, portions
from treering.mechanisms.series.view import ROUNDING
from treering.theory import rings as theory

SCHEMA = tr.Schema({"a": tr.categories("x", "y", "z"), "n": tr.integers(0, 9), "m": tr.integers(0, 3)})
X, Y, Z = (tr.parse(f"a = '{name}'", SCHEMA) for name in "xyz")
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])


def made(delta: float = 1e-6, epsilon: float = 1.0, **options: Any) -> tuple[TestDatabase, tr.Rings]:
    db = TestDatabase(SCHEMA, list(range(SCHEMA.cells)) * 200)
    return db, tr.Rings(db, epsilon, delta, 1e-9, **options)


ASKED = [Needs([X]), Needs([], {1: [X]}), Needs([], {}, [(X, Y)])]


@KINDS
@pytest.mark.parametrize("asked", ASKED, ids=["counts", "sums", "cells"])
def test_the_sharpest_of_several_is_renewed_and_no_other(delta: float, asked: Needs) -> None:
    """Two series know the same, the second more sharply. A narrower wish needs both, where they can be combined."""
    db, rings = made(delta, 2.0)
    for wanted in (900.0, 450.0):
        carry_out(rings, rings._policy.steps(asked, wanted, None))
    coarse, sharp = (ring.number for ring in rings._shelf.rings[-2:])
    assert rings._policy.steps(asked, 5_000.0, None) == Steps([], [])
    db.append_cells([0] * 100)
    planned = rings._policy.steps(asked, 5_000.0, None)
    assert ([ring.number for ring in planned.stale], planned.fresh) == ([sharp], [])
    assert planned.price == rings._shelf.rings[sharp].series.price.total
    carry_out(rings, planned)
    assert rings._shelf.rings[coarse].series.size < rings._shelf.rings[sharp].series.size == db.size
    assert rings._policy.steps(asked, 5_000.0, None) == Steps([], [])


def test_what_one_question_needs_is_there_for_the_others() -> None:
    """The finer question has one series, the coarser one two: the one that both have is enough."""
    db, rings = made(epsilon=5.0)
    fine = X & tr.parse("n = 1", SCHEMA)
    carry_out(rings, rings._policy.steps(Needs([fine]), 500.0, None))
    carry_out(rings, rings._policy.steps(Needs([X]), 100.0, None))
    both, alone = rings._shelf.rings
    assert both.covers(X)
    assert not alone.covers(fine)
    assert alone.next_variance(X, db.size) < both.next_variance(X, db.size)
    db.append_cells([0] * 50)
    for asked in ([X, fine], [fine, X]):
        assert rings._policy.steps(Needs(asked), 5_000.0, None).stale == [both]
    assert rings._policy.steps(Needs([X]), 5_000.0, None).stale == [alone]


def test_a_wish_that_one_series_does_not_meet_renews_more() -> None:
    db, rings = made(epsilon=5.0)
    for wanted in (400.0, 250.0):
        carry_out(rings, rings._policy.steps(Needs([X]), wanted, None))
    db.append_cells([0] * 100)
    first, second = rings._shelf.rings
    margins = [theory.NORMAL * ring.next_variance(X, db.size) ** 0.5 for ring in (second, first)]
    both = (margins[0] ** -2 + margins[1] ** -2) ** -0.5
    assert rings._policy.steps(Needs([X]), margins[0] * 1.001, None) == Steps([second], [])
    assert rings._policy.steps(Needs([X]), (both + margins[0]) / 2, None) == Steps([second, first], [])
    assert rings._policy.steps(Needs([X]), both * 1.001, None) == Steps([second, first], [])
    assert len(rings._policy.steps(Needs([X]), both * 0.99, None).fresh) == 1


def test_prices_of_what_is_opened_and_renewed_add_up() -> None:
    db, rings = made()
    carry_out(rings, rings._policy.steps(Needs([X]), None, None))
    db.append_cells([0] * 100)
    planned = rings._policy.steps(Needs([X, tr.parse("m = 1", SCHEMA)], {1: [Y]}), None, None)
    assert len(planned.fresh) == 2
    # The sums of n by a bring counts by a with them.
    assert planned.stale == []
    left = rings._gate.budget.total - rings._gate.spent
    prices = [theory.usual_price(rings._gate.budget.total, left, 1, 25)]
    prices.append(theory.usual_price(rings._gate.budget.total, left - prices[0], 2, 25))
    assert [each.opened.price for each in planned.fresh] == prices
    assert [each.number for each in planned.fresh] == [1, 2]
    assert planned.price == sum(prices, Fraction(0))
    again = rings._policy.steps(Needs([X]), None, None)
    assert again.price == rings._shelf.rings[0].series.price.total


def test_each_series_of_a_batch_is_paid_of_what_the_others_leave() -> None:
    """After the early ones a price is a part of what is left: of two in one batch, the second gets less."""
    _, rings = made(epsilon=20.0, pace=1)
    total = rings._gate.budget.total
    planned = rings._policy.steps(Needs([X, tr.parse("m = 1", SCHEMA), tr.parse("n = 1", SCHEMA)]), None, None)
    left = total
    for number, opened in enumerate(ring.opened for ring in planned.fresh):
        assert opened.price == theory.usual_price(total, left, number, 1)
        left -= opened.price
    assert len({each.opened.price for each in planned.fresh}) == 3
    # Each of two wishes can be paid by itself, and not both.
    wish = 1.1 * theory.NORMAL * theory.first_law(rings._gate.budget, 3).deviation
    prices = [rings._policy.steps(Needs([query]), wish, None).price for query in (X, tr.parse("m = 1", SCHEMA))]
    assert max(prices) < total < sum(prices)
    with pytest.raises(tr.BudgetExceeded) as caught:
        rings._policy.steps(Needs([X, tr.parse("m = 1", SCHEMA)]), wish, None)
    assert (caught.value.spent, caught.value.requested, caught.value.total) == (prices[0], prices[1], total)
    assert rings._gate.spent == 0


def test_a_refusal_names_what_is_left_if_anything_is() -> None:
    _, rings = made()
    total, groups = rings._gate.budget.total, Groups.atoms([X])
    for left, wanted, said in (
        (total / 2, 10.0, "with all that is left a margin of"),
        (total / 2, None, "stay free"),
        (Fraction(0), 10.0, "stay free"),
    ):
        refusal = rings._policy._unaffordable([X], groups, wanted, total, left, None)
        assert said in str(refusal)
        assert (refusal.unit, refusal.spent, refusal.requested) == ("rho", total - left, total)


@KINDS
def test_margins_are_foreseen_as_the_first_answer_will_have_them(delta: float) -> None:
    """Of counts and of sums, for each query of a batch."""
    _, rings = made(delta, 5.0)
    for asked, queries in ((Needs([X, X | Y]), [X, X | Y]), (Needs([], {1: [X, X | Y]}), [X, X | Y])):
        steps = rings._policy.steps(asked, None, None)
        opened = steps.fresh[0].opened
        assert not isinstance(opened.sums, Capped)
        foreseen = rings._policy._margins(queries, opened.groups, opened.price, opened.sums)
        carry_out(rings, steps)
        ring = rings._shelf.rings[-1]
        if opened.sums is None:
            margins = [theory.margin(ring.view(0).law, ring.spectrum(query)) for query in queries]
        else:
            margins = [each.margin / ROUNDING for each in ring.sum_readings(queries, 0)]
        assert foreseen == pytest.approx(margins, rel=1e-9)


@KINDS
def test_the_first_so_many_series_are_equal_and_later_ones_smaller(delta: float) -> None:
    _, rings = made(delta, 50.0, pace=2)
    for text in ("a = 'x'", "m = 1", "n = 3", "n < 5 AND m = 2"):
        rings.ask(text)
    prices = [ring.series.price.total for ring in rings._shelf.rings]
    total = rings._gate.budget.total
    assert prices[:2] == [total * Fraction(2, 5)] * 2
    assert 0 < prices[3] < prices[2] < prices[1]


def test_a_question_by_itself_is_a_pair_where_that_saves_much() -> None:
    """From the pace of 100 on, of several questions those that would sum many groups; one alone always."""
    many = [tr.parse(f"n = {n}", SCHEMA) for n in range(10)]
    wide = tr.parse("n < 5", SCHEMA)
    own = _spreads_in([*many, wide], Groups.atoms([*many, wide]))
    assert own[wide] == pytest.approx(2.5)
    assert own[many[0]] == pytest.approx(0.9)
    assert _alone([*many, wide]) == [wide]
    assert _alone([many[0]]) == [many[0]]
    for pace, number in ((99, 1), (100, 2)):
        found = portions([*many, wide], pace)
        assert len(found) == number
        assert sum(len(batch) for batch, _ in found) == 11
    (_, groups) = portions([wide], 100)[0]
    assert groups.number == 2
    assert portions([], 100) == []


def test_cells_are_told_by_one_series_that_is_sharp_enough_for_all() -> None:
    db, rings = made(epsilon=5.0)
    cells = (X, Y, Z)
    carry_out(rings, rings._policy.steps(Needs([], {}, [cells]), 300.0, None))
    (ring,) = rings._shelf.rings
    margin = theory.NORMAL * max(ring.next_variance(query, db.size) for query in cells) ** 0.5
    assert rings._policy.steps(Needs([], {}, [cells, cells[:2]]), margin * 1.001, None) == Steps([], [])
    opened = rings._policy.steps(Needs([], {}, [cells]), margin * 0.99, None).fresh[0].opened
    assert (opened.groups.number, opened.registered, opened.series) == (3, cells, 1)
    db.append_cells([0] * 10)
    planned = rings._policy.steps(Needs([], {}, [cells, cells[:2]]), 5_000.0, None)
    assert planned == Steps([ring], [])


@KINDS
@pytest.mark.parametrize("pace", [1, 25])
def test_from_the_pace_on_every_series_that_can_answer_does(delta: float, pace: int) -> None:
    """Before, one that was opened for a modest wish is far worse than one of the usual price: of counts as of sums."""
    for asked in (Needs([], {2: [X]}), Needs([X]), Needs([], {}, [(X, Y)])):
        _, rings = made(delta, 5.0, pace=pace)
        carry_out(rings, rings._policy.steps(asked, 2_000.0, None))
        assert len(rings._shelf.rings) == 1
        assert rings._gate.spent < rings._gate.budget.total / 100
        assert len(rings._policy.steps(asked, None, None).fresh) == (pace > 1)
        assert rings._policy.steps(asked, 2_000.0, None) == Steps([], [])


def test_a_question_that_sums_many_groups_gets_a_series_while_there_are_few() -> None:
    _, rings = made(epsilon=5.0)
    each = [tr.parse(f"n = {n} AND m = {m}", SCHEMA) for n in range(10) for m in range(4)]
    carry_out(rings, rings._policy.steps(Needs(each), None, None))
    split = tr.parse("n IN (0, 2, 4, 6, 8)", SCHEMA)  # Twenty of forty groups.
    assert len(rings._policy.steps(Needs([split]), None, None).fresh) == 1
    assert rings._policy.steps(Needs([split]), 5_000.0, None) == Steps([], [])
