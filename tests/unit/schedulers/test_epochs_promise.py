"""What an epoch promises: the plan's error or that of its box, and what is on record of one that could not start."""

from __future__ import annotations

import math
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from support.doubling import Doubling, DoublingPlan
from support.scheduler_boxes import CellsBox
from treering.budget.promise import Budget
from treering.schedulers.epochs import EpochFailed, Keeper, Present, Supply

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERY = tr.parse("a = 1", SCHEMA)
BUDGET = tr.Promise(64.0, 0).budget
BETA = 1e-9


def database(size: int = 100) -> TestDatabase:
    return TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(size)])


class Sure(CellsBox):
    """Promises what it was made with."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.promises = alpha

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return self.promises


def keeper(db: TestDatabase, box: CellsBox, *, own_alpha: bool, planned: Any = 0.2) -> Keeper:
    """One over a plan that expects the same error of all epochs, or fails if that is an exception."""

    def alpha_of(*_: Any) -> float:
        if isinstance(planned, Exception):
            raise planned
        return float(planned)

    def plan(start: int) -> DoublingPlan:
        return DoublingPlan(start, BUDGET, BETA, alpha_of)

    return Keeper(db.open_gate(BUDGET), Supply(box, SCHEMA, "pure"), plan, lambda *_: None, own_alpha=own_alpha)


@pytest.mark.parametrize(
    ("own", "own_alpha", "promised"), [(0.1, True, 0.1), (0.3, True, 0.3), (0.1, False, 0.2), (0.3, False, 0.3)]
)
def test_the_promise_is_the_boxs_own_or_the_larger_of_both(own: float, own_alpha: bool, promised: float) -> None:
    kept = keeper(database(), Sure(own), own_alpha=own_alpha)
    epoch, _, size = kept.standing()
    assert (epoch.alpha, epoch.beta, size) == (promised, BETA / 2, 100)
    planned = kept.plan.epoch(0)
    assert kept.promised(planned, 100) == promised
    assert kept.promised(planned, 100, Sure(0.7)) == 0.7


def test_an_error_of_nothing_is_a_promise() -> None:
    epoch, _, _ = keeper(database(), Sure(0.0), own_alpha=True).standing()
    assert (epoch.alpha, epoch.error) == (0.0, None)


@pytest.mark.parametrize("alpha", [-1e-9, math.inf, math.nan])
def test_an_epoch_whose_box_promises_no_error_is_on_record_with_the_planned_one(alpha: float) -> None:
    kept = keeper(database(), Sure(alpha), own_alpha=True)
    with pytest.raises(tr.GuaranteeError, match="the box's alpha is no error"):
        kept.standing()
    (epoch,) = kept.epochs
    assert (epoch.alpha, epoch.beta, epoch.epsilon, epoch.rho) == (0.2, BETA / 2, None, None)
    assert epoch.error == f"the box's alpha is no error: {alpha!r}"


def test_an_epoch_without_a_plan_is_on_record_without_a_promise() -> None:
    kept = keeper(database(), Sure(0.1), own_alpha=True, planned=ValueError("no plan"))
    with pytest.raises(tr.GuaranteeError, match="ValueError: no plan"):
        kept.standing()
    (epoch,) = kept.epochs
    assert (epoch.index, epoch.size, epoch.alpha, epoch.beta) == (0, 100, math.inf, 0.0)
    assert (epoch.epsilon, epoch.rho, epoch.error) == (None, None, "ValueError: no plan")
    assert kept.present == Present(kept.present.order, 200)


# -- what is due, and who answers --------------------------------------------------------------------------------------


def test_what_is_due_is_the_budget_of_the_latest_epoch_that_the_size_has_reached() -> None:
    db = database()
    kept = keeper(db, Sure(0.1), own_alpha=True)
    assert kept.due() == 32
    assert not kept.started
    kept.standing()
    assert kept.due() == 0
    assert kept.started
    for more, due in ((99, 0), (1, 16), (200, 8)):
        db.append_cells([0] * more)
        assert kept.due() == due
    kept.grown()
    assert [epoch.size for epoch in kept.epochs] == [100, 400]


def test_growth_opens_nothing_before_the_first_question() -> None:
    db = database()
    kept = keeper(db, Sure(0.1), own_alpha=True)
    db.append_cells([0] * 300)
    kept.grown()
    assert (kept.epochs, db.touched) == ((), 0)
    with pytest.raises(tr.GuaranteeError, match="nothing has been released yet: the first question opens the first"):
        raise kept.nothing()


def test_only_the_epoch_in_force_can_be_given_up() -> None:
    """Two threads may find the same release to be broken: the second one finds it given up already."""
    db = database()
    kept = keeper(db, CellsBox(), own_alpha=True)
    first, _, _ = kept.standing()
    db.append_cells([0] * 100)
    second, _, _ = kept.standing()
    kept.give_up(first, "of yesterday")
    assert [epoch.error for epoch in kept.epochs] == [None, None]
    kept.give_up(second, "broken")
    kept.give_up(second, "broken, too")
    assert [epoch.error for epoch in kept.epochs] == [None, "broken"]
    assert kept.present.epoch == first
    assert kept.present.until == 400
    assert sum(isinstance(getattr(event, "note", None), EpochFailed) for event in db.journal.events()) == 1
    assert kept.standing()[0] == first


def test_a_failed_epoch_is_named_with_the_size_of_the_next() -> None:
    scheduler = Doubling(database(), Sure(math.nan), 64.0)
    with pytest.raises(tr.GuaranteeError) as refusal:
        scheduler.ask(QUERY)
    assert str(refusal.value) == (
        "epoch 0 failed (the box's alpha is no error: nan), and there is none before it to answer from; "
        "the next one opens at 200 rows"
    )
