"""Noise has the scale it says: the right one is accepted; 2/3 and 3/2 of it, and even 9/10 and 11/10, are rejected.

Every check has a false-alarm rate of at most 1e-9 and a bound on its miss rate that is asserted (``support.goodness``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from support.goodness import Integers, Masses, edges_for, fits, gaussian_masses, laplace_masses, miss_rate, tally
from treering.gate import Gaussian, Laplace, Noise
from treering.trusted.noise import LARGEST_SCALE, Ahead, draw, draw_gaussian, draw_laplace

FEW = 8_000
MANY = 40_000
MISSED = 1e-6

SCALES = [0.3, 0.7, 3.0, 10.0, 1000.0]
FACTORED = [(0.3, 5), (0.7, 1000), (3.0, 65_536)]

Sampler = Callable[[float, int], Integers]
Law = Callable[[float, Integers], Masses]

SAMPLERS = pytest.mark.parametrize("sampler", [draw_laplace, draw_gaussian])
KINDS = pytest.mark.parametrize(
    ("sampler", "law"),
    [
        pytest.param(draw_laplace, laplace_masses, id="laplace"),
        pytest.param(draw_gaussian, gaussian_masses, id="gaussian"),
    ],
)


@cache
def sample(sampler: Sampler, scale: float) -> Integers:
    """One large sample for each scale, shared by the tests that look at it from different sides."""
    return sampler(scale, MANY)


def noise_of(sampler: Sampler, scale: float) -> Noise:
    return Laplace(scale) if sampler is draw_laplace else Gaussian(scale)


@KINDS
@pytest.mark.parametrize("scale", SCALES)
def test_the_right_scale_is_accepted_by_a_test_that_sees_a_tenth(sampler: Sampler, law: Law, scale: float) -> None:
    edges = edges_for(scale)
    for off in (0.9, 1.1):
        assert miss_rate(law(scale, edges), law(scale * off, edges), MANY) < MISSED
    assert fits(tally(sample(sampler, scale), edges), law(scale, edges))


@KINDS
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("off", [2 / 3, 3 / 2])
def test_a_wrong_scale_is_rejected(sampler: Sampler, law: Law, scale: float, off: float) -> None:
    edges = edges_for(scale)
    assert miss_rate(law(scale, edges), law(scale * off, edges), FEW) < MISSED
    assert not fits(tally(sampler(scale * off, FEW), edges), law(scale, edges))


@KINDS
@pytest.mark.parametrize(("scale", "factor"), FACTORED)
def test_a_factor_multiplies_the_scale(sampler: Sampler, law: Law, scale: float, factor: int) -> None:
    product = scale * factor
    edges = edges_for(product)
    counts = tally(draw(noise_of(sampler, scale), factor, FEW), edges)
    assert fits(counts, law(product, edges))
    for off in (2 / 3, 3 / 2):
        assert miss_rate(law(product * off, edges), law(product, edges), FEW) < MISSED
        assert not fits(counts, law(product * off, edges))


@KINDS
@pytest.mark.parametrize("scale", SCALES)
def test_zero_has_its_exact_probability(sampler: Sampler, law: Law, scale: float) -> None:
    _, zero, _ = masses = law(scale, np.array([0, 1]))
    zeros = np.count_nonzero(sample(sampler, scale) == 0)
    assert masses[0] == pytest.approx(masses[2])
    assert fits([zeros, MANY - zeros], [zero, 1 - zero])


@SAMPLERS
@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale > 0.5])
def test_both_signs_are_equally_likely(sampler: Sampler, scale: float) -> None:
    draws = sample(sampler, scale)
    signs = np.array([np.count_nonzero(draws < 0), np.count_nonzero(draws > 0)])
    assert fits(signs, [0.5, 0.5])
    assert signs.sum() > MANY / 4
    assert miss_rate([0.5, 0.5], [0.4, 0.6], MANY // 4) < MISSED


@KINDS
def test_a_shift_by_one_is_rejected(sampler: Sampler, law: Law) -> None:
    edges = edges_for(3.0)
    assert not fits(tally(sample(sampler, 3.0) + 1, edges), law(3.0, edges))
    assert not fits(tally(np.abs(sample(sampler, 3.0)), edges), law(3.0, edges))


@KINDS
def test_consecutive_draws_are_independent(sampler: Sampler, law: Law) -> None:
    draws = sample(sampler, 3.0)
    edges = np.array([0, 1])
    joint = np.outer(law(3.0, edges), law(3.0, edges)).ravel()
    pairs = 3 * np.searchsorted(edges, draws[::2], side="right") + np.searchsorted(edges, draws[1::2], side="right")
    assert fits(np.bincount(pairs, minlength=9), joint)
    repeated = 4 * np.searchsorted(edges, draws[::2], side="right")
    assert not fits(np.bincount(repeated, minlength=9), joint)


@KINDS
@pytest.mark.parametrize("scale", [1e9, LARGEST_SCALE])
def test_large_scales_are_right(sampler: Sampler, law: Law, scale: float) -> None:
    edges = edges_for(scale)
    counts = tally(sampler(scale, FEW), edges)
    assert fits(counts, law(scale, edges))
    for off in (2 / 3, 3 / 2):
        assert miss_rate(law(scale * off, edges), law(scale, edges), FEW) < MISSED
        assert not fits(counts, law(scale * off, edges))


@SAMPLERS
def test_a_tiny_scale_gives_zeros(sampler: Sampler) -> None:
    # A draw other than 0 has probability below e^−999.
    assert not sampler(1e-3, 1000).any()


@KINDS
def test_noise_taken_ahead_has_the_same_law(sampler: Sampler, law: Law) -> None:
    ahead = Ahead(noise_of(sampler, 3.0))
    edges = edges_for(9.0)
    parts = []
    for turn in range(160):
        parts.append(ahead.take(3, 1 + turn % 90))
        if turn % 7 == 0:
            ahead.take(1, 5)
    draws = np.concatenate(parts)
    assert fits(tally(draws, edges), law(9.0, edges))
    for off in (2 / 3, 3 / 2):
        assert miss_rate(law(9.0 * off, edges), law(9.0, edges), len(draws)) < MISSED
        assert not fits(tally(draws, edges), law(9.0 * off, edges))


# -- the ruler itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("false_alarm", [0.5, 0.1])
def test_false_alarms_are_as_rare_as_stated(false_alarm: float) -> None:
    masses = laplace_masses(3.0, edges_for(3.0))
    public = np.random.default_rng(7)
    alarms = sum(not fits(public.multinomial(200, masses), masses, false_alarm) for _ in range(500))
    assert alarms <= 500 * false_alarm


def test_misses_are_as_rare_as_stated() -> None:
    right, wrong = np.full(4, 0.25), np.array([0.4, 0.2, 0.2, 0.2])
    public = np.random.default_rng(7)
    bound = miss_rate(right, wrong, 800)
    missed = sum(fits(public.multinomial(800, wrong), right) for _ in range(1000)) / 1000
    assert bound < 0.5
    assert 0 < missed <= bound
    assert miss_rate(right, wrong, 100) == 1


def test_an_impossible_outcome_is_rejected() -> None:
    assert fits([5, 5, 0], [0.5, 0.5, 0.0])
    assert not fits([5, 5, 1], [0.5, 0.5, 0.0])
