"""Noisy moments: what a replaced entry does to them, and the model that fits them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.learning import PURE, gate, sample, store
from treering.arrays import Floats
from treering.budget.minimising import BESIDE, MOMENTS, minimising
from treering.domain.loss import HuberHinge, Logistic, Squared
from treering.domain.problem import FEATURE_UNIT, Minimise, NoisyMoments, Problem, Refinement
from treering.noise import Gaussian
from treering.trusted.learning import moments
from treering.trusted.learning.moments import clip_for, fit, refined

LOSS = Squared()


def moved(here: tuple[Floats, float], there: tuple[Floats, float]) -> float:
    """Σ (move/scale)² over all moments that are released, for noise of scale 1: twice what the replaced entry costs."""
    (x, y), (z, w) = here, there
    square = np.outer(x, x) - np.outer(z, z)
    off = square[np.triu_indices(len(x), 1)]
    return float(np.sum(np.diag(square) ** 2) + np.sum((off / float(BESIDE)) ** 2) + np.sum((y * x - w * z) ** 2))


@given(seed=st.integers(0, 2**32), d=st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_a_replaced_entry_moves_the_moments_by_no_more_than_stated(seed: int, d: int) -> None:
    generator = np.random.default_rng(seed)
    (x, z), labels = generator.normal(size=(2, d)), generator.uniform(-1, 1, 2)
    if seed % 2:
        x, z, labels = x / np.linalg.norm(x), z / np.linalg.norm(z), np.sign(labels)
    scale = max(1.0, np.linalg.norm(x), np.linalg.norm(z))
    assert moved((x / scale, labels[0]), (z / scale, labels[1])) <= float(MOMENTS) + 1e-9


def test_the_most_is_reached_but_for_the_rounding_of_the_scale() -> None:
    x, z = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    assert moved((x, 1.0), (z, -1.0)) == pytest.approx(float(MOMENTS), rel=0.01)
    assert 2 * float(BESIDE) ** 2 >= 1
    method = NoisyMoments(3.0)
    assert minimising(Problem(LOSS, 2), method, 10).rho == Fraction(9, 2) / (2 * 9)
    assert minimising(Problem(LOSS, 2), method, 10).epsilon is None


def test_the_sums_are_exact_and_each_moment_gets_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With draws of 2^32 and 2^33 (which is one entry, and two) in place of noise."""
    features, labels = sample(LOSS, np.random.default_rng(1), 300, 3)
    entries = store(features, labels, LOSS).entries()
    drawn: list[tuple[float, int]] = []

    def draw(noise: Gaussian, factor: int, count: int) -> np.typing.NDArray[np.int64]:
        drawn.append((noise.scale, count))
        return np.full(count, factor * len(drawn), dtype=np.int64)

    monkeypatch.setattr(moments, "draw", draw)
    square, cross = moments._noisy_moments(Problem(LOSS, 3), NoisyMoments(24.0), entries)
    assert drawn == [(24.0, 3), (17.0, 3), (24.0, 3)]
    grid, marks = entries.grid / FEATURE_UNIT, entries.labels
    noise = np.full((3, 3), 2) - np.eye(3)
    assert np.array_equal(square, square.T)
    assert np.allclose(square, (grid.T @ grid + noise) / 300, atol=1e-12)
    assert np.allclose(cross, (marks @ grid + 3) / 300, atol=1e-12)


def objective(problem: Problem, method: NoisyMoments, square: Floats, cross: Floats, theta: Floats) -> float:
    values, basis = np.linalg.eigh(square)
    fitted = basis @ np.diag(np.maximum(values, 0)) @ basis.T
    start = np.zeros(len(theta)) if method.start is None else np.array(method.start)
    pull = method.ridge / 2 * np.sum((theta - start) ** 2) + problem.regularisation / 2 * np.sum(theta**2)
    return float(theta @ fitted @ theta / 2 - cross @ theta + pull)


