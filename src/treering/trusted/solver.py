"""PRIVATE: the solver behind output perturbation: so many passes, and a distance to the minimiser on every data set.

Projected gradient descent in the norm of P = (m+M)/2·S + λI, where S is the mean of xxᵀ (exact sums, maintained) and
m ≤ φ″ ≤ M bounds the loss's curvature. Its rate is (M−m)/(M+m+2λ): 0.12 a pass for logistic loss at radius 1, and 0 for
squared loss, which needs no pass at all but the exact moments. `treering.budget.minimising.solver_distance` has the
proof, rounding included; what is computed here must stay within what it says.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.minimising import solver_convexity
from treering.domain.loss import Squared
from treering.domain.minimiser import Perturbation
from treering.domain.problem import FEATURE_UNIT, Problem
from treering.trusted.entries import Entries

_ROUNDS: Final = 10
_PARTS: Final = np.linspace(0.0, 1.0, 65)
"""Ten rounds of 64 parts each find a root to 2^-60 of the interval."""


def solve(problem: Problem, method: Perturbation, entries: Entries) -> Floats:
    """A model within `solver_distance` of the minimiser, whatever the entries. Never fails."""
    convexity = solver_convexity(problem, method)
    second = entries.moments.square / (entries.size * float(FEATURE_UNIT) ** 2)
    loss = problem.loss
    middle = (loss.smoothness(problem.radius) + loss.flatness(problem.radius)) / 2
    scales, basis = np.linalg.eigh(middle * second)
    # Rounding can leave the least eigenvalues just below 0, where the exact ones are not.
    scales = np.maximum(scales, 0.0) + convexity
    theta = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    for _ in range(method.iterations):
        slope = _gradient(problem, entries, theta, second) + convexity * theta
        aim = scales * (basis.T @ theta) - basis.T @ slope
        theta = problem.project(basis @ _within(aim, scales, problem.radius))
    return theta


def _gradient(problem: Problem, entries: Entries, theta: Floats, second: Floats) -> Floats:
    """The gradient of the mean loss: from the moments for squared loss, in one pass otherwise."""
    if isinstance(problem.loss, Squared):
        return np.asarray(second @ theta - entries.moments.cross / (entries.size * float(FEATURE_UNIT) ** 2))
    sums = []
    for grid, labels, weights in entries.blocks():
        slopes = problem.loss.slopes(grid @ (theta / FEATURE_UNIT), labels)
        sums.append((slopes if weights is None else slopes * weights) @ grid)
    # Blocks are added up exactly: the error does not grow with their number.
    exact = [math.fsum(column) for column in zip(*(each.tolist() for each in sums), strict=True)]
    return np.array(exact) / (entries.size * float(FEATURE_UNIT))


def _within(aim: Floats, scales: Floats, radius: float) -> Floats:
    """The minimiser of ½·Σ s_j·z_j² − Σ a_j·z_j over the ball: z_j = a_j/(s_j + ν), ν = 0 or such that ‖z‖ = radius."""
    free = aim / scales
    if np.linalg.norm(free) <= radius:
        return np.asarray(free)
    low, high = 0.0, float(np.linalg.norm(aim)) / radius
    for _ in range(_ROUNDS):
        tries = low + (high - low) * _PARTS
        # The length falls as ν grows, and at the right end it is at most the radius.
        lengths = np.linalg.norm(aim / (scales + tries[1:-1, None]), axis=1)
        beyond = int(np.count_nonzero(lengths > radius))
        low, high = float(tries[beyond]), float(tries[beyond + 1])
    return np.asarray(aim / (scales + high))
