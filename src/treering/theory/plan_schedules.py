"""BBScheduler over boxes, ours and the paper's, as rows of a plan."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from treering.budget.promise import Budget, Kind
from treering.errors import GuaranteeError
from treering.theory.plan.rows import AlphaOf, Box
from treering.theory.plan_case import Candidate, Case, Lifetime
from treering.theory.schedule import MOST_ROWS, FixedSchedule, fixed_for
from treering.theory.schedule.epochs import chance_of
from treering.theory.schedule_box import BoxFixed, log_share

_BITS: Final = 6
"""Interpolated errors are for sizes of 2^6, 2^12, …"""


class Scheduled(Candidate):
    """BBScheduler, tight, over a box: `treering.theory.schedule.fixed_for` has the theorem."""

    def __init__(self, box: Box, name: str, use: str) -> None:
        self.box = box
        self.name = name
        self.use = use
        self.declared = box.declared

    def alpha(self, case: Case) -> float:
        schedule = self._schedule(case)
        return math.inf if schedule is None else schedule.alpha

    def shortfall(self, case: Case, alpha: float) -> float:
        """From a schedule that was made for an interpolated error, far sooner found, and the true errors of its blocks:
        their mean is nearly what the best schedule makes of them all."""
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
def _scheduled(box: Box, case: Case, rough: bool = False) -> FixedSchedule | None:
    """The schedule; a rough one is made for an interpolated error."""
    error = box.error(case)
    # If the whole budget does not do at the start, no schedule does: it spares the search for a start that would.
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
    """A box's error, interpolated: log-log between powers of two, at one size. At sizes near it, as the scaling law of
    `treering.boxes.base.Box` says, as if it were an equation."""

    def __init__(self, error: AlphaOf, size: int) -> None:
        self._error = error
        self._size = size
        self._known: dict[tuple[float, int, str], float] = {}

    def error(self, size: int, budget: Budget, beta: float) -> float:
        """About the box's error."""
        place = math.log2(float(budget.total)) + (1 if budget.kind == "pure" else 2) * math.log2(size / self._size)
        below = math.floor(place)
        left, right = self._at(below, budget.kind, beta), self._at(below + 1, budget.kind, beta)
        return math.exp(left + (right - left) * (place - below))

    def _at(self, place: int, kind: Kind, beta: float) -> float:
        key = beta, place, kind
        if key not in self._known:
            alpha = self._error(self._size, Budget(kind, Fraction(2) ** place), beta)
            self._known[key] = math.log(max(alpha, 1e-300))
        return self._known[key]


@lru_cache(maxsize=64)
def _table(box: Box, case: Case) -> _Table:
    error = box.error(case)
    assert error is not None  # asked before
    return _Table(error, case.size)
