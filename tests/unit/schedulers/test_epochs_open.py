"""When epochs open, what they cost, and that everything in between is free: over the simplest of plans."""

from __future__ import annotations

import gc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.doubling import LEAST, Doubling
from support.scheduler_boxes import CellsBox, OneQueryBox, ZcdpBox
from treering.boxes.base import Box
from treering.gate import HistogramReleased, Noted, ReservationEnded, Reserved
from treering.schedulers.epochs import EpochBegan, EpochOpened

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERY = tr.parse("a = 1 AND b <= 1", SCHEMA)
ZCDP: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-6}


def database(size: int, seed: int = 0) -> TestDatabase:
    return TestDatabase(SCHEMA, cells(size, seed))


def cells(size: int, seed: int = 0) -> list[int]:
    return [int(cell) for cell in np.random.default_rng(seed).integers(0, SCHEMA.cells, size)]


def sizes(scheduler: Doubling) -> list[tuple[int, int]]:
    return [(epoch.index, epoch.size) for epoch in scheduler.epochs]


# -- the start ---------------------------------------------------------------------------------------------------------


def test_nothing_happens_before_the_first_question() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 10.0)
    db.append_cells(cells(900))
    assert (scheduler.epochs, scheduler.next_epoch, scheduler.spent, db.touched) == ([], None, 0, 0)
    with pytest.raises(tr.GuaranteeError, match="nothing has been released yet"):
        _ = scheduler.release
    scheduler.ask(QUERY)
    assert sizes(scheduler) == [(0, 1000)]
    assert scheduler.next_epoch == 2000
    assert scheduler.release.size == 1000


def test_a_start_without_a_guarantee_is_refused_for_free_and_may_come_later() -> None:
    db = database(LEAST - 1)
    scheduler = Doubling(db, CellsBox(), 10.0)
    for _ in range(2):
        with pytest.raises(tr.GuaranteeError, match=f"{LEAST - 1} rows are too few; {LEAST} would do"):
            scheduler.ask(QUERY)
    assert (scheduler.epochs, scheduler.spent, db.touched, len(db.journal.events())) == ([], 0, 0, 0)
    db.append_cells(cells(1))
    scheduler.ask(QUERY)
    assert sizes(scheduler) == [(0, LEAST)]


def test_what_an_epoch_writes_down() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 10.0)
    scheduler.ask(QUERY)
    events = db.journal.events()
    kinds = [type(event.note) if isinstance(event, Noted) else type(event) for event in events]
    assert kinds == [EpochBegan, Reserved, HistogramReleased, ReservationEnded, EpochOpened]
    (epoch,) = scheduler.epochs
    assert (epoch.epsilon, epoch.rho, epoch.beta, epoch.error) == (5.0, None, 5e-10, None)
    assert epoch.alpha == scheduler.ask(QUERY).error


# -- growth ------------------------------------------------------------------------------------------------------------


def test_epochs_open_as_rows_arrive_without_being_asked() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 16.0)
    scheduler.ask(QUERY)
    spent = [scheduler.spent]
    for size in (199, 200, 399, 400):
        db.append_cells(cells(size - db.size))
        spent.append(scheduler.spent)
    assert spent == [8, 8, 12, 12, 14]
    assert sizes(scheduler) == [(0, 100), (1, 200), (2, 400)]
    assert scheduler.next_epoch == 800
    assert scheduler.remaining == 2


def test_a_batch_that_jumps_over_epochs_opens_the_last_and_the_others_stay_unspent() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 16.0)
    scheduler.ask(QUERY)
    db.append_cells(cells(950))
    assert sizes(scheduler) == [(0, 100), (3, 1050)]
    assert scheduler.spent == 8 + 1
    assert scheduler.next_epoch == 1600
    db.append_cells(cells(549))
    assert len(scheduler.epochs) == 2
    db.append_cells(cells(1))
    assert sizes(scheduler)[-1] == (4, 1600)


def test_growth_that_nobody_told_of_is_seen_when_a_question_comes() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 16.0)
    scheduler.ask(QUERY)
    db.rows.add_cells(np.array(cells(150)))
    assert sizes(scheduler) == [(0, 100)]
    assert scheduler.ask(QUERY).size == 250
    assert sizes(scheduler) == [(0, 100), (1, 250)]


