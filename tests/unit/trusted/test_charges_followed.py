"""Records followed event by event: what each of them charges, numbers, and tells apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.events import NO_STEPS
from treering.budget.cost import FREE, Cost, laplace
from treering.budget.promise import Budget
from treering.budget.rows import Charge
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.domain.loss import Logistic
from treering.domain.problem import Descent, Problem
from treering.errors import BudgetExceeded
from treering.gate import (
    Advanced,
    Combined,
    Condensed,
    Event,
    Fading,
    ForeignReleased,
    HistogramReleased,
    Marked,
    Measured,
    Minimised,
    Noted,
    Ones,
    OpenSegment,
    Pattern,
    Root,
    RowsDrawn,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Selected,
    Span,
)
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.charges import Charges, Segment
from treering.trusted.kernel import follow

GROUPS = Groups.marginal(tr.Schema({"a": tr.integers(0, 1)}))
PURE, ZCDP = Budget("pure", Fraction(10)), Budget("zcdp", Fraction(10))
NOISE = Laplace(4.0)
"""A weight of one costs a row 1/2, and 1/16 as zCDP."""
NONE = np.zeros(2, dtype=np.int64)
QUARTER = laplace(1, 4)


def begun(segment: int = 0, start: int = 0, room: int = 6, noise: Noise = NOISE) -> SegmentBegun:
    return SegmentBegun(4, segment, 0, start, GROUPS, noise, room, None)


def advanced(size: int, leaf: int, *patterns: Pattern, segment: int = 0) -> Advanced:
    return Advanced(size, FREE, segment, leaf, patterns, tuple(NONE for _ in patterns))


def condensed(*edges: int, segment: int = 0) -> SegmentCondensed:
    return SegmentCondensed(20, segment, np.array(edges), np.ones(len(edges) - 1, dtype=np.int64), None)


def followed(*events: Event, budget: Budget = PURE) -> Charges:
    charges = Charges(budget)
    for event in events:
        follow(event, charges)
    return charges


def spent(charges: Charges, *positions: int) -> list[Fraction]:
    return [charges.budget.total - charges.ledger.left(position) for position in positions]


# -- operations about all rows, or about some --------------------------------------------------------------------------


def learnt(rows: tuple[int, int] | None) -> Minimised:
    return Minimised(9, QUARTER, Problem(Logistic(), 2), Descent("averaged", 2, 10.0), (0.0, 0.0), rows, None)


@pytest.mark.parametrize(
    "event",
    [
        Measured(9, QUARTER, (), NOISE, ()),
        HistogramReleased(9, QUARTER, (0,), NOISE, NONE),
        Selected(9, QUARTER, (), 0),
        RowsDrawn(9, QUARTER, (), 1, (0,)),
        ForeignReleased(9, QUARTER, ()),
        learnt(None),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_is_about_all_rows_is_charged_to_those_that_there_were(event: Event) -> None:
    assert spent(followed(event), 1, 9, 10) == [Fraction(1, 4), Fraction(1, 4), 0]


def test_what_is_learnt_from_an_interval_is_charged_to_its_rows() -> None:
    assert spent(followed(learnt((3, 7))), 3, 4, 7, 8) == [0, Fraction(1, 4), Fraction(1, 4), 0]


def test_each_span_of_a_release_is_charged_for_its_weight() -> None:
    event = Combined(9, FREE, GROUPS, (Span(0, 2, 1), Span(4, 9, -3)), NOISE, NONE, None)
    found = spent(followed(event), 1, 2, 3, 4, 5, 9, 10)
    assert found == [Fraction(1, 2), Fraction(1, 2), 0, 0, Fraction(3, 2), Fraction(3, 2), 0]


def test_what_only_says_something_costs_nothing() -> None:
    charges = followed(Noted("x"), Marked(7), Marked(3), Marked(7), begun())
    assert charges.spent == 0
    assert (charges.marks, charges.sizes) == ((7, 3), {3, 7})


# -- segments ----------------------------------------------------------------------------------------------------------


def test_leaves_pay_for_their_room_when_they_are_followed() -> None:
    charges = followed(begun(start=2), advanced(5, 1, Ones(1)), advanced(9, 2, Ones(2)))
    assert spent(charges, 2, 3, 5, 6, 9, 10) == [0, 3, 3, 3, 3, 0]
    assert (charges.sizes, charges.next_segment) == ({2, 5, 9}, 1)
    ledger = charges.ledger.steps
    charges.catch_up()
    assert charges.ledger.steps == ledger


def test_leaves_that_a_condensed_record_stands_for_pay_as_well() -> None:
    charges = followed(begun(start=2), condensed(2, 5, 9))
    assert spent(charges, 2, 3, 9, 10) == [0, 3, 3, 0]
    assert charges.segments[0].record.drawn.tolist() == [1, 1]
    follow(advanced(11, 3, Ones(3)), charges)
    assert spent(charges, 9, 11, 12) == [3, 3, 0]
    assert charges.segments[0].drawn.tolist() == [2, 2, 1]


def test_a_record_that_no_kernel_wrote_is_refused_when_it_is_caught_up_with() -> None:
    charges = followed(begun(room=21), advanced(5, 1))
    with pytest.raises(BudgetExceeded):
        charges.catch_up()


def test_an_end_that_no_kernel_wrote_is_refused_at_once() -> None:
    """Its rows would have paid more than there is, together with what they paid before."""
    measured = Measured(9, laplace(1, 1), (), NOISE, ())
    for amount, fits in ((Fraction(9), True), (Fraction(10), False)):
        charges = followed(measured)
        end = SegmentEnded(9, 0, 0, (Charge(2, 5, amount),), None)
        if fits:
            follow(end, charges)
            assert charges.spent == 10
        else:
            with pytest.raises(BudgetExceeded):
                follow(end, charges)


def test_the_end_of_a_segment_says_what_its_rows_have_paid() -> None:
    """Whether its beginning is on record, or was replaced by the end."""
    end = SegmentEnded(9, 0, 0, (Charge(2, 5, Fraction(1)), Charge(5, 9, Fraction(1, 2))), None)
    for events in ([begun(start=2), advanced(5, 1), advanced(9, 2), end], [end]):
        charges = followed(*events)
        assert spent(charges, 2, 3, 5, 6, 9, 10) == [0, 1, 1, Fraction(1, 2), Fraction(1, 2), 0]
        assert (charges.segments, charges.sizes) == ({}, set())


def test_segments_are_numbered_on_after_all_that_there_were() -> None:
    assert Charges(PURE).next_segment == 0
    assert followed(begun(segment=3)).next_segment == 4
    assert followed(SegmentEnded(9, 5, 0, (), None)).next_segment == 6
    assert followed(SegmentEnded(9, 5, 0, (), None), SegmentEnded(9, 2, 0, (), None)).next_segment == 6
    assert followed(begun(segment=5), SegmentEnded(9, 2, 0, (), None)).next_segment == 6


def test_a_condensed_record_has_segments_marks_and_numbers() -> None:
    record = OpenSegment(begun(segment=2, start=2), np.array([2, 5, 9]), np.array([4, 6]))
    charges = followed(Noted("before"), Condensed(9, Fraction(0), 0, (), None, NO_STEPS, 7, (record,), (1, 5)))
    assert (charges.next_segment, charges.marks, charges.sizes) == (7, (1, 5), {1, 2, 5, 9})
    segment = charges.segments[2]
    assert (segment.edges, segment.drawn.tolist(), segment.paid_until) == ([2, 5, 9], [4, 6], 9)
    assert charges.spent == 0  # What the rows have paid is in the steps of the record.
    follow(advanced(11, 3, segment=2), charges)
    assert spent(charges, 9, 10, 11, 12) == [0, 3, 3, 0]


@pytest.mark.parametrize(("budget", "noise"), [(PURE, NOISE), (ZCDP, Gaussian(4.0))])
def test_what_releases_use_of_each_leaf(budget: Budget, noise: Noise) -> None:
    """Weights in absolute value for a pure budget, and squared for a zCDP one; the newest leaf has the largest."""
    segment = Segment(begun(room=2**40, noise=noise), budget)
    root, fading = (
        [int(weight) for weight in reversed(found)] for found in (segment_weights(Root(3)), segment_weights(Fading(2)))
    )
    power = 1 if budget.kind == "pure" else 2
    assert segment.use(4, [Ones(2), Ones(4)]).tolist() == [1, 1, 2, 2]
    assert segment.use(3, [Root(3)]).tolist() == [weight**power for weight in root]
    assert segment.use(3, [Fading(2), Ones(1)]).tolist() == [0, fading[0] ** power, fading[1] ** power + 1]
    for leaf, patterns in enumerate(([Ones(1)], [Ones(2), Ones(1)], []), start=1):
        segment.take(advanced(10 * leaf, leaf, *patterns))
    assert (segment.leaves, segment.drawn.tolist(), segment.edges) == (3, [2, 2, 0], [0, 10, 20, 30])
    each = budget.amount(Cost(Fraction(1, 2), Fraction(1, 16)))
    assert list(segment.paid) == [Charge(0, 20, 2 * each)]  # Neighbours that paid alike as one; who paid nothing, not.
    segment.take(advanced(40, 4, Ones(1)))
    assert list(segment.paid) == [Charge(0, 20, 2 * each), Charge(30, 40, each)]


def segment_weights(pattern: Root | Fading) -> list[int]:
    """Newest first."""
    weights = Weights.ROOT if isinstance(pattern, Root) else Weights.FADING
    return [int(weight) for weight in weights.first(pattern.leaves)]


def test_a_leaf_may_use_all_of_its_room_and_no_more() -> None:
    segment = Segment(begun(room=2), PURE)
    segment.check([Ones(1), Ones(1)])
    for patterns in ([Ones(1)] * 3, [Ones(2)], [Ones(0)]):
        with pytest.raises(tr.ParameterError, match="patterns"):
            segment.check(patterns)
    segment.take(advanced(5, 1, Ones(1)))
    segment.check([Ones(2), Ones(1)])
    with pytest.raises(tr.ParameterError, match="more of a leaf's room"):
        segment.check([Ones(2), Ones(2)])


def test_what_was_reserved_goes_up_to_who_has_paid() -> None:
    segment = Segment(begun(start=2), PURE)
    assert list(segment.reserved) == []
    segment.paid_until = 7
    assert list(segment.reserved) == [Charge(2, 7, Fraction(3))]


# -- the sizes at which rows are told apart ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "sizes"),
    [
        ([], ()),
        ([Marked(7), Marked(3), Marked(7), Marked(0), Noted("x")], (3, 7)),
        ([begun(), advanced(5, 1), advanced(9, 2)], (5, 9)),
        ([begun(start=2), advanced(5, 1), begun(1, 5), advanced(8, 1, segment=1)], (2, 5, 8)),
        ([begun(start=2), advanced(5, 1), condensed(2, 4, 6), advanced(9, 2)], (2, 4, 6, 9)),
        ([begun(start=2), advanced(5, 1), Marked(5), SegmentEnded(9, 0, 0, (), None)], (5,)),
        ([SegmentEnded(9, 0, 0, (), None)], ()),
        ([begun(), advanced(5, 1), Marked(3), Condensed(9, Fraction(0), 0, (), None, NO_STEPS)], ()),
        (
            [
                *(begun(), advanced(5, 1), Marked(3)),
                Condensed(
                    *(9, Fraction(0), 0, (), None, NO_STEPS, 1),
                    *((OpenSegment(begun(start=2), np.array([2, 6]), np.array([0])),), (1, 8)),
                ),
                advanced(9, 2),
            ],
            (1, 2, 6, 8, 9),
        ),
    ],
)
def test_rows_are_told_apart_at_marks_and_at_the_leaves_of_segments_in_progress(
    events: list[Event], sizes: tuple[int, ...]
) -> None:
    assert followed(*events).sizes == set(sizes)
