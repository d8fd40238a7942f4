"""What each row pays, live and after a restart, against a recount of the whole record by the formulas."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.row_lives import GROUPS, SCHEMA, SHARP, Life, account, recount, unit
from treering.budget.cost import laplace, pure
from treering.budget.promise import Budget, BudgetKind
from treering.budget.rows import Charge
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.errors import BudgetExceeded, ParameterError
from treering.gate import (
    Compared,
    Crossing,
    Fading,
    Ones,
    Pattern,
    ReservationEnded,
    Reserved,
    Root,
    RunRequest,
    RunStarted,
    Span,
)
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.charges import Charges
from treering.trusted.kernel import Kernel, follow

KINDS = pytest.mark.parametrize("kind", ["pure", "zcdp"])
ONE = GROUPS[2]
MANY = GROUPS[0]


def opened(kind: BudgetKind, total: int = 100, rows: int = 6) -> tuple[TestDatabase, Kernel]:
    """A database whose rows are told apart after every other one."""
    db = TestDatabase(SCHEMA)
    gate = db.open_gate(Budget(kind, Fraction(total)))
    for row in range(0, rows, 2):
        db.append_cells([row % 6, (row + 1) % 6])
        gate.mark()
    return db, gate


# -- one release -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "noise", "groups", "weight", "price"),
    [
        ("pure", Laplace(4.0), MANY, 1, Fraction(1, 2)),
        ("pure", Laplace(4.0), MANY, -3, Fraction(3, 2)),
        ("pure", Laplace(4.0), ONE, 1, Fraction(1, 4)),
        ("pure", Laplace(4.0), ONE, -3, Fraction(3, 4)),
        ("zcdp", Gaussian(4.0), MANY, 1, Fraction(1, 16)),
        ("zcdp", Gaussian(4.0), MANY, -3, Fraction(9, 16)),
        ("zcdp", Gaussian(4.0), ONE, 1, Fraction(1, 32)),
        ("zcdp", Gaussian(4.0), ONE, -3, Fraction(9, 32)),
        ("zcdp", Laplace(4.0), MANY, -3, Fraction(9, 16)),
        ("zcdp", Laplace(4.0), ONE, -3, Fraction(9, 32)),
    ],
)
def test_a_span_pays_for_its_weight_and_no_other_row_pays_anything(
    kind: BudgetKind, noise: Noise, groups: Groups, weight: int, price: Fraction
) -> None:
    _, gate = opened(kind)
    event = gate.combine(groups, [Span(2, 4, weight)], noise)
    assert account(gate) == [0, 0, price, price, 0, 0, 0]
    assert gate.spent == price == gate.budget.amount(event.cost)
    # Each of several spans pays for its own weight; the event states the largest cost.
    event = gate.combine(groups, [Span(4, 6, 2 * weight), Span(0, 2, -weight)], noise)
    double = price * (2 if kind == "pure" else 4)
    assert account(gate) == [price, price, price, price, double, double, 0]
    assert gate.spent == double == gate.budget.amount(event.cost)


def test_new_rows_bring_a_budget_and_old_ones_run_dry() -> None:
    db, gate = opened("zcdp", total=1)
    gate.combine(MANY, [Span(0, 6, 1)], Gaussian(1.0))
    for wanted in ([Span(0, 2, 1)], [Span(4, 6, 1)]):
        with pytest.raises(BudgetExceeded) as caught:
            gate.combine(MANY, wanted, Gaussian(100.0))
        assert [caught.value.spent, caught.value.requested] == [1, Fraction(1, 10**4)]
    db.append_cells([0, 1])
    with pytest.raises(BudgetExceeded):  # One span of two is refused: neither is charged.
        gate.combine(MANY, [Span(6, 8, 1), Span(0, 2, 1)], Gaussian(100.0))
    assert account(gate) == [1] * 6 + [0] * 3
    gate.combine(MANY, [Span(6, 8, 1)], Gaussian(1.0))
    assert account(gate) == [1] * 8 + [0]


# -- runs and reservations ---------------------------------------------------------------------------------------------


@KINDS
def test_a_run_is_on_all_rows_while_it_lasts_and_then_on_those_it_met(kind: BudgetKind) -> None:
    db, gate = opened(kind)
    started = gate.begin_run(RunRequest(2.0, 4.0))
    price = gate.budget.amount(started.cost)
    assert price == (1 if kind == "pure" else Fraction(1, 2))
    db.append_cells([0, 1])
    gate.first_exceeding(started.run, [tr.Query.all(SCHEMA)], [10**6])
    assert account(gate) == [price] * 9
    gate.end_run(started.run)
    kept = Fraction(1, 2) if kind == "pure" else price  # A run that began is never refunded in zCDP.
    assert account(gate) == [kept] * 8 + [0]
    db.append_cells([3])
    assert account(gate) == [kept] * 8 + [0, 0]


@KINDS
def test_a_run_that_crosses_stays_charged_on_the_rows_it_met(kind: BudgetKind) -> None:
    db, gate = opened(kind)
    started = gate.begin_run(RunRequest(2.0, 4.0))
    db.append_cells([0, 1])
    assert gate.first_exceeding(started.run, [tr.Query.all(SCHEMA)], [-(10**6)]).crossing is not None
    price = gate.budget.amount(started.cost)
    assert account(gate) == [price] * 8 + [0]


@KINDS
def test_a_reservation_is_on_the_rows_that_come_while_it_lasts(kind: BudgetKind) -> None:
    """What is paid from the part may be about them."""
    db, gate = opened(kind)
    with gate.reserve(Budget(kind, Fraction(40))):
        db.append_cells([0, 1])
        gate.histogram(Laplace(1.0))
        assert account(gate) == [40] * 9
    assert account(gate) == [40] * 8 + [0]
    gate = Kernel(db.rows, gate.budget, db.journal)
    assert account(gate) == [40] * 8 + [0]
    with pytest.raises(BudgetExceeded), gate.reserve(Budget(kind, Fraction(61))):
        pass
    assert account(gate) == [40] * 8 + [0]


def test_a_session_that_ended_within_a_reservation_has_charged_it() -> None:
    charges = Charges(Budget("pure", Fraction(1)))
    part = Budget("pure", Fraction(1, 2))
    follow(Reserved(10, pure(part.total), part), charges)
    assert charges.reserved
    assert charges.ledger.left(11) == Fraction(1, 2)
    follow(ReservationEnded(12), charges)
    assert [charges.ledger.left(position) for position in (12, 13)] == [Fraction(1, 2), 1]


# -- segments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "noise", "groups"),
    [
        ("pure", Laplace(40.0), MANY),
        ("pure", Laplace(40.0), ONE),
        ("zcdp", Gaussian(40.0), MANY),
        ("zcdp", Gaussian(40.0), ONE),
        ("zcdp", Laplace(40.0), MANY),
    ],
)
def test_a_leaf_pays_for_the_room_and_gets_back_what_it_did_not_use(
    kind: BudgetKind, noise: Noise, groups: Groups
) -> None:
    db, gate = opened(kind, total=1000, rows=4)
    price = unit(groups.number, noise, kind)
    segment = gate.begin_segment(groups, noise, 7, start=2).segment
    assert account(gate) == [0] * 5
    event = gate.advance(segment, [Ones(1), Ones(1)])
    assert gate.budget.amount(event.cost) == 7 * price
    assert account(gate) == [0, 0, 7 * price, 7 * price, 0]
    db.append_cells([0, 1, 2])
    gate.advance(segment, [])  # a leaf that is not released
    db.append_cells([3])
    gate.advance(segment, [Ones(3), Ones(1), Ones(1)])
    assert account(gate) == [0, 0, *[7 * price] * 6, 0]
    db.append_cells([4])  # no leaf
    ended = gate.end_segment(segment)
    assert account(gate) == [0, 0, *[3 * price] * 2, *[price] * 3, 3 * price, 0, 0]
    assert ended.charges == (Charge(2, 4, 3 * price), Charge(4, 7, price), Charge(7, 8, 3 * price))
    assert gate.spent == 3 * price


@KINDS
def test_room_is_enforced_leaf_by_leaf(kind: BudgetKind) -> None:
    """The sum of squares (pure: of absolute values) of each leaf's weights; the refusal changes nothing."""
    life = Life(kind, [0, 1])
    segment = life.begin_segment(MANY, 4, 0)
    life.advance(segment, [Ones(1)] * 3)
    life.append([2])
    before = life.state(), life.gate.history
    for patterns in ([Ones(2)] * 2, [Ones(1)] * 5, [Ones(2), *[Ones(1)] * 4], [Root(1)]):
        with pytest.raises(ParameterError, match="more of a leaf's room"):
            life.gate.advance(segment, patterns)
        assert (life.state(), life.gate.history) == before
    life.advance(segment, [Ones(2), *[Ones(1)] * 3])
    life.append([3])
    with pytest.raises(ParameterError, match="more of a leaf's room"):
        life.gate.advance(segment, [Ones(3)])
    life.advance(segment, [Ones(1)])
    assert life.agrees()


