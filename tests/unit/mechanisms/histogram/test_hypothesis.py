"""The public histogram: against its slow twin, replayed, started warm, and asked for what it cannot do."""

from __future__ import annotations

import math
import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.dense_histogram import DenseHistogram, cells_of, relative_entropy
from support.random_queries import SCHEMA, Generator, any_query, conjunction, target_within
from treering.domain.attribute import categories, integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, QueryError, SchemaError
from treering.mechanisms.histogram import blocks as marginals, hypothesis as hypothesis_module
from treering.mechanisms.histogram.hypothesis import Hypothesis, Step

SEEDS = st.integers(0, 2**32)


def names_of(generator: Generator, schema: Schema = SCHEMA) -> list[str]:
    return [name for name in schema.names if generator.random() < 0.5]


def move(hypothesis: Hypothesis, dense: DenseHistogram, generator: Generator, shares: Sequence[float]) -> None:
    """One random operation, on both."""
    kind, query = generator.integers(6), any_query(generator, hypothesis.schema)
    if kind == 0:
        share = float(generator.choice([1e-9, 0.01, 0.3, 0.9]))
        hypothesis.grow(share)
        dense.grow(share)
    elif kind == 1:
        rate, complement = float(generator.choice([0.01, 0.3, 4.0])), bool(generator.integers(2))
        hypothesis.apply(hypothesis.exponential_step(query, rate, complement=complement))
        dense.tilt(query, -rate if complement else rate)
    else:
        target = target_within(query, float(generator.choice(shares)))
        hypothesis.project(query, target)
        dense.project(query, target)


# -- against the slow twin ---------------------------------------------------------------------------------------------


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_any_sequence_of_operations_matches_the_dense_histogram(seed: int) -> None:
    generator = np.random.default_rng(seed)
    hypothesis, dense = Hypothesis(SCHEMA), DenseHistogram(SCHEMA)
    for _ in range(25):
        move(hypothesis, dense, generator, shares=(0.05, 0.2, 0.5, 0.7, 0.95))
        if dense.shares.min() < 1e-200:
            break  # the slow twin has no floor
        names, query = names_of(generator), any_query(generator, SCHEMA)
        np.testing.assert_allclose(hypothesis.marginal(names), dense.marginal(names), rtol=1e-11)
        assert hypothesis.answer(query) == pytest.approx(dense.answer(query), rel=1e-11, abs=0)
    np.testing.assert_allclose(cells_of(hypothesis), dense.shares.astype(np.float64), rtol=1e-11)


# -- replay ------------------------------------------------------------------------------------------------------------


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_replayed_steps_give_the_same_bits_whatever_was_asked(seed: int) -> None:
    generator = np.random.default_rng(seed)
    live, twice = Hypothesis(SCHEMA), Hypothesis(SCHEMA)
    journal: list[Step | float] = []
    for _ in range(30):
        live.answer_many([any_query(generator, SCHEMA) for _ in range(generator.integers(4))])
        if generator.random() < 0.3:
            share = float(generator.random())
            live.grow(share)
            journal.append(share)
        else:
            query = any_query(generator, SCHEMA)
            journal.append(live.project(query, target_within(query, float(generator.choice([1e-9, 0.3, 0.9])))))
    for entry in pickle.loads(pickle.dumps(journal)):
        if isinstance(entry, Step):
            twice.apply(entry)
        else:
            twice.grow(entry)
        twice.marginal(names_of(generator))
    assert live.fingerprint() == twice.fingerprint()
    np.testing.assert_array_equal(cells_of(live), cells_of(twice))
    twice.grow(1e-3)
    assert live.fingerprint() != twice.fingerprint()


def test_replay_holds_across_a_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypothesis_module, "REFRESH", 3)
    test_replayed_steps_give_the_same_bits_whatever_was_asked()


