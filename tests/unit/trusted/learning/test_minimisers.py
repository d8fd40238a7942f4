"""Minimisers: sensitivities hold on adversarial neighbours and are attained; the solver keeps its distance on every
data set; the price comes first, and nothing depends on data but through noise."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.learning import PURE, RICH, gate, sample, store
from treering.arrays import Floats
from treering.budget.minimising import (
    gradient_sensitivity,
    largest_gradient,
    loss_sensitivity,
    perturbation_sensitivity,
    solver_distance,
)
from treering.budget.promise import Budget
from treering.domain.loss import Distance, HuberHinge, Logistic, Loss, Squared
from treering.domain.problem import (
    FEATURE_UNIT,
    MOST_DIMENSIONS,
    CellFeatures,
    Descent,
    Method,
    Minimise,
    Net,
    Perturbation,
    Problem,
)
from treering.trusted.learning.minimisers import candidates, gradient_sum, solve, summed_losses
from treering.trusted.learning.points import Entries, Points, entries_of_cells
from treering.trusted.memory.points import GrowingPoints

LINEAR: list[Loss] = [Logistic(), HuberHinge(), HuberHinge(0.1), Squared()]
LOSSES: list[Loss] = [*LINEAR, Distance()]
SEEDS = st.integers(0, 2**32)


def neighbours(loss: Loss, seed: int, rows: int, dimension: int) -> tuple[Entries, Entries]:
    """Two data sets that differ in one entry; half of the time it moves from end to end of an axis."""
    generator = np.random.default_rng(seed)
    features, labels = sample(loss, generator, rows, dimension)
    other, marks = features.copy(), labels.copy()
    position = int(generator.integers(rows))
    new, label = sample(loss, generator, 1, dimension)
    other[position], marks[position] = new[0], -label[0]
    if generator.random() < 0.5:
        features[position], other[position] = np.eye(dimension)[0], -np.eye(dimension)[0]
        marks[position] = labels[position]
    return store(features, labels, loss).entries(), store(other, marks, loss).entries()


# -- sensitivity -------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, loss=st.sampled_from(LINEAR), radius=st.sampled_from([0.5, 1.0, 3.0]), d=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_minimiser_moves_no_more_than_stated(seed: int, loss: Loss, radius: float, d: int) -> None:
    problem = Problem(loss, d, radius, 0.2)
    left, right = neighbours(loss, seed, 12, d)
    for passes in (1, 3, 60):
        method = Perturbation("gaussian", 1.0, 2.0**-30, passes)
        moved = np.linalg.norm(solve(problem, method, left) - solve(problem, method, right))
        assert moved <= perturbation_sensitivity(problem, method, 12)


@given(seed=SEEDS, loss=st.sampled_from(LOSSES), radius=st.sampled_from([0.5, 1.0, 3.0]), d=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_integer_gradients_move_no_more_than_stated(seed: int, loss: Loss, radius: float, d: int) -> None:
    problem = Problem(loss, d, radius)
    method = Descent("averaged", 1, 1.0)
    left, right = neighbours(loss, seed, 12, d)
    theta = problem.project(np.random.default_rng(seed + 1).normal(size=d) * radius)
    (here, unit), (there, _) = (gradient_sum(problem, method, side, theta) for side in (left, right))
    assert sum(int(gap) ** 2 for gap in here - there) <= (gradient_sensitivity(problem, method) * unit) ** 2


@given(seed=SEEDS, loss=st.sampled_from(LOSSES), radius=st.sampled_from([0.5, 1.0, 3.0]), d=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_the_summed_losses_move_no_more_than_stated(seed: int, loss: Loss, radius: float, d: int) -> None:
    problem = Problem(loss, d, radius, 0.1)
    method = Net(radius / 3, 1.0)
    models = candidates(problem, method)
    left, right = (summed_losses(problem, method, side, models) for side in neighbours(loss, seed, 12, d))
    limit = loss_sensitivity(problem, method) * method.resolution
    assert max(abs(a - b) for a, b in zip(left, right, strict=True)) <= limit


def test_the_sensitivities_are_attained() -> None:
    """Half of the entries pull each way, in the straight part of the hinge: replacing one moves all that it can."""
    loss = HuberHinge()
    labels = np.array([1.0, -1.0] * 5)
    ones = np.ones((10, 1))
    left, right = store(ones, labels, loss).entries(), store(ones, np.append(labels[:-1], 1.0), loss).entries()
    problem, method = Problem(loss, 1, 1.0, 0.5), Perturbation("gaussian", 1.0, 2.0**-30, 300)
    moved = float(np.abs(solve(problem, method, left) - solve(problem, method, right))[0])
    assert moved == pytest.approx(perturbation_sensitivity(problem, method, 10), rel=1e-3)
    steps = Descent("averaged", 1, 1.0)
    (here, unit), (there, _) = (gradient_sum(problem, steps, side, np.zeros(1)) for side in (left, right))
    assert abs(int(here[0] - there[0])) / unit == pytest.approx(float(gradient_sensitivity(problem, steps)), rel=1e-3)
    net = Net(0.5, 1.0)
    models = candidates(problem, net)
    scores = (summed_losses(problem, net, side, models) for side in (left, right))
    most = max(abs(a - b) for a, b in zip(*scores, strict=True)) / net.resolution
    assert most == pytest.approx(float(loss_sensitivity(problem, net)), rel=1e-3)


# -- the solver --------------------------------------------------------------------------------------------------------

ADVERSARIAL: dict[str, tuple[list[list[float]], list[float]]] = {
    "one point": ([[1.0, 0.0]] * 9, [1.0] * 9),
    "nothing to see": ([[0.0, 0.0]] * 9, [1.0] * 9),
    "on an axis": ([[1.0, 0.0], [-1.0, 0.0]] * 5, [1.0, 1.0] * 5),
    "nearly flat": ([[1.0, 1e-4], [1.0, -1e-4]] * 5, [1.0, -1.0] * 5),
    "separable": ([[0.7, 0.7], [-0.7, -0.7]] * 5, [1.0, -1.0] * 5),
}


def far_enough(problem: Problem) -> Perturbation:
    """As many passes as bring the solver within 1e-6 of the minimiser."""
    passes = 1
    while solver_distance(problem, method := Perturbation("gaussian", 1.0, 2.0**-30, passes)) > 1e-6:
        passes *= 2
    return method


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("loss", LINEAR)
@pytest.mark.parametrize("regularisation", [0.05, 0.3])
def test_the_solver_is_as_near_as_it_says_on_every_data_set(name: str, loss: Loss, regularisation: float) -> None:
    features, labels = ADVERSARIAL[name]
    entries = store(np.array(features), np.array(labels), loss).entries()
    for radius, start in ((1.0, None), (3.0, None), (1.0, (0.0, -1.0))):
        problem = Problem(loss, 2, radius, regularisation)
        exact = solve(problem, far_enough(problem), entries)
        for passes in (1, 2, 5, 20):
            method = Perturbation("gaussian", 1.0, 2.0**-30, passes, start=start)
            assert np.linalg.norm(solve(problem, method, entries) - exact) <= solver_distance(problem, method) + 1e-6


@pytest.mark.parametrize("loss", LINEAR)
def test_the_solver_solves(loss: Loss) -> None:
    """First-order optimality over the ball, on points that the constraint does and does not hold back."""
    features, labels = sample(loss, np.random.default_rng(1), 300, 3)
    features[:, 0] = np.abs(features[:, 0]) * labels / 2
    entries = store(features, labels, loss).entries()
    held = entries.grid / FEATURE_UNIT
    for radius in (0.3, 3.0):
        problem = Problem(loss, 3, radius, 0.05)
        theta = solve(problem, far_enough(problem), entries)
        slope = problem.gradient(theta, held, entries.labels)
        assert np.linalg.norm(theta - problem.project(theta - slope)) < 1e-5
        assert (np.linalg.norm(theta) > radius - 1e-6) == (radius < 1)


# -- gradients and losses are what they are called ---------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_integer_gradients_are_gradients_rounded(loss: Loss) -> None:
    features, labels = sample(loss, np.random.default_rng(2), 5000, 3)
    entries = store(features, labels, loss).entries()
    problem, method = Problem(loss, 3), Descent("averaged", 1, 1.0)
    theta = np.array([0.5, -0.5, 0.1])
    exact, unit = gradient_sum(problem, method, entries, theta)
    expected = problem.gradient(theta, entries.grid / FEATURE_UNIT, entries.labels)
    assert np.abs(exact / unit / 5000 - expected).max() <= 2 / method.resolution
    assert largest_gradient(problem, method) <= problem.lipschitz * method.resolution


@pytest.mark.parametrize("radius", [1.0, 8.0, 200.0])
@pytest.mark.parametrize("resolution", [2**10, 2**16, 2**24])
@pytest.mark.parametrize("loss", LINEAR)
def test_slopes_are_off_by_no_more_than_the_bounds_allow_for(loss: Loss, resolution: int, radius: float) -> None:
    """1.01 units of rounding (`Steps.of`), also where they are computed in single precision."""
    features, labels = sample(loss, np.random.default_rng(8), 400, 2)
    problem, method = Problem(loss, 2, radius), Descent("averaged", 1, 1.0, resolution=resolution)
    theta = np.array([0.6, -0.8]) * radius
    for row, label in zip(features, labels, strict=True):
        entries = store(row[None], label[None], loss).entries()
        exact, unit = gradient_sum(problem, method, entries, theta)
        expected = problem.gradient(theta, entries.grid / FEATURE_UNIT, entries.labels)
        assert np.linalg.norm(exact / unit - expected) <= 1.01 / resolution


@pytest.mark.parametrize("loss", LOSSES)
def test_summed_losses_are_losses(loss: Loss) -> None:
    features, labels = sample(loss, np.random.default_rng(3), 700, 2)
    entries = store(features, labels, loss).entries()
    problem, method = Problem(loss, 2, 1.0, 0.3), Net(0.2, 1.0)
    models = candidates(problem, method)
    sums = np.array(summed_losses(problem, method, entries, models)) / method.resolution / 700
    held = entries.grid / FEATURE_UNIT
    risks = np.array([problem.risk(theta, held, entries.labels) for theta in models])
    assert np.abs((sums - sums[0]) - (risks - risks[0])).max() < 2 / method.resolution


def test_the_net_covers_the_ball() -> None:
    for dimension in (1, 2, 3):
        problem, method = Problem(Distance(), dimension, 0.7), Net(0.19, 1.0)
        models = candidates(problem, method)
        assert np.linalg.norm(models, axis=1).max() <= 0.7 * (1 + 1e-12)
        inside = np.random.default_rng(4).normal(size=(300, dimension))
        inside *= 0.7 / np.linalg.norm(inside, axis=1, keepdims=True)
        inside[:150] *= np.random.default_rng(5).random((150, 1))
        gaps = np.linalg.norm(inside[:, None] - models[None], axis=2).min(axis=1)
        assert gaps.max() <= 0.19 * math.sqrt(dimension) / 2 + 1e-12


# -- cells and points are the same thing -------------------------------------------------------------------------------

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 3), "late": tr.categories("n", "y")})
LATE = tr.parse("late = 'y'", SCHEMA)
VECTORS = np.random.default_rng(6).uniform(-0.5, 0.5, (6, 2))
FEATURES = CellFeatures(SCHEMA, ["origin", "month"], VECTORS, LATE)
CELLS = np.random.default_rng(7).integers(0, SCHEMA.cells, 500).tolist()


@pytest.mark.parametrize("loss", LINEAR)
def test_cells_weighted_by_counts_give_what_their_rows_would(loss: Loss) -> None:
    cells = entries_of_cells(TestDatabase(SCHEMA, CELLS).rows, FEATURES)
    rows = store(VECTORS[np.array(CELLS) // 2], FEATURES.labels[CELLS], loss).entries()
    problem = Problem(loss, 2, 1.0, 0.1)
    theta = np.array([0.3, -0.6])
    steps, net = Descent("averaged", 1, 1.0), Net(0.3, 1.0)
    assert (gradient_sum(problem, steps, cells, theta)[0] == gradient_sum(problem, steps, rows, theta)[0]).all()
    models = candidates(problem, net)
    assert summed_losses(problem, net, cells, models) == summed_losses(problem, net, rows, models)
    assert (cells.moments.square == rows.moments.square).all()
    assert (cells.moments.cross == rows.moments.cross).all()
    method = Perturbation("gaussian", 1.0, 2.0**-30, 50)
    assert solve(problem, method, cells) == pytest.approx(solve(problem, method, rows), abs=1e-12)


# -- through the kernel ------------------------------------------------------------------------------------------------


def descended(
    schedule: Literal["averaged", "strong", "accelerated"], steps: int, step_size: float, ridge: float = 0.0
) -> float:
    """The excess risk, on a long and narrow valley, of descent with noise that is next to nothing."""
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 100)
    features, best = signs * np.array([0.99, 0.1]), np.array([0.1, 0.7])
    kernel = gate(features, features @ best, Squared())
    method = Descent(schedule, steps, 2.0**-20, step_size, resolution=2**24)
    released = kernel.minimise(Minimise(Problem(Squared(), 2, 1.0, ridge), method))
    return float(np.mean((features @ (np.array(released.theta) - best)) ** 2)) / 2


def test_accelerated_descent_comes_down_with_the_square_of_its_steps() -> None:
    """Lan's bound, 4M·D²/(K(K+1)) at steps of 1/(4M), which plain averages are far above."""
    smoothness, far = Problem(Squared(), 2).smoothness, 0.1**2 + 0.7**2
    for steps in (60, 120, 240):
        bound = 4 * smoothness * far / (steps * (steps + 1))
        assert descended("accelerated", steps, 1 / (4 * smoothness)) <= bound
        assert descended("averaged", steps, 1 / smoothness) > bound


