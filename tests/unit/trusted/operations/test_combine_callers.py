"""Nothing about groups, spans and segments is taken at a caller's word: refusals are typed, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.row_lives import SCHEMA, account, combined, state
from treering.budget.promise import Budget
from treering.domain.axis import Axis, Scalar
from treering.domain.groups import MOST_GROUPS, Groups
from treering.domain.query import Query
from treering.errors import BudgetExceeded, GuaranteeError, ParameterError, QueryError, TreeringError
from treering.gate import Ones, Root, SegmentBegun, Span
from treering.noise import Gaussian, Laplace
from treering.trusted.kernel import Kernel
from treering.trusted.operations.segment import MOST_ROOM

ROWS = [0, 5, 5, 1, 2, 3]
ALL = Groups.marginal(SCHEMA)
NOISE = Laplace(100.0)


@pytest.fixture
def database() -> TestDatabase:
    return TestDatabase(SCHEMA, ROWS[:2])


@pytest.fixture
def gate(database: TestDatabase) -> Kernel:
    """Six rows, told apart at 2 and 4; a segment from 2 on with one leaf, and a row that is in none yet."""
    gate = database.open_gate(Budget("pure", Fraction(10)))
    gate.mark()
    database.append_cells(ROWS[2:4])
    gate.begin_segment(ALL, NOISE, 8, start=2)
    gate.advance(0, [Ones(1)])
    database.append_cells(ROWS[4:])
    return gate


def refused(gate: Kernel, work: Callable[[], object], kind: type[TreeringError], match: str) -> None:
    """Refused twice over, with the public state unchanged."""
    before = state(gate), gate.history
    for _ in range(2):
        with pytest.raises(kind, match=match):
            work()
    assert (state(gate), gate.history) == before


# -- groups ------------------------------------------------------------------------------------------------------------


class Overlapping(Groups):
    """Groups that could say something else each time."""


class Drifting(Axis):
    """An axis that could say something else each time."""


class Matrix(np.ndarray[Any, np.dtype[Any]]):
    """An array of another class."""


def raw(axes: Any, table: Any = None) -> Groups:
    """Groups by hand, past their own checks."""
    groups = Groups.marginal(SCHEMA)
    for name, value in (("axes", axes), ("table", table)):
        object.__setattr__(groups, name, value)
    return groups


def axis(**changed: Any) -> Axis:
    """The axis of the first attribute with something else in it, past its own checks."""
    made = Axis(**vars_of(ALL.axes[0]))
    for name, value in changed.items():
        object.__setattr__(made, name, value)
    return made


def vars_of(one: Axis) -> dict[str, Any]:
    return {each.name: getattr(one, each.name) for each in fields(one)}


A, B = ALL.axes
ONE, TWO = np.arange(1), np.arange(2)
ROOM = len(A.classes)
BAD_GROUPS: dict[str, Groups] = {
    "a subclass": Overlapping((A,), None),
    "no groups": cast("Groups", [Query.all(SCHEMA)]),
    "nothing": cast("Groups", None),
    "axes in a list": raw([A]),
    "no axis": raw((None,)),
    "an axis of a subclass": raw((Drifting(**vars_of(A)),)),
    "a column that is not there": raw((axis(scalar=Scalar("else", "integer")),)),
    "a column of another type": raw((axis(scalar=Scalar("a", "number")),)),
    "a part of what is no date": raw((axis(scalar=Scalar("a", "integer", None, "hour")),)),
    "no scalar": raw((axis(scalar="a"),)),
    "classes in a list": raw((axis(classes=[0] * ROOM),)),
    "too few classes": raw((axis(classes=np.zeros(ROOM - 1, dtype=np.int64)),)),
    "too many classes": raw((axis(classes=np.zeros(ROOM + 1, dtype=np.int64)),)),
    "classes of two axes": raw((axis(classes=np.zeros((1, ROOM), dtype=np.int64)),)),
    "classes of floats": raw((axis(classes=np.zeros(ROOM)),)),
    "classes of short integers": raw((axis(classes=np.zeros(ROOM, dtype=np.int32)),)),
    "classes of swapped bytes": raw((axis(classes=np.zeros(ROOM, dtype=">i8")),)),
    "classes of objects": raw((axis(classes=np.zeros(ROOM, dtype=object)),)),
    "classes of another class": raw((axis(classes=np.zeros(ROOM, dtype=np.int64).view(Matrix)),)),
    "a class of no group": raw((axis(classes=np.full(ROOM, -1)),)),
    "classes too large": raw((axis(classes=np.full(ROOM, 2**62)),)),
    "cuts in a list": raw((axis(cuts=[1]),)),
    "cuts of floats": raw((axis(cuts=A.cuts.astype(np.float64)),)),
    "cuts in disorder": raw((axis(cuts=np.array([2, 1]), classes=np.zeros(5, dtype=np.int64)),)),
    "values listed of what is cut": raw((axis(listed=(1,)),)),
    "a table of another shape": raw((A,), np.arange(7)),
    "a table without axes": raw((A,), np.array(0)),
    "a table of short integers": raw((A,), np.arange(A.number, dtype=np.int16)),
    "a table of another class": raw((A,), np.arange(A.number).view(Matrix)),
    "a table in a list": raw((A,), list(range(A.number))),
    "a table below -1": raw((A,), np.arange(A.number) - 3),
    "a table of no group": raw((A,), np.full(A.number, -1)),
    "a table of too many groups": raw((A,), np.arange(A.number) + MOST_GROUPS),
}


@pytest.mark.parametrize("name", BAD_GROUPS)
def test_groups_made_by_hand_are_checked(gate: Kernel, name: str) -> None:
    groups = BAD_GROUPS[name]
    refused(gate, lambda: gate.combine(groups, [Span(0, 6, 1)], NOISE), QueryError, "group|ax[ie]s|scalar|kept of")
    refused(gate, lambda: gate.begin_segment(groups, NOISE, 1), QueryError, "group|ax[ie]s|scalar|kept of")


def test_groups_of_another_schema_are_conditions_on_the_values_that_are_kept() -> None:
    """They mean the same under every schema of the same columns."""
    other = tr.Schema({"b": tr.integers(-5, 1, other=True), "a": tr.integers(0, 1)})
    gate = TestDatabase(SCHEMA, ROWS).open_gate(Budget("pure", Fraction(10**9)))
    groups = Groups.of([tr.parse("b <= 1", other), tr.parse("b > 1", other)])
    values = gate.combine(groups, [Span(0, 6, 1)], Laplace(1e-6)).values.tolist()
    assert values == [sum(cell % 3 <= 1 for cell in ROWS), sum(cell % 3 > 1 for cell in ROWS)]


def test_groups_by_hand_that_are_groups_are_taken() -> None:
    """Whatever a table says, a row is in one group at most."""
    gate = TestDatabase(SCHEMA, ROWS).open_gate(Budget("pure", Fraction(10**9)))
    table = np.array([[0, -1, 5], [0, 0, 5]])
    groups = Groups.over(SCHEMA, (0, 1), (np.array([1, 0]), np.array([2, 1, 0])), table)
    values = gate.combine(groups, [Span(0, 6, 1)], Laplace(1e-6)).values.tolist()
    assert values == combined(groups, SCHEMA, ROWS, [Span(0, 6, 1)]) == [4, 0, 0, 0, 0, 2]


def test_who_changes_arrays_afterwards_changes_nothing() -> None:
    db = TestDatabase(SCHEMA, ROWS)
    gate = db.open_gate(Budget("pure", Fraction(10**9)))
    classes, cuts, table = B.classes.copy(), B.cuts.copy(), np.array([0, 1, -1])
    held = Axis(B.scalar, cuts, (), classes)
    for array in (classes, cuts):
        array.setflags(write=True)
    segment = gate.begin_segment(raw((held,), table), Laplace(1e-6), 4).segment
    classes[:], cuts[:], table[:] = 0, np.arange(len(cuts)) + 90, 0
    event = gate.advance(segment, [Ones(1)])
    assert event.values[0].tolist() == [2, 1]
    begun = gate.history[0]
    assert isinstance(begun, SegmentBegun)
    assert begun.groups.table is not None
    for array in (begun.groups.axes[0].classes, begun.groups.axes[0].cuts, begun.groups.table):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    db.append_cells([0])
    assert gate.advance(segment, [Ones(2)]).values[0].tolist() == [3, 1]


# -- spans -------------------------------------------------------------------------------------------------------------


class Wide(Span):
    """A span."""


class Heavy(int):
    """A weight that says that it is 1."""

    def __abs__(self) -> int:
        return 1


BAD_SPANS: dict[str, tuple[Any, str]] = {
    "none": ([], "at least one interval"),
    "no span": ([(0, 6, 1)], "are Spans"),
    "a subclass": ([Wide(0, 6, 1)], "are Spans"),
    "weight 0": ([Span(0, 6, 0)], "not 0"),
    "a weight of floats": ([Span(0, 6, cast("int", 1.0))], "integer weight"),
    "a weight of truths": ([Span(0, 6, True)], "integer weight"),
    "a weight of a subclass": ([Span(0, 6, Heavy(5))], "integer weight"),
    "a weight of NumPy's": ([Span(0, 6, cast("int", np.int64(5)))], "integer weight"),
    "equal spans": ([Span(0, 6, 1), Span(0, 6, 1)], "overlap"),
    "spans that overlap": ([Span(2, 6, 1), Span(0, 4, 1)], "overlap"),
    "a span within another": ([Span(0, 6, 1), Span(2, 4, -1)], "overlap"),
    "a start between": ([Span(1, 6, 1)], "told apart; the nearest are"),
    "an end between": ([Span(0, 5, 1)], "told apart; the nearest are"),
    "an end beyond": ([Span(0, 7, 1)], "told apart; the nearest are"),
    "a negative start": ([Span(-2, 6, 1)], "told apart"),
    "an empty span": ([Span(2, 2, 1)], "at least one row"),
    "a span backwards": ([Span(4, 2, 1)], "at least one row"),
    "a start of text": ([Span(cast("int", "0"), 6, 1)], "integer"),
    "a start of nothing": ([Span(cast("int", None), 6, 1)], "integer"),
    "an end of floats": ([Span(0, cast("int", 6.0), 1)], "integer"),
    "an end that is no number": ([Span(0, cast("int", float("nan")), 1)], "integer"),
    "a start of truths": ([Span(False, 6, 1)], "integer"),
    "weights that overflow": ([Span(0, 6, 2**61 // 6 + 1)], "reaches 2\\^61"),
    "weights that overflow together": ([Span(0, 2, 2**59), Span(2, 4, -(2**59))], "reaches 2\\^61"),
    "a weight beyond 64 bits": ([Span(0, 6, -(2**200))], "reaches 2\\^61"),
}


@pytest.mark.parametrize("name", BAD_SPANS)
def test_spans_are_checked(gate: Kernel, name: str) -> None:
    spans, match = BAD_SPANS[name]
    refused(gate, lambda: gate.combine(ALL, spans, NOISE), ParameterError, match)


class Changing:
    """Spans that are others each time they are looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __iter__(self) -> Iterator[Span]:
        self.looks += 1
        yield Span(0, 2, 1) if self.looks == 1 else Span(0, 6, 1000)


