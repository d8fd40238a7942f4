"""Persons: margins hold for 95% of answers, errors always, and their widths are what the theory says of flags.

Coverage is counted over answers with independent noise, one group of one series each: limits as in test_rings.py.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.clinic import SCHEMA, WARDS, Clinic, first, matching, patients, visits
from treering.domain.language.items import Item
from treering.mechanisms.persons import Persons
from treering.mechanisms.rings import Rings
from treering.trusted.memory.database import GrowingDatabase

LEAST, MOST, TRIALS = 0.92, 0.99, 2_400
BETA = 1e-9
LIMIT = 30
FRAME = visits(500)
WEEKS = 6
MONTHS = [tr.Query.where(SCHEMA, month=month) for month in range(1, 13)]


def promise(epsilon: float, delta: float = 1e-6, limit: int = LIMIT) -> tr.Promise:
    return tr.Promise(epsilon, delta, rows_per_person=limit)


def asked(mechanism: Persons, items: list[Item]) -> list[tr.Answer]:
    return mechanism.execute(mechanism.plan(items)).answers()


def truth(seen: pa.Table, item: Item, cap: int, month: int) -> int:
    if item.kind == "persons":
        return patients(seen, month=month)
    return int(matching(first(seen, cap), month=month).num_rows)


@cache
def ratios(delta: float, cap: int) -> list[np.ndarray[Any, Any]]:
    """Errors over margins after each batch: of persons by month or, with a cap, of rows."""
    clinic, found = Clinic(LIMIT), []
    items = [Item("count" if cap else "persons", query, cap=cap) for query in MONTHS]
    made: list[Persons] = []
    for week in range(WEEKS):
        seen = FRAME.slice(0, (week + 1) * FRAME.num_rows // WEEKS)
        clinic.append(seen.slice(clinic.size))
        made = made or [
            Persons(clinic, promise(30.0 if delta else 400.0, delta), beta=BETA) for _ in range(TRIALS // len(items))
        ]
        true = [truth(seen, item, cap, month) for month, item in enumerate(items, 1)]
        each = [asked(mechanism, items) for mechanism in made]
        for answers in each:
            for answer, number in zip(answers, true, strict=True):
                assert abs(answer.value - number / answer.size) <= answer.error
        found.append(
            np.array(
                [
                    abs(answer.value - number / answer.size) / answer.margin
                    for answers in each
                    for answer, number in zip(answers, true, strict=True)
                ]
            )
        )
    assert all(len(mechanism.describe()["series"]) == 1 for mechanism in made)
    return found


@pytest.mark.parametrize("cap", [0, 3])
@pytest.mark.parametrize("week", [0, 1, WEEKS - 1])
def test_margins_hold_for_95_percent_of_answers(week: int, cap: int) -> None:
    found = ratios(1e-6, cap)[week]
    assert len(found) == TRIALS
    assert LEAST <= np.mean(found <= 1) <= MOST
    assert np.mean(found <= 0.6) < LEAST


def test_pure_margins_hold_for_at_least_95_percent_of_answers() -> None:
    for found in ratios(0.0, 0):
        assert np.mean(found <= 1) >= LEAST
        assert np.mean(found <= 1 / 3) < LEAST


# -- how wide they are -------------------------------------------------------------------------------------------------


def margins(items: list[Item]) -> list[float]:
    """The margins of persons, in persons or rows: they do not depend on the rows."""
    clinic = Clinic(LIMIT)
    clinic.append(FRAME)
    found = asked(Persons(clinic, promise(1000.0)), items)
    return [answer.margin * answer.size for answer in found]


def one_row_each(queries: list[tr.Query]) -> list[float]:
    """Those of rows where each person has one, under the same promise."""
    db = GrowingDatabase(SCHEMA)
    db.append(FRAME.drop_columns(["patient"]))
    return [answer.margin * db.size for answer in Rings(db, promise(1000.0, limit=1)).ask_many(queries)]


@pytest.mark.parametrize(("queries", "most"), [(MONTHS, 12), ([tr.Query.where(SCHEMA, ward=w) for w in WARDS], 6)])
def test_persons_by_group_are_as_sharp_as_the_root_of_their_groups_allows(queries: list[tr.Query], most: int) -> None:
    ours, theirs = margins([Item("persons", query) for query in queries]), one_row_each(queries)
    assert max(ours) <= 1.1 * math.sqrt(most) * min(theirs)
    assert max(ours) >= 0.9 * math.sqrt(most) * min(theirs)


def test_a_single_question_is_nearly_as_sharp_as_with_one_row_a_person() -> None:
    (ours,), (theirs,) = margins([Item("persons", MONTHS[0])]), one_row_each(MONTHS[:1])
    assert ours <= 1.5 * theirs


def test_a_cap_on_groups_makes_persons_sharper() -> None:
    ours = margins([Item("persons", query, cap=2) for query in MONTHS])
    assert max(ours) <= 1.1 * math.sqrt(2) * min(one_row_each(MONTHS))


def test_capped_rows_are_as_wide_as_their_cap() -> None:
    ours, theirs = margins([Item("count", query, cap=3) for query in MONTHS]), one_row_each(MONTHS)
    assert 2.9 <= max(ours) / min(theirs) <= 3.3
