"""PMW on a database that does not grow: what all its answers cost together.

Theorem (static). Let `Guard` guard at most k queries of a database of n rows over N cells, y uniform at first, and
let y follow hard queries with `hard_target`. With probability at least 1 − β every answer is within α, at most H =
⌊log N/(2G²)⌋ queries are hard, and all charges together are at most (H + 1) times the cost of run H + 1: run r is
begun at the start or after a hard query, costs no more than a later one (its tail grows with r), and never needs
renewal, for it is scaled for all k queries.
"""

from __future__ import annotations

import math
from functools import lru_cache

from treering.budget.promise import Budget
from treering.errors import GuaranteeError
from treering.params import Number, positive, whole
from treering.theory.pmwg.lifetime import ForeverPlan, at_most, golden
from treering.theory.pmwg.paper import chance
from treering.theory.pmwg.tight import Guard, hard_decrease, query_tail, run_tail

_ROUNDING = 1 + 2.0**-30
_SHARES = (0.02, 0.48)


@lru_cache(maxsize=256, typed=True)
def static(size: int, cells: int, budget: Budget, alpha: Number, beta: Number, queries: int) -> ForeverPlan:
    """The plan of PMW; it need not fit the budget.

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
    """The fewest rows for which the plan fits: its cost falls as rows are added."""
    low, high = 0, 1
    while not static(high, cells, budget, alpha, beta, queries).fits:
        low, high = high, 2 * high
        if high > 2**60:
            raise GuaranteeError(f"no database is large enough for alpha={float(alpha):g} and these parameters")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if static(middle, cells, budget, alpha, beta, queries).fits else (middle, high)
    return high
