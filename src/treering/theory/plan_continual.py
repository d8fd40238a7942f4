"""ContinualHistogram as a row of a plan: the error of all its batches together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from treering.budget.segments import prefix, segment_of
from treering.errors import ParameterError
from treering.gate import Gaussian, Laplace, Noise
from treering.theory import continual
from treering.theory.cells import CellNoise, SmoothLaplaceCell, SubGaussianCell
from treering.theory.centred import CentredBound
from treering.theory.plan.rows import kept_scale
from treering.theory.plan_case import Candidate, Case, Lifetime, mean_of_sum
from treering.theory.pmwg.tight import rarity
from treering.theory.subsets import all_subsets, subset_radius

BATCHES: Final = 100
"""The data are taken to come in batches of a hundredth of the starting size, or larger."""

_WIDE: Final = 2.0**20
_UP: Final = 1 + 1e-9


class Continual(Candidate):
    """ContinualHistogram: `treering.theory.continual` has the theorem for each batch, this for all of them.

    Batch j comes at n + (j−1)·b rows or later, b the least size of a batch. Segment k is the batches 2^k … 2^{k+1}−1;
    the noise at one of them is that of the roots of the segments before, and of one node of its own for each binary
    digit 1 of c, the number of the segment's batches so far. A segment is cut into quarters (k ≥ 2): in the i-th, 0 ≤
    i ≤ 3, c is i·2^{k−2} and the digits below, of which (i+1)·2^{k−2} − 1 has all, or c is (i+1)·2^{k−2}. Fewer nodes
    have smaller moments, β·w_j falls, and at most 4(k+1)+1 estimates share it. So the larger of the bounds at these,
    over the rows at the quarter's first batch, holds for the quarter. Once 2^k·b ≥ 4n, the next segment has at least
    1.8 times the rows, and its noise grows by less: errors fall from there on.
    """

    name = "ContinualHistogram"
    use = "ContinualHistogram(db, ...)"
    most_cells = 2**22

    def alpha(self, case: Case) -> float:
        noise = _noise(case)
        return math.inf if noise is None else noise.scale * _worst(kept_scale(noise), case.at(epsilon=1.0))

    def expected(self, case: Case, alpha: float) -> float | None:
        """That of the first batch."""
        noise = _noise(case)
        if noise is None:
            return None
        return mean_of_sum(continual.deviation(noise, prefix(1)), case.cells / 4) / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(math.inf, math.inf)

    def because(self, case: Case) -> str:
        return (
            f"{case.cells:,} cells are few for {case.size:,} rows, and new rows are counted apart from old ones, so "
            "that nothing is paid for twice"
        )

    def note(self, case: Case) -> str:
        return f"for batches of {batch_of(case):,} rows or more; its error falls as 1/rows in the long run"


def batch_of(case: Case) -> int:
    """The least size of a batch."""
    return -(-case.size // BATCHES)


def _noise(case: Case) -> Noise | None:
    try:
        return continual.start_noise(case.budget)
    except ParameterError:  # too wide for any database
        return None


@lru_cache(maxsize=256)
def _worst(scale: float | None, case: Case) -> float:
    """The largest error over all batches, in units of the scale; ``scale`` as `kept_scale`, and epsilon does not count.

    Rough bounds first: those that are below a finer one already found need no finer one.
    """
    batch = batch_of(case)
    most = 1 + (case.horizon - case.size) / batch
    rough: list[tuple[float, int, int]] = []
    segment = 0
    while 2**segment <= most and 2**segment * batch < 8 * case.size:
        for first, leaves in _quarters(segment):
            rows = case.size + (first - 1) * batch
            rough += [(_rough(_needed(scale, leaf), leaf, case.cells, case.beta) / rows, rows, leaf) for leaf in leaves]
        segment += 1
    worst = 0.0
    for bound, rows, leaf in sorted(rough, reverse=True):
        if bound > worst:
            worst = max(worst, min(bound, _fine(_needed(scale, leaf), leaf, case.cells, case.beta) / rows))
    return worst


def _quarters(segment: int) -> Iterator[tuple[int, set[int]]]:
    """The first batch of each quarter of a segment, and those whose noise is largest in it."""
    length = max(1, 2**segment // 4)
    for first in range(2**segment, 2 ** (segment + 1), length):
        last = first + length - 1
        yield first, {max(first, last - 1), last}


def _needed(scale: float | None, leaf: int) -> float | None:
    """All but the first batch have bounds that do not depend on the scale."""
    return scale if scale is None or leaf == 1 else _WIDE


def _law(scale: float | None, leaf: int) -> tuple[CellNoise, float]:
    """A law above that of a cell's noise at a batch, and the scale of the first batch's noise in it.

    Laplace noise of scale s has E e^{(u/s)X} = 1/(1 − sinh²(hu)/sinh²(h)), h = 1/(2s), where sinh(hu)/sinh(h) falls in
    h: at fixed u it rises with s, so a bound by moments for wide noise, scaled down, holds for all.
    """
    if scale is None:
        return SubGaussianCell(continual.deviation(Gaussian(1.0), prefix(leaf)) * _UP), 1.0
    if leaf == 1:
        return SmoothLaplaceCell(scale), scale
    return continual.cell_noise(Laplace(scale), prefix(leaf)), scale / _UP


def _share(leaf: int, beta: float) -> float:
    """At least what each estimate may fail with, at any batch of the leaf's segment."""
    segment = segment_of(leaf)
    weight = math.exp(-rarity(math.log(2 ** (segment + 1) - 1)))
    return beta * weight / (continual.KEPT * (segment + 1) + 1)


@lru_cache(maxsize=4096)
def _rough(scale: float | None, leaf: int, cells: int, beta: float) -> float:
    """All queries at once, and half of the total: `treering.theory.centred`, the second bound."""
    law, unit = _law(scale, leaf)
    share = _share(leaf, beta) / 4
    total = subset_radius(law, [1.0], [cells], share)
    return (float(all_subsets(law, cells, share).radius(cells / 2)) + total / 2) / unit


@lru_cache(maxsize=1024)
def _fine(scale: float | None, leaf: int, cells: int, beta: float) -> float:
    law, unit = _law(scale, leaf)
    return CentredBound(law, cells, _share(leaf, beta)).worst / unit
