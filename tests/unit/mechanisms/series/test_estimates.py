"""Sums, averages and quantiles by rings: right but for small noise, one price for a batch, kept current, refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import estimates_of, noise_in, request_price
from support.rings import is_quote
from treering.domain.language.items import Item
from treering.domain.language.measures import Count, Mean, Measure, Quantile, Request, Sum
from treering.domain.sums import Grid
from treering.mechanisms.series.estimates import Cells, average, bounds, count, mean, quantile, summed
from treering.mechanisms.series.view import Reading
from treering.theory.continual import Law

SCHEMA = tr.Schema(
    {
        "a": tr.categories("x", "y", "z"),
        "fare": tr.numbers(-20, 80, step=0.5, edges=range(-20, 81, 4)),
        "k": tr.integers(1, 9, other=True, missing=True),
        "b": tr.bins([0, 1, 2, 5, 10]),
        "one": tr.integers(0, 4),
    }
)
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
PLENTY = 1e9


def rows(number: int = 3_000, seed: int = 1) -> pa.Table:
    generator = np.random.default_rng(seed)
    fare = generator.normal(20, 25, number)
    fare[generator.random(number) < 0.1] = np.nan
    k = generator.integers(-1, 12, number)
    return pa.table(
        {
            "a": generator.choice(["x", "y"], number),
            "fare": fare,
            "k": pa.array(k, mask=generator.random(number) < 0.1),
            "b": generator.random(number) * 9.9,
            "one": generator.integers(0, 5, number),
        }
    )


def made(
    delta: float, epsilon: float = PLENTY, number: int = 3_000, **options: Any
) -> tuple[tr.GrowingDatabase, tr.Rings]:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(rows(number))
    return db, tr.Rings(db, epsilon, delta, 1e-9, **options)


def truth(table: pa.Table, measure: Measure, group: str | None) -> float:
    """The measure on the rows themselves, as it is defined."""
    frame = table.to_pandas()
    if group is not None:
        frame = frame[frame["a"] == group]
    if isinstance(measure, Count) and measure.column is None:
        return len(frame)
    values = frame[measure.column or ""].dropna().to_numpy(float)
    if measure.column == "fare":
        values = np.floor((np.clip(values, -20, 80) + 20) / 0.5 + 0.5) * 0.5 - 20
    elif measure.column == "k" and isinstance(measure, Sum | Mean):
        values = values[(values >= 1) & (values <= 9)]
    if isinstance(measure, Count):
        return len(values)
    if isinstance(measure, Quantile):
        return float(np.quantile(values, measure.level))
    return float(values.sum() if isinstance(measure, Sum) else values.mean())


MEASURES: list[Measure] = [
    *(Count(), Count("fare"), Count("k"), Sum("fare"), Mean("fare"), Sum("k"), Mean("k"), Sum("one"), Mean("one")),
    *(Mean("b"), Quantile("fare", 0.5), Quantile("k", 0.25), Quantile("b", 0.9), Quantile.least("fare")),
]


@KINDS
@pytest.mark.parametrize("where", [None, "b < 2 OR one = 3"])
def test_every_measure_holds_the_truth_and_is_sharp_if_there_is_budget(delta: float, where: str | None) -> None:
    db, rings = made(delta)
    table = rows()
    if where is not None:
        frame = table.to_pandas()
        table = pa.Table.from_pandas(frame[(frame["b"] < 2) | (frame["one"] == 3)], preserve_index=False)
    release = rings.release(Request.of(SCHEMA, MEASURES, ["a"], where))
    for group, estimates in zip("xyz", release.rows, strict=True):
        for measure, found in zip(MEASURES, estimates, strict=True):
            if group == "z":  # It is empty.
                assert not isinstance(measure, Count | Sum) or abs(found.value or 0) < 2
                continue
            wanted = truth(table, measure, group)
            assert found.low - 0.6 <= wanted <= found.high + 0.6, (measure, found, wanted)
            assert found.value is not None
            wide = {Mean("b"): 4.0, Quantile("fare", 0.5): 8.0, Quantile("b", 0.9): 5.0, Quantile.least("fare"): 8.0}
            assert abs(found.value - wanted) < wide.get(measure, 1.5 if isinstance(measure, Sum | Count) else 1.01)
    assert release.size == db.size


@KINDS
def test_one_quote_one_price_and_then_free(delta: float) -> None:
    db, rings = made(delta, 1.0, 30_000)
    request = Request.of(SCHEMA, [Count(), Sum("fare"), Mean("fare"), Mean("one")], ["a"])
    quoted = request_price(rings, request)
    assert rings.spent == 0
    first = rings.release(request)
    charged = rings._gate.budget.total - rings._gate.left(1)
    assert is_quote(quoted, charged)
    # Counts come free with sums under zCDP, and not under a pure promise.
    assert [each.sums for each in rings.series] == (["fare", "one"] if delta else ["fare", "one", None])
    assert request_price(rings, request) == 0
    assert rings.release(request) == first
    assert request_price(rings, Request.of(SCHEMA, [Mean("fare")])) == 0
    db.append(rows(500, 2))
    assert request_price(rings, request) == quoted
    later = rings.release(request)
    assert (later.size, rings._gate.budget.total - rings._gate.left(1)) == (30_500, charged)
    assert is_quote(quoted, rings._gate.budget.total - rings._gate.left(30_500))


def test_a_wish_is_met_and_no_more_is_paid() -> None:
    """Within 300 rows: of the count, and of the sum in rows of which each adds half of the range."""
    _, rings = made(1e-6, 1.0, 30_000)
    request = Request.of(SCHEMA, [Count("fare"), Sum("fare")], ["a"])
    price = request_price(rings, request, within=300)
    assert price == pytest.approx(2 * 1.96**2 / 300**2, rel=1e-3)
    release = rings.release(request, within=300)
    for number, total in release.rows:
        assert number.high - number.low <= 602
        # The middle of the range is 30, half of it 50.
        assert total.margin is not None
        assert total.margin <= 300 * math.hypot(50, 30) * (1 + 1e-6)
        assert total.margin >= 290 * 50
    assert request_price(rings, request, within=300) == 0
    assert request_price(rings, request, within=150) > price
    with pytest.raises(tr.BudgetExceeded, match="with all that is left a margin of"):
        rings.release(request, within=1)


def test_several_series_about_one_sum_are_combined() -> None:
    _, rings = made(1e-6, 1.0, 30_000)
    first = rings.sum("fare", "a = 'x'", within=600)
    second = rings.sum("fare", "a = 'x'", within=300)
    assert len([each for each in rings.series if each.sums]) == 2
    assert first.margin is not None
    assert second.margin is not None
    assert second.margin < 0.55 * first.margin


@KINDS
def test_a_sum_that_a_series_was_begun_for_is_surer_than_later_ones(delta: float) -> None:
    """The same sum, if it had not been registered, would have a larger error."""
    _, rings = made(delta, 1.0, 30_000)
    rings.sum("one", "a = 'x'")
    (ring,), query = (each for each in rings._shelf.rings if each.series.sums), tr.parse("a = 'x'", SCHEMA)
    (registered,) = ring.sum_readings([query], 0)
    ring._registered = frozenset()
    (later,) = ring.sum_readings([query], 0)
    assert (registered.value, registered.margin) == (later.value, later.margin)
    assert registered.error < later.error


@KINDS
def test_noise_that_is_drawn_anew_is_as_wide_as_the_margins_say(delta: float) -> None:
    """Nineteen draws of twenty lie within a margin, for each kind of number. Pure ones are bounds, and rather wide."""
    _, rings = made(delta, 1.0, 30_000)
    x, y = (tr.parse(f"a = '{name}'", SCHEMA) for name in "xy")
    fare, k, b, one = (SCHEMA.names.index(name) for name in ("fare", "k", "b", "one"))
    items = [
        *(Item("sum", y, fare), Item("count", x), Item("quantile", x, k), Item("sum", x, fare), Item("mean", y, b)),
        *(Item("sum", x | y, one), Item("count", x | y)),
    ]
    told = estimates_of(rings, items)
    drawn = noise_in(rings, items).draw(told, 4000)
    assert drawn.shape == (4000, len(items))
    for estimate, noise in zip(told, drawn.T, strict=True):
        assert estimate.margin is not None
        width = float(np.quantile(np.abs(noise), 0.95))
        assert (0.9 if delta else 0.45) * estimate.margin <= width <= 1.1 * estimate.margin
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 3])[0, 1]) < 0.1


def test_a_sum_over_everything_and_over_nothing() -> None:
    _, rings = made(1e-6)
    table = rows()
    everything = rings.sum("one")
    assert everything.value == pytest.approx(truth(table, Sum("one"), None), abs=1)
    assert rings.series[0].groups == 1
    assert rings.mean("one").value == pytest.approx(truth(table, Mean("one"), None), abs=0.01)
    spent = rings.spent
    nothing = rings.sum("one", "a = 'x' AND a = 'y'")
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)
    assert rings.mean("one", "FALSE").value is None
    assert rings.quantile("one", 0.5, "FALSE").value is None
    assert rings.release(Request.of(SCHEMA, [Count()], (), "FALSE")).rows[0][0] == tr.Estimate(0, 0, 0, 0)
    assert rings.spent == spent


def test_counts_are_answered_by_a_series_of_sums() -> None:
    db, rings = made(1e-6)
    rings.mean("fare", "a = 'x'")
    assert rings.price("a = 'x'") == 0
    assert rings.ask("a = 'x'").count == truth(rows(), Count(), "x")
    assert db.size == 3_000


def test_a_table_of_measures() -> None:
    _, rings = made(1e-6)
    table = rings.table(["a"], measures={"n": Count(), "mean": Mean("fare")})
    assert table.column_names == [
        "a",
        "n",
        "n_margin",
        "n_low",
        "n_high",
        "mean",
        "mean_margin",
        "mean_low",
        "mean_high",
    ]
    assert table["n"].to_pylist()[:2] == [truth(rows(), Count(), group) for group in "xy"]
    assert table.column("mean").to_pylist()[0] == pytest.approx(truth(rows(), Mean("fare"), "x"), abs=0.1)


def test_what_cannot_be_had_is_refused_and_nothing_is_spent() -> None:
    db, rings = made(1e-6, 1.0, 40)
    with pytest.raises(tr.GuaranteeError, match="a sum is known within"):
        rings.sum("fare")
    other = tr.Schema({"a": tr.integers(0, 1)})
    with pytest.raises(tr.QueryError, match="another schema"):
        rings.release(Request.of(other, [Count()]))
    with pytest.raises(tr.QueryError, match="holds no numbers"):
        rings.mean("a")
    with pytest.raises(tr.SchemaError, match="no attribute"):
        rings.sum("fair")
    with pytest.raises(tr.ParameterError, match="within"):
        rings.sum("fare", within=-1)
    with pytest.raises(tr.GuaranteeError, match="row"):
        tr.Rings(tr.GrowingDatabase(SCHEMA), 1.0, 1e-6).sum("fare")
    assert (rings.spent, db.size) == (0.0, 40)


def test_a_request_that_nobody_has_checked_is_refused_and_nothing_is_spent() -> None:
    """`Request.of` checks what it makes; who makes one otherwise is refused when it is asked."""
    _, rings = made(1e-6)
    weighted = tr.Query.weighted(SCHEMA, np.full(SCHEMA.cells, 0.5))
    for request in (Request(SCHEMA, (), (), tr.Query.all(SCHEMA)), Request(SCHEMA, (Count(),), (), weighted)):
        for asked in (rings.release, rings.items_of):
            with pytest.raises(tr.QueryError, match="request"):
                asked(request)
    assert (rings.spent, rings.series) == (0.0, ())


def test_the_state_is_the_same_after_replay_of_the_journal() -> None:
    db = TestDatabase(SCHEMA, [7, 8, 9] * 2000)
    first = tr.Rings(db, 100.0, 1e-6, 1e-9)
    request = Request.of(SCHEMA, [Sum("fare"), Mean("one"), Quantile("k", 0.5)], ["a"])
    first.release(request)
    db.append_cells([5] * 1000)
    said = first.release(request)
    second = tr.Rings(db, 100.0, 1e-6, 1e-9)
    assert second.state == first.state
    assert second.release(request) == said
    assert [each.sums for each in second.series] == [each.sums for each in first.series]


# -- the pieces --------------------------------------------------------------------------------------------------------


def reading(value: float, margin: float) -> Reading:
    return Reading(value, margin, 3 * margin, 1.2 * margin)


def test_a_sum_and_an_average_by_hand() -> None:
    grid = Grid.of(SCHEMA.attributes["fare"])  # The middle is 30, half of the range 50.
    assert grid is not None
    found = summed(grid, reading(-100.0, 3.0), reading(1000.0, 4.0), normal=True, size=2000)
    assert found.value == pytest.approx(25_000)
    assert found.margin == pytest.approx(math.hypot(150, 120))
    assert found.error == pytest.approx(50 * 9 + 30 * 12)
    wide = summed(grid, reading(-100.0, 3.0), reading(1000.0, 4.0), normal=False, size=2000)
    assert wide.margin == pytest.approx(50 * 3.6 + 30 * 4.8)
    ratio = mean(grid, reading(-100.0, 3.0), reading(1000.0, 4.0), normal=True)
    assert ratio.value == pytest.approx(25)
    assert ratio.margin == pytest.approx(50 * math.hypot(3.0, 0.1 * 4.0) / 1000, rel=1e-3)
    assert mean(grid, reading(-1.0, 3.0), reading(3.0, 4.0), normal=True) == tr.Estimate(None, -20.0, 80.0)
    assert mean(grid, reading(-1.0, 3.0), reading(4.5, 4.0), normal=False).value is None


def test_a_count_keeps_to_what_is_possible() -> None:
    assert count(reading(-3.4, 5.2), 100) == tr.Estimate(0, 0, 5, 15)
    assert count(reading(99.6, 5.2), 100) == tr.Estimate(100, 95, 100, 16)


def test_the_bounds_of_cells() -> None:
    assert bounds(tr.integers(1, 2, other=True)) == [(1, 1), (1, 1), (2, 2), (2, 2)]
    assert bounds(tr.bins([0, 1, 3], other=True)) == [(-math.inf, 0), (0, 1), (1, 3), (3, math.inf)]
    assert bounds(tr.numbers(-5, 9, edges=[0, 4])) == [(-5, 0), (0, 4), (4, 9)]


def exact(*counts: float) -> Cells:
    none = np.zeros(len(counts))
    return Cells(np.array(counts, dtype=float), [1] * len(counts), len(counts) + 1, Law(0.0), none, none)


def test_a_quantile_is_interpolated_within_its_bin() -> None:
    found = quantile(bounds(tr.bins([0, 10, 20, 30])), 0.5, exact(10, 20, 10))
    assert (found.value, found.low, found.high) == (15.0, 10.0, 20.0)
    outside = quantile(bounds(tr.bins([0, 10], other=True)), 0.5, exact(1, 2, 97))
    assert (outside.value, outside.low, outside.high) == (10.0, 10.0, math.inf)
    assert quantile(bounds(tr.bins([0, 10])), 0.5, exact(0)) == tr.Estimate(None, 0.0, 10.0)


def test_an_average_over_bins_is_as_wide_as_the_bins() -> None:
    found = average(tr.bins([0, 10, 20]), exact(1, 1))
    assert (found.value, found.low, found.high) == (10.0, 5.0, 15.0)
    left_out = average(tr.bins([0, 10, 20], other=True), exact(100, 1, 1, 100))
    assert (left_out.value, left_out.low, left_out.high) == (10.0, 5.0, 15.0)
    assert average(tr.bins([0, 10, 20]), exact(0, 0)) == tr.Estimate(None, 0.0, 20.0)


def test_prices_are_exact_fractions() -> None:
    _, rings = made(1e-6, 1.0, 30_000)
    assert isinstance(request_price(rings, Request.of(SCHEMA, [Sum("fare")])), Fraction)
