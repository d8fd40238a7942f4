"""SmallDB (Blum, Ligett and Roth 2008): its accuracy, proven, and the best number of synthetic rows.

The setting: n rows over N cells (or atoms: cells that no query tells apart), k queries with values in [0, 1]. The
exponential mechanism draws a database y of m rows from a set R of candidates, with score −n·max_f |f(x) − f(y)| rows
and scale s rows: P(y) ∝ e^{score/s}. Neighbours replace one row, which moves a score by at most r, the largest spread
of a query (1 for counting queries): the draw is ε-DP for ε = 2r/s, and ε²/8-zCDP.

**Theorem.** If some candidate has max_f |f(x) − f(y)| ≤ a, then with probability at least 1 − β the drawn one has

    max_f |f(x) − f(y)| ≤ α = a + s·(log|R| + log(1/β))/n,   s = 2r/ε, or r/√(2ρ).

Proof: a candidate that is worse weighs less than e^{−an/s}·β/|R|; there are at most |R| of them, and the good one
weighs at least e^{−an/s}.

**How good the best candidate is.** All multisets of m rows are candidates, so a may be any of these:

- *sampling*, `sampling_error`: √(log(2k)/(2m)). Draw m rows of x with replacement. For every a' > a, Hoeffding's bound
  and a union over the k queries leave a chance below 1 that some error reaches a', so some multiset has all errors
  below a'; there are finitely many multisets, so one has all errors within a.
- *rounding*, `rounding_error`: ⌊A²/4⌋/(A·m) for A atoms. Round m times each atom's share of x down, and the R largest
  remainders up instead, R being what is missing. The A − R remainders that are rounded down are the smallest and sum
  to at most (A − R)·R/A ≤ ⌊A²/4⌋/A. That over m is the total variation between x and y, which bounds every error.
- *prefixes*, `prefix_error`: 1/(2m). Round m·C_j/n, the cumulative counts, to whole numbers: they still do not fall.
- *intervals*, `interval_error`: 1/m, being the difference of two prefixes.

For the same reason a draw for prefixes answers intervals too, with twice its α. That pays where candidates for
intervals themselves can be drawn only with fewer rows.

With a by sampling and |R| = N^m, the best m gives α ≈ 1.89·(log N·log(2k)/(εn))^{1/3}; the paper's constant is 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.promise import Budget
from treering.params import Number, at_least, exact, probability, root_at_least, whole
from treering.theory.search import least_whole

Error: TypeAlias = Callable[[int], float]
"""The error a of the best candidate, as a function of its number m of rows."""

_ROUNDING: Final = 1 + 2.0**-40
"""A factor that covers the rounding of floats, and of a mechanism's scale (up, by at most one part in 2^50)."""

_SHARPEST: Final = Fraction(1, 1024)
"""The exponential mechanism's least scale in rows: smaller ones act as one of at most this."""

PAPER_POWER: Final = 1 / 3
"""The paper's p for SmallDB."""


# -- the error of the best candidate -----------------------------------------------------------------------------------


def rows_for(queries: int, sampling_error: Number) -> int:
    """m = ⌈log(2k)/(2a²)⌉: the number of synthetic rows with which the sampling error on k queries is at most a.

    >>> rows_for(1000, 0.1)
    381
    """
    return math.ceil(
        math.log(2 * whole(queries, "queries")) / (2 * float(exact(sampling_error, "sampling_error")) ** 2)
    )


def sampling_error(queries: int, rows: int) -> float:
    """√(log(2k)/(2m)): some multiset of m rows has at most this error on k queries, whatever they are."""
    return math.sqrt(math.log(2 * whole(queries, "queries")) / (2 * whole(rows, "rows")))


def rounding_error(atoms: int, rows: int) -> float:
    """⌊A²/4⌋/(A·m): some multiset of m rows has at most this error on all queries over A atoms."""
    return whole(atoms, "atoms") ** 2 // 4 / (atoms * whole(rows, "rows"))


def prefix_error(rows: int) -> float:
    """1/(2m): some multiset of m rows has at most this error on all prefixes."""
    return 0.5 / whole(rows, "rows")