@given(seed=st.integers(0, 2**32), ridge=st.sampled_from([0.0, 0.01, 1.0]), start=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_model_is_the_least_in_the_ball_whatever_was_released(seed: int, ridge: float, start: bool) -> None:
    """Indefinite moments included: no other model of many has less."""
    generator = np.random.default_rng(seed)
    problem = Problem(LOSS, 3, 2.0, 0.05 * (seed % 2))
    square, cross = generator.normal(size=(3, 3)), generator.normal(size=3)
    square += square.T
    method = NoisyMoments(1.0, ridge, (0.5, -0.5, 0.0) if start else None)
    theta = fit(problem, method, square, cross)
    assert np.linalg.norm(theta) <= 2 + 1e-9
    others = generator.normal(size=(300, 3))
    others *= 2 * generator.random((300, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    near = theta + generator.normal(size=(100, 3)) / 1000
    near *= np.minimum(1, 2 / np.linalg.norm(near, axis=1))[:, None]
    least = min(objective(problem, method, square, cross, each) for each in np.vstack([others, near]))
    assert objective(problem, method, square, cross, theta) <= least + 1e-8


def test_it_is_for_squared_loss_and_zcdp() -> None:
    features, labels = sample(LOSS, np.random.default_rng(1), 30, 2)
    for loss in (Logistic(), HuberHinge()):
        kernel = gate(features, np.sign(labels), loss)
        with pytest.raises(tr.ParameterError, match="use descent"):
            kernel.minimise(Minimise(Problem(loss, 2), NoisyMoments(1.0)))
        assert kernel.spent == 0
    kernel = gate(features, labels, LOSS, PURE)
    with pytest.raises(tr.ParameterError, match="delta > 0"):
        kernel.minimise(Minimise(Problem(LOSS, 2), NoisyMoments(1.0)))
    kernel = gate(features, labels, LOSS)
    with pytest.raises(tr.ParameterError, match=r"2\^48"):
        kernel.minimise(Minimise(Problem(LOSS, 2), NoisyMoments(2.0**20)))
    assert kernel.spent == 0


@pytest.mark.parametrize(
    ("given_", "name"),
    [
        *(((bad, 0.0, None), "scale") for bad in (0.0, -1.0, math.nan, "1")),
        *(((1.0, bad, None), "ridge") for bad in (-1.0, math.nan, "1")),
    ],
)
def test_bad_noise_is_refused_by_name(given_: tuple[float, float, None], name: str) -> None:
    with pytest.raises(tr.ParameterError, match=name):
        NoisyMoments(*given_)


def test_a_start_outside_of_the_ball_is_refused() -> None:
    with pytest.raises(tr.ParameterError, match="start"):
        Minimise(Problem(LOSS, 2), NoisyMoments(1.0, 0.1, (2.0, 0.0)))


# -- rounds that refine the model --------------------------------------------------------------------------------------


REFINED = Refinement(2, 3.0, 4.0, 0.5)


def test_rounds_cost_what_their_noise_says() -> None:
    cost = minimising(Problem(LOSS, 2), NoisyMoments(3.0, refinement=REFINED), 10)
    assert cost.rho == Fraction(9, 2) / (2 * 9) + 2 * (Fraction(2, 2 * 9) + Fraction(4, 2 * 16))
    assert cost.epsilon is None


@given(seed=st.integers(0, 2**32), clip=st.sampled_from([2.0**-12, 2.0**-3, 2.0]))
@settings(max_examples=100, deadline=None)
def test_a_replaced_entry_moves_two_counts_and_a_sum_by_twice_the_clip(seed: int, clip: float) -> None:
    """The statistics without noise, which are integers, of neighbours."""
    generator = np.random.default_rng(seed)
    features, labels = sample(LOSS, generator, 20, 3)
    features[:2] /= np.linalg.norm(features[:2], axis=1, keepdims=True)
    labels[:2] = 1, -1
    theta = generator.normal(size=3) * 2
    other = features.copy(), labels.copy()
    other[0][0], other[1][0] = features[1], labels[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "draw", lambda *asked: np.zeros(asked[2], dtype=np.int64))
        here, there = (store(*each, LOSS).entries() for each in ((features, labels), other))
        sizes = [moments._noisy_sizes(REFINED, each, theta) for each in (here, there)]
        sums = [moments._noisy_residuals(REFINED, each, theta, clip) * 20 for each in (here, there)]
    assert sizes[0].sum() == sizes[1].sum() == 20
    assert np.abs(sizes[0] - sizes[1]).sum() <= 2
    assert np.linalg.norm(sums[0] - sums[1]) <= 2 * clip * (1 + 1e-12)


def test_the_noise_of_a_round_is_what_was_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = sample(LOSS, np.random.default_rng(1), 300, 3)
    entries, drawn = store(features, labels, LOSS).entries(), []

    def draw(noise: Gaussian, factor: int, count: int) -> np.typing.NDArray[np.int64]:
        drawn.append((noise.scale, factor, count))
        return np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(moments, "draw", draw)
    moments.fitted(Problem(LOSS, 3), NoisyMoments(24.0, refinement=REFINED), entries)
    counts, sums = drawn[3::2], drawn[4::2]
    assert len(drawn) == 7
    assert [scale for scale, _, _ in counts] == [3.0, 3.0]
    for scale, factor, count in sums:
        assert math.log2(scale / 4.0).is_integer()
        assert (factor, count) == (FEATURE_UNIT**2, 3)


def test_the_clip_is_the_least_that_few_residuals_exceed() -> None:
    counts = np.zeros(15, dtype=np.int64)
    counts[3] = 1_000  # between 2^-10 and 2^-9
    assert clip_for(counts, 1_000, 0.0) == 2.0**-9
    counts[8] = 20
    assert clip_for(counts, 1_000, 0.0) == 2.0**-9
    counts[8] = 21
    assert clip_for(counts, 1_000, 0.0) == 2.0**-4
    assert clip_for(counts, 1_000, 10.0) == 2.0**-9
    assert clip_for(np.full(15, 100), 1_000, 0.0) == 2.0


@given(seed=st.integers(0, 2**32), allowed=st.sampled_from([1e-6, 1e-2, 10.0]))
@settings(max_examples=60, deadline=None)
def test_rounds_raise_the_objective_by_no_more_than_is_allowed(seed: int, allowed: float) -> None:
    """Whatever was released: the proven bound rests on it."""
    generator = np.random.default_rng(seed)
    problem = Problem(LOSS, 3, 2.0, 0.05 * (seed % 2))
    square, cross = generator.normal(size=(3, 3)), generator.normal(size=3)
    square += square.T
    method = NoisyMoments(1.0, 0.1, (0.5, -0.5, 0.0), Refinement(1, 1.0, 1.0, allowed))
    first = fit(problem, method, square, cross)
    last = problem.project(first + generator.normal(size=3) / 10)
    theta = refined(problem, method, (square, cross), (first, last), generator.normal(size=3))
    assert np.linalg.norm(theta) <= 2 + 1e-9
    least, found = (objective(problem, method, square, cross, each) for each in (first, theta))
    assert found <= least + allowed + 1e-8


def test_a_good_fit_leaves_little_noise() -> None:
    """Labels that features tell exactly: noise of the moments alone would be many times what is left."""
    generator = np.random.default_rng(1)
    features = generator.normal(size=(20_000, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    truth = np.array([0.6, -0.4, 0.2])
    kernel = gate(features, features @ truth, LOSS)
    off = {}
    for name, refinement in (("moments", None), ("refined", Refinement(3, 20.0, 40.0, 0.1))):
        method = NoisyMoments(200.0, 0.01, None, refinement)
        theta = kernel.minimise(Minimise(Problem(LOSS, 3, 4.0), method)).theta
        off[name] = float(np.linalg.norm(np.array(theta) - truth))
    assert off["refined"] < off["moments"] / 4


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"errors": 0.0}, {"slopes": math.inf}, {"allowed": -1.0}])
def test_a_refinement_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(tr.ParameterError, match=next(iter(wrong))):
        Refinement(**{"rounds": 1, "errors": 1.0, "slopes": 1.0, "allowed": 1.0, **wrong})


def test_a_refinement_is_taken_by_its_exact_type() -> None:
    class Cheap(Refinement):
        """It could say anything."""

    features, labels = sample(LOSS, np.random.default_rng(1), 30, 2)
    kernel = gate(features, labels, LOSS)
    with pytest.raises(tr.ParameterError, match="no subclass"):
        kernel.minimise(Minimise(Problem(LOSS, 2), NoisyMoments(1.0, refinement=Cheap(1, 1.0, 1.0, 1.0))))
    with pytest.raises(tr.ParameterError, match="scale"):
        kernel.minimise(Minimise(Problem(LOSS, 2), NoisyMoments(1.0, refinement=Refinement(1, 1.0, 2.0**30, 1.0))))
    assert kernel.spent == 0
