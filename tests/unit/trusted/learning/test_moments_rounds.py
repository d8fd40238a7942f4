"""Rounds of noisy moments without their noise: each sum by hand, and each step as it is written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treering.arrays import Floats, Ints
from treering.domain.loss import Squared
from treering.domain.problem import FEATURE_UNIT, NoisyMoments, Problem, Refinement
from treering.errors import ParameterError
from treering.trusted.learning import moments
from treering.trusted.learning.moments import check_refinement, clip_for, fitted, weighted_sum, within
from treering.trusted.learning.points import Entries

LOSS = Squared()
CLIPS = [2.0**power for power in range(-12, 2)]
REFINED = Refinement(2, 3.0, 4.0, 0.5)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise."""
    monkeypatch.setattr(moments, "draw", lambda *asked: np.zeros(asked[2], dtype=np.int64))


def entries(features: Floats, labels: Floats, weights: Ints | None = None) -> Entries:
    size = len(labels) if weights is None else int(weights.sum())
    return Entries(np.rint(features * FEATURE_UNIT), labels, weights, size, None)


def some(rows: int, seed: int = 1, *, weighted: bool = False) -> tuple[Entries, Floats, Floats]:
    """Entries, and their features and labels row by row."""
    generator = np.random.default_rng(seed)
    features = np.rint(generator.uniform(-0.5, 0.5, (rows, 3)) * FEATURE_UNIT) / FEATURE_UNIT
    labels = np.rint(generator.uniform(-1, 1, rows) * FEATURE_UNIT) / FEATURE_UNIT
    if not weighted:
        return entries(features, labels), features, labels
    weights = generator.integers(0, 5, rows)
    return entries(features, labels, weights), np.repeat(features, weights, axis=0), np.repeat(labels, weights)


# -- what a round releases ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("silent")
def test_residuals_are_counted_by_the_least_clip_that_holds_them() -> None:
    labels = np.array([0.0, *CLIPS[:-1], -CLIPS[5], CLIPS[5] * 1.01, -CLIPS[7] * 0.99, 1.0001, -1.5, 3.0])
    given = entries(np.zeros((len(labels), 2)), labels)
    expected = [0] * (len(CLIPS) + 1)
    for label in labels:
        expected[sum(clip < abs(label) for clip in CLIPS)] += 1
    assert moments._noisy_sizes(REFINED, given, np.zeros(2)).tolist() == expected
    weights = np.arange(len(labels))
    found = moments._noisy_sizes(REFINED, entries(np.zeros((len(labels), 2)), labels, weights), np.zeros(2))
    assert found.sum() == weights.sum()
    assert found[-1] == weights[-1]


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("weighted", [False, True])
def test_residuals_are_those_of_the_model(weighted: bool) -> None:
    given, features, labels = some(200, weighted=weighted)
    theta = np.array([0.5, -1.0, 0.25])
    residuals = labels - features @ theta
    counts = np.bincount(np.searchsorted(CLIPS, np.abs(residuals)), minlength=len(CLIPS) + 1)
    assert moments._noisy_sizes(REFINED, given, theta).tolist() == counts.tolist()
    for clip in (2.0, 0.25, 2.0**-8):
        whole = np.clip(np.rint(residuals * FEATURE_UNIT), -clip * FEATURE_UNIT, clip * FEATURE_UNIT)
        exact = whole @ np.rint(features * FEATURE_UNIT) / FEATURE_UNIT**2 / len(labels)
        assert moments._noisy_residuals(REFINED, given, theta, clip) == pytest.approx(exact, rel=1e-14)


def test_weighted_sums_are_exact_where_doubles_are_not() -> None:
    slopes, grid = np.array([2.0**20, -1.0, 1.0]), np.array([[2.0**16, 1.0], [3.0, -5.0], [2.0, 7.0]])
    assert weighted_sum(slopes, None, grid).tolist() == [2**36 - 1, 2**20 + 12]
    weights = np.array([2**24, 1, 2])
    assert weighted_sum(slopes, weights, grid).tolist() == [2**60 - 3 + 4, 2**44 + 5 + 14]
    assert weighted_sum(slopes, weights, grid).dtype == np.int64


