"""PRIVATE: the exponential mechanism over a net of the ball, exact.

*Formal guarantee.* A candidate's score is minus the sum of integer losses, each clipped to a public range of width w
(`treering.budget.minimising.loss_width`), so a replaced entry moves it by at most w; `select.exponential` draws
exactly, and is (2w/scale)-DP.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, sqrt
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.minimising import loss_width
from treering.domain.minimiser import MOST_CANDIDATES, Net
from treering.domain.problem import FEATURE_UNIT, Problem
from treering.errors import ParameterError
from treering.params import exact_scale
from treering.trusted.entries import Entries
from treering.trusted.select import exponential

_ROWS: Final = 256
"""Entries at a time, beside `_COLUMNS` candidates: blocks that stay in the cache."""
_COLUMNS: Final = 1024


@lru_cache(maxsize=4)
def candidates(problem: Problem, method: Net) -> Floats:
    """The net, one model per row: public. Refuses one that is too large."""
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
    """Exact: a block's sum of integers is below 2^53, and blocks are added as integers of any length."""
    totals = np.zeros(len(models), dtype=np.int64)
    columns = np.ascontiguousarray(models.T)
    for grid, labels, weights in entries.blocks(_ROWS):
        features = grid / FEATURE_UNIT
        losses = problem.loss.values(columns, features, labels)
        losses -= problem.loss.values(np.zeros(problem.dimension), features, labels)[:, None]
        whole = np.clip(np.rint(losses * method.resolution), lowest, highest)
        totals += whole.sum(axis=0).astype(np.int64) if weights is None else weights @ whole.astype(np.int64)
    return [int(total) for total in totals]
