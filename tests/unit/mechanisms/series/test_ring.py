"""A series with its questions: what it covers, and each number that it tells, written down again by the theory's laws.

Releases are without noise here, so values are the truth, and margins and errors are those of the laws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import transparent
from support.plans import estimates_of, noise_in
from treering.answer import Estimate
from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.language.items import Item
from treering.domain.language.measures import Mean, Request, Sum
from treering.domain.query import Query
from treering.domain.sums import Sums, sums_of
from treering.mechanisms.rings import Rings
from treering.mechanisms.series import ring as module
from treering.mechanisms.series.drawing import Source, digest
from treering.mechanisms.series.ring import UNFIT, Opened, Ring, combined, sharp, sharp_sum, weights_of
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.tree import TreeSeries
from treering.mechanisms.series.view import ROUNDING, Reading
from treering.theory import rings as theory
from treering.theory.continual import Law, bound, starts, window_law
from treering.theory.draws import group_noise
from treering.theory.sums import noise_price, union_radius

SCHEMA = tr.Schema({"a": tr.categories("x", "y", "z"), "k": tr.integers(1, 5), "b": tr.categories("no", "yes")})
REACH = 4
BETA = 0.01
KINDS = pytest.mark.parametrize("kind", ["pure", "zcdp"])
X, Y = (Query.where(SCHEMA, a=name) for name in "xy")


@pytest.fixture(autouse=True)
def _no_noise() -> Iterator[None]:
    with transparent():
        yield


def cells(rows: int, seed: int = 1) -> list[int]:
    return [int(cell) for cell in np.random.default_rng(seed).integers(0, SCHEMA.cells, rows)]


class Grown:
    """Rings over a table that grows step by step, and is asked for the sum of k by a at each."""

    def __init__(self, kind: Any, *steps: int, **options: Any) -> None:
        self.kind = kind
        self.rows: list[int] = []
        self.db = TestDatabase(SCHEMA)
        delta = 1e-6 if kind == "zcdp" else 0.0
        self.rings = Rings(self.db, **{"epsilon": 1.0, "delta": delta, "beta": BETA, **options})
        for step in steps:
            self.add(step)
            self.rings.release(Request.of(SCHEMA, [Sum("k")], ["a"]))

    def add(self, rows: int) -> None:
        more = cells(rows, len(self.rows) + 1)
        self.rows += more
        self.db.append_cells(more)

    @property
    def summing(self) -> Ring:
        return next(ring for ring in self.rings._shelf.rings if ring.series.sums is not None)

    @property
    def counting(self) -> Ring:
        return next(ring for ring in self.rings._shelf.rings if ring.counted)

    def truth(self, query: Query, since: int = 0) -> tuple[float, float]:
        """The rows since a size that match, and the sum of their k, in rows at the bound."""
        codes = np.unravel_index(np.array(self.rows[since:], dtype=np.int64), SCHEMA.shape)
        weights = query.weights()[tuple(codes[each] for each in query.attributes)] / query.scale
        units = (2 * codes[1] - REACH) / REACH
        return float(np.sum(weights * np.ones(len(units)))), float(np.sum(weights * units))


def single(kind: Any, price: Fraction, groups: Groups, sums: Sums | None = None, number: int = 0) -> Ring:
    """A series that has no leaf yet."""
    return Ring(Opened(number, groups, price, (X,), sums), kind, BETA)


GROUPS = Groups.atoms([X, Y])
K = sums_of(SCHEMA, 1, counts=True)


# -- what it is about --------------------------------------------------------------------------------------------------


def test_the_price_of_its_counts_and_what_it_knows() -> None:
    """Counts that come with sums are those of a series at half the price."""
    price = Fraction(1, 7)
    plain, both = single("zcdp", price, GROUPS), single("zcdp", price, GROUPS, sums_of(SCHEMA, 1, counts=True))
    alone = single("pure", price, GROUPS, sums_of(SCHEMA, 1, counts=False))
    assert (plain.counted, both.counted, alone.counted) == (True, True, False)
    assert (plain.count_price, both.count_price, alone.count_price) == (price, price / 2, price)
    assert [each.covers(X) for each in (plain, both, alone)] == [True, True, False]
    assert [each.sums_up(K, X) for each in (plain, both, alone)] == [False, True, True]
    assert not both.sums_up(replace(K, clipped=True), X)
    other = Query.where(SCHEMA, b="yes")
    assert not plain.covers(other)
    assert not both.sums_up(K, other)
    assert not both.sums_up(K, X & other)
    assert isinstance(plain.series, RootSeries)
    assert isinstance(alone.series, TreeSeries)
    assert (plain.series.start, plain.series.number, plain.number) == (0, 0, 0)


def test_very_many_numbers_are_kept_by_trees() -> None:
    """It is numbers that count: with sums there are twice as many as groups."""
    wide = tr.Schema({"n": tr.integers(0, 2**15 - 1)})
    groups = Groups.marginal(wide)
    for sums, kept in ((None, RootSeries), (sums_of(SCHEMA, 1, counts=True), TreeSeries)):
        made = Ring(Opened(0, groups, Fraction(1), (), sums), "zcdp", BETA)
        assert isinstance(made.series, kept)


def test_unions_are_remembered_and_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2 * (X.memory + X.memory))  # What two questions and their unions take.
    ring = single("zcdp", Fraction(1), GROUPS)
    queries = [X, Y, X | Y, ~X]
    for place, query in enumerate(queries):
        spread = ring.spread(query)
        assert spread == pytest.approx(2 / 3)
        assert ring.spread(query) == spread
        assert len(ring._reduced) == len(ring._spreads) == 1 + place % 2
        assert query in ring._reduced


def test_so_many_are_remembered() -> None:
    assert (module._REMEMBERED, UNFIT) == (2**28, 4)


@pytest.mark.parametrize(("kind", "power"), [("zcdp", 1), ("pure", 2)])
def test_how_many_times_its_own_spread_a_query_may_have(kind: Any, power: int) -> None:
    """Variances are spread over price, or over price squared; a quarter of that is far better."""
    ring = single(kind, Fraction(3, 10), GROUPS)
    assert ring.most_spread(Fraction(1, 10)) == pytest.approx(4 * 3**power)
    if kind == "zcdp":
        both = single(kind, Fraction(3, 10), GROUPS, sums_of(SCHEMA, 1, counts=True))
        assert both.most_spread(Fraction(1, 10)) == pytest.approx(4 * 1.5)


def test_a_complement_is_registered_with_its_query() -> None:
    ring = single("zcdp", Fraction(1), GROUPS)
    assert [ring._is_registered(ring.reduced(query)) for query in (X, ~X, Y, ~Y)] == [True, True, False, False]


# -- laws --------------------------------------------------------------------------------------------------------------


def expected_law(ring: Ring, kind: Any, first: int, leaf: int) -> Law:
    """That of counts at the price of the noise; sums are in half steps, and told in rows at the bound."""
    price, sums = Budget(kind, ring.series.price.total), ring.series.sums
    if sums is None:
        return window_law(price, ring.series.groups.number, first, leaf)
    law = window_law(noise_price(price, sums.reach), ring.series.numbers, first, leaf)
    return Law(law.variance / REACH**2, tuple((weight / REACH, scale, number) for weight, scale, number in law.parts))


def begun(ring: Ring, size: int, leaf: int) -> dict[int, int]:
    """The sizes since which rows can be asked about once ``leaf`` is there, each with the leaf that begins there."""
    series = ring.series
    return dict(zip(ring.starts(size), starts(series.price, series.numbers, leaf), strict=True))


def same_law(left: Law, right: Law) -> None:
    assert left.variance == pytest.approx(right.variance, rel=1e-12)
    assert np.array(left.parts) == pytest.approx(np.array(right.parts), rel=1e-12)


@KINDS
def test_the_law_of_what_comes_next(kind: Any) -> None:
    """Once the series is current: rows that have come since make one more leaf, which begins where the last ended."""
    grown = Grown(kind, 3000, 500, 400)
    for ring in {grown.summing, grown.counting}:
        series = ring.series
        assert (series.leaf, series.size) == (3, 3900)
        for _ in range(2):
            same_law(ring.next_law(3900), expected_law(ring, kind, 1, 3))
            same_law(ring.next_law(3901), expected_law(ring, kind, 1, 4))
            same_law(ring.next_law(3900, 0), expected_law(ring, kind, 1, 3))
        assert ring.starts(3900) == series.boundaries
        now, later = begun(ring, 3900, 3), begun(ring, 3901, 4)
        assert later[3900] == 4
        assert all(now[since] == leaf for since, leaf in later.items() if since != 3900)
        for since, leaf in later.items():
            same_law(ring.next_law(3901, since), expected_law(ring, kind, leaf, 4))
            assert ring.reaches(since, 3901)
        for since, leaf in now.items():
            same_law(ring.next_law(3900, since), expected_law(ring, kind, leaf, 3))
        assert ring.reaches(None, 3900)
        assert ring.reaches(0, 3900)
        assert not ring.reaches(3900, 3900)
        assert not ring.reaches(17, 3900)
        law = ring.next_law(3900)
        assert ring.next_variance(X, 3900) == pytest.approx(law.deviation**2 * 2 / 3)
        assert ring.next_sum_variance(X | Y, 3900) == pytest.approx(law.deviation**2 * 2)


@KINDS
def test_the_law_before_the_first_leaf_is_that_of_the_first(kind: Any) -> None:
    ring = single(kind, Fraction(1), GROUPS)
    same_law(ring.next_law(0), window_law(Budget(kind, Fraction(1)), 3, 1, 1))
    same_law(ring.next_law(9), window_law(Budget(kind, Fraction(1)), 3, 1, 1))
    assert ring.starts(0) == (0,)


@pytest.mark.parametrize("reach", [1, 2, 3])
def test_sums_are_told_in_rows_at_the_bound(reach: int) -> None:
    """Whatever the range: numbers of half steps are divided by how many there are, and so is their noise."""
    schema = tr.Schema({"a": tr.categories("x", "y"), "k": tr.integers(0, reach)})
    db = TestDatabase(schema, [cell % schema.cells for cell in range(60 * schema.cells)] + [reach] * 600)
    rings = Rings(db, 20.0, 1e-6, BETA)
    x = Query.where(schema, a="x")
    rings.release(Request.of(schema, [Sum("k")], ["a"]))
    (ring,) = rings._shelf.rings
    price = noise_price(Budget("zcdp", ring.series.price.total), reach)
    law = window_law(price, 4, 1, 1)
    assert ring.next_law(db.size).variance == pytest.approx(law.variance / reach**2)
    assert ring.view(0).law.variance == pytest.approx(law.variance / reach**2)
    assert ring.sum_readings([x], 0)[0].value == pytest.approx(600.0)
    assert ring.view(0).sums([ring.reduced(x)]) == pytest.approx([60 * (reach + 1) + 600])


# -- readings ----------------------------------------------------------------------------------------------------------


def shares(ring: Ring, both: bool) -> float:
    """The share of beta for one estimate of the series; counts and sums have half of it each."""
    series = ring.series
    share = theory.estimate_share(BETA, ring.number + 1, series.leaf, len(series.boundaries))
    return share / 2 if both else share


@KINDS
def test_sums_with_their_margins_and_errors(kind: Any) -> None:
    """Half of the share for the registered questions, half for all unions; whichever is smaller."""
    grown = Grown(kind, 3000, 500)
    ring, part = grown.summing, shares(grown.summing, kind == "zcdp") / 2
    for since, leaf in begun(ring, 3500, 2).items():
        law = expected_law(ring, kind, leaf, 2)
        for query, groups in ((X, 1), (X | Y, 2), (~X, 2), (Query.all(SCHEMA), 3)):
            (told,) = ring.sum_readings([query], since)
            assert told.value == pytest.approx(grown.truth(query, since)[1], abs=1e-6)
            plain = ((1.0, groups),)
            assert told.margin == pytest.approx(theory.margin(law, plain) * ROUNDING, rel=1e-9)
            assert told.wide == pytest.approx(theory.margin(law, plain, 0.975) * ROUNDING, rel=1e-9)
            error = union_radius(law.cell, 3, groups, part)
            if ring.reduced(query) in ring._registered:
                error = min(error, theory.registered_radius(law, plain, 3, part))
            assert told.error == pytest.approx(error * ROUNDING, rel=1e-9)
    several = ring.sum_readings([X | Y, X, Query.all(SCHEMA)], 0)
    assert several == [ring.sum_readings([query], 0)[0] for query in (X | Y, X, Query.all(SCHEMA))]
    assert several[1].error < several[0].error


@KINDS
def test_counts_with_their_margins_and_errors(kind: Any) -> None:
    grown = Grown(kind, 3000, 500, 400)
    ring, part = grown.counting, shares(grown.counting, kind == "zcdp") / 2
    for since, leaf in begun(ring, 3900, 3).items():
        law, rows = expected_law(ring, kind, leaf, 3), 3900 - since
        view = ring.view(since)
        assert ring.view(since) is view
        assert (view.size, len(view.counts)) == (rows, 3)
        same_law(view.law, law)
        limits = bound(view.law, (3,), part)
        for query, chosen in ((X, 1), (X | Y, 2)):
            (told,) = ring.readings([query], view)
            centred = ((1 - chosen / 3, chosen), (chosen / 3, 3 - chosen))
            assert told.value == pytest.approx(grown.truth(query, since)[0] / rows, abs=1e-9)

            def share(number: float, rows: int = rows) -> float:
                return number * (1 + 2.0**-20) / rows + 2.0**-30

            assert told.margin == pytest.approx(share(theory.margin(law, centred)), rel=1e-9)
            assert told.wide == pytest.approx(share(theory.margin(law, centred, 0.975)), rel=1e-9)
            error = float(limits.radius([ring.reduced(query)])[0])
            if ring._is_registered(ring.reduced(query)):
                error = min(error, theory.registered_radius(view.law, centred, 3, part))
            assert told.error == pytest.approx(share(error), rel=1e-9)
            assert view.radii([ring.reduced(query)]) == pytest.approx(limits.radius([ring.reduced(query)]) * ROUNDING)
    ring.clear()
    assert (ring.views, ring.totals) == ({}, {})


@KINDS
def test_a_series_as_it_is_shown(kind: Any) -> None:
    """The margin is that of one group, of the counts if there are any, now or when it is next asked."""
    grown = Grown(kind, 3000)
    for ring in {grown.summing, grown.counting}:
        sums = ring.series.sums
        centred = ((2 / 3, 1), (1 / 3, 2)) if ring.counted else ((1.0, 1),)
        for size, leaf in ((3000, 1), (3001, 2)):
            shown = ring.described(SCHEMA, size)
            assert (shown.attributes, shown.groups, shown.answers, shown.size) == (("a",), 3, 1, 3000)
            assert shown.price == float(ring.series.price.total)
            assert shown.margin == pytest.approx(theory.margin(expected_law(ring, kind, 1, leaf), centred), rel=1e-9)
            assert shown.sums == (None if sums is None else "k")


def test_estimates_of_trees_cannot_be_written_to() -> None:
    """They are kept, and read again."""
    grown = Grown("pure", 3000, 500, 200)
    for ring in (grown.summing, grown.counting):
        for since in ring.series.boundaries:
            assert not ring.series.window(since).counts.flags.writeable


# -- noise drawn anew --------------------------------------------------------------------------------------------------


def by_groups(drawn: npt.NDArray[np.float64], query: Query, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Group after group."""
    total = np.zeros(len(drawn))
    for group in range(drawn.shape[1]):
        codes = np.unravel_index(group, shape)
        weight = query.weights()[tuple(codes[each] for each in query.attributes)] / query.scale
        total += float(weight) * drawn[:, group]
    return total


