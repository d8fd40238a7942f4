"""Losses state constants that hold: each is checked against values and differences, and is not far too large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.arrays import Floats
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, Loss, RobustLogistic, Squared
from treering.domain.problem import Problem

LOSSES: list[Loss] = [
    *(Logistic(), RobustLogistic(), HuberHinge(), HuberHinge(0.1)),
    *(Squared(), Distance(), HuberDistance(0.25)),
]
SMOOTH = [loss for loss in LOSSES if loss.linear]
RADII = [0.5, 1.0, 3.0]


def in_ball(generator: np.random.Generator, rows: int, dimension: int, radius: float) -> Floats:
    """Points of the ball, a third of them on its surface."""
    vectors = generator.normal(size=(rows, dimension))
    lengths = radius * generator.random(rows) ** (1 / dimension)
    lengths[::3] = radius
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * lengths[:, None])


def entries(loss: Loss, generator: np.random.Generator, rows: int, dimension: int) -> tuple[Floats, Floats]:
    features = in_ball(generator, rows, dimension, 1.0)
    if loss.labels == "numbers":
        return features, generator.uniform(-1, 1, rows)
    return features, np.where(generator.random(rows) < 0.5, -1.0, 1.0)


CASES = given(
    seed=st.integers(0, 2**32), loss=st.sampled_from(LOSSES), radius=st.sampled_from(RADII), d=st.integers(1, 4)
)


@CASES
@settings(max_examples=60, deadline=None)
def test_the_lipschitz_constant_bounds_gradients_and_differences(seed: int, loss: Loss, radius: float, d: int) -> None:
    generator = np.random.default_rng(seed)
    features, labels = entries(loss, generator, 60, d)
    here, there = in_ball(generator, 2, d, radius)
    limit = loss.lipschitz(radius)
    assert np.linalg.norm(loss.gradients(here, features, labels), axis=1).max() <= limit * (1 + 1e-12)
    gaps = np.abs(loss.values(here, features, labels) - loss.values(there, features, labels))
    assert gaps.max() <= limit * np.linalg.norm(here - there) + 1e-12


@CASES
@settings(max_examples=60, deadline=None)
def test_values_and_gradients_agree_and_the_loss_is_convex(seed: int, loss: Loss, radius: float, d: int) -> None:
    generator = np.random.default_rng(seed)
    features, labels = entries(loss, generator, 40, d)
    here, there = in_ball(generator, 2, d, radius)
    first = loss.values(here, features, labels) + loss.gradients(here, features, labels) @ (there - here)
    values = loss.values(there, features, labels)
    assert (values >= first - 1e-9).all()
    if math.isfinite(loss.smoothness(radius)):
        rest = loss.smoothness(radius) / 2 * float(np.sum((there - here) ** 2))
        assert (values <= first + rest + 1e-9).all()


@given(seed=st.integers(0, 2**32), loss=st.sampled_from(SMOOTH), radius=st.sampled_from(RADII))
@settings(max_examples=60, deadline=None)
def test_slopes_rise_between_flatness_and_smoothness(seed: int, loss: Loss, radius: float) -> None:
    generator = np.random.default_rng(seed)
    _, labels = entries(loss, generator, 50, 1)
    low, high = np.sort(generator.uniform(-radius, radius, (2, 50)), axis=0)
    rise = loss.slopes(high, labels) - loss.slopes(low, labels)
    assert (rise >= loss.flatness(radius) * (high - low) - 1e-12).all()
    assert (rise <= loss.smoothness(radius) * (high - low) + 1e-12).all()


@CASES
@settings(max_examples=60, deadline=None)
def test_the_range_holds_what_entries_can_do(seed: int, loss: Loss, radius: float, d: int) -> None:
    generator = np.random.default_rng(seed)
    features, labels = entries(loss, generator, 60, d)
    models = in_ball(generator, 5, d, radius)
    low, high = loss.range(np.linalg.norm(models, axis=1))
    moved = loss.values(models.T, features, labels) - loss.values(np.zeros(d), features, labels)[:, None]
    assert (moved >= low - 1e-9).all()
    assert (moved <= high + 1e-9).all()
    widths = np.subtract(*reversed(loss.range(np.linspace(0, radius, 50))))
    assert (np.diff(widths) >= -1e-12).all()


def test_the_constants_are_attained() -> None:
    """Entries that reach the Lipschitz constant and the ends of the range: nothing smaller would do."""
    one, ones = np.ones((1, 1)), np.ones(1)
    for loss, label in ((Logistic(), 1.0), (HuberHinge(), 1.0), (Squared(), 1.0)):
        reached = float(loss.gradients(-ones, one, np.array([label]))[0, 0])
        assert abs(reached) == pytest.approx(loss.lipschitz(1.0), rel=1e-9)
        low, high = loss.range(ones)
        zero = loss.values(np.zeros(1), one, ones)[0]
        assert loss.values(ones, one, ones)[0] - zero == pytest.approx(low[0])
        assert loss.values(-ones, one, ones)[0] - zero == pytest.approx(high[0])
    assert Distance().gradients(ones, -one, ones)[0, 0] == 1


def test_a_rounded_distance_is_a_little_below_the_distance_and_exactly_so_far_away() -> None:
    generator = np.random.default_rng(3)
    features, labels = entries(Distance(), generator, 500, 2)
    features[:100] *= 0.1
    here = np.array([0.05, 0.0])
    plain, rounded = (loss.values(here, features, labels) for loss in (Distance(), HuberDistance(0.25)))
    assert ((plain - rounded >= -1e-12) & (plain - rounded <= 0.125 + 1e-12)).all()
    far = plain > 0.25
    assert 100 < far.sum() < 500
    assert np.allclose(plain[far] - rounded[far], 0.125)
    assert (plain - rounded)[~far].min() < 0.1


def test_regularisation_adds_to_all_three_constants() -> None:
    """Erratum E16: the regularised loss is (L + λ·radius)-Lipschitz."""
    problem = Problem(Squared(), 3, radius=2.0, regularisation=0.5)
    assert problem.lipschitz == pytest.approx(3)
    assert problem.whole_lipschitz == pytest.approx(4)
    assert problem.smoothness == pytest.approx(1.5)
    assert problem.strong_convexity == 0.5


@CASES
@settings(max_examples=30, deadline=None)
def test_risk_and_gradient_weigh_entries_by_counts(seed: int, loss: Loss, radius: float, d: int) -> None:
    generator = np.random.default_rng(seed)
    problem = Problem(loss, d, radius, 0.3)
    features, labels = entries(loss, generator, 8, d)
    counts = generator.integers(1, 5, 8)
    theta = in_ball(generator, 1, d, radius)[0]
    repeated = np.repeat(features, counts, axis=0), np.repeat(labels, counts)
    assert problem.risk(theta, features, labels, counts) == pytest.approx(problem.risk(theta, *repeated))
    slope = problem.gradient(theta, features, labels, counts)
    assert slope == pytest.approx(problem.gradient(theta, *repeated))
    if math.isfinite(problem.smoothness):
        step = 1e-6 * in_ball(generator, 1, d, 1.0)[0]
        rise = problem.risk(theta + step, features, labels, counts) - problem.risk(
            theta - step, features, labels, counts
        )
        assert rise == pytest.approx(2 * float(slope @ step), abs=1e-10)


@pytest.mark.parametrize("width", [0.0, -1.0, 2.0, math.nan])
def test_a_bad_width_is_refused(width: float) -> None:
    with pytest.raises(tr.ParameterError, match="width"):
        HuberHinge(width)


def build(**given: Any) -> Problem:
    return Problem(**given)


@pytest.mark.parametrize(
    ("field", "value"),
    [("dimension", 0), ("radius", 0.0), ("radius", 1e4), ("radius", math.inf), ("regularisation", -1)],
)
def test_a_bad_problem_is_refused(field: str, value: float) -> None:
    given: dict[str, object] = {"loss": Logistic(), "dimension": 2, field: value}
    with pytest.raises(tr.ParameterError, match=field):
        build(**given)


def test_the_robust_loss_is_the_logistic_one_where_it_is_right_and_straight_where_not() -> None:
    features, one = np.linspace(-3, 3, 61).reshape(-1, 1), np.ones(61)
    ours, logistic = (loss.values(np.ones(1), features, one) for loss in (RobustLogistic(), Logistic()))
    right = features[:, 0] >= 0
    np.testing.assert_allclose(ours[right], logistic[right])
    np.testing.assert_allclose(np.diff(ours[~right]), -0.05)


@pytest.mark.parametrize("chance", [0.02, 0.3, 0.5, 0.6, 0.97])
def test_chances_are_those_that_a_prediction_is_best_for(chance: float) -> None:
    """Of a grid of predictions, the one with the least expected loss has nearly this chance."""
    predictions = np.linspace(-8, 8, 16_001)
    loss = RobustLogistic()
    expected = chance * loss.values(np.ones(1), predictions[:, None], np.ones(16_001))
    expected += (1 - chance) * loss.values(np.ones(1), predictions[:, None], -np.ones(16_001))
    best = predictions[[int(expected.argmin())]]
    assert loss.chances(best)[0] == pytest.approx(chance, abs=1e-3)
