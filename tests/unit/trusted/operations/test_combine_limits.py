"""Both sides of the limits on groups, spans, rooms and patterns."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.drawing import draw_by
from support.row_lives import SCHEMA
from treering.arrays import Ints
from treering.budget.promise import Budget
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.domain.sums import sums_of
from treering.errors import ParameterError, QueryError
from treering.gate import Fading, Ones, Pattern, Root, Span
from treering.noise import Laplace, Noise
from treering.trusted.charges import newest_last
from treering.trusted.kernel import Kernel
from treering.trusted.operations import combine, groups, segment as segment_module
from treering.trusted.operations.groups import checked_groups
from treering.trusted.operations.segment import MOST_ROOM, Leaves
from treering.trusted.rows.typed import stored

ALL = Groups.marginal(SCHEMA)
KEPT = stored(SCHEMA)
NOISE = Laplace(2.0**40)
SHARP = Laplace(2.0**-20)


def opened() -> tuple[TestDatabase, Kernel]:
    """Six rows, told apart at 2 and 4."""
    db = TestDatabase(SCHEMA)
    gate = db.open_gate(Budget("pure", Fraction(2**80)))
    for cells in ([0, 1], [2, 3], [4, 5]):
        db.append_cells(cells)
        gate.mark()
    return db, gate


def test_weights_times_rows_may_be_as_large_as_the_largest_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights 3 and −5 on two rows each: 16. Their signs do not make up for each other."""
    _, gate = opened()
    spans = [Span(0, 2, 3), Span(4, 6, -5)]
    monkeypatch.setattr(combine, "MAX_COUNT", 16)
    with pytest.raises(ParameterError, match=r"spans have weights so large that weight times rows"):
        gate.combine(ALL, spans, NOISE)
    assert gate.spent == 0
    monkeypatch.setattr(combine, "MAX_COUNT", 17)
    assert gate.combine(ALL, spans, SHARP).values.tolist() == [3, 3, 0, 0, -5, -5]


