"""The marginals box: what it answers, within what is proven, and where its rows come from."""

from __future__ import annotations

import importlib.util
import math
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest

import treering as tr
from support.databases import TestDatabase
from support.goodness import fits
from treering.boxes import marginals as marginals_fit
from treering.boxes.marginals import Joint, MarginalsBox, MarginalsRelease, Mixture, NoisyMarginal, fit
from treering.boxes.replay import RecordedGate
from treering.budget.cost import FREE
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.gate import HistogramReleased

SCHEMA = Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "planet": tr.categories("Earth"),
        "month": tr.integers(1, 6),
        "late": tr.categories("no", "yes"),
    }
)
SHAPE = (3, 6, 2)
SIZE = 50_000
BUDGET = Budget("zcdp", Fraction(1, 200))
BETA = 0.05


def truth(seed: int = 0) -> npt.NDArray[np.int64]:
    """Counts of all cells, the attributes dependent."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(SIZE, generator.dirichlet(np.full(36, 0.4))).reshape(SHAPE)


def release_of(noise: Any, ways: int = 2, seed: int = 0) -> MarginalsRelease:
    """The release of a run on `truth` whose noise is known: ``noise(shape, scale)`` for each marginal."""
    box = MarginalsBox(ways).bind(SCHEMA)
    events = []
    for attributes, law in zip(box.plan.sets, box.plan.noises(BUDGET), strict=True):
        axes = [(0, 2, 3).index(position) for position in attributes]
        counts = truth(seed).sum(axis=tuple({0, 1, 2} - set(axes)))
        noisy = counts + noise(counts.shape, law.scale)
        events.append(HistogramReleased(SIZE, FREE, attributes, law, noisy))
    gate = RecordedGate(SCHEMA, SIZE, BUDGET, events)
    return box.run(gate, BUDGET, box.alpha(SIZE, BUDGET, BETA), BETA)


def usual(seed: int) -> Any:
    generator = np.random.default_rng(seed)
    return lambda shape, scale: np.rint(generator.normal(0, scale, shape)).astype(np.int64)


def none(shape: tuple[int, ...], _: float) -> npt.NDArray[np.int64]:
    return np.zeros(shape, dtype=np.int64)


def two_way_cells() -> list[Query]:
    """Every cell of every marginal of two attributes."""
    return [
        Query.where(SCHEMA, **{first: one, second: two})
        for first, second in (("origin", "month"), ("origin", "late"), ("month", "late"))
        for one in _values(first)
        for two in _values(second)
    ]


def _values(name: str) -> list[Any]:
    attribute = SCHEMA.attributes[name]
    return [attribute.value(code) for code in range(attribute.size)]


def true_share(query: Query, seed: int = 0) -> float:
    spread = [SHAPE[axis] if position in query.attributes else 1 for axis, position in enumerate((0, 2, 3))]
    return float((truth(seed) * query.weights().reshape(spread)).sum() / query.scale / SIZE)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_without_noise_the_answers_are_the_truth() -> None:
    queries = two_way_cells()
    shares, errors = release_of(none).shares(queries)
    assert np.allclose(shares, [true_share(query) for query in queries], atol=1e-3)
    assert (errors > 0.001).all()


def test_the_fit_is_nearer_to_the_truth_than_the_noise() -> None:
    """Known noise, so the outcome is known as well: a quarter of the squared error is gone."""
    queries = two_way_cells()
    squares, noise = 0.0, 0.0
    for seed in range(5):
        box = MarginalsBox(2).bind(SCHEMA)
        release = release_of(usual(seed), seed=seed)
        shares, _ = release.shares(queries)
        squares += float(((shares - [true_share(query, seed) for query in queries]) ** 2).sum())
        for law, cells in zip(box.plan.noises(BUDGET), box.plan.sizes, strict=True):
            noise += cells * (law.scale / SIZE) ** 2
    assert squares < 0.75 * noise


def test_errors_are_true_and_at_most_alpha() -> None:
    box, queries = MarginalsBox(2).bind(SCHEMA), two_way_cells()
    alpha = box.alpha(SIZE, BUDGET, BETA)
    for seed in range(5):
        shares, errors = release_of(usual(seed), seed=seed).shares(queries)
        assert (np.abs(shares - [true_share(query, seed) for query in queries]) <= errors).all()
        assert (errors <= alpha).all()
        assert errors.min() < alpha / 2


def test_answers_agree_with_each_other() -> None:
    """Different marginals are noisy in different ways; the fit makes one distribution of them."""
    release = release_of(usual(3))
    both = [f"origin = 'JFK' AND month = {month}" for month in range(1, 7)]
    alone = release.ask("origin = 'JFK'").value
    late = sum(release.ask(f"origin = 'JFK' AND late = '{late}'").value for late in ("no", "yes"))
    assert sum(answer.value for answer in release.ask_many(both)) == pytest.approx(alone, abs=1e-9)
    assert late == pytest.approx(alone, abs=1e-9)
    assert release.ask("month <= 2").value + release.ask("month > 2").value == pytest.approx(1, abs=1e-9)


def test_constant_queries_are_known() -> None:
    release = release_of(usual(0))
    half = Query.weighted(SCHEMA, np.full(36, 0.5))
    shares, errors = release.shares([Query.all(SCHEMA), Query.none(SCHEMA), half])
    assert shares.tolist() == [1, 0, 0.5]
    assert errors.tolist() == [0, 0, 0]


def test_a_weighted_query_pays_for_the_spread_of_its_weights_only() -> None:
    release = release_of(usual(0))
    table = np.random.default_rng(1).random((3, 2))
    wide = Query.weighted(SCHEMA, table, attributes=["origin", "late"])
    narrow = Query.weighted(SCHEMA, 0.9 + table / 10, attributes=["origin", "late"])
    shares, errors = release.shares([wide, narrow])
    assert shares[1] == pytest.approx(0.9 + shares[0] / 10, abs=1e-4)
    assert errors[1] < 0.11 * errors[0]


def test_fewer_attributes_have_smaller_errors() -> None:
    release = release_of(usual(0))
    half = tr.parse("month <= 3", SCHEMA)
    other_half = Query.weighted(SCHEMA, [[1, 0]] * 3 + [[0, 1]] * 3, attributes=["month", "late"])
    one, two = release.shares([half, other_half])[1]
    assert one < two


def test_a_marginal_that_is_not_fitted_answers_itself() -> None:
    """The marginals contradict each other by far: no distribution is near to all of them."""

    def skewed(shape: tuple[int, ...], scale: float) -> npt.NDArray[np.int64]:
        counts = np.zeros(shape, dtype=np.int64)
        counts.flat[0] = 20 * round(scale) * (1 if shape == (3, 6) else -1)
        return counts

    release = release_of(skewed)
    box = MarginalsBox(2).bind(SCHEMA)
    scale = box.plan.noises(BUDGET)[0].scale
    query = Query.where(SCHEMA, origin="EWR", month=1)
    shares, errors = release.shares([query])
    # The noisy count, not the fitted one, in the middle of its interval.
    assert shares[0] == pytest.approx(true_share(query) + 20 * round(scale) / SIZE, abs=1e-12)
    bound = box.plan.bound(box.plan.noises(BUDGET)[0], 18, BETA)
    assert errors[0] * SIZE == pytest.approx(float(bound.radius(1)), rel=1e-9)


def test_intervals_that_are_impossible_leave_the_noisy_counts() -> None:
    """Noise beyond its bound: beta has happened. Nothing breaks, and no error is above alpha."""
    release = release_of(lambda shape, _: np.full(shape, -SIZE, dtype=np.int64))
    alpha = MarginalsBox(2).bind(SCHEMA).alpha(SIZE, BUDGET, BETA)
    shares, errors = release.shares(two_way_cells())
    assert np.isfinite(shares).all()
    assert ((errors > 0) & (errors <= alpha)).all()
    assert all(0 <= answer.value <= 1 for answer in release.ask_many(two_way_cells()))


def test_more_attributes_than_were_measured_are_refused() -> None:
    release = release_of(none)
    with pytest.raises(tr.QueryError, match="2 attributes at a time .* about 3: origin, month, late.* more ways"):
        release.ask("origin = 'JFK' AND month = 3 AND late = 'yes'")
    # Those of a single value do not count.
    release.ask("origin = 'JFK' AND month = 3 AND planet = 'Earth'")


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "law"), [("pure", "Laplace"), ("zcdp", "Gaussian")])
def test_every_marginal_is_one_histogram_of_the_kernel(kind: Any, law: str) -> None:
    db = TestDatabase(SCHEMA, np.repeat(np.arange(36), truth().reshape(-1)).tolist())
    box, budget = MarginalsBox(2).bind(SCHEMA), Budget(kind, Fraction(1, 3))
    gate = db.open_gate(budget)
    told: list[tuple[float, str]] = []
    box.run(gate, budget, 1.0, BETA, lambda done, doing: told.append((done, doing)))
    assert [type(event) for event in gate.history] == [HistogramReleased] * 3
    events = [event for event in gate.history if isinstance(event, HistogramReleased)]
    assert [event.attributes for event in events] == [(0, 2), (0, 3), (2, 3)]
    assert {type(event.noise).__name__ for event in events} == {law}
    assert 0.999 / 3 < gate.spent <= Fraction(1, 3)
    assert [doing for _, doing in told[:4]] == [
        "measuring origin, month",
        "measuring origin, late",
        "measuring month, late",
        "fitting a distribution",
    ]
    assert told[-1][0] <= 1


def test_the_setting_of_jax_is_left_alone() -> None:
    before = jax.numpy.zeros(1).dtype
    release_of(none)
    assert jax.numpy.zeros(1).dtype == before == np.float32


def test_a_missing_extra_is_named_before_anything_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    db = TestDatabase(SCHEMA, [0] * 10_000)
    with pytest.raises(tr.TreeringError, match=r"pip install 'treering\[marginals\]'"):
        MarginalsBox(2).release(db, epsilon=1.0)
    assert (db.touched, len(db.journal.events())) == (0, 0)


@pytest.mark.parametrize(
    ("attributes", "values", "ways", "message"),
    [
        (3, 2, 4, "ways must be at most 3, the number of attributes with more than one value"),
        (30, 2, 2, "ways = 2 means 435 marginals of 30 attributes, and at most 256 can be fitted: .*fewer attributes"),
        (3, 1000, 2, "ways = 2 means marginals of 3,000,000 cells together, and at most 1,048,576 .*coarser"),
        (60, 2, 30, "ways = 30 means 118,264,581,564,861,424 marginals"),
    ],
)
def test_what_is_too_large_is_refused(attributes: int, values: int, ways: int, message: str) -> None:
    schema = Schema({f"a{number}": tr.integers(1, values) for number in range(attributes)})
    with pytest.raises(tr.ParameterError, match=message):
        MarginalsBox(ways).bind(schema)


# -- rows --------------------------------------------------------------------------------------------------------------


def test_rows_come_from_the_generator_and_the_fit() -> None:
    release = release_of(usual(1))
    table = release.sample(20_000, np.random.default_rng(7))
    assert table.equals(release.sample(20_000, np.random.default_rng(7)))
    assert not table.equals(release.sample(20_000, np.random.default_rng(8)))
    assert release.sample(0, np.random.default_rng(0)).num_rows == 0
    with pytest.raises(tr.ParameterError, match="rows"):
        release.sample(-1, np.random.default_rng(0))
    pairs = [(origin, month) for origin in _values("origin") for month in _values("month")]
    shares = [release.ask(Query.where(SCHEMA, origin=origin, month=month)).value for origin, month in pairs]
    drawn = list(zip(table["origin"].to_pylist(), table["month"].to_pylist(), strict=True))
    # Answers within their intervals are the fit's own: almost all are.
    assert sum(abs(drawn.count(pair) / 20_000 - share) for pair, share in zip(pairs, shares, strict=True)) < 0.05


JOINT = Joint((0, 2, 3), truth() / SIZE)
MIXTURE = Mixture(
    (3, 1, 6, 2),
    {
        position: np.random.default_rng(position).dirichlet(np.ones(size), 7)
        for position, size in ((0, 3), (2, 6), (3, 2))
    },
)


@pytest.mark.parametrize("model", [JOINT, MIXTURE])
def test_a_model_draws_from_its_own_marginals(model: Joint | Mixture) -> None:
    """The generators are fixed: the outcome is known."""
    everything = model.marginal((0, 2, 3)).reshape(-1)
    held = everything > 0
    drawn = np.bincount(model.draw(100_000, np.random.default_rng(0)), minlength=36)
    assert (drawn[~held] == 0).all()
    assert fits(drawn[held], everything[held])
    assert not fits(drawn[held], np.roll(everything[held], 1))


@pytest.mark.parametrize("attributes", [(0,), (2,), (0, 3), (2, 3), (0, 2)])
@pytest.mark.parametrize("model", [JOINT, MIXTURE])
def test_marginals_add_up(model: Joint | Mixture, attributes: tuple[int, ...]) -> None:
    others = tuple(axis for axis, position in enumerate((0, 2, 3)) if position not in attributes)
    assert np.allclose(model.marginal(attributes), model.marginal((0, 2, 3)).sum(axis=others))
    assert model.marginal(attributes).sum() == pytest.approx(1)


def test_a_fit_that_is_no_number_is_the_uniform_distribution() -> None:
    sets = {(0, 2): 18, (0, 3): 6, (2, 3): 12}
    broken = [NoisyMarginal(attributes, np.full(cells, math.nan), 0.1) for attributes, cells in sets.items()]
    model = fit(SCHEMA.shape, broken, lambda _: None)
    assert np.allclose(model.marginal((0, 2, 3)), 1 / 36)


def test_large_universes_are_fitted_by_a_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals_fit, "JOINT_CELLS", 35)
    monkeypatch.setattr(marginals_fit, "COMPONENTS", 10)
    release, queries = release_of(usual(2)), two_way_cells()
    shares, errors = release.shares(queries)
    assert (np.abs(shares - [true_share(query) for query in queries]) <= errors).all()
    assert release.sample(100, np.random.default_rng(0)).num_rows == 100
    again = release_of(usual(2)).shares(queries)
    assert np.array_equal(shares, again[0])
    assert np.array_equal(errors, again[1])


def test_a_universe_that_nobody_could_write_down() -> None:
    """2^60 cells, by single attributes."""
    schema = Schema({f"a{number}": tr.integers(0, 2**10 - 1) for number in range(6)})
    db = TestDatabase(schema, [0] * 30_000 + [2**60 - 1] * 70_000)
    release = MarginalsBox(1).release(db, epsilon=1.0, beta=1e-9)
    for name in ("a0", "a5"):
        answer = release.ask(f"{name} = 1023")
        assert abs(answer.value - 0.7) <= answer.error < 0.1
    drawn = release.sample(1000, np.random.default_rng(0))
    assert 500 < drawn["a3"].to_pylist().count(1023) < 900
