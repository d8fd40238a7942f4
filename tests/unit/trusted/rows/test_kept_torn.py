"""An append that is interrupted is whole, absent, or makes the database refuse: a retry never counts a row twice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treering as tr
from support.interrupts import Interrupt
from support.kept_rows import Away
from treering.domain.groups import Groups
from treering.trusted import cells as cells_module
from treering.trusted.cells import Cells
from treering.trusted.learning.points import Moments
from treering.trusted.rows import kept, tally
from treering.trusted.rows.intake import DroppedRows
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.typed import typed

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
WIDE = tr.Schema({f"a{number}": tr.integers(0, 63) for number in range(5)})
"""Too many cells for one array."""
BOTH = pytest.mark.parametrize("schema", [SCHEMA, WIDE], ids=["dense", "sparse"])
ROWS = [{"late": "yes", "month": 2}] * 500
FILES = ("trusted/cells.py", "memory/database.py", "rows/kept.py")


def broken(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def everyone(rows: Rows) -> int:
    """How many rows there are by a tally of all of them."""
    all_rows = Groups.marginal(rows.schema, [])
    return int(rows.tally(all_rows, (0, rows.size))[2].sum()) if rows.size else 0


def rows_of(rows: Rows) -> set[int]:
    """How many rows there are: by the size, by two marginals, one of them kept from before, and by a tally."""
    return {rows.size, everyone(rows), *(int(rows.cells.marginal((place,)).sum()) for place in (0, 1))}


def check_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(tr.TreeringError, match="an append was interrupted while its rows were counted"):
        ask()


# -- databases ---------------------------------------------------------------------------------------------------------


def test_an_interrupt_while_rows_are_counted_tears_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, half of the marginals had the rows, and appending them again doubled the others."""
    db = tr.GrowingDatabase(SCHEMA)
    db.append(ROWS)
    sparse = tr.NSG(db, 0.5, 1.0, 3)
    sparse.ask("late = 'yes'")
    with monkeypatch.context() as patch:
        patch.setattr(cells_module, "_tally", broken)
        with pytest.raises(KeyboardInterrupt):
            db.append(ROWS)
    spent = sparse.spent
    check_refused(lambda: db.append(ROWS))
    check_refused(lambda: sparse.ask("late = 'yes'"))
    check_refused(lambda: tr.PMWG(db, 1.0, alpha=0.9, beta=0.05).ask("late = 'yes'"))
    assert sparse.spent == spent, "nothing is charged for what is refused"


@BOTH
@pytest.mark.parametrize("used", [False, True])
def test_an_interrupt_at_any_step_of_an_append(schema: tr.Schema, used: bool) -> None:
    """Whole, absent, or refused: a retry never leaves another number of rows than one append does."""
    step, fell, torn = 0, True, 0
    while fell:
        db = tr.GrowingDatabase(schema)
        db.append_cells(np.arange(20))
        if used:
            db._rows.cells.marginal((0,))
        interrupt = Interrupt(step, *FILES)
        try:
            with interrupt:
                db.append_cells(np.arange(30) % 24)
        except KeyboardInterrupt:
            try:
                if db.size == 20:
                    db.append_cells(np.arange(30) % 24)
            except tr.TreeringError:
                torn += 1
                check_refused(partial(tr.ATG(db, 0.5, 1.0).ask, "TRUE"))
            else:
                assert rows_of(db._rows) == {50}
        fell, step = interrupt.fell, step + 1
    assert rows_of(db._rows) == {50}
    assert torn
    assert step > 20


def frame(rows: int) -> pa.Table:
    months = pa.array(1 + np.arange(rows) % 12)
    return typed(pa.table({"late": pa.array(["no", "yes"] * rows)[:rows], "month": months}), SCHEMA)


