"""PRIVATE: squared loss from noisy moments, refined by what the model leaves of the labels.

*Formal guarantee.* `_noisy_moments` are the exact integer sums of xxᵀ, each pair of features once, and of yx, plus
discrete Gaussian noise: (9/2)/(2σ²)-zCDP. A round of `Refinement` adds noise to counts of residuals, of which a
replaced entry moves two by one (`_noisy_sizes`), and to an integer sum of residuals clipped to ±c times features of
norm at most 1, which it moves by at most 2c by construction (`_noisy_residuals`); c is computed from the noisy counts.
Everything else is a function of what these released. `treering.budget.minimising` has the costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.minimising import BESIDE
from treering.domain.problem import FEATURE_UNIT, NoisyMoments, Problem, Refinement
from treering.errors import ParameterError
from treering.noise import Gaussian
from treering.params import at_least, exact_scale
from treering.trusted.cells import MAX_COUNT
from treering.trusted.learning.points import Entries
from treering.trusted.noise import check_scale, draw


def _noisy_moments(problem: Problem, method: NoisyMoments, entries: Entries) -> tuple[Floats, Floats]:
    """The means of xxᵀ and of yx, plus noise."""
    unit, dimension = FEATURE_UNIT**2, problem.dimension
    above = np.triu_indices(dimension, 1)
    beside = Gaussian(at_least(exact_scale(method.scale, "scale") * BESIDE))
    noise = np.diag(draw(Gaussian(method.scale), unit, dimension))
    noise[above] = draw(beside, unit, len(above[0]))
    cross = entries.moments.cross + draw(Gaussian(method.scale), unit, dimension)
    square = np.triu(entries.moments.square) + noise
    whole = unit * float(entries.size)
    return (square + np.triu(square, 1).T) / whole, cross / whole


def fitted(problem: Problem, method: NoisyMoments, entries: Entries) -> Floats:
    """The model that fits noisy moments, made finer by noisy sums of what it leaves."""
    moments = _noisy_moments(problem, method, entries)
    first = theta = fit(problem, method, *moments)
    refinement = method.refinement
    for _ in range(0 if refinement is None else refinement.rounds):
        assert refinement is not None
        clip = clip_for(_noisy_sizes(refinement, entries, theta), entries.size, refinement.errors)
        slope = _noisy_residuals(refinement, entries, theta, clip) - problem.regularisation * theta
        theta = refined(problem, method, moments, (first, theta), slope)
    return theta


def fit(problem: Problem, method: NoisyMoments, square: Floats, cross: Floats) -> Floats:
    """The model that fits released moments: a function of public values alone."""
    scales, basis = _curvature(problem, method, square)
    return np.asarray(basis @ within(basis.T @ _towards(problem, method, cross), scales, problem.radius))


def _curvature(problem: Problem, method: NoisyMoments, square: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues and eigenvectors of the objective's second derivative."""
    scales, basis = np.linalg.eigh(square)
    return np.maximum(scales, 0.0) + problem.regularisation + max(method.ridge, 2.0**-40), basis


def _towards(problem: Problem, method: NoisyMoments, cross: Floats) -> Floats:
    """The linear part of the objective, with the pull towards the start."""
    start = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    return np.asarray(cross + method.ridge * start)


_FINEST: Final = 12
_CLIPS: Final = 2.0 ** np.arange(-_FINEST, 2)
"""What residuals may be clipped to."""
_FEW: Final = 0.02
"""The part of the entries whose residuals may be clipped."""
_RESIDUAL: Final = FEATURE_UNIT
"""Residuals are multiples of one over this: a clip is a whole number of them."""


def clip_for(sizes: Ints, size: int, noise: float) -> float:
    """The least clip that few residuals exceed, by noisy counts of their sizes: public."""
    beyond = np.cumsum(sizes[::-1])[::-1][1:]
    fits = beyond <= _FEW * size + 4 * noise
    return float(_CLIPS[fits.argmax()] if fits.any() else _CLIPS[-1])


def refined(
    problem: Problem,
    method: NoisyMoments,
    moments: tuple[Floats, Floats],
    models: tuple[Floats, Floats],
    slope: Floats,
) -> Floats:
    """A Newton step by released values alone: from the last of the ``models``, and no further from the first than lets
    the objective of the moments, a convex function, rise by what is allowed."""
    (square, cross), (first, last) = moments, models
    scales, basis = _curvature(problem, method, square)
    step = basis @ within(scales * (basis.T @ last) + basis.T @ slope, scales, problem.radius)
    towards = _towards(problem, method, cross)

    def objective(theta: Floats) -> float:
        turned = basis.T @ theta
        return float(scales @ np.square(turned) / 2 - towards @ theta)

    assert method.refinement is not None
    rise = objective(step) - objective(first)
    return np.asarray(first + min(1.0, method.refinement.allowed / max(rise, 2.0**-60)) * (step - first))


