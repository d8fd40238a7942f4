"""Noise as a request: what is to be drawn, and at which scale. Drawing it is up to ``trusted/noise.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from treering.params import at_least, exact_scale, positive, root_at_least


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise, P(X = k) ∝ e^{−|k|/scale}."""

    scale: float

    def __post_init__(self) -> None:
        positive(self.scale, "scale")

    def shared(self, parts: int) -> Laplace:
        """The noise with which ``parts`` operations cost together what one costs at this: of scale·parts, or a hair
        more."""
        return Laplace(at_least(exact_scale(self.scale, "scale") * parts))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise, P(X = k) ∝ e^{−k²/(2·scale²)}."""

    scale: float

    def __post_init__(self) -> None:
        positive(self.scale, "scale")

    def shared(self, parts: int) -> Gaussian:
        """The noise with which ``parts`` operations cost together what one costs at this: of scale·√parts, or a hair
        more."""
        return Gaussian(root_at_least(exact_scale(self.scale, "scale") ** 2 * parts))


Noise: TypeAlias = Laplace | Gaussian
