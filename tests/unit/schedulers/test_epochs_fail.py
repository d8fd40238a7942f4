"""Boxes that raise, return garbage, or are interrupted: the charge is spent, what was known goes on answering."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.doubling import Doubling
from support.scheduler_boxes import CellsBox, Garbage, OneQueryBox, Spoilt, ZcdpBox
from treering.boxes.base import Box, Progress, Rate, Release, silent
from treering.budget.promise import Budget
from treering.gate import ReservationEnded, Reserved
from treering.noise import Laplace
from treering.protocols import Gate
from treering.schedulers.epochs import UNFINISHED
from treering.trusted.journal import MemoryJournal

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERY = tr.parse("a = 1", SCHEMA)
EPSILON = 64.0


def database(size: int = 100) -> TestDatabase:
    return TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(size)])


def grow(db: TestDatabase, to: int) -> None:
    db.append_cells([0] * (to - db.size))


def raising(error: BaseException) -> Callable[[Gate, Release], Any]:
    def spoil(*_: Any) -> Any:
        raise error

    return spoil


def returning(thing: Any) -> Callable[[Gate, Release], Any]:
    return lambda _gate, _release: thing


def giving(shares: Any) -> Callable[[Gate, Release], Any]:
    return lambda _gate, release: Garbage(release, shares)


def overspending(gate: Gate, release: Release) -> Release:
    gate.measure([QUERY], Laplace(0.01))
    return release


def not_a_number(_: Gate, release: Release) -> Release:
    return Garbage(release, lambda queries: (np.full(len(queries), np.nan), np.zeros(len(queries))))


BAD: dict[str, tuple[Callable[[Gate, Release], Any], str]] = {
    "raises": (raising(ValueError("no luck")), "ValueError: no luck"),
    "raises ours": (raising(tr.GuaranteeError("no luck")), "GuaranteeError: no luck"),
    "overspends": (overspending, "BudgetExceeded: .*needs epsilon 100"),
    "nothing": (returning(None), "the box returned NoneType, not a Release"),
    "a number": (returning(0.5), "the box returned float"),
    "NaN": (not_a_number, "no finite numbers"),
    "negative errors": (giving(([0.5], [-0.1])), "errors that are no finite numbers of at least 0"),
    "shape": (giving((np.zeros(3), np.zeros(3))), r"shares of shape \(3,\) for 1 query"),
    "one array": (giving(np.zeros(1)), "could not answer"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_charge_is_spent_and_the_epoch_before_goes_on_answering(name: str) -> None:
    spoil, message = BAD[name]
    db = database()
    scheduler = Doubling(db, Spoilt({1: spoil}), EPSILON)
    first = scheduler.ask(QUERY)
    grow(db, 250)
    failed = scheduler.epochs[1]
    assert failed.error is not None
    assert re.search(message, failed.error), failed.error
    assert (failed.index, failed.size, failed.epsilon) == (1, 250, EPSILON / 4)
    assert scheduler.spent == EPSILON * 3 / 4
    stale = scheduler.ask(QUERY)
    assert stale.value == pytest.approx(0.4 * first.value + 0.3)
    assert stale.error == pytest.approx(0.4 * first.error + 0.3) == pytest.approx(scheduler.alpha_at(250))
    assert stale.size == 250
    assert scheduler.next_epoch == 400
    grow(db, 400)
    assert [epoch.error is None for epoch in scheduler.epochs] == [True, False, True]
    assert scheduler.ask(QUERY).error == scheduler.epochs[2].alpha
    replayed = Doubling(db, Spoilt({}), EPSILON)
    assert (replayed.state, replayed.spent) == (scheduler.state, scheduler.spent)
    assert replayed.ask(QUERY) == scheduler.ask(QUERY)


@pytest.mark.parametrize("name", BAD)
def test_if_the_first_epoch_fails_there_is_no_answer_until_the_next(name: str) -> None:
    spoil, _ = BAD[name]
    db = database()
    scheduler = Doubling(db, Spoilt({0: spoil}), EPSILON)
    for _ in range(2):
        with pytest.raises(tr.GuaranteeError, match="epoch 0 failed .*; the next one opens at 200 rows") as refusal:
            scheduler.ask(QUERY)
    assert scheduler.epochs[0].error is not None
    assert scheduler.epochs[0].error in str(refusal.value)
    assert scheduler.spent == EPSILON / 2
    with pytest.raises(tr.GuaranteeError, match="epoch 0 failed"):
        scheduler.alpha_at(150)
    with pytest.raises(tr.GuaranteeError, match="epoch 0 failed"):
        _ = scheduler.release
    assert "nothing is answered yet: epoch 0 failed" in scheduler.guarantee.statement
    replayed = Doubling(db, Spoilt({}), EPSILON)
    assert (replayed.state, replayed.next_epoch) == (scheduler.state, 200)
    del replayed
    grow(db, 200)
    assert scheduler.ask(QUERY).size == 200
    assert "nothing" not in scheduler.guarantee.statement


# -- found out when asked ----------------------------------------------------------------------------------------------


def sick(queries: Any) -> Any:
    """Well, but for a question about b."""
    about_b = [1 in query.attributes for query in queries]
    return np.where(about_b, np.nan, 0.5), np.full(len(queries), 0.01)


def failing(queries: Any) -> Any:
    """The same, by raising."""
    if any(1 in query.attributes for query in queries):
        raise ZeroDivisionError("b")
    return sick(queries)


@pytest.mark.parametrize("release", [sick, failing])
def test_garbage_found_when_asked_fails_the_epoch_then(release: Any) -> None:
    db = database(1000)
    box = Spoilt({1: giving(release)})
    scheduler = Doubling(db, box, EPSILON)
    scheduler.ask(QUERY)
    before = scheduler.ask("b = 1")
    grow(db, 2000)
    assert scheduler.ask(QUERY).value == 0.5
    spent, touched = scheduler.spent, db.touched
    answer = scheduler.ask("b = 1")
    assert [epoch.error is None for epoch in scheduler.epochs] == [True, False]
    assert (answer.value, answer.error) == pytest.approx((0.5 * before.value + 0.25, 0.5 * before.error + 0.25))
    assert (scheduler.spent, db.touched) == (spent, touched)
    assert scheduler.next_epoch == 4000
    replayed = Doubling(db, Spoilt({}), EPSILON)
    assert replayed.state == scheduler.state
    assert replayed.ask("b = 1") == answer
    del replayed
    grow(db, 4000)
    assert scheduler.ask("b = 1").error == scheduler.epochs[-1].alpha


def test_garbage_all_the_way_down_is_a_refusal() -> None:
    db = database(1000)
    scheduler = Doubling(db, Spoilt({0: giving(sick), 1: giving(failing)}), EPSILON)
    scheduler.ask(QUERY)
    grow(db, 2000)
    # The box is honest when its first epoch is made again from the record: so that one is of use after all.
    assert scheduler.ask("b = 1").error > 0.25
    assert scheduler.epochs[0].error is None


def test_a_release_that_cannot_be_made_again_is_given_up_too() -> None:
    db = database(1000)

    class Moody(Spoilt):
        def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Any:
            if self.runs == 2:
                raise RuntimeError("not twice")
            return super().run(gate, budget, alpha, beta, progress)

    scheduler = Doubling(db, Moody({1: giving(sick)}), EPSILON)
    scheduler.ask(QUERY)
    grow(db, 2000)
    with pytest.raises(tr.GuaranteeError, match="epoch 1 failed"):
        scheduler.ask("b = 1")
    assert "cannot be made again" in str(scheduler.epochs[0].error)
    assert "not twice" in str(scheduler.epochs[0].error)


# -- interruptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interruption_passes_through_and_leaves_all_in_order(error: BaseException) -> None:
    db = database()
    scheduler = Doubling(db, Spoilt({1: raising(error)}), EPSILON)
    scheduler.ask(QUERY)
    with pytest.raises(type(error)):
        grow(db, 200)
    assert db.size == 200  # the rows are in
    assert scheduler.epochs[1].error == (
        "KeyboardInterrupt" if isinstance(error, KeyboardInterrupt) else "SystemExit: 3"
    )
    assert isinstance(db.journal.events()[-2], ReservationEnded)
    assert scheduler.ask(QUERY).error > 0.25
    assert scheduler.spent == EPSILON * 3 / 4
    grow(db, 400)
    assert scheduler.epochs[2].error is None


def test_an_interrupted_start() -> None:
    db = database()
    scheduler = Doubling(db, Spoilt({0: raising(KeyboardInterrupt())}), EPSILON)
    with pytest.raises(KeyboardInterrupt):
        scheduler.ask(QUERY)
    with pytest.raises(tr.GuaranteeError, match=r"epoch 0 failed \(KeyboardInterrupt\)"):
        scheduler.ask(QUERY)
    grow(db, 200)
    assert scheduler.ask(QUERY).size == 200


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_crash_in_the_middle_of_a_run(epoch: int) -> None:
    """The journal as it was then is taken up by another life: the epoch is spent and failed, and the next one opens."""
    db = database()
    crashed: list[MemoryJournal] = []

    def crash(_: Gate, release: Release) -> Release:
        journal = MemoryJournal()
        journal._events = list(db.journal.events())
        crashed.append(journal)
        return release

    scheduler = Doubling(db, Spoilt({epoch: crash}), EPSILON)
    scheduler.ask(QUERY)
    grow(db, 200)
    again = TestDatabase(SCHEMA, [number % SCHEMA.cells for number in range(100)], crashed[0])
    grow(again, 100 << epoch)
    revived = Doubling(again, CellsBox(), EPSILON)
    assert [each.error for each in revived.epochs] == [None] * epoch + [UNFINISHED]
    assert revived.spent == EPSILON * (1 - 0.5 ** (epoch + 1))
    if epoch == 0:
        with pytest.raises(tr.GuaranteeError, match=UNFINISHED):
            revived.ask(QUERY)
    else:
        assert revived.ask(QUERY).error > 0.25
    grow(again, 200 << epoch)
    assert revived.epochs[-1].error is None
    assert revived.ask(QUERY).error == revived.epochs[-1].alpha


# -- boxes that cannot be started --------------------------------------------------------------------------------------


class NoAlpha(CellsBox):
    """Its promise breaks down at larger sizes."""

    def __init__(self, gives: Any) -> None:
        super().__init__()
        self.gives = gives

    def alpha(self, size: int, budget: Budget, beta: float) -> Any:
        if size < 200:
            return super().alpha(size, budget, beta)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def no_box(index: int) -> Any:
    if index == 1:
        raise LookupError("no box for 1")
    return CellsBox()


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (no_box, "LookupError: no box for 1"),
        (lambda index: CellsBox() if index != 1 else "box", "must give a Box for epoch 1, not str"),
        (lambda index: CellsBox() if index != 1 else ZcdpBox(), "ZcdpBox is private under zCDP only"),
    ],
)
def test_an_epoch_without_a_box_costs_nothing(box: Any, message: str) -> None:
    db = database()
    scheduler = Doubling(db, box, EPSILON)
    scheduler.ask(QUERY)
    grow(db, 200)
    failed = scheduler.epochs[1]
    assert message in str(failed.error)
    assert (failed.epsilon, failed.rho) == (None, None)
    assert scheduler.spent == EPSILON / 2
    assert scheduler.ask(QUERY).error > 0.25
    grow(db, 400)
    assert scheduler.epochs[2].error is None
    assert Doubling(db, box, EPSILON).state == scheduler.state


@pytest.mark.parametrize("gives", [ValueError("who knows"), float("nan"), -0.1, float("inf"), "much"])
def test_a_box_whose_promise_is_none_is_not_run(gives: Any) -> None:
    """Whether the plan asks it, or the epoch itself."""
    db = database()
    scheduler = Doubling(db, NoAlpha(gives), EPSILON)
    scheduler.ask(QUERY)
    grow(db, 200)
    failed = scheduler.epochs[1]
    assert failed.error is not None
    assert (failed.index, failed.epsilon, failed.rho) == (1, None, None)
    assert scheduler.spent == EPSILON / 2
    assert scheduler.ask(QUERY).error > 0.25


# -- the record --------------------------------------------------------------------------------------------------------


def test_a_record_made_by_another_box_is_refused_aloud() -> None:
    db = database()
    Doubling(db, CellsBox(), EPSILON).ask(QUERY)
    with pytest.raises(tr.TreeringError, match="epoch 0 cannot be made again .*the same box"):
        Doubling(db, OneQueryBox(QUERY), EPSILON)


def test_only_the_epoch_in_force_is_made_again() -> None:
    db = database()
    scheduler = Doubling(db, CellsBox(), EPSILON)
    scheduler.ask(QUERY)
    grow(db, 200)
    grow(db, 400)
    box = Spoilt({})
    replayed = Doubling(db, box, EPSILON)
    assert box.runs == 1
    assert replayed.ask(QUERY) == scheduler.ask(QUERY)
    assert box.runs == 1


def test_reserved_and_released_are_not_mixed_up_with_a_boxs_own_notes() -> None:
    """A box that notes public randomness finds it again."""

    class Noting(CellsBox):
        def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
            chosen = gate.note(int(np.random.default_rng().integers(1 << 60))).note
            release = super().run(gate, budget, alpha, beta, progress)
            half = 0.5 + (chosen % 1000) / 1e7
            return Garbage(release, lambda queries: (np.full(len(queries), half), np.full(len(queries), 0.5)))

        @property
        def rate(self) -> Rate | None:
            return None

    db = database()
    scheduler = Doubling(db, Noting(), EPSILON)
    answer = scheduler.ask(QUERY)
    box: Box = Noting()
    assert Doubling(db, box, EPSILON).ask(QUERY) == answer
    assert sum(isinstance(event, Reserved) for event in db.journal.events()) == 1
    assert Fraction(scheduler.spent) == Fraction(EPSILON) / 2
