"""How an answer ages: the bound holds for every database that the new rows could make, and is attained."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.domain.query import Query
from treering.theory.ageing import aged, aged_bound

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 1)})
COUNTING = tr.parse("a <= 1 AND b = 0", SCHEMA)
EITHER = tr.parse("a = 0 OR b = 1", SCHEMA)
NARROW = Query.weighted(SCHEMA, [0.25, 0.5, 0.5, 0.75], attributes=["a"], resolution=4)
ALL, NONE = Query.all(SCHEMA), Query.none(SCHEMA)
QUARTER = Query.weighted(SCHEMA, [0.25] * 8, resolution=4)
RANGES = {COUNTING: (0, 1), EITHER: (0, 1), NARROW: (0.25, 0.75), ALL: (1, 1), NONE: (0, 0), QUARTER: (0.25, 0.25)}


def age(query: Query, value: float, error: float, fresh: float, centred: bool) -> tuple[float, float]:
    values, errors = aged([query], np.array([value]), np.array([error]), fresh, centred=centred)
    return float(values[0]), float(errors[0])


@pytest.mark.parametrize("query", [COUNTING, EITHER])
def test_the_two_formulas(query: Query) -> None:
    assert age(query, 0.3, 0.1, 0.8, centred=True) == pytest.approx((0.8 * 0.3 + 0.1, 0.8 * 0.1 + 0.1))
    assert age(query, 0.3, 0.1, 0.8, centred=False) == pytest.approx((0.3, 0.1 + 0.2))
    assert aged_bound(0.1, 0.8, centred=True) == pytest.approx(0.18)
    assert aged_bound(0.1, 0.8, centred=False) == pytest.approx(0.3)


@pytest.mark.parametrize("query", RANGES)
@pytest.mark.parametrize("centred", [True, False])
def test_nothing_ages_without_growth(query: Query, centred: bool) -> None:
    low, high = RANGES[query]
    assert age(query, 0.5, 0.1, 1.0, centred) == (min(high, max(low, 0.5)), min(0.1, high - low))


@pytest.mark.parametrize("query", [ALL, NONE, QUARTER])
@pytest.mark.parametrize("centred", [True, False])
def test_a_constant_is_known_for_ever(query: Query, centred: bool) -> None:
    assert age(query, 0.7, 0.4, 0.5, centred) == (RANGES[query][0], 0)


@given(
    query=st.sampled_from(list(RANGES)),
    then=st.floats(0, 1),
    new=st.floats(0, 1),
    value=st.floats(-0.5, 1.5),
    fresh=st.floats(0.01, 1),
    centred=st.booleans(),
)
@settings(deadline=None)
def test_the_error_holds_whatever_the_new_rows_are(
    query: Query, then: float, new: float, value: float, fresh: float, centred: bool
) -> None:
    """If the released value was within its error then, the answer is now."""
    low, high = RANGES[query]
    before, added = low + then * (high - low), low + new * (high - low)
    now = fresh * before + (1 - fresh) * added
    answer, error = age(query, value, abs(value - before), fresh, centred)
    assert abs(answer - now) <= error + 1e-12
    assert low - 1e-12 <= answer <= high + 1e-12
    if high - low == 1:
        assert error <= aged_bound(abs(value - before), fresh, centred=centred) + 1e-12


@pytest.mark.parametrize("query", [COUNTING, NARROW])
def test_no_smaller_error_would_hold(query: Query) -> None:
    """The release was too high by its error, and the new rows are all at the low end."""
    low, high = RANGES[query]
    before, fresh = (low + high) / 2, 0.6
    answer, error = age(query, before + 0.1, 0.1, fresh, centred=True)
    assert answer - (fresh * before + (1 - fresh) * low) == pytest.approx(error)


def test_a_batch_is_its_single_queries() -> None:
    queries = list(RANGES)
    values, errors = np.linspace(0, 1, len(queries)), np.linspace(0.01, 0.3, len(queries))
    together = aged(queries, values, errors, 0.7, centred=True)
    for place, query in enumerate(queries):
        assert age(query, float(values[place]), float(errors[place]), 0.7, True) == (
            together[0][place],
            together[1][place],
        )