def test_every_schedule_comes_down() -> None:
    """From 0, where the excess risk is 0.0073: an ascent ends at the edge of the ball, far above that."""
    begun = ((0.99 * 0.1) ** 2 + (0.1 * 0.7) ** 2) / 2
    assert descended("averaged", 240, 1 / Problem(Squared(), 2).smoothness) < begun / 2
    assert descended("accelerated", 240, 1 / Problem(Squared(), 2).smoothness / 4) < begun / 2
    assert descended("strong", 240, 1.0, ridge=0.1) < begun / 2


def test_noise_for_more_numbers_than_are_drawn_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step's noise is then drawn by itself."""
    monkeypatch.setattr("treering.trusted.learning.minimisers._DRAWN", 1)
    assert descended("averaged", 240, 1 / Problem(Squared(), 2).smoothness) < 0.004


METHODS: dict[str, Method] = {
    "perturbation": Perturbation("laplace", 2.0, 2.0**-4, 3),
    "gaussian": Perturbation("gaussian", 2.0, 2.0**-4, 3),
    "descent": Descent("averaged", 3, 5.0),
    "strong": Descent("strong", 3, 5.0),
    "accelerated": Descent("accelerated", 3, 5.0, 0.1),
    "net": Net(0.5, 3.0),
}
RIDGED = Problem(Logistic(), 2, 1.0, 0.1)


