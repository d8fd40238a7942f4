"""PMWG, our calibration: the potential, failure probabilities over time, and the noise of one guarded run.

A *guarded run* is a sparse-vector run that compares each query's true count with the public histogram's estimate, and
halts at a *hard* query: one that the histogram answers too badly. Answers below the threshold come from the histogram.

x is the database of t rows as a distribution over N cells, y the public histogram, f a query, C its true count and E
the integer nearest to t·f(y), both in units of 1/W rows for a query of weight scale W. A share s of α is slack for
the noise, sα; the threshold is T = (1−s)α; a run that halts has found a gap of at least G = (1−2s)α.

The potential. Φ is public and at least RE(x‖y), hence never negative while nothing has failed. It starts at log N with
y uniform (at log(N/u) with any y that has a uniform part u). `growth_potential` updates it
for new rows, and a hard query lowers it by at least `hard_decrease`. So the number of hard queries ever is at most the
sum of all that was added to Φ, over `hard_decrease`.

Confidence. Query j may fail with probability β/2·w_j, the threshold of run r with β/4·w_r, its numeric answer with
β/4·w_r; w_j = 1/(1+log j) − 1/(1+log(j+1)) sums to 1, so all together fail with probability at most β. −log w_j is
about log j + 2·log(1 + log j); with weights like 1/j² it would be 2·log j, and runs would cost much more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from treering.budget.promise import BudgetKind
from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, chance, positive, whole
from treering.theory.search import first_whole, rarity
from treering.theory.sparse import RunScales, Scales, split
from treering.words import counted

ROUNDING: Final = 2.5
"""The part of the slack, in rows, that rounding to integers takes: see `Guard.scales`."""

DEFAULT_SHARE: Final[dict[BudgetKind, float]] = {"pure": 1 / 6, "zcdp": 1 / 4}
"""s, the slack's share of α, where none is chosen."""

_PRECISION: Final[dict[BudgetKind, float]] = {"pure": 1 / 2, "zcdp": 1 / 4}
MOST_QUERIES: Final = 10**9
"""The *forever* guarantee of PMWG is for this many queries. Asking more may spend the budget; it never costs privacy or
accuracy."""
RENEWALS: Final = 20
"""This many renewals of runs reach `MOST_QUERIES`, and one more twice as many (see `scaled_for`)."""
MEASURED_SHARE: Final = 0.9
"""A measurement's error bound as a share of alpha: the rest is the margin by which it may age and still be reused."""

_SHRINK: Final = 1 - 2.0**-40
_MARGIN: Final = 1 + 2.0**-30


# -- the potential Φ ---------------------------------------------------------------------------------------------------


def kl(a: float, b: float) -> float:
    """The binary relative entropy a·log(a/b) + (1−a)·log((1−a)/(1−b)); infinite if b is 0 or 1 and a ≠ b.

    >>> round(kl(0.5, 0.0625), 4), kl(0.0, 0.0), kl(0.5, 0.0)
    (0.7254, 0.0, inf)
    """
    if not (0 <= a <= 1 and 0 <= b <= 1):
        raise ParameterError("a" if not 0 <= a <= 1 else "b", "must lie in [0, 1]")
    if (a > 0 and b == 0) or (a < 1 and b == 1):
        return math.inf
    inside = a * math.log(a / b) if a > 0 else 0.0
    return max(0.0, inside + ((1 - a) * (math.log1p(-a) - math.log1p(-b)) if a < 1 else 0.0))


def growth_potential(phi: float, weight: float, cells: int, mu: float) -> float:
    """Φ after growth from t to t+m rows, w = m/(t+m) = weight, and y ← (1−μ)y + μ/N: (1−w)Φ + w·log N + kl(w‖μ).

    Proof. The database becomes (1−w)x + wz, z the new rows. Draw from it, and from the new y, together with a label,
    old or new. By the chain rule the relative entropy of the pairs is kl(w‖μ) + (1−w)·RE(x‖y) + w·RE(z‖uniform), and
    the last is at most log N. Dropping the label does not raise it.

    >>> growth_potential(0.0, 0.5, 1024, 0.5) == 0.5 * math.log(1024)
    True
    """
    if not 0 <= weight <= 1:
        raise ParameterError("weight", f"must lie in [0, 1], not {weight}")
    return (1 - weight) * phi + weight * math.log(whole(cells, "cells")) + kl(weight, mu)


