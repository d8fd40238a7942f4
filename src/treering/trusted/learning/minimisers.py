"""PRIVATE: empirical risk minimisers. First `price`, on public values alone; then, once that is charged, `minimum`.

*Formal guarantees*, neighbours replacing one entry: see ``budget/minimising.py`` for the three costs, and the three
modules that this one calls for how they are kept. No outcome depends on data but through the noise: numbers of passes,
steps and candidates are public, and nothing can fail to converge.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.cost import Cost
from treering.budget.minimising import minimising
from treering.domain.loss import Labels
from treering.domain.minimiser import Descent, Minimise, Net, Perturbation
from treering.domain.problem import FEATURE_UNIT, Problem, check_labels
from treering.errors import ParameterError, QueryError
from treering.gate import Gaussian, Laplace
from treering.trusted.counts import MAX_COUNT, Counts
from treering.trusted.descent import descend
from treering.trusted.entries import Entries, entries_of_cells
from treering.trusted.learning.points import Points
from treering.trusted.net import candidates, choose
from treering.trusted.noise import check_scale, draw
from treering.trusted.solver import solve

MOST_ENTRIES: Final = 2**29
"""Exact moments of more entries could overflow 64 bits."""


def price(request: Minimise, counts: Counts) -> Cost:
    """What a minimisation costs. Refuses on public values, before anything is charged or touched."""
    problem, method = request.problem, request.method
    check_labels(_label_kind(request, counts), problem.loss)
    if counts.size > MOST_ENTRIES:
        raise ParameterError("size", f"must be at most {MOST_ENTRIES:,} entries to learn from")
    cost = minimising(problem, method, counts.size)
    match method:
        case Perturbation():
            check_scale(method.scale, 1)
        case Descent():
            _check_room(counts.size * problem.lipschitz * method.resolution * FEATURE_UNIT, "resolution")
            check_scale(method.scale, method.resolution * (FEATURE_UNIT if problem.loss.linear else 1))
        case Net():
            _check_room(counts.size * (problem.lipschitz * problem.radius + 1) * method.resolution, "resolution")
            candidates(problem, method)
    return cost


def minimum(request: Minimise, counts: Counts) -> tuple[float, ...]:
    """The noisy minimiser, a model in the ball. To be called once its price is charged."""
    problem, method = request.problem, request.method
    entries = _read(request, counts)
    match method:
        case Perturbation():
            theta = _perturbed(problem, method, solve(problem, method, entries))
        case Descent():
            theta = descend(problem, method, entries)
        case Net():
            theta = choose(problem, method, entries)
    return tuple(problem.project(theta).tolist())


def _perturbed(problem: Problem, method: Perturbation, theta: Floats) -> Floats:
    """The model on the integer grid, plus noise. The pitch is a power of two: scaling by it is exact."""
    noise = draw(Laplace(method.scale) if method.noise == "laplace" else Gaussian(method.scale), 1, problem.dimension)
    return np.asarray((np.rint(theta / method.pitch).astype(np.int64) + noise) * method.pitch)


def _read(request: Minimise, counts: Counts) -> Entries:
    if isinstance(counts, Points):
        return counts.entries()
    assert request.features is not None
    return entries_of_cells(counts, request.features)


def _label_kind(request: Minimise, counts: Counts) -> Labels:
    """What the labels are; refuses features where there are points, none where there are cells, and a wrong shape."""
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
    return request.features.label_kind


def _check_room(largest: float, name: str) -> None:
    if largest >= MAX_COUNT:
        raise ParameterError(name, "times the size is too large for 64-bit sums: use a coarser one")
