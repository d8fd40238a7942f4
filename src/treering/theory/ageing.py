"""Time, for an answer: how it ages while the database grows.

The database at size τ is t/τ parts of what it was at size t, and 1 − t/τ parts of new rows:
x_τ(f) = (t/τ)·x_t(f) + (1−t/τ)·z. A row weighs between the least and the largest weight of the query, so x_t(f) and z
both lie in [low, high], which is [0, 1] for a counting query that is not constant.

*Plain* (the paper): answer y. |y − x_τ(f)| ≤ |y − x_t(f)| + (1−t/τ)·(high−low).
*Centred* (ours): answer (t/τ)·y + (1−t/τ)·(low+high)/2, whose error is at most
(t/τ)·|y − x_t(f)| + (1−t/τ)·(high−low)/2: half of the staleness, for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treering.arrays import Floats
from treering.domain.query import Query
from treering.params import Number, positive


def aged(
    queries: Sequence[Query], values: Floats, errors: Floats, fresh: float, *, centred: bool
) -> tuple[Floats, Floats]:
    """Shares and their errors when the rows they were computed on are a part ``fresh`` = t/τ of all rows.

    A share is first moved into [low, high], where the true one lies: that moves it away from no true share, and an
    error above high − low says nothing.
    """
    low, high = np.array([query.range for query in queries]).reshape(-1, 2).T
    values, errors = np.clip(values, low, high), np.minimum(errors, high - low)
    if centred:
        return fresh * values + (1 - fresh) * (low + high) / 2, fresh * errors + (1 - fresh) * (high - low) / 2
    return values, errors + (1 - fresh) * (high - low)


def aged_bound(alpha: float, fresh: float, *, centred: bool, staleness: float | None = None) -> float:
    """The error that every answer keeps to, if it kept to alpha at the size it was computed at.

    ``staleness``: the error is no share's, but one that is at most this on new rows, and averages over rows: that of
    all rows is then (t/τ)·alpha + (1−t/τ)·staleness.
    """
    if staleness is not None:
        return fresh * alpha + (1 - fresh) * staleness
    return fresh * alpha + (1 - fresh) / 2 if centred else alpha + (1 - fresh)


# -- what a schedule plans with ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Staleness:
    """What an answer from size t is worth at a later size τ; ``stale`` is 1−t/τ, the share of new rows.

    With x_τ = (t/τ)·x_t + (1−t/τ)·z, z the new rows, and a release y of error α at size t:

    - *sum*: |y(f) − x_τ(f)| ≤ α + (1−t/τ)·c. This is how the paper counts, with c = 1.
    - otherwise the convex bound (t/τ)·α + (1−t/τ)·c. With c = 1 it holds for y(f) itself, as |y(f) − z(f)| ≤ 1; with
      c = ½ for the *centred* answer (t/τ)·y(f) + (1−t/τ)/2, as |½ − z(f)| ≤ ½; with c = Lipschitz constant · diameter
      for an excess risk, as the risk of the old minimiser on the new rows exceeds the best by no more.
    """

    constant: float
    sum: bool = False

    def total(self, alpha: float, stale: float) -> float:
        """The error when such a share of the rows is new."""
        return (alpha if self.sum else (1 - stale) * alpha) + stale * self.constant

    def worst(self, alpha: float, growth: float) -> float:
        """The largest error while τ ≤ (1+growth)·t: `total` is linear in ``stale``, so it is at one of the ends."""
        return max(alpha, self.total(alpha, growth / (1 + growth)))

    def most_alpha(self, growth: float, limit: float) -> float:
        """The static error below which `worst` stays below the limit."""
        if self.sum:
            return limit - growth / (1 + growth) * self.constant
        return min(limit, limit * (1 + growth) - growth * self.constant)


def sum_staleness(centred: bool) -> Staleness:
    """For `fixed`: centred, or the paper's sum."""
    return Staleness(0.5) if centred else Staleness(1.0, sum=True)


def given_staleness(centred: bool, constant: Number | None) -> Staleness:
    """For the schedules that bound convexly: 1, centred ½, or a constant of the caller's."""
    if constant is not None:
        return Staleness(positive(constant, "staleness"))
    return Staleness(0.5 if centred else 1.0)
