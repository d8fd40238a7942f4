"""Work of several threads, done by one of them: each gets its own result, and nobody is left waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.interrupts import Interrupt
from support.patience import PATIENCE, until
from treering.errors import ParameterError, VaultError
from treering.vault import together as together_module
from treering.vault.together import STOPPED, Job, Together


class Stage:
    """Does jobs, and remembers which; the first time, only once it is let through."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.begun = threading.Event()
        self.through = threading.Event()
        self.error: BaseException | None = None

    def __call__(self, jobs: Sequence[Job[Any]]) -> None:
        self.batches.append(len(jobs))
        if len(self.batches) == 1:
            self.begun.set()
            assert self.through.wait(PATIENCE)
        for job in jobs:
            job.do()
        if self.error is not None:
            raise self.error


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def until_waiting(together: Together, jobs: int) -> None:
    until(lambda: len(together._waiting) == jobs)


def saying(result: int, said: list[int]) -> Callable[[], int]:
    """Work whose result is known, and that is heard of."""

    def work() -> int:
        said.append(result)
        return result

    return work


def gathered(stage: Stage, together: Together, pool: ThreadPoolExecutor, others: int) -> list[Future[int]]:
    """The first job is being done; those of so many other threads wait."""
    asked = [pool.submit(together.run, lambda: 0)]
    assert stage.begun.wait(PATIENCE)
    for number in range(1, others + 1):
        asked.append(pool.submit(together.run, saying(number, [])))
        until_waiting(together, number)
    return asked


def test_what_comes_meanwhile_is_done_at_once_and_in_order(pool: ThreadPoolExecutor) -> None:
    stage = Stage()
    together = Together(stage)
    asked = gathered(stage, together, pool, 5)
    assert not any(each.done() for each in asked)
    stage.through.set()
    assert [each.result(PATIENCE) for each in asked] == [0, 1, 2, 3, 4, 5]
    assert stage.batches == [1, 5]


def test_one_thread_alone_waits_for_nobody() -> None:
    stage = Stage()
    stage.through.set()
    together = Together(stage)
    assert [together.run(saying(number, [])) for number in range(100)] == list(range(100))
    assert stage.batches == [1] * 100


def test_a_leader_whose_job_was_lost_on_the_way_does_it_all_the_same() -> None:
    """An interrupt can come between the two lists."""
    stage, said = Stage(), list[int]()
    stage.through.set()
    job = Job(saying(5, said))
    Together(stage)._lead(job)
    assert (stage.batches, said, job.taken, job.done, job.kept, job.outcome()) == ([1], [5], True, True, True, 5)


def test_an_error_is_that_of_its_own_thread(pool: ThreadPoolExecutor) -> None:
    stage = Stage()
    together = Together(stage)

    def refuse() -> int:
        raise ParameterError("it", "was refused")

    asked = gathered(stage, together, pool, 2)
    asked.append(pool.submit(together.run, refuse))
    until_waiting(together, 3)
    stage.through.set()
    assert [each.result(PATIENCE) for each in asked[:3]] == [0, 1, 2]
    with pytest.raises(ParameterError, match="was refused"):
        asked[3].result(PATIENCE)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (VaultError("the disk is full"), "the disk is full"),
        (KeyboardInterrupt(), STOPPED),
    ],
)
def test_what_fails_for_all_is_the_error_of_all(error: BaseException, said: str, pool: ThreadPoolExecutor) -> None:
    """Even of those whose work was done: it came to nothing."""
    stage = Stage()
    together = Together(stage)
    asked = gathered(stage, together, pool, 3)
    stage.error = error
    stage.through.set()
    with pytest.raises(type(error)):
        asked[0].result(PATIENCE)
    failed = [each.exception(PATIENCE) for each in asked[1:]]
    assert sorted(str(each) for each in failed) == sorted([str(error), said, said])
    stage.error = None
    assert together.run(lambda: 7) == 7


