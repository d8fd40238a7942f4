"""Exponential moments of a cell's noise, against sums over the laws themselves."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

import treering as tr
from treering.noise import Gaussian, Laplace, Noise
from treering.theory.cells import (
    GaussianCell,
    LaplaceCell,
    LaplaceSumCell,
    SmoothLaplaceCell,
    SubGaussianCell,
    exact,
    smooth,
)

Floats = npt.NDArray[np.float64]
LAPLACE = [0.05, 0.3, 1.0, 2.0, 7.5]
GAUSSIAN = [0.2, 0.7, 1.0, 3.3, 20.0, 63.0]
NOISES: list[Noise] = [*map(Laplace, LAPLACE), *map(Gaussian, GAUSSIAN)]


def law(noise: Noise) -> tuple[Floats, Floats]:
    """All values that matter even after tilting, and their probabilities."""
    reach = math.ceil(600 * noise.scale if isinstance(noise, Laplace) else 30 * noise.scale) + 2
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    logs = -np.abs(values) / noise.scale if isinstance(noise, Laplace) else -((values / noise.scale) ** 2) / 2
    masses = np.exp(logs)
    return values, masses / masses.sum()


def some_rates(noise: Noise) -> Floats:
    most = 0.9 if isinstance(noise, Laplace) else 12.0
    return np.geomspace(1e-4, most, 25) / noise.scale


def log_overshoot(noise: Noise, rates: Floats, cut: float) -> Floats:
    values, masses = law(noise)
    above = values > cut
    # 1 + Σ P·(e^{λ(x−c)} − 1), so that small rates keep their digits.
    rises = [float(masses[above] @ np.expm1(rate * (values[above] - cut))) for rate in rates]
    return np.asarray(np.log1p(rises), dtype=np.float64)


def log_moment(noise: Noise, rates: Floats) -> Floats:
    values, masses = law(noise)
    moments = [float(masses @ np.exp(rate * values)) for rate in rates]
    return np.asarray(np.log(moments), dtype=np.float64)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_exact_moments_are_exact(noise: Noise) -> None:
    rates = some_rates(noise)
    found = exact(noise).log_moment(rates)
    right = log_moment(noise, rates)
    assert (found >= right - 1e-12).all()
    if isinstance(noise, Laplace):
        assert found == pytest.approx(right, rel=1e-7, abs=1e-12)
    elif noise.scale >= 1:
        assert found == pytest.approx(right, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_exact_overshoots_are_exact(noise: Noise) -> None:
    rates = some_rates(noise)
    for cut in exact(noise).cuts(100_000):
        assert exact(noise).log_overshoot(rates, cut) == pytest.approx(
            log_overshoot(noise, rates, cut), rel=1e-6, abs=1e-300
        )


@pytest.mark.parametrize("sigma", [65.0, 200.0])
def test_wide_gaussian_overshoots_are_bounded_closely(sigma: float) -> None:
    noise = Gaussian(sigma)
    rates = some_rates(noise)
    for cut in exact(noise).cuts(10_000):
        found, right = exact(noise).log_overshoot(rates, cut), log_overshoot(noise, rates, cut)
        assert (found >= right).all()
        assert (found <= 1.07 * right).all()


def test_the_change_from_sums_to_integrals_is_small() -> None:
    rates = _rates(64.0)
    below, above = GaussianCell(64.0), GaussianCell(math.nextafter(64.0, 65.0))
    for cut in (0.0, 64.0, 200.0):
        assert (below.log_overshoot(rates, cut) <= above.log_overshoot(rates, cut)).all()


def _rates(sigma: float) -> Floats:
    return np.geomspace(1e-4, 5.0, 20) / sigma


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_smooth_laws_lie_above(noise: Noise) -> None:
    rates = some_rates(noise)
    law = smooth(noise)
    assert (law.log_moment(rates) >= log_moment(noise, rates) - 1e-12).all()
    for cut in (*law.cuts(10_000), 0.3 * noise.scale, 1.7 * noise.scale, 0.5, 2.5):
        right = log_overshoot(noise, rates, cut)
        assert (law.log_overshoot(rates, cut) >= right * (1 - 1e-9)).all()


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
@pytest.mark.parametrize("factor", [1.5, 4.0, 100.0])
def test_smooth_laws_scale(kind: type[Laplace | Gaussian], factor: float) -> None:
    """In units of the scale they fall, or stay, as it grows."""
    for scale in (0.01, 0.4, 2.0, 30.0):
        narrow, wide = smooth(kind(scale)), smooth(kind(factor * scale))
        rates = np.geomspace(1e-3, 0.95, 20)
        for cut in (0.0, 0.5, 2.0, 5.0):
            before = narrow.log_overshoot(rates / scale, cut * scale)
            after = wide.log_overshoot(rates / scale / factor, cut * scale * factor)
            assert (after <= before * (1 + 1e-9)).all()
        assert wide.log_moment(rates / scale / factor) == pytest.approx(narrow.log_moment(rates / scale))
        assert wide.reach(0.01) <= factor * narrow.reach(0.01) * (1 + 1e-12)


def test_exact_laws_do_not_scale() -> None:
    """The reason for the smooth ones: narrow integer noise is mostly 0."""
    rates = np.array([0.1])
    assert LaplaceCell(10.0).log_overshoot(rates / 10, 0.0) > LaplaceCell(0.1).log_overshoot(rates / 0.1, 0.0)


@pytest.mark.parametrize("parts", [((1.0, 2.0),), ((1.0, 2.0), (1.0, 2.0)), ((0.5, 3.0), (2.0, 1.0), (-1.0, 0.7))])
def test_sums_of_laplace_noise(parts: tuple[tuple[float, float], ...]) -> None:
    total = LaplaceSumCell(parts)
    values, masses = np.zeros(1), np.ones(1)
    for weight, scale in parts:
        more, chances = law(Laplace(scale))
        near = np.abs(more) <= 60 * scale
        values = np.add.outer(values, weight * more[near]).reshape(-1)
        masses = np.multiply.outer(masses, chances[near]).reshape(-1)
        values, index = np.unique(values.round(9), return_inverse=True)
        masses = np.bincount(index, weights=masses).astype(np.float64)
    rates = np.array([0.01, 0.1, 0.3, 0.6]) / max(abs(weight) * scale for weight, scale in parts)
    right = np.log([float(masses @ np.exp(rate * values)) for rate in rates])
    assert total.log_moment(rates) == pytest.approx(right, rel=1e-6)
    for cut in (0.0, 1.0, 2.5, 10.0):
        rises = [float(masses @ np.expm1(rate * np.maximum(values - cut, 0.0))) for rate in rates]
        assert (total.log_overshoot(rates, cut) >= np.log1p(rises)).all()
    for beta in (0.2, 0.01, 1e-4):
        assert float(masses[values > total.reach(beta)].sum()) <= beta


def test_a_sum_of_gaussians_is_sub_gaussian() -> None:
    """Σ a·X for scales 1 and 2 and weights 1 and ½: the variance proxy is 1 + 1."""
    total = SubGaussianCell(math.sqrt(2.0))
    (one, p), (two, q) = law(Gaussian(1.0)), law(Gaussian(2.0))
    values = np.add.outer(one, two / 2).reshape(-1)
    masses = np.multiply.outer(p, q).reshape(-1)
    for rate in (0.05, 0.5, 1.0, 3.0):
        assert total.log_moment(np.array([rate]))[0] >= math.log(float(masses @ np.exp(rate * values))) - 1e-12
        for cut in (0.0, 1.0, 3.0):
            rise = float(masses @ np.expm1(rate * np.maximum(values - cut, 0.0)))
            assert total.log_overshoot(np.array([rate]), cut)[0] >= math.log1p(rise)


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("beta", [0.2, 0.03, 1e-6])
def test_a_reach_is_seldom_exceeded(noise: Noise, beta: float) -> None:
    values, masses = law(noise)
    for law_of_noise in (exact(noise), smooth(noise)):
        assert float(masses[values > law_of_noise.reach(beta)].sum()) <= beta * (1 + 1e-9)


@pytest.mark.parametrize("cells", [1, 2, 1000, 2**24])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_cuts_begin_at_zero_and_are_few(noise: Noise, cells: int) -> None:
    for law_of_noise in (exact(noise), smooth(noise)):
        cuts = law_of_noise.cuts(cells)
        assert cuts[0] == 0
        assert list(cuts) == sorted(set(cuts))
        assert len(cuts) <= 20


def test_moments_that_do_not_exist_are_infinite() -> None:
    rates = np.array([0.5, 0.99, 1.0, 1.01, 50.0])
    for noise in (LaplaceCell(1.0), SmoothLaplaceCell(1.0), LaplaceSumCell([(1.0, 1.0)])):
        assert np.isfinite(noise.log_moment(rates)).tolist() == [True, True, False, False, False]
        assert np.isinf(noise.log_overshoot(rates, 3.0)).tolist()[2:] == [True, True, True]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_scales_are_refused(bad: float) -> None:
    for make in (LaplaceCell, GaussianCell, SmoothLaplaceCell):
        with pytest.raises(tr.ParameterError, match="scale"):
            make(bad)
    with pytest.raises(tr.ParameterError, match="sigma"):
        SubGaussianCell(bad)
    with pytest.raises(tr.ParameterError, match="scale"):
        LaplaceSumCell([(1.0, bad)])
    with pytest.raises(tr.ParameterError, match="parts"):
        LaplaceSumCell([(0.0, 1.0)])
