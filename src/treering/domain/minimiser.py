"""Requests for a private minimiser: what to minimise, how, and with how much noise. All of it is public.

The kernel derives sensitivity and cost from these (``budget/minimising.py``); `treering.theory.erm` chooses them for a
budget and proves what they achieve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from treering.domain.problem import CellFeatures, Problem
from treering.errors import ParameterError
from treering.params import exact_scale, whole

Start: TypeAlias = tuple[float, ...] | None
"""A public model to begin with, such as the last one released; None is the centre of the ball."""

MOST_STEPS: Final = 2**20
MOST_CANDIDATES: Final = 2**18
"""The largest net."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Output perturbation: solve to a public tolerance, round to a grid of step ``pitch``, add noise.

    ``scale`` is the noise's, in steps of the grid. The solver makes exactly ``iterations`` passes over the data.
    ``ridge`` is added to the problem's own regularisation; the sum must be positive.
    """

    noise: Literal["laplace", "gaussian"]
    scale: float
    pitch: float
    iterations: int
    ridge: float = 0.0
    start: Start = None

    def __post_init__(self) -> None:
        if self.noise not in ("laplace", "gaussian"):
            raise ParameterError("noise", f"must be 'laplace' or 'gaussian', not {self.noise!r}")
        exact_scale(self.scale, "scale")
        _check_steps(self.iterations, "iterations")
        if exact_scale(self.pitch, "pitch").numerator != 1 or not 2.0**-60 <= self.pitch <= 1:
            raise ParameterError("pitch", f"must be a power of two within [2^-60, 1], not {self.pitch}")
        if self.ridge != 0:
            exact_scale(self.ridge, "ridge")


@dataclass(frozen=True, slots=True)
class Descent:
    """Noisy projected gradient descent: ``steps`` passes, each adding discrete Gaussian noise to the sum of gradients.

    ``scale`` is in units of one entry's gradient. Schedules, with g_k the noisy mean gradient:

    - "averaged": steps up to ``step_size``, the plain average of the iterates;
    - "accelerated": Lan's accelerated stochastic approximation, step k times up to ``step_size``;
    - "strong": step 2/(λ(k+1)), iterates averaged with weights k; ``step_size`` and ``rise`` are not used.

    Steps rise to ``step_size`` from about ``step_size``/(1 + ``rise``), see `length`.

    Slopes (or gradients, where the loss has none) are rounded to 1/``resolution``.
    """

    schedule: Literal["averaged", "accelerated", "strong"]
    steps: int
    scale: float
    step_size: float = 1.0
    start: Start = None
    resolution: int = 2**16
    rise: float = 0.0

    def __post_init__(self) -> None:
        if self.schedule not in ("averaged", "accelerated", "strong"):
            raise ParameterError("schedule", f"must be 'averaged', 'accelerated' or 'strong', not {self.schedule!r}")
        _check_steps(self.steps, "steps")
        exact_scale(self.scale, "scale")
        exact_scale(self.step_size, "step_size")
        _check_resolution(self.resolution)
        if self.rise != 0:
            exact_scale(self.rise, "rise")

    def length(self, step: int) -> float:
        """The length of step k = 1, …, K: γ_k, or k·γ_k if accelerated, with γ_k = step_size/(1 + rise·(1 − u)).

        u is the share of Σc² that is behind after the step, c_k = 1, or k if accelerated: proofs are in
        `treering.theory.erm.steps`.
        """
        if self.schedule == "accelerated":
            behind = step * (step + 1) * (2 * step + 1) / (self.steps * (self.steps + 1) * (2 * self.steps + 1))
            return step * self.step_size / (1 + self.rise * (1 - behind))
        return self.step_size / (1 + self.rise * (1 - step / self.steps))


@dataclass(frozen=True, slots=True)
class Net:
    """The exponential mechanism over a net of the ball, exactly: P(θ) ∝ e^{−Σ loss/``scale``}.

    The net: the points of a cubic lattice of step ``pitch`` within pitch·√d/2 of the ball, moved into it. Every model
    in the ball has one of them within pitch·√d/2. Losses are rounded to 1/``resolution``.
    """

    pitch: float
    scale: float
    resolution: int = 2**20
    most_dimensions: int = 3

    def __post_init__(self) -> None:
        exact_scale(self.pitch, "pitch")
        exact_scale(self.scale, "scale")
        _check_resolution(self.resolution)
        whole(self.most_dimensions, "most_dimensions")


Method: TypeAlias = Perturbation | Descent | Net


@dataclass(frozen=True, slots=True, eq=False)
class Minimise:
    """A request: ``features`` says how a database's cells become entries; None over points, which are entries."""

    problem: Problem
    method: Method
    features: CellFeatures | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, Perturbation | Descent | Net):
            raise ParameterError("method", "must be a Perturbation, a Descent or a Net")
        if self.features is not None and self.features.dimension != self.problem.dimension:
            raise ParameterError("features", f"must have {self.problem.dimension} numbers each")
        start = None if isinstance(self.method, Net) else self.method.start
        if start is not None and not (
            len(start) == self.problem.dimension and math.hypot(*start) <= self.problem.radius * (1 + 1e-9)
        ):
            raise ParameterError("start", f"must be {self.problem.dimension} numbers, a model within the ball")


def _check_steps(steps: int, name: str) -> None:
    if whole(steps, name) > MOST_STEPS:
        raise ParameterError(name, f"must be at most {MOST_STEPS:,}, not {steps:,}")


def _check_resolution(resolution: int) -> None:
    whole(resolution, "resolution")
    if resolution & (resolution - 1) or resolution > 2**30:
        raise ParameterError("resolution", f"must be a power of two, at most 2^30, not {resolution}")
