"""Sparse vector on a growing database: what a run costs and guarantees, its best noise, and the paper's theorems.

A run draws one integer η (discrete Laplace, scale s1) and halts at the first query with |C − E| + ν ≥ B + W·η, where
C is the true count in units of 1/W rows, ν fresh discrete Laplace noise of scale W·s2, B the threshold T·t and E the
estimate, both rounded to that grid (without an estimate: C + ν). Scales are in rows and stay fixed while the database
grows. After a halt the numeric answer is C + ζ, ζ of scale W·s3. Neighbours replace one row: the run is (1/s1 +
2/s2)-DP, the answer 1/s3 more.

*The paper's theorems* on ATG, NATG and NSG (``paper_…``) are for linear queries (Δ_t = 1/t). At size t the paper
compares f + Lap(4/ξ_t) with T + η/ξ_t, η one draw of Lap(2) per run, and answers f + Lap(8/ξ_t). ξ must not fall, and
ξ_t/t must not rise. A stream is given by sequences, one entry per size, from the starting size on: ``xi`` the ξ_t,
``queries`` the number ℓ_t of queries, ``hard`` the number h_t of hard ones.

The pseudocode's fresh threshold at every size is not private (erratum E1). With one η per run the noise in *rows*,
2t/ξ_t and 4t/ξ_t, grows with t while the privacy loss is that of the start. Frozen in rows at the run's start, as the
mechanisms do unless they are given ξ, comparisons have the same loss, and never more noise. The numeric answer never
has more noise either, but its loss is then that of the start, too, ξ_{t0}/(8·t0), where the paper's at a later size t'
is ξ_{t'}/(8t').
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final

from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, at_least, exact, exact_scale, positive, probability, whole
from treering.theory.search import first_whole

__all__ = [
    "RunScales",
    "Scales",
    "accuracy",
    "failure",
    "nsg_accuracy",
    "paper_atg_beta",
    "paper_atg_loss",
    "paper_natg_beta",
    "paper_natg_loss",
    "paper_noise",
    "paper_nsg_beta",
    "paper_nsg_loss",
    "paper_scales",
    "run_cost",
    "scales_for",
    "slack",
    "split",
]

_ROUNDING: Final = 1 + 2.0**-40
_RATIOS: Final = tuple(2.0 ** (step / 4) for step in range(-12, 13))
_CONTINUOUS: Final = 2.0**16


def run_cost(s1: float, s2: float) -> float:
    """The ε of a run with threshold scale s1 and query scale s2, in rows; it depends on neither queries nor growth.

    >>> run_cost(20.0, 40.0)
    0.1
    """
    return 1 / s1 + 2 / s2


# -- scales ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scales:
    """The two scales of a run, in rows."""

    threshold: float
    query: float

    @property
    def cost(self) -> float:
        """The run's ε."""
        return run_cost(self.threshold, self.query)


def split(slack: float, tail1: float, tail2: float) -> Scales:
    """The cheapest scales with s1·tail1 + s2·tail2 ≤ slack (in rows).

    ``tail1`` = L1 and ``tail2`` = L2 are logarithms of inverse failure probabilities, of the threshold and of a query.

    By Cauchy and Schwarz (1/s1 + 2/s2)(s1·L1 + s2·L2) ≥ (√L1 + √(2·L2))², with equality where s1·√L1 = s2·√(L2/2).
    """
    root1, root2 = _tail_roots(tail1, tail2)
    epsilon = (root1 + root2) ** 2 / positive(slack, "slack")
    return Scales((root1 + root2) / (root1 * epsilon), 2 * (root1 + root2) / (root2 * epsilon))


def slack(epsilon: float, tail1: float, tail2: float) -> float:
    """The least s1·tail1 + s2·tail2 of a run that costs ε: (√L1 + √(2·L2))²/ε, the inverse of `split`."""
    root1, root2 = _tail_roots(tail1, tail2)
    return (root1 + root2) ** 2 / positive(epsilon, "epsilon")


def _tail_roots(tail1: float, tail2: float) -> tuple[float, float]:
    return math.sqrt(positive(tail1, "tail1")), math.sqrt(2 * positive(tail2, "tail2"))


@dataclass(frozen=True, slots=True)
class RunScales:
    """The scales of a run and of its numeric answer (None without one), in rows."""

    threshold: float
    query: float
    answer: float | None


