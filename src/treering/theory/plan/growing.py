"""PMW and PMWG, ours and the paper's, as rows of a plan."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

from treering.budget.promise import Budget, Kind
from treering.errors import GuaranteeError
from treering.gate import Gaussian, Laplace, Noise
from treering.theory.plan_case import Candidate, Case, Lifetime, deviation
from treering.theory.pmwg.lifetime import ForeverPlan, at_most, forever
from treering.theory.pmwg.paper import LARGEST_BETA, check_paper
from treering.theory.pmwg.paper import alpha as paper_alpha
from treering.theory.pmwg.tight import query_tail
from treering.theory.pmwg_static import static

MOST_QUERIES: Final = 10**9
"""PMWG states its guarantee for so many queries."""
RENEWALS: Final = 20
"""So many renewals of runs are in its plan."""
MEASURED_SHARE: Final = 0.9
"""A measurement's error bound, as a share of alpha."""
MOST_CELLS: Final = 2**26
"""The largest public histogram."""

_TYPICAL: Final = 1000
"""What PMWG measures it measures early: about this many queries are a typical number to have been asked by then."""
_CLOSE: Final = 2e-4
_LARGEST: Final = 1 - 1e-9


class Guarded(Candidate):
    """Hard queries are paid for, the others are answered from a public histogram that learns from them."""

    most_cells = MOST_CELLS
    coarseness = 1e-3

    def alpha(self, case: Case) -> float:
        """The least that `meets` accepts, within a few parts in 10^4."""
        high = _search(self.fast(case), _CLOSE)
        while high < 1 and not self.meets(case, high):
            high *= 1 + _CLOSE
        return high if high < 1 else math.inf

    def meets(self, case: Case, alpha: float) -> bool:
        return alpha < 1 and self.cost(case, alpha) <= float(self.part(case).total)

    def shortfall(self, case: Case, alpha: float) -> float:
        """Costs are as 1/n (pure) or 1/n² (zCDP), nearly."""
        ratio = self.cost(case, alpha) / float(self.part(case).total)
        return ratio if case.budget.kind == "pure" else math.sqrt(ratio)

    def part(self, case: Case) -> Budget:
        """What of the budget is there for guarding."""
        return case.budget

    @abstractmethod
    def cost(self, case: Case, alpha: float) -> float:
        """A bound on all that guarding ever costs at this alpha: a theorem."""

    def fast(self, case: Case) -> Callable[[float], bool]:
        """A fast stand-in for `meets`, to search with."""
        return lambda alpha: self.meets(case, alpha)

    def expected(self, case: Case, alpha: float) -> float | None:
        return None

    def because(self, case: Case) -> str:
        return _pays(case)


class PMW(Guarded):
    """The static mechanism (`treering.theory.pmwg_static` has the theorem)."""

    name = "PMW"
    use = "PMW(db, ..., alpha=, queries=)"

    def cost(self, case: Case, alpha: float) -> float:
        if case.queries == math.inf:
            return math.inf
        return static(case.size, case.cells, _one(case.budget.kind), alpha, case.beta, int(case.queries)).cost

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries, case.size)

    def note(self, case: Case) -> str:
        return "a budget cannot be planned for endlessly many queries" if case.queries == math.inf else ""


class PMWG(Guarded):
    """Our PMWG as it is by default: half of the budget for measuring, half for the guard.

    Guarantee: `treering.theory.pmwg.forever`, with the very plan that the mechanism makes: for 10^9 queries, 20
    renewals, and from twice the potential, which bold steps may reach. Runs are scaled for 1,000 queries more than
    twice those asked, so 10^9·2^i queries take i more renewals.
    """

    name = "PMWG"
    use = "PMWG(db, ..., alpha=)"
    measure_first: ClassVar[bool] = True

    def part(self, case: Case) -> Budget:
        return case.budget.share(Fraction(1, 2)) if self.measure_first else case.budget

    def cost(self, case: Case, alpha: float) -> float:
        planned = self._plan(case, alpha, None)
        if not MOST_QUERIES < case.queries < math.inf:
            return planned.cost
        return max(planned.cost, self._plan(case, alpha, planned.guard.share, int(case.queries)).cost)

    def fast(self, case: Case) -> Callable[[float], bool]:
        total = float(self.part(case).total)
        share = self._plan(case, 0.5, None).guard.share
        finer = _search(lambda alpha: self._plan(case, alpha, share).cost <= total, 0.02)
        best = self._plan(case, finer, None).guard.share
        number = max(MOST_QUERIES, int(case.queries)) if case.queries < math.inf else MOST_QUERIES
        return lambda alpha: self._plan(case, alpha, best, number).cost <= total

    def _plan(self, case: Case, alpha: float, share: float | None, queries: int = MOST_QUERIES) -> ForeverPlan:
        doubled = 2 if self.measure_first else 1
        more = math.ceil(math.log2(queries / MOST_QUERIES))
        return forever(
            case.size,
            case.cells,
            _one(case.budget.kind),
            alpha,
            case.beta,
            at_most(queries),
            share=share,
            potential=doubled * math.log(case.cells),
            renewals=RENEWALS + more,
        )

    def expected(self, case: Case, alpha: float) -> float | None:
        """An estimate: the standard deviation of what it measures with. Measured answers are off by a little less;
        the histogram, which moves to within 1.5 deviations of what was measured, by a little more."""
        if not alpha < 1 or not self.measure_first:
            return None
        return deviation(measuring_noise(case, alpha)) / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries if MOST_QUERIES < case.queries < math.inf else MOST_QUERIES, math.inf)

    def note(self, case: Case) -> str:
        return "most answers cost little: with typical data the budget lasts at a smaller alpha, too"


