"""HistogramBox: noisy counts of all cells, which answer any query.

`NoisyCounts` evaluates queries on the noisy counts, in exact integer arithmetic, and draws synthetic rows from them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.boxes.base import Progress, QueryClass, Rate, Release, SchemaBox, declared, silent
from treering.budget.promise import Budget
from treering.domain.language.parse import Question
from treering.domain.query import Query, evaluate_many
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError
from treering.mechanisms.histogram.hypothesis import cells_at, rows_of
from treering.noise import Noise
from treering.params import probability, whole
from treering.protocols import Gate
from treering.theory.cells import CellNoise, SmoothLaplaceCell, all_subsets, exact, smooth, subset_radius
from treering.theory.static import LARGEST_BETA, histogram_noise, histogram_radius, histogram_rate, rate_of
from treering.words import counted

MOST_CELLS: Final = 2**24
"""The most cells of a universe."""

Spectrum = tuple[tuple[float, ...], tuple[int, ...]]
"""The distinct weights of a query, less their mean over all cells, and the number of cells that have each."""


class HistogramBox(SchemaBox):
    """Discrete noise on the counts of all cells, which then answer any query. Best while cells are few.

    Formal guarantee. Neighbours replace one row, which moves two counts by one each. Pure budget: Laplace noise of
    scale 2/ε, ε-DP. zCDP budget: Gaussian noise with σ² = 1/ρ, or Laplace noise of the same scale, ρ-zCDP.
    Accuracy. Without ``queries``: with probability at least 1 − beta the errors of *all* queries hold together, also of
    those that are chosen after looking at the noisy counts; a query's error follows from how many cells it weighs, or
    its complement, whichever is lighter (`treering.theory.cells.all_subsets`). With ``queries``, declared before:
    these alone are answered, each within the radius of its own noise at beta over their number (`subset_radius`), which
    is far less.

    - ``queries``: the declared class, each a `Query` or its text; None for all queries
    - ``noise``: "laplace" for Laplace noise under a zCDP budget, too
    """

    def __init__(self, queries: Iterable[Question] | None = None, noise: Literal["laplace"] | None = None) -> None:
        super().__init__()
        if noise is not None and noise != "laplace":
            raise ParameterError(
                "noise", f"must be 'laplace', or None for what suits the budget (Gaussian for zCDP), not {noise!r}"
            )
        self._laplace = noise is not None
        self._declared = None if queries is None else declared(queries)
        self._class: QueryClass | None = None

    def _prepare(self, schema: Schema) -> None:
        if schema.cells > MOST_CELLS:
            raise GuaranteeError(
                f"HistogramBox releases every cell, at most {MOST_CELLS:,} (2^24) of them; this schema has "
                f"{schema.cells:,}: use coarser bins(), fewer attributes, AnswersBox(queries), whose noise does not "
                "depend on the cells, or Rings, which count only what is asked"
            )
        if self._declared is not None:
            self._class = QueryClass(schema, self._declared)

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The error of the worst query: one of half of all cells, or the worst of the declared ones."""
        noise, rows = self._noise(budget), whole(size, "size")
        if self._class is None:
            return histogram_radius(noise, self.schema.cells, beta) / rows
        return self._worst(smooth(noise), beta) / rows

    @property
    def rate(self) -> Rate:
        """The paper's rate, with p = 1, for beta up to ½."""
        if self._class is None:
            return Rate(1.0, histogram_rate(self.schema.cells), 1.0)
        # The bound for a declared query is concave in log(1/beta), too, and proportional to the noise's scale.
        return Rate(1.0, rate_of(self._worst(SmoothLaplaceCell(1.0), LARGEST_BETA), 2), 1.0)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        """Release the noisy counts: one operation of the gate, which costs the budget."""
        noise = self._noise(budget)
        probability(beta, "beta")
        self._check(gate)
        progress(0.0, f"adding noise to {counted(self.schema.cells, 'cell')}")
        counts = NoisyCounts(self.schema, gate.size, gate.histogram(noise).counts)
        progress(1.0, "released")
        if self._class is None:
            return _Histogram(counts, noise, beta)
        return _Declared(counts, self._class, self._spectra, noise, beta)

    def _noise(self, budget: Budget) -> Noise:
        return histogram_noise(budget, self._laplace)

    @cached_property
    def _spectra(self) -> tuple[Spectrum, ...]:
        """The spectrum of each declared query."""
        assert self._class is not None
        return tuple(_centred(query) for query in self._class.queries)

    @cached_property
    def _different(self) -> tuple[Spectrum, ...]:
        return tuple(set(self._spectra))

    def _worst(self, noise: CellNoise, beta: float) -> float:
        share = float(probability(beta, "beta")) / max(1, len(self._spectra))
        return max((subset_radius(noise, *spectrum, share) for spectrum in self._different), default=0.0)


class _Histogram(Release):
    """The noisy counts, which answer all queries."""

    def __init__(self, counts: NoisyCounts, noise: Noise, beta: float) -> None:
        super().__init__(counts.schema, counts.size)
        self._counts = counts
        cells = counts.schema.cells
        # Each of the two bounds fails with probability beta, so one of them must be chosen: the one with the smaller
        # error for the worst query. `alpha` uses the smooth law, so no error is above alpha.
        laws = (all_subsets(exact(noise), cells, beta), all_subsets(smooth(noise), cells, beta))
        self._bound = min(laws, key=lambda bound: float(bound.radius(cells / 2)))

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        cells = self.schema.cells
        low, high, masses = (np.array(each) for each in zip(*map(_masses, queries), strict=True)) if queries else _NONE
        heavy = masses > cells / 2
        values = self._counts.rows(queries, np.where(heavy, high, low))
        lighter = np.where(heavy, cells - masses, masses)
        return values / self.size, (high - low) * self._bound.radius(lighter) / self.size

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        return self._counts.sample(rows, generator)


