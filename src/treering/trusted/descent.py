"""PRIVATE: noisy projected gradient descent: each step sees an integer sum of gradients, plus discrete Gaussian noise.

*Formal guarantee.* An entry's integer gradient has norm at most B = `largest_gradient` by construction: for a linear
loss a slope clipped to ±B times integer features of norm at most 1 (in their unit), otherwise a vector whose norm is
checked in integers. So a replaced entry moves the exact integer sum by at most 2B, and every step is
(2B)²/(2σ²)-zCDP; everything after the noise is public. Sums are exact: floats hold integers below 2^53, and larger sums
are made of 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from treering.budget.minimising import largest_gradient
from treering.domain.loss import Floats
from treering.domain.minimiser import Descent
from treering.domain.problem import FEATURE_UNIT, Problem
from treering.gate import Gaussian
from treering.trusted.entries import Entries, Integers
from treering.trusted.noise import Ahead

Slope: TypeAlias = Callable[[Floats], Floats]
"""A noisy gradient at a model, with fresh noise each time."""


def descend(problem: Problem, method: Descent, entries: Entries) -> Floats:
    """The average model of the schedule."""
    start = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    noise = Ahead(Gaussian(method.scale))

    def slope(theta: Floats) -> Floats:
        """A fresh noisy mean gradient."""
        exact, unit = gradient_sum(problem, method, entries, theta)
        noisy = exact + noise.take(unit, problem.dimension)
        return np.asarray(noisy / (unit * float(entries.size)) + problem.regularisation * theta)

    if method.schedule == "accelerated":
        return _accelerated(problem, method, start, slope)
    return _averaged(problem, method, start, slope)


def _averaged(problem: Problem, method: Descent, theta: Floats, slope: Slope) -> Floats:
    """The average of all models, the first and the last included: plain, or with weights 1, 2, 3 …"""
    strong = method.schedule == "strong"
    total, weights = theta.copy(), 1.0
    for step in range(1, method.steps + 1):
        length = 2 / (problem.strong_convexity * (step + 1)) if strong else method.step_size
        theta = problem.project(theta - length * slope(theta))
        weight = step + 1.0 if strong else 1.0
        total += weight * theta
        weights += weight
    return np.asarray(total / weights)


def _accelerated(problem: Problem, method: Descent, theta: Floats, slope: Slope) -> Floats:
    """Lan (2012): gradients are taken between the average so far and the moving model, and steps grow."""
    average = theta
    for step in range(1, method.steps + 1):
        weight = 2 / (step + 1)
        between = (1 - weight) * average + weight * theta
        theta = problem.project(theta - step * method.step_size * slope(between))
        average = (1 - weight) * average + weight * theta
    return np.asarray(average)


# -- the integer sum of gradients --------------------------------------------------------------------------------------


def gradient_sum(problem: Problem, method: Descent, entries: Entries, theta: Floats) -> tuple[Integers, int]:
    """PRIVATE: the exact sum of all entries' integer gradients, and how many integer units make 1."""
    largest = largest_gradient(problem, method)
    total = np.zeros(problem.dimension, dtype=np.int64)
    if problem.loss.linear:
        for grid, labels, weights in entries.blocks():
            slopes = problem.loss.slopes(grid @ (theta / FEATURE_UNIT), labels) * method.resolution
            total += _weighted(np.clip(np.rint(slopes), -largest, largest), weights, grid)
        return total, method.resolution * FEATURE_UNIT
    for grid, labels, weights in entries.blocks():
        each = _short(problem.loss.gradients(theta, grid / FEATURE_UNIT, labels), largest)
        total += each.sum(axis=0) if weights is None else weights @ each
    return total, method.resolution


def _weighted(slopes: Floats, weights: Integers | None, grid: Floats) -> Integers:
    """Σ slope·weight·features, exactly.

    A block of 2^12 slopes below 2^25 times features of at most 2^16 stays below 2^53 in floats; weighted ones are
    summed as 64-bit integers, which the size leaves room for.
    """
    if weights is None and np.abs(slopes).max(initial=0.0) < 2**25:
        return np.asarray((slopes @ grid).astype(np.int64))
    whole = slopes.astype(np.int64)
    return np.asarray((whole if weights is None else whole * weights) @ grid.astype(np.int64))


def _short(gradients: Floats, largest: int) -> Integers:
    """Rounded towards zero in units that leave room for rounding; a row still longer than ``largest`` would be dropped,
    so that its norm is bounded whatever the floats did."""
    rows = np.trunc(gradients * (largest - 1)).astype(np.int64)
    fits = np.square(rows).sum(axis=1) <= largest**2
    return np.where(fits[:, None], rows, 0)
