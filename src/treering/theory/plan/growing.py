"""Rows of a plan for growing data: PMW and PMWG, BBScheduler over boxes, SmallDB and SmallDBG; ours and the paper's."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from treering.budget.promise import Budget, BudgetKind
from treering.domain.candidates import MOST_LISTED, MOST_PRODUCTS
from treering.errors import GuaranteeError
from treering.noise import Gaussian, Laplace, Noise
from treering.theory import smalldb
from treering.theory.plan.rows import GUESS, BoxCandidate, Candidate, Case, Lifetime, deviation, rounded_up
from treering.theory.pmwg.lifetime import ForeverPlan, at_most, forever, static
from treering.theory.pmwg.paper import LARGEST_BETA, alpha as paper_alpha, check_paper
from treering.theory.pmwg.tight import MEASURED_SHARE, MOST_QUERIES, RENEWALS, query_tail
from treering.theory.schedule import MOST_ROWS, FixedSchedule, fixed, fixed_for
from treering.theory.schedule.epochs import AlphaOf
from treering.theory.schedule.scheduler import BoxFixed, log_share
from treering.theory.search import chance_of, least_positive

MOST_CELLS: Final = 2**26
"""The largest public histogram."""

_TYPICAL: Final = 1000
"""The number of queries asked by the time of a typical measurement of PMWG: most of its measurements are early."""
_CLOSE: Final = 2e-4
_LARGEST: Final = 1 - 1e-9


# -- PMW and PMWG ------------------------------------------------------------------------------------------------------


class Guarded(Candidate):
    """A mechanism that pays for hard queries only; a public histogram that learns from them answers the others."""

    most_cells = MOST_CELLS
    coarseness = 1e-3

    def alpha(self, case: Case) -> float:
        """The least alpha that `meets` accepts, within a few parts in 10^4."""
        high = _search(self.fast(case), _CLOSE)
        while high < 1 and not self.meets(case, high):
            high *= 1 + _CLOSE
        return high if high < 1 else math.inf

    def meets(self, case: Case, alpha: float) -> bool:
        return alpha < 1 and self.cost(case, alpha) <= float(self.part(case).total)

    def shortfall(self, case: Case, alpha: float) -> float:
        """Cost over budget; of a zCDP budget the root, since costs fall about as 1/n (pure) or 1/n² (zCDP)."""
        ratio = self.cost(case, alpha) / float(self.part(case).total)
        return ratio if case.budget.kind == "pure" else math.sqrt(ratio)

    def part(self, case: Case) -> Budget:
        """The part of the budget for guarded runs."""
        return case.budget

    @abstractmethod
    def cost(self, case: Case, alpha: float) -> float:
        """A proven bound on all that guarded runs ever cost at this alpha, in the budget's unit."""

    def fast(self, case: Case) -> Callable[[float], bool]:
        """A fast stand-in for `meets`, to search with."""
        return lambda alpha: self.meets(case, alpha)

    def expected(self, case: Case, alpha: float) -> float | None:
        return None

    def because(self, case: Case) -> str:
        return _pays(case)


class PMWCandidate(Guarded):
    """PMW, for a database that does not grow (`treering.theory.pmwg.lifetime` has the theorem)."""

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


class PMWGCandidate(Guarded):
    """Our PMWG with its defaults: half of the budget for measurements, half for guarded runs.

    Guarantee: `treering.theory.pmwg.forever`, with the same plan that the mechanism makes: for 10^9 queries, 20
    renewals, and from twice the potential, which bold steps may reach. Up to 10^9·2^i queries take i more renewals, and
    no run is scaled for more than these (`treering.theory.pmwg.tight.scaled_for`).
    """

    name = "PMWG"
    use = "PMWG(db, ..., alpha=)"
    create = "--mechanism pmwg"
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
            at_most(MOST_QUERIES << more),
            share=share,
            potential=doubled * math.log(case.cells),
            renewals=RENEWALS + more,
        )

    def expected(self, case: Case, alpha: float) -> float | None:
        """An estimate: the standard deviation of a measurement. The error of measured answers is a little less; that of
        the histogram, which moves to within 1.5 deviations of a measurement, a little more."""
        if not alpha < 1 or not self.measure_first:
            return None
        return deviation(measuring_noise(case, alpha)) / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries if MOST_QUERIES < case.queries < math.inf else MOST_QUERIES, math.inf)

    def options(self, case: Case, alpha: float) -> str | None:
        return f"{self.create} --alpha {rounded_up(alpha)}"

    def note(self, case: Case) -> str:
        return "most answers cost little: with typical data the budget lasts at a smaller alpha, too"


