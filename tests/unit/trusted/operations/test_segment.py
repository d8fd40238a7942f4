"""Segments over batches: what the kernel releases, charges and refuses."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.row_lives import weights
from support.segments import BATCHES, CELLS, PLENTY, ROOM, SCHEMA, SHARP, begin, combined, counted, grown, refused
from treering.budget.promise import Budget
from treering.budget.weights import Weights
from treering.domain.groups import MOST_GROUPS, Groups
from treering.errors import VaultError
from treering.gate import Advanced, Event, Fading, Ones, Pattern, Root, SegmentBegun
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.operations import segment as module

KINDS = st.sampled_from([Ones, Root, Fading])

# -- what is released --------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first noise drawn loads OpenDP
@given(BATCHES, st.data())
def test_a_release_counts_the_rows_of_its_leaves_by_their_weights_and_no_others(
    batches: list[list[int]], data: st.DataObject
) -> None:
    db = TestDatabase(SCHEMA, batches[0])
    gate, segment = begin(db)
    for leaf in range(1, len(batches) + 1):
        if leaf > 1:
            db.append_cells(batches[leaf - 1])
        last = st.integers(1, leaf)
        asked = data.draw(st.lists(st.builds(Ones, last) | st.builds(Root, last) | st.builds(Fading, last), max_size=3))
        event = gate.advance(segment, asked)
        assert (event.leaf, event.size, event.patterns) == (leaf, db.size, tuple(asked))
        for pattern, values in zip(asked, event.values, strict=True):
            assert np.array_equal(values, combined(batches[:leaf], pattern))


def test_the_first_leaf_is_all_rows_there_are_after_the_start() -> None:
    db = TestDatabase(SCHEMA, [0, 1])
    gate, segment = begin(db)
    gate.mark()
    db.append_cells([2])
    later = gate.begin_segment(CELLS, SHARP, ROOM, start=2).segment
    assert np.array_equal(gate.advance(segment, [Ones(1)]).values[0], counted([[0, 1, 2]]))
    assert np.array_equal(gate.advance(later, [Ones(1)]).values[0], counted([[2]]))


def test_rows_that_come_after_a_leaf_are_in_the_next_one() -> None:
    db, gate, segment = grown(2)
    assert [int(values.sum()) for values in gate.advance(segment, [Ones(1), Ones(2)]).values] == [1, 2]
    db.append_cells([5] * 100)
    assert [int(values.sum()) for values in gate.advance(segment, [Ones(1), Ones(2)]).values] == [100, 101]


def test_released_counts_cannot_be_written_to() -> None:
    _, gate, segment = grown(0)
    with pytest.raises(ValueError, match="read-only"):
        gate.advance(segment, [Ones(1)]).values[0][0] = 7


def test_segments_of_one_gate_and_of_two_do_not_disturb_each_other() -> None:
    db = TestDatabase(SCHEMA, [0])
    gate, one = begin(db)
    two = gate.begin_segment(CELLS, SHARP, ROOM).segment
    other = Kernel(db.rows, PLENTY, MemoryJournal())
    third = other.begin_segment(CELLS, SHARP, ROOM).segment
    for leaf in range(1, 9):
        for kernel, segment in ((gate, one), (gate, two), (other, third)):
            if segment == two and leaf % 2:
                continue  # The second segment has a leaf for every two of the others.
            own = leaf if segment != two else leaf // 2
            event = kernel.advance(segment, [Ones(width) for width in range(1, own + 1)])
            assert event.leaf == own
            for width, values in enumerate(event.values, start=1):
                assert values.sum() == width * (1 if segment != two else 2)
        if leaf == 6:
            gate.end_segment(one)
            one = gate.begin_segment(CELLS, SHARP, ROOM).segment  # It begins anew, with all rows.
            assert int(gate.advance(one, [Ones(1)]).values[0].sum()) == db.size
            gate.end_segment(one)
            one = third = other.begin_segment(CELLS, SHARP, ROOM, start=6).segment
            gate, other = other, gate
            break
        db.append_cells([leaf % SCHEMA.cells])
    db.append_cells([0] * 2)
    assert int(other.advance(two, [Ones(4)]).values[0].sum()) == 8
    assert int(gate.advance(one, [Ones(1)]).values[0].sum()) == 2


def test_groups_are_counted_together() -> None:
    """Joint values of an attribute; and queries, which some rows match none of."""
    db = TestDatabase(SCHEMA, [0, 1, 2, 2, 5])
    gate = db.open_gate(PLENTY)
    for groups, expected in (
        (Groups.marginal(SCHEMA, ["a"]), [4, 1]),
        (Groups.of([tr.parse("a = 0 AND b = 2", SCHEMA), tr.parse("a = 1", SCHEMA)]), [2, 1]),
        (Groups.of([tr.Query.all(SCHEMA)]), [5]),
    ):
        segment = gate.begin_segment(groups, SHARP, 1).segment
        assert gate.advance(segment, [Ones(1)]).values[0].tolist() == expected


# -- what it costs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "kind", "room", "amount"),
    [
        (Laplace(4.0), "pure", 1, "1/2"),
        (Laplace(4.0), "pure", 3, "3/2"),
        (Laplace(4.0), "zcdp", 3, "3/16"),
        (Gaussian(4.0), "zcdp", 1, "1/16"),
        (Gaussian(4.0), "zcdp", 5, "5/16"),
    ],
)
@pytest.mark.parametrize("alone", [False, True], ids=["groups", "one group"])
def test_a_leaf_pays_for_the_whole_room_when_it_comes(
    noise: Noise, kind: Any, room: int, amount: str, alone: bool
) -> None:
    """And no other row pays anything: neither one before, nor one to come. One group costs half."""
    groups = Groups.of([tr.Query.all(SCHEMA)]) if alone else CELLS
    expected = Fraction(amount) / (2 if alone else 1)
    db = TestDatabase(SCHEMA, [0])
    gate = db.open_gate(Budget(kind, Fraction(10)))
    gate.mark()
    db.append_cells([1, 2])
    segment = gate.begin_segment(groups, noise, room, start=1).segment
    assert gate.spent == 0
    cost = gate.advance(segment, []).cost
    assert gate.budget.amount(cost) == gate.spent == expected
    assert [gate.left(position) for position in range(1, 5)] == [10, 10 - expected, 10 - expected, 10]
    db.append_cells([3])
    assert gate.left(4) == 10
    gate.advance(segment, [])
    assert [gate.left(position) for position in range(1, 6)] == [10, *[10 - expected] * 3, 10]


def test_nothing_is_charged_for_what_is_released_from_the_room() -> None:
    db, gate, segment = grown(0, Laplace(4.0), room=100)
    for leaf in range(1, 101):
        gate.advance(segment, [Ones(leaf)])
        assert gate.spent == 50
        db.append_cells([0])


@given(
    st.lists(st.lists(st.tuples(KINDS, st.integers(1, 12)), max_size=3), min_size=1, max_size=12),
    st.booleans(),
)
@settings(deadline=None)
def test_what_was_not_used_of_the_room_is_given_back_in_the_end(
    leaves: list[list[tuple[type[Pattern], int]]], pure: bool
) -> None:
    """A row has then paid for its own weights, exactly: their sum in a pure budget, their squares' in a zCDP one."""
    noise = Laplace(2.0**40) if pure else Gaussian(2.0**40)
    db = TestDatabase(SCHEMA)
    gate = db.open_gate(Budget("pure" if pure else "zcdp", Fraction(1)))
    used = [0] * len(leaves)
    segment = -1
    for leaf, asked in enumerate(leaves, start=1):
        db.append_cells([0])
        if leaf == 1:
            segment = gate.begin_segment(CELLS, noise, 2**33).segment
        patterns: list[Pattern] = [kind(min(width, leaf)) for kind, width in asked]
        gate.advance(segment, patterns)
        for pattern in patterns:
            for back in range(pattern.leaves):
                weight = weights(pattern)[-1 - back]
                used[leaf - 1 - back] += weight if pure else weight**2
    gate.end_segment(segment)
    unit = Fraction(2, 2**40) if pure else Fraction(1, 2**80)
    assert [1 - gate.left(position) for position in range(1, len(leaves) + 1)] == [unit * each for each in used]


