"""Noise as a request: which distribution, and at which scale. ``trusted/noise.py`` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from treering.params import at_least, exact_scale, positive, root_at_least


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise: integers k with P(k) ∝ e^{−|k|/scale}."""

    scale: float

    def __post_init__(self) -> None:
        positive(self.scale, "scale")

    def shared(self, parts: int) -> Laplace:
        """Noise at which ``parts`` operations together cost what one costs at this noise: of scale·``parts``, rounded
        up to a float."""
        return Laplace(at_least(exact_scale(self.scale, "scale") * parts))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise: integers k with P(k) ∝ e^{−k²/(2·scale²)}."""

    scale: float

    def __post_init__(self) -> None:
        positive(self.scale, "scale")

    def shared(self, parts: int) -> Gaussian:
        """Noise at which ``parts`` operations together cost what one costs at this noise: of scale·√``parts``, rounded
        up to a float."""
        return Gaussian(root_at_least(exact_scale(self.scale, "scale") ** 2 * parts))


Noise: TypeAlias = Laplace | Gaussian