def test_one_who_is_interrupted_while_waiting_is_not_worked_for(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    together = Together(stage)
    asked = gathered(stage, together, pool, 0)
    done: list[int] = []

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Job, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            together.run(saying(1, done))
    asked.append(pool.submit(together.run, saying(2, done)))
    until_waiting(together, 1)
    stage.through.set()
    assert [each.result(PATIENCE) for each in asked] == [0, 2]
    assert done == [2]


def test_signals_that_are_lost_cost_time_only(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "signal", lambda _: None)
    stage = Stage()
    together = Together(stage)
    asked = gathered(stage, together, pool, 3)
    stage.through.set()
    assert [each.result(PATIENCE) for each in asked] == [0, 1, 2, 3]


@pytest.mark.parametrize("others", [1, 2, 5])
def test_no_signal_is_lost(others: int, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for itself: who has led wakes the next one, and that one all whose work it did."""
    monkeypatch.setattr(together_module, "POLL", 2 * PATIENCE)
    monkeypatch.setattr(together_module, "DELAY", 0.0)
    stage = Stage()
    together = Together(stage)
    asked = gathered(stage, together, pool, others)
    stage.through.set()
    assert [each.result(PATIENCE) for each in asked] == list(range(others + 1))


def test_one_who_waits_for_company_goes_on_when_all_are_there(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    together = Together(stage)
    asked = gathered(stage, together, pool, 2)
    stage.through.set()
    assert [each.result(PATIENCE) for each in asked] == [0, 1, 2]
    monkeypatch.setattr(together_module, "DELAY", 2 * PATIENCE)
    first = pool.submit(together.run, saying(3, []))
    until(lambda: together._leader is not None)
    second = pool.submit(together.run, saying(4, []))
    assert [first.result(PATIENCE), second.result(PATIENCE)] == [3, 4]
    assert stage.batches == [1, 2, 2]


@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("line", range(80))
def test_wherever_an_interrupt_falls_nobody_hangs_and_nothing_is_done_twice(
    line: int, leads: bool, pool: ThreadPoolExecutor
) -> None:
    stage = Stage()
    together = Together(stage)
    done: list[int] = []
    interrupt = Interrupt(line, "vault/together.py")

    def unlucky() -> int | None:
        try:
            with interrupt:
                return together.run(saying(7, done))
        except KeyboardInterrupt:
            return None

    asked: list[Future[Any]]
    if leads:
        asked = [pool.submit(unlucky)]
        until(lambda: stage.begun.is_set() or asked[0].done())
        asked.append(pool.submit(together.run, saying(1, done)))
        until(lambda: len(together._waiting) == 1 or stage.begun.is_set())
    else:
        asked = [*gathered(stage, together, pool, 1), pool.submit(unlucky)]
        until(lambda: len(together._waiting) == 2 or asked[2].done())
    stage.through.set()
    for each in asked:
        error = each.exception(PATIENCE)
        if error is not None:
            assert interrupt.fell
            assert (type(error), str(error)) == (VaultError, STOPPED)
    assert len(done) == len(set(done))
    assert together.run(lambda: 5) == 5
    assert not together._waiting


@given(st.lists(st.lists(st.integers(0, 200), max_size=20), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_every_job_is_done_once_and_gives_its_own_result(wanted: list[list[int]]) -> None:
    """Threads with pauses of so many microseconds between their jobs."""
    done: list[int] = []

    def do_all(jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            job.do()

    together = Together(do_all)

    def live(thread: int) -> None:
        for number, pause in enumerate(wanted[thread]):
            name = 100 * thread + number
            assert together.run(saying(name, done)) == name
            time.sleep(pause * 1e-6)

    with ThreadPoolExecutor(len(wanted)) as pool:
        for each in [pool.submit(live, thread) for thread in range(len(wanted))]:
            each.result(PATIENCE)
    assert sorted(done) == [100 * thread + each for thread, pauses in enumerate(wanted) for each in range(len(pauses))]
    assert not together._waiting
