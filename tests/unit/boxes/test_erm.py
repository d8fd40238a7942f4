from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.learning import points, sample
from treering.boxes.erm import ERM, Model
from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget
from treering.domain.loss import Distance, HuberHinge, Logistic, Loss, Squared
from treering.domain.problem import CellFeatures, Descent, Net, Perturbation
from treering.gate import Minimised

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
VECTORS = [[1.0, 0.0], [0.0, 1.0], [-0.6, 0.6]]
FEATURES = CellFeatures(SCHEMA, ["origin"], VECTORS, tr.parse("late = 'yes'", SCHEMA))
RHO = Budget("zcdp", Fraction(1, 2))
PURE = Budget("pure", Fraction(1))


def _points(loss: Loss, dimension: int = 2, rows: int = 20_000) -> Any:
    features, labels = sample(loss, np.random.default_rng(3), rows, dimension)
    return points(features, labels, loss)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Squared(), Distance()])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_it_learns_from_points(loss: Loss, delta: float) -> None:
    features, labels = sample(loss, np.random.default_rng(3), 20_000, 2)
    db = points(features, labels, loss)
    model = ERM(loss, 2).release(db, 1.0, delta, 1e-9)
    assert isinstance(model, Model)
    assert (model.size, model.problem.dimension) == (20_000, 2)
    risk = model.problem.risk(np.array(model.theta), features, labels)
    grid = [model.problem.project(np.array([x, y])) for x in np.linspace(-1, 1, 15) for y in np.linspace(-1, 1, 15)]
    best = min(model.problem.risk(theta, features, labels) for theta in grid)
    assert risk <= best + model.excess_risk
    assert 0 < model.excess_risk < model.aged(30_000) < ERM(loss, 2).worst


@pytest.mark.parametrize("method", ["perturbation", "descent", "net"])
def test_the_method_is_the_one_asked_for(method: Any) -> None:
    kinds = {"perturbation": Perturbation, "descent": Descent, "net": Net}
    model = ERM(Logistic(), 2, method=method).release(_points(Logistic()), 1.0, 1e-9, 1e-9)
    assert isinstance(model, Model)
    assert isinstance(model.method, kinds[method])


def test_auto_takes_the_least_alpha() -> None:
    db = _points(Logistic())
    boxes = [ERM(Logistic(), 2, method=method).bind(db.schema) for method in ("perturbation", "descent", "net")]
    auto = ERM(Logistic(), 2).bind(db.schema)
    for size in (10, 1_000, 10**6):
        assert auto.alpha(size, RHO, 0.05) == min(box.alpha(size, RHO, 0.05) for box in boxes)
        assert auto.alpha(size, PURE, 0.05) == min(boxes[0].alpha(size, PURE, 0.05), boxes[2].alpha(size, PURE, 0.05))


def test_the_kind_is_pure_where_some_method_is() -> None:
    assert ERM(Logistic(), 50).kind == "pure"
    assert ERM(Distance(), 3).kind == "pure"
    assert ERM(Distance(), 4).kind == "zcdp"
    assert ERM(Logistic(), 2, method="descent").kind == "zcdp"
    with pytest.raises(tr.ParameterError, match="zCDP"):
        ERM(Distance(), 4).release(_points(Distance(), 4), 1.0)


def test_a_net_over_points_is_as_fine_as_the_passes_allow() -> None:
    """Over cells, where a pass is short, it is fine anyway."""
    schema = _points(Distance()).schema
    coarse, fine = (ERM(Distance(), 2, method="net", passes=passes).bind(schema) for passes in (64, 4096))
    cells = ERM(Distance(), features=CellFeatures(SCHEMA, ["origin"], VECTORS), method="net", passes=64).bind(SCHEMA)
    assert coarse.alpha(10**9, PURE, 0.05) > 3 * fine.alpha(10**9, PURE, 0.05)
    assert cells.alpha(10**9, PURE, 0.05) == fine.alpha(10**9, PURE, 0.05)