def test_what_does_not_fit_is_refused_and_begins_nothing() -> None:
    db = TestDatabase(SCHEMA, [0])
    gate = db.open_gate(Budget("pure", Fraction(1)))
    for begun, match in (
        (lambda: gate.begin_segment(CELLS, Gaussian(1000.0), 1), "Laplace"),
        (lambda: gate.begin_segment(CELLS, Laplace(2.0**49), 1), "2\\^48"),
        (lambda: gate.begin_segment(CELLS, Laplace(4.0), 0), "room must be"),
        (lambda: gate.begin_segment(CELLS, Laplace(4.0), module.MOST_ROOM + 1), "room must be at most 2\\^60"),
        (lambda: gate.begin_segment(CELLS, Laplace(4.0), 1, start=7), "start must be a size .* nearest are 1, 0$"),
        (lambda: gate.advance(0, []), "never begun"),
    ):
        with pytest.raises(tr.ParameterError, match=match):
            begun()
    assert gate.spent == 0
    assert len(gate.history) == 0
    segment = gate.begin_segment(CELLS, Laplace(4.0), 3).segment
    with pytest.raises(tr.BudgetExceeded):
        gate.advance(segment, [])
    assert gate.spent == 0
    assert [type(event) for event in gate.history] == [SegmentBegun]


