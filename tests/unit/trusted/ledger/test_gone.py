"""Positions of erased rows: counted, listed and written as spans."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, strategies as st

from treering.trusted.ledger.gone import Gone, spans

POSITIONS = st.sets(st.integers(1, 60))


@given(POSITIONS, POSITIONS, st.integers(0, 70), st.integers(0, 70))
def test_positions_are_a_set(one: set[int], other: set[int], start: int, end: int) -> None:
    gone = Gone()
    for each in (one, other):
        gone.add(spans(np.array(sorted(each), dtype=np.int64)))
    both = sorted(one | other)
    assert gone.positions.tolist() == both
    assert len(gone) == len(both)
    start, end = sorted((start, end))
    within = [position for position in both if start < position <= end]
    assert gone.within(start, end) == len(within)
    assert gone.rows(start, end).tolist() == [position - start - 1 for position in within]


@given(POSITIONS)
def test_spans_are_as_few_as_can_be(found: set[int]) -> None:
    listed = spans(np.array(sorted(found), dtype=np.int64))
    assert [each for first, last in listed for each in range(first, last + 1)] == sorted(found)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(listed))
