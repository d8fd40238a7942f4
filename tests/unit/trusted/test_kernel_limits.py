"""Both sides of the kernel's limits; and a run's comparisons, with noise that is known."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.arrays import Ints
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.gate import FINE, RunRequest
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.cells import MAX_COUNT
from treering.trusted.journal import Secret
from treering.trusted.kernel import Kernel
from treering.trusted.noise import Answering
from treering.trusted.operations import base, histogram, run as runs
from treering.trusted.operations.run import Run
from treering.trusted.samplers import select

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 1)})
COARSE = tr.parse("a = 1", SCHEMA)
SIXTEENTHS = Query.weighted(SCHEMA, [0, 1 / 16, 0.5, 1], attributes=["a"], resolution=16)


def opened(rows: int = 80) -> tuple[Kernel, TestDatabase]:
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(rows)])
    return db.open_gate(Budget("pure", Fraction(10**9))), db


# -- numbers that come with queries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("place", [0, -1])
def test_integers_are_taken_up_to_the_limit_and_no_further(number: int, place: int) -> None:
    values = [3] * number
    for inside in (99, -99):
        values[place] = inside
        found = base.integers(values, "bars", number, 100)
        assert found.tolist() == values
        assert found.dtype == np.int64
    for outside in (100, -100):
        values[place] = outside
        with pytest.raises(tr.ParameterError, match="^bars must be integers below 2") as caught:
            base.integers(values, "bars", number, 100)
        assert caught.value.parameter == "bars"


@pytest.mark.parametrize("values", [np.array([1, 2]), np.array([1, 2], dtype=np.uint8), (1, 2)])
def test_integers_of_any_kind_are_taken(values: Any) -> None:
    found = base.integers(values, "bars", 2)
    assert found.tolist() == [1, 2]
    assert found.dtype == np.int64


@pytest.mark.parametrize("values", [[1.0, 2.0], [True, False], ["1", "2"], [[1], [2]], [None, 1]])
def test_other_values_are_no_integers(values: Any) -> None:
    with pytest.raises(tr.ParameterError, match=r"must be integers below 2\^61, in units of the query's grid"):
        base.integers(values, "estimates", 2)


@pytest.mark.parametrize(("values", "length"), [([1], 2), ([1, 2], 1), ([], 1), ([1], 0)])
def test_there_are_as_many_integers_as_queries(values: list[int], length: int) -> None:
    with pytest.raises(tr.ParameterError, match=f"as many as the queries: {length}, not {len(values)}"):
        base.integers(values, "bars", length)
    assert base.integers([], "bars", 0).tolist() == []


@pytest.mark.parametrize("query", [COARSE, SIXTEENTHS])
def test_a_reach_is_below_the_room_that_the_finest_query_leaves(query: Query) -> None:
    """A reach multiplies the grid: the product stays below 2^61. Of the noise, this run's scale leaves room."""
    most = MAX_COUNT // query.scale
    runs._check_reach(most - 1, [query], query.scale)
    runs._check_reach(FINE, [query], query.scale)
    for reach in (most, most + 1, 0, -1):
        with pytest.raises(tr.ParameterError, match=f"^reach must be a whole number from 1 to {most - 1:,}"):
            runs._check_reach(reach, [query], query.scale)


def test_a_reach_of_one_is_enough_for_what_no_row_moves() -> None:
    """And a replaced row moves the other query by 1: by `FINE`, on the finer grid."""
    everything = Query.all(SCHEMA)
    runs._check_reach(1, [everything], 1)
    for queries in ([COARSE], [everything, COARSE], [COARSE, everything]):
        runs._check_reach(FINE, queries, 1)
        with pytest.raises(tr.ParameterError, match="a replaced row can move a query by more"):
            runs._check_reach(FINE - 1, queries, 1)