@pytest.mark.parametrize("kind", ["table", "statement", "file", "cells"])
@pytest.mark.parametrize("used", [False, True])
def test_an_interrupt_at_any_step_of_taking_rows_in(
    kind: str, used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes with the rows changes with them."""
    if kind == "statement":
        monkeypatch.setattr(tally, "SMALL", 2)
    if kind == "file":
        pq.write_table(frame(7), tmp_path / "part")
    engine = tally.Engine(tmp_path)
    step, fell, outcomes = 0, True, list[str]()
    while fell:
        rows, with_them = Rows(SCHEMA, lambda: engine), list[int]()
        rows.add(frame(5))
        if used:
            rows.cells.marginal((0,))
        then = partial(with_them.append, 7)
        take: dict[str, Callable[[], None]] = {
            "table": partial(rows.add, frame(7), then),
            "statement": partial(rows.add, frame(7), then),
            "file": partial(rows.add_file, tmp_path / "part", 7, then),
            "cells": partial(rows.add_cells, np.arange(7), then),
        }
        interrupt = Interrupt(step, *FILES, *(("rows/tally.py",) if kind in ("table", "cells") else ()))
        try:
            with interrupt:
                take[kind]()
        except KeyboardInterrupt:
            assert rows.lock.acquire(timeout=1)
            rows.lock.release()
        if rows._torn:
            outcomes.append("torn")
            check_refused(take[kind])
        else:
            outcomes.append("in" if with_them else "out")
            assert rows.size == 5 + sum(with_them)
            if not with_them:
                take[kind]()
            assert rows_of(rows) == {12}
        fell, step = interrupt.fell, step + 1
    engine.close()
    assert (outcomes[-1], set(outcomes)) == ("in", {"in", "torn", "out"})
    order = [key for place, key in enumerate(outcomes) if place == 0 or key != outcomes[place - 1]]
    assert order == ["out", "torn", "in"]


@BOTH
def test_an_interrupt_before_rows_are_counted_takes_none(schema: tr.Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(schema)
    rows.add_cells(np.zeros(10, dtype=np.int64))
    rows.cells.marginal((0,))
    with monkeypatch.context() as patch:
        patch.setattr(Rows, "_occupied", broken)
        with pytest.raises(KeyboardInterrupt):
            rows.add_cells(np.arange(5))
    with monkeypatch.context() as patch:
        patch.setattr(kept, "_joined", broken)
        with pytest.raises(KeyboardInterrupt):
            rows.add_cells(np.arange(5))
    rows.add_cells(np.ones(10, dtype=np.int64))
    assert rows_of(rows) == {20}
    assert rows.cells.marginal(tuple(range(len(schema.names)))).reshape(-1)[:3].tolist() == [10, 10, 0]


def test_sparse_counts_tear_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(WIDE)
    rows.add_cells(np.arange(10))
    assert rows.cells.marginal((0,)).sum() == 10
    with monkeypatch.context() as patch:
        patch.setattr(cells_module, "merged", broken)
        with pytest.raises(KeyboardInterrupt):
            rows.add_cells(np.arange(30))
    check_refused(lambda: rows.add_cells(np.arange(3)))


def test_counts_that_could_not_be_made_are_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making them changes nothing else."""
    rows = Rows(SCHEMA)
    rows.add_cells(np.arange(10))
    with monkeypatch.context() as patch:
        patch.setattr(Cells, "add", broken)
        with pytest.raises(KeyboardInterrupt):
            _ = rows.cells
    rows.add_cells(np.arange(5))
    assert rows_of(rows) == {15}


# -- points, and what goes with rows -----------------------------------------------------------------------------------


def test_points_are_whole_or_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    points = tr.GrowingPoints(2, "signs")
    points.append([[0.5, 0.5]] * 100, [1] * 100)
    learner = tr.ERMG(points, tr.Logistic(), 1.0, 1e-6)
    with monkeypatch.context() as patch:
        patch.setattr(Moments, "add", broken)
        with pytest.raises(KeyboardInterrupt):
            points.append([[0.5, 0.5]] * 100, [1] * 100)
    check_refused(lambda: points.append([[0.5, 0.5]], [1]))
    check_refused(learner.update)


def test_where_warnings_are_errors_nothing_was_taken() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    bad = [*ROWS, {"late": "perhaps", "month": 2}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DroppedRows):
            db.append(bad, on_invalid="drop")
    assert (db.size, db.dropped) == (0, 0)
    with pytest.warns(DroppedRows, match="1 of 501 rows"):
        assert db.append(bad, on_invalid="drop") == 500
    assert db.dropped == 1


def test_the_watermark_moves_with_the_rows() -> None:
    """Before, an interrupt between the two made the next refresh count the same rows again."""
    rows = Rows(SCHEMA)
    with pytest.raises(KeyboardInterrupt):
        rows.add_elsewhere(Away(np.arange(3)), 3, then=broken)
    check_refused(lambda: rows.add_cells(np.arange(3)))
    marked: list[int] = []
    whole = Rows(SCHEMA)
    whole.add_elsewhere(Away(np.arange(0)), 0, then=lambda: marked.append(whole.size))
    whole.add_elsewhere(Away(np.arange(21)), 21, then=lambda: marked.append(whole.size))
    assert marked == [0, 21]


# -- the lock ----------------------------------------------------------------------------------------------------------


def test_a_refusal_leaves_the_lock_to_others() -> None:
    """Otherwise they would wait for ever, instead of being refused too."""
    rows = Rows(SCHEMA)
    with pytest.raises(KeyboardInterrupt):
        rows.add_cells(np.arange(3), then=broken)

    def refused() -> None:
        with rows.whole():
            pytest.fail("it is torn")

    check_refused(refused)
    check_refused(lambda: rows.replace(0, 3, Path("part")))
    with ThreadPoolExecutor(1) as other:
        assert other.submit(rows.lock.acquire, timeout=10).result()
        other.submit(rows.lock.release).result()
        check_refused(lambda: other.submit(refused).result(timeout=10))