def test_a_segment_of_roots_has_room_for_its_leaves_and_no_more() -> None:
    life = Life("zcdp", [0])
    segment = life.begin_segment(MANY, Weights.ROOT.squares(5), 0)
    for leaf in range(1, 6):
        life.advance(segment, [Root(leaf)])
        life.append([leaf % 6])
    with pytest.raises(ParameterError, match="more of a leaf's room"):
        life.gate.advance(segment, [Root(6)])
    life.reopen()
    life.restart()
    with pytest.raises(ParameterError, match="more of a leaf's room"):
        life.gate.advance(segment, [Root(6)])
    life.advance(segment, [Root(5)])
    life.end_segment(segment)
    used = [Weights.ROOT.squares(5), Weights.ROOT.squares(5) + Weights.ROOT.squares(5) - 4096**2]
    price = unit(MANY.number, SHARP["zcdp"], "zcdp")
    assert account(life.gate)[0] >= used[0] * price
    assert life.agrees()


def test_a_segment_that_old_rows_cannot_pay_goes_on_with_new_ones() -> None:
    db, gate = opened("zcdp", total=1)
    gate.combine(MANY, [Span(0, 6, 1)], Gaussian(1.0))
    segment = gate.begin_segment(MANY, Gaussian(1.0), 1).segment
    with pytest.raises(BudgetExceeded):
        gate.advance(segment, [Ones(1)])
    gate.end_segment(segment)
    segment = gate.begin_segment(MANY, Gaussian(1.0), 1, start=6).segment
    db.append_cells([0, 1])
    gate.advance(segment, [Ones(1)])
    assert account(gate) == [1] * 8 + [0]


