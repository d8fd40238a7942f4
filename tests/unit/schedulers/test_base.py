"""What schedulers check before they begin: that something is promised, and that the paper covers the promise."""

from __future__ import annotations

import re

import pytest

import treering as tr
from treering.budget.promise import Promise
from treering.schedulers.base import check_covered, useful


def falling(size: int) -> float:
    """A plan is its error here; below 30 rows there is none."""
    if size < 30:
        raise tr.GuaranteeError("too few to plan with")
    return 100 / size


def itself(error: float) -> float:
    return error


def test_a_plan_that_promises_something_is_taken_as_it_is() -> None:
    assert useful(falling, itself, 101) == 100 / 101
    assert useful(falling, itself, 50, limit=2.1) == 2.0


@pytest.mark.parametrize(
    ("start", "limit", "problem"),
    [
        (100, 1.0, "no error below 1 is guaranteed from 100 rows on: it could be 1. "),
        (50, 2.0, "no error below 2 is guaranteed from 50 rows on: it could be 2. "),
        (40, 0.5, "no error below 0.5 is guaranteed from 40 rows on: it could be 2.5. "),
        (1, 1.0, "too few to plan with. "),
        (10, 4.0, "too few to plan with. "),
    ],
)
def test_a_start_that_promises_nothing_names_one_that_would_do(start: int, limit: float, problem: str) -> None:
    with pytest.raises(tr.GuaranteeError, match=re.escape(problem)) as caught:
        useful(falling, itself, start, limit)
    named = re.search(rf"From about ([0-9,]+) rows on an error below {limit:.3g} is guaranteed", str(caught.value))
    assert named is not None
    enough = int(named[1].replace(",", ""))
    assert useful(falling, itself, enough, limit) < limit
    assert enough <= 1.2 * max(30, 100 / limit) + 2


def test_an_error_of_one_promises_nothing() -> None:
    with pytest.raises(tr.GuaranteeError, match="no error below 1 is guaranteed from 99 rows on: it could be 1.01"):
        useful(falling, itself, 99)


def test_where_no_start_would_do_that_is_said() -> None:
    with pytest.raises(tr.GuaranteeError, match="it could be 3. No start would do: the box's error does not fall"):
        useful(lambda _: 3.0, itself, 10)


def refusing(size: int) -> float:
    raise tr.GuaranteeError(f"never, not with {size} rows either")


def test_where_no_plan_can_be_made_at_all_that_is_said() -> None:
    with pytest.raises(tr.GuaranteeError, match="^never, not with 10 rows either. No start would do"):
        useful(refusing, itself, 10)


@pytest.mark.parametrize("promise", [Promise(0.5, share=0.5), Promise(0.5, rows_per_person=2)])
def test_the_paper_is_about_whole_promises_of_one_row(promise: Promise) -> None:
    with pytest.raises(tr.GuaranteeError, match="theorems are for a whole promise, one row a person: use profile="):
        check_covered(promise)
    check_covered(Promise(0.5))
