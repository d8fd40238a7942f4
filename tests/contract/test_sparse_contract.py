"""ATG, NATG and NSG under the suite that every mechanism inherits."""

from __future__ import annotations

from typing import Any

import treering as tr
from support.mechanism_contract import FiniteContract

NAN = float("nan")
COMMON: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"threshold": bad}, "threshold") for bad in (-0.1, 1.1, NAN, float("inf"), "0.5", None, True)),
    *(({"queries": bad}, "queries") for bad in (0, -1, 1.5, "9", True)),
    *(({"beta": bad}, "beta") for bad in (0, 1, 1.5, -0.1, NAN)),
)


class _SparseContract(FiniteContract):
    bad_parameters = COMMON

    def same(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def finish(self, mechanism: Any) -> None:
        while not mechanism.halted:
            mechanism.ask("TRUE")


class TestATG(_SparseContract):
    def make(self, db: Any, **options: Any) -> tr.ATG:
        return tr.ATG(db, **{"threshold": 0.2, "epsilon": self.epsilon, **options})


class TestNATG(_SparseContract):
    def make(self, db: Any, **options: Any) -> tr.NATG:
        return tr.NATG(db, **{"threshold": 0.2, "epsilon": self.epsilon, **options})


class TestNSG(_SparseContract):
    bad_parameters = (*COMMON, *(({"hard": bad}, "hard") for bad in (0, -3, 2.0, "7", True)))

    def make(self, db: Any, **options: Any) -> tr.NSG:
        return tr.NSG(db, **{"threshold": 0.2, "epsilon": self.epsilon, "hard": 3, **options})
