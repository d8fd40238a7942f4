"""Static algorithms, run once, and per-query noise, as rows of a plan.

Neighbours replace one row. Each `alpha` is a theorem: it has its proof, or says where it is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from treering.budget.promise import Budget
from treering.gate import Gaussian, Laplace, Noise
from treering.params import at_least, root_at_least
from treering.theory import mwem
from treering.theory.cells import SmoothLaplaceCell, SubGaussianCell
from treering.theory.plan_case import Candidate, Case, Lifetime, deviation, mean_of_sum, mean_size, number
from treering.theory.static import answer_radius, histogram_noise
from treering.theory.subsets import all_subsets, subset_radius

AlphaOf: TypeAlias = Callable[[int, Budget, float], float]
"""A box's proven error: ``alpha(size, budget, beta)``."""

_STEPS: Final = 4
"""Bounds for Laplace noise are computed for scales a factor 2^(1/4) apart, and kept."""


# -- what a budget buys ------------------------------------------------------------------------------------------------


def answers_noise(budget: Budget, queries: int) -> Noise:
    """The noise with which so many counting queries cost the budget: k/s = ε, or k/(2σ²) = ρ."""
    if budget.kind == "pure":
        return Laplace(at_least(queries / budget.total))
    return Gaussian(root_at_least(queries / (2 * budget.total)))


def histogram_rows(noise: Noise, cells: int, beta: float) -> float:
    """`treering.theory.static.histogram_radius`, or up to a few per cent more, from a table of few entries.

    In units of the scale the bound stays for Gaussian noise, and falls for Laplace noise as the scale grows
    (`treering.theory.cells.smooth`): that of a smaller scale, stretched, is a bound.
    """
    kept = kept_scale(noise)
    return noise.scale * _all_queries(kept, cells, beta)


