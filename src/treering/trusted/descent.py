"""PRIVATE: noisy projected gradient descent: each step sees an integer sum of gradients, plus discrete Gaussian noise.

*Formal guarantee.* An entry's integer gradient has norm at most B = `largest_gradient` by construction: for a linear
loss a slope clipped to ±B times integer features of norm at most 1 (in their unit), otherwise a vector whose norm is
checked in integers. So a replaced entry moves the exact integer sum by at most 2B, and every step is
(2B)²/(2σ²)-zCDP; everything after the noise is public. Sums are exact: floats hold integers below 2^53, and larger sums
are made of 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.budget.minimising import largest_gradient
from treering.domain.minimiser import Descent
from treering.domain.problem import FEATURE_UNIT, Problem
from treering.gate import Gaussian
from treering.trusted.entries import Entries
from treering.trusted.noise import draw

_MOST_ROWS: Final = 2**16
_COPIED: Final = 2**24
_DRAWN: Final = 2**12
_SHORT: Final = 64.0
"""e^64 is within single precision."""

Slope: TypeAlias = Callable[[Floats], Floats]
"""A noisy gradient at a model, with fresh noise each time."""


def descend(problem: Problem, method: Descent, entries: Entries) -> Floats:
    """The average model of the schedule."""
    start = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    unit = gradient_unit(problem, method)
    entries = _by_column(entries)
    noise = _noise(method, unit, problem.dimension)

    def slope(theta: Floats) -> Floats:
        """A fresh noisy mean gradient."""
        noisy = gradient_sum(problem, method, entries, theta)[0] + next(noise)
        return np.asarray(noisy / (unit * float(entries.size)) + problem.regularisation * theta)

    if method.schedule == "accelerated":
        return _accelerated(problem, method, start, slope)
    return _averaged(problem, method, start, slope)


def _noise(method: Descent, unit: int, dimension: int) -> Iterator[Ints]:
    """Fresh noise for each step, drawn for many steps at once: one by one it would take as long as the gradients."""
    ahead = max(1, _DRAWN // dimension)
    for first in range(0, method.steps, ahead):
        steps = min(ahead, method.steps - first)
        yield from draw(Gaussian(method.scale), unit, steps * dimension).reshape(steps, dimension)


def _averaged(problem: Problem, method: Descent, theta: Floats, slope: Slope) -> Floats:
    """The average of all models, the first and the last included: plain, or with weights 1, 2, 3 …"""
    strong = method.schedule == "strong"
    total, weights = theta.copy(), 1.0
    for step in range(1, method.steps + 1):
        length = 2 / (problem.strong_convexity * (step + 1)) if strong else method.length(step)
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
        theta = problem.project(theta - method.length(step) * slope(between))
        average = (1 - weight) * average + weight * theta
    return np.asarray(average)


# -- the integer sum of gradients --------------------------------------------------------------------------------------


def _by_column(entries: Entries) -> Entries:
    """PRIVATE: the same, with contiguous columns: products take half the time, and a copy as long as two of them."""
    if entries.weights is not None or entries.grid.size > _COPIED:
        return entries
    return Entries(np.asfortranarray(entries.grid), entries.labels, None, entries.size, None)


def gradient_unit(problem: Problem, method: Descent) -> int:
    """How many integer units make 1."""
    return method.resolution * (FEATURE_UNIT if problem.loss.linear else 1)


def gradient_sum(problem: Problem, method: Descent, entries: Entries, theta: Floats) -> tuple[Ints, int]:
    """PRIVATE: the exact sum of all entries' integer gradients, and how many integer units make 1."""
    largest = largest_gradient(problem, method)
    total = np.zeros(problem.dimension, dtype=np.int64)
    if problem.loss.linear:
        precision = _precision(problem, method)
        for grid, labels, weights in entries.blocks(_rows(largest)):
            predictions = (grid @ (theta / FEATURE_UNIT)).astype(precision, copy=False)
            slopes = problem.loss.slopes(predictions, labels.astype(precision, copy=False))
            slopes *= method.resolution
            # Either precision holds the limit exactly: singles are for limits below 2^24.
            whole = np.clip(np.rint(slopes, out=slopes), -largest, largest, out=slopes)
            total += _weighted(whole.astype(np.float64, copy=False), weights, grid)
        return total, gradient_unit(problem, method)
    for grid, labels, weights in entries.blocks():
        each = _short(problem.loss.gradients(theta, grid / FEATURE_UNIT, labels), largest)
        total += each.sum(axis=0) if weights is None else weights @ each
    return total, gradient_unit(problem, method)


def _precision(problem: Problem, method: Descent) -> npt.DTypeLike:
    """Singles, in which exponentials are four times as fast, where a slope is off by less than ¼ of its rounding unit.

    A prediction is off by 2^-24·R, times M in the slope, which has some 2^-22·L of its own. Only accuracy hangs on it
    (the bounds allow for a whole unit): slopes are rounded and clipped to integers whatever they are.
    """
    loss = problem.loss
    off = 2.0**-22 * (problem.lipschitz + loss.smoothness(problem.radius) * problem.radius) * method.resolution
    return np.float32 if off <= 0.25 and problem.radius <= _SHORT else np.float64


def _rows(largest: int) -> int:
    """So many slopes of at most ``largest`` times features of at most 2^16 add up to less than 2^53, in floats; but no
    more than stay in a processor's cache."""
    return max(1, min(_MOST_ROWS, 2**36 // largest))


def _weighted(slopes: Floats, weights: Ints | None, grid: Floats) -> Ints:
    """Σ slope·weight·features, exactly: in floats, whose sums stay below 2^53 (`_rows`); weighted ones as 64-bit
    integers, which the size leaves room for."""
    if weights is None:
        return np.asarray((slopes @ grid).astype(np.int64))
    return np.asarray((slopes.astype(np.int64) * weights) @ grid.astype(np.int64))


def _short(gradients: Floats, largest: int) -> Ints:
    """Rounded towards zero in units that leave room for rounding; a row still longer than ``largest`` would be dropped,
    so that its norm is bounded whatever the floats did."""
    rows = np.trunc(gradients * (largest - 1)).astype(np.int64)
    fits = np.square(rows).sum(axis=1) <= largest**2
    return np.where(fits[:, None], rows, 0)
