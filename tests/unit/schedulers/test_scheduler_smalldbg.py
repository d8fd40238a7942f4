"""SmallDBG: BBScheduler over SmallDB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.boxes.smalldb import SmallDB
from treering.schedulers.scheduler import BBScheduler, SmallDBG

SCHEMA = tr.Schema({"age": tr.integers(0, 7), "late": tr.categories("no", "yes")})
TEXTS = [f"age <= {age}" for age in range(7)]
QUERIES = [tr.parse(text, SCHEMA) for text in TEXTS]
NEVER = 1e-9
START = 20_000
OPTIONS: dict[str, dict[str, Any]] = {
    "tight, pure": {"epsilon": 1.0},
    "tight, zCDP": {"epsilon": 1.0, "delta": 1e-6},
    "paper": {"epsilon": 100.0, "profile": "paper"},
}


def cells(size: int, seed: int = 0) -> Any:
    return np.minimum(np.random.default_rng(seed).geometric(0.2, size) - 1, SCHEMA.cells - 1)


def database(size: int = START) -> TestDatabase:
    return TestDatabase(SCHEMA, cells(size))


@pytest.mark.parametrize("name", OPTIONS)
def test_errors_hold_within_the_guarantee_while_the_database_grows(name: str) -> None:
    db = database()
    scheduler = SmallDBG(db, TEXTS, beta=NEVER, **OPTIONS[name])
    alpha = scheduler.guarantee.alpha
    assert alpha < 1
    for batch in (0, 1000, 4000, 15_000, 3000):
        db.append_cells(cells(batch, batch))
        for query, answer in zip(QUERIES, scheduler.ask_many(QUERIES), strict=True):
            assert abs(answer.value - db.rows.cells.count(query) / db.size) <= answer.error <= alpha + 1e-12
    assert len(scheduler.epochs) >= 2
    assert all(epoch.error is None for epoch in scheduler.epochs)
    assert scheduler.spent > 0
    replayed = SmallDBG(db, TEXTS, beta=NEVER, **OPTIONS[name])
    assert (replayed.state, replayed.spent) == (scheduler.state, scheduler.spent)
    assert replayed.ask_many(QUERIES) == scheduler.ask_many(QUERIES)


@pytest.mark.parametrize("name", OPTIONS)
def test_it_is_the_scheduler_over_the_box(name: str) -> None:
    one = SmallDBG(database(), TEXTS, beta=NEVER, **OPTIONS[name])
    other = BBScheduler(database(), SmallDB(TEXTS), beta=NEVER, **OPTIONS[name])
    assert one.guarantee == other.guarantee
    one.ask(TEXTS[0])
    other.ask(TEXTS[0])
    assert one.state == other.state
    assert one.next_epoch == other.next_epoch


def test_it_answers_its_class_and_yields_synthetic_rows() -> None:
    db = database()
    scheduler = SmallDBG(db, TEXTS, 1.0, beta=NEVER)
    scheduler.ask("age <= 3")
    before = (scheduler.state, db.touched)
    with pytest.raises(tr.QueryError, match="SmallDB"):
        scheduler.ask("late = 'yes'")
    table = scheduler.release.sample(100, np.random.default_rng(0))
    assert table.num_rows == 100
    assert tuple(table.column_names) == SCHEMA.names
    assert (scheduler.state, db.touched) == before


def test_progress_is_told_of_the_draw() -> None:
    told: list[str] = []
    scheduler = SmallDBG(database(), TEXTS, 1.0, progress=lambda _, doing: told.append(doing))
    scheduler.ask(TEXTS[0])
    assert any("synthetic rows" in doing for doing in told)
    assert told[-1] == "epoch 0 at 20,000 rows: open"


def test_what_cannot_be_drawn_is_refused_at_once() -> None:
    wide = tr.Schema({f"x{number}": tr.integers(0, 15) for number in range(4)})
    db = TestDatabase(wide, [0] * 100)
    every = [tr.parse(f"x{number} = {value}", wide) for number in range(4) for value in range(16)]
    with pytest.raises(tr.GuaranteeError, match="SmallDB cannot serve this class"):
        SmallDBG(db, every, 1.0)
    with pytest.raises(tr.QueryError):
        SmallDBG(database(), ["colour = 'red'"], 1.0)
    assert len(db.journal.events()) == 0