def _residuals(entries: Entries, theta: Floats) -> Iterator[tuple[Floats, Floats, Ints | None]]:
    """PRIVATE: integer features, residuals and weights, in blocks whose sums are exact."""
    for grid, labels, weights in entries.blocks(exact_rows(int(_CLIPS[-1]) * _RESIDUAL)):
        yield grid, labels - grid @ (theta / FEATURE_UNIT), weights


def _noisy_sizes(refinement: Refinement, entries: Entries, theta: Floats) -> Ints:
    """How many residuals lie between the clips, plus noise."""
    counts = draw(Gaussian(refinement.errors), 1, len(_CLIPS) + 1)
    for _, residuals, weights in _residuals(entries, theta):
        np.add.at(counts, np.searchsorted(_CLIPS, np.abs(residuals)), 1 if weights is None else weights)
    return counts


def _noisy_residuals(refinement: Refinement, entries: Entries, theta: Floats, clip: float) -> Floats:
    """The mean of features times clipped residuals, plus noise. A clip is a power of two: its products are exact."""
    unit = _RESIDUAL * FEATURE_UNIT
    total = draw(Gaussian(refinement.slopes * clip), unit, entries.dimension)
    for grid, residuals, weights in _residuals(entries, theta):
        most = clip * _RESIDUAL
        total += weighted_sum(np.clip(np.rint(residuals * _RESIDUAL), -most, most), weights, grid)
    return np.asarray(total / (unit * float(entries.size)))


def check_refinement(refinement: Refinement | None, size: int) -> None:
    """Refuse noise that cannot be drawn, and sums that could overflow."""
    if refinement is None:
        return
    if type(refinement) is not Refinement:
        raise ParameterError("refinement", f"must be a Refinement, and no subclass, not a {type(refinement).__name__}")
    check_scale(refinement.errors, 1)
    for clip in _CLIPS[0], _CLIPS[-1]:
        check_scale(refinement.slopes * float(clip), _RESIDUAL * FEATURE_UNIT)
    check_room(size * float(_CLIPS[-1]) * _RESIDUAL * FEATURE_UNIT, "size")


# -- exact sums --------------------------------------------------------------------------------------------------------


_MOST_ROWS: Final = 2**16


def check_room(largest: float, name: str) -> None:
    """Refuse sums that could overflow."""
    if largest >= MAX_COUNT:
        raise ParameterError(name, "times the size is too large for 64-bit sums: use a coarser one")


def exact_rows(largest: int) -> int:
    """The rows of a block: so few that their slopes, at most ``largest``, times features, at most 2^16, sum to less
    than 2^53, exact in floats; and no more than stay in a processor's cache."""
    return max(1, min(_MOST_ROWS, 2**36 // largest))


def weighted_sum(slopes: Floats, weights: Ints | None, grid: Floats) -> Ints:
    """Σ slope·weight·features, exactly: in floats, whose sums stay below 2^53 (`exact_rows`); weighted ones as 64-bit
    integers, which the size leaves room for."""
    if weights is None:
        return np.asarray((slopes @ grid).astype(np.int64))
    return np.asarray((slopes.astype(np.int64) * weights) @ grid.astype(np.int64))


# -- quadratic functions over a ball -----------------------------------------------------------------------------------


_ROUNDS: Final = 10
_PARTS: Final = np.linspace(0.0, 1.0, 65)
"""Ten rounds, each dividing the interval into 64 parts, find a root to 2^-60 of the first interval."""


def within(aim: Floats, scales: Floats, radius: float) -> Floats:
    """The minimiser of ½·Σ s_j·z_j² − Σ a_j·z_j over the ball: z_j = a_j/(s_j + ν), ν = 0 or such that ‖z‖ = radius."""
    free = aim / scales
    if np.linalg.norm(free) <= radius:
        return np.asarray(free)
    low, high = 0.0, float(np.linalg.norm(aim)) / radius
    for _ in range(_ROUNDS):
        tries = low + (high - low) * _PARTS
        # ‖z‖ falls as ν grows, and at the right end of the interval it is at most the radius.
        lengths = np.linalg.norm(aim / (scales + tries[1:-1, None]), axis=1)
        beyond = int(np.count_nonzero(lengths > radius))
        low, high = float(tries[beyond]), float(tries[beyond + 1])
    return np.asarray(aim / (scales + high))
