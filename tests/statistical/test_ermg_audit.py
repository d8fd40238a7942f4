"""ERMG from rows to models passes audits on adversarial neighbours, and learners that are broken do not.

A life has two models: one of the first entries, which pull each way in equal numbers in the straight part of the loss,
and one of twice as many. The entry that is replaced is there from the start, so both see it; where rows are handed to
an estimator it is as long as a float can be. What is found may not exceed what was charged for the two, which is less
than the promise. ``support.audits`` states the false alarms; each case names, where they are known, the probabilities
of an event in which the audit must find ``visible``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import pytest

import treering as tr
from support.audits import ATTEMPTS, CONFIDENCE, ERMG_AUDITS, catch_rate
from support.broken_learning import HalfSensitivityLearner, HonestLearner
from support.learning import points
from support.pmwg_cases import make_runs_cheap
from treering.arrays import Floats
from treering.audit import lower_bound
from treering.boxes import erm
from treering.budget.convert import epsilon_of
from treering.budget.promise import Budget
from treering.domain.loss import HuberHinge
from treering.domain.problem import CellFeatures, Perturbation, Problem
from treering.gate import Minimised
from treering.learn import PrivateSVC
from treering.protocols import Database
from treering.theory import schedule
from treering.theory.tails import laplace_upper

MISS: Final = 1e-6
SIZE: Final = 4
DELTA: Final = 0.01
LEFT: Final = np.array([1.0, -1.0, 1.0, -1.0])
RIGHT: Final = np.array([1.0, -1.0, 1.0, 1.0])
ONES: Final = np.ones((SIZE, 1))


@pytest.fixture(autouse=True)
def plans_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They depend on public parameters only, and thousands of lives have the same."""
    make_lives_cheap(monkeypatch)


def make_lives_cheap(monkeypatch: pytest.MonkeyPatch, louder: float = 1.0) -> None:
    make_runs_cheap(monkeypatch, louder)
    monkeypatch.setattr(schedule, "improving_for", _IMPROVING_FOR)
    monkeypatch.setattr(erm, "_choices", _CHOICES)
    monkeypatch.setattr(erm.ERM, "alpha", known_alpha)


_IMPROVING_FOR, _CHOICES, _ALPHA = cache(schedule.improving_for), cache(erm._choices), erm.ERM.alpha
_KNOWN: Final[dict[Hashable, float]] = {}


def known_alpha(box: erm.ERM, size: int, budget: Budget, beta: float) -> float:
    key = (box.problem, box.method, box.features is None, size, budget, beta)
    if key not in _KNOWN:
        _KNOWN[key] = _ALPHA(box, size, budget, beta)
    return _KNOWN[key]


class Case(ABC):
    """One audit."""

    delta = 0.0
    samples = 1500
    visible = 0.0
    """What must be found."""

    @abstractmethod
    def life(self, labels: Floats) -> tuple[tr.ERMG, Hashable]:
        """Two models, and what is looked at."""

    def run(self, labels: tuple[float, ...]) -> Hashable:
        return self.life(np.array(labels))[1]

    def found(self) -> float:
        return lower_bound(self.run, tuple(LEFT), tuple(RIGHT), self.samples, CONFIDENCE, self.delta)

    @property
    def promise(self) -> float:
        """What was charged, as an epsilon."""
        learner, _ = self.life(LEFT)
        assert [epoch.size for epoch in learner.epochs] == [SIZE, 2 * SIZE]
        if not self.delta:
            return sum(float(epoch.epsilon or 0) for epoch in learner.epochs)
        return epsilon_of(sum(epoch.rho for epoch in learner.epochs if epoch.rho), self.delta)

    def event(self, louder: float = 1.0) -> tuple[float, float] | None:
        """Probabilities of an event, on the right and on the left."""
        return None


def points_life(labels: Floats, learner: Callable[[Database], tr.ERMG]) -> tuple[tr.ERMG, list[float]]:
    """A life over points of one number."""
    database = points(ONES, labels, HuberHinge())
    ermg = learner(database)
    models = [ermg.update().theta[0]]
    database.append(ONES, LEFT)
    return ermg, [*models, ermg.model.theta[0]]