# -- marginals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("largest", "together"), [(2**22, 2**25), (2**22, 40), (20, 100), (0, 0)])
def test_answers_do_not_depend_on_what_is_cached(largest: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Down to the case in which no marginal is kept and every conjunction goes through all cells."""
    monkeypatch.setattr(marginals, "MARGINAL_CELLS", largest)
    monkeypatch.setattr(marginals, "CACHED_CELLS", together)
    monkeypatch.setattr(hypothesis_module, "MARGINAL_CELLS", max(1, largest))
    generator = np.random.default_rng(11)
    hypothesis, dense = Hypothesis(SCHEMA), DenseHistogram(SCHEMA)
    for turn in range(40):
        query = conjunction(generator, SCHEMA)
        assert hypothesis.answer(query) == pytest.approx(dense.answer(query), rel=1e-12, abs=0)
        target = float(generator.random())
        hypothesis.project(query, target)
        dense.project(query, target)
        if turn % 5 == 0:
            hypothesis.grow(0.1)
            dense.grow(0.1)
        batch = [conjunction(generator, SCHEMA) for _ in range(5)]
        np.testing.assert_allclose(hypothesis.answer_many(batch), [dense.answer(each) for each in batch], rtol=1e-12)


def test_a_batch_is_its_queries_one_by_one() -> None:
    generator = np.random.default_rng(4)
    hypothesis = Hypothesis.warm(SCHEMA, generator.random(SCHEMA.cells), 0.5)
    batch: list[Query | str] = [any_query(generator, SCHEMA) for _ in range(50)]
    batch += ["month = 1", "TRUE", Query.none(SCHEMA), "origin IS NULL"]
    answers = hypothesis.answer_many(batch)
    np.testing.assert_allclose(answers, [hypothesis.answer(query) for query in batch], rtol=1e-13)
    assert hypothesis.answer_many([]).tolist() == []


def test_what_was_kept_comes_back_whatever_was_asked_meanwhile() -> None:
    generator = np.random.default_rng(4)
    hypothesis = Hypothesis(SCHEMA)
    query, other = conjunction(generator, SCHEMA), conjunction(generator, SCHEMA)
    hypothesis.project(query, 0.3)
    kept, before, fingerprint = hypothesis.keep(), hypothesis.answer(query), hypothesis.fingerprint()
    hypothesis.grow(0.2)
    hypothesis.project(other, 0.6)
    assert hypothesis.answer(query) != before
    hypothesis.restore(kept)
    assert hypothesis.answer(query) == before
    assert hypothesis.fingerprint() == fingerprint
    with pytest.raises(ParameterError, match="a number for each of the"):
        Hypothesis(Schema({"a": integers(0, 1)})).restore(kept)


def test_constant_queries_are_exact() -> None:
    generator = np.random.default_rng(4)
    hypothesis = Hypothesis(SCHEMA)
    third = Query.weighted(SCHEMA, np.full(SCHEMA.cells, 1 / 3), resolution=3)
    for _ in range(10):
        hypothesis.project(conjunction(generator, SCHEMA), float(generator.random()))
        expected = [1.0, 0.0, 1 / 3]
        assert hypothesis.answer_many([Query.all(SCHEMA), Query.none(SCHEMA), third]).tolist() == expected
        assert [hypothesis.answer(query) for query in (Query.all(SCHEMA), Query.none(SCHEMA), third)] == expected


def test_marginals_belong_to_the_caller() -> None:
    hypothesis = Hypothesis(SCHEMA)
    hypothesis.project(Query.where(SCHEMA, month=1), 0.5)
    for names in ([], ["month"], ["country"], list(SCHEMA.names)):
        first = hypothesis.marginal(names)
        assert first.shape == tuple(SCHEMA.attributes[name].size for name in names)
        assert first.sum() == pytest.approx(1, abs=1e-14)
        expected = first.copy()
        first[...] = 7.0
        np.testing.assert_array_equal(hypothesis.marginal(names), expected)


# -- starting ----------------------------------------------------------------------------------------------------------


def test_the_largest_universe_costs_nothing_until_it_is_moved() -> None:
    schema = Schema({f"a{i}": integers(0, 7) for i in range(8)} | {"b": integers(0, 3)})
    assert schema.cells == hypothesis_module.MAX_CELLS
    tracemalloc.start()
    try:
        hypothesis = Hypothesis(schema)
        hypothesis.grow(0.5)
        query = Query.where(schema, a0=[0, 1], a5=3)
        everywhere = Query.where(schema, **{name: [0, 1] for name in schema.names})
        assert hypothesis.answer_many([query, everywhere]).tolist() == pytest.approx([1 / 32, 4**-8 / 2])
        assert hypothesis.plan(everywhere, 0.5).factors[1] == pytest.approx(0.5 * 2 * 4**8)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


def test_a_larger_universe_is_refused() -> None:
    schema = Schema({f"a{i}": integers(0, 7) for i in range(9)})
    with pytest.raises(GuaranteeError, match=r"134,217,728 cells: use coarser bins\(\)"):
        Hypothesis(schema)


def test_a_universe_of_one_cell() -> None:
    schema = Schema({"only": categories("this")})
    hypothesis = Hypothesis(schema)
    assert repr(hypothesis) == "Hypothesis(1 cell, 0 steps)"
    assert hypothesis.answer(Query.all(schema)) == 1.0
    assert hypothesis.marginal(["only"]).tolist() == [1.0]
    assert hypothesis.sample(2).to_pydict() == {"only": ["this", "this"]}


@given(SEEDS, st.sampled_from([1e-100, 1e-9, 0.01, 1.0]))
@settings(max_examples=25, deadline=None)
def test_a_warm_start_is_the_mixture(seed: int, weight: float) -> None:
    generator = np.random.default_rng(seed)
    given_shares = (
        generator.random(SCHEMA.cells) * (generator.random(SCHEMA.cells) < 0.5) * 10.0 ** generator.integers(-300, 300)
    )
    given_shares[0] = given_shares.max() + 1e-300
    hypothesis, dense = Hypothesis.warm(SCHEMA, given_shares, weight), DenseHistogram(SCHEMA, given_shares)
    dense.grow(weight)
    np.testing.assert_allclose(cells_of(hypothesis), dense.shares.astype(np.float64), rtol=1e-12)
    query = conjunction(generator, SCHEMA)
    hypothesis.project(query, 0.3)
    dense.project(query, 0.3)
    np.testing.assert_allclose(cells_of(hypothesis), dense.shares.astype(np.float64), rtol=1e-11)
    point = np.zeros(SCHEMA.cells)
    point[generator.integers(SCHEMA.cells)] = 1.0
    start = cells_of(Hypothesis.warm(SCHEMA, given_shares, weight)).reshape(-1)
    assert relative_entropy(point, start) <= math.log(SCHEMA.cells / weight) + 1e-9


def test_the_vector_begins_with_a_cache_line_however_it_came_about() -> None:
    """Where it begins decides how fast a pass over it is."""
    stepped, restored = Hypothesis(SCHEMA), Hypothesis(SCHEMA)
    stepped.project(conjunction(np.random.default_rng(1), SCHEMA), 0.3)
    restored.restore(stepped.keep())
    for each in (stepped, restored, Hypothesis.warm(SCHEMA, np.ones(SCHEMA.cells), 0.5)):
        assert each._vector is not None
        assert each._vector.cells.ctypes.data % 64 == 0


# -- bad input ---------------------------------------------------------------------------------------------------------

OTHER_SCHEMA = Schema({"month": integers(1, 5)})
HALF = Query.weighted(SCHEMA, np.linspace(0.25, 0.75, 5), attributes=["month"])


@pytest.mark.parametrize(
    ("error", "says", "act"),
    [
        (ParameterError, "share", lambda h: h.grow(1.0)),
        (ParameterError, "share", lambda h: h.grow(-0.1)),
        (ParameterError, "share", lambda h: h.grow(math.nan)),
        (
            ParameterError,
            "target must lie strictly between 0 and 1",
            lambda h: h.plan(Query.where(SCHEMA, month=1), 0.0),
        ),
        (ParameterError, "target", lambda h: h.plan(Query.where(SCHEMA, month=1), 1.0)),
        (ParameterError, "target", lambda h: h.project(Query.where(SCHEMA, month=1), math.nan)),
        (ParameterError, "target must lie strictly between 0.25 and 0.75", lambda h: h.plan(HALF, 0.25)),
        (ParameterError, "target", lambda h: h.plan(HALF, 0.8)),
        (ParameterError, "rate", lambda h: h.exponential_step(HALF, 0.0, complement=False)),
        (ParameterError, "rate", lambda h: h.exponential_step(HALF, math.inf, complement=True)),
        (ParameterError, "rate", lambda h: h.exponential_step(HALF, math.nan, complement=True)),
        (QueryError, "answers this query the same", lambda h: h.plan(Query.all(SCHEMA), 0.5)),
        (QueryError, "another schema", lambda h: h.plan(Query.where(OTHER_SCHEMA, month=1), 0.5)),
        (QueryError, "another schema", lambda h: h.answer(Query.where(OTHER_SCHEMA, month=1))),
        (QueryError, "query 1: .*another schema", lambda h: h.answer_many(["TRUE", Query.all(OTHER_SCHEMA)])),
        (QueryError, "another schema", lambda h: h.reachable(Query.all(OTHER_SCHEMA), 0.5)),
        (QueryError, "schema's order", lambda h: h.marginal(["delay", "month"])),
        (QueryError, "each once", lambda h: h.marginal(["month", "month"])),
        (SchemaError, "no attribute 'year'", lambda h: h.marginal(["year"])),
        (SchemaError, "no attribute", lambda h: h.marginal("month")),
        (ParameterError, "factors", lambda _: Step(HALF, (1.0, math.nan), 0.0, 0.0)),
        (ParameterError, "factors", lambda _: Step(Query.where(SCHEMA, month=1), (1.0,), 0.0, 0.0)),
        (ParameterError, "factors .*, 5, not 2", lambda h: h.apply(Step(HALF, (1.0, 2.0), 0.0, 0.0))),
        (QueryError, "same", lambda h: h.apply(Step(Query.all(SCHEMA), (1.0, 2.0), 0.0, 0.0))),
        (ParameterError, "uniform_weight", lambda _: Hypothesis.warm(SCHEMA, np.ones(SCHEMA.cells), 0.0)),
        (ParameterError, "uniform_weight", lambda _: Hypothesis.warm(SCHEMA, np.ones(SCHEMA.cells), 1.5)),
        (ParameterError, "distribution", lambda _: Hypothesis.warm(SCHEMA, [1.0], 0.5)),
        (ParameterError, "distribution", lambda _: Hypothesis.warm(SCHEMA, np.zeros(SCHEMA.cells), 0.5)),
        (ParameterError, "distribution", lambda _: Hypothesis.warm(SCHEMA, np.full(SCHEMA.cells, -1.0), 0.5)),
        (ParameterError, "distribution", lambda _: Hypothesis.warm(SCHEMA, np.full(SCHEMA.cells, np.nan), 0.5)),
        (ParameterError, "distribution", lambda _: Hypothesis.warm(SCHEMA, np.full(SCHEMA.cells, np.inf), 0.5)),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    error: type[Exception], says: str, act: Callable[[Hypothesis], Any]
) -> None:
    hypothesis = Hypothesis(SCHEMA)
    hypothesis.project(Query.where(SCHEMA, month=[1, 2]), 0.7)
    before = hypothesis.fingerprint()
    with pytest.raises(error, match=says):
        act(hypothesis)
    assert hypothesis.fingerprint() == before


def test_reachable_is_what_can_be_planned() -> None:
    hypothesis = Hypothesis(SCHEMA)
    assert [hypothesis.reachable(HALF, target) for target in (0.25, 0.251, 0.749, 0.75)] == [False, True, True, False]
    assert [hypothesis.reachable(Query.where(SCHEMA, month=1), t) for t in (0.0, 1e-300, 1.0)] == [False, True, False]
    assert not hypothesis.reachable(Query.all(SCHEMA), 1.0)
    assert not hypothesis.reachable(Query.none(SCHEMA), 0.0)
