"""Who may come in while an epoch is being opened, and who is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.doubling import Doubling
from support.scheduler_boxes import CellsBox, CellsRelease, Garbage, Spoilt
from treering.boxes.base import Progress, Release, silent
from treering.budget.promise import Budget
from treering.protocols import Gate
from treering.trusted.journal import MemoryJournal

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERY = tr.parse("a = 1", SCHEMA)
EPSILON = 64.0


def database(size: int = 100) -> TestDatabase:
    return TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(size)])


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_is_told_of_runs_and_of_epochs_that_open() -> None:
    told: list[tuple[float, str]] = []
    db = database()
    scheduler = Doubling(db, CellsBox(), EPSILON, progress=lambda done, doing: told.append((done, doing)))
    scheduler.ask(QUERY)
    assert told == [
        (0.0, "epoch 0 at 100 rows: CellsBox runs"),
        (0.5, "counting"),
        (1.0, "epoch 0 at 100 rows: open"),
    ]
    scheduler.ask(QUERY)
    assert len(told) == 3
    db.append_cells([0] * 150)
    assert told[-1] == (1.0, "epoch 1 at 250 rows: open")


def test_a_program_that_asks_on_the_way_gets_what_there_is() -> None:
    """The progress bar asks while an epoch is opened: from the epoch before, or not at all; it never starts another."""
    db = database()
    seen: list[Any] = []

    def curious(*_: Any) -> None:
        try:
            seen.append(scheduler.ask(QUERY))
        except tr.GuaranteeError as error:
            seen.append(str(error))

    scheduler = Doubling(db, CellsBox(), EPSILON, progress=curious)
    first = scheduler.ask(QUERY)
    assert all("its run has not finished" in each for each in seen)
    seen.clear()
    db.append_cells([0] * 100)
    assert {answer.value for answer in seen} == {0.5 * first.value + 0.25}
    assert [epoch.error for epoch in scheduler.epochs] == [None, None]
    assert scheduler.spent == EPSILON * 3 / 4


@pytest.mark.parametrize("fails", [False, True])
def test_a_release_that_is_found_to_be_broken_while_the_next_is_made_is_left_to_later(fails: bool) -> None:
    """Nothing is written into the record of the run; the next question goes to the new epoch, or finds it again."""
    db = database(1000)
    seen: list[str] = []

    def sick(queries: Any) -> Any:
        about_b = [1 in query.attributes for query in queries]
        return np.where(about_b, np.nan, 0.5), np.full(len(queries), 0.01)

    def fail(_: Gate, release: Release) -> Release:
        if fails:
            raise ValueError("no luck")
        return release

    def curious(*_: Any) -> None:
        if scheduler.epochs[0].error is None:
            with pytest.raises(tr.GuaranteeError) as refusal:
                scheduler.ask("b = 1")
            seen.append(str(refusal.value))

    box = Spoilt({0: lambda _, release: Garbage(release, sick), 1: fail})
    scheduler = Doubling(db, box, EPSILON, progress=curious)
    assert scheduler.ask(QUERY).value == 0.5
    db.append_cells([0] * 1000)
    assert len(seen) >= 2
    assert all("epoch 0 failed" in each and "the next one is being opened" in each for each in seen)
    assert [epoch.error for epoch in scheduler.epochs] == [None, "ValueError: no luck" if fails else None]
    if fails:
        with pytest.raises(tr.GuaranteeError, match="epoch 1 failed .*and there is none before it"):
            scheduler.ask("b = 1")
        assert "no finite numbers" in str(scheduler.epochs[0].error)
    else:
        assert scheduler.ask("b = 1").error == scheduler.epochs[1].alpha
    assert Doubling(db, Spoilt({}), EPSILON).state == scheduler.state


def test_a_box_that_lets_rows_in_is_found_out() -> None:
    """In the same thread the gate's lock does not help: the release is about another size than the epoch."""
    db = database()

    class Careless(CellsBox):
        def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
            if gate.size >= 200:
                db.append_cells([0] * 10)
            return super().run(gate, budget, alpha, beta, progress)

    scheduler = Doubling(db, Careless(), EPSILON)
    scheduler.ask(QUERY)
    db.append_cells([0] * 100)
    assert scheduler.epochs[1].error == "the box's release is about 210 rows, not 200"
    assert [(epoch.index, epoch.size) for epoch in scheduler.epochs] == [(0, 100), (1, 200)]


# -- the plan ----------------------------------------------------------------------------------------------------------


def test_a_plan_that_was_looked_at_before_the_start_is_not_that_of_a_later_start() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), EPSILON)
    keeper = scheduler._keeper
    assert keeper.plan.start == 100
    assert keeper.plan is keeper.plan
    db.append_cells([0] * 150)
    assert not keeper.started
    assert keeper.plan.start == 250
    assert keeper.due() == EPSILON / 2
    scheduler.ask(QUERY)
    (epoch,) = scheduler.epochs
    assert (epoch.index, epoch.size, epoch.epsilon) == (0, 250, EPSILON / 2)
    db.append_cells([0] * 100)
    assert keeper.plan.start == 250
    assert keeper.present.until == 500


