"""The deadline of a request."""

from __future__ import annotations

import math
import threading

import pytest

from treering import deadline
from treering.deadline import Deadline, until
from treering.errors import TimeLimit


def test_without_a_deadline_nothing_ends() -> None:
    deadline.check()
    assert deadline.left() == math.inf


def test_work_ends_when_its_time_is_up() -> None:
    with until(Deadline(0.0)), pytest.raises(TimeLimit, match="more than 0 seconds"):
        deadline.check()


def test_work_ends_when_the_caller_has_gone() -> None:
    request = Deadline(3600)
    with until(request):
        deadline.check()
        assert 3500 < deadline.left() <= 3600
        request.cancel()
        assert deadline.left() == 0
        with pytest.raises(TimeLimit, match="has gone"):
            deadline.check()
    deadline.check()


def test_threads_have_deadlines_of_their_own() -> None:
    seen: list[float] = []
    with until(Deadline(0.0)):
        thread = threading.Thread(target=lambda: seen.append(deadline.left()))
        thread.start()
        thread.join()
    assert seen == [math.inf]


def test_what_is_about_to_be_held_is_counted() -> None:
    seen: list[int] = []
    deadline.take(5)
    with until(Deadline(60, seen.append)):
        deadline.take(7)
        with until(None):
            deadline.take(9)
    assert seen == [7]