@pytest.mark.parametrize("name", METHODS)
def test_a_model_in_the_ball_is_released_charged_and_written_down(name: str) -> None:
    db = TestDatabase(SCHEMA, CELLS)
    kernel = db.open_gate(RICH)
    released = kernel.minimise(Minimise(RIDGED, METHODS[name], FEATURES))
    assert math.hypot(*released.theta) <= 1 + 1e-12
    assert len(released.theta) == 2
    assert (released.size, released.method, released.problem) == (500, METHODS[name], RIDGED)
    assert kernel.spent == released.cost.rho > 0
    assert kernel.history == (released,)
    again = db.open_gate(RICH)
    assert again.spent == kernel.spent
    assert pickle.loads(pickle.dumps(released)) == released


@pytest.mark.parametrize("name", METHODS)
def test_a_refusal_touches_nothing(name: str) -> None:
    db = TestDatabase(SCHEMA, CELLS)
    poor = db.open_gate(Budget("zcdp", Fraction(1, 10**9)))
    with pytest.raises(tr.BudgetExceeded):
        poor.minimise(Minimise(RIDGED, METHODS[name], FEATURES))
    assert poor.spent == db.touched == len(poor.history) == 0


@pytest.mark.parametrize("name", ["gaussian", "descent", "strong", "accelerated"])
def test_gaussian_noise_needs_a_zcdp_budget(name: str) -> None:
    db = TestDatabase(SCHEMA, CELLS)
    pure = db.open_gate(PURE)
    with pytest.raises(tr.ParameterError, match="delta > 0"):
        pure.minimise(Minimise(RIDGED, METHODS[name], FEATURES))
    assert db.touched == 0


