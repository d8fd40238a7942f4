"""The record of epochs, and what is known from it."""

from __future__ import annotations

from fractions import Fraction

import pytest

import treering as tr
from treering.budget.cost import Cost, pure
from treering.budget.promise import Budget
from treering.gate import Event, Noted, ReservationEnded, Reserved
from treering.schedulers.epochs import (
    UNFINISHED,
    Epoch,
    EpochBegan,
    EpochFailed,
    EpochOpened,
    Timeline,
    record_of,
)

PART = Budget("pure", Fraction(1, 4))
ZCDP = Budget("zcdp", Fraction(1, 8))


def reserved(part: Budget) -> Reserved:
    cost = pure(part.total) if part.kind == "pure" else Cost(None, part.total)
    return Reserved(100, cost, part)


def began(index: int) -> Noted:
    return Noted(EpochBegan(index, 100 + index, 200 + index, 0.01, 0.2))


def run(index: int, part: Budget = PART, *inside: str) -> list[Event]:
    return [began(index), reserved(part), *(Noted(word) for word in inside), ReservationEnded(100)]


def opened(index: int) -> list[Event]:
    return [*run(index), Noted(EpochOpened(index))]


def test_nothing_has_happened() -> None:
    timeline = Timeline()
    assert (timeline.epochs, timeline.start, timeline.last, timeline.standing) == ((), None, None, None)
    assert timeline.until == 0  # at once


def test_an_epoch_that_opens() -> None:
    timeline = Timeline(opened(0))
    epoch = Epoch(0, 100, 0.25, None, 0.01, 0.2, None)
    assert timeline.epochs == (epoch,)
    assert (timeline.start, timeline.last, timeline.standing) == (100, epoch, epoch)
    assert timeline.until == 200


def test_the_charge_is_of_the_kind_that_the_box_ran_under() -> None:
    epochs = Timeline([*run(0, ZCDP), Noted(EpochOpened(0))]).epochs
    assert (epochs[0].epsilon, epochs[0].rho) == (None, 0.125)


def test_what_is_reserved_before_any_epoch_is_nobodys() -> None:
    assert Timeline([reserved(PART), ReservationEnded(100)]).epochs == ()


def test_the_charge_is_that_of_the_latest_epoch() -> None:
    epochs = Timeline([*opened(0), began(1), reserved(Budget("pure", Fraction(1, 8)))]).epochs
    assert [epoch.epsilon for epoch in epochs] == [0.25, 0.125]


def test_an_epoch_that_fails_leaves_the_one_before_standing() -> None:
    timeline = Timeline([*opened(0), *run(3), Noted(EpochFailed(3, "no luck"))])
    assert [(epoch.index, epoch.error) for epoch in timeline.epochs] == [(0, None), (3, "no luck")]
    assert timeline.standing is not None
    assert (timeline.start, timeline.standing.index) == (100, 0)
    assert timeline.epochs[1].epsilon == 0.25  # spent all the same


def test_one_that_could_not_be_started_cost_nothing() -> None:
    (epoch,) = Timeline([began(0), Noted(EpochFailed(0, "no box"))]).epochs
    assert (epoch.epsilon, epoch.rho, epoch.error) == (None, None, "no box")


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_record_that_stops_is_one_of_an_unfinished_run(cut: int) -> None:
    timeline = Timeline([*opened(0), *run(1)[:cut]])
    assert [epoch.error for epoch in timeline.epochs] == [None, UNFINISHED]
    assert timeline.standing == timeline.epochs[0]
    later = Timeline([*opened(0), *run(1)[:cut], *opened(2)])
    assert [epoch.error for epoch in later.epochs] == [None, UNFINISHED, None]


def test_an_open_epoch_may_fail_later_on() -> None:
    events = [*opened(0), *opened(1), *opened(5), Noted(EpochFailed(5, "NaN")), Noted(EpochFailed(1, "NaN too"))]
    timeline = Timeline(events)
    assert [epoch.error for epoch in timeline.epochs] == [None, "NaN too", "NaN"]
    assert timeline.standing == timeline.epochs[0]


def test_notes_of_the_box_are_not_the_schedulers() -> None:
    events = [*run(0, PART, "EpochFailed", "anything"), Noted(EpochOpened(0))]
    assert Timeline(events).epochs == Timeline(opened(0)).epochs


def test_the_record_of_a_run_is_what_lies_within_its_reservation() -> None:
    first = [*run(0, PART, "a", "b"), Noted(EpochOpened(0))]
    second = [*run(7, ZCDP, "c"), Noted(EpochOpened(7))]
    assert record_of([*first, *second], 0) == (PART, [Noted("a"), Noted("b")])
    assert record_of([*first, *second], 7) == (ZCDP, [Noted("c")])


def test_the_record_of_a_run_that_never_ended_is_all_there_is() -> None:
    assert record_of([*opened(0), *run(1, PART, "a", "b")[:-1]], 1) == (PART, [Noted("a"), Noted("b")])
    assert record_of([*opened(0), *run(1, PART)[:2]], 1) == (PART, [])


def test_a_damaged_record_is_noticed() -> None:
    for events in ([began(0)], [began(0), Noted(EpochOpened(0))]):
        with pytest.raises(tr.TreeringError, match="epoch 0 is damaged"):
            record_of(events, 0)
