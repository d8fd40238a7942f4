"""The search for a rate: Newton's method needs the right slope to be fast, and bisection takes over where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from treering.arrays import Floats
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.mechanisms.histogram import step as module
from treering.mechanisms.histogram.step import Step, _falling_root, _rate, projection, tilting

Excess: TypeAlias = Callable[[float], tuple[float, float]]

FOUR = Schema({"x": integers(0, 3)})
WEIGHTED = Query.weighted(FOUR, [0.25, 0.375, 0.5, 0.75])
VALUES: Floats = np.array([0.25, 0.375, 0.5, 0.75])
MASSES: Floats = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.fixture
def excesses(monkeypatch: pytest.MonkeyPatch) -> list[Excess]:
    """The functions whose roots were looked for: all are 7."""
    found: list[Excess] = []

    def root(excess: Excess) -> float:
        found.append(excess)
        return 7.0

    monkeypatch.setattr(module, "_falling_root", root)
    return found


@pytest.mark.parametrize("rate", [-40.0, -3.0, -0.5, 0.0, 0.5, 3.0, 40.0])
def test_the_excess_is_in_log_odds_and_its_slope_is_its_derivative(rate: float, excesses: list[Excess]) -> None:
    assert _rate(VALUES, MASSES, 0.6) == 14.0, "per spread of the values, which is one half"
    (excess,) = excesses
    tilted = MASSES * np.exp(-rate * (VALUES - 0.25) / 0.5)
    odds = math.log(float(tilted @ (VALUES - 0.25)) / float(tilted @ (0.75 - VALUES))) - math.log(0.35 / 0.15)
    value, slope = excess(rate)
    assert value == pytest.approx(odds, abs=1e-12)
    assert slope == pytest.approx((excess(rate - 1e-5)[0] - excess(rate + 1e-5)[0]) / 2e-5, rel=1e-5)


@pytest.mark.parametrize(("rate", "side"), [(1e6, -math.inf), (-1e6, math.inf)])
def test_an_end_that_vanishes_is_infinitely_far(rate: float, side: float, excesses: list[Excess]) -> None:
    _rate(VALUES, MASSES, 0.6)
    assert excesses[0](rate) == (side, 0.0)


@pytest.mark.parametrize("target", [0.2501, 0.3, 0.5, 0.575, 0.7, 0.7499])
def test_the_mean_meets_its_target_at_the_rate_found(target: float) -> None:
    rate = _rate(VALUES, MASSES, target)
    tilted = MASSES * np.exp(-rate * VALUES)
    assert float(tilted @ VALUES) / float(tilted.sum()) == pytest.approx(target, rel=1e-12)
    step = projection(WEIGHTED, (VALUES, MASSES), target)
    assert step.rate == rate
    assert float((np.array(step.factors) * MASSES) @ VALUES) == pytest.approx(target, rel=1e-12)


# -- roots -------------------------------------------------------------------------------------------------------------


def searched(function: Callable[[float], float], slope: Callable[[float], float]) -> tuple[float, int]:
    """The root, and how often the function was asked."""
    asked: list[float] = []

    def excess(point: float) -> tuple[float, float]:
        asked.append(point)
        assert len(asked) < 500
        return function(point), slope(point)

    return _falling_root(excess), len(asked)


@pytest.mark.parametrize("root", [0.3, -0.3, 5.0, -700.0, 0.0])
def test_a_straight_line_takes_one_guess(root: float) -> None:
    found, asked = searched(lambda point: 0.7 * (root - point), lambda _: 0.7)
    assert found == pytest.approx(root, abs=1e-13)
    assert asked <= 8


@pytest.mark.parametrize("root", [0.3, -2.0, 9.0])
def test_a_curve_takes_a_few(root: float) -> None:
    found, asked = searched(lambda point: math.atan(root) - math.atan(point), lambda point: 1 / (1 + point * point))
    assert found == pytest.approx(root, rel=1e-12)
    assert asked <= 20


@pytest.mark.parametrize("root", [0.3, -2.0, 9.0])
@pytest.mark.parametrize("slope", [0.0, -1.0, 1e-9, 1e9])
def test_a_slope_that_is_no_use_leads_to_halves(root: float, slope: float) -> None:
    found, asked = searched(lambda point: 0.25 * (root - point), lambda _: slope)
    assert found == pytest.approx(root, abs=1e-12)
    assert asked < 150


def test_a_jump_over_the_root_ends_where_floats_end() -> None:
    """Where no point has an excess of nothing, the search stops at two neighbours."""
    found, asked = searched(lambda point: 1.0 if point < 0.7 else -1.0, lambda _: 0.0)
    assert found == pytest.approx(0.7, rel=1e-15)
    assert asked < 300


def test_a_root_at_the_start_is_found_at_once() -> None:
    assert searched(lambda point: -point, lambda _: 1.0) == (0.0, 3)


# -- steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flip", [False, True])
def test_the_mass_is_one_however_far_a_step_moves_it(flip: bool) -> None:
    """From one end to another that has hardly any: exponents of hundreds have errors that show in the last digits."""
    tiny = 1e-290
    masses = np.array([1.0, tiny, tiny, tiny])
    values, rate = (np.array([0.0, 0.2, 0.7, 1.0]), -1337.0)
    if flip:
        masses, rate = masses[::-1].copy(), 1337.0
        values = 1 - values[::-1]
    query = Query.weighted(FOUR, values)
    step = tilting(query, (values, masses), rate)
    assert math.fsum(np.array(step.factors) * masses) == pytest.approx(1, abs=3e-16)
    assert step.rate == rate


@pytest.mark.parametrize("rate", [-5.0, -0.25, 0.25, 5.0])
def test_a_tilt_is_by_its_definition(rate: float) -> None:
    normaliser = float(MASSES @ np.exp(-rate * VALUES))
    step = tilting(WEIGHTED, (VALUES, MASSES), rate)
    assert step.factors == pytest.approx(np.exp(-rate * VALUES) / normaliser, rel=1e-12)
    assert step.log_normaliser == pytest.approx(math.log(normaliser), rel=1e-12)
    assert step.change(0.4) == pytest.approx(rate * 0.4 + math.log(normaliser), rel=1e-12)


@pytest.mark.parametrize("target", [0.2, 0.6, 0.9])
def test_a_counting_step_is_by_its_definition(target: float) -> None:
    query = Query.where(FOUR, x=3)
    step = projection(query, (np.array([0.0, 1.0]), np.array([0.6, 0.4])), target)
    outside, inside = (1 - target) / 0.6, target / 0.4
    assert step == Step(query, (outside, inside), math.log(outside) - math.log(inside), -math.log(outside))
    tilt = tilting(query, (np.array([0.0, 1.0]), np.array([0.6, 0.4])), step.rate)
    assert tilt.factors == pytest.approx(step.factors, rel=1e-12)
    assert tilt.log_normaliser == pytest.approx(step.log_normaliser, rel=1e-12)
