from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from treering.service.problems import Problem
from treering.service.turns import Turns


def test_work_is_done_in_threads() -> None:
    async def run() -> list[str]:
        turns = Turns(2, 5)
        found = await asyncio.gather(*(turns.run("a", lambda: threading.current_thread().name) for _ in range(5)))
        turns.close()
        return found

    assert all(name.startswith("treering") for name in asyncio.run(run()))


def test_callers_take_turns() -> None:
    """One thread, held; then three of a and one each of b and c in line: b and c do not wait for all of a."""

    async def run() -> list[str]:
        turns, held = Turns(1, 10), threading.Event()
        order: list[str] = []
        first = asyncio.create_task(turns.run("x", held.wait))
        await asyncio.sleep(0.05)
        waiting = [asyncio.create_task(turns.run(who, partial(order.append, who))) for who in "aaabc"]
        await asyncio.sleep(0.05)
        held.set()
        await asyncio.gather(first, *waiting)
        turns.close()
        return order

    assert asyncio.run(run()) == ["a", "b", "c", "a", "a"]


def test_a_line_has_an_end() -> None:
    async def run() -> str:
        turns, held = Turns(1, 2), threading.Event()
        tasks = [asyncio.create_task(turns.run("a", held.wait)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Problem) as refused:
            await turns.run("a", held.wait)
        other = asyncio.create_task(turns.run("b", held.wait))
        held.set()
        await asyncio.gather(*tasks, other)
        turns.close()
        return refused.value.code

    assert asyncio.run(run()) == "too_many_requests"


def test_an_error_frees_the_thread() -> None:
    def fails() -> None:
        raise ValueError("no")

    async def run() -> int:
        turns = Turns(1, 2)
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                await turns.run("a", fails)
        done = await turns.run("a", lambda: 7)
        turns.close()
        return done

    assert asyncio.run(run()) == 7


def test_one_who_leaves_the_line_does_not_stop_it() -> None:
    async def run() -> int:
        turns, held = Turns(1, 5), threading.Event()
        first = asyncio.create_task(turns.run("a", held.wait))
        await asyncio.sleep(0.02)
        leaving = asyncio.create_task(turns.run("b", lambda: 1))
        staying = asyncio.create_task(turns.run("c", lambda: 2))
        await asyncio.sleep(0.02)
        leaving.cancel()
        await asyncio.sleep(0.02)
        held.set()
        found = (await asyncio.gather(first, staying))[1]
        again = await turns.run("d", lambda: 3)
        turns.close()
        return found + again

    assert asyncio.run(run()) == 5


def test_stopping_refuses_what_waits_and_finishes_what_is_under_way() -> None:
    async def run() -> tuple[bool, str, str]:
        turns, held = Turns(1, 5), threading.Event()
        first = asyncio.create_task(turns.run("a", held.wait))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(turns.run("b", lambda: 1))
        await asyncio.sleep(0.02)
        turns.stop()
        with pytest.raises(Problem) as refused:
            await waiting
        with pytest.raises(Problem) as late:
            await turns.run("c", lambda: 1)
        held.set()
        done = await first
        turns.close()
        assert refused.value.headers == {"Retry-After": "5"}
        return done, refused.value.code, late.value.code

    assert asyncio.run(run()) == (True, "stopping", "stopping")


def test_one_caller_has_an_eighth_of_the_threads() -> None:
    """However many it sends, others find threads at once; and what it sends is done in the end."""

    async def run() -> list[int]:
        turns, held, begun = Turns(16, 50), threading.Event(), threading.Semaphore(0)

        def work() -> None:
            begun.release()
            held.wait()

        heavy = [asyncio.create_task(turns.run("a", work)) for _ in range(10)]
        await asyncio.sleep(0.05)
        assert [begun.acquire(timeout=0.05) for _ in range(3)] == [True, True, False]
        found = [await asyncio.wait_for(turns.run("b", lambda: 1), 5) for _ in range(3)]
        held.set()
        await asyncio.gather(*heavy)
        found.append(await turns.run("a", lambda: 2))
        turns.close()
        return found

    assert asyncio.run(run()) == [1, 1, 1, 2]


def test_all_work_is_done_however_it_is_mixed() -> None:
    async def run() -> int:
        turns = Turns(3, 100)
        done = await asyncio.gather(*(turns.run("abcd"[number % 7 % 4], lambda: 1) for number in range(200)))
        turns.close()
        return sum(done)

    assert asyncio.run(run()) == 200
