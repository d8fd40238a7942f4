"""What both learners do alike: progress of one model, the description, and what must fit the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.boxes.base import silent
from treering.domain.loss import Distance, Logistic, Loss, Squared
from treering.domain.problem import CellFeatures, Problem
from treering.schedulers.ermg import ERMG
from treering.schedulers.ermrings import ERMRings
from treering.schedulers.learning import Learner, check_fits, needed_features, own_dimension
from treering.trusted.memory.points import GrowingPoints

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
FEATURES = CellFeatures.one_hot(SCHEMA, ["origin"], "late = 'yes'")
LEARNERS: list[Any] = [ERMG, ERMRings]


def _database(rows: int = 200) -> TestDatabase:
    return TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(rows)])


def _learner(kind: Callable[..., Learner], db: TestDatabase, **options: Any) -> Learner:
    return kind(db, Logistic(), epsilon=1.0, delta=1e-6, features=FEATURES, **options)


# -- progress ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNERS)
def test_progress_is_asked_for_one_model_and_then_as_it_was(kind: Any) -> None:
    usual: list[str] = []
    once: list[str] = []

    def always(_: float, doing: str) -> None:
        usual.append(doing)

    learner = _learner(kind, _database(), progress=always)
    assert learner.learnt(update=True, progress=lambda _, doing: once.append(doing)) is learner.model
    assert len(once) >= 2
    assert usual == []
    assert learner.progress is always
    learner = _learner(kind, _database(), progress=always)
    learner.learnt(update=True)
    assert len(usual) >= 2


@pytest.mark.parametrize("kind", LEARNERS)
def test_nobody_is_told_of_progress_who_did_not_ask(kind: Any) -> None:
    assert _learner(kind, _database()).progress is silent


@pytest.mark.parametrize("kind", LEARNERS)
def test_progress_is_as_it_was_after_an_error(kind: Any) -> None:
    db = _database(0)
    learner = _learner(kind, db)
    with pytest.raises(tr.GuaranteeError, match="the database is empty: an empirical risk needs at least one row"):
        learner.learnt(update=True, progress=lambda *_: None)
    assert learner.progress is silent


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_latest_model_is_had_without_a_new_one(kind: Any) -> None:
    db = _database()
    learner = _learner(kind, db)
    with pytest.raises(tr.GuaranteeError, match=r"no model has been released yet: update\(\) releases the first one"):
        learner.learnt(update=False)
    assert (learner.spent, db.touched) == (0, 0)
    model = learner.learnt(update=True)
    db.rows.add_cells(np.zeros(300, dtype=np.int64))  # nobody tells the learner
    assert learner.learnt(update=False) is learner.model is model
    assert learner.learnt(update=True) is not model


# -- the description and refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_description_has_the_latest_model(kind: Any) -> None:
    learner = _learner(kind, _database())
    assert learner.describe()["model"] is None
    model = learner.update()
    described = learner.describe()["model"]
    assert (described["size"], described["theta"]) == (200, list(model.theta))
    assert described["excess_risk_bound"] == learner.excess_risk_bound == model.excess_risk
    upcoming: Any = learner
    assert learner.describe()["next_epoch"] == upcoming.next_epoch


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_model_answers_no_queries_and_draws_no_rows(kind: Any) -> None:
    learner = _learner(kind, _database())
    asked: list[Callable[[], Any]] = [
        lambda: learner.ask("late = 'yes'"),
        lambda: learner.ask_many([]),
        lambda: learner.plan([]),
        lambda: learner.sample(3, np.random.default_rng(0)),
    ]
    for ask in asked:
        with pytest.raises(tr.QueryError):
            ask()
    assert learner.answers is False


# -- what fits ---------------------------------------------------------------------------------------------------------


def test_the_cells_of_a_database_need_features_and_points_do_not() -> None:
    with pytest.raises(tr.ParameterError, match="features must say how the database's cells become vectors"):
        needed_features(_database(), None)
    assert needed_features(_database(), FEATURES) is FEATURES
    assert needed_features(GrowingPoints(2, "signs"), None) is None
    two = TestDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    with pytest.raises(tr.ParameterError, match="features"):
        needed_features(two, None)


def test_the_dimension_is_that_of_the_points_if_none_is_given() -> None:
    points = GrowingPoints(5, "signs")
    assert own_dimension(points, None, None) == 5
    assert own_dimension(points, 3, None) == 3
    assert own_dimension(_database(), None, None) is None
    assert own_dimension(points, None, FEATURES) is None  # that of the features
    assert own_dimension(_database(), 3, FEATURES) == 3


@pytest.mark.parametrize(
    ("db", "loss", "dimension", "features", "words"),
    [
        (GrowingPoints(2, "signs"), Logistic(), 2, None, None),
        (GrowingPoints(2, "signs"), Squared(), 2, None, None),
        (_database(), Logistic(), 3, FEATURES, None),
        (_database(), Distance(), 7, None, None),  # The kernel has its own say.
        (GrowingPoints(2, "signs"), Logistic(), 3, None, "dimension must be that of the points, 2, not 3"),
        (GrowingPoints(2, "none"), Logistic(), 2, None, "Logistic takes labels -1 and 1, and there are no labels"),
        (GrowingPoints(3, "signs"), Logistic(), 3, FEATURES, "features are a map from cells"),
    ],
)
def test_what_does_not_fit_is_refused(
    db: Any, loss: Loss, dimension: int, features: CellFeatures | None, words: str | None
) -> None:
    if words is None:
        check_fits(db, Problem(loss, dimension), features)
    else:
        with pytest.raises(tr.ParameterError, match=words):
            check_fits(db, Problem(loss, dimension), features)