@pytest.mark.parametrize(
    ("request_", "match"),
    [
        (Minimise(RIDGED, Net(0.5, 3.0)), "CellFeatures"),
        (Minimise(Problem(Distance(), 2), Net(0.5, 3.0), FEATURES), "takes no labels"),
        (Minimise(Problem(Logistic(), 2), METHODS["perturbation"], FEATURES), "strongly convex"),
        (Minimise(RIDGED, Net(0.002, 3.0), FEATURES), "too fine"),
        (Minimise(RIDGED, Descent("averaged", 1, 2.0**40), FEATURES), "2\\^48"),
    ],
)
def test_what_cannot_be_is_refused_before_the_charge(request_: Minimise, match: str) -> None:
    db = TestDatabase(SCHEMA, CELLS)
    kernel = db.open_gate(RICH)
    with pytest.raises(tr.ParameterError, match=match):
        kernel.minimise(request_)
    assert kernel.spent == db.touched == 0


class Gentle(Logistic):
    """States what it likes of itself."""


class Cheaper(Problem):
    """The same."""


class Sharper(Net):
    """The same."""


class Shorter(CellFeatures):
    """The same."""


class Asking(Minimise):
    """The same."""


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Asking(RIDGED, METHODS["net"], FEATURES), "request must be a Minimise, not a Asking"),
        (
            Minimise(Cheaper(Logistic(), 2), METHODS["net"], FEATURES),
            "problem must be a Problem, and no subclass, not a Cheaper",
        ),
        (
            Minimise(RIDGED, Sharper(0.5, 3.0), FEATURES),
            "method must be a Perturbation or Descent or Net or NoisyMoments, and no subclass, not a Sharper",
        ),
        (
            Minimise(Problem(Gentle(), 2), METHODS["net"], FEATURES),
            "loss must be a Logistic or RobustLogistic or HuberHinge or Squared or Distance or HuberDistance, and no "
            "subclass, not a Gentle",
        ),
        (
            Minimise(RIDGED, METHODS["net"], Shorter(SCHEMA, ["origin", "month"], VECTORS, LATE)),
            "features must be a CellFeatures, and no subclass, not a Shorter",
        ),
    ],
)
def test_what_could_state_constants_of_its_own_is_refused_by_name(request_: Minimise, message: str) -> None:
    db = TestDatabase(SCHEMA, CELLS)
    kernel = db.open_gate(RICH)
    with pytest.raises(tr.ParameterError) as caught:
        kernel.minimise(request_)
    assert str(caught.value) == message
    assert kernel.spent == db.touched == 0


