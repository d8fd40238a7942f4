"""Noise has the scale it says: the right one is accepted; 2/3 and 3/2 of it, and even 9/10 and 11/10, are rejected.

Both samplers are held to this: ``clocks``, which `draw` uses for large counts such as those here, and ``coins``.

Every check has a false-alarm rate of at most 1e-9 and a bound on its miss rate that is asserted (``support.goodness``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from support.broken_clocks import coarse
from support.broken_coins import forgets_the_rest, keeps_every_remainder, keeps_minus_zero, rounds_up
from support.goodness import Integers, Masses, edges_for, fits, gaussian_masses, laplace_masses, miss_rate, tally
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.noise import FEW as DRAWN_SINGLY, LARGEST_SCALE, Ahead, draw, draw_gaussian, draw_laplace
from treering.trusted.samplers import clocks, coins

FEW = 8_000
MANY = 40_000
MISSED = 1e-6

SCALES = [0.3, 0.7, 3.0, 10.0, 333.3]
FACTORED = [(0.3, 5), (0.7, 1000), (3.0, 65_536)]

Floats = npt.NDArray[np.float64]
Sampler = Callable[[float, int], Integers]
Kind = Callable[[float], Noise]
Law = Callable[[float, Integers], Masses]


def single_laplace(scale: float, count: int) -> Integers:
    return np.array(coins.laplace(scale, count), dtype=np.int64)


def single_gaussian(scale: float, count: int) -> Integers:
    return np.array(coins.gaussian(scale, count), dtype=np.int64)


SAMPLERS = pytest.mark.parametrize("sampler", [draw_laplace, draw_gaussian, single_laplace, single_gaussian])
KINDS = pytest.mark.parametrize(
    ("sampler", "law"),
    [
        pytest.param(draw_laplace, laplace_masses, id="laplace"),
        pytest.param(draw_gaussian, gaussian_masses, id="gaussian"),
        pytest.param(single_laplace, laplace_masses, id="single laplace"),
        pytest.param(single_gaussian, gaussian_masses, id="single gaussian"),
    ],
)
NOISES = pytest.mark.parametrize(
    ("kind", "law"),
    [
        pytest.param(Laplace, laplace_masses, id="laplace"),
        pytest.param(Gaussian, gaussian_masses, id="gaussian"),
    ],
)

assert FEW > DRAWN_SINGLY


@cache
def sample(sampler: Sampler, scale: float) -> Integers:
    """One large sample for each scale, shared by the tests that look at it from different sides."""
    return sampler(scale, MANY)


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


@NOISES
@pytest.mark.parametrize(("scale", "factor"), FACTORED)
@pytest.mark.parametrize("at_once", [FEW, DRAWN_SINGLY])
def test_a_factor_multiplies_the_scale(kind: Kind, law: Law, scale: float, factor: int, at_once: int) -> None:
    product = scale * factor
    edges = edges_for(product)
    counts = sum(tally(draw(kind(scale), factor, at_once), edges) for _ in range(FEW // at_once))
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


@NOISES
def test_noise_taken_ahead_has_the_same_law(kind: Kind, law: Law) -> None:
    ahead = Ahead(kind(3.0))
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


# -- broken samplers ---------------------------------------------------------------------------------------------------


def decayed(k: Floats, scale: float) -> Floats:
    return np.exp(-np.abs(k) / scale)


def bell(k: Floats, scale: float) -> Floats:
    return np.exp(-((k / scale) ** 2) / 2)


def in_steps(k: Floats, scale: float) -> Floats:
    """What |k| + 1 and |k| are apart in the law of U + V, U uniform on [0, 1) and V geometric, times the scale."""
    start, end = np.abs(k) / scale, (np.abs(k) + 1) / scale
    before, after = (np.exp(-np.floor(z)) * (1 - (z - np.floor(z)) * (1 - math.exp(-1))) for z in (start, end))
    return np.asarray(before - after)


def in_whole_steps(k: Floats, scale: float) -> Floats:
    proposed = math.floor(scale) + 1
    whole = np.floor((np.abs(k) - scale**2 / proposed) ** 2 / (2 * scale**2))
    return np.exp(-np.abs(k) / proposed - whole)


def masses(law: Callable[[Floats, float], Floats], scale: float, edges: Integers) -> Masses:
    """The bins' probabilities if k has probability ∝ law(k, scale), and at least 1e-12, so that the support is full."""
    reach = math.ceil(40 * scale) + 40
    values = np.arange(-reach, reach + 1)
    terms = law(values.astype(np.float64), scale)
    sums = np.bincount(np.searchsorted(edges, values, side="right"), weights=terms, minlength=len(edges) + 1)
    return np.asarray(np.maximum(sums / sums.sum(), 1e-12))