# -- any life ----------------------------------------------------------------------------------------------------------


CELLS = st.lists(st.integers(0, SCHEMA.cells - 1), min_size=1, max_size=4)
WEIGHTS = st.integers(-40, 40).filter(bool)
STEPS = (
    "append",
    "append",
    "mark",
    "combine",
    "measure",
    "begin_run",
    "end_run",
    "reserve",
    "begin_segment",
    "advance",
    "advance",
    "end_segment",
    "condense_segment",
    "condense",
    "reopen",
    "restart",
)


def step(life: Life, name: str, data: st.DataObject) -> None:
    gate = life.gate
    if name == "append":
        life.append(data.draw(CELLS))
    elif name == "mark":
        gate.mark()
    elif name == "combine":
        edges = (
            data.draw(st.lists(st.sampled_from(life.edges), min_size=2, max_size=6, unique=True)) if gate.size else []
        )
        ordered = sorted(edges)
        pairs = list(pairwise(ordered))
        chosen = pairs if data.draw(st.booleans()) else pairs[::2]
        if chosen:
            spans = [Span(start, end, data.draw(WEIGHTS)) for start, end in chosen]
            life.combine(data.draw(st.sampled_from(GROUPS)), data.draw(st.permutations(spans)))
    elif name == "measure":
        life.measure()
    elif name == "begin_run":
        life.begin_run()
    elif name == "end_run" and life.runs:
        life.end_run(data.draw(st.sampled_from(life.runs)))
    elif name == "reserve":
        with gate.reserve(Budget(gate.budget.kind, Fraction(10**9))):
            life.append(data.draw(CELLS))
            life.measure()
            gate.begin_run(RunRequest(3.0, 5.0))
    elif name == "begin_segment" and gate.size:
        room = data.draw(st.integers(1, 6) | st.just(Weights.ROOT.squares(8)))
        life.begin_segment(data.draw(st.sampled_from(GROUPS)), room, data.draw(st.sampled_from(life.edges)))
    elif name == "advance":
        ready = [number for number, edges in life.segments.items() if edges[-1] < gate.size]
        if ready:
            _advance(life, data.draw(st.sampled_from(ready)), data)
    elif name in ("end_segment", "condense_segment") and life.segments:
        segment = data.draw(st.sampled_from(sorted(life.segments)))
        life.end_segment(segment) if name == "end_segment" else gate.condense_segment(segment, None)
    elif name == "condense":
        gate.condense(None)
    elif name == "reopen":
        life.reopen()
    elif name == "restart":
        life.restart()


