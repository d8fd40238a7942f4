"""The noise of a released histogram: bounds, by exponential moments, on how far sums of noisy cells are from the truth.

An analyst who has seen the noisy counts may ask about the cells whose noise is largest. So a bound for a query asked
afterwards must hold for all queries at once; only queries that were declared before the release need no such bound.

*One cell.* Every law here (`CellNoise`) is symmetric about 0. Two functions of it, or upper bounds on them, are all
that the bounds need:

- log E e^{λX}, for λ ≥ 0;
- the *overshoot* log E e^{λ(X−c)⁺}, for λ ≥ 0 and a cut c ≥ 0.

Rates λ come as arrays; where a moment does not exist, or would overflow, it is infinite. *Exact* laws are those of the
kernel's noise; *smooth* ones lie above them and scale: see `smooth`.

*All queries* (`all_subsets`). Let X_1, …, X_N be the noise, independent and symmetric, and w ∈ [0, 1]^N weights of mass
m = Σw. For any cut c ≥ 0, Σ w_i·X_i ≤ m·c + Σ w_i·(X_i − c)⁺ ≤ m·c + S_c with S_c = Σ (X_i − c)⁺, which does not depend
on the weights. By Chernoff P(S_c > R) ≤ e^{−λR}·(E e^{λ(X−c)⁺})^N for any λ > 0; and S_c = 0 with probability at least
1 − N·P(X > c). A few cuts share β, both signs have half of it, and then for every w, whatever its mass,

    |Σ w_i·X_i|  ≤  min over the cuts of  m·c + R_c.

*A query declared before* (`subset_radius`). P(|Σ a_i·X_i| > r) ≤ 2·e^{−λr}·Π E e^{λ·a_i·X} for any real weights a and
any λ > 0.

Every λ and every cut give a true bound, so the searches over them, on fixed grids, cannot break it. Floats: results are
rounded up by 10^-12, more than their arithmetic loses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.arrays import Flags, Floats
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import exact_scale, probability, whole
from treering.theory.tails import gaussian_radius, laplace_one_sided_radius

_SUMMED_SIGMA: Final = 64.0
"""Up to this scale a discrete Gaussian's moments are summed; beyond, bounded by integrals: within about 2%."""

_FARTHEST: Final = 16.0
"""The largest rate that is tried, in units of one over the scale, where all moments exist."""

_SLACK: Final = 1e-13
"""More than the relative rounding error of any sum here."""

_SMALL: Final = np.concatenate([np.geomspace(1e-5, 0.5, 180), 1 - np.geomspace(0.47, 1e-4, 100)])
"""Rates that are tried for Laplace noise, in units of one over the scale: its moments exist for rates below 1."""

_LARGE: Final = np.geomspace(1e-5, _FARTHEST, 256)
"""Rates that are tried for Gaussian noise, in units of one over the scale: all its moments exist."""