def scales_for(epsilon: Number, queries: int, beta: float, numeric: bool, hard: int = 1) -> RunScales:
    """Scales for a run of at most ``queries`` queries that costs ε in all, chosen to make `accuracy` small.

    The exact cost, 1/s1 + 2/s2 + 1/s3 in rationals, is ε but for the rounding of scales, upwards, to floats: never
    more. The choice looks at the continuous limit, where errors are inversely proportional to ε. The ratio s1/s2 is
    the best of a grid. If a run of unit cost errs by a with probability 3β/4, and an answer of unit cost by b with
    probability β/4, then shares of ε in proportion a : b make the two errors equal, and the larger of them least.
    ``numeric``: the run ends with a numeric answer. With ``hard`` runs (NSG), ε is the cost of one run, and ``queries``
    and ``beta`` are for all runs together.
    """
    total = exact(epsilon, "epsilon")
    chance = float(probability(beta, "beta"))
    ratio, run_error = _best_ratio(queries, chance * (0.75 if numeric else 1.0), hard)
    answer_error = Fraction(math.log(4 * hard / chance)) if numeric else Fraction(0)
    unit = (run_error + answer_error) / total
    threshold = unit * (1 + 2 * ratio) / run_error
    return RunScales(
        at_least(threshold), at_least(threshold / ratio), at_least(unit / answer_error) if numeric else None
    )


@lru_cache(maxsize=1024)
def _best_ratio(queries: int, beta: float, hard: int) -> tuple[Fraction, Fraction]:
    """The best s1/s2 of the grid, and the error of a run of unit cost with it."""
    errors = {ratio: _run_error(ratio, queries, beta, hard) for ratio in _RATIOS}
    best = min(errors, key=errors.__getitem__)
    return Fraction(best), Fraction(errors[best])


def _run_error(ratio: float, queries: int, beta: float, hard: int) -> float:
    """How far a run of unit cost with s1/s2 = ratio errs but with probability beta, in the continuous limit."""
    query = _CONTINUOUS * (1 / ratio + 2)
    runs = _Runs(ratio * query, query, None, queries, hard, None, False)
    return runs.smallest(beta) / 2 / _CONTINUOUS


# -- accuracy ----------------------------------------------------------------------------------------------------------


def accuracy(
    threshold_scale: float,
    query_scale: float,
    answer_scale: float | None,
    queries: int,
    beta: float,
    size: int,
    *,
    weight: int | None = 1,
    two_sided: bool = False,
) -> float:
    """The least α with `failure` ≤ beta, for a run of at most ``queries`` queries from ``size`` rows on.

    Formal guarantee. With probability at least 1 − β, for all queries of the run together:
    every "above" has f ≥ T − α, every "below" has f ≤ T + α, where f is the query's share of the rows, or the
    distance of that share from the estimate if ``two_sided``; and the numeric answer (if any) is within α of the share.
    At a later size t the same holds with α·size/t. Queries, thresholds, estimates and data may be chosen adaptively.
    The three scales are in rows; ``answer_scale`` is None without a numeric answer. ``weight`` is the weight scale W of
    all queries (1: counting queries); None: queries of several weight scales.
    """
    return nsg_accuracy(
        threshold_scale, query_scale, answer_scale, queries, beta, size, hard=1, weight=weight, two_sided=two_sided
    )


def nsg_accuracy(
    threshold_scale: float,
    query_scale: float,
    answer_scale: float | None,
    queries: int,
    beta: float,
    size: int,
    *,
    hard: int,
    weight: int | None = 1,
    two_sided: bool = False,
) -> float:
    """`accuracy` for at most ``hard`` runs, one after the other, of at most ``queries`` queries in all."""
    runs = _Runs(threshold_scale, query_scale, answer_scale, queries, hard, weight, two_sided)
    steps = runs.smallest(float(probability(beta, "beta")))
    return at_least(Fraction(steps, 2 * runs.grid * whole(size, "size")))


