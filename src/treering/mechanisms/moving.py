"""The paper's own noise for sparse vector: ξ_t, which moves with the size, and any sensitivity Δ_t.

Cummings, Krehbiel, Lai and Tantipongpipat, appendix "Sparse Vector Algorithms for Growing Databases", with erratum E1:
a run draws one η ~ Lap(2) and keeps it; at t rows it compares f + Lap(4/ξ_t) with T + η/ξ_t, and its answer is f +
Lap(8/ξ_t).

On integers: let a run begin at t0 rows, let s1, s2, s3 be 2, 4, 8 over ξ_{t0}·Δ_{t0}, and call V_t =
(t/ξ_t)·ξ_{t0}·Δ_{t0} rows its *reach* at t. Its threshold noise is V_t times one integer draw of scale s1; on a grid
2^16 times finer, a query's noise has the scale V_t·s2 and the answer's V_t·s3: the paper's 2t/ξ_t, 4t/ξ_t and 8t/ξ_t
rows. A replaced row moves a query by at most t·Δ_t rows, which is at most V_t exactly if ξ_t·Δ_t ≤
ξ_{t0}·Δ_{t0}, the theorems' condition. So theorem 1 of ``docs/theory/sparse.md`` holds with V_t in place of the weight
scale: the run costs 1/s1 + 2/s2 = ξ_{t0}·Δ_{t0}, as "Privacy of ATG" says, and its answer at most an eighth of that.
V_t is rounded up to whole units of 2^-16 rows: more noise, never less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from treering.domain.query import Query
from treering.errors import GuaranteeError, QueryError
from treering.gate import FINE
from treering.params import at_least, exact
from treering.theory.sparse import RunScales, nsg_accuracy
from treering.words import counted


@dataclass(frozen=True, slots=True)
class PaperNoise:
    """ξ_t and Δ_t as functions of the size t; without a ``sensitivity``, Δ_t = 1/t, that of every linear query.

    ξ must not fall as the database grows, and ξ_t·Δ_t must not rise.
    """

    xi: Callable[[int], float]
    sensitivity: Callable[[int], float] | None = None

    def scales(self, size: int, numeric: bool) -> RunScales:
        """s1, s2 and s3 of a run begun at this size: 2, 4 and 8 over ξ·Δ."""
        unit = 1 / (self._xi(size) * self._delta(size))
        return RunScales(at_least(2 * unit), at_least(4 * unit), at_least(8 * unit) if numeric else None)

    def reach(self, size: int, start: int, scales: RunScales) -> int:
        """V_t, in units of 1/`FINE` rows, of a run with these scales that began at ``start`` rows; refuses functions
        that break the theorems' conditions."""
        xi, first = self._xi(size), self._xi(start)
        # The tolerance covers rounding in computed functions such as t^1 times 1/t.
        if xi < first or xi * self._delta(size) > first * self._delta(start) * (1 + Fraction(1, 10**12)):
            raise GuaranteeError(
                f"the paper's theorems need xi not to fall, and xi times the sensitivity not to rise, from {start:,} "
                f"rows, where this run began, to {size:,}"
            )
        return math.ceil(FINE * max(4 * size / (xi * Fraction(scales.query)), size * self._delta(size)))

    def check(self, query: Query, size: int) -> None:
        """Refuse a query that a replaced row can move by more than Δ_t."""
        if Fraction(query.spread, query.scale * size) > self._delta(size):
            raise QueryError(
                f"a replaced row can move this query by {query.spread / query.scale:g} of {counted(size, 'row')}, "
                f"which is more than the sensitivity given, {float(self._delta(size)):g}"
            )

    def alpha(self, scales: RunScales, reach: int, size: int, queries: int, hard: int, beta: float) -> float:
        """The accuracy at this size, as a share of the rows: that of noise with these scales in units of the reach,
        and a row for the rounding of threshold and estimate."""
        noise = scales.threshold, scales.query, scales.answer
        units = nsg_accuracy(*noise, queries, beta, 1, hard=hard, weight=None, two_sided=True)
        return (units * reach / FINE + 1) / size

    def _xi(self, size: int) -> Fraction:
        return exact(self.xi(size), "xi")

    def _delta(self, size: int) -> Fraction:
        return Fraction(1, size) if self.sensitivity is None else exact(self.sensitivity(size), "sensitivity")
