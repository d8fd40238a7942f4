from __future__ import annotations

import asyncio

import pytest

from treering.service import events
from treering.service.events import MOST_EACH, Herald
from treering.service.problems import Problem


class Hall:
    """A herald that runs, and who listens."""

    def __init__(self) -> None:
        self.changes: list[int] = []
        self.herald = Herald(self._status)
        self.heard: list[bytes] = []
        self.still = True

    async def _status(self) -> bytes:
        return b'{"number":%d}' % len(self.changes)

    async def listen(self) -> None:
        async for message in self.herald.listen("a", lambda: self.still):
            self.heard.append(message)

    async def change(self) -> None:
        self.changes.append(1)
        self.herald.ring()
        await asyncio.sleep(0.05)


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch) -> Hall:
    monkeypatch.setattr(events, "PAUSE", 0.01)
    return Hall()


def test_the_status_now_and_at_every_change(hall: Hall) -> None:
    async def run() -> None:
        running, listening = asyncio.create_task(hall.herald.run()), asyncio.create_task(hall.listen())
        await asyncio.sleep(0.02)
        await hall.change()
        await hall.change()
        assert hall.herald.listening == 1
        await hall.herald.stop()
        await listening
        running.cancel()

    asyncio.run(run())
    said = [message for message in hall.heard if message.startswith(b"event: status\n")]
    assert [message.split(b"data: ")[1] for message in said] == [b'{"number":%d}\n\n' % each for each in range(3)]
    assert hall.herald.listening == 0


def test_many_changes_are_one_message(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAUSE", 600.0)

    async def run() -> None:
        running, listening = asyncio.create_task(hall.herald.run()), asyncio.create_task(hall.listen())
        await asyncio.sleep(0.02)
        for _ in range(100):
            hall.herald.ring()
            await asyncio.sleep(0.001)
        await hall.herald.stop()
        await listening
        running.cancel()

    asyncio.run(run())
    assert sum(message.startswith(b"event") for message in hall.heard) == 2


def test_silence_is_broken(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT", 0.02)

    async def run() -> None:
        listening = asyncio.create_task(hall.listen())
        await asyncio.sleep(0.1)
        hall.still = False
        await listening

    asyncio.run(run())
    assert hall.heard[1] == b": still here\n\n"


def test_one_whose_token_is_revoked_hears_no_more(hall: Hall) -> None:
    async def run() -> None:
        running, listening = asyncio.create_task(hall.herald.run()), asyncio.create_task(hall.listen())
        await asyncio.sleep(0.02)
        hall.still = False
        await hall.change()
        await asyncio.wait_for(listening, 5)
        running.cancel()

    asyncio.run(run())
    assert len(hall.heard) == 1


def test_listeners_are_limited(hall: Hall) -> None:
    async def run() -> None:
        listening = [asyncio.create_task(hall.listen()) for _ in range(MOST_EACH)]
        await asyncio.sleep(0.02)
        with pytest.raises(Problem) as refused:
            hall.herald.admit("a")
        assert refused.value.code == "too_many_listeners"
        hall.herald.admit("b")
        await hall.herald.stop()
        await asyncio.gather(*listening)
        hall.herald.admit("a")

    asyncio.run(run())
