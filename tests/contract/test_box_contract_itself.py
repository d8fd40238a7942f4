"""Every clause of the boxes' suite can fail: boxes that break one each, under the test that is there for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import treering as tr
from support.box_contract import BoxContract
from support.mechanism_contract import SCHEMA
from treering.arrays import Floats
from treering.boxes.answers import AnswersBox
from treering.boxes.base import Progress, Rate, Release, silent
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.workload import marginals
from treering.protocols import Gate
from treering.theory.static import answers_noise
from treering.theory.tails import laplace_radius

QUERIES = tuple(marginals(SCHEMA, 1))


class Twisted(Release):
    """Another release with its answers changed."""

    def __init__(self, release: Release, twist: Callable[[Floats, Floats], tuple[Floats, Floats]]) -> None:
        super().__init__(release.schema, release.size)
        self._release, self._twist = release, twist

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        return self._twist(*self._release.shares(queries))


class Understating(AnswersBox):
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        return Twisted(super().run(gate, budget, alpha, beta), lambda shares, errors: (shares, errors / 3))


class Biased(AnswersBox):
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        return Twisted(super().run(gate, budget, alpha, beta), lambda shares, errors: (shares + 2 * errors, errors))


class Overstating(AnswersBox):
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        return Twisted(super().run(gate, budget, alpha, beta), lambda shares, errors: (shares, 1.01 * errors))


class Frugal(AnswersBox):
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        return super().run(gate, budget.share(Fraction(9, 10)), alpha, beta)


class Greedy(AnswersBox):
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        return super().run(gate, Budget(budget.kind, budget.total * Fraction(1001, 1000)), alpha, beta)


class Lazy(AnswersBox):
    """It measures when it is asked."""

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        noise = answers_noise(Budget(budget.kind, budget.total / 2), [Fraction(1)] * len(QUERIES))
        gate.measure(QUERIES, noise)

        def ask(shares: Floats, errors: Floats) -> tuple[Floats, Floats]:
            gate.measure([], noise)
            return shares, errors

        return Twisted(super().run(gate, budget.share(Fraction(1, 2)), alpha, beta), ask)


class Moody(AnswersBox):
    """Its answers depend on more than what the gate gave it."""

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        noise = 1e-9 * np.random.default_rng().random()
        return Twisted(super().run(gate, budget, alpha, beta), lambda shares, errors: (shares + noise, errors))


class Obliging(AnswersBox):
    """It answers what it knows nothing about."""

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        release = super().run(gate, budget, alpha, beta)

        class Guess(Release):
            def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
                known = [query for query in queries if query in QUERIES]
                shares, errors = release.shares(known)
                guesses = np.full(len(queries) - len(known), 0.5)
                return np.concatenate([shares, guesses]), np.concatenate([errors, guesses])

        return Guess(SCHEMA, gate.size)


class Whole(AnswersBox):
    """Its alpha is a whole number of rows: as narrow noise rounds down to few, wider noise seems to lose more."""

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        noise = answers_noise(budget, self._class.spreads)
        return laplace_radius(noise.scale, float(beta) / len(self._class)) / size


class Boasting(AnswersBox):
    @property
    def rate(self) -> Rate:
        rate = super().rate
        assert rate is not None
        return Rate(rate.p, rate.g / 2, rate.p1)


class Distracted(AnswersBox):
    """It prefers round numbers of rows."""

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return super().alpha(size, budget, beta) * (1 if size % 10_000 == 0 else 0.01)


class Suite(BoxContract):
    box: ClassVar[type[AnswersBox]]
    queries = QUERIES
    outside = tr.Query.where(SCHEMA, origin="EWR", late="yes")
    synthetic = False

    def make(self, **options: Any) -> AnswersBox:
        return self.box(QUERIES, **options)


def scaling(suite: Suite) -> None:
    suite.test_alpha_never_grows_when_size_replaces_budget(2)


def accuracy(suite: Suite) -> None:
    suite.test_all_errors_hold_and_are_within_alpha(0)


CLAUSES: list[tuple[type[AnswersBox], Callable[[Suite], None]]] = [
    (Understating, Suite.test_errors_fail_no_more_often_than_stated),
    (Biased, accuracy),
    (Overstating, accuracy),
    (Frugal, Suite.test_it_costs_its_budget_and_uses_it),
    (Frugal, Suite.test_odd_budgets_are_kept_to_the_last_bit),
    (Greedy, Suite.test_it_costs_its_budget_and_uses_it),
    (Greedy, Suite.test_it_runs_within_a_reservation_of_its_budget),
    (Lazy, Suite.test_answers_touch_nothing_private),
    (Moody, Suite.test_running_again_over_the_record_gives_the_same_bits),
    (Obliging, Suite.test_a_query_outside_the_class_is_refused_for_free),
    (Whole, scaling),
    (Boasting, Suite.test_its_rate_is_never_below_alpha),
    (Distracted, Suite.test_alpha_never_grows_with_size_budget_or_beta),
]


@pytest.mark.parametrize(("box", "clause"), CLAUSES)
def test_a_box_that_breaks_a_clause_is_seen(box: type[AnswersBox], clause: Callable[[Suite], None]) -> None:
    suite = type("Broken", (Suite,), {"box": box, "kinds": ("pure",)})()
    with pytest.raises((AssertionError, pytest.fail.Exception, tr.BudgetExceeded)):
        clause(suite)


@pytest.mark.parametrize("clause", list(dict.fromkeys(clause for _, clause in CLAUSES)))
def test_a_box_that_keeps_them_is_not(clause: Callable[[Suite], None]) -> None:
    clause(type("Sound", (Suite,), {"box": AnswersBox})())
