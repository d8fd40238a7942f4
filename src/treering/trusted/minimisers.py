"""PRIVATE: empirical risk minimisers: output perturbation, noisy descent, a choice among candidates, noisy moments.

First `price`, on public values alone; then, once that is charged, `minimum`, of all rows or of those of an interval:
others are not read. ``budget/minimising.py`` has the costs. No outcome depends on data except through the noise:
numbers of passes, steps and candidates are public, and nothing can fail to converge. Neighbours replace one entry.

*Formal guarantee of descent* (`descend`): noisy projected gradient descent, in which each step sees an integer sum of
gradients plus discrete Gaussian noise. An entry's integer gradient has norm at most B = `largest_gradient` by
construction: for a linear loss a slope clipped to ±B times integer features of norm at most 1 (in their unit),
otherwise a vector whose norm is checked in integers. So a replaced entry moves the exact integer sum by at most 2B, and
every step is (2B)²/(2σ²)-zCDP; everything after the noise is public. Sums are exact: floats hold integers below 2^53,
and larger sums are made of 64-bit integers.

*Formal guarantee of the net* (`choose`): the exponential mechanism over a net of the ball, exact. A candidate's score
is minus the sum of integer losses, each clipped to a public range of width w
(`treering.budget.minimising.loss_width`), so a replaced entry moves it by at most w; `select.exponential` draws
exactly, and is (2w/scale)-DP.

*Formal guarantee of noisy moments* (`fit`): the exact integer sums of xxᵀ, each pair of features once, and of yx, plus
discrete Gaussian noise: (9/2)/(2σ²)-zCDP (`treering.budget.minimising`); the model is computed from that alone.

*The solver behind output perturbation* (`solve`) makes a public number of passes, and ends within a known distance of
the minimiser on every data set. It is projected gradient descent in the norm of P = (m+M)/2·S + λI, where S is the mean
of xxᵀ (exact sums, maintained) and m ≤ φ″ ≤ M bounds the loss's curvature. Its rate is (M−m)/(M+m+2λ): 0.12 a pass for
logistic loss at radius 1, and 0 for squared loss, which needs no pass at all but the exact moments.
`treering.budget.minimising.solver_distance` has the proof, rounding included; what is computed here must stay within
what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from math import floor, sqrt
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.budget.cost import Cost
from treering.budget.minimising import BESIDE, largest_gradient, loss_width, minimising, solver_convexity
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Labels, Logistic, Squared
from treering.domain.problem import (
    FEATURE_UNIT,
    MOST_CANDIDATES,
    CellFeatures,
    Descent,
    Minimise,
    Net,
    NoisyMoments,
    Perturbation,
    Problem,
    check_labels,
)
from treering.errors import ParameterError, QueryError
from treering.noise import Gaussian, Laplace
from treering.params import at_least, exact_scale
from treering.trusted.counts import MAX_COUNT, Counts, check_query
from treering.trusted.noise import check_scale, draw
from treering.trusted.points import Entries, Points, entries_of_cells
from treering.trusted.select import exponential

LOSSES: Final = (Logistic, HuberHinge, Squared, Distance, HuberDistance)
"""The losses whose constants are proven."""

MOST_ENTRIES: Final = 2**29
"""Exact moments of more entries could overflow 64 bits."""


def price(request: Minimise, counts: Counts, rows: tuple[int, int] | None = None) -> Cost:
    """The cost of a minimisation; ``rows`` is as in `minimum`. Refuses on public values, before anything is charged or
    read."""
    check_types(request)
    problem, method = request.problem, request.method
    size = counts.size if rows is None else rows[1] - rows[0]
    check_labels(_label_kind(request, counts), problem.loss)
    if size > MOST_ENTRIES:
        raise ParameterError("size", f"must be at most {MOST_ENTRIES:,} entries to learn from")
    cost = minimising(problem, method, size)
    match method:
        case Perturbation():
            check_scale(method.scale, 1)
        case Descent():
            _check_room(size * problem.lipschitz * method.resolution * FEATURE_UNIT, "resolution")
            check_scale(method.scale, method.resolution * (FEATURE_UNIT if problem.loss.linear else 1))
        case Net():
            _check_room(size * (problem.lipschitz * problem.radius + 1) * method.resolution, "resolution")
            candidates(problem, method)
        case NoisyMoments():
            check_scale(method.scale, FEATURE_UNIT**2)
    return cost


def check_types(request: Minimise) -> None:
    """Refuse all but the known problems, methods, losses and features, by their exact types: the cost rests on the
    constants that they state, and a subclass could state others."""
    if type(request) is not Minimise:
        raise ParameterError("request", f"must be a Minimise, not a {type(request).__name__}")
    given = (
        ("problem", request.problem, (Problem,)),
        ("method", request.method, (Perturbation, Descent, Net, NoisyMoments)),
        ("loss", request.problem.loss, LOSSES),
        ("features", request.features, (type(None), CellFeatures)),
    )
    for name, value, known in given:
        if type(value) not in known:
            names = " or ".join(each.__name__ for each in known if each is not type(None))
            raise ParameterError(name, f"must be a {names}, and no subclass, not a {type(value).__name__}")


def minimum(request: Minimise, counts: Counts, rows: tuple[int, int] | None = None) -> tuple[float, ...]:
    """The noisy minimiser, a model in the ball. To be called once its `price` is charged.

    ``rows`` are sizes that are marked: the rows after the first of them, up to the second; None: all rows.
    """
    problem, method = request.problem, request.method
    entries = _read(request, counts, rows)
    match method:
        case Perturbation():
            theta = _perturbed(problem, method, solve(problem, method, entries))
        case Descent():
            theta = descend(problem, method, entries)
        case Net():
            theta = choose(problem, method, entries)
        case NoisyMoments():
            theta = fit(problem, method, *_noisy_moments(problem, method, entries))
    return tuple(problem.project(theta).tolist())


def _perturbed(problem: Problem, method: Perturbation, theta: Floats) -> Floats:
    """The model on the integer grid, plus noise. The pitch is a power of two: scaling by it is exact."""
    noise = draw(Laplace(method.scale) if method.noise == "laplace" else Gaussian(method.scale), 1, problem.dimension)
    return np.asarray((np.rint(theta / method.pitch).astype(np.int64) + noise) * method.pitch)


def _read(request: Minimise, counts: Counts, rows: tuple[int, int] | None) -> Entries:
    if isinstance(counts, Points):
        return counts.entries(rows)
    assert request.features is not None
    return entries_of_cells(counts, request.features, rows)


def _label_kind(request: Minimise, counts: Counts) -> Labels:
    """The kind of labels. Refuses a map of features for points, none for cells, and a wrong dimension or schema."""
    if isinstance(counts, Points):
        if request.features is not None:
            raise ParameterError("features", "are a map from cells: points have features of their own")
        if counts.dimension != request.problem.dimension:
            raise ParameterError("dimension", f"must be that of the points, {counts.dimension}")
        return counts.label_kind
    if request.features is None:
        raise ParameterError("features", "must say how the database's cells become vectors: use CellFeatures")
    if request.features.schema != counts.schema:
        raise QueryError("the features are about another schema than this database")
    if request.features.target is not None:
        check_query(request.features.target, counts.schema)
    return request.features.label_kind


def _check_room(largest: float, name: str) -> None:
    if largest >= MAX_COUNT:
        raise ParameterError(name, "times the size is too large for 64-bit sums: use a coarser one")


# -- noisy projected gradient descent ----------------------------------------------------------------------------------


_MOST_ROWS: Final = 2**16
_COPIED: Final = 2**24
_DRAWN: Final = 2**12
_SHORT: Final = 64.0
"""The largest radius for single precision, which holds e^64."""

Slope: TypeAlias = Callable[[Floats], Floats]
"""A noisy gradient at a model, with fresh noise each time."""


def descend(problem: Problem, method: Descent, entries: Entries) -> Floats:
    """The average model, weighted as the method's schedule says."""
    start = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    unit = gradient_unit(problem, method)
    entries = _by_column(entries)
    noise = _noise(method, unit, problem.dimension)

    def slope(theta: Floats) -> Floats:
        """A fresh noisy mean gradient."""
        noisy = gradient_sum(problem, method, entries, theta)[0] + next(noise)
        return np.asarray(noisy / (unit * float(entries.size)) + problem.regularisation * theta)

    if method.schedule == "accelerated":
        return accelerated(problem, method, start, slope)
    return _averaged(problem, method, start, slope)


