"""ContinualHistogram under the suite that every mechanism inherits."""

from __future__ import annotations

from typing import Any

import treering as tr
from support.mechanism_contract import MechanismContract, rows
from treering.mechanisms.continual import ContinualHistogram

NAN = float("nan")


class TestContinualHistogram(MechanismContract):
    population = 1000
    bad_parameters = (
        *(({"beta": bad}, "beta") for bad in (0, 1, 1.5, -0.1, NAN, "0.05", None, True)),
        *(({"delta": bad}, "delta") for bad in (1, 1.5, -0.1, NAN)),
    )

    def make(self, db: Any, **options: Any) -> ContinualHistogram:
        return ContinualHistogram(db, **{"epsilon": self.epsilon, **options})

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return abs(one.value - other.value) <= one.error + other.error

    def test_a_replayed_one_goes_on_where_the_live_one_was(self) -> None:
        """Questions are free and change nothing; new rows do, whether anybody asks or not."""
        db = self.database()
        self.make(db).ask_many(["late = 'yes' AND month = 3", "late = 'no' AND month <= 2"])
        replayed = self.make(db)
        before = replayed.state
        replayed.ask("origin = 'EWR' AND month <= 2")
        assert replayed.state == before
        for seed in range(40):
            db.append_cells(rows(5, seed))
            assert replayed.state != before
            before = replayed.state
            assert self.make(db).state == before


class TestContinualHistogramApproximate(TestContinualHistogram):
    def make(self, db: Any, **options: Any) -> ContinualHistogram:
        return ContinualHistogram(db, **{"epsilon": self.epsilon, "delta": 1e-6, **options})