def growth_rate(forgetting: float) -> float:
    """A k with kl(w‖mw) ≤ k·log(1/(1−w)) for all w, m = ``forgetting``: growth from n to t adds at most k·log(t/n).

    m is in (0, 1]: when new rows have weight w, a part μ = m·w of the uniform distribution is mixed into y.

    With w·log N ≤ log N·log(1/(1−w)), growth from n to t rows in any steps adds at most (log N + k)·log(t/n) to Φ.

    k = log(1/m) − 1 + m if that is at least 1 (m ≤ 0.158), otherwise log(1/m). Proof. The second: kl(w‖mw) ≤
    w·log(1/m) as 1−w ≤ 1−mw. The first: both sides are 0 at w = 0, and the derivative of their difference is D(w) =
    k/(1−w) − log(1/m) + log r + 1 − mr, r = (1−w)/(1−mw). D(0) = 0, and D' = (k − (1−w))/(1−w)² + m/(1−mw) +
    m(1−m)/(1−mw)² ≥ 0.

    >>> round(growth_rate(1 / 8), 4), growth_rate(1)
    (1.2044, 0.0)
    """
    kept = positive(forgetting, "forgetting")
    if kept > 1:
        raise ParameterError("forgetting", f"must lie in (0, 1], not {forgetting}")
    small = math.log(1 / kept) - 1 + kept
    return small if small >= 1 else math.log(1 / kept)


def hard_decrease(gap: float) -> float:
    """The least by which a hard query lowers Φ when y moves to `hard_target`: kl(p*‖q) ≥ 2(q−p*)² ≥ 2G² (Pinsker)."""
    return 2 * gap**2


def hard_target(estimate: float, answer: float, error: float, gap: float, size: int, least: float = 0.0) -> float:
    """p*: the value that r(y) is moved to, r = f or 1−f such that the noisy answer is below the estimate.

    ``estimate`` is E/(Wt) (or 1 − E/(Wt)), the integer estimate that was compared; ``answer`` the noisy answer's
    r-value, ``error`` its bound; ``least`` the least weight of r. Under `Guard.scales` (b) and (c), r(x) ≤ p* and
    r(y) − p* ≥ G.

    Proof. r(x) ≤ estimate − G − 1/t and r(x) ≤ answer + error; so r(x) ≤ p*, which is the least of answer + error and
    estimate − G − 1/(2t), or a little more: least + 1/(2t) ≤ r(x) + 1/(2t) ≤ estimate − G − 1/(2t). The estimate is
    at most r(y) + 1/(2t). Projecting y entropically onto {r(y) = p*}, y' ∝ y·e^{−λr}, lowers RE(x‖y) by kl(p*‖q) or
    more, q = r(y): it falls by −λ·r(x) − log Z ≥ −λ·p* − log Z, the relative entropy of y' and y, at least kl(p*‖q).
    """
    half = 1 / (2 * whole(size, "size"))
    return max(min(answer + error, estimate - gap - half), least + half)


# -- failure probabilities over time -----------------------------------------------------------------------------------


def query_beta(beta: float, query: int) -> float:
    """β_j = β/2·w_j: the probability with which query j, counted from 1 over the mechanism's life, may fail."""
    return chance(beta, "beta") / 2 * math.exp(-rarity(math.log(whole(query, "query"))))


def run_beta(beta: float, run: int) -> float:
    """β/4·w_r: the failure probability of the threshold of run r, and also that of its numeric answer."""
    return chance(beta, "beta") / 4 * math.exp(-rarity(math.log(whole(run, "run"))))


def query_tail(beta: float, log_queries: float) -> float:
    """ℓ2 = log(1/(2β_j)) at log j: one side of a query's noise exceeds s2·ℓ2 + ½ with probability at most β_j."""
    return math.log(1 / beta) + rarity(log_queries)


def run_tail(beta: float, run: float) -> float:
    """ℓ1 = log(4/(β·w_r)): the threshold's noise exceeds s1·ℓ1 + ½, either way, with probability at most β/4·w_r."""
    return math.log(4 / beta) + rarity(math.log(run))