class PerturbationInAnEstimator(Case):
    """Output perturbation, from raw rows: the one replaced is 10^300 long on the right.

    The minimiser of the first rows is 0 on the left and ½/λ on the right. The event: the first model is at least that.
    """

    visible = 0.1

    def life(self, labels: Floats) -> tuple[tr.ERMG, Hashable]:
        estimator = PrivateSVC(
            24.0,
            0.0,
            norm_bound=1.0,
            classes=(-1, 1),
            start=1,
            rows="all",
            radius=1.0,
            regularisation=2.0,
            fit_intercept=False,
            method="perturbation",
        )
        rows = ONES.copy()
        rows[-1] *= 1e300 if labels[-1] > 0 else 1.0
        models = []
        for features, marks in ((rows, labels), (ONES, LEFT)):
            estimator.partial_fit(features, marks)
            models.append(float(estimator.coef_[0, 0]))
        assert estimator._held is not None
        learner = estimator._held.learner
        assert isinstance(learner, tr.ERMG)
        first = self._first(learner)
        return learner, (models[0] >= 0.5 / (2.0 + first.ridge) - 2 * first.pitch, models[1] >= 0.1)

    def _first(self, learner: tr.ERMG) -> Perturbation:
        """How the first model is made: public."""
        first = next(event.method for event in learner._gate.history if isinstance(event, Minimised))
        assert isinstance(first, Perturbation)
        return first

    def event(self, louder: float = 1.0) -> tuple[float, float] | None:
        first = self._first(self.life(LEFT)[0])
        moved = math.floor(0.5 / (2.0 + first.ridge) / first.pitch)
        return 0.49, laplace_upper(louder * first.scale, moved - 4)


class DescentOverPoints(Case):
    """Noisy gradient descent under zCDP, each model started where the theory says."""

    delta = DELTA
    samples = 700

    def life(self, labels: Floats) -> tuple[tr.ERMG, Hashable]:
        learner, models = points_life(labels, lambda db: tr.ERMG(db, HuberHinge(), 8.0, DELTA, 0.05, method="descent"))
        return learner, tuple(model > 0.04 for model in models)


SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "late": tr.categories("n", "y")})
FEATURES = CellFeatures.one_hot(SCHEMA, ["origin"], "late = 'y'")


class PerturbationOverCells(Case):
    """One-hot features of a database's cells, output perturbation under zCDP, the second started at the first."""

    delta = DELTA
    samples = 700

    def life(self, labels: Floats) -> tuple[tr.ERMG, Hashable]:
        database = tr.GrowingDatabase(SCHEMA)
        database.append_cells((labels > 0).astype(np.int64))
        learner = tr.ERMG(
            database,
            HuberHinge(),
            8.0,
            DELTA,
            0.05,
            regularisation=2.0,
            method="perturbation",
            features=FEATURES,
        )
        models = [learner.update()]
        database.append_cells((LEFT > 0).astype(np.int64))
        models.append(learner.model)
        vector = FEATURES.vectors_of([{"origin": "EWR"}])
        return learner, tuple(bool(model.predictions(vector)[0] > 0.09) for model in models)


CASES: Final[list[Case]] = [PerturbationInAnEstimator(), DescentOverPoints(), PerturbationOverCells()]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)


@each
def test_all_models_together_keep_their_promise_and_the_audit_sees_what_it_should(case: Case) -> None:
    found, event = case.found(), case.event()
    assert found <= case.promise
    if event is not None:
        assert catch_rate(*event, case.samples // 2, case.visible) > 1 - MISS
        assert found > case.visible > 0


def test_too_little_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case, quiet = PerturbationInAnEstimator(), 1 / 16
    promise, event = case.promise, case.event(quiet)
    assert event is not None
    assert catch_rate(*event, case.samples // 2, promise) > 1 - MISS ** (1 / ATTEMPTS)
    make_lives_cheap(monkeypatch, quiet)
    assert any(case.found() > promise for _ in range(ATTEMPTS))


def test_the_audits_are_counted() -> None:
    """The honest twin below is one more."""
    assert len(CASES) + 1 <= ERMG_AUDITS


# -- broken twins ------------------------------------------------------------------------------------------------------

PROBLEM = Problem(HuberHinge(), 1, 1.0, 2.0)
EPSILON = 2.0
SAMPLES = 2000
MOVED = 2**10
"""What the replaced entry does to the minimiser, 0 on the left and ¼ on the right, in steps of its grid."""
Kind: TypeAlias = type[HonestLearner] | type[HalfSensitivityLearner]


def released(kind: Kind) -> Callable[[tuple[float, ...]], bool]:
    """Whether the model is where it is on the right without noise, or beyond."""
    return lambda labels: kind(PROBLEM, ONES, np.array(labels), EPSILON).release()[0] >= (MOVED - 4) * 2.0**-12


def event_of(kind: Kind) -> tuple[float, float]:
    return 0.49, laplace_upper(kind(PROBLEM, ONES, LEFT, EPSILON).method.scale, MOVED - 6)


def found_of(kind: Kind) -> float:
    return lower_bound(released(kind), tuple(LEFT), tuple(RIGHT), SAMPLES, CONFIDENCE)


def test_half_of_the_sensitivity_is_caught() -> None:
    assert (1 - catch_rate(*event_of(HalfSensitivityLearner), SAMPLES // 2, EPSILON)) ** ATTEMPTS < MISS
    assert any(found_of(HalfSensitivityLearner) > EPSILON for _ in range(ATTEMPTS))


def test_all_of_it_is_not() -> None:
    """And the audit sees a part of what an honest learner loses."""
    assert catch_rate(*event_of(HonestLearner), SAMPLES // 2, 0.2 * EPSILON) > 1 - MISS
    assert 0.2 * EPSILON < found_of(HonestLearner) <= EPSILON