def _noise(method: Descent, unit: int, dimension: int) -> Iterator[Ints]:
    """Fresh noise for each step, drawn for many steps at once: one by one it would take as long as the gradients."""
    ahead = max(1, _DRAWN // dimension)
    for first in range(0, method.steps, ahead):
        steps = min(ahead, method.steps - first)
        yield from draw(Gaussian(method.scale), unit, steps * dimension).reshape(steps, dimension)


def _averaged(problem: Problem, method: Descent, theta: Floats, slope: Slope) -> Floats:
    """The average of all models, the first and the last included: unweighted, or with weights 1, 2, 3 …"""
    strong = method.schedule == "strong"
    total, weights = theta.copy(), 1.0
    for step in range(1, method.steps + 1):
        length = 2 / (problem.strong_convexity * (step + 1)) if strong else method.length(step)
        theta = problem.project(theta - length * slope(theta))
        weight = step + 1.0 if strong else 1.0
        total += weight * theta
        weights += weight
    return np.asarray(total / weights)


def accelerated(problem: Problem, method: Descent, theta: Floats, slope: Slope) -> Floats:
    """Accelerated (Lan 2012): gradients are taken between the average so far and the current model, and steps grow."""
    average = theta
    for step in range(1, method.steps + 1):
        weight = 2 / (step + 1)
        between = (1 - weight) * average + weight * theta
        theta = problem.project(theta - method.length(step) * slope(between))
        average = (1 - weight) * average + weight * theta
    return np.asarray(average)


# -- the integer sum of gradients --------------------------------------------------------------------------------------


def _by_column(entries: Entries) -> Entries:
    """PRIVATE: the entries with contiguous columns: products take half the time, and the copy as long as two."""
    if entries.weights is not None or entries.grid.size > _COPIED:
        return entries
    return Entries(np.asfortranarray(entries.grid), entries.labels, None, entries.size, None)


def gradient_unit(problem: Problem, method: Descent) -> int:
    """How many units of an integer gradient make 1."""
    return method.resolution * (FEATURE_UNIT if problem.loss.linear else 1)


def gradient_sum(problem: Problem, method: Descent, entries: Entries, theta: Floats) -> tuple[Ints, int]:
    """PRIVATE: the exact sum of all entries' integer gradients, and how many of its units make 1."""
    largest = largest_gradient(problem, method)
    total = np.zeros(problem.dimension, dtype=np.int64)
    if problem.loss.linear:
        precision = _precision(problem, method)
        for grid, labels, weights in entries.blocks(_rows(largest)):
            predictions = (grid @ (theta / FEATURE_UNIT)).astype(precision, copy=False)
            slopes = problem.loss.slopes(predictions, labels.astype(precision, copy=False))
            slopes *= method.resolution
            # Either precision holds ``largest`` exactly: single precision is for values below 2^24.
            whole = np.clip(np.rint(slopes, out=slopes), -largest, largest, out=slopes)
            total += _weighted(whole.astype(np.float64, copy=False), weights, grid)
        return total, gradient_unit(problem, method)
    for grid, labels, weights in entries.blocks():
        each = _short(problem.loss.gradients(theta, grid / FEATURE_UNIT, labels), largest)
        total += each.sum(axis=0) if weights is None else weights @ each
    return total, gradient_unit(problem, method)


def _precision(problem: Problem, method: Descent) -> npt.DTypeLike:
    """Single precision, in which exponentials are four times as fast, if a slope's error is at most ¼ of its unit.

    A prediction has an error of 2^-24·R, which the slope multiplies by M, and the slope has some 2^-22·L of its own.
    Only accuracy depends on this (the bounds allow for a whole unit): any slope is rounded and clipped to an integer.
    """
    loss = problem.loss
    off = 2.0**-22 * (problem.lipschitz + loss.smoothness(problem.radius) * problem.radius) * method.resolution
    return np.float32 if off <= 0.25 and problem.radius <= _SHORT else np.float64


def _rows(largest: int) -> int:
    """The rows of a block: so few that their slopes, at most ``largest``, times features, at most 2^16, sum to less
    than 2^53, exact in floats; and no more than stay in a processor's cache."""
    return max(1, min(_MOST_ROWS, 2**36 // largest))


def _weighted(slopes: Floats, weights: Ints | None, grid: Floats) -> Ints:
    """Σ slope·weight·features, exactly: in floats, whose sums stay below 2^53 (`_rows`); weighted ones as 64-bit
    integers, which the size leaves room for."""
    if weights is None:
        return np.asarray((slopes @ grid).astype(np.int64))
    return np.asarray((slopes.astype(np.int64) * weights) @ grid.astype(np.int64))


def _short(gradients: Floats, largest: int) -> Ints:
    """Integer gradients of norm at most ``largest``: rounded towards zero in units that leave room for rounding. A row
    that is longer all the same becomes 0, so that the norm is bounded whatever the floats did."""
    rows = np.trunc(gradients * (largest - 1)).astype(np.int64)
    fits = np.square(rows).sum(axis=1) <= largest**2
    return np.where(fits[:, None], rows, 0)


# -- the exponential mechanism over a net of the ball ------------------------------------------------------------------


_ROWS: Final = 256
"""Entries of a block, for `_COLUMNS` candidates: blocks stay in a processor's cache."""
_COLUMNS: Final = 1024


@lru_cache(maxsize=4)
def candidates(problem: Problem, method: Net) -> Floats:
    """The net, one model per row: public. Refuses a net of too many models."""
    cover = method.pitch * sqrt(problem.dimension) / 2
    reach = floor((problem.radius + cover) / method.pitch)
    steps = np.arange(-reach, reach + 1) * method.pitch
    axes = np.meshgrid(*[steps] * problem.dimension, indexing="ij")
    points = np.stack([axis.reshape(-1) for axis in axes], axis=1)
    norms = np.linalg.norm(points, axis=1)
    near = norms <= problem.radius + cover
    points, norms = points[near], norms[near]
    if len(points) > MOST_CANDIDATES:
        raise ParameterError(
            "pitch", f"is too fine: {len(points):,} candidates, at most {MOST_CANDIDATES:,} are possible"
        )
    inside: Floats = points * np.minimum(1.0, problem.radius / np.maximum(norms, problem.radius / 2))[:, None]
    inside.setflags(write=False)
    return inside


def choose(problem: Problem, method: Net, entries: Entries) -> Floats:
    """A candidate drawn with probability ∝ e^{−summed loss/scale}."""
    models = candidates(problem, method)
    scores = [-loss for loss in summed_losses(problem, method, entries, models)]
    scale: Fraction = exact_scale(method.scale, "scale") * method.resolution
    return np.array(models[exponential(scores, scale)])


def summed_losses(problem: Problem, method: Net, entries: Entries, models: Floats) -> list[int]:
    """PRIVATE: each candidate's sum of integer losses, relative to that of θ = 0, with its share of the regulariser."""
    norms = np.linalg.norm(models, axis=1)
    lowest = np.floor(problem.loss.range(norms)[0] * method.resolution) - 2
    highest = lowest + loss_width(problem, method)
    ridge = np.rint(problem.regularisation / 2 * np.square(norms) * entries.size * method.resolution)
    totals = []
    for start in range(0, len(models), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        totals += _sums(problem, method, entries, models[part], lowest[part], highest[part])
    return [total + int(extra) for total, extra in zip(totals, ridge.tolist(), strict=True)]


def _sums(
    problem: Problem, method: Net, entries: Entries, models: Floats, lowest: Floats, highest: Floats
) -> list[int]:
    """The sums for some models, exact: a block's sum of integers is below 2^53, and blocks are added as integers."""
    totals = np.zeros(len(models), dtype=np.int64)
    columns = np.ascontiguousarray(models.T)
    for grid, labels, weights in entries.blocks(_ROWS):
        features = grid / FEATURE_UNIT
        losses = problem.loss.values(columns, features, labels)
        losses -= problem.loss.values(np.zeros(problem.dimension), features, labels)[:, None]
        whole = np.clip(np.rint(losses * method.resolution), lowest, highest)
        totals += whole.sum(axis=0).astype(np.int64) if weights is None else weights @ whole.astype(np.int64)
    return [int(total) for total in totals]


# -- noisy moments -----------------------------------------------------------------------------------------------------


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


def fit(problem: Problem, method: NoisyMoments, square: Floats, cross: Floats) -> Floats:
    """The model that fits released moments: a function of public values alone."""
    start = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    scales, basis = np.linalg.eigh(square)
    scales = np.maximum(scales, 0.0) + problem.regularisation + max(method.ridge, 2.0**-40)
    return np.asarray(basis @ _within(basis.T @ (cross + method.ridge * start), scales, problem.radius))


# -- the solver behind output perturbation -----------------------------------------------------------------------------


_ROUNDS: Final = 10
_PARTS: Final = np.linspace(0.0, 1.0, 65)
"""Ten rounds, each dividing the interval into 64 parts, find a root to 2^-60 of the first interval."""


def solve(problem: Problem, method: Perturbation, entries: Entries) -> Floats:
    """A model within `solver_distance` of the minimiser, whatever the entries are. Never fails."""
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
        # ‖z‖ falls as ν grows, and at the right end of the interval it is at most the radius.
        lengths = np.linalg.norm(aim / (scales + tries[1:-1, None]), axis=1)
        beyond = int(np.count_nonzero(lengths > radius))
        low, high = float(tries[beyond]), float(tries[beyond + 1])
    return np.asarray(aim / (scales + high))