def _advance(life: Life, segment: int, data: st.DataObject) -> None:
    leaf = len(life.segments[segment])
    kinds: list[Any] = [Ones, Root, Fading]
    patterns: list[Pattern] = [
        data.draw(st.sampled_from(kinds))(data.draw(st.integers(1, leaf))) for _ in range(data.draw(st.integers(0, 2)))
    ]
    before = life.state(), life.gate.history
    try:
        life.gate._desk.charges.segments[segment].check(patterns)
    except ParameterError:
        with pytest.raises(ParameterError, match="room"):
            life.gate.advance(segment, patterns)
        assert (life.state(), life.gate.history) == before
    else:
        life.advance(segment, patterns)


@KINDS
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_life_costs_each_row_what_the_formulas_say_and_goes_on_after_a_restart(
    kind: str, data: st.DataObject
) -> None:
    """Values are those of the rows, charges those of the recount, and a restart changes no bit."""
    life = Life(kind)
    for name in data.draw(st.lists(st.sampled_from(STEPS), min_size=5, max_size=40)):
        step(life, name, data)
        assert life.agrees()
    life.reopen()
    life.restart()


@KINDS
@pytest.mark.parametrize("between", ["nothing", "condense_segment", "restart", "condense"])
def test_the_end_of_a_segment_replaces_what_came_after_a_condensed_record(kind: str, between: str) -> None:
    """The record of the segment's later leaves is gone with its end: what their rows have paid is not."""
    life = Life(kind, [0, 1])
    segment = life.begin_segment(MANY, 10, 0)
    life.advance(segment, [Ones(1)] * 2)
    life.gate.condense(None)
    life.append([2, 3])
    life.advance(segment, [Ones(2), Ones(1)])
    if between == "condense_segment":
        life.gate.condense_segment(segment, None)
    elif between != "nothing":
        life.gate.condense(None) if between == "condense" else life.restart()
    life.append([4])
    life.advance(segment, [Ones(3)])
    life.end_segment(segment)
    price = unit(MANY.number, SHARP[kind], kind)
    assert [amount / price for amount in recount(life.journal.record, life.gate.budget, 5)] == [4, 4, 3, 3, 1, 0]
    assert life.agrees()
    life.reopen()
    life.restart()
    assert life.agrees()


def test_a_run_that_crossed_is_refunded_nothing_when_it_is_followed() -> None:
    """Below the threshold it goes on, and is held; a crossing ends it, and all rows that met it have paid in full."""
    charges = Charges(Budget("pure", Fraction(4)))
    follow(RunStarted(10, laplace(1, 2), 0, RunRequest(4.0, 8.0)), charges)
    for compared, later in ((Compared(10, 0, 5, None), Fraction(7, 2)), (Compared(12, 0, 1, Crossing(0, None)), 4)):
        follow(compared, charges)
        assert [charges.ledger.left(position) for position in (1, 12, 13)] == [Fraction(7, 2), Fraction(7, 2), later]
    assert charges.ledger.spent == Fraction(1, 2)


def test_a_lasting_account_keeps_few_steps() -> None:
    """A series over a thousand leaves is a few steps in the ledger, while it lasts and after it."""
    life = Life("zcdp", [0])
    segment = life.begin_segment(ONE, Weights.ROOT.squares(64), 0)
    for leaf in range(1, 65):
        life.advance(segment, [Root(leaf)])
        life.append([leaf % 6])
    assert len(life.gate._desk.charges.ledger.steps.rows) == 2
    life.end_segment(segment)
    assert life.gate.spent == account(life.gate)[0]
    assert np.all(np.diff(np.array([float(each) for each in account(life.gate)])) <= 0)
