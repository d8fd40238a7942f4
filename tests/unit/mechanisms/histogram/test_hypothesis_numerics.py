"""The public histogram stays a distribution: extreme targets, very many steps, large universes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.dense_histogram import DenseHistogram, cells_of
from support.random_queries import SCHEMA, conjunction, target_within, union
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.mechanisms.histogram import hypothesis as hypothesis_module
from treering.mechanisms.histogram.hypothesis import Hypothesis, Step

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_extreme_targets_cost_no_precision(seed: int) -> None:
    generator = np.random.default_rng(seed)
    hypothesis, dense = Hypothesis(SCHEMA), DenseHistogram(SCHEMA)
    queries = [conjunction(generator, SCHEMA) for _ in range(4)] + [union(generator, SCHEMA)]
    for turn in range(60):
        query = queries[generator.integers(len(queries))]
        target = float(generator.choice([1e-12, 1e-6, 0.5, 1 - 1e-6, 1 - 1e-12]))
        hypothesis.project(query, target)
        dense.project(query, target)
        assert hypothesis.answer(query) == pytest.approx(target, rel=1e-12, abs=0)
        if turn % 7 == 0:
            hypothesis.grow(1e-6)
            dense.grow(1e-6)
    # Cells below 1e-200 may have been kept from vanishing.
    np.testing.assert_allclose(cells_of(hypothesis), dense.shares.astype(np.float64), rtol=1e-10, atol=1e-200)


def test_cells_that_would_vanish_come_back() -> None:
    """Dozens of factors of 10^-12 on the same cells would leave the range of floats."""
    hypothesis = Hypothesis(SCHEMA)
    rare = [Query.where(SCHEMA, origin="JFK", month=m, delay=d) for m in (1, 2) for d in (-5, 5)]
    wide = [Query.where(SCHEMA, origin=o) for o in ("EWR", "JFK")] + [Query.where(SCHEMA, month=m) for m in (1, 2)]
    for _ in range(40):
        for query in wide:
            hypothesis.project(query, 1e-12)
        for query in rare:
            hypothesis.project(query, 1e-300)
    assert cells_of(hypothesis).min() > 0
    for query in [*rare, *wide]:
        hypothesis.project(query, 0.25)
        assert hypothesis.answer(query) == pytest.approx(0.25, rel=1e-12, abs=0)
        assert math.fsum(cells_of(hypothesis).flat) == pytest.approx(1, abs=1e-12)


def test_a_block_is_raised_from_almost_nothing() -> None:
    """The factor of the other cells is so small that the block alone cannot be multiplied by what is left."""
    hypothesis = Hypothesis(SCHEMA)
    for month in (2, 3, 4, 5):
        hypothesis.project(Query.where(SCHEMA, month=month), 1e-200)
    for target in (1e-60, 0.5, 1e-100, 1 - 1e-9):
        hypothesis.project(Query.where(SCHEMA, month=1), target)
        assert hypothesis.answer(Query.where(SCHEMA, month=1)) == pytest.approx(target, rel=1e-12, abs=0)
        rest = Query.where(SCHEMA, month=[2, 3, 4, 5])
        assert hypothesis.answer(rest) == pytest.approx(1 - target, rel=1e-12, abs=0)


@pytest.mark.parametrize("grow", [False, True])
def test_a_hundred_thousand_updates_keep_mass_and_positivity(grow: bool) -> None:
    """Half of them with growth, which keeps all cells within reach of the slow twin; the benchmark does a million."""
    schema = Schema({"a": integers(0, 3), "b": integers(0, 3)})
    generator = np.random.default_rng(3)
    queries = [conjunction(generator, schema) for _ in range(30)] + [union(generator, schema) for _ in range(2)]
    shares = [*(10.0**-k for k in range(1, 13)), 0.5, *(1 - 10.0**-k for k in range(1, 13))]
    picks, targets = generator.integers(0, len(queries), 50_000), generator.choice(shares, 50_000)
    hypothesis, dense = Hypothesis(schema), DenseHistogram(schema)
    for turn, (pick, target) in enumerate(zip(picks.tolist(), targets.tolist(), strict=True)):
        if grow and turn % 3 == 0:
            hypothesis.grow(1e-4)
            dense.grow(1e-4)
        hypothesis.project(queries[pick], target)
        if grow:
            dense.project(queries[pick], target)
        if turn % 100 == 0:
            cells = cells_of(hypothesis)
            assert cells.min() > 0
            assert abs(math.fsum(cells.flat) - 1) <= 1e-12
            assert hypothesis.answer(queries[pick]) == pytest.approx(target, rel=1e-12, abs=0)
    if grow:
        np.testing.assert_allclose(cells_of(hypothesis), dense.shares.astype(np.float64), rtol=1e-12)


@pytest.mark.parametrize("weights", [[0.25, 0.5], [0.25, 0.5, 0.75], [0.0, 1.0], None])
def test_the_mass_is_right_in_a_large_universe(weights: list[float] | None) -> None:
    """Summed one after the other, a million equal terms are off by 10^-11."""
    schema = Schema({"a": integers(1, 1000), "b": integers(1, 1000)})
    hypothesis, query = Hypothesis(schema), Query.where(schema, a=range(1, 300), b=range(1, 800))
    if weights is not None:
        query = Query.weighted(schema, np.random.default_rng(2).choice(weights, schema.cells))
    for share in (0.3, 0.6):
        hypothesis.project(query, target_within(query, share))
        assert abs(math.fsum(cells_of(hypothesis).flat) - 1) < 1e-13
        assert hypothesis.answer(query) == pytest.approx(target_within(query, share), rel=1e-12, abs=0)


def test_a_hundred_thousand_growths_do_not_drift() -> None:
    hypothesis = Hypothesis(SCHEMA)
    query = Query.where(SCHEMA, month=[1, 2])
    hypothesis.project(query, 0.9)
    for _ in range(100_000):
        hypothesis.grow(3e-6)
    assert math.fsum(cells_of(hypothesis).flat) == pytest.approx(1, abs=1e-14)
    assert hypothesis.answer(query) == pytest.approx(0.4 + 0.5 * (1 - 3e-6) ** 100_000, rel=1e-9, abs=0)


def test_growth_keeps_what_it_adds_however_little() -> None:
    """The potential's bound on growth needs share/N in every cell, also where 1 − share rounds to one."""
    hypothesis = Hypothesis(SCHEMA)
    query = Query.where(SCHEMA, origin="JFK", month=1, delay=5)
    hypothesis.project(query, 1e-100)
    hypothesis.grow(1e-40)
    assert hypothesis.answer(query) == pytest.approx(1e-40 / SCHEMA.cells, rel=1e-12, abs=0)


def test_sums_are_taken_anew_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong total, as rounding errors would make it in a very long time, is set right by a refresh."""
    monkeypatch.setattr(hypothesis_module, "REFRESH", 4)
    schema = Schema({"a": integers(0, 3), "b": integers(0, 3)})
    hypothesis, query = Hypothesis(schema), Query.where(schema, a=[0, 1])
    for turn in range(1, 9):
        exact = hypothesis.plan(query, 0.3 if turn % 2 else 0.4)
        outside, inside = exact.factors
        hypothesis.apply(Step(query, (outside * (1 + 1e-7), inside * (1 + 1e-7)), exact.rate, exact.log_normaliser))
        error = abs(math.fsum(cells_of(hypothesis).flat) - 1)
        assert error < 1e-14 if turn % 4 == 0 else error > 1e-8
        # The marginal, which has followed, agrees with the cells at any time.
        inside = float(cells_of(hypothesis)[:2].sum())
        assert hypothesis.answer(query) == pytest.approx(inside, rel=1e-14, abs=0)