def test_a_scheduler_that_nobody_holds_opens_nothing() -> None:
    db = database(100)
    scheduler = Doubling(db, CellsBox(), 16.0)
    scheduler.ask(QUERY)
    written = len(db.journal.events())
    gc.disable()  # without a collection: no cycle keeps it alive
    try:
        del scheduler
        db.append_cells(cells(100))
    finally:
        gc.enable()
    assert len(db.journal.events()) == written


@pytest.mark.parametrize(("promise", "box"), [({"epsilon": 16.0}, CellsBox()), (ZCDP, CellsBox()), (ZCDP, ZcdpBox())])
def test_an_epoch_has_its_budget_in_the_promises_own_kind(promise: dict[str, Any], box: Box) -> None:
    db = database(100)
    scheduler = Doubling(db, box, **promise)
    scheduler.ask(QUERY)
    db.append_cells(cells(100))
    parts = [event.part for event in db.journal.events() if isinstance(event, Reserved)]
    total = tr.Promise(promise["epsilon"], promise.get("delta", 0.0)).budget
    assert parts == [total.share(Fraction(1, 2)), total.share(Fraction(1, 4))]
    charged = [epoch.epsilon if total.kind == "pure" else epoch.rho for epoch in scheduler.epochs]
    assert charged == [float(part.total) for part in parts]
    assert scheduler.spent == pytest.approx(0.75 * float(total.total))


# -- between epochs ----------------------------------------------------------------------------------------------------


class Counting:
    """A gate that counts what is asked of it, but for its schema and how many rows there are."""

    def __init__(self, gate: Any) -> None:
        self._inner = gate
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        if name not in ("size", "schema", "rows_between"):
            self.calls += 1
        return getattr(self._inner, name)


class CountingDatabase(TestDatabase):
    gate: Counting

    def open_gate(self, budget: Any) -> Any:
        self.gate = Counting(super().open_gate(budget))
        return self.gate


def test_answers_between_epochs_are_free_and_ask_nothing_of_the_gate() -> None:
    db = CountingDatabase(SCHEMA, cells(100))
    scheduler = Doubling(db, CellsBox(), 16.0)
    scheduler.ask(QUERY)
    before = (db.gate.calls, db.touched, len(db.journal.events()))
    assert db.gate.calls > 0
    for size in (100, 130, 199):
        db.append_cells(cells(size - db.size))
        scheduler.ask(QUERY)
        scheduler.ask_many([QUERY, "a = 0", "TRUE"])
        _ = (scheduler.alpha_at(10_000), scheduler.epochs, scheduler.next_epoch, scheduler.release, scheduler.state)
    assert (db.gate.calls, db.touched, len(db.journal.events())) == before
    db.append_cells(cells(1))
    assert (db.gate.calls, db.touched) > before[:2]


@pytest.mark.parametrize("profile", ["tight", "paper"])
def test_an_answers_error_counts_the_rows_that_came_since(profile: Any) -> None:
    db = database(1000)
    scheduler = Doubling(db, CellsBox(), 100.0, profile=profile)
    first = scheduler.ask(QUERY)
    assert first.error == scheduler.epochs[0].alpha == scheduler.alpha_at(1000)
    db.append_cells(cells(500))
    second = scheduler.ask(QUERY)
    fresh = 1000 / 1500
    if profile == "tight":
        expected = (fresh * first.value + (1 - fresh) / 2, fresh * first.error + (1 - fresh) / 2)
    else:
        expected = (first.value, first.error + (1 - fresh))
    assert (second.value, second.error) == pytest.approx(expected, abs=1e-12)
    assert (second.size, second.kind) == (1500, "synthetic")
    assert scheduler.alpha_at(1500) == pytest.approx(second.error)


def test_a_query_outside_the_class_is_refused_and_nothing_is_lost() -> None:
    db = database(200)
    scheduler = Doubling(db, OneQueryBox(QUERY), 16.0)
    with pytest.raises(tr.QueryError, match="only"):
        scheduler.ask("a = 0")
    before = (scheduler.state, scheduler.spent, db.touched)
    assert before[0][0].error is None
    with pytest.raises(tr.QueryError, match="only"):
        scheduler.ask_many([QUERY, "a = 0"])
    assert scheduler.ask(QUERY).size == 200
    assert (scheduler.state, scheduler.spent, db.touched) == before


