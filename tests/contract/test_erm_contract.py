"""Every ERM box under the suite that all boxes inherit: excess risk in place of shares."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import treering as tr
from support.box_contract import BoxContract
from support.databases import TestDatabase
from support.mechanism_contract import SCHEMA
from treering.arrays import Floats
from treering.boxes.base import Release
from treering.boxes.erm import ERM, Model
from treering.budget.promise import Budget, BudgetKind
from treering.domain.loss import Distance, HuberHinge, Logistic, Loss, Squared
from treering.domain.problem import FEATURE_UNIT, CellFeatures, Problem
from treering.domain.query import Query

NAN = float("nan")


def _features(names: list[str], dimension: int, *, labelled: bool) -> CellFeatures:
    """Public vectors for the joint values of some attributes: fixed, in the unit ball, some on its surface."""
    joint = int(np.prod([SCHEMA.shape[position] for position in SCHEMA.positions(names)]))
    vectors = np.random.default_rng(7).normal(size=(joint, dimension))
    vectors /= np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True))
    return CellFeatures(SCHEMA, names, vectors, tr.parse("late = 'yes'", SCHEMA) if labelled else None)


def least(problem: Problem, features: CellFeatures, weights: Floats) -> float:
    """The least risk in the ball, from above: projected descent, accelerated, or steps that fall for a kink."""
    vectors, labels = features.grid / FEATURE_UNIT, features.labels
    theta, best = np.zeros(problem.dimension), np.inf
    smooth = np.isfinite(problem.smoothness)
    for step in range(400 if smooth else 1000):
        best = min(best, problem.risk(theta, vectors, labels, weights))
        rate = 1 / problem.smoothness if smooth else 0.5 / np.sqrt(step + 1)
        theta = problem.project(theta - rate * problem.gradient(theta, vectors, labels, weights))
    return best


class _ErmContract(BoxContract):
    """The truth is found by descent on the counts, which is from above: measured excess risk is from below by its
    error, some 1e-4, far less than what is stated."""

    loss: ClassVar[Loss]
    dimension: ClassVar[int] = 2
    options: ClassVar[dict[str, Any]] = {}
    queries = ()
    outside: ClassVar[Query | None] = None
    synthetic = False
    repetitions = 25
    _least: ClassVar[dict[tuple[str, int], float]] = {}

    @property
    def features(self) -> CellFeatures:
        return _features(["origin", "month"], self.dimension, labelled=self.loss.labels != "none")

    def make(self, **options: Any) -> ERM:
        given = {"loss": self.loss, "features": self.features, **self.options, **options}
        return ERM(given.pop("loss"), **given)

    def gaps(self, db: TestDatabase, release: Release) -> tuple[Floats, Floats]:
        assert isinstance(release, Model)
        features = self.features
        weights = db.rows.cells.marginal(features.joint).reshape(-1).astype(np.float64)
        key = (type(self).__name__, hash(weights.tobytes()))
        if key not in self._least:
            self._least[key] = least(release.problem, features, weights)
        risk = release.problem.risk(np.array(release.theta), features.grid / FEATURE_UNIT, features.labels, weights)
        return np.array([risk - self._least[key]]), np.array([release.excess_risk])

    def same(self, one: Release, other: Release) -> bool:
        assert isinstance(one, Model)
        assert isinstance(other, Model)
        return (one.theta, one.excess_risk, one.size) == (other.theta, other.excess_risk, other.size)

    def test_a_batch_is_its_single_questions(self) -> None:
        """A model answers none."""
        release = self.run(self.database(), self.kinds[0])
        for question in ("late = 'yes'", "month = 3"):
            with pytest.raises(tr.QueryError, match="a model answers no queries"):
                release.ask(question)

    def test_it_refuses_what_says_nothing(self) -> None:
        """No excess risk is above `worst`: releasing for such a guarantee is refused, for free."""
        db = TestDatabase(self.schema, [0, 1])
        with pytest.raises(tr.GuaranteeError, match="guarantees nothing"):
            self.make().release(db, epsilon=0.01, delta=1e-9)
        assert (db.touched, len(db.journal.events())) == (0, 0)

    bad_parameters = (
        ({"dimension": 5}, "dimension"),
        ({"dimension": 0}, "dimension"),
        *(({"radius": bad}, "radius") for bad in (0, -1, NAN, "1", 1000)),
        *(({"regularisation": bad}, "regularisation") for bad in (-1, NAN, "1")),
        *(({"passes": bad}, "passes") for bad in (0, -1, 1.5, True)),
        *(({"method": bad}, "method") for bad in ("best", None, 3)),
        *(({"features": bad}, "features") for bad in (17, "origin")),
        *(({"loss": bad}, "loss") for bad in (None, "logistic", 17)),
    )


class TestPerturbation(_ErmContract):
    """Laplace noise under a pure budget, Gaussian under a zCDP one."""

    loss: ClassVar[Loss] = Logistic()
    options: ClassVar[dict[str, Any]] = {"method": "perturbation", "regularisation": 0.05}
    sizes = (1_000, 10_000, 100_000)

    def budget(self, kind: BudgetKind) -> Budget:
        return Budget(kind, Fraction(2) if kind == "pure" else Fraction(1, 2))


class TestPerturbationOfSquares(TestPerturbation):
    loss = Squared()
    options: ClassVar[dict[str, Any]] = {"method": "perturbation"}
    population = 60_000


class TestDescent(_ErmContract):
    loss = HuberHinge()
    kinds = ("zcdp",)
    dimension = 5
    options: ClassVar[dict[str, Any]] = {"method": "descent"}
    bad_parameters = tuple(each for each in _ErmContract.bad_parameters if each[0] != {"dimension": 5})


class TestDescentWithoutSmoothness(_ErmContract):
    loss = Distance()
    kinds = ("zcdp",)
    options: ClassVar[dict[str, Any]] = {"method": "descent"}


class TestStrongDescent(_ErmContract):
    loss = Logistic()
    kinds = ("zcdp",)
    options: ClassVar[dict[str, Any]] = {"method": "descent", "regularisation": 0.5}


class TestNet(_ErmContract):
    loss = Distance()
    options: ClassVar[dict[str, Any]] = {"method": "net"}

    def test_two_runs_differ(self) -> None:
        """A net is finite, and two runs may well agree; with a small budget thirty do not (odds below 1e-9)."""
        box, budget = self.bound(), Budget("pure", Fraction(1, 100))
        runs = [box.run(self.database().open_gate(budget), budget, 1.0, 0.5) for _ in range(30)]
        assert not all(self.same(runs[0], run) for run in runs[1:])


class TestAuto(_ErmContract):
    """The best at each size and budget."""

    loss = Logistic()
    dimension = 5
    bad_parameters = TestDescent.bad_parameters
    sizes = (1_000, 10_000, 100_000)
