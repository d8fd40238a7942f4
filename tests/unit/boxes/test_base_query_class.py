from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.boxes.base import QueryClass, constant_share, declared

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
LATE, NOT_LATE = tr.parse("late = 'yes'", SCHEMA), tr.parse("late = 'no'", SCHEMA)
BOTH = tr.parse("late = 'yes' AND origin = 'JFK'", SCHEMA)
HALF = tr.Query.weighted(SCHEMA, [0.25, 0.5, 0.75], attributes=["origin"], resolution=4)
EVERY = tr.Query.weighted(SCHEMA, [0.5] * 6, resolution=2)
"""A constant query that is not all or nothing."""


def test_equal_queries_and_complements_are_one() -> None:
    learnt = QueryClass(SCHEMA, ["late = 'yes'", LATE, NOT_LATE, BOTH, ~BOTH, HALF, ~HALF, "TRUE", EVERY])
    assert learnt.queries == (LATE, BOTH, HALF)
    assert len(learnt) == 3
    assert learnt.spreads == (Fraction(1), Fraction(1), Fraction(1, 2))


def test_a_complement_first_serves_the_query() -> None:
    learnt = QueryClass(SCHEMA, [~BOTH, BOTH, ~HALF])
    assert learnt.queries == (~BOTH, ~HALF)
    places, flipped = learnt.find([BOTH, ~BOTH, HALF], "Box")
    assert (places.tolist(), flipped.tolist()) == ([0, 0, 1], [True, False, True])


def test_answers_are_gathered_turned_and_known() -> None:
    learnt = QueryClass(SCHEMA, [LATE, BOTH])
    asked = [~BOTH, NOT_LATE, LATE, tr.Query.all(SCHEMA), tr.Query.none(SCHEMA), EVERY]
    shares, errors = learnt.shares(asked, "Box", np.array([0.25, 0.125]), np.array([0.01, 0.02]))
    assert shares.tolist() == [0.875, 0.75, 0.25, 1.0, 0.0, 0.5]
    assert errors.tolist() == [0.02, 0.01, 0.01, 0.0, 0.0, 0.0]
    shares, errors = learnt.shares([], "Box", np.array([0.25, 0.125]), np.array([0.01, 0.02]))
    assert len(shares) == len(errors) == 0


def test_what_is_not_in_it_is_named() -> None:
    learnt = QueryClass(SCHEMA, [LATE])
    with pytest.raises(
        tr.QueryError, match="query 1: late = 'yes' AND origin = 'JFK' is not|query 1: origin = 'JFK'.*"
    ):
        learnt.find([LATE, BOTH], "Box")
    with pytest.raises(tr.QueryError, match="is not the query that this Box was made for, nor the complement of one"):
        learnt.find([~BOTH], "Box")


def test_wide_conjunctions_need_no_complement() -> None:
    """One over more joint values than a table may have has no complement that could be asked."""
    wide = tr.Schema({name: tr.integers(0, 1199) for name in "ab"})
    query = tr.Query.where(wide, a=3, b=5)
    assert QueryClass(wide, [query]).find([query], "Box")[0].tolist() == [0]


def test_constants_know_their_share() -> None:
    assert [constant_share(query) for query in (tr.Query.all(SCHEMA), tr.Query.none(SCHEMA), EVERY)] == [1.0, 0.0, 0.5]
    assert len(QueryClass(SCHEMA, ["TRUE"])) == 0


@pytest.mark.parametrize("bad", ["late = 'yes'", LATE, None, 3, [], [LATE, 3], [None]])
def test_bad_lists_are_refused(bad: Any) -> None:
    with pytest.raises(tr.ParameterError, match="queries") as caught:
        declared(bad)
    assert caught.value.parameter == "queries"


def test_lists_are_taken_as_they_come() -> None:
    given: list[tr.Query | str] = ["late = 'yes'", LATE]
    assert declared(iter(given)) == ("late = 'yes'", LATE)
    with pytest.raises(tr.QueryError, match="query 1"):
        QueryClass(SCHEMA, [LATE, "colour = 'red'"])
