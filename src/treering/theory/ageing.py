"""Staleness: how the error of an old answer grows while rows are added to the database.

The database at size τ is t/τ parts of what it was at size t, and 1 − t/τ parts of new rows:
x_τ(f) = (t/τ)·x_t(f) + (1−t/τ)·z. A row weighs between the least and the largest weight of the query, so x_t(f) and z
both lie in [low, high], which is [0, 1] for a counting query that is not constant.

*Plain* (the paper): answer y. |y − x_τ(f)| ≤ |y − x_t(f)| + (1−t/τ)·(high−low).
*Centred* (ours): answer (t/τ)·y + (1−t/τ)·(low+high)/2, whose error is at most
(t/τ)·|y − x_t(f)| + (1−t/τ)·(high−low)/2: half of the staleness, at no cost in privacy.

`aged` and `aged_bound` age released answers and their bounds; `Staleness` is the same bound for planning a schedule.
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
    """Answers and error bounds at size τ, from ``values`` and ``errors`` at size t; ``fresh`` is t/τ.

    Both are shares of the rows. A value is first clipped to [low, high], where the true share lies: this never moves it
    away from the truth. An error is at most high − low.
    """
    low, high = np.array([query.range for query in queries]).reshape(-1, 2).T
    values, errors = np.clip(values, low, high), np.minimum(errors, high - low)
    if centred:
        return fresh * values + (1 - fresh) * (low + high) / 2, fresh * errors + (1 - fresh) * (high - low) / 2
    return values, errors + (1 - fresh) * (high - low)


def aged_bound(alpha: float, fresh: float, *, centred: bool, staleness: float | None = None) -> float:
    """The error bound at size τ of every answer, if the bound was ``alpha`` at size t; ``fresh`` is t/τ.

    ``staleness`` is for errors other than those of shares, such as an excess risk, which average over the rows and are
    at most ``staleness`` on new ones: the error on all rows is then at most (t/τ)·alpha + (1−t/τ)·staleness.
    """
    if staleness is not None:
        return fresh * alpha + (1 - fresh) * staleness
    return fresh * alpha + (1 - fresh) / 2 if centred else alpha + (1 - fresh)


# -- staleness in the plan of a schedule -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Staleness:
    """The error bound at size τ of an answer computed at size t; ``stale`` is 1−t/τ, the share of new rows.

    With x_τ = (t/τ)·x_t + (1−t/τ)·z, z the new rows, and a release y of error α at size t:

    - *sum*: |y(f) − x_τ(f)| ≤ α + (1−t/τ)·c. This is how the paper counts, with c = 1.
    - not *sum*: the convex bound (t/τ)·α + (1−t/τ)·c. With c = 1 it holds for y(f) itself, as |y(f) − z(f)| ≤ 1; with
      c = ½ for the *centred* answer (t/τ)·y(f) + (1−t/τ)/2, as |½ − z(f)| ≤ ½; with c = Lipschitz constant · diameter
      for an excess risk, as the risk of the old minimiser on the new rows exceeds the best by no more.
    """

    constant: float
    """c."""
    sum: bool = False

    def total(self, alpha: float, stale: float) -> float:
        """The error bound when a share ``stale`` of the rows is new and the answer had the error ``alpha``."""
        return (alpha if self.sum else (1 - stale) * alpha) + stale * self.constant

    def worst(self, alpha: float, growth: float) -> float:
        """The largest error while τ ≤ (1+growth)·t: `total` is linear in ``stale``, so it is at one of the ends."""
        return max(alpha, self.total(alpha, growth / (1 + growth)))

    def most_alpha(self, growth: float, limit: float) -> float:
        """The largest ``alpha`` for which `worst` is at most ``limit``."""
        if self.sum:
            return limit - growth / (1 + growth) * self.constant
        return min(limit, limit * (1 + growth) - growth * self.constant)


def sum_staleness(centred: bool) -> Staleness:
    """The staleness of `treering.theory.schedule.fixed`: centred with c = ½, or the paper's sum with c = 1."""
    return Staleness(0.5) if centred else Staleness(1.0, sum=True)


def given_staleness(centred: bool, constant: Number | None) -> Staleness:
    """The staleness of schedules with the convex bound: c is ``constant`` if given, else ½ if centred, else 1."""
    if constant is not None:
        return Staleness(positive(constant, "staleness"))
    return Staleness(0.5 if centred else 1.0)