def test_worst_is_lipschitz_times_diameter_or_the_range_of_the_loss() -> None:
    """No two models of the ball are further apart, and some are as far: on an entry at the end of an axis."""
    box = ERM(Distance(), 2, radius=3.0, regularisation=0.5)
    assert box.worst == box.staleness == pytest.approx(3 - (3 - 2) + 0.5 * 3**2 / 2)
    assert ERM(Distance(), 2, radius=0.5).worst == pytest.approx(1)
    assert ERM(Squared(), 2, radius=0.25).worst == pytest.approx(0.25**2 / 2 + 0.25 - (0.25**2 / 2 - 0.25))
    logistic = ERM(Logistic(), 2, radius=3.0)
    ends = [logistic.problem.risk(np.array([end, 0.0]), np.array([[1.0, 0.0]]), np.ones(1)) for end in (-3.0, 3.0)]
    assert logistic.worst == pytest.approx(3) == ends[0] - ends[1]


def test_a_solver_starts_from_the_last_released_model() -> None:
    """And a replay, which has no earlier events, gives the same model to the last bit."""
    db = _points(Logistic())
    box = ERM(Logistic(), 2, method="perturbation").bind(db.schema)
    gate = db.open_gate(Budget("zcdp", Fraction(1)))
    first = box.run(gate, RHO, 1.0, 0.05)
    second = box.run(gate, RHO, 1.0, 0.05)
    assert isinstance(first.method, Perturbation)
    assert isinstance(second.method, Perturbation)
    assert (first.method.start, second.method.start) == (None, first.theta)
    last = gate.history[-1]
    assert isinstance(last, Minimised)
    again = box.run(RecordedGate(db.schema, db.size, RHO, [last]), RHO, 1.0, 0.05)
    assert (again.theta, again.excess_risk, again.method) == (second.theta, second.excess_risk, second.method)


def test_a_record_of_another_problem_is_refused() -> None:
    db = _points(Logistic())
    gate = db.open_gate(RHO)
    ERM(Logistic(), 2).bind(db.schema).run(gate, RHO, 1.0, 0.05)
    other = ERM(Logistic(), 2, radius=2.0).bind(db.schema)
    with pytest.raises(tr.TreeringError, match="another problem"):
        other.run(RecordedGate(db.schema, db.size, RHO, gate.history), RHO, 1.0, 0.05)


def test_the_statement_is_never_above_what_any_model_has() -> None:
    db = _points(Logistic(), rows=10)
    box = ERM(Logistic(), 2).bind(db.schema)
    assert box.alpha(10, Budget("pure", Fraction(1, 1000)), 0.05) > box.worst
    model = box.run(db.open_gate(PURE), Budget("pure", Fraction(1, 1000)), 1.0, 0.05)
    assert model.excess_risk == box.worst


def test_predictions_and_words() -> None:
    model = ERM(Logistic(), 2).release(_points(Logistic()), 1.0, 1e-9)
    assert isinstance(model, Model)
    assert model.predictions(np.eye(2)).tolist() == pytest.approx(list(model.theta))
    assert "2 coefficients; 20,000 rows" in repr(model)
    with pytest.raises(tr.QueryError, match="a model answers no queries"):
        model.ask("entry = 'point'")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ERM(Logistic()), tr.ParameterError, "dimension must be given"),
        (lambda: ERM(Logistic(), 3, features=FEATURES), tr.ParameterError, "dimension must be that of the features"),
        (lambda: ERM(Distance(), features=FEATURES), tr.ParameterError, "no labels"),
        (lambda: ERM(Logistic(), 10, method="net"), tr.ParameterError, "at most 3"),
        (lambda: ERM(Distance(), 2, method="perturbation"), tr.ParameterError, "not smooth"),
        (lambda: ERM(Logistic(), 2).bind(SCHEMA), tr.ParameterError, "CellFeatures"),
        (
            lambda: ERM(Logistic(), features=FEATURES).bind(tr.Schema({"a": tr.categories("x", "y")})),
            tr.SchemaError,
            "another schema",
        ),
        (lambda: ERM(Squared(), 2).release(_points(Distance()), 1.0), tr.ParameterError, "loss"),
        (lambda: ERM(Logistic(), 3).release(_points(Logistic()), 1.0), tr.ParameterError, "dimension"),
    ],
)
def test_bad_input_is_refused_by_name(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()
