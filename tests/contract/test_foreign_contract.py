"""OpenDP's noise on the counts keeps the contract of black boxes, given what can be proven of it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from opendp.mod import Measurement

import treering as tr
from support.box_contract import BoxContract
from support.mechanism_contract import SCHEMA
from support.opendp_noise import affordable, noisy_counts
from treering.boxes.base import Box
from treering.boxes.opendp import from_opendp
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query
from treering.theory.cells import all_subsets_radius, smooth

QUERIES = tuple(
    tr.parse(text, SCHEMA)
    for text in ("origin = 'JFK'", "month <= 6 AND late = 'yes'", "month > 3 OR late = 'no'", "month = 4")
)


def noisy(budget: Budget) -> Measurement:
    return noisy_counts(budget, SCHEMA.cells)


def alpha(size: int, budget: Budget, beta: float) -> float:
    """Every query at once; without centring, up to all cells weigh."""
    return all_subsets_radius(smooth(affordable(budget)), SCHEMA.cells, SCHEMA.cells, beta) / size


class TestForeign(BoxContract):
    queries: ClassVar[Sequence[Query]] = QUERIES
    outside: ClassVar[Query | None] = None
    synthetic = False
    tied = False
    bad_parameters = (({"measurement": 17}, "measurement"), ({"alpha": 0.1}, "alpha"), ({"kind": "other"}, "kind"))

    def make(self, **options: Any) -> Box:
        return from_opendp(**{"measurement": noisy, "alpha": alpha, **options})

    def budget(self, kind: BudgetKind) -> Budget:
        return Budget(kind, Fraction(1) if kind == "pure" else Fraction(1, 2))


class TestForeignZcdp(TestForeign):
    kinds = ("zcdp",)

    def make(self, **options: Any) -> Box:
        return super().make(**{"kind": "zcdp", **options})
