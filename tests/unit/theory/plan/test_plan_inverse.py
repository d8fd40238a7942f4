"""The inverse questions of a plan: what is found does, and two per cent less does not."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from support.plan_rows import row_of
from treering.theory.plan import GROWING, STATIC, least_epsilon, least_size, plan
from treering.theory.plan.rows import Case

CASES: Final = st.tuples(
    st.sampled_from([2, 64, 4096, 2**20]),
    st.sampled_from([10**4, 10**6, 10**9]),
    st.sampled_from([0.0, 1e-9]),
    st.sampled_from([1, 1000, 10**6]),
    st.sampled_from([0.2, 0.05, 0.01]),
    st.sampled_from([None, math.inf]),
)


@settings(max_examples=10, deadline=None)
@given(CASES, st.data())
def test_the_epsilon_found_does_and_two_per_cent_less_does_not(case: Any, data: st.DataObject) -> None:
    cells, size, delta, queries, alpha, horizon = case
    candidate = data.draw(st.sampled_from(STATIC if horizon is None else GROWING))
    asked = Case(cells, size, 1.0, delta, 0.05, queries, size if horizon is None else horizon)
    found = least_epsilon(candidate, asked, alpha)
    if found == math.inf:
        assert not candidate.alpha(asked.at(epsilon=10.0**6)) <= alpha
        return
    assert candidate.alpha(asked.at(epsilon=found)) <= alpha
    if found > 1e-8:
        assert candidate.alpha(asked.at(epsilon=0.98 * found)) > alpha


@settings(max_examples=10, deadline=None)
@given(CASES, st.data())
def test_the_rows_found_do_and_two_per_cent_fewer_do_not(case: Any, data: st.DataObject) -> None:
    cells, _, delta, queries, alpha, horizon = case
    candidate = data.draw(st.sampled_from(STATIC if horizon is None else GROWING))
    asked = Case(cells, 1, 1.0, delta, 0.05, queries, 1 if horizon is None else horizon)
    found = least_size(candidate, asked, alpha)
    if found == math.inf:
        assert not candidate.alpha(asked.at(size=2**59)) <= alpha
        return
    assert candidate.alpha(asked.at(size=int(found))) <= alpha
    fewer = math.floor(0.98 * found) - 1
    if fewer >= 1:
        assert candidate.alpha(asked.at(size=fewer)) > alpha


@pytest.mark.parametrize("given", [{"size": 10**6}, {"epsilon": 1.0}], ids=["epsilon", "size"])
def test_a_plan_for_alpha_names_what_each_mechanism_needs_and_the_best_needs_least(given: dict[str, Any]) -> None:
    planned = plan(128, **given, alpha=0.05)
    best, wanted = planned.best, planned.wanted
    assert best is not None
    assert wanted not in given
    assert getattr(best, wanted) == min(
        getattr(row, wanted) for row in planned.rows if not row.declared and row.runs and row.create
    )
    assert best.alpha == 0.05
    assert row_of(best.name, 128, int(best.size), best.epsilon).alpha <= 0.05
    assert "cannot be had" in str(planned)


def test_what_even_the_most_rows_do_not_give_cannot_be_had() -> None:
    hopeless = plan(2**22, epsilon=1e-9, delta=1e-300, queries=1, horizon=10**12, alpha=0.05)
    assert hopeless.best is None
    assert all(row.size == math.inf for row in hopeless.rows)
