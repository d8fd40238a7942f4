"""PRIVATE: empirical risk minimisers: output perturbation, noisy descent, a choice among candidates, noisy moments.

First `price`, on public values alone; then, once that is charged, `entries`, of all rows or of those of an interval
(others are not read), and their `minimum`. ``budget/minimising.py`` has the costs. No outcome depends on data except
through the noise: numbers of passes, steps and candidates are public, and nothing can fail to converge. Neighbours
replace one entry.

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

Noisy moments are in ``moments.py``.

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
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from math import floor, sqrt
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.budget.cost import Cost
from treering.budget.minimising import largest_gradient, loss_width, minimising, solver_convexity
from treering.domain.axis import refines
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Labels, Logistic, RobustLogistic, Squared
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
from treering.gate import Told
from treering.noise import Gaussian, Laplace
from treering.params import exact_scale
from treering.trusted.cells import check_query
from treering.trusted.learning.moments import check_refinement, check_room, exact_rows, fitted, weighted_sum, within
from treering.trusted.learning.points import Entries, Points, entries_of_cells
from treering.trusted.noise import check_scale, draw
from treering.trusted.rows.kept import Rows
from treering.trusted.samplers.select import exponential

LOSSES: Final = (Logistic, RobustLogistic, HuberHinge, Squared, Distance, HuberDistance)
"""The losses whose constants are proven."""

MOST_ENTRIES: Final = 2**29
"""Exact moments of more entries could overflow 64 bits."""


def price(request: Minimise, table: Rows, rows: tuple[int, int] | None = None, held: int = 0) -> Cost:
    """The cost of a minimisation; ``rows`` is as in `entries`, of which ``held`` are not learnt from. Refuses on public
    values, before anything is charged or read."""
    check_types(request)
    problem, method = request.problem, request.method
    size = table.size if rows is None else rows[1] - rows[0] - held
    check_labels(label_kind(request, table), problem.loss)
    if size > MOST_ENTRIES:
        raise ParameterError("size", f"must be at most {MOST_ENTRIES:,} entries to learn from")
    cost = minimising(problem, method, size)
    match method:
        case Perturbation():
            check_scale(method.scale, 1)
        case Descent():
            check_room(size * problem.lipschitz * method.resolution * FEATURE_UNIT, "resolution")
            check_scale(method.scale, method.resolution * (FEATURE_UNIT if problem.loss.linear else 1))
        case Net():
            check_room(size * (problem.lipschitz * problem.radius + 1) * method.resolution, "resolution")
            candidates(problem, method)
        case NoisyMoments():
            check_scale(method.scale, FEATURE_UNIT**2)
            check_refinement(method.refinement, size)
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


def minimum(request: Minimise, entries: Entries, progress: Told | None = None) -> tuple[float, ...]:
    """The noisy minimiser, a model in the ball. To be called once its `price` is charged.

    ``progress`` is called at each step of descent: it sees the step and the number of steps, which are public.
    """
    problem, method = request.problem, request.method
    match method:
        case Perturbation():
            theta = _perturbed(problem, method, solve(problem, method, entries))
        case Descent():
            theta = descend(problem, method, entries, progress)
        case Net():
            theta = choose(problem, method, entries)
        case NoisyMoments():
            theta = fitted(problem, method, entries)
    return tuple(problem.project(theta).tolist())


def _perturbed(problem: Problem, method: Perturbation, theta: Floats) -> Floats:
    """The model on the integer grid, plus noise. The pitch is a power of two: scaling by it is exact."""
    noise = draw(Laplace(method.scale) if method.noise == "laplace" else Gaussian(method.scale), 1, problem.dimension)
    return np.asarray((np.rint(theta / method.pitch).astype(np.int64) + noise) * method.pitch)


def entries(request: Minimise, table: Rows, rows: tuple[int, int] | None = None) -> Entries:
    """PRIVATE: what is learnt from: all rows, or those of an interval between two sizes that are marked."""
    if isinstance(table, Points):
        return table.entries(rows)
    assert request.features is not None
    return entries_of_cells(table, request.features, rows)


def label_kind(request: Minimise, table: Rows) -> Labels:
    """The kind of labels. Refuses a map of features for points, none for cells, and a wrong dimension or schema."""
    if isinstance(table, Points):
        if request.features is not None:
            raise ParameterError("features", "are a map from cells: points have features of their own")
        if table.dimension != request.problem.dimension:
            raise ParameterError("dimension", f"must be that of the points, {table.dimension}")
        return table.label_kind
    if request.features is None:
        raise ParameterError("features", "must say how the database's cells become vectors: use CellFeatures")
    if not refines(table.schema, request.features.schema):
        raise QueryError("the features are about another schema than this database")
    if request.features.target is not None:
        check_query(request.features.target, request.features.schema)
    return request.features.label_kind


# -- noisy projected gradient descent ----------------------------------------------------------------------------------


_COPIED: Final = 2**24
_DRAWN: Final = 2**12
_SHORT: Final = 64.0
"""The largest radius for single precision, which holds e^64."""

Slope: TypeAlias = Callable[[Floats], Floats]
"""A noisy gradient at a model, with fresh noise each time."""


def descend(problem: Problem, method: Descent, entries: Entries, progress: Told | None = None) -> Floats:
    """The average model, weighted as the method's schedule says."""
    start = problem.project(np.zeros(problem.dimension) if method.start is None else np.array(method.start))
    unit = gradient_unit(problem, method)
    entries = _by_column(entries)
    noise = _noise(method, unit, problem.dimension, progress)

    def slope(theta: Floats) -> Floats:
        """A fresh noisy mean gradient."""
        noisy = gradient_sum(problem, method, entries, theta)[0] + next(noise)
        return np.asarray(noisy / (unit * float(entries.size)) + problem.regularisation * theta)

    if method.schedule == "accelerated":
        return accelerated(problem, method, start, slope)
    return _averaged(problem, method, start, slope)


def _noise(method: Descent, unit: int, dimension: int, progress: Told | None) -> Iterator[Ints]:
    """Fresh noise for each step, drawn for many steps at once: one by one it would take as long as the gradients."""
    ahead = max(1, _DRAWN // dimension)
    for first in range(0, method.steps, ahead):
        steps = min(ahead, method.steps - first)
        drawn = draw(Gaussian(method.scale), unit, steps * dimension).reshape(steps, dimension)
        for step, each in enumerate(drawn, first):
            if progress is not None:
                _tell(progress, step, method.steps)
            yield each


def _tell(progress: Told, step: int, steps: int) -> None:
    """Call a caller's function, whose errors do not matter here: the model is paid for."""
    with suppress(Exception):
        progress(step, steps)


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
        for grid, labels, weights in entries.blocks(exact_rows(largest)):
            predictions = (grid @ (theta / FEATURE_UNIT)).astype(precision, copy=False)
            slopes = problem.loss.slopes(predictions, labels.astype(precision, copy=False))
            slopes *= method.resolution
            # Either precision holds ``largest`` exactly: single precision is for values below 2^24.
            whole = np.clip(np.rint(slopes, out=slopes), -largest, largest, out=slopes)
            total += weighted_sum(whole.astype(np.float64, copy=False), weights, grid)
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


# -- the solver behind output perturbation -----------------------------------------------------------------------------


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
        theta = problem.project(basis @ within(aim, scales, problem.radius))
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