def test_features_of_another_schema_are_refused() -> None:
    other = tr.Schema({**SCHEMA.attributes, "month": tr.integers(2, 4)})
    moved = CellFeatures(other, ["origin", "month"], VECTORS, tr.parse("late = 'y'", other))
    db = TestDatabase(SCHEMA, CELLS)
    kernel = db.open_gate(RICH)
    with pytest.raises(tr.QueryError, match="the features are about another schema than this database"):
        kernel.minimise(Minimise(RIDGED, METHODS["net"], moved))
    assert kernel.spent == db.touched == 0


def test_points_have_features_of_their_own() -> None:
    kernel = gate(np.ones((5, 2)) / 2, np.ones(5), Logistic())
    with pytest.raises(tr.ParameterError, match="of their own"):
        kernel.minimise(Minimise(RIDGED, METHODS["net"], FEATURES))
    with pytest.raises(tr.ParameterError, match="dimension must be that of the points, 2"):
        kernel.minimise(Minimise(Problem(Logistic(), 3), Net(0.5, 1.0)))


def test_an_empty_collection_is_refused() -> None:
    with pytest.raises(tr.GuaranteeError, match="no entries"):
        GrowingPoints(2, "signs").open_gate(RICH).minimise(Minimise(RIDGED, METHODS["net"]))