def test_the_spans_that_were_checked_are_those_that_are_read(gate: Kernel) -> None:
    event = gate.combine(ALL, cast("Any", Changing()), NOISE)
    assert event.spans == (Span(0, 2, 1),)
    assert account(gate)[:2] == [Fraction(1, 50)] * 2


# -- noise -------------------------------------------------------------------------------------------------------------


class Loud(Laplace):
    """Noise."""


def silent(scale: Any) -> Laplace:
    noise = Laplace(1.0)
    object.__setattr__(noise, "scale", scale)
    return noise


BAD_NOISE: dict[str, tuple[Any, str]] = {
    "Gaussian noise in a pure promise": (Gaussian(100.0), "needs a promise with delta > 0"),
    "scale 0": (silent(0.0), "positive finite number"),
    "a negative scale": (silent(-1.0), "positive finite number"),
    "no scale": (silent(float("nan")), "positive finite number"),
    "an endless scale": (silent(float("inf")), "positive finite number"),
    "a denormal scale": (silent(1e-310), "denormal"),
    "too wide": (silent(2.0**49), "at most 2\\^48"),
    "a subclass": (Loud(1.0), "must be Laplace or Gaussian"),
    "a number": (100.0, "must be Laplace or Gaussian"),
}


@pytest.mark.parametrize("name", BAD_NOISE)
def test_noise_is_checked(gate: Kernel, name: str) -> None:
    noise, match = BAD_NOISE[name]
    refused(gate, lambda: gate.combine(ALL, [Span(0, 6, 1)], noise), ParameterError, match)
    refused(gate, lambda: gate.begin_segment(ALL, noise, 1), ParameterError, match)


