"""The embedded growing database."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.trusted.rows.intake import DroppedRows

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})
GOOD = {"origin": "JFK", "month": 3}
BAD = {"origin": "BOS", "month": 3}


def test_append_returns_the_new_size() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    assert db.size == 0
    assert db.append([GOOD, GOOD]) == 2
    assert db.append([]) == 2
    assert db.append([GOOD]) == 3
    assert db.append_cells(np.array([0, 1])) == 5
    assert db.size == 5


def test_a_bad_row_refuses_the_whole_batch() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append([GOOD])
    with pytest.raises(tr.DataError, match="row 1, column 'origin'.*nothing of the batch was taken"):
        db.append([GOOD, BAD, GOOD])
    assert (db.size, db.dropped) == (1, 0)


def test_drop_takes_the_rest_and_reports() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    with pytest.warns(DroppedRows, match="1 of 3 rows"):
        assert db.append([GOOD, BAD, GOOD], on_invalid="drop") == 2
    with pytest.warns(DroppedRows, match="1 of 1 row did not fit and was dropped"):
        db.append([BAD], on_invalid="drop")
    assert (db.size, db.dropped) == (2, 2)
    db.append([GOOD], on_invalid="drop")
    assert (db.size, db.dropped) == (3, 2)


@pytest.mark.parametrize("word", ["ignore", "", None, True])
def test_on_invalid_is_one_of_two(word: Any) -> None:
    db = tr.GrowingDatabase(SCHEMA)
    with pytest.raises(tr.ParameterError, match='on_invalid must be "refuse" or "drop"'):
        db.append([GOOD], on_invalid=word)
    assert db.size == 0


def test_cells_outside_the_universe() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    for bad in ([0, SCHEMA.cells], [-1], [0.5], [[0, 1]], ["a"]):
        with pytest.raises(tr.DataError, match="cell numbers"):
            db.append_cells(np.array(bad))
    assert db.size == 0


def test_a_schema_is_needed() -> None:
    not_a_schema: Any = {"origin": ["EWR"]}
    with pytest.raises(tr.SchemaError, match="needs a Schema, not dict"):
        tr.GrowingDatabase(not_a_schema)


def test_it_shows_its_size_and_nothing_else() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append([GOOD] * 1234)
    assert repr(db) == str(db) == "GrowingDatabase(1,234 rows; 24 cells)"
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            escape(db)
