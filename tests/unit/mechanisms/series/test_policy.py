"""What is measured for sums: known ones are used, stale ones renewed, new ones opened, at prices that add up."""

from __future__ import annotations

from fractions import Fraction

import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import batch_price, carry_out
from treering.domain.groups import Groups
from treering.domain.sums import Sums, sums_of
from treering.mechanisms.plan import wished
from treering.mechanisms.series.policy import Needs, Steps, batches, sum_groups, tell_all
from treering.theory.rings import usual_price, whole_price
from treering.theory.series import MOST_GROUPS

SCHEMA = tr.Schema({"a": tr.categories("x", "y", "z"), "n": tr.integers(0, 9, missing=True), "m": tr.integers(0, 3)})
X, KNOWN = tr.parse("a = 'x'", SCHEMA), tr.parse("a = 'x' AND n IS NOT NULL", SCHEMA)


def made(delta: float = 1e-6) -> tuple[TestDatabase, tr.Rings]:
    db = TestDatabase(SCHEMA, list(range(SCHEMA.cells)) * 200)
    return db, tr.Rings(db, 1.0, delta, 1e-9)


def test_a_sum_is_planned_before_the_counts_that_it_brings() -> None:
    _, rings = made()
    planned = rings._policy.steps(Needs([X, KNOWN], {1: [KNOWN]}), None, None)
    (opened,) = (ring.opened for ring in planned.fresh)
    assert opened.sums is not None
    assert opened.sums == sums_of(SCHEMA, 1, counts=True)
    assert planned.price == opened.price == usual_price(rings._gate.budget.total, rings._gate.budget.total, 0, 25)
    assert rings.spent == 0


def test_under_a_pure_promise_counts_have_a_series_of_their_own() -> None:
    _, rings = made(0.0)
    sums, counts = (each.opened for each in rings._policy.steps(Needs([X, KNOWN], {1: [KNOWN]}), None, None).fresh)
    assert sums.sums is not None
    assert not sums.sums.counts
    assert counts.sums is None


def test_each_attribute_has_its_series_and_cells_come_last() -> None:
    _, rings = made()
    cells = [tr.parse(f"a = 'x' AND m = {value}", SCHEMA) for value in range(4)]
    planned = rings._policy.steps(Needs([X], {1: [KNOWN], 2: [X]}, [tuple(cells)]), None, None)
    kept = [each.opened.sums for each in planned.fresh]
    assert [each.scalar.column if isinstance(each, Sums) else None for each in kept] == [*SCHEMA.names[1:3], None]
    assert [axis.scalar.column for axis in planned.fresh[-1].opened.groups.axes] == [SCHEMA.names[0], SCHEMA.names[2]]
    assert planned.price == sum((each.opened.price for each in planned.fresh), Fraction(0))


def test_a_known_sum_is_free_and_a_stale_one_is_renewed() -> None:
    db, rings = made()
    asked = Needs([], {1: [KNOWN]})
    carry_out(rings, rings._policy.steps(asked, None, None))
    assert rings._policy.steps(asked, None, None) == Steps([], [])
    db.append_cells([0] * 100)
    stale, fresh, _ = rings._policy.steps(asked, None, None)
    assert ([each.number for each in stale], fresh) == ([0], [])
    assert rings._policy.steps(asked, None, None).price == rings._shelf.rings[0].series.price.total


def test_a_wish_for_a_sum_is_priced_by_the_groups_it_sums() -> None:
    _, rings = made()
    one = rings._policy.steps(Needs([], {2: [X]}), 200.0, None).price
    assert one == pytest.approx(2 * 1.96**2 / 200**2, rel=1e-3)
    carry_out(rings, rings._policy.steps(Needs([], {2: [X, tr.parse("a = 'y'", SCHEMA)]}), 400.0, None))
    two = tr.parse("a IN ('x', 'y')", SCHEMA)
    stale, fresh, _ = rings._policy.steps(Needs([], {2: [two]}), 400.0 * 2**0.5 * 1.001, None)
    assert (stale, fresh) == ([], [])
    assert rings._policy.steps(Needs([], {2: [two]}), 400.0, None).price > 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_sum_of_some_groups_is_known_and_of_very_many_gets_a_series(delta: float) -> None:
    """Of up to four, whose variances add up to that many times one's: whether counts come with the sums or not."""
    _, rings = made(delta)
    carry_out(rings, rings._policy.steps(Needs([], {2: [tr.parse(f"n = {n}", SCHEMA) for n in range(10)]}), None, None))
    for groups in (1, 2, 3, 4, 8):
        planned = rings._policy.steps(Needs([], {2: [tr.parse(f"n < {groups}", SCHEMA)]}), None, None)
        assert (planned.stale, len(planned.fresh)) == ([], int(groups == 8))


def test_groups_of_sums() -> None:
    assert sum_groups([tr.Query.all(SCHEMA)], 2, SCHEMA).number == 1
    assert sum_groups([KNOWN], 1, SCHEMA).number == Groups.atoms([KNOWN]).number
    assert len(batches([X, KNOWN])) == 1
    assert wished(0.5, 100) == 50


