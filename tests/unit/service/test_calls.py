"""The work of a request ends with its time, with its caller, and with the server."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from support.office import desk_of
from treering import deadline
from treering.errors import TimeLimit
from treering.service.auth import Caller
from treering.service.calls import RECEIVE, Call, watched
from treering.service.desk import Limits


def long() -> None:
    for _ in range(4000):
        time.sleep(0.005)
        deadline.check()


def test_work_ends_with_its_time() -> None:
    with pytest.raises(TimeLimit, match="more than 0.05 seconds"):
        Call(0.05).run(long)
    assert Call(5.0).run(lambda: 7) == 7
    deadline.check()


def test_work_ends_with_its_caller() -> None:
    call = Call(60.0)
    threading.Timer(0.05, call.leave).start()
    with pytest.raises(TimeLimit, match="the caller has gone"):
        call.run(long)


def test_work_of_one_who_has_gone_does_not_begin() -> None:
    call = Call(60.0)
    call.leave()
    with pytest.raises(TimeLimit, match="the caller has gone"):
        call.run(lambda: pytest.fail("it has begun"))


@pytest.mark.parametrize("gone", [False, True])
def test_a_connection_that_ends_ends_the_work(tmp_path: Path, gone: bool) -> None:
    desk = desk_of(tmp_path / "v", limits=Limits(seconds=0.5 if not gone else 60.0))
    caller = Caller(desk.register.issue("ada", "analyst")[0])

    async def receive() -> dict[str, str]:
        await asyncio.sleep(0.05 if gone else 3600)
        return {"type": "http.disconnect"}

    async def main() -> None:
        RECEIVE.set(receive)
        with pytest.raises(TimeLimit, match="the caller has gone" if gone else "more than 0.5 seconds"):
            await desk.work(caller, long)
        assert await desk.work(caller, lambda: 7) == 7

    asyncio.run(main())
    desk.close()


def test_what_comes_before_the_end_of_a_connection_is_passed_over() -> None:
    async def main() -> None:
        messages = [{"type": "http.disconnect"}, {"type": "http.request"}]

        async def receive() -> dict[str, str]:
            return messages.pop()

        RECEIVE.set(receive)
        call = Call(60.0)
        async with watched(call):
            await asyncio.sleep(0.02)
        with pytest.raises(TimeLimit):
            call.run(lambda: None)

    asyncio.run(main())


def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    desk = desk_of(tmp_path / "v", limits=Limits(seconds=60.0))
    caller = Caller(desk.register.issue("ada", "analyst")[0])

    async def main() -> None:
        working = asyncio.create_task(desk.work(caller, long))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await asyncio.get_running_loop().run_in_executor(None, desk.close)
        assert time.monotonic() - began < 5
        with pytest.raises(TimeLimit):
            await working

    asyncio.run(main())