# -- segments ----------------------------------------------------------------------------------------------------------


class Roomy(int):
    """A room that is never used up."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False


@pytest.mark.parametrize("room", [0, -1, MOST_ROOM + 1, 1.0, True, None, "1", Roomy(1), np.int64(3)])
def test_room_is_checked(gate: Kernel, room: Any) -> None:
    refused(gate, lambda: gate.begin_segment(ALL, NOISE, room), ParameterError, "room must be (an integer|at most)")


@pytest.mark.parametrize("start", [-1, 1, 5, 7, 2.0, None, "2", np.int64(2)])
def test_a_segment_begins_where_rows_are_told_apart(gate: Kernel, start: Any) -> None:
    refused(gate, lambda: gate.begin_segment(ALL, NOISE, 1, start), ParameterError, "start must be")


def test_a_segment_needs_rows() -> None:
    db = TestDatabase(SCHEMA)
    gate = db.open_gate(Budget("pure", Fraction(1)))
    refused(gate, lambda: gate.begin_segment(ALL, NOISE, 1), GuaranteeError, "the database is empty")
    refused(gate, lambda: gate.combine(ALL, [Span(0, 0, 1)], NOISE), ParameterError, "at least one row")
    gate.mark()
    db.append_cells([0])
    assert gate.begin_segment(ALL, NOISE, 1).segment == 0


@pytest.mark.parametrize("segment", [1, -1, 99, None, "0"])
def test_a_segment_that_is_not_there(gate: Kernel, segment: Any) -> None:
    for work in (
        lambda: gate.advance(segment, [Ones(1)]),
        lambda: gate.condense_segment(segment, None),
        lambda: gate.end_segment(segment),
    ):
        refused(gate, work, ParameterError, "is over, or was never begun")


def test_a_segment_that_is_over(gate: Kernel) -> None:
    gate.end_segment(0)
    for work in (
        lambda: gate.advance(0, [Ones(1)]),
        lambda: gate.condense_segment(0, None),
        lambda: gate.end_segment(0),
    ):
        refused(gate, work, ParameterError, "0 is over")


class Short(Ones):
    """A pattern."""


class Leaves(int):
    """A number of leaves."""


BAD_PATTERNS: dict[str, tuple[Any, str]] = {
    "more leaves than there are": ([Ones(3)], "the last leaves, 1 to 2 of them, not 3"),
    "more leaves than there are, by roots": ([Root(3)], "the last leaves, 1 to 2 of them, not 3"),
    "no leaves": ([Ones(0)], "the last leaves"),
    "fewer than no leaves": ([Ones(-1)], "the last leaves"),
    "very many leaves": ([Root(2**70)], "the last leaves"),
    "leaves of floats": ([Ones(cast("int", 1.0))], "with a number of leaves"),
    "leaves of truths": ([Ones(True)], "with a number of leaves"),
    "leaves of a subclass": ([Ones(Leaves(1))], "with a number of leaves"),
    "a subclass": ([Short(1)], "are Ones, Root or Fading"),
    "no pattern": ([1], "are Ones, Root or Fading"),
    "too many for the room": ([Ones(2)] * 8, "more of a leaf's room"),
    "too heavy for the room": ([Root(1)], "more of a leaf's room"),
    "the last one wrong": ([Ones(1), Ones(3)], "the last leaves"),
}


@pytest.mark.parametrize("name", BAD_PATTERNS)
def test_patterns_are_checked(gate: Kernel, name: str) -> None:
    patterns, match = BAD_PATTERNS[name]
    refused(gate, lambda: gate.advance(0, patterns), ParameterError, match)
    assert gate.advance(0, [Ones(2)] * 7).leaf == 2


def test_weights_times_rows_stay_within_64_bits(monkeypatch: pytest.MonkeyPatch, gate: Kernel) -> None:
    monkeypatch.setattr("treering.trusted.operations.segment.MAX_COUNT", 4)
    refused(gate, lambda: gate.advance(0, [Ones(1)]), ParameterError, "reaches 2\\^61")


def test_what_the_rows_cannot_pay_is_refused(gate: Kernel) -> None:
    refused(gate, lambda: gate.combine(ALL, [Span(0, 6, 501)], NOISE), BudgetExceeded, "does not cover")
    dear = gate.begin_segment(ALL, NOISE, 501).segment
    refused(gate, lambda: gate.advance(dear, []), BudgetExceeded, "does not cover")


def test_nothing_by_row_happens_within_a_reservation(gate: Kernel) -> None:
    with gate.reserve(Budget("pure", Fraction(1))):
        for work in (
            lambda: gate.combine(ALL, [Span(0, 6, 1)], NOISE),
            lambda: gate.begin_segment(ALL, NOISE, 1),
            lambda: gate.advance(0, [Ones(1)]),
        ):
            refused(gate, work, ParameterError, "charged by row, which a reserved part is not")
    gate.advance(0, [Ones(1)])


@pytest.mark.parametrize("position", [0, -1, 1.0, None, True])
def test_positions_begin_with_one(gate: Kernel, position: Any) -> None:
    refused(gate, lambda: gate.left(position), ParameterError, "position must be an integer of at least 1")
