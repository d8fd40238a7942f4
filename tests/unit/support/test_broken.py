"""The controls behave like what they imitate, but for their defect. (That they are caught: tests/statistical.)"""

from __future__ import annotations

import numpy as np
import pytest

from support import broken
from support.broken import (
    DoubleQueryNSG,
    ExactUpdatePMWG,
    Exposed,
    FreshThresholdATG,
    HalfScaleLaplace,
    NoiselessNATG,
    expose,
)
from treering.audit.neighbours import Stream
from treering.domain.attribute import categories
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import Halted, ParameterError
from treering.theory.sparse import run_cost

SCHEMA = Schema({"late": categories("no", "yes", "cancelled")})
LATE = Query.where(SCHEMA, late="yes")
WEIGHTED = Query.weighted(SCHEMA, [0.0, 0.5, 1.0], resolution=4)
STREAM = Stream(SCHEMA, ((0,) * 6000 + (1,) * 4000, (1,) * 10_000))


def start(stream: Stream = STREAM) -> Exposed:
    return next(expose(stream))


def test_an_exposed_stream_grows() -> None:
    seen = [(exposed.size, exposed.exact_count(LATE), exposed.exact_count(WEIGHTED)) for exposed in expose(STREAM)]
    assert seen == [(10_000, 4000, 4000), (20_000, 14_000, 14_000)]
    assert WEIGHTED.scale == 2
    assert start().schema == SCHEMA


@pytest.mark.parametrize("control", [FreshThresholdATG, NoiselessNATG])
def test_sparse_controls_find_what_is_clearly_above_and_then_halt(
    control: type[FreshThresholdATG] | type[NoiselessNATG],
) -> None:
    mechanism = control(start(), threshold=0.5, epsilon=1.0)
    assert not mechanism.ask(LATE)
    assert not mechanism.ask(WEIGHTED)
    assert not mechanism.ask(LATE, estimate=0.6)
    assert not mechanism.halted
    assert mechanism.ask(LATE, estimate=1.0)
    assert mechanism.halted
    with pytest.raises(Halted):
        mechanism.ask(LATE)


def test_a_sparse_control_follows_the_growth() -> None:
    database = expose(STREAM)
    mechanism = FreshThresholdATG(next(database), threshold=0.5, epsilon=1.0)
    assert not mechanism.ask(LATE)
    next(database)
    assert mechanism.ask(LATE)


def test_the_threshold_is_drawn_afresh_at_each_size_and_at_no_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []

    def draw(scale: float) -> int:
        drawn.append(scale)
        return 0

    monkeypatch.setattr(broken, "_draw", draw)
    database = expose(STREAM)
    mechanism = FreshThresholdATG(next(database), threshold=0.9, epsilon=1.0)
    mechanism.ask(LATE)
    mechanism.ask(WEIGHTED)
    next(database)
    mechanism.ask(LATE)
    threshold, query = mechanism.threshold_scale, mechanism.query_scale
    assert drawn == [threshold, query, 2 * query, threshold, query]


def test_the_number_of_noiseless_natg_is_exact() -> None:
    assert NoiselessNATG(start(), threshold=0.1, epsilon=1.0).ask(LATE) == 0.4


def test_the_double_query_answers_both_sides_and_draws_a_second_threshold() -> None:
    mechanism = DoubleQueryNSG(start(), threshold=0.1, epsilon=1.0)
    assert mechanism.ask(LATE, estimate=0.4) == (None, None)
    above, below = mechanism.ask(LATE, estimate=0.1)
    assert above == pytest.approx(0.4, abs=0.01)
    assert below is None
    with pytest.raises(Halted):
        mechanism.ask(LATE, estimate=0.4)
    both = (DoubleQueryNSG(start(), threshold=0.0, epsilon=1.0).ask(LATE, estimate=0.4) for _ in range(200))
    assert any(above is not None and below is not None for above, below in both)


def test_the_claims_are_those_of_a_correct_mechanism_with_the_same_noise() -> None:
    fresh = FreshThresholdATG(start(), threshold=0.5, epsilon=0.7)
    assert run_cost(fresh.threshold_scale, fresh.query_scale) == pytest.approx(0.7)
    double = DoubleQueryNSG(start(), threshold=0.5, epsilon=0.7)
    assert run_cost(double.threshold_scale, double.query_scale) + 1 / double.answer_scale == pytest.approx(0.7)
    learning = ExactUpdatePMWG(start(), threshold=0.5, epsilon=0.7)
    assert run_cost(learning.threshold_scale, learning.query_scale) + 1 / learning.answer_scale == pytest.approx(0.7)
    assert HalfScaleLaplace(start(), epsilon=0.7).scale == pytest.approx(0.5 / 0.7)


def test_the_exact_update_answers_from_the_histogram_until_it_is_off_and_then_knows_the_truth() -> None:
    mechanism = ExactUpdatePMWG(start(), threshold=0.2, epsilon=1.0)
    assert mechanism.ask(LATE) == 1 / 3
    released = mechanism.ask(Query.where(SCHEMA, late="cancelled"))
    assert released == pytest.approx(0.0, abs=0.01)
    assert mechanism.ask(Query.where(SCHEMA, late="cancelled")) == pytest.approx(0.5 / 10_000, rel=1e-9)
    assert mechanism.ask(LATE) == pytest.approx((1 - 0.5 / 10_000) / 2, rel=1e-9)
    weighing = ExactUpdatePMWG(start(), threshold=0.2, epsilon=1.0)
    assert weighing.ask(WEIGHTED) == pytest.approx(0.2, abs=0.01)
    assert weighing.ask(WEIGHTED) == pytest.approx(0.2, rel=1e-9)


def test_the_half_scale_answers_in_the_query_s_own_grid() -> None:
    mechanism = HalfScaleLaplace(start(), epsilon=1.0)
    answers = np.array([[mechanism.ask(LATE), mechanism.ask(WEIGHTED)] for _ in range(500)])
    assert answers.mean(axis=0) == pytest.approx([0.4, 0.2], abs=1e-4)
    assert np.unique(np.rint(answers[:, 1] * 20_000) % 2).tolist() == [0, 1]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_a_claim_must_be_positive_and_finite(epsilon: float) -> None:
    for control in (FreshThresholdATG, NoiselessNATG, DoubleQueryNSG, ExactUpdatePMWG):
        with pytest.raises(ParameterError, match="epsilon"):
            control(start(), threshold=0.5, epsilon=epsilon)
    with pytest.raises(ParameterError, match="epsilon"):
        HalfScaleLaplace(start(), epsilon=epsilon)
