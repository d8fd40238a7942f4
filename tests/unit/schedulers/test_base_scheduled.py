"""What all schedulers do with a question but for answering it: its price, what is known already, synthetic rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.databases import TestDatabase
from support.doubling import Doubling
from support.plans import known_answers
from support.scheduler_boxes import CellsBox, CellsRelease
from treering.boxes.base import Progress, Release, silent
from treering.budget.promise import Budget
from treering.protocols import Gate

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERY = tr.parse("a = 1", SCHEMA)
EPSILON = 64.0


def database(size: int = 100) -> TestDatabase:
    return TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(size)])


def test_an_empty_database_has_no_shares_no_prices_and_nothing_known() -> None:
    scheduler = Doubling(database(0), CellsBox(), EPSILON)
    for look in (
        lambda: scheduler.ask_many([QUERY]),
        lambda: known_answers(scheduler, [QUERY]),
        lambda: scheduler.price(QUERY),
    ):
        with pytest.raises(tr.GuaranteeError, match="the database is empty: a share of its rows needs at least one"):
            look()


@pytest.mark.parametrize("question", ["c = 1", 17, tr.parse("x = 1", tr.Schema({"x": tr.integers(0, 1)}))])
def test_what_is_no_question_has_no_price(question: Any) -> None:
    with pytest.raises(tr.QueryError):
        Doubling(database(), CellsBox(), EPSILON).price(question)


def test_a_price_is_the_budget_of_the_epoch_that_is_due() -> None:
    db = database()
    scheduler = Doubling(db, CellsBox(), EPSILON)
    assert scheduler.price("a = 1") == EPSILON / 2
    assert known_answers(scheduler, [QUERY]) is None
    answer = scheduler.ask(QUERY)
    assert scheduler.price(QUERY) == 0
    assert known_answers(scheduler, [QUERY]) == [answer]
    db.rows.add_cells(np.zeros(99, dtype=np.int64))
    assert scheduler.price(QUERY) == 0
    db.rows.add_cells(np.zeros(1, dtype=np.int64))  # nobody told the scheduler: the epoch waits for a question
    assert scheduler.price(QUERY) == EPSILON / 4
    assert known_answers(scheduler, [QUERY]) is None
    assert len(scheduler.epochs) == 1


def test_it_never_halts() -> None:
    db = database()
    scheduler = Doubling(db, CellsBox(), EPSILON)
    assert scheduler.halted is False
    scheduler.ask(QUERY)
    db.append_cells([0] * 100_000)
    assert scheduler.halted is False


class Sampling(CellsRelease):
    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        return pa.table({"a": generator.integers(0, 2, rows)})


class SamplingBox(CellsBox):
    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        plain = super().run(gate, budget, alpha, beta, progress)
        assert isinstance(plain, CellsRelease)
        return Sampling(plain.schema, plain.size, plain.counts, 1)


def test_synthetic_rows_are_drawn_with_the_generator_that_is_given() -> None:
    scheduler = Doubling(database(), SamplingBox(), EPSILON)
    with pytest.raises(tr.GuaranteeError, match="nothing has been released yet"):
        scheduler.sample(5, np.random.default_rng(3))
    scheduler.ask(QUERY)
    assert scheduler.sample(50, np.random.default_rng(3)) == scheduler.release.sample(50, np.random.default_rng(3))
    assert len(scheduler.sample(0, np.random.default_rng(3))) == 0
    with pytest.raises(tr.ParameterError, match=r"generator must be given: numpy.random.default_rng\(\)"):
        scheduler.sample(5)
    bad_rows: list[Any] = [-1, 2.5, "5", True]
    for rows in bad_rows:
        with pytest.raises(tr.ParameterError, match="rows"):
            scheduler.sample(rows, np.random.default_rng(3))


def test_the_description_has_the_epochs() -> None:
    scheduler = Doubling(database(), CellsBox(), EPSILON)
    assert (scheduler.describe()["epochs"], scheduler.describe()["next_epoch"]) == ([], None)
    scheduler.ask(QUERY)
    described = scheduler.describe()
    (epoch,) = described["epochs"]
    assert (epoch["index"], epoch["size"], epoch["epsilon"], epoch["rho"]) == (0, 100, EPSILON / 2, None)
    assert (epoch["alpha"], epoch["error"], described["next_epoch"]) == (scheduler.epochs[0].alpha, None, 200)
