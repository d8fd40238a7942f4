"""Bounds on a proportion cover as often as they say: coverage is summed up exactly, over all counts and noises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from treering.noise import Gaussian, Laplace, Noise
from treering.theory.rings import NORMAL
from treering.theory.tails import EXACT, bounds, halved_difference

Interval = Callable[[float, int, Noise], tuple[float, float]]


def exact(count: float, rows: int, noise: Noise) -> tuple[float, float]:
    return bounds(count, rows, halved_difference(noise), 0.05)


def wald(count: float, rows: int, noise: Noise) -> tuple[float, float]:
    """What accuracies had before: it is far from 95% where a proportion is near 1."""
    variance = noise.scale**2 * (2 if isinstance(noise, Laplace) else 1)
    share = min(1.0, max(0.0, count / rows))
    margin = NORMAL * math.sqrt(variance / (2 * rows**2) + share * (1 - share) / rows)
    return share - margin, share + margin


def differences(noise: Noise) -> tuple[Any, Any]:
    """Half the difference of two discrete noises, and the probability of each value, to within 1e-15."""
    reach = math.ceil(noise.scale * 37) + 2
    values = np.arange(-reach, reach + 1)
    law = stats.dlaplace.pmf(values, 1 / noise.scale)
    if not isinstance(noise, Laplace):
        law = stats.norm.pdf(values, scale=noise.scale)
        law /= law.sum()
    return np.arange(-2 * reach, 2 * reach + 1) / 2, np.convolve(law, law)


def coverages(interval: Interval, rows: int, noise: Noise, shares: list[float]) -> Any:
    """For each share, the exact probability that the interval holds it."""
    values, law = differences(noise)
    likely = law > 1e-9
    values, law = values[likely], law[likely]
    counts = np.arange(2 * values[0], 2 * (rows + values[-1]) + 1) / 2
    low, high = np.array([interval(count, rows, noise) for count in counts.tolist()]).T
    found = []
    for share in shares:
        sums = np.convolve(np.insert(stats.binom.pmf(np.arange(rows + 1), rows, share), range(1, rows + 1), 0.0), law)
        found.append(float(sums @ ((low <= share) & (share <= high))))
    return np.array(found)


SHARES = [0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.02]
NOISES = [kind(scale) for kind in (Gaussian, Laplace) for scale in (0.3, 0.6, 1.0, 5.0)]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("rows", [30, 150])
def test_the_bounds_cover_for_every_share(rows: int, noise: Noise) -> None:
    assert coverages(exact, rows, noise, SHARES).min() >= 0.95 - 1e-6


def test_a_normal_law_does_not() -> None:
    assert coverages(wald, 150, Gaussian(0.6), SHARES).min() < 0.85


def test_without_noise_they_are_those_of_clopper_and_pearson() -> None:
    for rows, count in ((10, 10), (10, 0), (50, 47), (50, 25), (1000, 999)):
        low, high = exact(count, rows, Gaussian(1e-9))
        assert low == pytest.approx(stats.beta.ppf(0.025, count, rows - count + 1) if count else 0.0, abs=1e-9)
        assert high == pytest.approx(stats.beta.ppf(0.975, count + 1, rows - count) if count < rows else 1.0, abs=1e-9)


@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_the_law_of_noise_is_exact_for_small_scales_and_no_smaller_for_large_ones(kind: type[Noise]) -> None:
    for scale in (0.3, 1.0, 7.5, EXACT, EXACT + 1, 200.0):
        values, law = differences(kind(scale))
        reached, above = np.cumsum(law[::-1])[::-1], halved_difference(kind(scale))(values)
        if scale <= EXACT:
            np.testing.assert_allclose(above, np.minimum(1, reached), atol=1e-12)
        else:
            assert np.all(above >= reached - 1e-12)
            assert np.all(above <= reached + 0.01)


@pytest.mark.parametrize(("count", "same"), [(-500.0, 0.0), (-0.5, 0.0), (100.5, 100.0), (700.0, 100.0)])
def test_a_count_beyond_the_rows_has_the_bounds_of_none_or_all(count: float, same: float) -> None:
    low, high = exact(count, 100, Gaussian(20.0))
    assert (low, high) == exact(same, 100, Gaussian(20.0))
    assert high - low > 0.2


def test_they_are_hardly_wider_than_normal_ones_where_those_are_right() -> None:
    low, high = exact(4000.0, 10_000, Gaussian(60.0))
    before = wald(4000.0, 10_000, Gaussian(60.0))
    assert high - low <= 1.02 * (before[1] - before[0])