def noise_of(rings: Rings, items: list[Item], sources: list[Source] | None = None) -> Floats:
    """Fifty draws of the noise of some items, of all series or of these."""
    drawing = noise_in(rings, items) if sources is None else rings.drawing(items, sources)
    return drawing.draw(nothing(len(items)), 50)


def nothing(number: int) -> list[Estimate]:
    """Released numbers, all 0."""
    return [Estimate(0.0, 0.0, 0.0)] * number


@KINDS
def test_noise_is_that_of_the_groups_of_a_query(kind: Any) -> None:
    db = TestDatabase(SCHEMA, cells(4000))
    rings = Rings(db, 2.0, 1e-6 if kind == "zcdp" else 0.0, BETA)
    queries = [X & Query.where(SCHEMA, k=3), Y, Query.where(SCHEMA, k=[2, 5]), (X & Query.where(SCHEMA, k=[1, 2])) | Y]
    rings.ask_many(queries)
    (ring,) = rings._shelf.rings
    shape, view = ring._classes.shape, ring.view(0)
    drawn = group_noise(view.law, 50, math.prod(shape), f"counts of series 0 {digest(nothing(5))}")
    centred = drawn - drawn.mean(axis=1)[:, None]
    found = noise_of(rings, [Item("count", query) for query in (Query.all(SCHEMA), *queries)])
    assert found.shape == (50, 5)
    assert not found[:, 0].any()
    for place, query in enumerate(queries, start=1):
        np.testing.assert_allclose(found[:, place], by_groups(centred, ring.reduced(query), shape), atol=1e-9)


