"""What a learner by rings says of itself: prices, epochs, guarantees and tests, before and after its first model.

And that a first model which did not come about leaves all in order.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Promise
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures, Descent
from treering.gate import Marked, Minimised, Tallied
from treering.schedulers.ermrings import ERMRings
from treering.schedulers.tested import Quality
from treering.theory.erm.rings import plan_ring, ring_share
from treering.trusted.kernel import Kernel
from treering.trusted.operations.minimise import Minimising

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
FEATURES = CellFeatures.one_hot(SCHEMA, ["origin"], "late = 'yes'")
BETA = 0.01


def _cells(rows: int, seed: int = 0) -> list[int]:
    return [int(cell) for cell in np.random.default_rng(seed).integers(0, SCHEMA.cells, rows)]


def _rings(db: TestDatabase, **options: Any) -> ERMRings:
    given = {"epsilon": 1.0, "delta": 1e-6, "beta": BETA, "features": FEATURES, "radius": 2.0}
    return ERMRings(db, Logistic(), **{**given, **options})


# -- prices ------------------------------------------------------------------------------------------------------------


def test_an_empty_database_has_no_price_and_no_guarantee() -> None:
    learner = _rings(TestDatabase(SCHEMA))
    with pytest.raises(tr.GuaranteeError, match="the database is empty: a share of its rows needs at least one"):
        _ = learner.update_price
    with pytest.raises(tr.GuaranteeError, match="the database is empty: an accuracy guarantee"):
        _ = learner.guarantee
    with pytest.raises(tr.GuaranteeError, match="the database is empty: an empirical risk needs at least one row"):
        learner.update()


def test_a_model_has_its_price_from_the_size_on_at_which_it_is_due() -> None:
    db = TestDatabase(SCHEMA, _cells(100))
    learner = _rings(db)
    total = Promise(1.0, 1e-6).budget.total
    assert learner.update_price == total
    learner.update()
    db.rows.add_cells(np.zeros(99, dtype=np.int64))  # nobody tells the learner
    assert learner.update_price == 0
    assert learner.update() is learner.models[0]
    db.rows.add_cells(np.zeros(1, dtype=np.int64))
    assert learner.update_price == total
    assert learner.update().rows == (100, 200)


# -- epochs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_epoch_has_the_whole_budget_and_its_own_part_of_beta(delta: float) -> None:
    db = TestDatabase(SCHEMA, _cells(100))
    learner = _rings(db, delta=delta)
    learner.update()
    db.append_cells(_cells(100, 1))
    total = float(Promise(1.0, delta).budget.total)
    assert [(epoch.index, epoch.size, epoch.error) for epoch in learner.epochs] == [(0, 100, None), (1, 200, None)]
    assert {(epoch.epsilon, epoch.rho) for epoch in learner.epochs} == {(None, total) if delta else (total, None)}
    assert [epoch.beta for epoch in learner.epochs] == [ring_share(BETA, 0), ring_share(BETA, 1)]
    assert learner.halted is False
    assert learner.state == tuple((model.rows, model.theta) for model in learner.models)


@pytest.mark.parametrize(
    ("rows", "every", "due"), [(100, 2, 200), (100, 1.25, 125), (101, 1.25, 127), (3, 1.001, 4), (4, 1.25, 5)]
)
def test_the_next_model_is_due_when_the_rows_have_grown_so_far(rows: int, every: float, due: int) -> None:
    """Rounded up, and by a row at least."""
    learner = _rings(TestDatabase(SCHEMA, _cells(rows)), every=every)
    assert learner.next_epoch is None
    learner.update()
    assert learner.next_epoch == due


def test_each_model_starts_at_the_one_before() -> None:
    db = TestDatabase(SCHEMA, _cells(100))
    learner = _rings(db)
    learner.update()
    for seed in (1, 2, 3):
        db.append_cells(_cells(db.size, seed))
    starts = [model.method.start for model in learner.models if isinstance(model.method, Descent)]
    assert starts == [None, *(model.theta for model in learner.models[:-1])]


# -- guarantees --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("validation", "learnt"), [(0, 999), (0.1, 900), (Fraction(1, 3), 666)])
def test_the_guarantee_before_the_first_model_is_that_of_a_model_of_now(validation: Any, learnt: int) -> None:
    """Rows that would be held out are not learnt from: 99 and 333 of 999."""
    db = TestDatabase(SCHEMA, _cells(999))
    learner = _rings(db, validation=validation)
    guarantee = learner.guarantee
    planned = plan_ring(learner.problem, learnt, Promise(1.0, 1e-6).budget, ring_share(BETA, 0))
    assert (guarantee.alpha, guarantee.beta, guarantee.size) == (planned.alpha, BETA, 999)
    assert "for the rows 1 to 999. Each row pays for one model" in guarantee.statement
    model = learner.update()
    assert (model.held or 0, model.excess_risk) == (999 - learnt, planned.alpha)
    assert learner.guarantee == guarantee
    db.append_cells(_cells(1))
    assert (learner.guarantee.size, learner.guarantee.alpha) == (1_000, planned.alpha)
    assert "for the rows 1 to 999." in learner.guarantee.statement


# -- tests of models ---------------------------------------------------------------------------------------------------


def test_nothing_is_known_of_models_before_there_are_any() -> None:
    learner = _rings(TestDatabase(SCHEMA, _cells(100)), validation=0.2)
    assert (learner.quality, learner.quality_later) == (None, None)
    described = learner.describe()
    assert (described["model"], described["quality"], described["quality_later"]) == (None, None, None)
    learner.update()
    described = learner.describe()
    assert described["quality"]["rows"] == 20
    assert described["quality_later"] is None
    plain = _rings(TestDatabase(SCHEMA, _cells(100)))
    plain.update()
    assert "quality" not in plain.describe()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_each_model_is_tested_with_the_one_before_in_equal_parts(delta: float) -> None:
    """Two counts a model: one model in the first ring, two in each later one, each with its own part of the room."""
    db = TestDatabase(SCHEMA, _cells(500))
    learner = _rings(db, epsilon=8.0, delta=delta, validation=0.2)
    learner.update()
    for seed in (1, 2):
        db.append_cells(_cells(db.size, seed))
    rings: list[list[Tallied]] = []
    for event in learner._gate.history:
        if isinstance(event, Minimised):
            rings.append([])
        elif isinstance(event, Tallied):
            rings[-1].append(event)
    first, second, third = (model.theta for model in learner.models)
    assert [[each.tally.theta for each in tallied] for tallied in rings] == [
        [first, first],
        [first, first, second, second],
        [second, second, third, third],
    ]
    total = Promise(8.0, delta).budget
    for tallied in rings:
        for each in tallied:
            drawn = float(total.amount(each.drawn))
            assert drawn == pytest.approx(float(total.total) / len(tallied), rel=1e-3)
    for found, trained in ((learner.quality, (1_000, 2_000)), (learner.quality_later, (500, 1_000))):
        assert isinstance(found, Quality)
        assert (found.trained, found.rows) == (trained, 200)


@pytest.mark.parametrize("validation", [False, True, 0.5, Fraction(1, 2), 1, -0.1, float("nan"), "0.1", None])
def test_a_part_that_is_no_part_is_refused(validation: Any) -> None:
    with pytest.raises(tr.ParameterError, match="validation") as caught:
        _rings(TestDatabase(SCHEMA, _cells(10)), validation=validation)
    assert caught.value.parameter == "validation"


@pytest.mark.parametrize("validation", [0, 0.0, Fraction(0)])
def test_no_rows_may_be_held_out(validation: Any) -> None:
    assert _rings(TestDatabase(SCHEMA, _cells(10)), validation=validation).update().held in (0, None)


# -- a first model that did not come about -----------------------------------------------------------------------------


def _failing(error: BaseException) -> Any:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    return fails


def test_an_interrupted_first_run_costs_its_rows_and_the_next_ring_begins_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db = TestDatabase(SCHEMA, _cells(100))
    learner = _rings(db)
    with monkeypatch.context() as patched:
        patched.setattr(Minimising, "perform", _failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            learner.update()
    assert learner.update_price == 0  # no row is left that could pay
    with pytest.raises(tr.GuaranteeError, match="no model has been released yet"):
        learner.update()
    db.append_cells(_cells(1))
    assert learner.models == ()  # it waits to be asked again
    with monkeypatch.context() as patched:
        patched.setattr(Minimising, "perform", _failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            learner.update()  # a ring of one row
    db.append_cells(_cells(3))
    assert learner.update().rows == (101, 104)


@pytest.mark.parametrize("grown", [0, 10])
@pytest.mark.parametrize("replayed", [False, True])
def test_a_first_run_that_was_refused_costs_nothing_and_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, replayed: bool, grown: int
) -> None:
    db = TestDatabase(SCHEMA, _cells(100))
    learner = _rings(db)
    with monkeypatch.context() as patched:
        patched.setattr(Kernel, "minimise", _failing(tr.GuaranteeError("not now")))
        with pytest.raises(tr.GuaranteeError, match="not now"):
            learner.update()
    if replayed:
        learner = _rings(db)
    assert learner.spent == 0
    if grown:
        db.append_cells(_cells(grown))
    assert learner.update().rows == (0, 100 + grown)
    marked = [event.size for event in db.journal.events() if isinstance(event, Marked)]
    assert marked == sorted({100, 100 + grown})  # each edge once
