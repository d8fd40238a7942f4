"""Which earlier events an event stands for, and which runs are in progress after a history."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from support.events import NO_STEPS
from treering.budget.cost import FREE
from treering.domain.groups import Groups
from treering.gate import (
    Advanced,
    Compared,
    Condensed,
    Crossing,
    Event,
    Marked,
    Noted,
    Ones,
    RunEnded,
    RunRequest,
    RunStarted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
)
from treering.noise import Laplace
from treering.trusted.journal import MemoryJournal, Secret, ends_run, is_easy, live_runs

GROUPS = Groups.marginal(tr.Schema({"a": tr.integers(0, 1)}))
NOISE = Laplace(1.0)
NONE = np.zeros(2, dtype=np.int64)
REQUEST = RunRequest(1.0, 1.0)


def begun(segment: int) -> SegmentBegun:
    return SegmentBegun(4, segment, 0, 0, GROUPS, NOISE, 3, None)


def advanced(segment: int, leaf: int) -> Advanced:
    return Advanced(4 + leaf, FREE, segment, leaf, (Ones(1),), (NONE,))


def condensed(segment: int) -> SegmentCondensed:
    return SegmentCondensed(9, segment, np.array([0, 5]), np.array([1]), None)


def started(run: int) -> RunStarted:
    return RunStarted(10, FREE, run, REQUEST)


SEGMENTS: list[Event] = [begun(0), begun(1), advanced(0, 1), advanced(1, 1), condensed(0), condensed(1), Marked(5)]


def kept(history: list[Event], event: Event) -> list[int]:
    """The places of the events that are still there once another is written."""
    journal = MemoryJournal()
    journal._events = list(history)
    journal.write(event)
    events = journal.events()
    assert events[-1] is event
    return [place for place, each in enumerate(history) if any(each is other for other in events[:-1])]


def test_a_condensed_segment_replaces_its_own_releases() -> None:
    assert kept(SEGMENTS, condensed(0)) == [0, 1, 3, 5, 6]
    assert kept(SEGMENTS, condensed(1)) == [0, 1, 2, 4, 6]
    assert kept(SEGMENTS, condensed(2)) == [0, 1, 2, 3, 4, 5, 6]


def test_a_segment_that_ended_replaces_all_of_its_own_events() -> None:
    assert kept(SEGMENTS, SegmentEnded(9, 0, 0, (), None)) == [1, 3, 5, 6]
    assert kept(SEGMENTS, SegmentEnded(9, 1, 0, (), None)) == [0, 2, 4, 6]


def test_a_condensed_record_replaces_everything_and_all_else_replaces_nothing() -> None:
    assert kept(SEGMENTS, Condensed(9, FREE.rho, 0, (), None, NO_STEPS)) == []
    for event in (Noted("more"), Marked(9), advanced(0, 2), begun(2)):
        assert kept(SEGMENTS, event) == list(range(len(SEGMENTS)))


def test_secrets_go_with_the_end_of_their_run_and_no_earlier() -> None:
    journal = MemoryJournal()
    secrets = [Secret(number) for number in range(3)]
    for run, secret in enumerate(secrets):
        journal.begin(started(run), secret)
    journal.write(Compared(10, 0, 5, None))
    journal.write(Noted("nothing"))
    assert [journal.secret(run) for run in range(3)] == secrets
    journal.write(RunEnded(10, 1, FREE.rho))
    journal.write(Compared(10, 2, 5, Crossing(4, None)))
    journal.write(RunEnded(10, 7, FREE.rho))  # An interrupt may have kept its secret from being there.
    assert journal.secret(0) is secrets[0]
    for run in (1, 2, 7):
        with pytest.raises(KeyError):
            journal.secret(run)


def test_runs_are_live_until_they_end() -> None:
    assert live_runs([]) == set()
    assert live_runs([started(0), Noted("x"), started(2), Compared(10, 0, 5, None)]) == {0, 2}
    assert live_runs([started(0), started(2), Compared(10, 0, 5, Crossing(4, None))]) == {2}
    assert live_runs([started(0), started(2), RunEnded(10, 2, FREE.rho)]) == {0}
    assert live_runs(
        [started(0), started(2), Condensed(9, FREE.rho, 3, (started(2),), None, NO_STEPS), started(3)]
    ) == {2, 3}
    assert live_runs([RunEnded(10, 5, FREE.rho), started(0)]) == {0}


def test_which_comparisons_are_easy_and_which_events_end_a_run() -> None:
    easy, crossing = Compared(10, 0, 5, None), Compared(10, 0, 5, Crossing(4, None))
    others: list[Event] = [RunEnded(10, 0, FREE.rho), Noted("x"), started(0)]
    assert [is_easy(event) for event in (easy, crossing, *others, None)] == [True, False, False, False, False, False]
    assert [ends_run(event) for event in (easy, crossing, *others)] == [False, True, True, False, False]