def failure(
    threshold_scale: float,
    query_scale: float,
    answer_scale: float | None,
    queries: int,
    alpha: float,
    size: int,
    *,
    hard: int = 1,
    weight: int | None = 1,
    two_sided: bool = False,
) -> float:
    """A bound on the probability that `accuracy` (for ``hard`` runs: `nsg_accuracy`) fails at this α.

    Theorem. Let u be ½ (1 if two-sided), N = ⌊αtW − u⌋ ≥ 0, and M the largest |η| among the h runs. Then the
    probability is at most E[min(1, k·P(ν > N − W·M))] + h·P(|ζ| > αtW).

    Proof. Draw all thresholds' noise first and condition on it; it is independent of every ν. Conditioned also on the
    history before it, the next query is fixed. If f is within α of the threshold, it cannot fail.
    If f < T − α, a halt needs ν ≥ B + Wη − C > αtW − u − W·M, as rounding moves B, and E, by at most ½ each.
    If f > T + α, passing needs −ν > C − B − Wη > αtW − u − W·M.
    So one tail of ν can fail, never both, with probability at most P(ν > N − W·M). Sum over at most k queries, and
    average over M. A numeric answer fails if |ζ| > αtW; there are at most h. A larger t only helps.

    The expectation is at most Σ_m P̄(m)·(φ(m) − φ(m−1)), P̄(m) = min(1, h·P(|η| ≥ m)) ≥ P(M ≥ m), for any increasing
    φ above the minimum: φ(m) = k·P(ν > N − Wm) while that is at most 1 and N − Wm ≥ 0, and 1 from there on. Both
    factors are exponentials in m: a geometric series.
    For a mixture of weights: P(ν > W·y) ≤ e^{−y/s2}/(1 + e^{−1/s2}) for all W ≥ 1 and y ≥ 0.
    """
    runs = _Runs(threshold_scale, query_scale, answer_scale, queries, hard, weight, two_sided)
    return runs.failure(exact_scale(alpha, "alpha") * whole(size, "size"))


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs that share one failure probability; distances are in rows."""

    threshold: float
    query: float
    answer: float | None
    queries: int
    hard: int
    weight: int | None
    two_sided: bool

    def __post_init__(self) -> None:
        positive(self.threshold, "threshold_scale")
        positive(self.query, "query_scale")
        if self.answer is not None:
            positive(self.answer, "answer_scale")
        whole(self.queries, "queries")
        whole(self.hard, "hard")
        whole(self.grid, "weight")

    @property
    def grid(self) -> int:
        """The coarsest grid among the queries, in points per row."""
        return 1 if self.weight is None else self.weight

    def smallest(self, beta: float) -> int:
        """The smallest distance with failure at most beta, in half grid units.

        On one grid the bound changes nowhere else; for a mixture up to half a row is rounded away.
        """
        unit = Fraction(1, 2 * self.grid)
        return first_whole(lambda distance: self.failure(distance * unit) <= beta)

    def failure(self, rows: Fraction) -> float:
        return min(1.0, _ROUNDING * (self._wrong_side(rows) + self._wrong_number(rows)))

    def _wrong_number(self, rows: Fraction) -> float:
        if self.answer is None:
            return 0.0
        reach = self._beyond(rows)
        return self.hard * 2 * math.exp(-reach / self.answer - math.log1p(math.exp(-1 / (self.grid * self.answer))))

    def _beyond(self, rows: Fraction) -> float:
        """The nearest distance on the grid beyond this one; for a mixture of grids, the distance itself."""
        return float(rows) if self.weight is None else float(Fraction(math.floor(rows * self.weight) + 1, self.weight))

    def _wrong_side(self, rows: Fraction) -> float:
        room = rows - Fraction(2 if self.two_sided else 1, 2 * self.grid)
        if room < 0:
            return 1.0
        reach = self._beyond(room)
        chance = math.log(self.queries) - math.log1p(math.exp(-1 / (self.grid * self.query)))
        strays = math.log(2 * self.hard) - math.log1p(math.exp(-1 / self.threshold))
        first = math.floor(strays * self.threshold)
        last = min(math.floor(room), math.floor(reach - chance * self.query))
        if last < first:
            return 1.0

        def log_miss(m: int) -> float:  # log φ(m)
            return chance - (reach - m) / self.query

        def log_stray(m: int) -> float:  # log P̄(m), for m > first
            return strays - m / self.threshold

        total = math.exp(log_miss(first)) + math.exp(log_stray(last + 1)) * max(0.0, -math.expm1(log_miss(last)))
        if last > first:
            # One factor of the series grows with m, the other falls: start at the end where their product is largest.
            rate = 1 / self.query - 1 / self.threshold
            start = last if rate > 0 else first + 1
            step = math.log(-math.expm1(-1 / self.query))
            total += math.exp(log_stray(start) + log_miss(start) + step) * _geometric(last - first, abs(rate))
        return total


def _geometric(terms: int, rate: float) -> float:
    """Σ e^{−rate·i} over 0 ≤ i < terms."""
    return terms if rate == 0 else math.expm1(-rate * terms) / math.expm1(-rate)


# -- the paper's theorems ----------------------------------------------------------------------------------------------


def paper_noise(size: int, coefficient: float, p: float) -> float:
    """ξ_t = c·t^p at t = ``size`` rows, c = ``coefficient``; 0 ≤ p ≤ 1 meets the theorems' conditions."""
    if not 0 <= p <= 1:
        raise ParameterError("p", f"must lie between 0 and 1, not {p}")
    return float(exact(coefficient, "coefficient")) * math.pow(exact(size, "size"), p)


