"""An answer's margin and error, as shares and in rows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(("margin", "rows"), [(0.0, 1), (0.0001, 1), (0.0005, 1), (0.0006, 2), (0.01, 11)])
def test_a_margin_in_rows_includes_the_rounding(margin: float, rows: int) -> None:
    assert tr.Answer(0.2501, 0.02, 1000, "measured", margin).count_margin == rows


def test_the_fields_come_in_the_order_of_the_record() -> None:
    answer = tr.Answer(0.25, 0.02, 1000, "measured", 0.01)
    assert (answer.value, answer.error, answer.size, answer.kind, answer.margin) == (0.25, 0.02, 1000, "measured", 0.01)