class CellNoise(ABC):
    """The law of one cell's noise: symmetric about 0, and independent from cell to cell."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """The width of the law: cuts are tried in multiples of it."""

    @property
    @abstractmethod
    def rates(self) -> Floats:
        """The rates λ worth trying."""

    @abstractmethod
    def log_moment(self, rates: Floats) -> Floats:
        """An upper bound on log E e^{λX}, for each rate λ."""

    @abstractmethod
    def log_overshoot(self, rates: Floats, cut: float) -> Floats:
        """An upper bound on log E e^{λ(X−c)⁺}, for each rate λ and the cut c."""

    @abstractmethod
    def reach(self, beta: float) -> float:
        """A number that X exceeds with probability at most ``beta``, for beta below a half."""

    def cuts(self, cells: int) -> tuple[float, ...]:
        """The cuts worth trying for this many cells: from 0 to where fewer than one cell is expected above."""
        return tuple(self.unit * step for step in range(math.ceil(math.log(cells)) + 1))


# -- exact laws: the kernel's noise ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LaplaceCell(CellNoise):
    """Discrete Laplace noise: p = e^{−1/s}, q = p·e^λ for λ below 1/s.

    E e^{λX} = (1−p)²/((1−q)(1−p·e^{−λ})), and for an integer cut E e^{λ(X−c)⁺} = 1 + Σ_{j≥1} P(X = c+j)(e^{λj} − 1)
    = 1 + p^c·(1−p)/(1+p)·(q/(1−q) − p/(1−p)): exact.
    """

    scale: float

    def __post_init__(self) -> None:
        exact_scale(self.scale, "scale")

    @property
    def unit(self) -> float:
        return self.scale

    @property
    def rates(self) -> Floats:
        return _SMALL / self.scale

    def cuts(self, cells: int) -> tuple[float, ...]:
        return _whole(CellNoise.cuts(self, cells))

    def log_moment(self, rates: Floats) -> Floats:
        # 1 − p·e^{±λ} = −expm1(−1/s ± λ): no cancellation for wide noise.
        narrow = -1 / self.scale
        return _within(
            rates * self.scale < 1,
            2 * math.log(-math.expm1(narrow)) - _log_gap(narrow + rates) - np.log(-np.expm1(narrow - rates)),
        )

    def log_overshoot(self, rates: Floats, cut: float) -> Floats:
        narrow = -1 / self.scale
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # q/(1−q) − p/(1−p) = (q−p)/((1−q)(1−p)), and q − p = q·(1 − e^{−λ}): no overflow for narrow noise.
            gain = np.exp(narrow + rates) * -np.expm1(-rates) / -np.expm1(narrow + rates)
            rise = np.log1p(gain * math.exp(narrow * math.floor(cut)) / (1 + math.exp(narrow)))
        return _within(rates * self.scale < 1, rise)

    def reach(self, beta: float) -> float:
        return float(laplace_one_sided_radius(self.scale, beta))


@dataclass(frozen=True, slots=True)
class GaussianCell(CellNoise):
    """Discrete Gaussian noise. E e^{λX} ≤ e^{λ²σ²/2} (Canonne, Kamath and Steinke 2020).

    The overshoot is summed for σ ≤ 64. Beyond, let U be uniform on [−½, ½]: e^{λ(x−c)⁺} is convex, so E e^{λ(X−c)⁺} ≤
    E e^{λ(X+U−c)⁺}. At x ≥ 1/2 the density of X + U is at most that of N(½, σ²), because its integer part is at least x
    − ½ and the normaliser of X at least σ√(2π). So the overshoot is at most that of the normal law with cut c − ½, for
    a cut of at least 1. (For the cut 0, `log_overshoot` bounds the part between 0 and ½ apart.)
    """

    scale: float

    def __post_init__(self) -> None:
        exact_scale(self.scale, "scale")

    @property
    def unit(self) -> float:
        return self.scale

    @property
    def rates(self) -> Floats:
        return _LARGE / self.scale

    def cuts(self, cells: int) -> tuple[float, ...]:
        return _whole(_half_steps(self.scale, cells))

    def log_moment(self, rates: Floats) -> Floats:
        bound: Floats = (rates * self.scale) ** 2 / 2
        return bound

    def log_overshoot(self, rates: Floats, cut: float) -> Floats:
        level = math.floor(cut)
        if self.scale <= _SUMMED_SIGMA:
            return _summed_overshoot(self.scale, level, rates)
        if level >= 1:
            return np.log1p(_normal_overshoot(rates, self.scale, level - 0.5))
        # From 0 to ½ the density is at most 1/(σ√(2π)), and e^{λx} − 1 at most e^{λ/2} − 1.
        with np.errstate(over="ignore"):
            near = np.expm1(rates / 2) / 2 / (self.scale * math.sqrt(2 * math.pi))
        return np.log1p(near + _normal_overshoot(rates, self.scale, -0.5, least=0.0))

    def reach(self, beta: float) -> float:
        return float(gaussian_radius(self.scale, 2 * beta))


def exact(noise: Noise) -> CellNoise:
    """The exact law of the kernel's noise."""
    return LaplaceCell(noise.scale) if isinstance(noise, Laplace) else GaussianCell(noise.scale)


