"""The pieces of the minimisers, one by one: noise for each step, nets that are too fine, rows of integers, prices."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.kept_rows import Away
from support.learning import store
from treering.arrays import Ints
from treering.budget.minimising import largest_gradient
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import (
    FEATURE_UNIT,
    CellFeatures,
    Descent,
    Method,
    Minimise,
    Net,
    NoisyMoments,
    Perturbation,
    Problem,
    Refinement,
)
from treering.noise import Noise
from treering.trusted.cells import MAX_COUNT
from treering.trusted.learning import minimisers as module
from treering.trusted.learning.minimisers import candidates, choose, descend, gradient_sum, price, summed_losses
from treering.trusted.learning.points import Entries
from treering.trusted.rows.kept import Rows

SCHEMA = tr.Schema({"x": tr.integers(0, 1), "late": tr.categories("no", "yes")})
FEATURES = CellFeatures(SCHEMA, ["x"], [[1.0, 0.0], [0.0, 1.0]], tr.parse("late = 'yes'", SCHEMA))
HINGE = Problem(HuberHinge(), 2)


def some(rows: int, loss: Any = None) -> Entries:
    generator = np.random.default_rng(5)
    features = generator.uniform(-0.6, 0.6, (rows, 2))
    labels = np.where(generator.random(rows) < 0.5, -1.0, 1.0)
    return store(features, labels, loss or HuberHinge()).entries()


# -- descent -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "counts"), [(1, [2] * 5), (2, [2] * 5), (4, [4, 4, 2]), (5, [4, 4, 2]), (100, [10])])
def test_every_step_has_noise_of_its_own(ahead: int, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn for as many steps at once as are wanted ahead, and never for more steps than there are."""
    drawn: list[tuple[float, int, int]] = []

    def draw(noise: Noise, unit: int, number: int) -> Ints:
        before = sum(count for *_, count in drawn)
        drawn.append((noise.scale, unit, number))
        return np.arange(before, before + number, dtype=np.int64)

    monkeypatch.setattr(module, "draw", draw)
    monkeypatch.setattr(module, "_DRAWN", ahead)
    told: list[tuple[int, int]] = []
    method = Descent("averaged", 5, 3.0)
    found = [each.tolist() for each in module._noise(method, 7, 2, lambda *step: told.append(step))]
    assert found == [[2 * step, 2 * step + 1] for step in range(5)]
    assert [count for *_, count in drawn] == counts
    assert {each[:2] for each in drawn} == {(3.0, 7)}
    assert told == [(step, 5) for step in range(5)]
    assert len(list(module._noise(method, 7, 2, None))) == 5


def test_an_error_of_whoever_is_told_does_not_matter() -> None:
    def failing(*_: int) -> None:
        raise RuntimeError

    assert len(list(module._noise(Descent("averaged", 3, 1.0), 1, 2, failing))) == 3