# -- points ------------------------------------------------------------------------------------------------------------


def test_points_are_sealed_and_grow() -> None:
    points = GrowingPoints(2, "signs")
    grown: list[int] = []

    class Watcher:
        def grow(self) -> None:
            grown.append(points.size)

    watcher = Watcher()
    points.watch(watcher.grow)
    for rows in (1, 2000, 3):
        points.append(np.full((rows, 2), 0.25), np.ones(rows))
    assert grown == [1, 2001, 2004]
    assert points.schema.cells == 1
    assert repr(points) == "GrowingPoints(2,004 points; 2 features)"
    assert repr(points._points) == "<Points>"
    for secret in (points, points._points, points._points.entries(), points._points.entries().moments):
        with pytest.raises(TypeError, match="private"):
            pickle.dumps(secret)


@pytest.mark.parametrize(
    ("dimension", "labels", "match"),
    [
        (0, "signs", "dimension"),
        (MOST_DIMENSIONS + 1, "signs", f"dimension must be at most {MOST_DIMENSIONS:,}"),
        (2, "sign", "labels must be 'signs', 'numbers' or 'none', not 'sign'"),
        (2, None, "labels must be"),
    ],
)
def test_what_points_cannot_be(dimension: int, labels: Any, match: str) -> None:
    for make in (Points, GrowingPoints):
        with pytest.raises(tr.ParameterError, match=match):
            make(dimension, labels)


def test_moments_are_maintained_exactly() -> None:
    generator = np.random.default_rng(8)
    points = Points(3, "numbers")
    for rows in (1, 5, 3000):
        points.add_points(generator.normal(size=(rows, 3)), generator.uniform(-1, 1, rows))
    entries = points.entries()
    grid = entries.grid.astype(object)
    labels = (entries.labels * FEATURE_UNIT).astype(int).astype(object)
    assert entries.moments.square.tolist() == (grid.T @ grid).tolist()
    assert entries.moments.cross.tolist() == (labels @ grid).tolist()


@pytest.mark.parametrize(
    ("kind", "features", "labels", "row"),
    [
        ("signs", [[0.1, 0.2], [math.nan, 0.0]], [1, 1], 1),
        ("signs", [[0.1, 0.2], [math.inf, 0.0]], [1, 1], 1),
        ("signs", [[0.1, 0.2], [0.7, 0.0]], [1, 0], 1),
        ("numbers", [[0.1, 0.2], [0.7, 0.0]], [1.5, 0], 0),
        ("numbers", [[0.1, 0.2], [0.7, 0.0]], [0, math.nan], 1),
        ("signs", [[0.1], [0.7]], [1, 1], None),
        ("signs", [[0.1, 0.2]], [1, 1], None),
        ("none", [[0.1, 0.2]], [1], None),
        ("signs", [["a", "b"]], [1], None),
    ],
)
def test_bad_points_are_refused_by_position_and_whole(
    kind: str, features: list[list[float]], labels: list[float], row: int | None
) -> None:
    points = GrowingPoints(2, "signs" if kind == "signs" else "numbers" if kind == "numbers" else "none")
    with pytest.raises(tr.DataError) as caught:
        points.append(features, labels)
    assert caught.value.row == row
    assert "0.7" not in str(caught.value)
    assert points.size == 0


def test_a_long_row_is_scaled_down_whatever_its_length() -> None:
    points = GrowingPoints(2, "none")
    points.append([[3.0, 4.0], [1e308, 1e308], [0.0, 0.0]])
    grid: Floats = points._points.entries().grid / FEATURE_UNIT
    assert grid == pytest.approx(np.array([[0.6, 0.8], [math.sqrt(0.5)] * 2, [0, 0]]), abs=1e-4)