# -- upper bounds on these laws ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SmoothLaplaceCell(CellNoise):
    """Upper bounds on the moments of discrete Laplace noise of this scale, which grow no faster than the scale.

    With u = λs < 1: E e^{λX} ≤ 1/(1−u²), because sinh(u·x) ≤ u·sinh(x). For real x > 0, P(X ≥ x) = p^⌈x⌉/(1+p) ≤
    κ·e^{−x/s} with κ = 1/(1+p), so E e^{λ(X−c)⁺} = 1 + ∫_c^∞ λe^{λ(x−c)}·P(X ≥ x) dx ≤ 1 + κ·e^{−c/s}·u/(1−u).
    In units of s both depend on s through κ alone, which falls from 1 to ½ as s grows; s·κ rises.
    """

    scale: float

    def __post_init__(self) -> None:
        exact_scale(self.scale, "scale")

    @property
    def unit(self) -> float:
        return self.scale

    @property
    def rates(self) -> Floats:
        return _SMALL / self.scale

    def log_moment(self, rates: Floats) -> Floats:
        units = rates * self.scale
        return _within(units < 1, -np.log1p(-(np.minimum(units, 1 - 1e-15) ** 2)))

    def log_overshoot(self, rates: Floats, cut: float) -> Floats:
        units = np.minimum(rates * self.scale, 1 - 1e-15)
        share = math.exp(-cut / self.scale) / (1 + math.exp(-1 / self.scale))
        return _within(rates * self.scale < 1, np.log1p(share * units / (1 - units)))

    def reach(self, beta: float) -> float:
        return self.scale * (math.log(1 / beta) - math.log1p(math.exp(-1 / self.scale)))


class MomentCell(CellNoise):
    """A law of which only E e^{λX} is known.

    Overshoot, for any μ > λ: e^{λy} − 1 ≤ κ·e^{μy} for y ≥ 0 with κ = (λ/μ)·(1 − λ/μ)^{μ/λ−1} (where the ratio is
    largest, e^{λy} = μ/(μ−λ)), so E e^{λ(X−c)⁺} ≤ 1 + κ·e^{−μc}·E e^{μX}. And whatever the cut, by symmetry,
    E e^{λX⁺} = ½(1 + E e^{λX}) + ½·E sinh(λ|X|), where (E sinh(λ|X|))² ≤ E sinh²(λX) = ½(E e^{2λX} − 1).
    """

    __slots__ = ()

    def log_overshoot(self, rates: Floats, cut: float) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            once, twice = self.log_moment(rates), self.log_moment(2 * rates)
            rise = np.expm1(once) / 2 + np.sqrt(np.expm1(twice) / 2) / 2
        best = np.where(np.isfinite(rise), np.log1p(rise), np.inf)
        if cut > 0:
            best = np.minimum(best, self._cut_overshoot(rates, cut))
        return best

    def _cut_overshoot(self, rates: Floats, cut: float) -> Floats:
        best = np.full(rates.shape, np.inf)
        for factor in (1.02, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0):
            share = 1 / factor
            peak = math.log(share) + (factor - 1) * math.log1p(-share)
            exponent = peak - factor * rates * cut + self.log_moment(factor * rates)
            best = np.minimum(best, np.logaddexp(0.0, exponent))
        return best

    def reach(self, beta: float) -> float:
        """P(X > r) ≤ e^{−λr}·E e^{λX}: the least r over the rates."""
        return float(np.min((self.log_moment(self.rates) + math.log(1 / beta)) / self.rates))


@dataclass(frozen=True, slots=True)
class SubGaussianCell(MomentCell):
    """Any symmetric law with E e^{λX} ≤ e^{λ²σ²/2}: a sum Σ a_j·X_j of independent discrete Gaussians of scales σ_j,
    with σ² = Σ (a_j·σ_j)². In units of σ it does not depend on σ."""

    sigma: float

    def __post_init__(self) -> None:
        exact_scale(self.sigma, "sigma")

    @property
    def unit(self) -> float:
        return self.sigma

    @property
    def rates(self) -> Floats:
        return _LARGE / self.sigma

    def cuts(self, cells: int) -> tuple[float, ...]:
        return _half_steps(self.sigma, cells)

    def log_moment(self, rates: Floats) -> Floats:
        bound: Floats = (rates * self.sigma) ** 2 / 2
        return bound

    def reach(self, beta: float) -> float:
        return self.sigma * math.sqrt(2 * math.log(1 / beta))


