"""A promise with a share: part of what keeps it, exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.budget.convert import rho_of
from treering.budget.promise import Promise


@given(st.fractions(Fraction(1, 10**6), 1), st.integers(1, 9), st.sampled_from([0.0, 1e-6]))
def test_a_share_is_that_part_of_the_budget(share: Fraction, rows: int, delta: float) -> None:
    whole = Promise(1.0, delta, rows)
    part = Promise(1.0, delta, rows, share)
    assert part.budget.total == whole.budget.total * share
    assert part.budget.kind == whole.budget.kind
    assert (part.epsilon, part.delta) == (whole.epsilon, whole.delta)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12))
def test_shares_that_sum_to_one_use_exactly_the_whole(weights: list[int]) -> None:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    parts = [Promise(0.3, share=share).budget.total for share in shares]
    assert sum(parts) == Fraction(3, 10)


def test_decimals_are_what_they_say() -> None:
    assert Promise(1, share=0.3).budget.total + Promise(1, share=0.7).budget.total == 1
    assert Promise(1, share=Decimal("0.1")).budget.total == Fraction(1, 10)
    assert Promise(1.0, 1e-6, share=0.25).budget.total == rho_of(1.0, 1e-6) / 4


@pytest.mark.parametrize("share", [0, -0.5, 1.001, math.nan, math.inf, "1", None, True])
def test_what_is_no_share(share: Any) -> None:
    with pytest.raises(tr.ParameterError, match="share") as caught:
        Promise(1.0, share=share)
    assert caught.value.parameter == "share"


def test_a_mechanism_is_given_a_promise_in_full_or_by_its_numbers() -> None:
    given = Promise(1.0, 1e-6, 3, 0.5)
    assert Promise.of(given) is given
    assert Promise.of(given, 1e-6) is given
    assert Promise.of(0.5, 1e-6) == Promise(0.5, 1e-6)
    with pytest.raises(tr.ParameterError, match="delta is part of the promise"):
        Promise.of(given, 1e-7)


def test_a_plain_promise_is_epsilon_and_delta_alone() -> None:
    assert Promise(1.0, 1e-6).plain
    assert Promise(1.0, share=1.0).plain
    assert not Promise(1.0, rows_per_person=2).plain
    assert not Promise(1.0, share=0.5).plain


def test_the_papers_profile_needs_a_plain_one() -> None:
    """Its constants are for epsilon and delta as they are."""
    db = tr.GrowingDatabase(tr.Schema({"x": tr.integers(0, 3)}))
    db.append_cells([0, 1, 2, 3])
    for promise in (Promise(1.0, share=0.5), Promise(1.0, rows_per_person=2)):
        with pytest.raises(tr.ParameterError, match="profile"):
            tr.PMWG(db, promise, alpha=0.5, beta=0.5, profile="paper")
    assert tr.PMWG(db, Promise(1.0), alpha=0.5, beta=0.5, profile="paper").spent == 0
