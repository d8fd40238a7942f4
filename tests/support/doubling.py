"""A scheduler with the simplest of plans, for tests of what all schedulers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from treering.boxes.base import Progress
from treering.budget.promise import Budget, Promise
from treering.errors import GuaranteeError
from treering.params import Profile
from treering.protocols import Database
from treering.schedulers.base import Scheduled
from treering.schedulers.epochs import BoxOrFunction, Present, Supply
from treering.theory.ageing import aged_bound


@dataclass(frozen=True)
class DoublingEpoch:
    """Epoch i has half of what is left, of the budget and of beta."""

    index: int
    size: int
    budget: Budget
    beta: float
    alpha: float


@dataclass(frozen=True)
class DoublingPlan:
    """An epoch at each doubling of the size."""

    start: int
    budget: Budget
    beta: float
    alpha_of: Callable[[int, Budget, float], float]

    def epoch(self, index: int) -> DoublingEpoch:
        size, share = self.start << index, 2 << index
        budget, beta = Budget(self.budget.kind, self.budget.total / share), self.beta / share
        return DoublingEpoch(index, size, budget, beta, self.alpha_of(size, budget, beta))

    def index_at(self, size: int) -> int:
        return (size // self.start).bit_length() - 1

    def next_size(self, size: int) -> int:
        return self.start << (self.index_at(size) + 1)

    def alpha_at(self, size: int) -> float:
        epoch = self.epoch(self.index_at(size))
        return aged_bound(epoch.alpha, epoch.size / size, centred=True)


LEAST = 16
"""The smallest start."""


class Doubling(Scheduled):
    """A scheduler over a `DoublingPlan`."""

    def __init__(
        self,
        db: Database,
        box: BoxOrFunction,
        epsilon: float = 1.0,
        delta: float = 0.0,
        beta: float = 1e-9,
        profile: Profile = "tight",
        progress: Progress | None = None,
    ) -> None:
        promise = Promise(epsilon, delta)
        boxes = Supply(box, db.schema, promise.budget.kind)
        first = boxes.first

        def plan(start: int) -> DoublingPlan:
            if start < LEAST:
                raise GuaranteeError(f"{start} rows are too few; {LEAST} would do")
            return DoublingPlan(start, promise.budget, beta, first.alpha)

        super().__init__(db, boxes, promise, beta, plan, profile, progress)

    def _promised(self, plan: Any, present: Present, size: int) -> tuple[float, str]:
        return plan.alpha_at(size), "as planned"
