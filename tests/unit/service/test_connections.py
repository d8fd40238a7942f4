"""Connections without a request are closed when they are late, and the oldest of them when there are too many."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field

import pytest

from treering.service.connections import FEWEST, RESERVED, Keeper, most_connections


@dataclass
class Transport:
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class Cycle:
    response_complete: bool = False


@dataclass(eq=False)
class Connection:
    cycle: Cycle | None = None
    transport: Transport = field(default_factory=Transport)


def test_a_head_that_is_late_closes_its_connection() -> None:
    keeper = Keeper(100, 10.0)
    slow, working, again = Connection(), Connection(Cycle()), Connection(Cycle(response_complete=True))
    for now in (0.0, 9.0):
        keeper.look([slow, working, again], now)
    again.cycle = Cycle(response_complete=True)  # Another request, answered in between.
    for now in (9.5, 11.0, 19.0):
        keeper.look([slow, working, again], now)
    assert (slow.transport.closed, working.transport.closed, again.transport.closed) == (True, False, False)
    keeper.look([again], 20.0)
    assert again.transport.closed


def test_a_request_begins_the_time_anew() -> None:
    keeper, one = Keeper(100, 10.0), Connection()
    keeper.look([one], 0.0)
    one.cycle = Cycle()
    keeper.look([one], 9.0)
    one.cycle.response_complete = True
    keeper.look([one], 18.0)
    assert not one.transport.closed


def test_the_oldest_idle_ones_go_when_there_are_too_many() -> None:
    keeper = Keeper(3, 10.0)
    listed = [Connection() for _ in range(3)]
    busy = [Connection(Cycle()) for _ in range(2)]
    for number in range(1, 4):
        keeper.look(listed[:number], float(number) / 10)
    keeper.look([*busy, *listed], 0.5)
    assert [each.transport.closed for each in listed] == [True, True, False]
    assert not any(each.transport.closed for each in busy)


@pytest.mark.parametrize(
    ("limits", "wanted", "found"),
    [
        ((1024, 1024), 256, 256),
        ((200, 200), 256, 200 - RESERVED),
        ((64, 64), 256, FEWEST),
        ((200, 4096), 256, 256),
        ((200, resource.RLIM_INFINITY), 256, 256),
        ((200, 300), 256, 300 - RESERVED),
    ],
)
def test_connections_leave_files_to_the_vault(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int, found: int
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: given.append(pair))
    assert most_connections(wanted) == found
    assert all(hard == limits[1] and soft <= wanted + RESERVED for soft, hard in given)
