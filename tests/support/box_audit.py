"""The audit that every box inherits: two neighbours are told apart no better than its budget allows.

    class TestMine(BoxAudit):
        def make(self): return MyBox(...)
        left, right = (0, 0, 1), (0, 1, 1)        # cells of rows; one of them replaced
        def outcome(self, release, events): ...   # what is looked at, hashable and of few values
        def event(self, budget): ...              # the probabilities of an event, right and left, where it is known

One audit for each kind of budget, so a box with both makes two of the ``BOX_AUDITS`` (``support.audits`` states the
false alarms). Each can fail, which is shown in two ways:

- ``event`` gives the two probabilities of an event in which the audit must find ``visible`` of the loss; how surely it
  does is computed, and below `MISS` it may fail to.
- The same audit accuses the same box if it gets ``louder`` times the budget and claims what it claimed before.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import ClassVar

from support.audits import ATTEMPTS, CONFIDENCE, catch_rate
from support.databases import TestDatabase
from treering.audit import lower_bound
from treering.boxes.base import Box, Release
from treering.budget.convert import epsilon_of
from treering.budget.promise import Budget, BudgetKind
from treering.domain.schema import Schema
from treering.gate import Event
from treering.noise import Laplace, Noise
from treering.theory.tails import laplace_upper

MISS = 1e-6
"""How rarely an audit may fail to find what it should."""


def reaches(noise: Noise, k: int) -> float:
    """P(X ≥ k), by summation for Gaussian noise."""
    if isinstance(noise, Laplace):
        return laplace_upper(noise.scale, k)
    values = range(-math.ceil(20 * noise.scale) - 2, math.ceil(20 * noise.scale) + 3)
    weights = {value: math.exp(-((value / noise.scale) ** 2) / 2) for value in values}
    return sum(weight for value, weight in weights.items() if value >= k) / sum(weights.values())


class BoxAudit(ABC):
    """Inherit as ``class TestMine(BoxAudit)``."""

    kinds: ClassVar[tuple[BudgetKind, ...]] = ("pure", "zcdp")
    schema: ClassVar[Schema]
    left: ClassVar[tuple[int, ...]]
    right: ClassVar[tuple[int, ...]]
    epsilon: ClassVar[Fraction] = Fraction(2)
    rho: ClassVar[Fraction] = Fraction(1, 2)
    delta: ClassVar[float] = 0.05
    """At which a zCDP box is audited."""
    samples: ClassVar[int] = 800
    visible: ClassVar[float] = 0.3
    """What must be found under a pure budget."""
    louder: ClassVar[dict[BudgetKind, int]] = {"pure": 4, "zcdp": 40}
    """How much more budget is found out."""

    @abstractmethod
    def make(self) -> Box:
        """A box, not bound."""

    @abstractmethod
    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        """What the audit looks at: of the release, or of the events that it was made of, which are public as well."""

    def event(self, budget: Budget) -> tuple[float, float] | None:
        """The probabilities of an event that `outcome` shows, on the right and on the left."""
        return None

    def budget(self, kind: BudgetKind) -> Budget:
        return Budget(kind, self.epsilon if kind == "pure" else self.rho)

    def claimed(self, kind: BudgetKind) -> tuple[float, float]:
        """The (epsilon, delta) that the budget promises."""
        if kind == "pure":
            return float(self.epsilon), 0.0
        return epsilon_of(self.rho, self.delta), self.delta

    def found(self, kind: BudgetKind, factor: int = 1) -> float:
        budget = Budget(kind, self.budget(kind).total * factor)
        box = self.make().bind(self.schema)

        def run(cells: tuple[int, ...]) -> Hashable:
            db = TestDatabase(self.schema, cells)
            release = box.run(db.open_gate(budget), budget, 1.0, 0.05)
            return self.outcome(release, db.journal.events())

        return lower_bound(run, self.left, self.right, self.samples, CONFIDENCE, self.claimed(kind)[1])

    def test_the_audit_finds_no_more_than_the_promise(self) -> None:
        for kind in self.kinds:
            bound = self.found(kind)
            assert bound <= self.claimed(kind)[0]
            if kind == "pure" and self.event(self.budget(kind)) is not None:
                assert bound >= self.visible

    def test_the_audit_finds_out_a_larger_budget(self) -> None:
        for kind in self.kinds:
            claimed, factor = self.claimed(kind)[0], self.louder[kind]
            assert any(self.found(kind, factor) > claimed for _ in range(ATTEMPTS))

    def test_how_surely_it_does(self) -> None:
        for kind in self.kinds:
            claimed, delta = self.claimed(kind)
            budget = self.budget(kind)
            likely = self.event(budget)
            if likely is None:
                continue
            if kind == "pure":
                assert catch_rate(*likely, self.samples // 2, self.visible) > 1 - MISS
            loud = self.event(Budget(kind, budget.total * self.louder[kind]))
            assert loud is not None
            assert catch_rate(*loud, self.samples // 2, claimed, delta) > 1 - MISS ** (1 / ATTEMPTS)