def interval_error(rows: int) -> float:
    """1/m: some multiset of m rows has at most this error on all intervals."""
    return 1 / whole(rows, "rows")


def log_candidates(cells: int, rows: int, multisets: bool = True) -> float:
    """log|R| for N cells and m rows: C(N + m − 1, m) multisets, or N^m sequences as the paper counts. Rounded up."""
    if not multisets:
        return whole(rows, "rows") * math.log(whole(cells, "cells")) * _ROUNDING
    whole(rows, "rows"), whole(cells, "cells")
    terms = math.lgamma(cells + rows), math.lgamma(rows + 1), math.lgamma(cells)
    return terms[0] - terms[1] - terms[2] + 2.0**-48 * sum(terms)


# -- the exponential mechanism -----------------------------------------------------------------------------------------


def scale(budget: Budget, spread: Fraction = Fraction(1)) -> float:
    """s, in rows: the scale at which a draw costs the budget, or a rounding error less. 2r/ε, or r/√(2ρ)."""
    if budget.kind == "pure":
        return at_least(2 * spread / budget.total)
    return root_at_least(spread**2 / (2 * budget.total))


def range_epsilon(budget: Budget) -> float:
    """The ε of the exponential mechanism that a budget pays for: ε itself, or √(8ρ) (its privacy loss has range ε)."""
    return float(budget.total) if budget.kind == "pure" else math.sqrt(8 * budget.total)


def noise(size: int, budget: Budget, spread: Fraction = Fraction(1)) -> float:
    """s/n: the error that each unit of log|R| + log(1/β) adds. It depends on ε·n, or ρ·n², alone."""
    rows = whole(size, "size")
    if budget.kind == "pure":
        exactly = float(2 * spread / (budget.total * rows))
    else:
        exactly = math.sqrt(spread**2 / (2 * budget.total * rows**2))
    return max(exactly, float(_SHARPEST / rows)) * _ROUNDING


# -- the accuracy of a draw --------------------------------------------------------------------------------------------


def accuracy(size: int, epsilon: Number, beta: float, log_candidates: float, queries: int, rows: int) -> float:
    """α = a + 2(log|R| + log(1/β))/(εn), a by sampling: proven for any class of k queries, counting or weighted.

    ``size`` is n, the rows of the database; ``rows`` is m, the synthetic rows.
    """
    unit = noise(size, Budget("pure", exact(epsilon, "epsilon")))
    return sampling_error(queries, rows) + unit * (log_candidates + _tail(beta))


def alpha(size: int, epsilon: Number, beta: float, cells: int, queries: int, multisets: bool = True) -> float:
    """`accuracy` with the number of rows that makes it least; for a zCDP budget take `range_epsilon`.

    As a function of m it falls, and then rises. One row more gains √(log(2k)/2)·(m^{−1/2} − (m+1)^{−1/2}), of order
    m^{−3/2}, and costs 2/(εn) times log N, or log((N + m)/(m + 1)) for multisets: the gain over the cost falls with m,
    because m^{3/2}·log(1 + N/m) rises. (Every m gives a true bound.)

    >>> round(alpha(10**6, 1, 0.05, 1000, 1000, multisets=False), 4)
    0.0708
    """
    whole(cells, "cells")

    def bound(rows: int) -> float:
        return accuracy(size, epsilon, beta, log_candidates(cells, rows, multisets), queries, rows)

    return bound(_lowest(bound))


def rate(cells: int, queries: int) -> float:
    """The paper's g = (64·log N·log k)^{1/3}: α ≤ g·(log(1/β)/(εn))^{1/3} for β ≤ ½, where that is below 1.

    N and k count as 2 at least. Proof, with X = log N, K = log k and L = log(1/β), each at least log 2: for a = α/2
    there are m ≤ 2·log(2k)/α² + 1 rows, so the theorem needs α³·εn ≥ 4·(2·log(2k)·X + α²·(X + L)). As α ≤ 1 and
    log(2k) ≤ 2K, the right side is at most 16·KX + 4X + 4L. The left side, 64·KXL, is more: 36·KXL ≥ 24.9·KX ≥
    16·KX + 6X, and 28·KXL ≥ 13L.
    """
    product = math.log(max(2, whole(cells, "cells"))) * math.log(max(2, whole(queries, "queries")))
    return math.pow(64 * product, PAPER_POWER)