@dataclass(frozen=True, slots=True)
class LaplaceSumCell(MomentCell):
    """Σ a_j·X_j for independent discrete Laplace noise: ``parts`` are the pairs (weight a_j, scale s_j)."""

    parts: tuple[tuple[float, float], ...]

    def __init__(self, parts: Iterable[tuple[float, float]]) -> None:
        # Sorted, so that equal sums compare equal.
        kept = tuple(sorted((abs(float(weight)), float(scale)) for weight, scale in parts if weight != 0))
        if not kept:
            raise ParameterError("parts", "must have at least one weight that is not zero")
        for weight, scale in kept:
            exact_scale(weight, "weight")
            exact_scale(scale, "scale")
        object.__setattr__(self, "parts", kept)

    @property
    def unit(self) -> float:
        """Between a third of the width and the width, whatever the parts."""
        return math.sqrt(sum((weight * scale) ** 2 for weight, scale in self.parts))

    @property
    def rates(self) -> Floats:
        return _SMALL / max(weight * scale for weight, scale in self.parts)

    def log_moment(self, rates: Floats) -> Floats:
        total = np.zeros(rates.shape)
        for (weight, scale), number in _counted(self.parts).items():
            total = total + number * LaplaceCell(scale).log_moment(rates * weight)
        return total


def smooth(noise: Noise) -> CellNoise:
    """An upper bound on the noise that scales: in units of the noise scale, bounds computed from it do not rise as the
    scale grows. (Bounds from the exact law may rise: narrow integer noise is mostly 0, wide noise is not.)"""
    return SmoothLaplaceCell(noise.scale) if isinstance(noise, Laplace) else SubGaussianCell(noise.scale)


# -- arithmetic of moments ---------------------------------------------------------------------------------------------


def _counted(parts: tuple[tuple[float, float], ...]) -> dict[tuple[float, float], int]:
    counted: dict[tuple[float, float], int] = {}
    for part in parts:
        counted[part] = counted.get(part, 0) + 1
    return counted


def _half_steps(unit: float, cells: int) -> tuple[float, ...]:
    return tuple(unit * step / 2 for step in range(math.ceil(2 * math.sqrt(2 * math.log(cells))) + 1))


def _whole(cuts: Iterable[float]) -> tuple[float, ...]:
    return tuple(sorted({float(round(cut)) for cut in cuts}))


def _within(exists: Flags, values: Floats) -> Floats:
    return np.where(exists, values, np.inf)


