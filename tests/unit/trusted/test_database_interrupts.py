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

import duckdb
import numpy as np
import pytest

import treering as tr
from support.interrupts import Interrupt
from treering.trusted.database import OnInvalid
from treering.trusted.engines.source import Increment, Source, Watermark

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
STRIDE = 1 if "TORTURE_KILLS" in os.environ else 53
"""Steps from one interrupt to the next where every step takes a reading of the engine."""

COUNTING = ("trusted/counts.py", "trusted/database.py")
READING = ("engines/source.py", "engines/addresses.py", "engines/binning.py")

FIRST, ALL = 40, 130
"""How many rows the table has at first, and in the end. Every tenth does not fit."""


def rows(start: int, stop: int) -> str:
    """A statement that gives the rows with these numbers."""
    return (
        "select i as id, case when i % 4 = 0 then 'yes' else 'no' end as late, "
        f"case when i % 10 = 9 then 13 else (i % 12 + 1)::int end as month from range({start}, {stop}) r(i)"
    )


def expected() -> tuple[int, int, list[list[int]]]:
    """How many rows there are in the end, how many did not fit, and the count of each cell."""
    counts = np.zeros(SCHEMA.shape, dtype=np.int64)
    for row in range(ALL):
        if row % 10 != 9:
            counts[int(row % 4 == 0), row % 12] += 1
    return int(counts.sum()), ALL // 10, counts.tolist()


def found(db: tr.GrowingDatabase) -> tuple[int, int, list[list[int]]]:
    """The same, of a database; the marginals that it has kept from before agree."""
    every = db._counts.marginal((0, 1))
    for place in (0, 1):
        assert (db._counts.marginal((place,)) == every.sum(axis=1 - place)).all()
    return db.size, db.dropped, every.tolist()


class Known:
    """A source that has asked its engine before: it knows what lies past each watermark."""

    def __init__(self) -> None:
        self._known: dict[Watermark | None, Increment] = {}

    def learn(self, source: Source, after: Watermark | None) -> Watermark:
        """What lies past this watermark now."""
        self._known[after] = source.increments(after, "drop")
        return self._known[after].watermark

    def increments(self, after: Watermark | None, on_invalid: OnInvalid) -> Increment:
        assert on_invalid == "drop"
        return self._known[after]


class Table:
    """A table that has grown since databases took in its first rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.execute(f"create table rows as {rows(0, FIRST)}")
        self.source = Source.of(f"duckdb://{path}#rows", SCHEMA)
        self.known = Known()
        first = self.known.learn(self.source, None)
        self.execute(f"insert into rows {rows(FIRST, ALL)}")
        self.known.learn(self.source, self.known.learn(self.source, first))

    def execute(self, statement: str) -> None:
        """Over a connection of its own, to write: refused while another connection of this process only reads."""
        with duckdb.connect(str(self._path)) as connection:
            connection.execute(statement)

    def database(self, source: Any) -> tr.GrowingDatabase:
        """A database with the first rows, and marginals of them, that refreshes from this source."""
        db = tr.GrowingDatabase(SCHEMA)
        made: Any = db
        made._source = self.known
        db.refresh("drop")
        found(db)
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
    assert free(db._counts.lock)
    if not db._counts._torn:
        return False
    for use in (partial(db._counts.add, np.arange(3)), partial(tr.ATG(db, 0.5, 1.0).ask, "TRUE")):
        with pytest.raises(tr.TreeringError, match="an append was interrupted while its rows were counted"):
            use()
    return True


def refreshed(db: tr.GrowingDatabase) -> bool:
    """Whether a retry of the refresh takes each row once. Otherwise the database is torn."""
    assert free(db._refreshing)
    if torn(db):
        return False
    for _ in range(2):
        db.refresh("drop")
        assert found(db) == expected()
    return True


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.DroppedRows)
        yield


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "rows.duckdb")


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


def test_an_interrupt_at_any_step_of_counting(table: Table) -> None:
    step, fell, outcomes = 0, True, []
    while fell:
        db = table.database(table.known)
        interrupt = Interrupt(step, *COUNTING)
        with suppress(KeyboardInterrupt), interrupt:
            db.refresh("drop")
        outcomes.append(refreshed(db))
        fell, step = interrupt.fell, step + 1
    assert outcomes[-1]
    assert outcomes.count(False) > 5
    assert outcomes.count(True) > 20


def test_an_interrupt_at_any_step_of_reading(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is as it was, and so is the engine: no connection is left, and nothing that one has spilled."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    step, fell = 0, True
    while fell:
        db = table.database(table.source)
        before = db.size
        interrupt = Interrupt(step, *READING)
        with suppress(KeyboardInterrupt), interrupt:
            db.refresh("drop")
        fell = interrupt.fell
        assert db.size == (before if fell else expected()[0])
        table.execute("select 1")
        assert (
            len([*temporary.iterdir()]) <= 1
        )  # An interrupt can fall into its removal: the next connection removes it.
        assert refreshed(db)
        assert not any(temporary.iterdir())
        step += STRIDE
    assert step > 400