@KINDS
def test_noise_of_sums_is_not_centred(kind: Any) -> None:
    grown = Grown(kind, 3000)
    ring = grown.summing
    drawn = group_noise(expected_law(ring, kind, 1, 1), 50, 3, f"sums of series 0 {digest(nothing(3))}")
    queries = [X, ~X, Query.all(SCHEMA)]
    found = noise_of(grown.rings, [Item("sum", query, 1) for query in queries])
    for place, groups in enumerate(([0], [1, 2], [0, 1, 2])):
        np.testing.assert_allclose(found[:, place], drawn[:, groups].sum(axis=1), rtol=1e-9)


@KINDS
def test_each_release_has_draws_of_its_own(kind: Any) -> None:
    rings = Rings(TestDatabase(SCHEMA, cells(4000)), 2.0, 1e-6 if kind == "zcdp" else 0.0, BETA)
    rings.ask_many([X, Y])
    drawing = noise_in(rings, [Item("count", X), Item("count", Y)])
    first, same, other = (
        drawing.draw([Estimate(7.0, 0.0, 9.0, reading=reading), Estimate(None, 0.0, 9.0)], 50)
        for reading in (7.25, 7.25 + 1e-12, 7.5)
    )
    assert np.array_equal(first, same)
    assert not np.isclose(first, other).any(axis=1).all()
    assert abs(np.corrcoef(first[:, 0], other[:, 0])[0, 1]) < 0.7


