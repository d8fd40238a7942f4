"""BBScheduler, BBImprover and SmallDBG under the suite that every mechanism inherits."""

from __future__ import annotations

from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from support.mechanism_contract import MechanismContract, rows
from treering.boxes.histogram import HistogramBox
from treering.schedulers.improver import BBImprover
from treering.schedulers.scheduler import BBScheduler

NAN = float("nan")
COMMON: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"beta": bad}, "beta") for bad in (0, 1, 1.5, -0.1, NAN, "0.1", None, True)),
    *(({"delta": bad}, "delta") for bad in (1, 1.5, -0.1, NAN)),
    *(({"profile": bad}, "profile") for bad in ("loose", "", None)),
    *(({"box": bad}, "box") for bad in (None, "histogram", 17, lambda _: None)),
)


class _SchedulerContract(MechanismContract):
    population = 40_000
    bad_parameters = COMMON

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return abs(one.value - other.value) <= one.error + other.error

    def test_a_replayed_one_goes_on_where_the_live_one_was(self) -> None:
        """Questions change nothing here: growth does."""
        db = self.database()
        asked = ["late = 'yes' AND month = 3", "late = 'no' AND month <= 2"]
        answers = self.make(db).ask_many(asked)
        replayed = self.make(db)
        assert replayed.ask_many(asked) == answers
        before = replayed.state
        assert replayed.next_epoch is not None
        db.append_cells(rows(replayed.next_epoch - db.size))
        assert replayed.state != before
        assert replayed.state[: len(before)] == before
        again = self.make(db)
        assert again.state == replayed.state
        assert again.ask_many(asked) == replayed.ask_many(asked) != answers

    @pytest.mark.parametrize("seed", range(3))
    def test_the_promise_is_kept_over_a_long_life(self, seed: int) -> None:
        """Growth by jumps of all lengths; every answer within the error it states, and within the guarantee.

        With beta = 1e-9 each fails by chance with that probability.
        """
        db = self.database(seed)
        mechanism = self.make(db, beta=1e-9)
        queries = [tr.parse(text, db.schema) for text in ("late = 'yes'", "origin = 'JFK' AND month <= 3", "month = 6")]
        for step in range(12):
            bound = mechanism.alpha_at(db.size)
            for query, answer in zip(queries, mechanism.ask_many(queries), strict=True):
                assert abs(answer.value - db.rows.cells.count(query) / db.size) <= answer.error
                assert answer.error <= bound + 1e-9
            db.append_cells(rows(self.population // 100 << (step % 6), seed + step))
        assert all(epoch.error is None for epoch in mechanism.epochs)
        assert 3 <= len(mechanism.epochs) <= 13
        assert mechanism.spent + mechanism.remaining == pytest.approx(self.total(mechanism))
        assert 0 < mechanism.spent < self.total(mechanism)

    def total(self, mechanism: Any) -> float:
        return float(tr.Promise(self.epsilon, mechanism.guarantee.delta).budget.total)


class TestBBScheduler(_SchedulerContract):
    def make(self, db: Any, **options: Any) -> BBScheduler:
        return BBScheduler(db, **{"box": HistogramBox(), "epsilon": self.epsilon, "delta": 1e-6, **options})


class TestBBSchedulerPure(_SchedulerContract):
    def make(self, db: Any, **options: Any) -> BBScheduler:
        return BBScheduler(db, **{"box": HistogramBox(), "epsilon": self.epsilon, **options})


class TestBBSchedulerPaper(_SchedulerContract):
    epsilon = 20.0

    def make(self, db: Any, **options: Any) -> BBScheduler:
        given = {"box": HistogramBox(), "epsilon": self.epsilon, "profile": "paper", **options}
        return BBScheduler(db, **given)


class TestBBSchedulerOfFunction(_SchedulerContract):
    """A box for each epoch."""

    def make(self, db: Any, **options: Any) -> BBScheduler:
        given = {"box": lambda _: HistogramBox(), "epsilon": self.epsilon, "delta": 1e-6, **options}
        return BBScheduler(db, **given)


class TestBBImprover(_SchedulerContract):
    def make(self, db: Any, **options: Any) -> BBImprover:
        return BBImprover(db, **{"box": HistogramBox(), "epsilon": self.epsilon, "delta": 1e-6, **options})


class TestBBImproverPure(_SchedulerContract):
    def make(self, db: Any, **options: Any) -> BBImprover:
        return BBImprover(db, **{"box": HistogramBox(), "epsilon": self.epsilon, "delta": 0.0, **options})


def test_the_shared_journal_of_these_tests_is_one_life() -> None:
    """The suite makes several over one journal: those that are gone must not open epochs of their own."""
    db = TestDatabase(TestBBScheduler().database().schema, rows(40_000))
    contract = TestBBScheduler()
    live = contract.make(db)
    live.ask("late = 'yes'")
    contract.make(db)
    db.append_cells(rows(10_000))
    assert [epoch.index for epoch in contract.make(db).epochs] == [epoch.index for epoch in live.epochs]
