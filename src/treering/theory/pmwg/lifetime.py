"""PMWG and PMW, our calibration: the worst-case cost of a whole life, and the least α that a budget pays for.

*A growing database.* Theorem (forever). Let PMWG guard every query with runs of `Guard.scales`, let y follow growth
with μ = m·w, hard queries with `hard_target`, and let at most J(t) queries come while there are at most t rows. A run
begun at t rows is scaled for J(t) queries. Then, with probability at least 1 − β: every answer is within α; by the time
there are t rows at most H(t) = (Φ₀ + (log N + k)·log(t/n))/(2G²) queries were hard, k = `growth_rate(m)`; no run needs
to be renewed; and all charges together never exceed `ForeverPlan.cost`. If that fits the budget no query is ever
refused.

Proof. Outside the failures of `Guard.scales`, which sum to β, (a) to (c) hold for all queries. Then Φ ≥ RE(x‖y) ≥ 0
always. Each hard query lowers Φ by 2G² or more, growth from n to t raises it by at most (log N + k)·log(t/n) in all
((1−w)Φ ≤ Φ): that is H. Run i+1 (i = 0, 1, …) begins at the start or after the i-th hard query: not before τ(i) rows,
where H(τ) = i, or n if that is larger. Let c(t, r) be the cost of run r begun at t rows. ℓ2/t does not rise
(`QueryBound`), so (√ℓ1 + √(2ℓ2))²/(sαt − 2½) falls in t, and so does c. Hence the total is at most Σ_i c(τ(i), i+1).

For the same reason a run never needs renewal: ℓ1 and ℓ2(J(t')) at t' ≥ t are at most t'/t times those it was scaled
for, and (sαt − 2½)·t'/t ≤ sαt' − 2½. (Runs may be scaled for fewer queries, cheaper, and renewed: up to ``renewals``
times in all, each counted at the highest price.)

The sum. Sizes are cut at t_k = n·e^{hk}, k ≤ K. The runs with τ(i) < t_{k+1} are the first ⌈H(t_{k+1})⌉; those of
them with t_k ≤ τ(i) are taken in blocks, and run i+1 in a block that ends with run r costs at most c(t_k, r). Beyond
t_K, at log(t/n) ≥ 6.4: ℓ2 ≤ ℓ2(t_K)·(t/t_K)^q, q the larger of ½ and J's exponent. So does ℓ1, as d log H/d log t ≤
1/6.4 and rarity' ≤ 3, while ℓ1 ≥ log 4: 3/6.4 < ½·log 4. So c falls at least as (t/t_K)^{−b}, b = 1−q (pure) or
2(1−q) (zCDP), and run i by e^{−b/D} from one to the next, D = (log N + k)/(2G²): a geometric series.

*A database that does not grow (PMW).* Theorem (static). Let `Guard` guard at most k queries of a database of n rows
over N cells, y uniform at first, and let y follow hard queries with `hard_target`. With probability at least 1 − β
every answer is within α, at most H = ⌊log N/(2G²)⌋ queries are hard, and all charges together are at most (H + 1) times
the cost of run H + 1: run r is begun at the start or after a hard query, costs no more than a later one (its tail grows
with r), and never needs renewal, for it is scaled for all k queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from treering.budget.promise import Budget, BudgetKind, Promise
from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, chance, positive, share_of, whole
from treering.theory.pmwg import paper
from treering.theory.pmwg.tight import Guard, growth_rate, hard_decrease, query_tail, run_tail
from treering.theory.search import doubled_whole, golden, least_positive, least_whole
from treering.theory.sparse import RunScales

_SPAN: Final = 6.4
_CELLS: Final = 200
_ROUNDING: Final = 1 + 2.0**-30
_SHARES: Final = (0.02, 0.48)
_CLOSE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class QueryBound:
    """J(t), a public bound on the number of queries by the time there are t rows: κ·e^{g}·(1 + 1/g'), g = rate·t^p.

    ``log_factor`` is log κ. With rate = 0, J is κ. Σ_{τ≤t} e^{g(τ)} is at most e^{g(t)}/(1 − e^{−g'(t)}) ≤ e^{g}(1 +
    1/g'), as g is concave. And log J(t)/t^q does not rise, q = `exponent`: with v = g' the elasticity of log J times
    log J is pg + (1−p)/(1+v), and 1/(1+v) ≤ log(1 + 1/v).
    """

    log_factor: float
    rate: float = 0.0
    p: float = 0.5

    def __post_init__(self) -> None:
        if not (0 <= self.log_factor < math.inf):
            raise ParameterError("log_factor", f"must be finite and at least 0, not {self.log_factor}")
        if not (0 <= self.rate < math.inf):
            raise ParameterError("rate", f"must be finite and at least 0, not {self.rate}")
        chance(self.p, "p")

    @property
    def exponent(self) -> float:
        """q: 0 for a constant, otherwise the larger of p and 1−p."""
        return max(self.p, 1 - self.p) if self.rate > 0 else 0.0

    def log(self, size: float) -> float:
        """log J(t)."""
        if self.rate == 0:
            return self.log_factor
        exponent = self.rate * math.pow(size, self.p)
        return self.log_factor + exponent + math.log1p(size / (self.p * exponent))


def at_most(queries: Number) -> QueryBound:
    """The bound J(t) = ``queries``: no more than this many, ever."""
    number = positive(queries, "queries")
    if number < 1:
        raise ParameterError("queries", f"must be at least 1, not {queries}")
    return QueryBound(math.log(number))


def paper_queries(
    start: int, cells: int, epsilon: Number, delta: Number, beta: Number, kappa: Number, p: float = 0.5
) -> QueryBound:
    """The paper's query budget at its own α for these parameters, rounded up.

    Parameters are those of `treering.theory.pmwg.paper.query_budget`.
    """
    error = paper.alpha(start, cells, epsilon, delta, beta, kappa, p)
    rate = paper.query_rate(start, cells, epsilon, delta, error, p)
    return QueryBound(math.log(positive(kappa, "kappa")), rate, p)


# -- PMWG: the cost of a whole life ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForeverPlan:
    """What the theorem guarantees for one choice of parameters, and the noise with which a mechanism keeps it."""

    start: int
    budget: Budget
    beta: float
    guard: Guard
    queries: QueryBound
    potential: float
    """Φ at the start."""
    inflow: float
    """The most that growth by a factor e adds to Φ: log N + k."""
    renewals: int
    """The number of renewals of runs that the cost allows for."""
    cost: float
    """A bound on the sum of all charges, ever, in the budget's unit."""

    @property
    def fits(self) -> bool:
        """Whether the whole life fits the budget: the *forever* guarantee."""
        return self.cost < math.inf and Fraction(self.cost) <= self.budget.total

    def hard(self, size: int) -> int:
        """The most queries that can be hard by the time there are ``size`` rows."""
        return math.floor(self.ceiling(size, 0) / hard_decrease(self.guard.gap))

    def ceiling(self, size: int, hard: int) -> float:
        """The highest Φ that the plan allows at ``size`` rows after ``hard`` hard queries."""
        return self.potential + self.inflow * self._log_growth(size) - hard * hard_decrease(self.guard.gap)

    def scales(self, size: int, run: int, log_queries: float | None = None) -> RunScales:
        """The noise of run number ``run`` begun at ``size`` rows, for J(size) queries, the plan's.

        ``log_queries`` is the logarithm of another number of queries: fewer are cheaper but may need a renewal; more
        are beyond the plan.
        """
        log_number = self.queries.log(size) if log_queries is None else log_queries
        return self.guard.scales(size, run_tail(self.beta, run), query_tail(self.beta, log_number))

    def cost_of_run(self, size: int, run: int, log_queries: float | None = None) -> float:
        """The cost of a run of `scales`, in the budget's unit; the scales, rounded down, cost a rounding error more."""
        log_number = self.queries.log(size) if log_queries is None else log_queries
        return self.guard.cost(size, run_tail(self.beta, run), query_tail(self.beta, log_number))

    def serves(self, scales: RunScales, size: int, run: int, query: int) -> bool:
        """Whether run ``run`` still covers query number ``query`` at ``size`` rows; if not, it must be renewed."""
        return self.guard.serves(scales, size, run_tail(self.beta, run), query_tail(self.beta, math.log(query)))

    def _log_growth(self, size: int) -> float:
        if whole(size, "size") < self.start:
            raise ParameterError("size", f"must be at least the starting size, {self.start}, not {size}")
        return math.log(size / self.start)


@lru_cache(maxsize=256, typed=True)
def forever(
    start: int,
    cells: int,
    budget: Budget,
    alpha: Number,
    beta: Number,
    queries: QueryBound,
    *,
    forgetting: float = 1 / 8,
    share: float | None = None,
    potential: float | None = None,
    renewals: int = 0,
) -> ForeverPlan:
    """The plan for α by theorem (forever); `ForeverPlan.fits` says whether the budget pays for it.

    ``start``       n, the rows at the start
    ``alpha``       the largest error wanted, as a share of the rows
    ``queries``     J, a bound on the number of queries
    ``forgetting``  m: growth by weight w mixes μ = m·w of the uniform distribution into y
    ``share``       s, the slack's part of α; None: the best
    ``potential``   Φ at the start; None: log N, for a uniform y
    ``renewals``    the number of renewals of runs that the cost allows for

    >>> plan = forever(10**8, 1000, Budget("pure", Fraction(1)), 0.1, 0.05, at_most(10**6))
    >>> plan.fits, plan.hard(10**8) < plan.hard(10**9)
    (True, True)
    """
    error, failing = positive(alpha, "alpha"), chance(beta, "beta")
    future = _future(start, cells, budget.kind, failing, queries, forgetting, potential, renewals)
    best = future.best_share(error) if share is None else share
    guard = Guard(budget.kind, error, best)
    cost = future.cost(guard)
    return ForeverPlan(start, budget, failing, guard, queries, future.potential, future.inflow, renewals, cost)


def tight_alpha(
    start: int, cells: int, epsilon: Number, delta: Number, beta: Number, kappa: Number, *, part: Number = 1.0
) -> float:
    """The smallest α that PMWG guarantees for its whole life, by guarded runs alone, within the paper's query budget.

    Formal guarantee: theorem (forever), with the budget of (ε, δ), or ``part`` of it, and J the paper's query budget
    with this κ at the paper's own α. Every share of slack is a valid choice and the α returned was checked: the
    search can miss the best α (by 1e-4 or so), but the α returned is guaranteed. It is at most 1, and 1 is no promise:
    every answer in [0, 1] is that close. An α below about 20/n is finer than whole rows allow.

    >>> round(tight_alpha(10**8, 1000, 1.0, 0.0, 0.05, 1), 3), round(tight_alpha(10**8, 1000, 1.0, 1e-9, 0.005, 1), 4)
    (0.064, 0.0167)
    """
    budget = Promise(epsilon, delta).budget.share(share_of(part, "part"))
    queries = paper_queries(start, cells, epsilon, delta, beta, kappa)
    future = _future(start, cells, budget.kind, chance(beta, "beta"), queries, 1 / 8, None, 0)
    total = float(budget.total) / _ROUNDING

    def fits(alpha: float) -> bool:
        return future.cost(Guard(budget.kind, alpha, future.best_share(alpha))) <= total

    return least_positive(fits, 0.5, 1.0, _CLOSE) if fits(1.0) else 1.0


@dataclass(frozen=True, slots=True)
class _Future:
    """The worst case of theorem (forever): sizes cut into intervals, and the tail ℓ2 that queries need in each."""

    kind: BudgetKind
    beta: float
    potential: float
    inflow: float
    renewals: int
    sizes: tuple[float, ...]
    tails: tuple[float, ...]
    """ℓ2 of J, at each size."""
    exponent: float

    def cost(self, guard: Guard) -> float:
        """The theorem's bound on all charges."""
        decrease = hard_decrease(guard.gap)
        per_cell = self.inflow * _SPAN / _CELLS / decrease
        total, dearest, hard, begun = 0.0, 0.0, self.potential / decrease, 0
        for size, tail2 in zip(self.sizes[:-1], self.tails[:-1], strict=True):
            hard += per_cell
            runs = math.ceil(hard * _ROUNDING)
            while begun < runs:
                block = min(runs, max(begun + 1, begun * 3 // 2))
                each = guard.cost(size, run_tail(self.beta, block + self.renewals), tail2)
                if each == math.inf:
                    return math.inf
                total += (block - begun) * each
                dearest, begun = max(dearest, each), block
        each = guard.cost(self.sizes[-1], run_tail(self.beta, hard + 1 + self.renewals), self.tails[-1])
        decay = (1 - self.exponent) * (1 if self.kind == "pure" else 2)
        total += each / -math.expm1(-decay * decrease / self.inflow)
        return (total + self.renewals * max(dearest, each)) * _ROUNDING

    def best_share(self, alpha: float) -> float:
        """The share of slack that nearly minimises the cost."""
        return golden(lambda share: self.cost(Guard(self.kind, alpha, share)), *_SHARES)


def _future(
    start: int,
    cells: int,
    kind: BudgetKind,
    beta: float,
    queries: QueryBound,
    forgetting: float,
    potential: float | None,
    renewals: int,
) -> _Future:
    log_cells = math.log(whole(cells, "cells", 2))
    first = log_cells if potential is None else positive(potential, "potential")
    sizes = tuple(whole(start, "start") * math.exp(_SPAN * k / _CELLS) for k in range(_CELLS + 1))
    tails = tuple(query_tail(beta, queries.log(size)) for size in sizes)
    inflow = log_cells + growth_rate(forgetting)
    extra = whole(renewals, "renewals", 0)
    return _Future(kind, beta, first, inflow, extra, sizes, tails, max(0.5, queries.exponent))


# -- PMW: the cost on a database that does not grow --------------------------------------------------------------------


@lru_cache(maxsize=256, typed=True)
def static(size: int, cells: int, budget: Budget, alpha: Number, beta: Number, queries: int) -> ForeverPlan:
    """The plan of PMW on ``size`` rows for ``queries`` queries, by theorem (static); it need not fit the budget.

    >>> from fractions import Fraction
    >>> plan = static(10**6, 1000, Budget("pure", Fraction(1)), 0.2, 0.05, 1000)
    >>> plan.fits, plan.hard(10**6)
    (True, 176)
    """
    error, failing, potential = positive(alpha, "alpha"), chance(beta, "beta"), math.log(whole(cells, "cells", 2))
    tail2 = query_tail(failing, math.log(whole(queries, "queries")))
    rows = whole(size, "size")

    def cost(share: float) -> float:
        guard = Guard(budget.kind, error, share)
        runs = math.floor(potential / hard_decrease(guard.gap)) + 1
        return runs * guard.cost(rows, run_tail(failing, runs), tail2) * _ROUNDING

    share = golden(cost, *_SHARES)
    guard = Guard(budget.kind, error, share)
    return ForeverPlan(rows, budget, failing, guard, at_most(queries), potential, 0.0, 0, cost(share))


def static_size(cells: int, budget: Budget, alpha: Number, beta: Number, queries: int) -> int:
    """The fewest rows for which the plan of `static` fits the budget: its cost falls as rows are added."""

    def fits(size: int) -> bool:
        return static(size, cells, budget, alpha, beta, queries).fits

    found = doubled_whole(fits, 0, 1, 2**59)
    if found is None:
        raise GuaranteeError(f"no database is large enough for alpha={float(alpha):g} and these parameters")
    return least_whole(fits, *found)
