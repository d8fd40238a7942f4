"""The privacy of a run, by enumeration: no sampling, no confidence, only the sum over the secret threshold."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.broken import DoubleQueryNSG, Exposed, FreshThresholdATG
from support.exact_runs import Asked, fresh_transcripts, loss, transcripts
from treering.audit.neighbours import Stream, worst_pair
from treering.domain.attribute import categories
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.theory.sparse import run_cost, scales_for

SCHEMA = Schema({"late": categories("no", "yes")})
LATE = Query.where(SCHEMA, late="yes")

ROUNDING = 1e-9
SCALES = st.sampled_from([0.3, 0.5, 0.8, 1.0, 2.0, 3.7, 10.0])


def asked_of(stream: Stream, query: Query = LATE) -> list[Asked]:
    """What a run with threshold ½ compares along a stream."""
    bars = [round(size * query.scale / 2) for size in stream.sizes]
    return [Asked(count - bar, query.scale) for count, bar in zip(stream.counts(query), bars, strict=True)]


@st.composite
def neighbouring_runs(draw: st.DrawFn) -> tuple[list[Asked], list[Asked]]:
    """Any gaps (bars and sizes move as they like), any weights, a row that arrives late and moves each count by ≤ W."""
    length = draw(st.integers(1, 7))
    arrival = draw(st.integers(0, length - 1))
    left, right = [], []
    for index in range(length):
        weight = draw(st.sampled_from([1, 1, 2, 3, 7]))
        gap = draw(st.integers(-6 * weight, 6 * weight))
        moved = draw(st.integers(-weight, weight)) if index >= arrival else 0
        left.append(Asked(gap, weight))
        right.append(Asked(gap + moved, weight))
    return left, right


@given(runs=neighbouring_runs(), threshold_scale=SCALES, query_scale=SCALES)
def test_no_transcript_loses_more_than_the_run_costs(
    runs: tuple[list[Asked], list[Asked]], threshold_scale: float, query_scale: float
) -> None:
    left, right = (transcripts(asked, threshold_scale, query_scale) for asked in runs)
    assert loss(left, right) <= run_cost(threshold_scale, query_scale) + ROUNDING


@given(runs=neighbouring_runs(), threshold_scale=SCALES, query_scale=SCALES)
def test_a_silent_run_loses_at_most_its_threshold(
    runs: tuple[list[Asked], list[Asked]], threshold_scale: float, query_scale: float
) -> None:
    left, right = (transcripts(asked, threshold_scale, query_scale)[-1:] for asked in runs)
    assert loss(left, right) <= 1 / threshold_scale + ROUNDING


@given(runs=neighbouring_runs(), threshold_scale=SCALES, query_scale=SCALES)
def test_probabilities_sum_to_one(
    runs: tuple[list[Asked], list[Asked]], threshold_scale: float, query_scale: float
) -> None:
    for asked in runs:
        assert transcripts(asked, threshold_scale, query_scale).sum() == pytest.approx(1, abs=1e-12)
        assert fresh_transcripts(asked, threshold_scale, query_scale).sum() == pytest.approx(1, abs=1e-12)


def test_enumeration_agrees_with_a_sum_over_all_the_noise() -> None:
    """Both noises summed by brute force, for two queries of different weight."""
    asked, s1, s2 = [Asked(1), Asked(-2, 3)], 0.7, 0.5
    reach = range(-25, 26)
    chance = {
        (scale, k): math.exp(-abs(k) / scale) * math.tanh(1 / (2 * scale)) for scale in (s1, s2, 3 * s2) for k in reach
    }
    expected = np.zeros(3)
    for eta, first, second in product(reach, reach, range(-25, 26)):
        halts = [1 + first >= eta, -2 + second >= 3 * eta]
        expected[halts.index(True) if any(halts) else 2] += chance[s1, eta] * chance[s2, first] * chance[3 * s2, second]
    assert transcripts(asked, s1, s2) == pytest.approx(expected, abs=1e-6)


def test_the_cost_is_tight() -> None:
    """Many silent queries that rose by one, then a halt at one that fell: nothing below 1/s1 + 2/s2 would do."""
    s1, s2 = 2.0, 1.0
    left = [Asked(20)] * 3000 + [Asked(-20)]
    right = [Asked(21)] * 3000 + [Asked(-21)]
    lost = loss(transcripts(left, s1, s2), transcripts(right, s1, s2))
    assert 0.99 * run_cost(s1, s2) <= lost <= run_cost(s1, s2) + ROUNDING
    assert lost > 1 / s1 + 1 / s2


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_the_papers_moving_noise_loses_what_its_theorem_says(p: float) -> None:
    """ξ_t = t^p: at t rows noise is stretched by (t/ξ_t)/(t0/ξ_{t0}), at least what a row moves. A run that ends at t'
    loses ξ_{t0}/t0·3/4 + ξ_{t'}/t'/4; less stretched than a row moves, it would lose more than all of ξ_{t0}/t0."""
    sizes, grid, t0 = (4, 5, 6, 8, 12, 40), 12, 4
    s1, s2 = 2 * t0 / t0**p, 4 * t0 / t0**p
    stretches = [math.ceil(grid * (size / size**p) / (t0 / t0**p)) for size in sizes]

    def lost(reaches: list[int]) -> float:
        """Many silent queries that rose by a row at each size but the last, then a halt at one that fell by a row."""
        rising = [reach for reach in reaches[:-1] for _ in range(300)]
        left, right = (
            [*(Asked(grid * (9 + moved), reach) for reach in rising), Asked(grid * (-9 - moved), reaches[-1])]
            for moved in (0, 1)
        )
        return loss(transcripts(left, s1, s2), transcripts(right, s1, s2))

    first, last = t0**p / t0, sizes[-1] ** p / sizes[-1]
    assert lost(stretches) <= 3 / 4 * first + last / 4 + ROUNDING <= first + ROUNDING
    assert lost([reach // 3 for reach in stretches]) > 1.2 * first


def test_erratum_e1_number() -> None:
    """Claimed 0.1; a hundred silent steps at the threshold lose 1.67 if each has a threshold draw of its own."""
    left, right = worst_pair(SCHEMA, inside=1, outside=0, gaps=[-1] * 100)
    control = FreshThresholdATG(Exposed(left), threshold=0.5, epsilon=0.1)
    scales = control.threshold_scale, control.query_scale
    assert scales == (20.0, 40.0)
    silent = [fresh_transcripts(asked_of(stream), *scales)[-1] for stream in (left, right)]
    assert math.log(silent[0] / silent[1]) == pytest.approx(1.667, abs=5e-4)
    kept = [transcripts(asked_of(stream), *scales) for stream in (left, right)]
    assert loss(*kept) <= 0.1 + ROUNDING


def test_fresh_thresholds_lose_more_with_every_step() -> None:
    lost = []
    for steps in (10, 100, 1000):
        pair = worst_pair(SCHEMA, inside=1, outside=0, gaps=[-60] * steps)
        left, right = (fresh_transcripts(asked_of(stream), 20.0, 40.0)[-1] for stream in pair)
        lost.append(math.log(left / right))
    assert lost[1] == pytest.approx(10 * lost[0])
    assert lost[2] == pytest.approx(100 * lost[0])
    assert lost[2] > 20 * 0.1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("queries", [1, 100, 10_000])
@pytest.mark.parametrize("arrival", [0, 50, 99])
def test_the_scales_of_atg_keep_its_promise_along_a_worst_pair(epsilon: float, queries: int, arrival: int) -> None:
    scales = scales_for(epsilon, queries, 0.05, numeric=False)
    for gaps in ([-1] * 100, [-1] * 8 + [-10] * 92, [3] * 99 + [-3]):
        left, right = worst_pair(SCHEMA, inside=1, outside=0, gaps=gaps, arrival=arrival)
        runs = [transcripts(asked_of(stream), scales.threshold, scales.query) for stream in (left, right)]
        assert loss(*runs) <= epsilon + ROUNDING


def test_the_double_query_loses_more_than_it_claims() -> None:
    """Both sides answered: two numbers are released where one is paid for (erratum E2)."""
    stream = worst_pair(SCHEMA, inside=1, outside=0, gaps=[0])[0]
    control = DoubleQueryNSG(Exposed(stream), threshold=0.0, epsilon=2.0)
    scales = control.threshold_scale, control.query_scale
    assert run_cost(*scales) + 1 / control.answer_scale == pytest.approx(2.0)
    both = [transcripts([Asked(offset)], *scales)[0] * transcripts([Asked(-offset)], *scales)[0] for offset in (0, 1)]
    lost = math.log(both[0] / both[1]) + 2 / control.answer_scale
    assert lost > 1.5 * 2.0
