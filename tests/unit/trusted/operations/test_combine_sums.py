"""Sums from the kernel: exact integers plus noise, charged by what a row can move them, or refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import transparent
from support.kept_rows import Away
from treering.budget.promise import Budget
from treering.domain.axis import Scalar
from treering.domain.groups import Groups
from treering.domain.sums import Sums, sums_of
from treering.gate import Ones, Root, Span
from treering.noise import Gaussian, Laplace
from treering.trusted import pricing

SCHEMA = tr.Schema(
    {
        "a": tr.categories("x", "y"),
        "fare": tr.numbers(0, 10, step=0.5, edges=[0, 5, 10]),
        "k": tr.integers(0, 4, other=True, missing=True),
        "b": tr.bins([0, 1, 2]),
    }
)
FARE, K = sums_of(SCHEMA, 1, counts=True), sums_of(SCHEMA, 2, counts=False)
FLOAT: Any = 20.0
BY_A = Groups.marginal(SCHEMA, ["a"])
PLENTY = Budget("zcdp", Fraction(10**9))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.sampled_from(["x", "y"]),
            "fare": st.none() | st.floats(-5, 15) | st.sampled_from([float("inf"), float("-inf"), float("nan")]),
            "k": st.none() | st.integers(-2, 6),
            "b": st.just(0.5),
        }
    ),
    min_size=1,
    max_size=12,
)


def units(row: dict[str, Any]) -> tuple[int, int]:
    """u of a row's fare and k, in plain Python."""
    fare, k = row["fare"], row["k"]
    steps = None if fare is None or fare != fare else min(20, max(0, int((min(10, max(0, fare)) / 0.5 + 0.5) // 1)))
    return 0 if steps is None else 2 * steps - 20, 2 * k - 4 if k is not None and 0 <= k <= 4 else 0


@given(ROWS, ROWS, st.integers(-5, 5).filter(bool), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_the_rows_in_each_span(
    first: list[dict[str, Any]], second: list[dict[str, Any]], weight: int, other: int
) -> None:
    db = tr.GrowingDatabase(SCHEMA)
    gate = db.open_gate(PLENTY)
    db.append(first)
    gate.mark()
    db.append(second)
    spans = [Span(0, len(first), weight), Span(len(first), len(first) + len(second), other)]
    listed = [*((row, weight) for row in first), *((row, other) for row in second)]
    with transparent():
        fares = gate.combine(BY_A, spans, Gaussian(1.0), FARE).values
        small = gate.combine(BY_A, spans, Gaussian(1.0), K).values
    for place, group in enumerate("xy"):
        of_group = [(row, times) for row, times in listed if row["a"] == group]
        assert fares[place] == 20 * sum(times for _, times in of_group)
        assert fares[2 + place] == sum(times * units(row)[0] for row, times in of_group)
        assert small[place] == sum(times * units(row)[1] for row, times in of_group)


@given(ROWS, ROWS)
@settings(max_examples=30, deadline=None)
def test_a_segment_of_sums_weighs_its_leaves(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    db = tr.GrowingDatabase(SCHEMA)
    gate = db.open_gate(PLENTY)
    db.append(first)
    gate.begin_segment(BY_A, Gaussian(6000.0), 2**30, sums=FARE)
    with transparent():
        gate.advance(0, [Root(1)])
        db.append(second)
        (root, both) = gate.advance(0, [Root(2), Ones(2)]).values
    for place, group in enumerate("xy"):
        before, now = (sum(units(row)[0] for row in rows if row["a"] == group) for rows in (first, second))
        assert root[2 + place] == 2048 * before + 4096 * now
        assert both[2 + place] == before + now
        assert both[place] == 20 * sum(row["a"] == group for row in first + second)


@pytest.mark.parametrize("groups", [BY_A, Groups.of([tr.Query.where(SCHEMA, a="x")])])
def test_what_sums_cost(groups: Groups) -> None:
    """2R²w²/σ² with counts and without; 2R|w|/s, and 4R|w|/s with counts; never less for one group."""
    for counts in (False, True):
        assert pricing.combining(groups.number, -3, Gaussian(5.0), sums_of(SCHEMA, 1, counts=counts)).rho == Fraction(
            2 * 400 * 9, 25
        )
    assert pricing.combining(groups.number, -3, Laplace(5.0), sums_of(SCHEMA, 1, counts=False)).epsilon == Fraction(
        2 * 20 * 3, 5
    )
    assert pricing.combining(groups.number, -3, Laplace(5.0), sums_of(SCHEMA, 1, counts=True)).epsilon == Fraction(
        4 * 20 * 3, 5
    )


def test_each_span_is_charged_for_its_own_weight_and_nothing_is_read_without_budget() -> None:
    db = TestDatabase(SCHEMA, [0] * 4)
    gate = db.open_gate(Budget("zcdp", Fraction(100)))
    gate.mark()
    db.append_cells([0] * 3)
    event = gate.combine(BY_A, [Span(0, 4, 1), Span(4, 7, 2)], Gaussian(20.0), FARE)
    assert event.cost.rho == 8
    assert [100 - gate.left(position) for position in (1, 4, 5, 7, 8)] == [2, 2, 8, 8, 0]
    touched = db.touched
    with pytest.raises(tr.BudgetExceeded):
        gate.combine(BY_A, [Span(0, 7, 8)], Gaussian(20.0), FARE)
    assert (db.touched, float(gate.left(1))) == (touched, 98.0)


def test_a_segment_of_sums_charges_its_room_and_gives_back_what_it_did_not_use() -> None:
    db = TestDatabase(SCHEMA, [0] * 4)
    gate = db.open_gate(Budget("zcdp", Fraction(100)))
    gate.begin_segment(BY_A, Gaussian(20.0), 9, sums=FARE)
    assert gate.advance(0, [Ones(1)]).cost.rho == 18
    assert gate.left(4) == 82
    gate.end_segment(0)
    assert gate.left(4) == 98
    again = TestDatabase(SCHEMA, [0] * 4, db.journal)
    assert again.open_gate(Budget("zcdp", Fraction(100))).left(4) == 98


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"scalar": Scalar("a", "text")}, "'a' has no sums"),
        ({"scalar": Scalar("fare", "integer")}, "values of this type are not kept of the column 'fare'"),
        ({"scalar": Scalar("else", "number")}, "values of this type are not kept of the column 'else'"),
        ({"scalar": "fare"}, "a scalar must be a Scalar"),
        ({"grid": replace(FARE.grid, steps=19)}, "more steps between its bounds than it says"),
        ({"grid": replace(FARE.grid, step=0.25)}, "more steps between its bounds than it says"),
        ({"grid": replace(FARE.grid, steps=FLOAT)}, "a Grid, of floats and a number of steps"),
        ({"grid": replace(FARE.grid, low=0)}, "a Grid, of floats and a number of steps"),
        ({"grid": replace(FARE.grid, steps=0)}, "a Grid, of floats and a number of steps"),
        ({"grid": replace(FARE.grid, step=0.0)}, "finite bounds and a positive step"),
        ({"grid": replace(FARE.grid, high=math.inf)}, "finite bounds and a positive step"),
        ({"grid": replace(FARE.grid, low=11.0)}, "finite bounds and a positive step"),
        ({"grid": None}, "a Grid, of floats"),
        ({"counts": 1}, "sums are Sums"),
        ({"clipped": None}, "sums are Sums"),
    ],
)
@pytest.mark.parametrize("subclass", [False, True])
def test_rejects_sums_whose_reach_nothing_bounds(given: dict[str, Any], problem: str, subclass: bool) -> None:
    class Mine(Sums):
        """Could say something else each time."""

    fields = (FARE.scalar, FARE.grid, FARE.clipped, FARE.counts)
    sums, problem = (Mine(*fields), "sums are Sums") if subclass else (replace(FARE, **given), problem)
    db = TestDatabase(SCHEMA, [0] * 4)
    gate = db.open_gate(PLENTY)
    with pytest.raises(tr.QueryError, match=problem):
        gate.combine(BY_A, [Span(0, 4, 1)], Gaussian(1.0), sums)
    with pytest.raises(tr.QueryError, match=problem):
        gate.begin_segment(BY_A, Gaussian(1.0), 1, sums=sums)
    assert (db.touched, float(gate.spent)) == (0, 0.0)


def test_sums_beyond_64_bits_are_refused_on_public_values() -> None:
    schema = tr.Schema({"far": tr.numbers(0, 2**20)})
    db = TestDatabase(schema)
    db.rows.add_elsewhere(Away(np.array([0]), np.array([2**30])), 2**30)
    gate = db.open_gate(PLENTY)
    far, groups = sums_of(schema, 0, counts=True), Groups.marginal(schema, ["far"])
    with pytest.raises(tr.ParameterError, match=r"weight times rows \(times steps\) reaches 2\^61"):
        gate.combine(groups, [Span(0, 2**30, 2**11)], Gaussian(2.0**40), far)
    with transparent():
        event = gate.combine(groups, [Span(0, 2**30, 2**11 - 1)], Gaussian(2.0**40), far)
        assert event.values[0] == (2**11 - 1) * 2**50
    gate.begin_segment(groups, Gaussian(2.0**40), 2**30, sums=far)
    with pytest.raises(tr.ParameterError, match=r"weight times rows \(times steps\) reaches 2\^61"):
        gate.advance(0, [Root(1)])
    with pytest.raises(tr.DataError, match="rows times steps must stay below"):
        db.rows.add_elsewhere(Away(np.array([0]), np.array([2**41])), 2**41)