# -- several series ----------------------------------------------------------------------------------------------------


def test_weights_are_inverse_variances_or_the_best_one() -> None:
    assert weights_of([1.0, 4.0], "zcdp") == pytest.approx([0.8, 0.2])
    assert weights_of([2.0, 2.0, 1.0], "zcdp") == pytest.approx([0.25, 0.25, 0.5])
    assert weights_of([4.0, 1.0, 2.0], "pure") == [0.0, 1.0, 0.0]
    assert weights_of([1.0, 1.0], "pure") == [1.0, 0.0]


def test_readings_are_combined() -> None:
    one, other = Reading(10.0, 3.0, 9.0, 4.0), Reading(20.0, 1.5, 5.0, 2.0)
    both = combined([(one, 4.0), (other, 1.0)], "zcdp")
    assert both == pytest.approx((18.0, math.hypot(0.6, 1.2), 0.2 * 9 + 0.8 * 5, math.hypot(0.8, 1.6)))
    assert combined([(one, 4.0), (other, 1.0)], "pure") == other
    assert combined([(one, 1.0), (other, 4.0)], "pure") == one
    assert combined([(one, 4.0)], "zcdp") == one


@KINDS
def test_sharp_enough_is_as_sharp_as_wished(kind: Any) -> None:
    """To a millionth: precisions of several series add up under zCDP, the best one counts under a pure promise."""
    small, large = single(kind, Fraction(1), GROUPS), single(kind, Fraction(4), GROUPS)
    sums = sums_of(SCHEMA, 1, counts=kind == "zcdp")
    centred, plain = ((2 / 3, 1), (1 / 3, 2)), ((1.0, 1),)
    pair = [single(kind, Fraction(1), GROUPS, sums), single(kind, Fraction(4), GROUPS, sums)]
    for test, rings, weights in ((sharp, [small, large], centred), (sharp_sum, pair, plain)):
        first, second = (theory.margin(ring.next_law(100), weights) for ring in rings)
        both = 1 / math.sqrt(first**-2 + second**-2) if kind == "zcdp" else min(first, second)
        for listed, margin in ((rings[:1], first), (rings[1:], second), (rings, both), (rings[::-1], both)):
            assert test(X, listed, 100, margin, None)
            assert test(X, listed, 100, margin * (1 - 5e-7), None)
            assert not test(X, listed, 100, margin * (1 - 2e-6), None)
            assert not test(X, listed, 100, margin / 3, None)
            assert test(X, listed, 100, margin * 3, None)
            assert test(X, listed, 100, None, None)
        assert not test(X, [], 100, None, None)
        assert not test(X, [], 100, 1e9, None)