class _Declared(Release):
    """The declared queries, answered from the noisy counts, corrected by the noise of the total, which is known."""

    def __init__(
        self, counts: NoisyCounts, declared: QueryClass, spectra: Sequence[Spectrum], noise: Noise, beta: float
    ) -> None:
        super().__init__(counts.schema, counts.size)
        self._counts, self._class = counts, declared
        share = beta / max(1, len(declared))
        queries = declared.queries
        radii = [min(subset_radius(law, *each, share) for law in (exact(noise), smooth(noise))) for each in spectra]
        self._values = counts.rows(queries, np.array([_mean(query) for query in queries])) / counts.size
        self._errors = np.array(radii) / counts.size

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        return self._class.shares(queries, "HistogramBox", self._values, self._errors)

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        return self._counts.sample(rows, generator)


_NONE: Final = (np.empty(0), np.empty(0), np.empty(0))


def _matching(query: Query) -> int:
    """The number of cells that match a conjunction."""
    assert query.masks is not None
    cells = query.schema.cells
    for mask in query.masks:
        cells = cells // len(mask) * int(np.count_nonzero(mask))
    return cells


def _masses(query: Query) -> tuple[float, float, float]:
    """The least and the largest weight of a query, and the sum over all cells of its weight, rescaled to [0, 1]."""
    if query.table is None:
        return (1.0, 1.0, 0.0) if query.constant else (0.0, 1.0, float(_matching(query)))
    low, high = int(query.table.min()), int(query.table.max())
    if low == high:
        return low / query.scale, low / query.scale, 0.0
    total = (int(query.table.sum()) - low * query.joint) * (query.schema.cells // query.joint)
    return low / query.scale, high / query.scale, total / (high - low)


def _mean(query: Query) -> float:
    """The mean weight of a cell."""
    low, high, mass = _masses(query)
    return low + (high - low) * mass / query.schema.cells


@lru_cache(maxsize=2**12)
def _of_counting(matching: int, cells: int) -> Spectrum:
    mean = matching / cells
    return (1 - mean, -mean), (matching, cells - matching)


def _centred(query: Query) -> Spectrum:
    cells = query.schema.cells
    if query.table is None:
        return _of_counting(_matching(query), cells)
    weights, numbers = np.unique(query.table, return_counts=True)
    shifted = weights / query.scale - _mean(query)
    return tuple(shifted.tolist()), tuple((numbers * (cells // query.joint)).tolist())


# -- queries and rows from noisy counts --------------------------------------------------------------------------------


CACHED_CELLS: Final = 2**24
"""The most entries of all cached marginals together; the least recently used are dropped first."""


class NoisyCounts:
    """Noisy counts of all cells, for a database of a public size."""

    def __init__(self, schema: Schema, size: int, counts: Ints) -> None:
        self.schema: Final = schema
        self.size: Final = size
        # An attribute with a single value gets no axis: numpy arrays have at most 64.
        self._axes = {p: axis for axis, p in enumerate(p for p, length in enumerate(schema.shape) if length > 1)}
        self._counts = counts.reshape([schema.shape[position] for position in self._axes])
        self._marginals: OrderedDict[tuple[int, ...], Ints] = OrderedDict()
        self._distribution: Floats | None = None
        self.excess: Final = int(counts.sum()) - size
        """The sum of the noise: the total of the noisy counts minus the size, which is public."""

    def rows(self, queries: Sequence[Query], centres: Floats) -> Floats:
        """Each query's weighted count, in rows: Σ w·count − centre·excess.

        The total is known, so any centre is allowed: the error is Σ (w − centre)·noise.
        """
        raw = evaluate_many(queries, self._marginal, np.int64)
        scales = np.array([query.scale for query in queries], dtype=np.float64)
        rows: Floats = raw / scales - centres * self.excess
        return rows

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        """Independent rows from the distribution that is nearest to the counts in L2."""
        whole(rows, "rows", least=0)
        if self._distribution is None:
            self._distribution = on_simplex(self._counts.reshape(-1), self.size)
        places = np.sort(generator.random(rows))
        cells = cells_at(places, self.schema.cells, self._distribution, 1.0, 0.0)
        generator.shuffle(cells)
        return rows_of(self.schema, cells)

    def _marginal(self, positions: tuple[int, ...]) -> Ints:
        shape = [self.schema.shape[position] for position in positions]
        if positions not in self._marginals:
            kept = {self._axes[position] for position in positions if position in self._axes}
            others = tuple(axis for axis in range(self._counts.ndim) if axis not in kept)
            self._marginals[positions] = np.asarray(self._counts.sum(axis=others, dtype=np.int64))
            while sum(each.size for each in self._marginals.values()) > CACHED_CELLS and len(self._marginals) > 1:
                self._marginals.popitem(last=False)
        self._marginals.move_to_end(positions)
        return self._marginals[positions].reshape(shape)


def on_simplex(counts: npt.ArrayLike, total: float) -> Floats:
    """The distribution nearest in L2 to counts/total: max(count − level, 0)/total, with the one level for which the
    shares sum to 1.

    Subtracting the level matters: cutting noise off at zero alone would leave its positive half as rows in empty cells.
    """
    given = np.asarray(counts, dtype=np.float64)
    falling = np.sort(given)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = int(np.flatnonzero(falling > levels)[-1])
    kept = np.maximum(given - levels[last], 0.0)
    distribution: Floats = kept / kept.sum()
    return distribution
