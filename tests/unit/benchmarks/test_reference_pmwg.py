"""The reference that PMWG is timed against must do the work it stands for: checked on universes one can see."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks.reference_pmwg import DensePMWG, dense
from support.schemas import cell_weights, conjunctions, schemas
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions

SCHEMA = Schema({"a": integers(0, 1), "b": integers(0, 1)})
LEFT = Query.where(SCHEMA, a=0)


def reference(cells: list[int], *, alpha: float = 0.3, scale: float = 0.0, seed: int = 1) -> DensePMWG:
    generator = np.random.default_rng(seed)
    return DensePMWG(SCHEMA, np.array(cells, dtype=np.int64), alpha=alpha, scale=scale, generator=generator)


@given(schemas(most_attributes=3, most_values=4).flatmap(conjunctions).filter(lambda query: query.masks is not None))
def test_a_mask_is_the_weight_of_each_cell(query: Query) -> None:
    assert dense(query).tolist() == cell_weights(query).tolist()


def test_a_table_has_no_mask() -> None:
    with pytest.raises(ValueError, match="conjunctions"):
        dense(LEFT | Query.where(SCHEMA, b=0))


def test_a_good_guess_is_the_answer_and_changes_nothing() -> None:
    # Six of ten: 0.1 from uniform, where 0.2 is the threshold.
    pmwg = reference([0] * 6 + [3] * 4)
    assert pmwg.ask(LEFT) == 0.5
    assert pmwg.hard == 0
    assert pmwg.histogram.tolist() == [0.25] * 4


@pytest.mark.parametrize(("cells", "favoured"), [([0] * 9 + [3], [0, 1]), ([0] + [3] * 9, [2, 3])])
def test_a_bad_guess_is_measured_and_the_other_side_loses(cells: list[int], favoured: list[int]) -> None:
    pmwg = reference(cells)
    assert pmwg.ask(LEFT) == pytest.approx(cells.count(0) / 10)
    assert pmwg.hard == 1
    kept = math.exp(-0.3 / 6)
    weights = np.array([1.0 if cell in favoured else kept for cell in range(4)])
    np.testing.assert_allclose(pmwg.histogram, weights / weights.sum(), rtol=1e-12)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(0, 99))
def test_without_noise_all_answers_are_within_the_threshold(cells: list[int], seed: int) -> None:
    schema = Schema({name: integers(0, 1) for name in "abc"})
    generator = np.random.default_rng(seed)
    pmwg = DensePMWG(schema, np.array(cells), alpha=0.3, scale=0.0, generator=generator)
    for query in random_conjunctions(schema, 60, generator):
        truth = float(cell_weights(query)[cells].mean())
        assert abs(pmwg.ask(query) - truth) <= 0.2 + 1e-9
    assert pmwg.hard <= 36 * math.log(8) / 0.3**2
    assert pmwg.histogram.sum() == pytest.approx(1)


def test_a_run_keeps_its_threshold_until_a_query_is_hard() -> None:
    pmwg = reference([0] * 900 + [3] * 100, scale=1.0)
    first = pmwg.threshold
    pmwg.ask(Query.where(SCHEMA, b=[0, 1]))
    assert (pmwg.hard, pmwg.threshold) == (0, first)
    pmwg.ask(LEFT)
    assert pmwg.hard == 1
    assert pmwg.threshold != first


def test_growth_mixes_with_the_uniform_distribution() -> None:
    pmwg = reference([0] * 9 + [3])
    pmwg.ask(LEFT)
    before = pmwg.histogram
    pmwg.append(np.array([3] * 30))
    assert pmwg.size == 40
    assert pmwg.counts.tolist() == [9, 0, 0, 31]
    np.testing.assert_allclose(pmwg.histogram, before / 4 + 3 / 16, rtol=1e-12)
    assert pmwg.ask(Query.where(SCHEMA, a=1, b=1)) == pytest.approx(31 / 40)


def test_comparisons_and_answers_have_the_noise_they_should() -> None:
    # The guess is right, and the threshold, 20 of 100 rows, is the scale: hard if Lap(2) − Lap(1) reaches 1.
    found = [reference([0, 1, 2, 3] * 25, scale=20.0, seed=seed) for seed in range(10_000)]
    answers = [(pmwg.ask(LEFT), pmwg.hard) for pmwg in found]
    share = float(np.mean([hard for _, hard in answers]))
    # Four standard deviations are 0.019; a threshold without noise gives 0.303, equal scales 0.276.
    assert share == pytest.approx((4 * math.exp(-0.5) - math.exp(-1)) / 6, abs=0.019)
    spread = float(np.mean([abs(answer - 0.5) for answer, hard in answers if hard]))
    assert spread == pytest.approx(0.2, rel=0.1)
