"""A growing database in memory, and one whose rows stay in their table: what each takes, shows and refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import ibis
import numpy as np
import pytest

import treering as tr
from treering.budget.promise import Budget
from treering.errors import EngineError
from treering.noise import Laplace
from treering.trusted.memory.database import GrowingDatabase
from treering.trusted.memory.points import GrowingPoints
from treering.trusted.rows.intake import DroppedRows

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})


class Watcher:
    """Counts how often it was told."""

    def __init__(self, db: Any) -> None:
        self.told = 0
        db.watch(self.grown)

    def grown(self) -> None:
        self.told += 1


# -- a table that stays where it is ------------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Iterator[Any]:
    made = ibis.duckdb.connect()
    made.raw_sql("CREATE TABLE rows (id BIGINT, a BIGINT)")
    made.raw_sql("INSERT INTO rows VALUES (1, 0), (2, 3), (3, 3)")
    yield made
    made.disconnect()


def counts(db: GrowingDatabase) -> list[int]:
    noisy = db.open_gate(Budget("pure", Fraction(10**9))).histogram(Laplace(0.02)).counts
    found: list[int] = noisy.tolist()
    return found


def test_a_table_is_taken_in_once_and_its_new_rows_with_every_refresh(connection: Any) -> None:
    db = GrowingDatabase.from_table(connection.table("rows"), SCHEMA)
    watcher = Watcher(db)
    assert (db.size, counts(db)) == (3, [1, 0, 0, 2])
    assert db.refresh() == 3
    connection.raw_sql("INSERT INTO rows VALUES (4, 1), (5, 9)")
    with pytest.raises(tr.DataError):
        db.refresh()
    assert (db.size, db.dropped) == (3, 0)
    with pytest.warns(DroppedRows, match="1 of 2 rows"):
        assert db.refresh(on_invalid="drop") == db.size == 4
    assert db.refresh() == 4
    assert (db.dropped, counts(db)) == (1, [1, 1, 0, 2])
    assert watcher.told == 3


def test_the_rows_of_a_table_are_added_there(connection: Any) -> None:
    db = GrowingDatabase.from_table(connection.table("rows"), SCHEMA)
    adding: list[Callable[[], int]] = [lambda: db.append([{"a": 1}]), lambda: db.append_cells([1])]
    for add in adding:
        with pytest.raises(EngineError, match="stay in their table: add them there"):
            add()
    assert (db.size, counts(db)) == (3, [1, 0, 0, 2])


def test_a_database_without_a_table_has_nothing_to_refresh_from() -> None:
    db = GrowingDatabase(SCHEMA)
    with pytest.raises(EngineError, match="has a table to refresh from"):
        db.refresh()
    assert db.size == 0


def test_the_budgets_of_several_gates_are_their_own() -> None:
    for db in (GrowingDatabase(SCHEMA), GrowingPoints(2, "signs")):
        one, two = (db.open_gate(Budget("pure", Fraction(total))) for total in (1, 2))
        one.histogram(Laplace(4.0))
        assert [one.spent, two.spent, two.budget.total] == [Fraction(1, 2), 0, 2]
        assert (len(one.history), len(two.history)) == (1, 0)


@pytest.mark.parametrize("cells", [[], np.array([], dtype=np.float64), [0, 1], np.array([0, 1], dtype=np.uint8)])
def test_cells_come_in_any_array_of_integers(cells: Any) -> None:
    db = GrowingDatabase(SCHEMA)
    assert db.append_cells(cells) == db.size == len(cells)