class GuardOnlyCandidate(PMWGCandidate):
    """PMWG without measurements before runs: the whole budget for guarded runs, from the potential log N."""

    name = "PMWG, guard only"
    use = "PMWG(db, ..., alpha=, measure_first=False)"
    create = "--mechanism pmwg --guard-only"
    measure_first = False

    def note(self, case: Case) -> str:
        return "the best that is proven for PMWG; with typical data plain PMWG spends less"


class PaperPMWGCandidate(Candidate):
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
    """The noise of PMWG's measurement at a typical query j: within 0.9·alpha but with probability β_j."""
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
def _one(kind: BudgetKind) -> Budget:
    """A budget of this kind, for plans: the cost of a plan depends on the kind, not on the total."""
    return Budget(kind, Fraction(1))


def _search(fits: Callable[[float], bool], close: float) -> float:
    return least_positive(fits, 0.5, _LARGEST, close) if fits(_LARGEST) else _LARGEST


def _covered(case: Case) -> tuple[float, float]:
    """The largest ε and β that the theorem covers, neither above the one asked for."""
    if case.delta == 0:
        return case.epsilon, case.beta
    return min(case.epsilon, 1.0), min(case.beta, LARGEST_BETA * (1 - 1e-9))


def _kappa(case: Case, beta: float) -> float:
    """The least κ ≥ 1 with κ·(c·κ·n/β)^{17/16} at least the number of queries, c = 192 or 144; 1 for endless ones."""
    if case.queries == math.inf:
        return 1.0
    reach = 17 / 16 * (math.log(144 if case.delta else 192) + math.log(case.size) - math.log(beta))
    return math.exp(max(0.0, math.log(case.queries) * (1 + 1e-12) - reach) / (33 / 16))


# -- BBScheduler over a box --------------------------------------------------------------------------------------------


_BITS: Final = 6
"""Errors are tabulated at sizes of 2^6, 2^12, …, and interpolated between budgets."""


class ScheduledCandidate(Candidate):
    """BBScheduler, tight, over a box: `treering.theory.schedule.fixed_for` has the theorem."""

    def __init__(self, box: BoxCandidate, name: str, use: str, create: str) -> None:
        self.box = box
        self.name = name
        self.use = use
        self.create = create
        self.declared = box.declared

    def alpha(self, case: Case) -> float:
        schedule = self._schedule(case)
        return math.inf if schedule is None else schedule.alpha

    def shortfall(self, case: Case, alpha: float) -> float:
        """From the true errors of the blocks of a schedule that was made, much faster, for an interpolated error: their
        geometric mean is nearly the error that the best schedule gives to all blocks."""
        schedule, error = _scheduled(self.box, case, rough=True), self.box.error(case)
        if not isinstance(schedule, BoxFixed) or error is None:
            return math.inf
        budgets = [Budget(case.budget.kind, Fraction(level)) for level in schedule.levels]
        betas = [chance_of(math.log(case.beta) + log_share(block)) for block in range(len(budgets))]
        logs = [math.log(error(case.size, *each)) for each in zip(budgets, betas, strict=True)]
        return schedule.staleness.worst(math.exp(math.fsum(logs) / len(logs)), schedule.growth) / alpha

    def expected(self, case: Case, alpha: float) -> float | None:
        schedule = self._schedule(case)
        return None if schedule is None else self.box.typical(case, schedule.epoch(0).budget)

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries if self.declared else math.inf, math.inf)

    def because(self, case: Case) -> str:
        return f"{self.box.because(case)}; it is run again whenever the data have grown enough"

    def runs(self, case: Case) -> bool:
        return self.box.runs(case)

    def limit(self, case: Case) -> str:
        return self.box.limit(case)

    def note(self, case: Case) -> str:
        schedule = self._schedule(case)
        if schedule is None:
            return ""
        return f"run again each time the data have grown by {100 * schedule.growth:.2g}%"

    def _schedule(self, case: Case) -> FixedSchedule | None:
        return _scheduled(self.box, case)


