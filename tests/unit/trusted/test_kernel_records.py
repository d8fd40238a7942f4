"""What the kernel tells its journal, in which order, and what it goes on from."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures, Descent, Minimise, Problem
from treering.domain.tally import Tally
from treering.gate import Compared, Event, Measured, ReservationEnded, RunEnded, RunRequest, RunStarted
from treering.noise import Laplace
from treering.trusted.journal import MemoryJournal, Secret
from treering.trusted.kernel import Kernel
from treering.trusted.operations.run import named

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})
QUERY = tr.parse("a = 1", SCHEMA)
BUDGET = Budget("pure", Fraction(100))
RUN = RunRequest(10.0, 20.0, Laplace(5.0))


class Told(MemoryJournal):
    """A journal that remembers the order in which it was told things."""

    __slots__ = ("order",)

    def __init__(self) -> None:
        super().__init__()
        self.order: list[object] = []

    def write(self, event: Event) -> None:
        self.order.append(type(event))
        super().write(event)

    def begin(self, event: RunStarted, secret: Secret) -> None:
        self.order.append(type(event))
        super().begin(event, secret)

    def ending(self, run: int) -> None:
        self.order.append(run)
        super().ending(run)


def opened() -> tuple[Kernel, Told, TestDatabase]:
    journal = Told()
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(40)], journal)
    return db.open_gate(BUDGET), journal, db


def test_a_journal_is_told_that_a_run_is_over_before_the_event_that_ends_it() -> None:
    gate, journal, _ = opened()
    first, second = (gate.begin_run(RUN).run for _ in range(2))
    gate.first_exceeding(second, [QUERY], [10**6])
    gate.first_exceeding(second, [QUERY], [-(10**6)])
    gate.end_run(first)
    assert journal.order == [RunStarted, RunStarted, Compared, second, Compared, first, RunEnded]


def test_runs_are_numbered_on_after_those_on_record_whether_they_are_over_or_not() -> None:
    gate, _, db = opened()
    for number in range(3):
        assert gate.begin_run(RUN).run == number
        again = db.open_gate(BUDGET)
        assert again._desk.charges.next_run == number + 1
        gate.end_run(number)
        assert db.open_gate(BUDGET)._desk.charges.next_run == number + 1
    with gate.reserve(Budget("pure", Fraction(1))):
        pass
    assert db.open_gate(BUDGET).begin_run(RUN).run == 3


def test_a_run_that_only_the_record_has_is_over_and_nothing_of_it_is_refunded() -> None:
    """Who asked may have seen it cross."""
    gate, journal, _ = opened()
    lost, kept = (gate.begin_run(RUN).run for _ in range(2))
    spent = gate.spent
    del gate._desk.charges.runs[lost]
    threshold = named(gate._desk, kept)._threshold
    gate.mend()
    assert gate.history[-1] == RunEnded(40, lost, Fraction(0))
    assert gate.spent == spent
    assert (list(gate._desk.charges.runs), gate._desk.charges.next_run) == ([kept], 2)
    assert named(gate._desk, kept)._threshold is threshold
    with pytest.raises(tr.Halted, match="run 0 is over"):
        gate.first_exceeding(lost, [QUERY], [0])
    events = len(journal.events())
    gate.mend()
    assert len(journal.events()) == events


def test_what_is_not_on_record_was_never_charged() -> None:
    gate, journal, _ = opened()
    gate.measure([QUERY], Laplace(10.0))
    journal._events.pop()
    assert gate.spent == Fraction(1, 10)
    gate.mend()
    assert gate.spent == 0


def test_a_run_of_an_earlier_life_goes_on_after_a_reservation_that_the_life_ended_in() -> None:
    gate, journal, db = opened()
    before = gate.begin_run(RUN).run
    with gate.reserve(Budget("pure", Fraction(1))):
        within = gate.begin_run(RUN).run
        copy = Told()
        copy._events, copy._secrets = list(journal._events), dict(journal._secrets)
    db.journal = copy
    again = db.open_gate(BUDGET)
    assert list(again._desk.charges.runs) == [before]
    assert [event for event in copy.events() if isinstance(event, RunEnded)] == [RunEnded(40, within, Fraction(3, 10))]
    assert copy.events()[-1] == ReservationEnded(40)
    assert again.first_exceeding(before, [QUERY], [10**6]).asked == 1


def test_an_easy_comparison_before_a_reservation_is_not_within_it() -> None:
    """Once the reservation is over, on record too, runs from before it can go on."""
    gate, _, db = opened()
    run = gate.begin_run(RUN).run
    with gate.reserve(Budget("pure", Fraction(1))):
        gate.measure([QUERY], Laplace(10.0))
    for kernel in (gate, db.open_gate(BUDGET)):
        assert kernel._desk.charges.first_reserved == 0
        assert kernel.first_exceeding(run, [QUERY], [10**6]).crossing is None
    assert isinstance(gate.history[-3], Measured)


def test_the_widest_noise_that_can_be_drawn_is_taken() -> None:
    gate, _, _ = opened()
    widest = Laplace(2.0**48)
    assert gate.begin_run(RunRequest(2.0**48, 2.0**48, widest)).run == 0
    assert gate.first_exceeding(0, [QUERY], [2**60]).asked == 1
    assert len(gate.measure([QUERY], widest).values) == 1
    assert gate.histogram(widest).counts.shape == (4,)
    for request in (RunRequest(2.0**49, 1.0), RunRequest(1.0, 2.0**49), RunRequest(1.0, 1.0, Laplace(2.0**49))):
        with pytest.raises(tr.ParameterError, match=r"at most 2\^48"):
            gate.begin_run(request)


def test_a_record_that_costs_more_than_the_budget_is_refused_when_it_is_opened() -> None:
    """Also where leaves alone do, which are charged together."""
    gate, _, db = opened()
    segment = gate.begin_segment(Groups.marginal(SCHEMA), Laplace(2.0), 5).segment
    gate.advance(segment, [])
    assert db.open_gate(Budget("pure", Fraction(5))).spent == gate.spent == 5
    with pytest.raises(tr.BudgetExceeded):
        db.open_gate(Budget("pure", Fraction(4)))


def test_a_new_kernel_holds_no_rows_out() -> None:
    gate, journal, _ = opened()
    with pytest.raises(tr.Halted, match="no rows are held out"):
        gate.tally(Tally((1.0, -1.0), "margins", (0.0,)), Laplace(1.0))
    assert journal.order == []


def test_nothing_is_done_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked child has the same secret noise: with both answers it would cancel."""
    gate, journal, db = opened()
    run = gate.begin_run(RUN).run
    order, touched = list(journal.order), db.touched
    monkeypatch.setattr("treering.trusted.kernel.os.getpid", lambda: -1)
    operations: list[Callable[[], object]] = [
        lambda: gate.measure([QUERY], Laplace(1.0)),
        lambda: gate.first_exceeding(run, [QUERY], [0]),
        lambda: gate.end_run(run),
        lambda: gate.histogram(Laplace(1.0)),
        gate.mend,
        gate.mark,
        lambda: gate.note("x"),
    ]
    for operation in operations:
        with pytest.raises(tr.TreeringError, match="a forked child must open its own"):
            operation()
    assert (journal.order, db.touched) == (order, touched)


def test_at_most_half_of_the_rows_of_an_interval_are_held_out() -> None:
    gate, journal, db = opened()
    gate.mark()
    db.append_cells([0, 1, 2, 3, 0, 1])
    features = CellFeatures(SCHEMA, ["a"], np.eye(4) / 2, QUERY)
    request = Minimise(Problem(Logistic(), 4, regularisation=1.0), Descent("averaged", 2, 1000.0), features)
    zcdp = Kernel(db.rows, Budget("zcdp", Fraction(100)), journal)
    order = list(journal.order)
    for rows, held, most in (((40, 46), 4, 3), (None, 1, 0)):
        with pytest.raises(tr.ParameterError, match=f"held must be a number of rows, at most half of them, {most}$"):
            zcdp.minimise(request, rows, held=held)
    assert zcdp.spent == 0
    assert journal.order == order
    assert zcdp.minimise(request, (40, 46), held=3).held == 3
