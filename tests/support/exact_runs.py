"""What a sparse-vector run answers, exactly: the probability of each transcript, summed over the threshold noise.

The run halts at the first query with gap + ν ≥ W·η. Given η the queries are independent and their probabilities closed
forms, so only η is summed over, up to 100 times its scale. What is left out, `REMAINDER` at most, is an error bar: a
transcript's true probability lies between the sum and the sum plus `REMAINDER`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

_REACH: Final = 100.0
REMAINDER: Final = 2 * math.exp(-_REACH)


@dataclass(frozen=True)
class Asked:
    """One comparison: how far the count is above the bar, in grid units, and the query's weight scale W."""

    gap: int
    weight: int = 1


def transcripts(asked: Sequence[Asked], threshold_scale: float, query_scale: float) -> Floats:
    """P(halts at query i) for each i, and last P(never halts): one threshold draw for the whole run."""
    reach = math.ceil(_REACH * threshold_scale)
    eta = np.arange(-reach, reach + 1)
    alive = laplace_mass(threshold_scale, eta)
    halts: list[float] = []
    for each in asked:
        needed = each.weight * eta - each.gap
        halts.append(float(alive @ laplace_upper(each.weight * query_scale, needed)))
        alive = alive * laplace_upper(each.weight * query_scale, 1 - needed)
    return np.array([*halts, float(alive.sum())])


def fresh_transcripts(asked: Sequence[Asked], threshold_scale: float, query_scale: float) -> Floats:
    """The same for a fresh threshold draw at every query (erratum E1)."""
    alive, halts = 1.0, []
    for each in asked:
        halt, pass_by = transcripts([each], threshold_scale, query_scale)
        halts.append(alive * halt)
        alive *= pass_by
    return np.array([*halts, alive])


def loss(left: Floats, right: Floats) -> float:
    """The largest log-ratio of a transcript's two probabilities, either way round, error bars taken at their worst."""
    ratios = np.maximum((left + REMAINDER) / right, (right + REMAINDER) / left)
    return float(np.log(ratios.max()))


def laplace_mass(scale: float, values: npt.NDArray[np.int64]) -> Floats:
    """P(X = k) of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    masses: Floats = (1 - p) / (1 + p) * np.exp(-np.abs(values) / scale)
    return masses


def laplace_upper(scale: float, values: npt.NDArray[np.int64]) -> Floats:
    """P(X ≥ k) of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    far = np.exp(-np.maximum(values, 1) / scale) / (1 + p)
    near = 1 - np.exp(-np.maximum(1 - values, 1) / scale) / (1 + p)
    return np.where(values >= 1, far, near)
