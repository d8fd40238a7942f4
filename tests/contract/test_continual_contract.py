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


class TestContinualHistogramWindows(TestContinualHistogram):
    bad_parameters = (
        *TestContinualHistogram.bad_parameters,
        *(({"windows": bad}, "windows") for bad in (None, 1, "yes")),
    )

    def make(self, db: Any, **options: Any) -> ContinualHistogram:
        return ContinualHistogram(db, **{"epsilon": self.epsilon, "windows": True, **options})

    def test_every_period_of_whole_batches_is_answered_within_its_error(self) -> None:
        db = self.database()
        histogram = self.make(db, beta=1e-9)
        histogram.ask("month = 1")
        ends = [0]
        for seed in range(12):
            ends.append(db.size)
            db.append_cells(rows(400, seed))
        assert histogram.boundaries == tuple(ends)
        answers = [histogram.ask("month <= 2", since=since) for since in ends]
        assert [answer.size for answer in answers] == [db.size - since for since in ends]
        errors = [answer.error * answer.size for answer in answers]
        assert errors == sorted(errors, reverse=True)
