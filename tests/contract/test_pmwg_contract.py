"""PMW and PMWG under the suite that every mechanism inherits."""

from __future__ import annotations

from typing import Any

import numpy as np

import treering as tr
from support.databases import TestDatabase
from support.mechanism_contract import SCHEMA, MechanismContract

NAN = float("nan")
COMMON: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"alpha": bad}, "alpha") for bad in (0, 1, 1.5, -0.1, NAN, "0.1", None, True)),
    *(({"beta": bad}, "beta") for bad in (0, 1, 1.5, -0.1, NAN)),
    *(({"delta": bad}, "delta") for bad in (1, 1.5, -0.1, NAN)),
)


class _AdaptiveContract(MechanismContract):
    population = 40_000
    bad_parameters = COMMON

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return abs(one.value - other.value) <= one.error + other.error


class TestPMWG(_AdaptiveContract):
    bad_parameters = (
        *COMMON,
        *(({"profile": bad}, "profile") for bad in ("loose", "", None)),
        ({"profile": "paper", "p": 2}, "p"),
        ({"profile": "paper", "warm_start": np.ones(SCHEMA.cells)}, "warm_start"),
        *(({"warm_start": bad}, "distribution") for bad in (np.ones(3), -np.ones(SCHEMA.cells))),
    )

    def make(self, db: Any, **options: Any) -> tr.PMWG:
        return tr.PMWG(db, **{"epsilon": self.epsilon, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, **options})


class TestPMWGPure(_AdaptiveContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        return tr.PMWG(db, **{"epsilon": self.epsilon, "alpha": 0.2, "beta": 0.05, **options})


class TestPMWGGuardOnly(_AdaptiveContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        given = {"epsilon": self.epsilon, "delta": 1e-6, "alpha": 0.3, "beta": 0.05, "measure_first": False}
        return tr.PMWG(db, **{**given, **options})


class TestPMWGWarm(_AdaptiveContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        start = np.arange(SCHEMA.cells)
        given = {"epsilon": self.epsilon, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, "warm_start": start}
        return tr.PMWG(db, **{**given, **options})


class TestPMWGPaper(_AdaptiveContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        return tr.PMWG(db, **{"epsilon": self.epsilon, "alpha": 0.9, "beta": 0.05, "profile": "paper", **options})

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return one.size == other.size  # at this size the paper's noise is larger than any share

    def test_a_text_and_its_query_are_the_same(self) -> None:
        text = "late = 'yes' AND month <= 6"
        for question in (text, tr.parse(text, SCHEMA)):
            assert self.make(self.database()).ask(question).size == self.population


class TestPMW(_AdaptiveContract):
    bad_parameters = (*COMMON, *(({"queries": bad}, "queries") for bad in (0, -3, 2.0, "7", True)))

    def make(self, db: Any, **options: Any) -> tr.PMW:
        given = {"epsilon": self.epsilon, "delta": 1e-6, "alpha": 0.4, "beta": 0.05, "queries": 100}
        return tr.PMW(db, **{**given, **options})

    def grow(self, db: TestDatabase) -> None:
        """PMW is for a database that stays as it is."""
