"""What a step promises: its target is met, progress is what it says, and never less than the theory has it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.dense_histogram import cells_of, relative_entropy, values_per_cell
from support.random_queries import SCHEMA, any_query, target_within
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.step import _falling_root

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.floats(0.02, 0.98))
@settings(max_examples=60, deadline=None)
def test_a_projection_comes_closer_to_all_data_beyond_the_target(seed: int, share: float) -> None:
    generator = np.random.default_rng(seed)
    hypothesis = Hypothesis.warm(SCHEMA, generator.random(SCHEMA.cells), 0.1)
    query = any_query(generator, SCHEMA)
    values, before, present = values_per_cell(query), cells_of(hypothesis), hypothesis.answer(query)
    target = target_within(query, share)
    step = hypothesis.project(query, target)
    assert hypothesis.answer(query) == pytest.approx(target, rel=1e-12, abs=0)
    assert (step.rate > 0) == (target < present)
    far = values.min() if target < present else values.max()
    data = generator.dirichlet(np.full(SCHEMA.cells, 0.1)).reshape(SCHEMA.shape)
    extreme = np.where(values == far, 1.0, 0.0)
    mixed = (1 - share) * extreme / extreme.sum() + share * data
    for x in (data, extreme / extreme.sum(), mixed):
        decrease = relative_entropy(x, before) - relative_entropy(x, cells_of(hypothesis))
        answer = float((x * values).sum())
        assert decrease == pytest.approx(-step.change(answer), abs=1e-12)
        if (answer - target) * (target - present) >= 0:
            assert decrease >= binary_divergence(target, present) - 1e-12
            assert decrease >= 2 * (target - present) ** 2 - 1e-12


def binary_divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_a_counting_step_books_the_divergence() -> None:
    hypothesis = Hypothesis(SCHEMA)
    step = hypothesis.plan(Query.where(SCHEMA, month=[1, 2]), 0.7)
    assert step.change(0.7) == pytest.approx(-binary_divergence(0.7, 0.4), rel=1e-12, abs=0)
    assert step.factors == pytest.approx((0.3 / 0.6, 0.7 / 0.4))
    assert hypothesis.steps == 0, "a plan changes nothing"


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_query_and_its_complement_are_one_step(seed: int) -> None:
    generator = np.random.default_rng(seed)
    query = any_query(generator, SCHEMA)
    one, other = Hypothesis(SCHEMA), Hypothesis(SCHEMA)
    target = target_within(query, 0.3)
    first, second = one.project(query, target), other.project(~query, 1 - target)
    assert first.change(0.6) == pytest.approx(second.change(0.4), abs=1e-12)
    np.testing.assert_allclose(cells_of(one), cells_of(other), rtol=1e-11)


def test_weights_that_hardly_differ_are_told_apart() -> None:
    """The rate is of the order of 10^10, and still the masses are right to ten digits."""
    schema = Schema({"a": integers(0, 2)})
    for flip in (False, True):
        hypothesis = Hypothesis(schema)
        weights = np.array([0.5, 0.5 + 2**-30, 1.0])
        query = Query.weighted(schema, 1 - weights if flip else weights, resolution=2**31)
        target = 0.5 + 2**-32
        step = hypothesis.project(query, 1 - target if flip else target)
        assert abs(step.rate) > 1e9
        assert cells_of(hypothesis)[:2] == pytest.approx([0.75, 0.25], rel=1e-10, abs=0)


@pytest.mark.parametrize("share", [1e-15, 1e-9, 0.1, 0.5 - 1e-9, 0.5 + 1e-9, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("middle", [1e-9, 0.5, 1 - 1e-9, 1 - 1e-15])
def test_weighted_targets_are_met_where_newton_alone_fails(share: float, middle: float) -> None:
    """Nearly all mass at one value in the middle: the answer hardly moves, then jumps."""
    schema = Schema({"a": integers(0, 3)})
    ends = (1 - middle) / 3
    hypothesis = Hypothesis.warm(schema, [ends, ends, middle, ends], 1e-30)
    query = Query.weighted(schema, [0.25, 0.3, 0.5, 0.75])
    low, high = 0.25, 0.75
    target = low + share * (high - low)
    step = hypothesis.project(query, target)
    assert hypothesis.answer(query) == pytest.approx(target, rel=1e-12, abs=0)
    assert hypothesis.answer(query) - low == pytest.approx(target - low, rel=1e-3, abs=0)
    assert math.fsum(cells_of(hypothesis)) == pytest.approx(1, abs=1e-12)
    assert math.isfinite(step.change(0.5))


@pytest.mark.parametrize("root", [0.0, 1.0, -1.0, 3.7, -100.0])
def test_a_falling_root_is_found_also_where_it_is_looked_for_first(root: float) -> None:
    """At the start, or at the end of the first stretch: exactly 0 is neither side."""
    calls = 0

    def excess(rate: float) -> tuple[float, float]:
        nonlocal calls
        calls += 1
        assert calls < 1000
        return root - rate, 1.0

    assert _falling_root(excess) == pytest.approx(root, abs=1e-9)