def test_the_query_class_may_change_from_epoch_to_epoch() -> None:
    classes = ["a = 0", "a = 1", "b = 2"]
    db = database(100)
    scheduler = Doubling(db, lambda index: OneQueryBox(tr.parse(classes[index], SCHEMA)), 100.0)
    for index, text in enumerate(classes):
        assert scheduler.ask(text).size == 100 << index
        for other in set(classes) - {text}:
            with pytest.raises(tr.QueryError, match="only"):
                scheduler.ask(other)
        replayed = Doubling(db, lambda index: OneQueryBox(tr.parse(classes[index], SCHEMA)), 100.0)
        assert replayed.ask(text) == scheduler.ask(text)
        del replayed
        db.append_cells(cells(db.size))
    assert [epoch.error for epoch in scheduler.epochs[:3]] == [None] * 3


# -- what is promised --------------------------------------------------------------------------------------------------


def test_the_error_at_a_size_now_and_later() -> None:
    db = database(1000)
    scheduler = Doubling(db, CellsBox(), 100.0)
    planned = [scheduler.alpha_at(size) for size in (1000, 1500, 1999, 2000, 3000)]
    scheduler.ask(QUERY)
    assert [scheduler.alpha_at(size) for size in (1000, 1500, 1999, 2000, 3000)] == pytest.approx(planned)
    assert planned[0] < planned[1] < planned[2] > planned[3] < planned[4]
    db.append_cells(cells(300))
    bad_sizes: list[Any] = [1299, 0, -1, 1.5, True]
    for bad in bad_sizes:
        with pytest.raises(tr.ParameterError, match="size"):
            scheduler.alpha_at(bad)
    with pytest.raises(tr.GuaranteeError, match="empty"):
        Doubling(TestDatabase(SCHEMA), CellsBox()).alpha_at(5)


def test_an_epoch_that_opens_late_is_more_accurate_than_planned() -> None:
    db = database(1000)
    scheduler = Doubling(db, CellsBox(), 100.0)
    scheduler.ask(QUERY)
    planned = scheduler.alpha_at(2999)
    db.append_cells(cells(1999))
    assert scheduler.epochs[-1].alpha == scheduler.ask(QUERY).error < planned
    assert scheduler.alpha_at(2999) < planned


# -- any growth --------------------------------------------------------------------------------------------------------


@given(
    batches=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    start=st.integers(LEAST, 200),
    approximate=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_growth(batches: list[int], start: int, approximate: bool, seed: int) -> None:
    """Charges add up to the epochs', within the promise; errors are as the formula says, and hold; replay is equal.

    With beta = 1e-9 the errors of one example fail by chance with that probability.
    """
    promise: dict[str, Any] = ZCDP if approximate else {"epsilon": 30.0}
    db = database(start, seed)
    scheduler = Doubling(db, CellsBox(), **promise)
    total = tr.Promise(promise["epsilon"], promise.get("delta", 0.0)).budget
    scheduler.ask(QUERY)
    for batch in batches:
        db.append_cells(cells(batch, seed + db.size))
        answer = scheduler.ask(QUERY)
        reserved = [event.part for event in db.journal.events() if isinstance(event, Reserved)]
        assert sum(part.total for part in reserved) == scheduler._gate.spent < total.total
        assert len(reserved) == len(scheduler.epochs)
        epoch = scheduler.epochs[-1]
        fresh = epoch.size / db.size
        assert epoch.index == (db.size // start).bit_length() - 1
        assert answer.error == pytest.approx(fresh * min(1, epoch.alpha) + (1 - fresh) / 2)
        assert abs(answer.value - db.rows.cells.count(QUERY) / db.size) <= answer.error + 1e-12
    replayed = Doubling(db, CellsBox(), **promise)
    assert (replayed.state, replayed.spent) == (scheduler.state, scheduler.spent)
    assert replayed.next_epoch == scheduler.next_epoch
    assert replayed.ask_many([QUERY, "b = 2"]) == scheduler.ask_many([QUERY, "b = 2"])
