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

import numpy as np

from treering.arrays import Floats
from treering.domain.query import Query


def aged(
    queries: Sequence[Query], values: Floats, errors: Floats, fresh: float, *, centred: bool
) -> tuple[Floats, Floats]:
    """Shares and their errors when the rows they were computed on are a part ``fresh`` = t/τ of all rows.

    A share is first moved into [low, high], where the true one lies: that moves it away from no true share, and an
    error above high − low says nothing.
    """
    low, high = _ranges(queries)
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


def _ranges(queries: Sequence[Query]) -> tuple[Floats, Floats]:
    """The least and the largest weight of a row in each query."""
    low, high = np.zeros(len(queries)), np.ones(len(queries))
    for place, query in enumerate(queries):
        if query.table is not None:
            low[place], high[place] = query.table.min() / query.scale, query.table.max() / query.scale
        elif query.constant:
            low[place] = 1.0
    return low, high