@lru_cache(maxsize=512)
def _scheduled(box: BoxCandidate, case: Case, rough: bool = False) -> FixedSchedule | None:
    """The schedule, None if there is none; a ``rough`` one is made for an interpolated error."""
    error = box.error(case)
    # If one run with the whole budget guarantees nothing, no schedule does: skip the search for a larger start.
    if error is None or case.size > MOST_ROWS or not box.fresh(case) < 1:
        return None
    if rough:
        near = 2 ** (_BITS * round(math.log2(case.size) / _BITS))
        error = _table(box, case.at(epsilon=1.0, size=near)).error
    try:
        return fixed_for(error, case.size, case.budget, case.beta, centred=True)
    except GuaranteeError:
        return None


class _Table:
    """A box's error at one size, interpolated log-log between budgets that are powers of two.

    At other sizes near it the scaling law of `treering.boxes.base.Box`, an inequality, is used as an equation.
    """

    def __init__(self, error: AlphaOf, size: int) -> None:
        self._error = error
        self._size = size
        self._known: dict[tuple[float, int, str], float] = {}

    def error(self, size: int, budget: Budget, beta: float) -> float:
        """The box's error, approximately."""
        place = math.log2(float(budget.total)) + (1 if budget.kind == "pure" else 2) * math.log2(size / self._size)
        below = math.floor(place)
        left, right = self._at(below, budget.kind, beta), self._at(below + 1, budget.kind, beta)
        return math.exp(left + (right - left) * (place - below))

    def _at(self, place: int, kind: BudgetKind, beta: float) -> float:
        key = beta, place, kind
        if key not in self._known:
            alpha = self._error(self._size, Budget(kind, Fraction(2) ** place), beta)
            self._known[key] = math.log(max(alpha, 1e-300))
        return self._known[key]


@lru_cache(maxsize=64)
def _table(box: BoxCandidate, case: Case) -> _Table:
    error = box.error(case)
    assert error is not None  # `_scheduled` has checked
    return _Table(error, case.size)


# -- SmallDB and SmallDBG ----------------------------------------------------------------------------------------------


_MOST_ROWS: Final = 2**20
_POINTS: Final = 2000
_EXACTLY: Final = "it draws exactly, from at most a million candidates, or for prefixes and intervals of one attribute"


class SmallDBCandidate(BoxCandidate):
    """A small synthetic database, drawn for a list of queries (`treering.theory.smalldb` has the theorem).

    A plan knows the numbers of cells and queries, not the queries themselves. If all candidates over that many cells
    can be listed, the row is the least that the box guarantees, whatever the queries; if not, it is what the box would
    guarantee if they could be listed.
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


class PaperSmallDBGCandidate(Candidate):
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
        return SmallDBCandidate().runs(case)

    def limit(self, case: Case) -> str:
        return SmallDBCandidate().limit(case)

    def _alpha(self, case: Case) -> float:
        if case.queries == math.inf:
            raise GuaranteeError("a list of queries cannot be endless")
        g = smalldb.rate(case.cells, int(case.queries))
        epsilon = min(case.epsilon, 1.0) if case.delta else case.epsilon
        power = smalldb.PAPER_POWER
        return fixed(case.size, epsilon, case.delta, case.beta, power, g, profile="paper").alpha


@lru_cache(maxsize=64)
def _choices(cells: int, queries: int) -> smalldb.RowChoices:
    """The numbers of synthetic rows to choose from: those whose candidates can be listed, or all if none is any good.

    Fewer atoms than cells, or fewer queries, leave more numbers to choose from, fewer candidates for each and a best
    candidate at least as good: the guarantee holds for every class of this size.
    """
    listed = _listed(cells, queries)
    return _of(smalldb.numbers_of_rows(_MOST_ROWS) if listed is None else listed, cells, queries)


@lru_cache(maxsize=64)
def _listed(cells: int, queries: int) -> list[int] | None:
    """The numbers of rows for which all candidates can be listed; None if none of them gives a guarantee."""
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
    """About the mean error of a query over half of the cells, for data spread over the cells at random.

    A model. Multisets of m rows, all equally likely, give such a query a share of variance (N+m)/(4m(N+1)), random data
    one of 1/(4(N+1)). Taken as normal, and d = min(k, N−1) queries as independent, the largest error a has the
    distribution function erf(a/√(2v))^d among the candidates, and the draw prefers small ones by e^{−a/unit}. The other
    errors spread evenly below the largest: their mean is (d+1)/(2d) of it. Whole rows leave 1/(4m) at the least.
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
