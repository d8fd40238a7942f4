"""Rings: what is no question to what is known is never answered wrongly, and a table that shrank is refused."""

from __future__ import annotations

from typing import Any, Final

import ibis
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.rings import KINDS, SCHEMA, cells, database, rings

PLENTY: Final = 1e6
"""So large an epsilon that an answer errs by less than half a row in 2000."""


@KINDS
@settings(max_examples=25)
@given(data=st.data())
def test_a_question_that_is_no_union_of_groups_opens_a_series_and_is_answered_right(
    delta: float, data: st.DataObject
) -> None:
    """Weights and conditions at random, of which later ones cut across the groups of earlier ones, while rows come."""
    db = database(2000)
    mechanism = rings(db, delta, epsilon=PLENTY)
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 6))):
        positions = data.draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True))
        chosen: dict[str, Any] = {}
        for name in positions:
            attribute = SCHEMA.attributes[name]
            values = [attribute.value(code) for code in range(attribute.size)]
            chosen[name] = data.draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
        query = tr.Query.where(SCHEMA, **chosen)
        if data.draw(st.booleans()):
            query = ~query
        before = len(mechanism.series)
        free = mechanism.price(query) == 0
        answer = mechanism.ask(query)
        truth = db.rows.cells.count(query) / db.size
        assert abs(answer.value - truth) <= max(answer.error, 1e-6) < 0.001
        assert len(mechanism.series) == before or not free
        db.append_cells(generator.integers(0, SCHEMA.cells, 100).tolist())


@KINDS
def test_conditions_that_overlap_are_told_apart(delta: float) -> None:
    """A batch may ask what it likes: its groups are what its conditions tell apart, which never overlap."""
    db = database(2000)
    mechanism = rings(db, delta, epsilon=PLENTY)
    texts = ["month <= 6", "month >= 4", "month = 5 AND late = 'yes'", "late = 'yes' OR month = 12", "late = 'no'"]
    answers = mechanism.ask_many(texts)
    for text, answer in zip(texts, answers, strict=True):
        assert answer.count == db.rows.cells.count(tr.parse(text, SCHEMA))
    (series,) = mechanism.series
    groups = mechanism._shelf.rings[0].series.groups
    assert groups.whole
    assert groups.table is None
    assert series.groups == groups.number


def test_a_table_that_shrank_is_refused_and_what_is_known_stays() -> None:
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE rows (id BIGINT, late VARCHAR, month BIGINT, origin VARCHAR)")
    connection.raw_sql("INSERT INTO rows SELECT i, 'yes', i % 12 + 1, 'JFK' FROM range(2000) r(i)")
    db = tr.GrowingDatabase.from_table(connection.table("rows"), SCHEMA)
    mechanism = tr.Rings(db, 1.0, 1e-6)
    known = mechanism.ask("month = 3")
    state, spent = mechanism.state, mechanism.spent
    connection.raw_sql("DELETE FROM rows WHERE id >= 1500")
    with pytest.raises(tr.EngineError):
        db.refresh()
    assert (mechanism.state, mechanism.spent, db.size) == (state, spent, 2000)
    assert mechanism.ask("month = 3") == known
    connection.disconnect()


@pytest.mark.parametrize("use", ["ask", "price"])
def test_an_empty_table_touches_nothing(use: str) -> None:
    db = TestDatabase(SCHEMA)
    mechanism = rings(db)
    with pytest.raises(tr.GuaranteeError, match="empty"):
        getattr(mechanism, use)("late = 'yes'")
    assert (mechanism.series, mechanism.spent, db.touched, db.journal.events()) == ((), 0, 0, ())
    db.append_cells(cells(5000))
    assert mechanism.ask("late = 'yes'").size == 5000
