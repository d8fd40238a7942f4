"""An answer's margin and error, as shares and in rows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

import treering as tr

SHARES = st.floats(0.0, 1.0)


def test_without_a_better_statement_the_margin_is_the_error() -> None:
    assert tr.Answer(0.5, 0.01, 1000, "easy").margin == 0.01
    assert tr.Answer(0.5, 0.01, 1000, "easy", math.nan).margin == 0.01
    assert tr.Answer(0.5, 0.01, 1000, "easy") == tr.Answer(0.5, 0.01, 1000, "easy", 0.01)


@given(SHARES, SHARES, st.one_of(SHARES, st.floats(1.0, 1e9), st.just(math.nan)), st.integers(1, 10**9))
def test_a_margin_is_never_above_the_error(value: float, error: float, margin: float, size: int) -> None:
    answer = tr.Answer(value, error, size, "measured", margin)
    assert answer.margin <= answer.error == error
    assert answer.count_margin <= answer.count_error
    assert answer.margin in (margin, error)


@pytest.mark.parametrize(("margin", "rows"), [(0.0, 0), (0.0005, 0), (0.0008, 0), (0.0009, 1), (0.01, 10)])
def test_a_margin_in_rows_holds_the_whole_numbers_within_it(margin: float, rows: int) -> None:
    assert tr.Answer(0.2501, 0.02, 1000, "measured", margin).count_margin == rows


@given(st.integers(1, 10**6), st.floats(0.0, 1.0), st.floats(0.0, 500.0), st.integers(-500, 500))
def test_a_count_is_within_its_margin_if_the_reading_is_and_no_wish_is_exceeded(
    size: int, value: float, margin: float, step: int
) -> None:
    answer = tr.Answer(value, 1.0, size, "measured", min(1.0, margin / size))
    assert answer.count_margin <= margin + 0.5 + 1e-5
    truth = answer.count + step
    if 0 <= truth <= size and abs(truth - value * size) <= answer.margin * size:
        assert abs(truth - answer.count) <= answer.count_margin


@given(st.floats(0.0, 1.0), st.integers(1, 500), st.integers(1000, 10**6))
def test_a_whole_margin_that_was_wished_for_is_what_is_shown(value: float, margin: int, size: int) -> None:
    assert tr.Answer(value, 1.0, size, "measured", margin / size).count_margin <= margin


def test_the_ends_of_the_interval_are_shares() -> None:
    answer = tr.Answer(0.25, 0.4, 1000, "measured", 0.1)
    assert (answer.low, answer.high) == pytest.approx((0.15, 0.35))
    assert (tr.Answer(0.05, 0.4, 1000, "easy", 0.1).low, tr.Answer(0.95, 0.4, 1000, "easy", 0.1).high) == (0.0, 1.0)


@given(st.floats(-100, 100), st.floats(0, 50), st.floats(0, 50), st.floats(-10, 10), st.floats(0, 20))
def test_an_estimate_within_bounds_loses_no_truth_that_is_possible(
    value: float, below: float, above: float, least: float, width: float
) -> None:
    most = least + width
    free = tr.Estimate(value, value - below, value + above)
    held = free.within(least, most)
    assert held.value is not None
    assert least <= held.low <= held.value <= held.high <= most
    for truth in (least, (least + most) / 2, most):
        if free.low <= truth <= free.high:
            assert held.low - 1e-9 <= truth <= held.high + 1e-9
    unknown = tr.Estimate(None, -math.inf, math.inf).within(least, most)
    assert (unknown.value, unknown.low, unknown.high) == (None, least, most)


def test_the_fields_come_in_the_order_of_the_record() -> None:
    answer = tr.Answer(0.25, 0.02, 1000, "measured", 0.01)
    assert (answer.value, answer.error, answer.size, answer.kind, answer.margin) == (0.25, 0.02, 1000, "measured", 0.01)
