"""Rings under the suite that every mechanism inherits."""

from __future__ import annotations

from typing import Any

import treering as tr
from support.mechanism_contract import MechanismContract
from treering.mechanisms.rings import Rings

NAN = float("nan")


class TestRings(MechanismContract):
    population = 4000
    bad_parameters = (
        *(({"beta": bad}, "beta") for bad in (0, 1, 1.5, -0.1, NAN, "0.05", None, True)),
        *(({"delta": bad}, "delta") for bad in (1, 1.5, -0.1, NAN)),
        *(({"pace": bad}, "pace") for bad in (0, -1, 2.5, NAN, "25", None, True)),
    )

    def make(self, db: Any, **options: Any) -> Rings:
        return Rings(db, **{"epsilon": self.epsilon, **options})

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return abs(one.value - other.value) <= one.error + other.error


class TestRingsApproximate(TestRings):
    def make(self, db: Any, **options: Any) -> Rings:
        return Rings(db, **{"epsilon": self.epsilon, "delta": 1e-6, **options})