# -- durability --------------------------------------------------------------------------------------------------------


class Slow(MemoryJournal):
    """A journal whose outermost transaction waits before it is durable, if it is told to."""

    __slots__ = ("_depth", "committing", "may_commit", "slow")

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self.slow = False
        self.committing, self.may_commit = threading.Event(), threading.Event()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0 and self.slow:
                self.committing.set()
                assert self.may_commit.wait(10)


def test_no_answer_comes_from_an_epoch_that_is_not_durable_yet() -> None:
    """While the record of epoch 1 is being made durable, a question waits for it."""
    journal = Slow()
    db = TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(100)], journal)
    scheduler = Doubling(db, CellsBox(), EPSILON)
    scheduler.ask(QUERY)
    journal.slow = True
    growing = threading.Thread(target=db.append_cells, args=([0] * 100,))
    growing.start()
    assert journal.committing.wait(10)
    assert scheduler._keeper.present.epoch is not None
    assert scheduler._keeper.present.epoch.index == 0
    answers: list[tr.Answer] = []
    asking = threading.Thread(target=lambda: answers.append(scheduler.ask(QUERY)))
    asking.start()
    asking.join(0.2)
    assert asking.is_alive()
    journal.slow = False
    journal.may_commit.set()
    growing.join(10)
    asking.join(10)
    assert answers[0].error == scheduler.epochs[1].alpha
    assert len(scheduler.epochs) == 2


# -- threads -----------------------------------------------------------------------------------------------------------


def test_rows_arrive_in_one_thread_and_questions_in_others() -> None:
    """No answer is off, none is from the future, no epoch is opened twice, and the record is that of one thread."""
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 4000.0)
    scheduler.ask(QUERY)
    # All rows added lie in cell 0, where a = 0: the truth at each size is known.
    wrong: list[tr.Answer] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            for answer in scheduler.ask_many([QUERY, "a = 0"]):
                truth = 49 / answer.size if answer.value < 0.5 else 1 - 49 / answer.size
                if abs(answer.value - truth) > answer.error + 1e-9 or answer.error > 0.5:
                    wrong.append(answer)

    assert db.rows.cells.count(QUERY) == 49
    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for _ in range(300):
        db.append_cells([0] * 20)
    done.set()
    for asker in askers:
        asker.join(30)
    assert wrong == []
    assert [epoch.index for epoch in scheduler.epochs] == list(range(6))
    assert all(epoch.error is None for epoch in scheduler.epochs)
    replayed = Doubling(db, CellsBox(), 4000.0)
    assert replayed.state == scheduler.state
    assert replayed.ask(QUERY) == scheduler.ask(QUERY)


def test_a_question_waits_for_the_epoch_that_another_thread_opens() -> None:
    db = database(100)
    running, may_end = threading.Event(), threading.Event()

    class Long(CellsBox):
        def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
            if gate.size >= 200:
                running.set()
                assert may_end.wait(10)
            return super().run(gate, budget, alpha, beta, progress)

    scheduler = Doubling(db, Long(), EPSILON)
    scheduler.ask(QUERY)
    growing = threading.Thread(target=db.append_cells, args=([0] * 100,))
    growing.start()
    assert running.wait(10)
    answers: list[tr.Answer] = []
    asking = threading.Thread(target=lambda: answers.append(scheduler.ask(QUERY)))
    asking.start()
    asking.join(0.2)
    assert asking.is_alive()
    may_end.set()
    asking.join(10)
    growing.join(10)
    assert answers[0].error == scheduler.epochs[1].alpha
    assert [epoch.index for epoch in scheduler.epochs] == [0, 1]


def test_synthetic_rows_come_from_the_release() -> None:
    class Sampling(CellsRelease):
        def sample(self, rows: int, generator: np.random.Generator) -> Any:
            return (rows, int(generator.integers(10)))

    class SamplingBox(CellsBox):
        def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
            plain = super().run(gate, budget, alpha, beta, progress)
            assert isinstance(plain, CellsRelease)
            return Sampling(plain.schema, plain.size, plain.counts, 1)

    db = database()
    scheduler = Doubling(db, SamplingBox(), EPSILON)
    scheduler.ask(QUERY)
    expected = (5, int(np.random.default_rng(3).integers(10)))
    assert scheduler.release.sample(5, np.random.default_rng(3)) == expected
    plain = Doubling(database(), CellsBox(), EPSILON)
    plain.ask(QUERY)
    with pytest.raises(tr.QueryError, match="no synthetic rows"):
        plain.release.sample(5, np.random.default_rng(3))
