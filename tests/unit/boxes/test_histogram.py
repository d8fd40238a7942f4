from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.dense_histogram import values_per_cell
from support.random_queries import SCHEMA, any_query
from treering.boxes.base import Release
from treering.boxes.histogram import HistogramBox
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.gate import HistogramReleased
from treering.noise import Gaussian, Laplace
from treering.theory.cells import all_subsets_radius, exact, smooth, subset_radius

PURE, ZCDP = Budget("pure", Fraction(1, 2)), Budget("zcdp", Fraction(1, 4))
N = SCHEMA.cells


def database(rows: int = 4000) -> TestDatabase:
    return TestDatabase(SCHEMA, np.random.default_rng(8).integers(0, N, rows).tolist())


def run(box: HistogramBox, budget: Budget, beta: float = 0.05) -> tuple[TestDatabase, Release]:
    db = database()
    bound = box.bind(SCHEMA)
    return db, bound.run(db.open_gate(budget), budget, 1.0, beta)


def released(db: TestDatabase) -> HistogramReleased:
    (event,) = db.journal.events()
    assert isinstance(event, HistogramReleased)
    return event


def test_the_noise_is_what_the_budget_buys() -> None:
    assert released(run(HistogramBox(), PURE)[0]).noise == Laplace(4.0)
    assert released(run(HistogramBox(), ZCDP)[0]).noise == Gaussian(2.0)
    assert released(run(HistogramBox(noise="laplace"), ZCDP)[0]).noise == Laplace(2.0)


def test_a_light_query_is_summed_and_a_heavy_one_by_its_complement() -> None:
    db, release = run(HistogramBox(), PURE)
    counts = released(db).counts
    light = Query.where(SCHEMA, month=3)
    (one, other), (error, same) = release.shares([light, ~light])
    assert one * db.size == pytest.approx(int(counts[:, :, 2].sum()))
    assert other == pytest.approx(1 - one)
    assert error == same
    assert error * db.size == pytest.approx(all_subsets_radius(Laplace(4.0), N, N / 5, 0.05))


def test_constants_are_known() -> None:
    _, release = run(HistogramBox(), PURE)
    flat = Query.weighted(SCHEMA, [0.25] * N, resolution=4)
    shares, errors = release.shares([Query.all(SCHEMA), Query.none(SCHEMA), flat])
    assert shares.tolist() == [1.0, 0.0, 0.25]
    assert errors.tolist() == [0.0, 0.0, 0.0]
    assert [len(each) for each in release.shares([])] == [0, 0]


def test_weights_that_differ_little_have_little_error() -> None:
    """Half of what all have in common is public: weights ½ + w/10 have a tenth of the error of w."""
    _, release = run(HistogramBox(), PURE)
    weights = np.random.default_rng(0).integers(0, 11, N) / 10
    weights[:2] = 0, 1
    plain = Query.weighted(SCHEMA, weights, resolution=10)
    narrow = Query.weighted(SCHEMA, 0.5 + weights / 10, resolution=100)
    (share, narrow_share), (error, narrow_error) = release.shares([plain, narrow])
    assert narrow_error == pytest.approx(error / 10)
    assert narrow_share == pytest.approx(0.5 + share / 10)


@pytest.mark.parametrize("budget", [PURE, ZCDP])
def test_errors_follow_the_mass_of_the_lighter_side(budget: Budget) -> None:
    db, release = run(HistogramBox(), budget)
    generator = np.random.default_rng(2)
    queries = [any_query(generator, SCHEMA) for _ in range(50)]
    _, errors = release.shares(queries)
    noise = released(db).noise
    # Each law's bound fails with probability beta: the smaller of the two for each query could fail with twice that.
    by_law = []
    for law in (exact(noise), smooth(noise)):
        stated = []
        for query in queries:
            weights = values_per_cell(query).reshape(-1)
            spread = float(weights.max() - weights.min())
            mass = float(((weights - weights.min()) / spread).sum())
            stated.append(spread * all_subsets_radius(law, N, min(mass, N - mass), 0.05) / db.size)
        by_law.append(stated)
    assert any(errors.tolist() == pytest.approx(stated) for stated in by_law)
    assert by_law[0] != pytest.approx(by_law[1])
    bound = HistogramBox().bind(SCHEMA)
    assert (errors <= bound.alpha(db.size, budget, 0.05)).all()


def test_declared_queries_are_centred() -> None:
    """The error is Σ (w − mean)·noise: the answer is corrected by the mean weight's share of the excess."""
    generator = np.random.default_rng(4)
    queries = [any_query(generator, SCHEMA) for _ in range(20)]
    db, release = run(HistogramBox(queries), ZCDP)
    counts = released(db).counts.reshape(-1)
    shares, errors = release.shares(queries)
    for query, share, error in zip(queries, shares.tolist(), errors.tolist(), strict=True):
        weights = values_per_cell(query).reshape(-1)
        right = float(weights @ counts) - float(weights.mean()) * (int(counts.sum()) - db.size)
        assert share * db.size == pytest.approx(right, abs=1e-6)
        centred, numbers = np.unique((weights - weights.mean()).round(12), return_counts=True)
        radius = subset_radius(exact(Gaussian(2.0)), centred.tolist(), numbers.tolist(), 0.05 / 20)
        assert error * db.size == pytest.approx(radius, rel=1e-6)


def test_declared_queries_have_smaller_errors() -> None:
    query = Query.where(SCHEMA, month=[1, 2])
    every, declared = HistogramBox().bind(SCHEMA), HistogramBox([query]).bind(SCHEMA)
    for budget in (PURE, ZCDP):
        assert declared.alpha(1000, budget, 0.05) < 0.4 * every.alpha(1000, budget, 0.05)
    assert declared.rate.g < every.rate.g


def test_a_class_of_constants_costs_its_budget_for_nothing() -> None:
    box = HistogramBox(["TRUE"]).bind(SCHEMA)
    assert box.alpha(10, PURE, 0.05) == 0
    _, release = run(HistogramBox(["TRUE"]), PURE)
    assert release.ask("TRUE").value == 1


def test_too_many_cells_are_refused_with_advice() -> None:
    wide = tr.Schema({name: tr.integers(0, 255) for name in "abcd"})
    with pytest.raises(tr.GuaranteeError, match="4,294,967,296: use coarser.*AnswersBox"):
        HistogramBox().bind(wide)


def test_gates_to_elsewhere_or_to_nothing_are_refused_for_free() -> None:
    box = HistogramBox().bind(SCHEMA)
    other = TestDatabase(tr.Schema({"x": tr.integers(0, 4)}), [1, 2])
    with pytest.raises(tr.SchemaError, match="another schema"):
        box.run(other.open_gate(PURE), PURE, 1.0, 0.05)
    empty = TestDatabase(SCHEMA)
    with pytest.raises(tr.GuaranteeError, match="empty"):
        box.run(empty.open_gate(PURE), PURE, 1.0, 0.05)
    assert (other.touched, empty.touched) == (0, 0)