@pytest.mark.parametrize(
    ("sampler", "place", "broken", "right", "wrong", "scale"),
    [
        (single_laplace, "_signed", keeps_minus_zero, decayed, lambda k, s: decayed(k, s) * (1 + (k == 0)), 0.7),
        (single_laplace, "_signed", keeps_minus_zero, decayed, lambda k, s: decayed(k, s) * (1 + (k == 0)), 10.0),
        (single_laplace, "_signed", rounds_up, decayed, lambda k, s: decayed(k, s) * (k != 0), 0.7),
        (single_laplace, "_signed", rounds_up, decayed, lambda k, s: decayed(k, s) * (k != 0), 3.3),
        (single_laplace, "_signed", keeps_every_remainder, decayed, in_steps, 3.3),
        (single_laplace, "_signed", keeps_every_remainder, decayed, in_steps, 333.3),
        (single_gaussian, "_bell", forgets_the_rest, bell, in_whole_steps, 3.3),
        (single_gaussian, "_bell", forgets_the_rest, bell, in_whole_steps, 33.3),
        (single_gaussian, "_signed", keeps_minus_zero, bell, lambda k, s: bell(k, s) * (1 + (k == 0)), 0.7),
        (single_gaussian, "_signed", keeps_minus_zero, bell, lambda k, s: bell(k, s) * (1 + (k == 0)), 10.0),
    ],
)
def test_a_broken_sampler_is_rejected(
    sampler: Sampler,
    place: str,
    broken: Callable[[int, int, coins.Words], int],
    right: Callable[[Floats, float], Floats],
    wrong: Callable[[Floats, float], Floats],
    scale: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edges = edges_for(scale)
    ours, theirs = masses(right, scale, edges), masses(wrong, scale, edges)
    assert miss_rate(ours, theirs, MANY) < MISSED
    assert fits(tally(sampler(scale, MANY), edges), ours)
    monkeypatch.setattr(coins, place, broken)
    counts = tally(sampler(scale, MANY), edges)
    assert not fits(counts, ours)
    assert fits(counts, theirs)


@pytest.mark.parametrize(("sampler", "law"), [(clocks.laplace, decayed), (clocks.gaussian, bell)])
@pytest.mark.parametrize("slack", [0.01, 100.0])
def test_how_much_the_first_word_decides_does_not_matter(
    sampler: Sampler, law: Callable[[Floats, float], Floats], slack: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "_SLACK", slack)
    edges = edges_for(3.3)
    counts = tally(sampler(3.3, FEW // 2), edges)
    assert fits(counts, masses(law, 3.3, edges))
    for off in (2 / 3, 3 / 2):
        assert miss_rate(masses(law, 3.3 * off, edges), masses(law, 3.3, edges), FEW // 2) < MISSED
        assert not fits(counts, masses(law, 3.3 * off, edges))


@pytest.mark.parametrize(("sampler", "law"), [(clocks.laplace, decayed), (clocks.gaussian, bell)])
def test_a_first_word_without_a_margin_is_rejected(
    sampler: Sampler, law: Callable[[Floats, float], Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = edges_for(3.3)
    monkeypatch.setattr(clocks, "_clocks", coarse(1 / 8))
    monkeypatch.setattr(clocks, "_SLACK", 1 / 8)
    assert fits(tally(sampler(3.3, FEW), edges), masses(law, 3.3, edges))
    monkeypatch.setattr(clocks, "_clocks", coarse(0.0))
    assert not fits(tally(sampler(3.3, MANY), edges), masses(law, 3.3, edges))


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