def declared_rows(noise: Noise, cells: int, beta: float) -> float:
    """The error in rows, but with probability beta, of any one query declared before, answered with the total known.

    Its weights less their mean, a_i, have |a_i| ≤ 1 and Σa_i² ≤ N/4. The error is Σ a_i·X_i, and log E e^{λaX} ≤
    a²·log E e^{λX} for the laws of `smooth`: −log(1 − (λs)²a²) is convex in a² and 0 at 0, (λσ)²a²/2 is linear. So
    Chernoff's bound is at most that for ⌈N/4⌉ cells of weight 1. In units of the scale both laws stay.
    """
    law = SmoothLaplaceCell(1.0) if isinstance(noise, Laplace) else SubGaussianCell(1.0)
    return noise.scale * subset_radius(law, [1.0], [-(-cells // 4)], beta)


def kept_scale(noise: Noise) -> float | None:
    """A scale from the table, at most that of the noise; None for Gaussian noise."""
    if not isinstance(noise, Laplace):
        return None
    return min(noise.scale, math.pow(2.0, math.floor(math.log2(noise.scale) * _STEPS) / _STEPS))


@lru_cache(maxsize=2**12)
def _all_queries(scale: float | None, cells: int, beta: float) -> float:
    """The bound for all queries, those of half the cells being worst, in units of the scale."""
    if scale is None:
        return float(all_subsets(SubGaussianCell(1.0), cells, beta).radius(cells / 2))
    return float(all_subsets(SmoothLaplaceCell(scale), cells, beta).radius(cells / 2)) / scale


# -- rows --------------------------------------------------------------------------------------------------------------


class PerQuery(Candidate):
    """Each answer measured with noise of its own, with a k-th of the budget: the plainest that can be done.

    Guarantee: k adaptive answers with Laplace noise of scale k/ε are ε-DP, with Gaussian noise of σ² = k/(2ρ) ρ-zCDP,
    by composition. Each is off by more than `answer_radius` at β/k with probability at most β/k; divided by the size,
    that is largest at the start.
    """

    name = "noise per query"
    use = "AnswersBox(queries), for a list; PMWG(...) measures one by one, too"

    def alpha(self, case: Case) -> float:
        if case.queries == math.inf:
            return math.inf
        return answer_radius(self._noise(case), case.beta / case.queries) / case.size

    def expected(self, case: Case, alpha: float) -> float | None:
        return None if case.queries == math.inf else mean_size(self._noise(case)) / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries, math.inf)

    def because(self, case: Case) -> str:
        if case.queries == 1:
            return "a single query can have the whole budget"
        return f"{case.queries:,.0f} queries are few enough for each to have a share of the budget of its own"

    def note(self, case: Case) -> str:
        if case.queries == math.inf:
            return "a budget has no share for each of endlessly many queries"
        return "each query can be asked once; the number of cells does not matter"

    def _noise(self, case: Case) -> Noise:
        return answers_noise(case.budget, int(case.queries))


class Box(Candidate):
    """A static algorithm, run once on the database as it is."""

    @abstractmethod
    def error(self, case: Case) -> AlphaOf | None:
        """The proven error of a run; None where it cannot be run."""

    @abstractmethod
    def typical(self, case: Case, budget: Budget) -> float | None:
        """The mean error of a run with this budget: see `Candidate.expected`."""

    def fresh(self, case: Case) -> float:
        """The error of one run with the whole budget, at the start."""
        error = self.error(case)
        return math.inf if error is None else error(case.size, case.budget, case.beta)

    def alpha(self, case: Case) -> float:
        """That of the run; at a later size τ the answer is (n/τ)·y + (1−n/τ)/2, and its error (n/τ)·α + (1−n/τ)/2
        (`treering.theory.schedule.Staleness`). It is linear in n/τ, so it is largest at one of the ends."""
        fresh, kept = self.fresh(case), case.size / case.horizon
        return max(fresh, kept * fresh + (1 - kept) / 2)

    def expected(self, case: Case, alpha: float) -> float | None:
        return self.typical(case, case.budget)

    def lifetime(self, case: Case) -> Lifetime:
        queries = case.queries if self.declared else math.inf
        return Lifetime(queries, case.horizon if case.horizon < math.inf else case.size)

    def note(self, case: Case) -> str:
        fresh = self.fresh(case)
        if not case.grows or not fresh < math.inf:
            return ""
        return (
            f"static only: within {number(fresh)} of the first {case.size:,} rows, and blind to those that come after"
        )


class Histogram(Box):
    """HistogramBox: all queries, also those chosen after looking."""

    name = "HistogramBox, once"
    use = "HistogramBox().release(db, ...)"
    most_cells = 2**24

    def error(self, case: Case) -> AlphaOf:
        return lambda size, budget, beta: histogram_rows(histogram_noise(budget), case.cells, beta) / size

    def typical(self, case: Case, budget: Budget) -> float:
        return mean_of_sum(deviation(histogram_noise(budget)), case.cells / 2) / case.size

    def because(self, case: Case) -> str:
        return (
            f"{case.cells:,} cells are few for {case.size:,} rows: a noisy count of every cell is paid for once, and "
            "then answers everything"
        )


class DeclaredHistogram(Box):
    """HistogramBox(queries): a list, declared before."""

    name = "HistogramBox(queries), once"
    use = "HistogramBox(queries).release(db, ...)"
    declared = True
    most_cells = 2**24

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        return lambda size, budget, beta: declared_rows(histogram_noise(budget), case.cells, beta / case.queries) / size

    def typical(self, case: Case, budget: Budget) -> float:
        return mean_of_sum(deviation(histogram_noise(budget)), case.cells / 4) / case.size

    def because(self, case: Case) -> str:
        return "the noise of the cells averages out in queries that were chosen before it was drawn"


class Answers(Box):
    """AnswersBox: a list, each query with noise of its own. Run once it is `PerQuery`; a schedule can rerun it."""

    name = "AnswersBox(queries), once"
    use = "AnswersBox(queries).release(db, ...)"
    declared = True

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        number = int(case.queries)
        return lambda size, budget, beta: answer_radius(answers_noise(budget, number), beta / number) / size

    def typical(self, case: Case, budget: Budget) -> float | None:
        if case.queries == math.inf:
            return None
        return mean_size(answers_noise(budget, int(case.queries))) / case.size

    def because(self, case: Case) -> str:
        return f"{case.queries:,.0f} queries are few enough for each to have noise of its own"


class Learnt(Box):
    """MWEM: a list, and a distribution learnt for it (`treering.theory.mwem` has the theorem)."""

    name = "MWEM(queries), once"
    use = "MWEM(queries).release(db, ...)"
    declared = True
    most_cells = 2**26

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        cells, number = case.cells, int(case.queries)

        def alpha(size: int, budget: Budget, beta: float) -> float:
            return mwem.plan(cells, number, Fraction(1), size, budget, beta).alpha(cells, size)

        return alpha

    def typical(self, case: Case, budget: Budget) -> None:
        return None

    def because(self, case: Case) -> str:
        return "of many queries that are known before it needs to measure only those that it cannot guess"
