"""An append that is interrupted is whole, absent, or makes the database refuse: a retry never counts a row twice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.interrupts import Interrupt
from treering.trusted import counts as module
from treering.trusted.counts import Counts
from treering.trusted.database import DroppedRows
from treering.trusted.learning.points import Moments

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
WIDE = tr.Schema({f"a{number}": tr.integers(0, 63) for number in range(5)})
"""Too many cells for one array."""
ROWS = [{"late": "yes", "month": 2}] * 500


def broken(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def rows_of(db: tr.GrowingDatabase) -> set[int]:
    """How many rows there are, by the size and by two marginals, one of them kept from before."""
    return {db.size, *(int(db._counts.marginal((place,)).sum()) for place in (0, 1))}


def check_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(tr.TreeringError, match="an append was interrupted while its rows were counted"):
        ask()


def test_an_interrupt_while_rows_are_counted_tears_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, half of the marginals had the rows, and appending them again doubled the others."""
    db = tr.GrowingDatabase(SCHEMA)
    db.append(ROWS)
    sparse = tr.NSG(db, 0.5, 1.0, 3)
    sparse.ask("late = 'yes'")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_tally", broken)
        with pytest.raises(KeyboardInterrupt):
            db.append(ROWS[: SCHEMA.cells])  # More would be counted first.
    spent = sparse.spent
    check_refused(lambda: db.append(ROWS))
    check_refused(lambda: sparse.ask("late = 'yes'"))
    check_refused(lambda: tr.PMWG(db, 1.0, alpha=0.9, beta=0.05).ask("late = 'yes'"))
    assert sparse.spent == spent, "nothing is charged for what is refused"


@pytest.mark.parametrize("schema", [SCHEMA, WIDE])
def test_an_interrupt_before_rows_are_counted_takes_none(schema: tr.Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(schema)
    counts.add(np.zeros(10, dtype=np.int64))
    counts.marginal((0,))
    with monkeypatch.context() as patch:
        patch.setattr(module, "project", broken)
        for take in (counts.add, lambda cells: counts.add_counted(cells, np.ones_like(cells))):
            with pytest.raises(KeyboardInterrupt):
                take(np.arange(5))
    counts.add(np.zeros(10, dtype=np.int64))
    assert (counts.size, int(counts.marginal((0,)).sum()), int(counts.marginal((1,)).sum())) == (20, 20, 20)


def test_sparse_counts_tear_too(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(WIDE)
    counts.add(np.arange(10))
    with monkeypatch.context() as patch:
        patch.setattr(module, "_merge", broken)
        with pytest.raises(KeyboardInterrupt):
            counts.add(np.arange(30))
    check_refused(lambda: counts.add(np.arange(3)))


def test_points_are_whole_or_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    points = tr.GrowingPoints(2, "signs")
    points.append([[0.5, 0.5]] * 100, [1] * 100)
    learner = tr.ERMG(points, tr.Logistic(), 1.0, 1e-6)
    with monkeypatch.context() as patch:
        patch.setattr(Moments, "add", broken)
        with pytest.raises(KeyboardInterrupt):
            points.append([[0.5, 0.5]] * 100, [1] * 100)
    assert points.size == 100
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
    counts = Counts(SCHEMA)
    with pytest.raises(KeyboardInterrupt):
        counts.add_counted(np.arange(3), np.ones(3, dtype=np.int64), then=broken)
    check_refused(lambda: counts.add(np.arange(3)))
    marked: list[int] = []
    whole = Counts(SCHEMA)
    whole.add_counted(np.arange(0), np.ones(0, dtype=np.int64), then=lambda: marked.append(whole.size))
    whole.add_counted(np.arange(3), np.full(3, 7), then=lambda: marked.append(whole.size))
    assert marked == [0, 21]


@pytest.mark.parametrize("schema", [SCHEMA, WIDE])
def test_an_interrupt_at_any_step_of_an_append(schema: tr.Schema) -> None:
    """Whole, absent, or refused: a retry never leaves another number of rows than one append does."""
    step, fell, torn = 0, True, 0
    while fell:
        db = tr.GrowingDatabase(schema)
        db.append_cells(np.arange(20))
        db._counts.marginal((0,))
        interrupt = Interrupt(step, "trusted/counts.py", "trusted/database.py")
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
                assert rows_of(db) == {50}
        fell, step = interrupt.fell, step + 1
    assert rows_of(db) == {50}
    assert torn
    assert step > 20


def test_a_refusal_leaves_the_lock_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they would wait for ever, instead of being refused too."""
    counts = Counts(SCHEMA)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_tally", broken)
        with pytest.raises(KeyboardInterrupt):
            counts.add(np.arange(3))

    def refused() -> None:
        with counts.whole():
            pytest.fail("it is torn")

    check_refused(refused)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(counts.lock.acquire, timeout=10).result()
        other.submit(counts.lock.release).result()
        check_refused(lambda: other.submit(refused).result(timeout=10))