def paper_scales(size: int, xi: float) -> tuple[float, float, float]:
    """Noise scales in rows at t = ``size`` rows: threshold 2t/ξ, query 4t/ξ, answer 8t/ξ; ``xi`` is ξ_t.

    Taken at a run's start and frozen, comparisons cost ξ_{t0}/t0, the theorem's loss, and the answer an eighth of that.

    >>> paper_scales(1000, 50.0)
    (40.0, 80.0, 160.0)
    """
    unit = float(exact(size, "size")) / float(exact(xi, "xi"))
    return 2 * unit, 4 * unit, 8 * unit


def paper_atg_loss(start: int, xi: float) -> float:
    """Theorem "Privacy of ATG": a run started at size t0 is ξ_{t0}/t0-DP, whenever it halts."""
    return float(exact(xi, "xi") / exact(start, "start"))


def paper_natg_loss(start: int, start_xi: float, end: int, end_xi: float) -> float:
    """Theorem "Privacy of NATG": ξ_{t0}/t0 + ξ_{t'}/(8t') for a run that halts at size t'."""
    _check_schedule(start, [start_xi])
    if end < start or end_xi < start_xi or end_xi / end > start_xi / start * (1 + 1e-12):
        raise GuaranteeError("the paper's theorems need xi not to fall and xi/size not to rise from start to end")
    return paper_atg_loss(start, start_xi) + paper_atg_loss(end, end_xi) / 8


def paper_nsg_loss(start: int, xi: Sequence[float], hard: Sequence[int]) -> float:
    """Theorem "Privacy of NSG": ξ_n/n + (9/8)·Σ h_t·ξ_t/t, where h_t queries are hard at size t."""
    _check_schedule(start, xi)
    _check_counts(xi, hard, "hard")
    rounds = math.fsum(count * value / size for size, (value, count) in enumerate(zip(xi, hard, strict=True), start))
    return paper_atg_loss(start, xi[0]) + 9 / 8 * rounds


def paper_atg_beta(alpha: float, xi: Sequence[float], queries: Sequence[int]) -> float:
    """Theorem "Accuracy of ATG": β = Σ ℓ_t·e^{−αξ_t/8} + e^{−αξ_{t0}/8}, with ℓ_t queries at size t."""
    return _stream_beta(alpha, xi, queries) + _decay(alpha, xi[0])


def paper_natg_beta(alpha: float, xi: Sequence[float], queries: Sequence[int]) -> float:
    """Theorem "Accuracy of NATG": that of ATG + e^{−αξ_{t'}/8}, t' the last size."""
    return paper_atg_beta(alpha, xi, queries) + _decay(alpha, xi[-1])


def paper_nsg_beta(
    alpha: float, xi: Sequence[float], queries: Sequence[int], hard: Sequence[int] | None = None
) -> float:
    """Theorem "Accuracy of NSG": β = e^{−αξ_n/8} + Σ (ℓ_t + 2h_t)·e^{−αξ_t/8}.

    h_t counts the queries with f ≥ T − α at size t. Without ``hard`` every query may be hard: the theorem's second
    form, 3·Σ ℓ_t·e^{−αξ_t/8}.
    """
    reruns = _stream_beta(alpha, xi, queries if hard is None else hard)
    return paper_atg_beta(alpha, xi, queries) + 2 * reruns


def _stream_beta(alpha: float, xi: Sequence[float], queries: Sequence[int]) -> float:
    exact(alpha, "alpha")
    _check_growth(xi)
    _check_counts(xi, queries, "queries")
    return math.fsum(count * _decay(alpha, value) for value, count in zip(xi, queries, strict=True))


def _decay(alpha: float, xi: float) -> float:
    return math.exp(-alpha * xi / 8)


def _check_schedule(start: int, xi: Sequence[float]) -> None:
    exact(start, "start")
    _check_growth(xi)
    ratios = [value / size for size, value in enumerate(xi, start)]
    # The tolerance covers rounding in computed sequences such as t^1.
    if any(later > earlier * (1 + 1e-12) for earlier, later in pairwise(ratios)):
        raise GuaranteeError("the paper's theorems need xi/size not to rise with the size")


def _check_growth(xi: Sequence[float]) -> None:
    if not xi:
        raise ParameterError("xi", "must have at least one entry")
    for value in xi:
        exact(value, "xi")
    if any(later < earlier * (1 - 1e-12) for earlier, later in pairwise(xi)):
        raise GuaranteeError("the paper's theorems need xi not to fall as the size grows")


def _check_counts(xi: Sequence[float], counts: Sequence[int], name: str) -> None:
    if len(counts) != len(xi) or any(count < 0 for count in counts):
        raise ParameterError(name, "must hold one count of at least 0 for each entry of xi")