def test_a_leaf_whose_rows_have_spent_their_budget_is_refused_and_others_are_not() -> None:
    """What counts is what each row has left."""
    db = TestDatabase(SCHEMA, [0])
    gate = db.open_gate(Budget("pure", Fraction(1)))
    gate.histogram(Laplace(2.0))
    segment = gate.begin_segment(CELLS, Laplace(2.0), 1).segment
    with pytest.raises(tr.BudgetExceeded):
        gate.advance(segment, [Ones(1)])
    db.append_cells([1])
    later = gate.begin_segment(CELLS, Laplace(2.0), 1, start=0).segment
    with pytest.raises(tr.BudgetExceeded):
        gate.advance(later, [Ones(1)])
    gate.mark()
    db.append_cells([2])
    own = gate.begin_segment(CELLS, Laplace(2.0), 1, start=2).segment
    gate.advance(own, [Ones(1)])
    assert gate.spent == 1


def test_too_many_groups_are_refused_with_how_many_can_be() -> None:
    wide = tr.Schema({"a": tr.integers(0, 4), "b": tr.integers(1, MOST_GROUPS // 4)})
    with pytest.raises(tr.ParameterError, match="at most 4,194,304"):
        Groups.marginal(wide)
    gate = TestDatabase(wide, [0]).open_gate(PLENTY)
    by_hand = Groups.cells(wide)
    with pytest.raises(tr.QueryError, match="1 to 4,194,304 groups"):
        gate.begin_segment(by_hand, SHARP, 1)
    assert len(gate.history) == 0


# -- what is refused ---------------------------------------------------------------------------------------------------


def untyped(value: object) -> Any:
    """For arguments that a type checker would refuse, and a program may still give."""
    return value


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "zcdp"])
def test_no_leaf_gives_more_than_its_room(pure: bool) -> None:
    noise = Laplace(2.0**40) if pure else Gaussian(2.0**40)
    room = int(Weights.ROOT.first(3).sum()) if pure else Weights.ROOT.squares(3)
    db, gate, segment = grown(0, noise, room)
    for leaf in range(1, 4):
        refused(gate, segment, [Root(leaf), Ones(leaf)] if leaf == 3 else [Root(leaf)] * 2, "patterns use more")
        gate.advance(segment, [Root(leaf)])
        db.append_cells([0])
    refused(gate, segment, [Root(4)], "patterns use more of a leaf's room")
    gate.advance(segment, [Root(3)])
    db.append_cells([0])
    refused(gate, segment, [Ones(4)], "patterns use more of a leaf's room")
    assert gate.advance(segment, [Root(2)]).leaf == 5


def test_leaves_that_are_not_there_cannot_be_named() -> None:
    """Those of an earlier segment among them: a release never spans two."""
    db, gate, segment = grown(5)
    refused(gate, segment, [Ones(7)], "the last leaves, 1 to 6 of them, not 7")
    refused(gate, segment, [Ones(1), Root(40)], "1 to 6 of them, not 40")
    gate.advance(segment, [Ones(6)])
    gate.end_segment(segment)
    after = gate.begin_segment(CELLS, SHARP, ROOM, start=db.size).segment
    db.append_cells([0])
    refused(gate, after, [Ones(2)], "1 to 1 of them, not 2")


@pytest.mark.parametrize(
    "pattern",
    [
        *(Ones(0), Ones(-1), Root(0), Root(-3), Ones(True), Root(True)),
        *(kind(leaves) for kind in (Ones, Root, Fading) for leaves in untyped((1.0, "1", None, np.int64(1)))),
        *(None, 1, "Ones", (1,), np.ones(2)),
        type("Other", (Ones,), {})(1),
    ],
    ids=str,
)
def test_what_is_no_pattern_is_refused(pattern: Any) -> None:
    _, gate, segment = grown(3)
    refused(gate, segment, [pattern], "patterns")
    refused(gate, segment, [Ones(1), pattern], "patterns")


@pytest.mark.parametrize(
    "operation",
    [
        lambda gate, segment: gate.advance(segment, []),
        lambda gate, segment: gate.condense_segment(segment, None),
        lambda gate, segment: gate.end_segment(segment),
    ],
    ids=["advance", "condense", "end"],
)
def test_another_segment_is_refused(operation: Callable[[Kernel, int], object]) -> None:
    _, gate, segment = grown(3)
    with pytest.raises(tr.ParameterError, match="segment 1 is over, or was never begun"):
        operation(gate, segment + 1)
    gate.end_segment(segment)
    with pytest.raises(tr.ParameterError, match="segment 0 is over, or was never begun"):
        operation(gate, segment)


def test_an_empty_leaf_is_not_made() -> None:
    db = TestDatabase(SCHEMA)
    with pytest.raises(tr.TreeringError, match="a segment begins with rows that are there"):
        begin(db)
    db.append_cells([0])
    gate, segment = begin(db)
    for leaves in range(1, 4):
        gate.advance(segment, [])
        refused(gate, segment, [], f"no new rows since its last leaf, which ends at {leaves}")
        db.append_cells([0])


def test_weights_too_large_for_the_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sum leaves 64 bits."""
    _, gate, segment = grown(1)
    monkeypatch.setattr(module, "MAX_COUNT", 2 * 4096)
    refused(gate, segment, [Root(2)], "weights so large that weight times rows")
    gate.advance(segment, [Ones(2)])


def test_a_reserved_part_is_not_for_segments() -> None:
    _, gate, segment = grown(1)
    with gate.reserve(Budget("pure", Fraction(1))):
        for operation in (
            lambda: gate.begin_segment(CELLS, SHARP, 1),
            lambda: gate.advance(segment, []),
        ):
            with pytest.raises(tr.ParameterError, match="part is reserved"):
                operation()
    gate.advance(segment, [])


# -- what goes wrong on the way ----------------------------------------------------------------------------------------


class Failing(MemoryJournal):
    """A journal whose disk is full at times."""

    __slots__ = ("full",)

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def write(self, event: Event) -> None:
        if self.full and isinstance(event, Advanced):
            raise VaultError("the disk is full")
        super().write(event)


def test_a_leaf_that_was_not_released_is_paid_for_once_and_counted_to_its_end() -> None:
    """Its rows have paid for all of the room, and none of it was used: they go on, with those that came since."""
    journal = Failing()
    db = TestDatabase(SCHEMA, [0, 0], journal)
    gate = db.open_gate(Budget("pure", Fraction(2**21)))
    segment = gate.begin_segment(CELLS, SHARP, 1).segment  # A row can pay for one such segment.
    gate.advance(segment, [])
    db.append_cells([1])
    journal.full = True
    for _ in range(3):
        with pytest.raises(VaultError, match="full"):
            gate.advance(segment, [Ones(2)])
    db.append_cells([2, 2])
    with pytest.raises(VaultError, match="full"):
        gate.advance(segment, [Ones(2)])
    db.append_cells([3])
    journal.full = False
    event = gate.advance(segment, [Ones(2)])
    assert event.leaf == 2
    assert event.values[0].tolist() == [2, 1, 2, 1, 0, 0]
    assert [gate.left(position) for position in range(1, 7)] == [0] * 6


def test_a_leaf_that_was_never_released_is_given_back_in_the_end() -> None:
    journal = Failing()
    db = TestDatabase(SCHEMA, [0, 0], journal)
    gate = db.open_gate(Budget("pure", Fraction(1)))
    for leaves in range(2):
        segment = gate.begin_segment(CELLS, Laplace(4.0), 1, start=db.size - 2).segment
        if leaves:
            gate.advance(segment, [])
            db.append_cells([0, 0])
        journal.full = True
        with pytest.raises(VaultError):
            gate.advance(segment, [Ones(1)])
        assert gate.left(db.size) == Fraction(1, 2)
        journal.full = False
        gate.end_segment(segment)
        assert {gate.left(position) for position in range(1, db.size + 1)} == {1}