@pytest.mark.parametrize("loss", [HuberHinge(), Distance()])
@pytest.mark.parametrize("start", [None, (0.3, -0.4)])
def test_a_step_goes_against_the_noisy_mean_gradient_and_the_regulariser(
    loss: Any, start: tuple[float, float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, size = Problem(loss, 2, 5.0, 0.25), 40
    method = Descent("averaged", 1, 1.0, step_size=0.5, start=start)
    entries = some(size, loss)
    unit = method.resolution * (FEATURE_UNIT if loss.linear else 1)
    monkeypatch.setattr(module, "draw", lambda *_: np.array([3 * unit, -unit], dtype=np.int64))
    begun = np.zeros(2) if start is None else np.array(start)
    gradient = gradient_sum(problem, method, entries, begun)[0] / unit
    mean = (gradient + np.array([3.0, -1.0])) / size + 0.25 * begun
    expected = (begun + (begun - method.length(1) * mean)) / 2
    assert descend(problem, method, entries) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("limit", [0, 10**6])
def test_entries_by_column_are_the_same_entries(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COPIED", limit)
    entries = some(30)
    turned = module._by_column(entries)
    assert (turned is entries) == (limit == 0)
    assert np.array_equal(turned.grid, entries.grid)
    assert (turned.size, turned.weights, turned.labels.tolist()) == (30, None, entries.labels.tolist())
    weighted = entries.weighing(np.ones(30, dtype=np.int64))
    assert module._by_column(weighted) is weighted


def test_integer_gradients_are_cut_towards_zero_and_never_longer_than_stated() -> None:
    gradients = np.array([[0.6, 0.8], [-0.6, -0.8], [0.999, 0.0], [0.0, 0.0], [1.2, 0.0], [1.0, 1.0]])
    found = module._short(gradients, 11)
    assert found.tolist() == [[6, 8], [-6, -8], [9, 0], [0, 0], [0, 0], [0, 0]]
    assert module._short(np.array([[1.1, 0.0], [0.0, -1.1]]), 11).tolist() == [[11, 0], [0, -11]]


@pytest.mark.parametrize("loss", [HuberHinge(), Distance()])
def test_gradients_of_weighted_entries_are_those_of_as_many_entries(loss: Any) -> None:
    entries, problem, method = some(30, loss), Problem(loss, 2), Descent("averaged", 1, 1.0)
    weights = np.arange(30) % 4
    repeated = Entries(
        np.repeat(entries.grid, weights, axis=0), np.repeat(entries.labels, weights), None, int(weights.sum()), None
    )
    theta = np.array([0.3, -0.2])
    one, other = (gradient_sum(problem, method, each, theta) for each in (entries.weighing(weights), repeated))
    assert (one[0].tolist(), one[1]) == (other[0].tolist(), other[1])
    assert one[1] == method.resolution * (FEATURE_UNIT if loss.linear else 1)
    assert np.abs(one[0]).max() <= weights.sum() * largest_gradient(problem, method) * FEATURE_UNIT


# -- nets --------------------------------------------------------------------------------------------------------------


def test_a_net_of_too_many_models_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, method = Problem(Distance(), 2, 0.7), Net(0.19, 1.0)
    number = len(candidates(problem, method))
    monkeypatch.setattr(module, "MOST_CANDIDATES", number)
    assert len(candidates.__wrapped__(problem, method)) == number
    monkeypatch.setattr(module, "MOST_CANDIDATES", number - 1)
    with pytest.raises(tr.ParameterError, match=f"pitch is too fine: {number:,} candidates, at most {number - 1:,}"):
        candidates.__wrapped__(problem, method)


def test_a_model_is_chosen_by_its_summed_loss_at_the_scale_that_was_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, method, entries = Problem(HuberHinge(), 2, 1.0, 0.5), Net(0.5, 3.0), some(25)
    models, asked = candidates(problem, method), []

    def last(scores: list[int], scale: Any) -> int:
        asked.append((scores, scale))
        return len(scores) - 1

    monkeypatch.setattr(module, "exponential", last)
    assert choose(problem, method, entries).tolist() == models[-1].tolist()
    ((scores, scale),) = asked
    assert scale == 3 * method.resolution
    assert scores == [-loss for loss in summed_losses(problem, method, entries, models)]


def test_many_models_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, method, entries = Problem(HuberHinge(), 2, 1.0, 0.5), Net(0.25, 3.0), some(25)
    models = candidates(problem, method)
    whole = summed_losses(problem, method, entries, models)
    for columns, rows in ((1, 7), (7, 1), (len(models), 25)):
        monkeypatch.setattr(module, "_COLUMNS", columns)
        monkeypatch.setattr(module, "_ROWS", rows)
        assert summed_losses(problem, method, entries, models) == whole
    alone = [summed_losses(problem, method, entries, model[None])[0] for model in models]
    assert alone == whole


# -- prices ------------------------------------------------------------------------------------------------------------


def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_charged() -> None:
    """At most 2^48, in the units in which each method draws: of a pitch, of a gradient, of a product of features."""
    ridged, rows = Problem(Logistic(), 2, 1.0, 0.5), TestDatabase(SCHEMA, [0, 1, 2, 3] * 5).rows
    resolution = 2**10
    tight: list[tuple[Problem, Any, float]] = [
        (ridged, lambda scale: Perturbation("gaussian", scale, 2.0**-20, 3), 2.0**48),
        (
            HINGE,
            lambda scale: Descent("averaged", 1, scale, resolution=resolution),
            2.0**48 / resolution / FEATURE_UNIT,
        ),
        (Problem(Squared(), 2), NoisyMoments, 2.0**48 / FEATURE_UNIT**2),
        (
            Problem(Squared(), 2),
            lambda scale: NoisyMoments(1.0, refinement=Refinement(1, 1.0, scale, 1.0)),
            2.0**48 / FEATURE_UNIT**2 / 2,
        ),
    ]
    for problem, make, most in tight:
        price(Minimise(problem, make(most), FEATURES), rows)
        with pytest.raises(tr.ParameterError, match="scale times the weight scale must be at most"):
            price(Minimise(problem, make(most * (1 + 2.0**-50)), FEATURES), rows)


def test_the_price_is_that_of_the_rows_that_are_learnt_from() -> None:
    """Output perturbation is the cheaper the more rows there are; those that are held out are none of them."""
    rows = TestDatabase(SCHEMA, [0, 1, 2, 3] * 25).rows
    method: Method = Perturbation("laplace", 5.0, 2.0**-10, 3)
    request = Minimise(Problem(Logistic(), 2, 1.0, 0.5), method, FEATURES)
    costs: dict[Any, Any] = {
        given: price(request, rows, *given).epsilon for given in ((), ((0, 100),), ((20, 80),), ((20, 80), 10))
    }
    assert costs[()] == costs[((0, 100),)] < costs[((20, 80),)] < costs[((20, 80), 10)]
    smaller = TestDatabase(SCHEMA, [0, 1] * 25).rows
    assert price(request, smaller).epsilon == costs[((20, 80), 10)]


def test_the_solver_starts_where_it_is_told() -> None:
    """Without a pass it would be there still; one pass of a flat loss leaves most of the way."""
    problem, entries = Problem(Logistic(), 2, 1.0, 0.05), some(50, Logistic())
    starts = [
        module.solve(problem, Perturbation("gaussian", 1.0, 2.0**-30, 1, start=start), entries)
        for start in (None, (0.6, 0.6))
    ]
    assert not np.allclose(starts[0], starts[1], atol=1e-6)


@pytest.mark.parametrize("radius", [2.0, 3.0])
def test_steep_losses_leave_room_for_fewer_entries(radius: float) -> None:
    """Squared loss has slopes of up to the radius plus 1: sums of gradients and of losses grow with it."""
    problem = Problem(Squared(), 2, radius)
    steep = Fraction(problem.lipschitz)
    assert steep == pytest.approx(radius + 1)
    tight: list[tuple[Method, Fraction]] = [
        (Descent("averaged", 1, 1e3, resolution=2**20), steep * FEATURE_UNIT * 2**20),
        (Net(radius, 1e6, resolution=2**30), (steep * Fraction(radius) + 1) * 2**30),
    ]
    for method, each in tight:
        request, first_refused = Minimise(problem, method, FEATURES), math.ceil(MAX_COUNT / each)
        price(request, many(first_refused - 1))
        with pytest.raises(tr.ParameterError, match="resolution times the size is too large for 64-bit sums"):
            price(request, many(first_refused))


def many(size: int) -> Rows:
    """So many rows, all in one cell."""
    rows = Rows(SCHEMA)
    rows.add_elsewhere(Away(np.array([3]), np.array([size])), size)
    return rows


@pytest.mark.parametrize(
    ("radius", "single", "double"), [(1.0, 2**20, 2**21), (8.0, 2**18, 2**19), (64.0, 2**15, 2**16), (65.0, None, 1)]
)
def test_slopes_are_of_single_precision_where_that_is_off_by_a_quarter_of_a_unit_at_most(
    radius: float, single: int | None, double: int
) -> None:
    """For logistic loss 2^-22·(L + radius/4) units of 1, L at most 1; and e^radius is a number up to 64."""
    problem = Problem(Logistic(), 2, radius)
    if single is not None:
        assert module._precision(problem, Descent("averaged", 1, 1.0, resolution=single)) is np.float32
    assert module._precision(problem, Descent("averaged", 1, 1.0, resolution=double)) is np.float64