def sharper_rate(cells: int, queries: int, beta: Number) -> float:
    """A smaller g for failure probabilities up to ``beta``: the numerator of the paper's footnote on SmallDBG.

    The footnote: 16·log N·log k + 4·log(1/β) in place of 64·log N·log k·log(1/β). So α ≤ g·(log(1/β')/(εn))^{1/3} for
    every β' ≤ ``beta``, g = (16·log N·log k/log(1/β) + 4)^{1/3}, where that is below 1. N counts as 2 at least, k as 4.
    Under a schedule with failure probability β the largest β' is β/(1+β).

    Proof. As for `rate` the theorem needs α³·εn ≥ 8·log(2k)·X + 4α²·(X + L), X = log N, L = log(1/β'). As α ≤ 1 and
    8·log 2 + 4 ≤ 8·log k for k ≥ 4, 16·KX + 4L is enough; and (16·KX + 4L)/L falls in L.

    >>> round(sharper_rate(1000, 1000, 0.05), 2) < round(rate(1000, 1000), 2)
    True
    """
    product = math.log(max(2, whole(cells, "cells"))) * math.log(max(4, whole(queries, "queries")))
    return math.pow(16 * product / _tail(float(probability(beta, "beta"))) + 4, PAPER_POWER)


@dataclass(frozen=True, eq=False)
class RowChoices:
    """Numbers of synthetic rows to choose from; for each, the best candidate's error and the number of candidates."""

    rows: Ints
    errors: Floats
    log_candidates: Floats
    factors: Floats
    """By how much the error of the draw is multiplied: 2 where intervals are answered from prefixes."""

    @classmethod
    def of(cls, rows: Sequence[int], error: Error, candidates: Callable[[int], int], factor: int = 1) -> RowChoices:
        """The choices ``rows``, with ``error`` and ``candidates`` as functions of the number of rows."""
        logs = [math.log(candidates(number)) * _ROUNDING for number in rows]
        errors = [error(number) for number in rows]
        return cls(np.array(rows, dtype=np.int64), np.array(errors), np.array(logs), np.full(len(rows), float(factor)))

    def __add__(self, other: RowChoices) -> RowChoices:
        """These choices, followed by the other ones."""
        return RowChoices(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.errors, other.errors]),
            np.concatenate([self.log_candidates, other.log_candidates]),
            np.concatenate([self.factors, other.factors]),
        )

    @property
    def floor(self) -> float:
        """The least bound that any size and budget could reach."""
        return float((self.factors * self.errors).min(initial=math.inf))

    def best(self, unit: float, beta: float) -> tuple[int, float]:
        """The index of the choice whose bound is least, and that bound; ``unit`` is `noise`.

        The bound does not rise when ``unit`` falls or beta rises, as no choice's does.
        """
        bounds = self.factors * (self.errors * _ROUNDING + unit * (self.log_candidates + _tail(beta)))
        place = int(np.argmin(bounds))
        return place, float(bounds[place])


def numbers_of_rows(most: int) -> list[int]:
    """1 to ``most``: each up to 100, then in steps of two percent."""
    steps = {min(most, math.ceil(100 * 1.02**step)) for step in range(_steps(most))}
    return sorted({*range(1, min(most, 100) + 1), *steps})


def _steps(most: int) -> int:
    return 0 if most <= 100 else math.ceil(math.log(most / 100) / math.log(1.02)) + 1


def _tail(beta: float) -> float:
    return -math.log(float(probability(beta, "beta"))) * _ROUNDING


def _lowest(bound: Callable[[int], float]) -> int:
    """The argument at which a function that falls and then rises is least."""
    high = 1
    while bound(2 * high) < bound(high):
        high *= 2
    return least_whole(lambda place: bound(place + 1) >= bound(place), high // 2, 2 * high)