# -- the steps ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("allowed", [10.0, 1e-3])
@pytest.mark.parametrize(("regularisation", "ridge"), [(0.0, 0.3), (0.2, 0.1), (0.05, 0.5)])
def test_a_round_is_a_newton_step_from_the_last_model_towards_what_is_allowed(
    regularisation: float, ridge: float, allowed: float
) -> None:
    given, features, labels = some(300)
    problem = Problem(LOSS, 3, 50.0, regularisation)
    start = np.array([1.0, -2.0, 0.5])
    method = NoisyMoments(1.0, ridge, tuple(start.tolist()), Refinement(3, 3.0, 4.0, allowed))
    curved = features.T @ features / 300 + (regularisation + max(ridge, 2.0**-40)) * np.eye(3)
    pulled = labels @ features / 300 + ridge * start
    first = theta = np.linalg.solve(curved, pulled).astype(np.float64)

    def objective(model: Any) -> float:
        return float(model @ curved @ model / 2 - pulled @ model)

    for _ in range(3):
        residuals = labels - features @ theta
        counts = np.bincount(np.searchsorted(CLIPS, np.abs(residuals)), minlength=len(CLIPS) + 1)
        clip = clip_for(counts, 300, 3.0)
        slope = np.clip(residuals, -clip, clip) @ features / 300 - regularisation * theta
        step = np.asarray(theta + np.linalg.solve(curved, slope), dtype=np.float64)
        rise = objective(step) - objective(first)
        theta = first + min(1.0, allowed / max(rise, 2.0**-60)) * (step - first)
    assert fitted(problem, method, given) == pytest.approx(theta, abs=3e-5)
    assert not np.allclose(theta, first, atol=1e-3)


@pytest.mark.usefixtures("silent")
def test_without_rounds_the_model_is_the_first() -> None:
    given, features, labels = some(300)
    found = fitted(Problem(LOSS, 3, 50.0), NoisyMoments(1.0), given)
    assert found == pytest.approx(np.linalg.lstsq(features, labels, rcond=None)[0], abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_of_a_quadratic_function_over_a_ball(seed: int) -> None:
    """Where the ball holds it back, z_j·(s_j + ν) = a_j for one ν, and z has the radius for its norm."""
    generator = np.random.default_rng(seed)
    aim, scales = generator.normal(size=4), generator.uniform(0.01, 3, 4)
    free = aim / scales
    far = float(np.linalg.norm(free))
    assert within(aim, scales, far * 1.01).tolist() == free.tolist()
    for radius in (far * 0.999, far / 2, far / 1e6):
        found = within(aim, scales, radius)
        assert np.linalg.norm(found) == pytest.approx(radius, rel=1e-12)
        pull = aim / found - scales
        assert pull == pytest.approx(np.full(4, pull.mean()), rel=1e-6, abs=1e-9)
        assert pull.min() > 0


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_noise_of_a_round_that_cannot_be_drawn_is_refused() -> None:
    """Counts of residuals have noise of their own scale, sums that of the largest and of the least clip."""
    check_refinement(Refinement(1, 2.0**48, 2.0**15, 1.0), 10)
    with pytest.raises(ParameterError, match="scale times the weight scale must be at most"):
        check_refinement(Refinement(1, 2.0**48 * (1 + 2.0**-50), 2.0**15, 1.0), 10)
    with pytest.raises(ParameterError, match="scale times the weight scale must be at most"):
        check_refinement(Refinement(1, 1.0, 2.0**15 * (1 + 2.0**-50), 1.0), 10)
    check_refinement(Refinement(1, 1.0, 2.0**-1010, 1.0), 10)
    with pytest.raises(ParameterError, match="denormal: too small to be exact"):
        check_refinement(Refinement(1, 1.0, 2.0**-1011, 1.0), 10)


def test_moments_without_any_curvature_have_a_model_all_the_same() -> None:
    flat, problem, method = np.zeros((2, 2)), Problem(LOSS, 2, 3.0), NoisyMoments(1.0)
    assert moments.fit(problem, method, flat, np.zeros(2)).tolist() == [0.0, 0.0]
    assert moments.fit(problem, method, flat, np.array([3.0, -4.0])) == pytest.approx(np.array([1.8, -2.4]), rel=1e-9)
    assert moments.fit(problem, method, -np.eye(2), np.array([3.0, -4.0])) == pytest.approx(np.array([1.8, -2.4]))