@pytest.mark.parametrize(("pattern", "largest"), [(Ones(1), 1), (Ones(2), 1), (Root(2), 4096), (Fading(1), None)])
def test_a_patterns_largest_weight_times_all_rows_of_the_segment_is_bounded(
    pattern: Pattern, largest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four rows: those after the start."""
    db, gate = opened()
    segment = gate.begin_segment(ALL, NOISE, MOST_ROOM, start=2).segment
    gate.advance(segment, [])
    db.append_cells([0, 0])
    weight = largest or int(Weights.FADING.first(1)[0])
    monkeypatch.setattr(segment_module, "MAX_COUNT", 6 * weight)
    for patterns in ([pattern], [Ones(1), pattern], [pattern, Ones(1)]):
        with pytest.raises(ParameterError, match="patterns have weights so large that weight times rows"):
            gate.advance(segment, patterns)
    monkeypatch.setattr(segment_module, "MAX_COUNT", 6 * weight + 1)
    assert gate.advance(segment, [pattern]).leaf == 2


def test_the_largest_room_is_given() -> None:
    _, gate = opened()
    assert gate.begin_segment(ALL, NOISE, MOST_ROOM).room == 2**60
    with pytest.raises(ParameterError, match=r"room must be at most 2\^60"):
        gate.begin_segment(ALL, NOISE, MOST_ROOM + 1)


def test_there_may_be_as_many_groups_as_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", SCHEMA.cells)
    assert checked_groups(ALL, KEPT).number == SCHEMA.cells
    one = Groups.of([tr.Query.all(SCHEMA)])
    assert checked_groups(one, KEPT).number == 1
    monkeypatch.setattr(groups, "MOST_GROUPS", SCHEMA.cells - 1)
    with pytest.raises(QueryError, match=f"1 to {SCHEMA.cells - 1} groups, not {SCHEMA.cells}"):
        checked_groups(ALL, KEPT)


def test_the_three_nearest_sizes_are_named() -> None:
    db, gate = opened()
    db.append_cells([0] * 94)
    for size, nearest in ((5, "4, 6, 2"), (3, "2, 4, 0"), (99, "100, 6, 4")):
        with pytest.raises(ParameterError, match=f"told apart; the nearest are {nearest}$"):
            gate.combine(ALL, [Span(0, size, 1)], NOISE)


@pytest.mark.parametrize("rows", [(0, 0), (2, 2), (4, 2), (0, 3), (1, 2), [0, 2], (0, 2, 4), (2,), (0, 2.0), 2])
def test_an_interval_is_a_pair_of_sizes_with_rows_between(rows: Any) -> None:
    _, gate = opened()
    with pytest.raises(ParameterError, match="^rows must"):
        gate._desk.check_interval(rows)
    for fine in ((0, 2), (2, 4), (0, 6), (4, 6)):
        gate._desk.check_interval(fine)


def test_a_release_up_to_the_present_size_does_not_tell_it_apart() -> None:
    db, gate = opened()
    db.append_cells([1])
    gate.combine(ALL, [Span(0, 7, 1)], NOISE)
    db.append_cells([1])
    assert gate._desk.charges.sizes == {2, 4, 6}
    with pytest.raises(ParameterError, match="told apart; the nearest are 6, 8, 4$"):
        gate.combine(ALL, [Span(0, 7, 1)], NOISE)


def test_released_sums_cannot_be_written_to() -> None:
    _, gate = opened()
    with pytest.raises(ValueError, match="read-only"):
        gate.combine(ALL, [Span(0, 2, 1)], NOISE).values[0] = 1


def test_a_segment_of_the_rows_to_come_tells_them_apart() -> None:
    db = TestDatabase(SCHEMA, [0, 1, 2])
    gate = db.open_gate(Budget("pure", Fraction(2**80)))
    segment = gate.begin_segment(ALL, SHARP, 5, start=3).segment
    db.append_cells([4, 4])
    assert gate._desk.charges.sizes == {3}
    assert gate.advance(segment, [Ones(1)]).values[0].tolist() == [0, 0, 0, 0, 2, 0]
    db.append_cells([5])
    gate.begin_segment(ALL, SHARP, 5, start=3)  # The present size is nothing to it.
    db.append_cells([5])
    assert gate._desk.charges.sizes == {3, 5}


def test_a_series_has_a_number_from_0_on() -> None:
    _, gate = opened()
    assert [gate.begin_segment(ALL, NOISE, 1).series, gate.begin_segment(ALL, NOISE, 1, series=0).series] == [0, 0]
    assert gate.begin_segment(ALL, NOISE, 1, series=7).series == 7
    with pytest.raises(ParameterError, match="series must be"):
        gate.begin_segment(ALL, NOISE, 1, series=-1)


def test_the_widest_noise_that_can_be_drawn_is_taken() -> None:
    _, gate = opened()
    assert gate.combine(ALL, [Span(0, 2, 1)], Laplace(2.0**48)).values.shape == (6,)
    assert gate.begin_segment(ALL, Laplace(2.0**48), 1).segment == 0
    for work in (
        lambda: gate.combine(ALL, [Span(0, 2, 1)], Laplace(2.0**49)),
        lambda: gate.begin_segment(ALL, Laplace(2.0**49), 1),
    ):
        with pytest.raises(ParameterError, match=r"at most 2\^48"):
            work()


def test_rejects_groups_without_a_group() -> None:
    empty = Groups.marginal(SCHEMA)
    for table in (np.full(empty.shape, -1), np.empty(0, dtype=np.int64)):
        object.__setattr__(empty, "table", table)
        with pytest.raises(QueryError, match="groups"):
            checked_groups(empty, KEPT)


@pytest.mark.parametrize("counts", [False, True])
def test_sums_of_whole_numbers_are_made_of_their_cells(counts: bool) -> None:
    """b is 0, 1 or 2: −2, 0 and 2 half steps from the middle, and |u| ≤ 2. Groups are the values of a."""
    db = TestDatabase(SCHEMA, [SCHEMA.cell({"a": a, "b": b}) for a, b in [(0, 0), (0, 0), (0, 2), (1, 2), (1, 1)]])
    gate = db.open_gate(Budget("pure", Fraction(2**80)))
    by_a, sums = Groups.marginal(SCHEMA, ["a"]), sums_of(SCHEMA, 1, counts=counts)
    assert gate.combine(by_a, [Span(0, 5, -3)], SHARP, sums).values.tolist() == [*([-18, -12] if counts else []), 6, -6]
    segment = gate.begin_segment(by_a, SHARP, 10, sums=sums).segment
    gate.advance(segment, [])
    db.append_cells([SCHEMA.cell({"a": 1, "b": 0})])
    one, both = gate.advance(segment, [Ones(1), Ones(2)]).values
    assert one.tolist() == [*([0, 2] if counts else []), 0, -2]
    assert both.tolist() == [*([6, 6] if counts else []), -2, 0]


@pytest.mark.parametrize("leaves", [1, 2, 5])
def test_the_weights_of_a_pattern_are_for_the_last_leaves_in_their_order(leaves: int) -> None:
    assert newest_last(Ones(leaves)).tolist() == [1] * leaves
    for pattern, weights in ((Root(leaves), Weights.ROOT), (Fading(leaves), Weights.FADING)):
        found = newest_last(pattern)
        assert found.tolist() == list(reversed(weights.first(leaves).tolist()))
        assert np.all(np.diff(found) >= 0)


def test_noise_is_drawn_at_its_own_scale_for_every_number_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    db, gate = opened()
    drawn: list[tuple[Noise, int, int]] = []

    def draw(noise: Noise, factor: int, count: int) -> Ints:
        drawn.append((noise, factor, count))
        return np.full(count, 1000 * len(drawn))

    draw_by(monkeypatch, draw)
    assert gate.combine(ALL, [Span(0, 2, 1)], NOISE).values.tolist() == [1001, 1001, *[1000] * 4]
    segment = gate.begin_segment(ALL, SHARP, 10, start=4).segment
    one, other = gate.advance(segment, [Ones(1), Ones(1)]).values
    assert [one.tolist(), other.tolist()] == [[*[2000] * 4, 2001, 2001], [*[3000] * 4, 3001, 3001]]
    assert drawn == [(NOISE, 1, 6), (SHARP, 1, 6), (SHARP, 1, 6)]
    assert db.size == 6


def test_the_counts_of_leaves_go_with_their_segment() -> None:
    """They are exact."""
    _, gate = opened()
    one, two = (gate.begin_segment(ALL, SHARP, 10).segment for _ in range(2))
    for segment in (one, two):
        gate.advance(segment, [Ones(1)])
    gate.end_segment(one)
    assert list(gate._desk.own(Leaves).tallies) == [two]
