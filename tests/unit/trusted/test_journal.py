"""The journal in memory: easy comparisons take no room, and nothing else is merged."""

from __future__ import annotations

import pytest

from treering.budget.cost import FREE
from treering.gate import Compared, Crossing, Noted, RunRequest, RunStarted
from treering.trusted.journal import MemoryJournal
from treering.trusted.operations.run import Run

REQUEST = RunRequest(1.0, 1.0, None)
EASY = Compared(10, 0, 5, None)


def journal() -> MemoryJournal:
    made = MemoryJournal()
    for run in (0, 1):
        made.begin(RunStarted(10, FREE, run, REQUEST), Run.draw_threshold(REQUEST))
    return made


def written(*events: object) -> list[object]:
    made = journal()
    for event in events:
        assert isinstance(event, Compared | Noted)
        made.write(event)
    return list(made.events()[2:])


def test_easy_comparisons_of_one_run_at_one_size_are_kept_as_one() -> None:
    assert written(EASY, EASY, Compared(10, 0, 7, None)) == [Compared(10, 0, 17, None)]


@pytest.mark.parametrize(
    "other",
    [Compared(11, 0, 5, None), Compared(10, 1, 5, None), Noted("in between"), Compared(10, 1, 5, Crossing(4, None))],
)
def test_others_are_kept_apart(other: object) -> None:
    assert written(EASY, other, EASY) == [EASY, other, EASY]
    assert written(EASY, EASY, other, EASY, EASY) == [Compared(10, 0, 10, None), other, Compared(10, 0, 10, None)]


def test_a_crossing_ends_its_run_and_its_secret_is_gone() -> None:
    made = journal()
    made.write(EASY)
    made.write(Compared(10, 0, 5, Crossing(4, None)))
    assert list(made.events()[2:]) == [EASY, Compared(10, 0, 5, Crossing(4, None))]
    with pytest.raises(KeyError):
        made.secret(0)
    assert isinstance(made.secret(1).value, int)
