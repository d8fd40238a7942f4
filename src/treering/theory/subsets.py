"""How far sums of cells stray from the truth in a histogram released with noise.

An analyst who has seen the noisy counts may ask about the cells whose noise is largest. So a bound for a query asked
afterwards must hold for all queries at once; only a class of queries that was declared before is spared that.

*All queries.* Let X_1, …, X_N be the noise, independent and symmetric, and w ∈ [0, 1]^N weights of mass m = Σw. For any
cut c ≥ 0, Σ w_i·X_i ≤ m·c + Σ w_i·(X_i − c)⁺ ≤ m·c + S_c with S_c = Σ (X_i − c)⁺, which no weights appear in. By
Chernoff P(S_c > R) ≤ e^{−λR}·(E e^{λ(X−c)⁺})^N for any λ > 0; and S_c = 0 with probability at least 1 − N·P(X > c).
A few cuts share β, both signs have half of it, and then for every w, whatever its mass,

    |Σ w_i·X_i|  ≤  min over the cuts of  m·c + R_c.

*A query declared before.* P(|Σ a_i·X_i| > r) ≤ 2·e^{−λr}·Π E e^{λ·a_i·X} for any real weights a and any λ > 0.

Every λ and every cut give a true bound, so the searches over them, on fixed grids, cannot break it. Floats: results are
rounded up by 10^-12, more than their arithmetic loses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats
from treering.errors import ParameterError
from treering.gate import Gaussian, Laplace, Noise
from treering.params import probability, whole
from treering.theory.cells import CellNoise, exact

_UP: Final = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class SubsetBound:
    """The bound for all queries at once: lines in the mass, of which the lowest counts."""

    slopes: Floats
    """The cuts c."""
    offsets: Floats
    """The bounds R_c on the sums above them."""

    def radius(self, masses: npt.ArrayLike) -> Floats:
        """r(m) for each mass: with probability 1 − beta |Σ w_i·X_i| ≤ r(Σ w) for all w ∈ [0, 1]^N together.

        It is concave and grows with the mass.
        """
        mass = np.asarray(masses, dtype=np.float64)[..., np.newaxis]
        lowest: Floats = np.min(mass * self.slopes + self.offsets, axis=-1)
        return lowest


@lru_cache(maxsize=256)
def all_subsets(noise: CellNoise, cells: int, beta: float) -> SubsetBound:
    """The bound over all weights in [0, 1]^cells, which fails with probability at most ``beta``. Cached."""
    whole(cells, "cells")
    cuts = noise.cuts(cells)
    # Both signs, and each cut beside the one that no cell is above.
    share = float(probability(beta, "beta")) / (2 * (len(cuts) + 1))
    top = max(0.0, noise.reach(min(share / cells, 0.25)))
    rates = noise.rates
    rests = [_chernoff(cells * noise.log_overshoot(rates, cut), rates, share) for cut in cuts]
    return SubsetBound(np.array([*cuts, top]) * _UP, np.array([*rests, 0.0]) * _UP)


def all_subsets_radius(noise: CellNoise | Noise, cells: int, mass: float, beta: float) -> float:
    """r such that with probability at least 1 − beta, for all w ∈ [0, 1]^cells with Σw ≤ mass: |Σ w_i·X_i| ≤ r.

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

    ``numbers`` says how many cells have each of the ``weights``. For k declared queries take beta/k for each.
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
    # Rates that the heaviest weight can bear.
    rates = noise.rates / weights[-1]
    moments = noise.log_moment(np.outer(rates, weights))
    with np.errstate(invalid="ignore"):
        return _chernoff(moments @ numbers, rates, share) * _UP


def _chernoff(log_moments: Floats, rates: Floats, share: float) -> float:
    """The least r with e^{−λr}·moment ≤ share, over the rates."""
    return float(np.min((log_moments + math.log(1 / share)) / rates))


def _law(noise: CellNoise | Noise) -> CellNoise:
    return exact(noise) if isinstance(noise, Laplace | Gaussian) else noise