def _log_gap(exponents: Floats) -> Floats:
    """log(1 − e^x) where x < 0, −∞ elsewhere."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(exponents < 0, np.log(-np.expm1(np.minimum(exponents, 0.0))), -np.inf)


def _summed_overshoot(sigma: float, level: int, rates: Floats) -> Floats:
    """log(1 + Σ_{x>c} P(X = x)(e^{λ(x−c)} − 1)), rounded up: the difference of two sums of positive terms."""
    tilted, plain, whole = _suffix_sums(sigma, tuple(rates.tolist()))
    if level >= len(plain):
        raise ParameterError("cut", f"must be below {len(plain)}, the end of what is summed, not {level}")
    with np.errstate(over="ignore"):
        rise = np.exp(-rates * level) * tilted[:, level] * (1 + _SLACK) - plain[level] * (1 - _SLACK)
    bound: Floats = np.log1p(rise / whole)
    return bound


@lru_cache(maxsize=4)
def _suffix_sums(sigma: float, rates: tuple[float, ...]) -> tuple[Floats, Floats, float]:
    """At c: Σ_{x>c} e^{λx−x²/(2σ²)} for each rate, and Σ_{x>c} e^{−x²/(2σ²)}; the normaliser from below.

    The terms end 10σ past the last peak, λσ²: what is left there is below 10^-21 of the sum, within the slack.
    """
    steps = np.arange(1, math.ceil((max(rates) * sigma + 10) * sigma) + 3, dtype=np.float64)
    logs = -((steps / sigma) ** 2) / 2
    plain = np.cumsum(np.exp(logs)[::-1])[::-1]
    tilted = np.cumsum(np.exp(np.outer(rates, steps) + logs)[:, ::-1], axis=1)[:, ::-1]
    return tilted, plain, (1 + 2 * float(plain[0])) * (1 - _SLACK)


def _normal_overshoot(rates: Floats, sigma: float, cut: float, least: float | None = None) -> Floats:
    """∫ (e^{λ(x−c)} − 1)·φ(x) dx for the density φ of N(0, σ²), over x ≥ cut, or over x ≥ ``least`` if given."""
    start = cut if least is None else least
    tilted = np.array([math.erfc(((start / sigma) - rate * sigma) / math.sqrt(2)) / 2 for rate in rates.tolist()])
    plain = math.erfc(start / sigma / math.sqrt(2)) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.exp((rates * sigma) ** 2 / 2 - rates * cut) * tilted - plain
    return np.where(np.isfinite(value), value * (1 + 1e-9), np.inf)


# -- bounds on sums of cells -------------------------------------------------------------------------------------------


_UP: Final = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class SubsetBound:
    """The bound for all queries at once: for each cut c a line m·c + R_c in the mass m, of which the lowest counts."""

    slopes: Floats
    """The cuts c."""
    offsets: Floats
    """The bounds R_c on the sums Σ (X_i − c)⁺."""

    def radius(self, masses: npt.ArrayLike) -> Floats:
        """r(m), in rows, for each mass m: with probability 1 − beta |Σ w_i·X_i| ≤ r(Σ w) for all w ∈ [0, 1]^N together.

        r is concave and grows with the mass.
        """
        mass = np.asarray(masses, dtype=np.float64)[..., np.newaxis]
        lowest: Floats = np.min(mass * self.slopes + self.offsets, axis=-1)
        return lowest


@lru_cache(maxsize=256)
def all_subsets(noise: CellNoise, cells: int, beta: float) -> SubsetBound:
    """The bound over all weights in [0, 1]^cells, which fails with probability at most ``beta``. Cached."""
    whole(cells, "cells")
    cuts = noise.cuts(cells)
    # Statements that share beta: both signs of each cut, and of the one more that no cell exceeds.
    share = float(probability(beta, "beta")) / (2 * (len(cuts) + 1))
    top = max(0.0, noise.reach(min(share / cells, 0.25)))
    rates = noise.rates
    rests = [_chernoff(cells * noise.log_overshoot(rates, cut), rates, share) for cut in cuts]
    return SubsetBound(np.array([*cuts, top]) * _UP, np.array([*rests, 0.0]) * _UP)


def all_subsets_radius(noise: CellNoise | Noise, cells: int, mass: float, beta: float) -> float:
    """r such that with probability at least 1 − beta, for all w ∈ [0, 1]^cells with Σw ≤ mass: |Σ w_i·X_i| ≤ r.

    ``noise`` is one cell's; ``mass`` is the number of cells that a query counts; r is in the unit of the noise (rows).
    The statements for different masses hold together.

    >>> bound = all_subsets_radius(Laplace(20.0), 1000, 10.0, 0.05)
    >>> 10 * 20 * math.log(100) < bound < 2.2 * 10 * 20 * math.log(100)
    True
    """
    if not 0 <= mass <= cells:
        raise ParameterError("mass", f"must lie within 0 and the number of cells, {cells:,}, not be {mass}")
    return float(all_subsets(_law(noise), cells, beta).radius(mass))


def subset_radius(noise: CellNoise | Noise, weights: Sequence[float], numbers: Sequence[int], beta: float) -> float:
    """r such that |Σ a_i·X_i| ≤ r with probability at least 1 − beta, for weights a fixed before the noise was seen.

    ``numbers`` says how many cells have each of the ``weights``; all other cells have weight 0. For k declared queries
    take beta/k for each.
    """
    if len(weights) != len(numbers):
        raise ParameterError("numbers", f"must be as many as the weights, {len(weights)}, not {len(numbers)}")
    kept = sorted((abs(float(weight)), int(number)) for weight, number in zip(weights, numbers, strict=True))
    spectrum = tuple((weight, number) for weight, number in kept if weight > 0 and number > 0)
    return _spectrum_radius(_law(noise), spectrum, beta) if spectrum else 0.0


@lru_cache(maxsize=2**14)
def _spectrum_radius(noise: CellNoise, spectrum: tuple[tuple[float, int], ...], beta: float) -> float:
    share = float(probability(beta, "beta")) / 2
    weights = np.array([weight for weight, _ in spectrum])
    numbers = np.array([float(number) for _, number in spectrum])
    # Rates at which the moments of the heaviest weight exist.
    rates = noise.rates / weights[-1]
    moments = noise.log_moment(np.outer(rates, weights))
    with np.errstate(invalid="ignore"):
        return _chernoff(moments @ numbers, rates, share) * _UP


def _chernoff(log_moments: Floats, rates: Floats, share: float) -> float:
    """The least r with e^{−λr}·moment ≤ share, over the rates."""
    return float(np.min((log_moments + math.log(1 / share)) / rates))


def _law(noise: CellNoise | Noise) -> CellNoise:
    return exact(noise) if isinstance(noise, Laplace | Gaussian) else noise
