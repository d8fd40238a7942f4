"""SmallDB and SmallDBG, ours and the paper's, as rows of a plan."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from treering.budget.promise import Budget
from treering.domain.candidates import MOST_LISTED, MOST_PRODUCTS
from treering.errors import GuaranteeError
from treering.theory import smalldb
from treering.theory.plan.rows import AlphaOf, Box
from treering.theory.plan_case import GUESS, Candidate, Case, Lifetime
from treering.theory.schedule import fixed

_MOST_ROWS: Final = 2**20
_POINTS: Final = 2000
_EXACTLY: Final = "it draws exactly, from at most a million candidates, or for prefixes and intervals of one attribute"


class SmallDB(Box):
    """A small synthetic database, drawn for a list of queries (`treering.theory.smalldb` has the theorem).

    A plan knows how many cells and queries there are, not which. If all candidates over so many cells can be listed,
    the row is what the box promises at the least, whatever the queries; if not, what it would promise if they could.
    """

    name = "SmallDB(queries), once"
    use = "SmallDB(queries).release(db, ...)"
    declared = True

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        choices = _choices(case.cells, int(case.queries))
        return lambda size, budget, beta: choices.best(smalldb.noise(size, budget), beta)[1]

    def typical(self, case: Case, budget: Budget) -> float | None:
        """An estimate, where the library draws: see `_typical`."""
        if not self.runs(case):
            return None
        choices, unit = _choices(case.cells, int(case.queries)), smalldb.noise(case.size, budget)
        rows = int(choices.rows[choices.best(unit, case.beta)[0]])
        return _typical(case.cells, int(case.queries), rows, unit)

    def because(self, case: Case) -> str:
        return "a synthetic database of a few rows answers many queries that are known before"

    def runs(self, case: Case) -> bool:
        return case.queries < math.inf and _listed(case.cells, int(case.queries)) is not None

    def limit(self, case: Case) -> str:
        return f"theory only for most classes of this size: {_EXACTLY}"


class PaperSmallDBG(Candidate):
    """The paper's SmallDBG with its constants: theorem "BBScheduler" for SmallDB's p = 1/3, g = (64·log N·log k)^{1/3}.

    For δ > 0 the theorem asks for ε ≤ 1: a smaller ε than asked for is a stronger promise.
    """

    name = "SmallDBG, the paper's"
    use = 'SmallDBG(db, queries, ..., profile="paper")'
    declared = True

    def alpha(self, case: Case) -> float:
        try:
            return self._alpha(case)
        except GuaranteeError:
            return math.inf

    def expected(self, case: Case, alpha: float) -> None:
        return None

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries, math.inf)

    def because(self, case: Case) -> str:
        return "a synthetic database of a few rows answers many queries that are known before"

    def note(self, case: Case) -> str:
        try:
            self._alpha(case)
        except GuaranteeError as error:
            return str(error)
        return "the paper's own constants"

    def runs(self, case: Case) -> bool:
        return SmallDB().runs(case)

    def limit(self, case: Case) -> str:
        return SmallDB().limit(case)

    def _alpha(self, case: Case) -> float:
        if case.queries == math.inf:
            raise GuaranteeError("a list of queries has an end")
        g = smalldb.rate(case.cells, int(case.queries))
        epsilon = min(case.epsilon, 1.0) if case.delta else case.epsilon
        power = smalldb.PAPER_POWER
        return fixed(case.size, epsilon, case.delta, case.beta, power, g, profile="paper").alpha


@lru_cache(maxsize=64)
def _choices(cells: int, queries: int) -> smalldb.RowChoices:
    """The numbers of synthetic rows to choose from: those that can be listed, if they give any guarantee, or else all.

    Fewer atoms than cells, or fewer queries, leave more numbers to choose from, fewer candidates for each and a nearest
    one no further away: every class of this size is promised as much.
    """
    listed = _listed(cells, queries)
    return _of(smalldb.numbers_of_rows(_MOST_ROWS) if listed is None else listed, cells, queries)


@lru_cache(maxsize=64)
def _listed(cells: int, queries: int) -> list[int] | None:
    """The numbers of rows for which all candidates can be listed; None if there is no guarantee in any."""
    most = min(MOST_LISTED, MOST_PRODUCTS // (cells * queries))
    rows = 0
    # C(N + m − 1, m) ≥ 2^m for m < N, and at least m + 1 always.
    while (
        rows < _MOST_ROWS
        and min(rows, cells - 1) <= MOST_LISTED.bit_length()
        and math.comb(cells + rows, rows + 1) <= most
    ):
        rows += 1
    numbers = smalldb.numbers_of_rows(rows)
    return numbers if rows and _of(numbers, cells, queries).floor < GUESS else None


def _of(rows: list[int], cells: int, queries: int) -> smalldb.RowChoices:
    errors = [min(smalldb.sampling_error(queries, m), smalldb.rounding_error(cells, m)) for m in rows]
    logs = [min(smalldb.log_candidates(cells, m), smalldb.log_candidates(cells, m, multisets=False)) for m in rows]
    return smalldb.RowChoices(np.array(rows, dtype=np.int64), np.array(errors), np.array(logs), np.ones(len(rows)))


def _typical(cells: int, queries: int, rows: int, unit: float) -> float:
    """About the mean error of a query of half the cells, for data spread over the cells at random.

    A model. Multisets of m rows, all alike, give such a query a share of variance (N+m)/(4m(N+1)), random data one of
    1/(4(N+1)). Taken as normal, and d = min(k, N−1) queries as independent, the largest error a has the distribution
    function erf(a/√(2v))^d among the candidates, and the draw prefers small ones by e^{−a/unit}. The other errors
    spread evenly below the largest: their mean is (d+1)/(2d) of it. Whole rows leave 1/(4m) at the least.
    """
    free = min(queries, cells - 1)
    width = math.sqrt((cells + rows) / (2 * rows * (cells + 1)) + 1 / (2 * (cells + 1)))
    reach = min(4 * width, 60 * free * unit)
    edges = np.linspace(0.0, reach, _POINTS + 1)
    with np.errstate(divide="ignore"):
        logs = free * np.log([math.erf(edge / width) for edge in edges[1:].tolist()])
    masses = np.diff(np.exp(logs - logs[-1]), prepend=0.0) * np.exp(-edges[1:] / unit)
    largest = float(masses @ edges[1:] / masses.sum()) if masses.sum() > 0 else reach
    return max(largest * (free + 1) / (2 * free), 1 / (4 * rows))