def test_several_series_about_one_sum_are_told_together() -> None:
    """Without noise the values agree; margins are those of the precisions' sum. So is the noise that is drawn."""
    grown = Grown("zcdp", 30_000)
    request = Request.of(SCHEMA, [Sum("k"), Mean("k")], ["a"])
    (first,) = grown.rings._shelf.rings
    margin = first.sum_readings([X], 0)[0].margin
    grown.rings.release(request, within=margin / 2)
    _, second = grown.rings._shelf.rings
    told = estimates_of(grown.rings, [Item("sum", X, 1)])[0]
    one, two = (ring.sum_readings([X], 0)[0] for ring in (first, second))
    weight = two.margin**2 / (one.margin**2 + two.margin**2)
    assert told.margin == pytest.approx(math.hypot(weight * one.margin, (1 - weight) * two.margin), rel=1e-6)
    assert told.error == pytest.approx(weight * one.error + (1 - weight) * two.error, rel=1e-6)
    assert told.value == pytest.approx(grown.truth(X)[1], abs=1e-6)
    for item in (Item("sum", X, 1), Item("count", X)):
        sources = noise_in(grown.rings, [item]).sources
        assert [source.series for source in sources] == [0, 1]
        one_by_one = [noise_of(grown.rings, [item], [source])[:, 0] for source in sources]
        both = weight * one_by_one[0] + (1 - weight) * one_by_one[1]
        np.testing.assert_allclose(noise_of(grown.rings, [item])[:, 0], both, rtol=1e-5, atol=1e-9)
