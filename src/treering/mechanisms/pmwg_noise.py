"""The noise of PMWG's answers: as much as keeps each within its error bound."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from treering.budget.promise import Kind
from treering.gate import Gaussian, Laplace, Noise
from treering.theory.pmwg import query_tail

MEASURED_SHARE: Final = 0.9
"""A measurement's error bound as a share of alpha: what is left lets it serve again while the database grows."""

_LEAST_SCALE: Final = 1e-6


def measuring_noise(kind: Kind, alpha: float, beta: float, size: int, asked: int) -> Noise:
    """The noise of a measurement after ``asked`` queries: within `MEASURED_SHARE` of alpha but with probability β_j.

    The number j is rounded up to a power of two, so that the scale, and with it the sampler, changes rarely.
    Discrete Laplace noise has P(|X| > R) ≤ e^{−(R−½)/s}, discrete Gaussian noise P(|X| ≥ R) ≤ 2e^{−R²/(2σ²)}
    (see ``theory.pmwg.tight``). A size too small for any such noise gives the smallest scale there is.
    """
    return _measuring_noise(kind, alpha, beta, size, 1 << asked.bit_length())


@lru_cache(maxsize=64)
def _measuring_noise(kind: Kind, alpha: float, beta: float, size: int, number: int) -> Noise:
    rows = MEASURED_SHARE * alpha * size
    tail = query_tail(beta, math.log(number)) + math.log(2)  # log(1/β_j)
    if kind == "pure":
        return Laplace(max(rows - 0.5, _LEAST_SCALE) / tail)
    return Gaussian(max(rows, _LEAST_SCALE) / math.sqrt(2 * (tail + math.log(2))))


def answering_noise(kind: Kind, scale: float | None) -> Noise | None:
    """The noise of a hard query's answer."""
    if scale is None:
        return None
    return Laplace(scale) if kind == "pure" else Gaussian(scale)


def deviation(noise: Noise) -> float:
    """The standard deviation, or a hair more: that of the continuous noise of the same scale."""
    return noise.scale * (math.sqrt(2) if isinstance(noise, Laplace) else 1.0)
