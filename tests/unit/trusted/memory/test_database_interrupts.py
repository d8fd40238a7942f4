"""A refresh that is interrupted is whole, absent, or makes the database refuse: a retry takes each row once."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.growing_table import SCHEMA, Content, GrowingTable
from support.interrupts import Interrupt

STRIDE = 1 if "TORTURE_KILLS" in os.environ else 67
"""Steps from one interrupt to the next where every step takes a reading of the engine."""

COUNTING = ("trusted/cells.py", "memory/database.py", "rows/kept.py")
READING = tuple(f"engines/{name}.py" for name in ("source", "addresses", "spilling", "statements", "columns", "duckdb"))


def found(db: tr.GrowingDatabase) -> Content:
    """What a database has; the marginals that it has kept from before agree."""
    every = db._rows.cells.marginal((0, 1))
    for place in (0, 1):
        assert (db._rows.cells.marginal((place,)) == every.sum(axis=1 - place)).all()
    return Content(db.size, db.dropped, every.tolist())


def database(table: GrowingTable, source: Any) -> tr.GrowingDatabase:
    """A database with the first rows, and marginals of them, that refreshes from this source."""
    db = tr.GrowingDatabase(SCHEMA)
    made: Any = db
    made._source = table.known
    db.refresh("drop")
    assert found(db) == table.before
    made._source = source
    return db


def free(lock: Any) -> bool:
    """Whether another thread could have a lock."""
    had: list[bool] = []
    other = threading.Thread(target=lambda: had.append(lock.acquire(blocking=False) and not lock.release()))
    other.start()
    other.join()
    return had == [True]


def torn(db: tr.GrowingDatabase) -> bool:
    """Whether a database refuses what is asked of it from now on."""
    assert free(db._rows.lock)
    if not db._rows._torn:
        return False
    for use in (partial(db._rows.add_cells, np.arange(3)), partial(tr.ATG(db, 0.5, 1.0).ask, "TRUE")):
        with pytest.raises(tr.TreeringError, match="an append was interrupted while its rows were counted"):
            use()
    return True


def refreshed(db: tr.GrowingDatabase, table: GrowingTable) -> bool:
    """Whether a retry of the refresh takes each row once. Otherwise the database is torn."""
    assert free(db._refreshing)
    if torn(db):
        return False
    for _ in range(2):
        db.refresh("drop")
        assert found(db) == table.after
    return True


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.DroppedRows)
        yield


@pytest.fixture
def table(tmp_path: Path) -> GrowingTable:
    made = GrowingTable(tmp_path / "rows.duckdb", 40, 130)
    made.grow()
    return made


def test_an_interrupt_at_any_step_of_an_append_that_drops_rows() -> None:
    """Those dropped are counted with those taken in, or neither are."""
    given = [{"late": "yes", "month": 1 + row % 13} for row in range(26)]
    step, fell, outcomes = 0, True, []
    while fell:
        db = tr.GrowingDatabase(SCHEMA)
        db.append(given[:1])
        interrupt = Interrupt(step, *COUNTING)
        with suppress(KeyboardInterrupt), interrupt:
            db.append(given, "drop")
        outcomes.append("torn" if torn(db) else (db.size, db.dropped))
        fell, step = interrupt.fell, step + 1
    assert outcomes[-1] == (25, 2)
    assert set(outcomes) == {(1, 0), "torn", (25, 2)}


def test_an_interrupt_at_any_step_of_counting(table: GrowingTable) -> None:
    step, fell, outcomes = 0, True, []
    while fell:
        db = database(table, table.known)
        interrupt = Interrupt(step, *COUNTING)
        with suppress(KeyboardInterrupt), interrupt:
            db.refresh("drop")
        outcomes.append(refreshed(db, table))
        fell, step = interrupt.fell, step + 1
    assert outcomes[-1]
    assert outcomes.count(False) > 5
    assert outcomes.count(True) > 20


def test_an_interrupt_at_any_step_of_reading(
    table: GrowingTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is as it was, and so is the engine: no connection is left, and nothing that one has spilled."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    step, fell = 0, True
    while fell:
        db = database(table, table.source)
        before = db.size
        interrupt = Interrupt(step, *READING)
        with suppress(KeyboardInterrupt), interrupt:
            db.refresh("drop")
        fell = interrupt.fell
        assert db.size == (before if fell else table.after.size)
        table.execute("select 1")
        assert (
            len([*temporary.iterdir()]) <= 1
        )  # An interrupt can fall into its removal: the next connection removes it.
        assert refreshed(db, table)
        assert not any(temporary.iterdir())
        step += STRIDE
    assert step > 400
