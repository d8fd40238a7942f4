"""Sums and averages: what they cost, and the intervals that they lie in.

``domain/sums.py`` has the integers: a row that has a value adds u to its group's sum, |u| ≤ R, in half steps from the
middle of the range. ``operations/combine.py`` has the privacy proof: a release of Σu for each group with Gaussian noise
of scale σ costs 2R²/σ², whether R × the rows of each group come with it or not, and with Laplace noise of scale s, sums
alone, 2R/s.

**Noise.** Counts of two groups or more cost 1/σ² and 2/s. So sums at the price c have the noise that counts have at the
price c/(2R²) under zCDP, and ε/R under a pure promise (`noise_price`): a series of sums is a series of counts at that
price, with all that ``theory/series.py`` and ``theory/continual.py`` prove about its estimates. The counts that come
with it under zCDP have the noise of counts at the price c/2.

**Sums are not centred.** The total of all counts is public; the total of all sums is not. A union of k groups has the
variance k·v, where v is that of one, and nothing is known exactly.

**SUM.** With the sum U of a question, its rows N that have a value, the middle M of the range and h half a step,
SUM = h·U + M·N. The noises of U and N are independent (they are different numbers of a release, or of different
releases). Under zCDP both are normal as ``theory/rings.py`` says, so the margin is √((h·margin of U)² + (M·margin of
N)²). Under a pure promise it is h·(that of U) + |M|·(that of N), with margins that fail with 2.5% each.

**AVG** = M + h·ρ with ρ = U/N, where |ρ| ≤ R since every |u| is. *Fieller's interval*: let U* and N* > 0 be the truth
and ρ = U*/N*. Then U − ρ·N has the mean 0 and the variance v_U + ρ²·v_N, so with 95%

    (U − ρN)² ≤ z²·(v_U + ρ²·v_N),        z = 1.96:

the set of all r that keep this inequality holds ρ with 95%. It is the set where (N² − z²v_N)·r² − 2UN·r + U² − z²v_U is
at most 0. If N² > z²v_N it is an interval: the discriminant z²·(N²v_U + U²v_N − z²v_U·v_N) is then at least
z²·U²·v_N ≥ 0. If not, it is unbounded, and [−R, R] is taken, which holds ρ always. Either way what is cut off beyond ±R
could not be the truth. ∎ (Where N* = 0 there is no average, and any interval will do.)
Under a pure promise the noise is not normal: with |U − U*| ≤ e and |N − N*| ≤ f, each with 97.5%, ρ lies between the
least and the greatest quotient of a number within e of U and one within f of N (`quotient`).

**Error**, for all answers together: within one estimate half of its share of β is for the registered questions, a union
bound as for counts; the other half for any union of groups: `union_radius` holds for all unions of m groups at once, as
there are C(m, k) of k groups, and m values of k that share.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from treering.budget.promise import Budget
from treering.domain.sums import Capped, Kept
from treering.theory.cells import CellNoise
from treering.theory.continual import log_choose

_UP = 1 + 1e-9


def noise_price(price: Budget, reach: int) -> Budget:
    """The price at which counts have the noise that sums have at this price.

    >>> from fractions import Fraction
    >>> noise_price(Budget("zcdp", Fraction(1)), 10).total, noise_price(Budget("pure", Fraction(1)), 10).total
    (Fraction(1, 200), Fraction(1, 10))
    """
    return Budget(price.kind, price.total / (2 * reach**2 if price.kind == "zcdp" else reach))


def kept_price(price: Budget, kept: Kept) -> Budget:
    """The price at which counts have the noise that a series of sums, or of the first rows of each person, has at this
    price.

    Counts of two groups or more at weights that square to W cost W/σ². What is capped at q in a group and at C in all,
    with values up to R, costs a person qC·R²·W/σ² and, pure, 2C·R·V/s where counts cost 2V/s; prices are stated as
    those of each of k rows (``operations/persons.py``), k² and k times less.

    >>> from fractions import Fraction
    >>> flags = Capped(1, 9, 30, Fraction(1))
    >>> kept_price(Budget("zcdp", Fraction(1)), flags).total, kept_price(Budget("pure", Fraction(1)), flags).total
    (Fraction(100, 1), Fraction(10, 3))
    """
    if not isinstance(kept, Capped):
        return noise_price(price, kept.reach)
    if price.kind == "zcdp":
        return Budget(price.kind, price.total * kept.limit**2 / kept.moved)
    return Budget(price.kind, price.total * kept.limit / (kept.most * kept.reach))


def fieller(total: float, rows: float, wide: float, narrow: float, reach: float) -> tuple[float, float]:
    """The interval of total/rows, where both have normal noise, and margins ``wide`` and ``narrow``; within ±reach.

    >>> low, high = fieller(500.0, 100.0, 20.0, 3.0, 10.0)
    >>> round(low, 2), round(high, 2)
    (4.75, 5.25)
    >>> fieller(500.0, 2.0, 20.0, 3.0, 10.0)
    (-10.0, 10.0)
    """
    leading = rows**2 - narrow**2
    if rows <= 0 or leading <= 0:
        return -reach, reach
    root = math.sqrt(max(0.0, (rows * wide) ** 2 + (total * narrow) ** 2 - (wide * narrow) ** 2))
    return _within(((total * rows - root) / leading, (total * rows + root) / leading), reach)


def quotient(total: float, rows: float, wide: float, narrow: float, reach: float) -> tuple[float, float]:
    """The interval of total/rows, where both are within ``wide`` and ``narrow`` of the truth, which is within ±reach.

    >>> quotient(500.0, 100.0, 20.0, 4.0, 10.0)
    (4.615384615384615, 5.416666666666667)
    """
    least, most = rows - narrow, rows + narrow
    if least <= 0:
        return -reach, reach
    low, high = total - wide, total + wide
    return _within((low / (most if low > 0 else least), high / (least if high > 0 else most)), reach)


def _within(interval: tuple[float, float], reach: float) -> tuple[float, float]:
    low, high = (min(reach, max(-reach, end)) for end in interval)
    return low, high


@lru_cache(maxsize=2**12)
def union_radius(noise: CellNoise, groups: int, chosen: int, share: float) -> float:
    """r such that with probability at least 1 − share, all unions of groups keep theirs: |Σ noise| ≤ r for each union
    of ``chosen`` of the ``groups``.

    *Proof.* For one union P(Σ X_i > r) ≤ e^{−λr}·E[e^{λX}]^k. There are C(m, k) unions of k groups, two signs, and m
    values of k, so each statement gets the share share/(2m·C(m, k)). ∎
    """
    tail = log_choose(groups, chosen) + math.log(2 * groups / share)
    rates = noise.rates
    moments = noise.log_moment(rates)
    finite = np.isfinite(moments)
    return float(np.min((chosen * moments[finite] + tail) / rates[finite])) * _UP