class PMWGGuardOnly(PMWG):
    """PMWG that never measures first: the whole budget for the guard, from the potential log N."""

    name = "PMWG, guard only"
    use = "PMWG(db, ..., alpha=, measure_first=False)"
    measure_first = False

    def note(self, case: Case) -> str:
        return "the best that is proven for PMWG; with typical data plain PMWG spends less"


class PaperPMWG(Candidate):
    """The paper's PMWG with its constants (theorems "SPMW-final" and "Generalized-Noise", errata E11 to E14).

    The theorem for δ > 0 asks for β < 2^{−15/2} and ε ≤ 1: a smaller β or ε than asked for is a stronger promise.
    At its α the query budget at n rows is κ·(192κn/β)^{17/16} (144 for δ > 0), and κ ≥ 1 is chosen so that it covers
    the queries; growth only adds to it.
    """

    name = "PMWG, the paper's"
    use = 'PMWG(db, ..., alpha=, profile="paper")'
    most_cells = MOST_CELLS

    def alpha(self, case: Case) -> float:
        epsilon, beta = _covered(case)
        try:
            check_paper(case.size, case.cells, epsilon, case.delta, beta)
        except GuaranteeError:
            return math.inf
        return paper_alpha(case.size, case.cells, epsilon, case.delta, beta, _kappa(case, beta))

    def expected(self, case: Case, alpha: float) -> None:
        return None

    def because(self, case: Case) -> str:
        return _pays(case)

    def lifetime(self, case: Case) -> Lifetime:
        if case.queries < math.inf:
            return Lifetime(case.queries, math.inf)
        beta = _covered(case)[1]
        return Lifetime(math.exp(17 / 16 * math.log((144 if case.delta else 192) * case.size / beta)), math.inf)

    def note(self, case: Case) -> str:
        epsilon, beta = _covered(case)
        try:
            check_paper(case.size, case.cells, epsilon, case.delta, beta)
        except GuaranteeError as error:
            return str(error)
        parts = ["the paper's own constants"]
        if beta < case.beta:
            parts.append(f"its theorem needs beta below 0.0055: computed for {beta:.4f}")
        if epsilon < case.epsilon:
            parts.append("its theorem needs epsilon of at most 1: computed for 1")
        return "; ".join(parts)


def measuring_noise(case: Case, alpha: float) -> Noise:
    """What PMWG measures with after a typical number of queries: within 0.9·alpha but with probability β_j."""
    rows = MEASURED_SHARE * alpha * case.size
    asked = int(min(case.queries, _TYPICAL))
    tail = query_tail(case.beta, math.log(1 << asked.bit_length())) + math.log(2)
    if case.budget.kind == "pure":
        return Laplace(max(rows - 0.5, 1e-6) / tail)
    return Gaussian(max(rows, 1e-6) / math.sqrt(2 * (tail + math.log(2))))


def _pays(case: Case) -> str:
    many = "endlessly many" if case.queries == math.inf else f"{case.queries:,.0f}"
    return (
        f"{case.cells:,} cells and {many} queries are too many to pay for each: it pays only for those that its public "
        "histogram gets wrong, and there cannot be many"
    )


@lru_cache(maxsize=2)
def _one(kind: Kind) -> Budget:
    """A plan's cost does not depend on the budget, but on its kind."""
    return Budget(kind, Fraction(1))


def _search(fits: Callable[[float], bool], close: float) -> float:
    low, high = 0.5, _LARGEST
    if not fits(high):
        return high
    while fits(low):
        low, high = low / 2, low
    while high > low * (1 + close):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _covered(case: Case) -> tuple[float, float]:
    """ε and β that the theorem covers, none above those asked for."""
    if case.delta == 0:
        return case.epsilon, case.beta
    return min(case.epsilon, 1.0), min(case.beta, LARGEST_BETA * (1 - 1e-9))


def _kappa(case: Case, beta: float) -> float:
    """The least κ ≥ 1 with κ·(c·κ·n/β)^{17/16} at least the number of queries, c = 192 or 144; 1 for endless ones."""
    if case.queries == math.inf:
        return 1.0
    reach = 17 / 16 * (math.log(144 if case.delta else 192) + math.log(case.size) - math.log(beta))
    return math.exp(max(0.0, math.log(case.queries) * (1 + 1e-12) - reach) / (33 / 16))