@pytest.mark.parametrize("pace", [25, 100])
def test_cells_that_several_series_know_apart_get_one_that_knows_them_all(pace: int) -> None:
    """A quantile is read off one series: what others know of single cells does not help."""
    schema = tr.Schema({"hour": tr.integers(0, 2), "a": tr.categories("x", "y")})
    db = tr.GrowingDatabase(schema)
    db.append([{"hour": hour, "a": "x"} for hour in (0, 1, 2)] * 5_000)
    rings = tr.Rings(db, 1.0, 1e-6, pace=pace)
    for hour in range(3):
        rings.ask(f"hour = {hour}")
    before = len(rings.series)
    assert rings.quantile("hour", 0.5).value == 1
    assert len(rings.series) == before + (pace >= 100)
    spent = rings.spent
    assert rings.quantile("hour", 0.9).value == 2
    assert rings.spent == spent
    db.append([{"hour": 2, "a": "y"}] * 100)
    assert rings.quantile("hour", 0.5).value == 1
    assert len(rings.series) == before + (pace >= 100)


# -- the whole table ---------------------------------------------------------------------------------------------------

SMALL = tr.Schema({name: tr.integers(0, 2) for name in "abc"})
PAIRS = [f"{one} = {value} AND {other} = {value}" for one, other in ("ab", "bc", "ac") for value in range(3)]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_list_that_needs_as_many_groups_as_there_are_cells_gets_the_whole_table(delta: float) -> None:
    """Three pairs of attributes have 27 groups together, and the table has 27 cells: one series tells all of them, at
    the price of all series that it saves, and every count from then on is free."""
    db = TestDatabase(SMALL, list(range(SMALL.cells)) * 200)
    rings = tr.Rings(db, 1.0, delta, 1e-9)
    total = rings._gate.budget.total
    assert batch_price(rings, PAIRS) == whole_price(total, total, 0, 25) == total * Fraction(4, 5)
    answers = rings.ask_many(PAIRS)
    (series,) = rings.series
    assert (series.attributes, series.groups) == (("a", "b", "c"), 27)
    assert rings.spent == pytest.approx(0.8 * float(total))
    for text, truth in {"a = 0": 1 / 3, "a = 1 AND b = 2 AND c = 0": 1 / 27, "a <> 1 OR c = 2": 7 / 9}.items():
        assert rings.price(text) == 0
        assert abs(rings.ask(text).value - truth) <= rings.ask(text).error
    assert all(abs(answer.value - 1 / 9) <= answer.error for answer in answers)
    # New rows pay the same, and what is left is enough for a wish.
    db.append_cells([0] * 10)
    assert rings.price("a = 0") == pytest.approx(0.8 * float(total))
    known = rings.ask("a = 0")
    wish = 0.9 * known.margin
    assert usual_price(total, total / 5, 1, 25) <= rings.price("a = 0", within=wish) <= total / 5
    sharper = rings.ask("a = 0", within=wish)
    assert sharper.margin <= wish * (1 + 1e-6)
    assert rings.price("a = 0", within=wish) == 0


def test_fewer_groups_a_wish_or_a_question_alone_do_not_get_it() -> None:
    db = TestDatabase(SMALL, list(range(SMALL.cells)) * 200)
    total = tr.Rings(db, 1.0, 1e-6)._gate.budget.total
    usual = usual_price(total, total, 0, 25)
    cells = [f"a = {a} AND b = {b} AND c = {c}" for a in range(3) for b in range(3) for c in range(3)]
    once = ((PAIRS[:6], 2 * usual), (PAIRS[:1], usual), (["a = 0", "b = 0", "c = 0"], 3 * usual), (cells, usual))
    for asked, price in once:
        rings = tr.Rings(db, 1.0, 1e-6)
        assert batch_price(rings, asked) == price
    rings = tr.Rings(db, 1.0, 1e-6)
    rings.ask_many(PAIRS, within=300)
    assert [series.groups for series in rings.series] == [9, 9, 9]


def test_the_whole_table_is_not_too_large_to_be_kept() -> None:
    wide = tr.Schema({"a": tr.integers(1, MOST_GROUPS // 2), "b": tr.integers(0, 1)})
    wider = tr.Schema({"a": tr.integers(1, MOST_GROUPS // 2 + 1), "b": tr.integers(0, 1)})
    for schema, kept in ((wide, True), (wider, False)):
        alone, pair = tr.parse("a = 1", schema), tr.parse("a = 1 AND b = 1", schema)
        assert tell_all([([alone, pair], Groups.marginal(schema))], schema) == kept
        assert not tell_all([([pair], Groups.marginal(schema))], schema)
        assert not tell_all([([alone], Groups.marginal(schema, ["a"])), ([pair], Groups.atoms([pair]))], schema)


def test_a_list_that_tells_all_cells_apart_gets_it_too() -> None:
    db = TestDatabase(SMALL, list(range(SMALL.cells)) * 200)
    rings = tr.Rings(db, 1.0, 1e-6)
    total = rings._gate.budget.total
    every = [f"a = {value} AND b = {value} AND c = {value}" for value in range(3)]
    assert batch_price(rings, [*every, "a = 0"]) == whole_price(total, total, 0, 25)


def test_after_other_series_it_gets_what_is_left_of_the_early_parts() -> None:
    db = TestDatabase(SMALL, list(range(SMALL.cells)) * 200)
    rings = tr.Rings(db, 1.0, 1e-6)
    total = rings._gate.budget.total
    rings.ask("a = 0")
    rings.ask("b = 0")
    assert batch_price(rings, PAIRS) == 23 * usual_price(total, total, 0, 25)