def scaled_for(asked: int) -> int:
    """The number of queries that a run is scaled for, if it can be renewed, after ``asked`` queries.

    1,000 more than twice those asked, but no more than the least of `MOST_QUERIES`·2^i that is above ``asked``: up to
    the last of 10^9 queries no run is dearer than one for 10^9, which is what the *forever* guarantee is computed for.

    A run is renewed when all that it was scaled for were asked. The k-th run is scaled for at least 1,000·(2^k − 1), so
    the 20th reaches 10^9, after 19 renewals; from there on each doubling of the number takes one more.

    >>> scaled_for(0), scaled_for(499_999_000), scaled_for(999_999_999), scaled_for(10**9)
    (1000, 999999000, 1000000000, 2000000000)
    """
    return min(2 * asked + 1000, MOST_QUERIES << (asked // MOST_QUERIES).bit_length())


# -- one guarded run ---------------------------------------------------------------------------------------------------


def run_scales(slack_rows: float, tail1: float, tail2: float) -> Scales:
    """The cheapest scales with s1·ℓ1 + s2·ℓ2 ≤ slack_rows (see `treering.theory.sparse.split`), rounded down."""
    best = split(slack_rows, tail1, tail2)
    return Scales(best.threshold * _SHRINK, best.query * _SHRINK)


@dataclass(frozen=True, slots=True)
class Guard:
    """How α is divided into slack, threshold and gap; ``share`` is the slack's part of α, below ½.

    ``kind`` is the kind of budget that runs are paid from: it decides the noise of numeric answers.
    """

    kind: BudgetKind
    alpha: float
    share: float

    def __post_init__(self) -> None:
        if self.kind not in _PRECISION:
            raise ParameterError("kind", f"must be 'pure' or 'zcdp', not {self.kind!r}")
        positive(self.alpha, "alpha")
        if not 0 < self.share < 0.5:
            raise ParameterError("share", f"must lie between 0 and 1/2, not {self.share}")

    @property
    def threshold(self) -> float:
        """T: a query is compared with round(T·t·W)."""
        return (1 - self.share) * self.alpha

    @property
    def gap(self) -> float:
        """G: a halt proves that estimate and truth are at least this far apart."""
        return (1 - 2 * self.share) * self.alpha

    @property
    def error(self) -> float:
        """The bound on a numeric answer's error: half of G (pure) or a quarter (zCDP); it costs little beside a run."""
        return _PRECISION[self.kind] * self.gap

    def slack(self, size: float) -> float:
        """The most, in rows, that s1·ℓ1 + s2·ℓ2 may be at t = ``size`` rows: sαt − 2½."""
        return self.share * self.alpha * size - ROUNDING

    def scales(self, size: int, tail1: float, tail2: float) -> RunScales:
        """The scales, in rows, of the cheapest run begun at t = ``size`` rows, and of its numeric answer.

        ``tail1`` is ℓ1 = `run_tail`, ``tail2`` is ℓ2 = `query_tail`.

        Formal guarantee. Compare query j at any later size t with |C−E| + ν ≥ B + Wη, B = round(TtW), while `serves`.
        But with probability β/4·w_r for the threshold, β/2·w_j for each query and β/4·w_r for the answer: (a) below:
        |f(x) − f(y)| ≤ α; (b) above: |C−E| ≥ (Gt+1)W; (c) the answer C+ζ has |ζ| ≤ error·t·W < |C−E|, so its side of
        E is right and its error within α.

        Proof. Discrete Laplace noise of scale s has P(|η| > R) ≤ 2e^{−R/s}/(1 + e^{−1/s}) ≤ e^{−(R−½)/s}, as cosh ≥ 1;
        one side has half of that. So |η| ≤ s1·ℓ1 + ½; and whichever of (a), (b) a query can violate, by the value of
        |C−E| it has, needs ν beyond (s2·ℓ2 + ½)W on one side. B and E are rounded by ½ each. Below: |C − Wt·f(y)|/W ≤
        Tt + (sαt − 2½) + 1 + 1 ≤ αt. Above: |C−E|/W ≥ Tt − ½ − (sαt − 2½) − 1 = Gt + 1. The answer: Laplace noise as
        above, s3·ℓ1 + ½ = error·t; discrete Gaussian noise has P(|ζ| ≥ R) ≤ 2e^{−R²/(2σ²)} (Canonne, Kamath and Steinke
        2020), σ = error·t/√(2(ℓ1 + log 2)). Weights rounded to multiples of 1/W add up to 1/(2W) to the error: take α
        smaller by that.
        """
        if not math.isfinite(self.cost(size, tail1, tail2)):
            needed = math.ceil(max(2 * ROUNDING / (self.share * self.alpha), 1 / self.error))
            raise GuaranteeError(
                f"alpha={self.alpha:g} at {counted(size, 'row')} is finer than whole rows allow; "
                f"it takes at least {counted(needed, 'row')}, or a larger alpha"
            )
        run = run_scales(self.slack(size), tail1, tail2)
        return RunScales(run.threshold, run.query, _SHRINK / self._answer_inverse(size, tail1))

    def serves(self, scales: RunScales, size: int, tail1: float, tail2: float) -> bool:
        """Whether the guarantee of `scales` still covers a query with these tails at t rows; if not, renew the run."""
        return scales.threshold * tail1 + scales.query * tail2 <= self.slack(size)

    def cost(self, size: float, tail1: float, tail2: float) -> float:
        """ε (pure) or ρ (zCDP) of the cheapest run and its answer; infinite where α is finer than whole rows allow.

        e = (√ℓ1 + √(2ℓ2))²/slack. Pure: e + 1/s3. zCDP: e²/2 + 1/(2σ²). It falls as t grows.
        """
        room = self.slack(size)
        if room <= 0 or self.error * size <= 0.5:
            return math.inf
        run = (math.sqrt(tail1) + math.sqrt(2 * tail2)) ** 2 / room
        inverse = self._answer_inverse(size, tail1)
        return run + inverse if self.kind == "pure" else (run**2 + inverse**2) / 2

    def _answer_inverse(self, size: float, tail1: float) -> float:
        """1/s3 or 1/σ."""
        reach = self.error * size
        return tail1 / (reach - 0.5) if self.kind == "pure" else math.sqrt(2 * (tail1 + math.log(2))) / reach


# -- hard queries until the budget is spent ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UntilSpent:
    """How many hard queries the rest of a budget pays for at the present size. Growth only makes runs cheaper."""

    affordable: int
    """Hard queries that can still be paid for, at least, if nothing else is bought: no measurement, and no renewal,
    for which it takes more queries than runs are scaled for."""
    possible: int
    """Hard queries that the present data can still cause, at most."""

    @property
    def suffices(self) -> bool:
        """Whether the present data cannot exhaust the budget."""
        return self.affordable >= self.possible


def until_spent(
    size: int,
    guard: Guard,
    beta: Number,
    remaining: Number,
    potential: float,
    queries: int,
    runs: int,
    *,
    in_run: bool = False,
) -> UntilSpent:
    """How many more hard queries a budget pays for at ``size`` rows, when runs are scaled for ``queries`` in all.

    ``remaining`` is the rest of the budget, in its unit (ε or ρ); ``runs`` the number of runs begun so far, of which
    one is in progress and paid for with ``in_run``. Each hard query needs a run. m runs cost at most m times the last
    of them, as run r's tail grows with r: the largest m for which that fits is affordable.

    ``potential`` is an upper bound on Φ that between two hard queries does not rise, and falls by 2G² at each, while
    there are no new rows: the present Φ where only hard queries teach; where measurements do, `ForeverPlan.ceiling`,
    for their steps may raise Φ, but not above it. As Φ ≥ 0, at most potential/(2G²) more are possible.
    """
    failing, left = chance(beta, "beta"), 0.0 if remaining == 0 else positive(remaining, "remaining")
    tail2 = query_tail(failing, math.log(whole(queries, "queries")))
    begun = whole(runs, "runs", 0)

    def fits(more: int) -> bool:
        return more * guard.cost(size, run_tail(failing, begun + more), tail2) * _MARGIN <= left

    affordable = first_whole(lambda more: not fits(more)) - 1
    return UntilSpent(affordable + in_run, math.floor(max(0.0, potential) / hard_decrease(guard.gap)))
