"""OpenDP's noise on the counts keeps the contract of black boxes, given what can be proven of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import Measurement, enable_features

import treering as tr
from support.box_contract import BoxContract
from support.mechanism_contract import SCHEMA
from treering.boxes.foreign import from_opendp
from treering.boxes.protocol import Box
from treering.budget.promise import Budget, Kind
from treering.domain.query import Query
from treering.gate import Gaussian, Laplace, Noise
from treering.theory.cell_noise import smooth
from treering.theory.subsets import all_subsets_radius

enable_features("contrib")

QUERIES = tuple(
    tr.parse(text, SCHEMA)
    for text in ("origin = 'JFK'", "month <= 6 AND late = 'yes'", "month > 3 OR late = 'no'", "month = 4")
)
HAIR = 1 + 1e-9
"""OpenDP rounds its maps up."""


def noise(budget: Budget) -> Noise:
    """What costs the budget, but for a hair."""
    if budget.kind == "pure":
        return Laplace(2 / float(budget.total) * HAIR)
    return Gaussian(1 / math.sqrt(float(budget.total)) * HAIR)


def noisy_counts(budget: Budget) -> Measurement:
    vectors, law = vector_domain(atom_domain(T="i64"), size=SCHEMA.cells), noise(budget)
    if isinstance(law, Laplace):
        return make_laplace(vectors, l1_distance(T="f64"), scale=law.scale)
    return make_gaussian(vectors, l2_distance(T="f64"), scale=law.scale)


def alpha(size: int, budget: Budget, beta: float) -> float:
    """Every query at once; without centring, up to all cells weigh."""
    return all_subsets_radius(smooth(noise(budget)), SCHEMA.cells, SCHEMA.cells, beta) / size


class TestForeign(BoxContract):
    queries: ClassVar[Sequence[Query]] = QUERIES
    outside: ClassVar[Query | None] = None
    synthetic = False
    tied = False
    bad_parameters = (({"measurement": 17}, "measurement"), ({"alpha": 0.1}, "alpha"), ({"kind": "other"}, "kind"))

    def make(self, **options: Any) -> Box:
        return from_opendp(**{"measurement": noisy_counts, "alpha": alpha, **options})

    def budget(self, kind: Kind) -> Budget:
        return Budget(kind, Fraction(1) if kind == "pure" else Fraction(1, 2))


class TestForeignZcdp(TestForeign):
    kinds = ("zcdp",)

    def make(self, **options: Any) -> Box:
        return super().make(**{"kind": "zcdp", **options})
