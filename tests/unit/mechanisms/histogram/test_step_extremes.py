"""Steps at the ends of what floats can hold: factors that would be infinite, factors that are nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.dense_histogram import cells_of
from support.random_queries import SCHEMA
from treering.arrays import Floats
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.step import Step, _falling_root, projection, tilting

QUERY = Query.where(SCHEMA, origin="JFK")
TEN = Schema({"x": integers(0, 9)})
WEIGHTED = Query.weighted(TEN, np.arange(10) / 9)


@pytest.mark.parametrize("factor", [math.inf, math.nan, -1e-300, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_a_step_has_finite_factors_that_are_not_negative(factor: float, place: int) -> None:
    factors = [1.0, 1.0]
    factors[place] = factor
    with pytest.raises(ParameterError, match="factors must be finite and not negative"):
        Step(QUERY, tuple(factors), 1.0, 0.0)


@pytest.mark.parametrize("factors", [(0.0, 1.0), (1.0, 0.0), (1e308, 5e-324)])
def test_a_factor_may_be_nothing_or_large(factors: tuple[float, float]) -> None:
    assert Step(QUERY, factors, 1.0, 0.0).factors == factors


@pytest.mark.parametrize("factors", [(1.0,), (1.0, 1.0, 1.0)])
def test_a_counting_step_has_two_factors(factors: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError, match="of a counting query must be two"):
        Step(QUERY, factors, 1.0, 0.0)


@pytest.mark.parametrize("masses", [(5e-324, 1.0), (1.0, 5e-324)])
def test_a_block_of_next_to_no_mass_gives_no_infinite_factor(masses: tuple[float, float]) -> None:
    spectrum = np.array([0.0, 1.0]), np.array(masses)
    with pytest.raises(ParameterError, match="factors must be finite"):
        projection(QUERY, spectrum, 0.5)


# -- factors that are nothing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("before", ["nothing", "a step", "a step and growth"])
@pytest.mark.parametrize("rate", [800.0, 1e4, 1e300])
def test_a_side_whose_factor_underflows_leaves_a_histogram(before: str, complement: bool, rate: float) -> None:
    """e^-800 is no float: one side's factor is 0. The histogram stays one, and can be moved on."""
    hypothesis = Hypothesis(SCHEMA)
    if before != "nothing":
        hypothesis.project(QUERY, 0.4)
    if before == "a step and growth":
        hypothesis.grow(0.1)
    step = hypothesis.exponential_step(QUERY, rate, complement=complement)
    assert step.factors[0 if complement else 1] == 0
    hypothesis.apply(step)
    assert hypothesis.answer(QUERY) == pytest.approx(1.0 if complement else 0.0, abs=1e-12)
    cells = cells_of(hypothesis)
    assert cells.min() > 0
    assert math.fsum(cells.flat) == pytest.approx(1, abs=1e-12)
    hypothesis.grow(0.5)
    hypothesis.project(QUERY, 0.25)
    assert hypothesis.answer(QUERY) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("rate", [-1e300, -1e4, 1e4, 1e300])
def test_a_weighted_step_at_any_rate_keeps_the_mass(rate: float) -> None:
    masses: Floats = np.full(10, 0.1)
    step = tilting(WEIGHTED, (np.arange(10) / 9, masses), rate)
    assert float(np.array(step.factors) @ masses) == pytest.approx(1, abs=1e-12)
    assert step.factors[0 if rate > 0 else -1] == pytest.approx(10)
    assert step.log_normaliser == pytest.approx(math.log(0.1) - (0.0 if rate > 0 else rate))


@pytest.mark.parametrize("target", [1e-250, 1e-9, 0.5, 1 - 1e-9])
def test_a_rate_is_found_where_a_guess_leaves_nothing(target: float) -> None:
    """Masses so far apart that one end vanishes beside the other."""
    for masses in ([1e-280] * 5 + [0.2] * 5, [0.2] * 5 + [1e-280] * 5):
        values, given = np.arange(10) / 9, np.array(masses)
        step = projection(WEIGHTED, (values, given), target)
        reached = float((np.array(step.factors) * given) @ values)
        assert reached == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize("start", [10.0, -10.0])
def test_where_newtons_method_creeps_the_root_is_found_by_halves(start: float) -> None:
    """A slope that looks a hundred times as steep as it is: each step of Newton's goes one per cent of the way."""
    asked: list[float] = []

    def excess(rate: float) -> tuple[float, float]:
        asked.append(rate)
        return start - 0.01 * rate, 1.0

    assert _falling_root(excess) == pytest.approx(100 * start, abs=1e-9)
    assert len(asked) < 100