def test_sizes_times_the_finer_grid_of_a_reach_stay_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, db = opened()
    run = gate.begin_run(RunRequest(1.0, 1.0)).run
    monkeypatch.setattr(db.rows, "_size", MAX_COUNT // FINE)
    with pytest.raises(tr.QueryError, match=rf"resolution \({FINE:,}\) must stay below 2\^61"):
        gate.first_exceeding(run, [COARSE], [0], reach=FINE)
    monkeypatch.setattr(db.rows, "_size", MAX_COUNT // FINE - 1)
    assert gate.first_exceeding(run, [COARSE], [MAX_COUNT // FINE - 1], reach=FINE).crossing is None
    assert gate.first_exceeding(run, [COARSE], [MAX_COUNT - 1]).crossing is None


@pytest.mark.parametrize(
    "request_",
    [RunRequest(2.0**47, 1.0), RunRequest(1.0, 2.0**47), RunRequest(1.0, 1.0, Laplace(2.0**47))],
    ids=["threshold", "query", "answer"],
)
def test_the_scales_of_a_run_must_be_drawn_at_the_queries_weights(request_: RunRequest) -> None:
    """2^47 times a weight scale of 2 is the largest that is; with a reach, its factor counts as well."""
    gate, db = opened()
    halves = Query.weighted(SCHEMA, [0, 0.5, 1, 0.5], attributes=["a"], resolution=2)
    run = gate.begin_run(request_).run
    touched = db.touched
    for queries, reach in (([COARSE, SIXTEENTHS], None), ([halves], FINE)):
        with pytest.raises(tr.ParameterError, match=r"scale times the weight scale must be at most 2\^48"):
            gate.first_exceeding(run, queries, [0] * len(queries), reach=reach)
    assert db.touched == touched
    assert gate.first_exceeding(run, [halves], [2**60]).asked == 1


def test_a_histogram_may_have_as_many_cells_as_are_kept_as_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, _ = opened()
    monkeypatch.setattr(base, "DENSE_CELLS", SCHEMA.cells)
    assert gate.histogram(Laplace(0.02)).counts.tolist() == [[10, 10]] * 4
    monkeypatch.setattr(base, "DENSE_CELLS", SCHEMA.cells - 1)
    with pytest.raises(tr.ParameterError, match="attributes span 8 joint values; at most 7 can be released"):
        gate.histogram(Laplace(0.02))
    assert gate.histogram(Laplace(0.02), [1]).counts.tolist() == [40, 40]
    assert gate.histogram(Laplace(0.02), []).counts.tolist() == 80


@pytest.mark.parametrize("attributes", [[0, 0], [1, 0], [-1], [2], [0, 2]])
def test_attributes_are_increasing_positions(attributes: list[int]) -> None:
    gate, _ = opened()
    with pytest.raises(tr.ParameterError, match=r"attributes must be increasing positions within 0\.\.1"):
        gate.histogram(Laplace(1.0), attributes)
    assert gate.spent == 0


def test_released_counts_cannot_be_written_to() -> None:
    gate, _ = opened()
    with pytest.raises(ValueError, match="read-only"):
        gate.histogram(Laplace(1.0)).counts[0, 0] = 7


def test_candidates_of_different_grids_are_compared_in_rows() -> None:
    """20 rows, and 31.25; with estimates, gaps of 19 rows, 2 sixteenths, and 20 rows."""
    gate, _ = opened()
    assert gate.select([COARSE, SIXTEENTHS], 0.02).index == 1
    thirds = Query.weighted(SCHEMA, [0, 1 / 3, 0, 0], attributes=["a"], resolution=3)
    assert gate.select([COARSE, thirds, SIXTEENTHS], 0.02, [1, 20, 498]).index == 0
    assert gate.select([COARSE, thirds, SIXTEENTHS], 0.02, [1, 80, 498]).index == 1


# -- comparisons, with noise that is known -----------------------------------------------------------------------------


class Still:
    """Stands in for noise drawn ahead: always the same, times the factor."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.taken: list[list[int]] = []

    def take_each(self, factors: Ints) -> Ints:
        self.taken.append(factors.tolist())
        return self.value * factors


def compare(gaps: list[int], scales: list[int], noise: int, threshold: int) -> int | None:
    run = Run(RunRequest(1.0, 1.0), Secret(threshold))
    still: Any = Still(noise)
    run._query_noise = still
    return run.first_exceeding(np.array(gaps), np.array(scales))


@pytest.mark.parametrize("threshold", [-4, 0, 3])
@pytest.mark.parametrize("noise", [-2, 0, 5])
@pytest.mark.parametrize("scale", [1, 7])
def test_a_gap_that_reaches_the_threshold_exceeds_it(threshold: int, noise: int, scale: int) -> None:
    """gap + ν ≥ W·η, at the boundary itself and one below."""
    least = scale * (threshold - noise)
    assert compare([least - 1, least, least + 1], [scale] * 3, noise, threshold) == 1
    assert compare([least], [scale], noise, threshold) == 0
    assert compare([least - 1] * 3, [scale] * 3, noise, threshold) is None


def test_more_are_compared_at_once_after_each_full_block_without_a_crossing() -> None:
    run = Run(RunRequest(1.0, 1.0), Secret(0))
    still: Any = Still(0)
    run._query_noise = still
    below = np.full(5000, -1)
    assert run.block == 16
    assert run.first_exceeding(below[:15], np.ones(15, dtype=np.int64)) is None
    assert run.block == 16
    for block in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096):
        assert run.block == block
        assert run.first_exceeding(below[:block], np.ones(block, dtype=np.int64)) is None
    assert run.block == 4096


@pytest.mark.parametrize("place", [0, 15, 16, 40, None])
def test_every_query_up_to_the_crossing_is_compared_once(place: int | None) -> None:
    """In blocks of 16, 32, …: none is left out, and no noise is drawn for one twice."""
    gate, _ = opened()
    run = gate.begin_run(RunRequest(1.0, 1.0)).run
    live, still = runs.named(gate._desk, run), Still(0)
    replaced: Any = still
    live._query_noise, live._threshold = replaced, Secret(0)
    bars = [21] * 50
    if place is not None:
        bars[place] = 20
    found = gate.first_exceeding(run, [COARSE] * 50, bars).crossing
    assert (None if found is None else found.index) == place
    asked = [len(each) for each in still.taken]
    assert asked == ([16] if place in (0, 15) else [16, 32] if place in (16, 40) else [16, 32, 2])


@pytest.mark.parametrize("answer", [Laplace(3.0), Gaussian(3.0)])
@pytest.mark.parametrize("reach", [None, 2 * FINE])
def test_the_answer_of_a_crossing_has_noise_of_its_own(
    answer: Noise, reach: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One draw, at the weight scale of the query that crossed (times the reach), onto its own count."""
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(80)])
    gate = db.open_gate(Budget("zcdp", Fraction(10**9)))
    drawn: list[tuple[Noise, int, int]] = []

    def draw(noise: Noise, factor: int, count: int) -> Ints:
        drawn.append((noise, factor, count))
        return np.full(count, 1000)

    run = gate.begin_run(RunRequest(0.02, 0.02, answer)).run
    monkeypatch.setattr(runs, "draw", draw)
    queries = [COARSE] * 20 + [SIXTEENTHS, COARSE]
    found = gate.first_exceeding(run, queries, [10**4] * 20 + [0, 0], reach=reach).crossing
    assert found is not None
    finer = 1 if reach is None else FINE
    # 20 rows each of weights 1, 8 and 16 sixteenths.
    assert (found.index, found.value) == (20, finer * 20 * (1 + 8 + 16) + 1000)
    assert drawn == [(answer, 16 * (reach or 1), 1)]


def test_noise_is_added_to_each_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 rows; 20 of weights 1, 8 and 16 sixteenths; and a cell of 10 rows."""
    gate, _ = opened()
    monkeypatch.setattr(type(gate._desk.own(Answering)), "take", lambda _, __, scales: 1000 * scales)
    assert gate.measure([COARSE, SIXTEENTHS], Laplace(1.0)).values == (1020, 16_000 + 500)
    monkeypatch.setattr(histogram, "draw", lambda _, factor, count: np.arange(count) + 1000 * factor)
    assert gate.histogram(Laplace(1.0), [1]).counts.tolist() == [1040, 1041]


@pytest.mark.parametrize("reach", [float(FINE), "many", (FINE,), np.int64(FINE)])
def test_a_reach_is_a_whole_number(reach: Any) -> None:
    with pytest.raises(tr.ParameterError, match="^reach must be a whole number"):
        runs._check_reach(reach, [COARSE], 1)


@pytest.mark.parametrize("estimates", [None, [25, 490]])
def test_scores_and_their_scale_are_on_one_grid(estimates: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In sixteenths of a row: the odds of a lead of one row are those of the scale that is paid for."""
    gate, _ = opened()
    asked: list[tuple[list[int], Fraction]] = []

    def exponential(scores: list[int], scale: Fraction) -> int:
        asked.append((scores, scale))
        return 1

    monkeypatch.setattr(select, "exponential", exponential)
    assert gate.select([COARSE, SIXTEENTHS], 2.5, estimates).index == 1
    assert asked == [([20 * 16, 500] if estimates is None else [5 * 16, 10], Fraction(5, 2) * 16)]
