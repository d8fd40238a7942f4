"""Rings that are told of very many questions: each by itself is two groups, it and the rest."""

from __future__ import annotations

import math

import pytest

import treering as tr
from support.databases import TestDatabase
from support.rings import KINDS, ROWS, SCHEMA, cells, database, is_quote, paid, rings, truth
from treering.domain.query import MAX_TABLE
from treering.mechanisms.series.policy import MANY, portions
from treering.theory.rings import NORMAL

TEXT = "month IN (1, 2, 7) AND origin = 'JFK' AND late = 'yes'"


@KINDS
def test_a_question_by_itself_is_one_of_two_groups(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta, pace=MANY)
    quoted = mechanism.price(TEXT)
    answer = mechanism.ask(TEXT)
    (series,) = mechanism.series
    assert (series.attributes, series.groups) == (("late", "month", "origin"), 2)
    assert is_quote(quoted, paid(mechanism, 1))
    assert abs(answer.value - truth(db, TEXT)) <= answer.error
    assert mechanism.price(f"NOT ({TEXT})") == 0
    assert mechanism.ask(f"NOT ({TEXT})").value == pytest.approx(1 - answer.value)
    assert mechanism.price("month = 3 AND origin = 'JFK' AND late = 'yes'") > 0


def test_its_margin_is_the_smallest_that_the_price_can_buy() -> None:
    """1.96·√(1/(2c)), as for a single count of sensitivity 1; a series of all that it tells apart has more."""
    mechanism, fewer = rings(database(), pace=MANY), rings(database(), pace=MANY - 1)
    price = float(mechanism.price(TEXT))
    assert mechanism.ask(TEXT).margin * ROWS == pytest.approx(NORMAL * math.sqrt(1 / (2 * price)), abs=1)
    assert fewer.ask(TEXT).margin > 1.3 * mechanism.ask(TEXT).margin
    assert fewer.series[0].groups > 2


def test_what_a_group_by_tells_apart_is_still_one_series() -> None:
    months = [f"month = {month}" for month in range(1, 13)]
    mechanism = rings(database(), pace=MANY)
    mechanism.ask_many([*months, "month <= 2"])  # the last has a spread of 2·(10/12)
    assert [each.groups for each in mechanism.series] == [12]
    other = rings(database(), pace=MANY)
    other.ask_many([*months, "month <= 3"])  # and here, of 3·(9/12)
    assert [each.groups for each in other.series] == [12, 2]


def test_portions_hold_every_query_once_and_are_the_batches_of_a_small_pace() -> None:
    texts = ["late = 'yes'", "month <= 6", "month = 3", "origin = 'JFK' AND late = 'no'", "origin = 'EWR'"]
    queries = [tr.parse(text, SCHEMA) for text in texts]
    for pace in (1, MANY - 1, MANY):
        found = portions(queries, pace)
        assert sorted(map(str, queries)) == sorted(str(query) for batch, _ in found for query in batch)
        for batch, groups in found:
            assert groups.whole
            assert all(groups.reduced(query, groups.classes) is not None for query in batch)
    assert all(groups.table is None for _, groups in portions(queries, MANY - 1))


def test_weights_and_joint_values_without_number_are_no_pairs() -> None:
    weighted = tr.Query.weighted(SCHEMA, [month / 12 for month in range(1, 13)], attributes=["month"])
    ((_, groups),) = portions([weighted], MANY)
    assert groups.number == 12
    wide = tr.Schema({f"a{number}": tr.integers(0, 1) for number in range(21)})
    every = tr.Query.where(wide, **dict.fromkeys(wide.names, 1))
    ((_, atoms),) = portions([every], MANY)
    assert atoms.number == 2**21 > MAX_TABLE


@KINDS
def test_replay_and_growth(delta: float) -> None:
    db = database()
    live = rings(db, delta, pace=MANY)
    live.ask(TEXT)
    for seed in range(3):
        db.append_cells(cells(500, seed))
        live.ask(TEXT)
    again = rings(db, delta, pace=MANY)
    assert (again.state, again.series) == (live.state, live.series)
    assert again.ask(TEXT) == live.ask(TEXT)
    since = ROWS + 1000
    assert again.ask(TEXT, since=since) == live.ask(TEXT, since=since)
    assert abs(live.ask(TEXT).value - truth(db, TEXT)) <= live.ask(TEXT).error


def test_a_table_that_is_wide_is_asked_by_values() -> None:
    wide = tr.Schema({"a": tr.integers(0, 1999), "b": tr.integers(0, 1999)})
    mechanism = rings(TestDatabase(wide, [0] * ROWS), pace=MANY)
    answer = mechanism.ask("a = 0 AND b = 0")
    assert abs(answer.value - 1) <= answer.error
    assert mechanism.series[0].groups == 2
