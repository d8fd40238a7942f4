"""Large questions: one at a time for each caller, and no larger than there is room."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.patience import until as wait_until
from treering.deadline import Deadline, take, until
from treering.errors import QueryError, TimeLimit
from treering.service.large import DAY, PLACES, SMALL, Allowances, Large
from treering.service.problems import Problem

ROOM = 2**24


def test_a_question_has_its_part_of_the_memory() -> None:
    large = Large(ROOM)
    with large.question("a") as held, until(Deadline(60, held)):
        for _ in range(4):
            take(ROOM // PLACES // 4)
        with pytest.raises(QueryError, match="more than 2,097,152 bytes"):
            take(1)
    with large.question("a") as held:
        held(ROOM // PLACES)


def test_small_questions_do_not_wait() -> None:
    large = Large(ROOM)
    with large.question("a") as first, large.question("a") as second:
        first(2 * SMALL)
        for _ in range(100):
            second(SMALL // 100)
        with until(Deadline(0.1)), pytest.raises(TimeLimit):
            second(SMALL)


def test_a_caller_has_one_large_question_and_others_have_theirs() -> None:
    large, together, most = Large(ROOM), 0, [0]
    lock, go = threading.Lock(), threading.Event()

    def ask(who: str) -> None:
        nonlocal together
        with large.question(who) as held:
            held(2 * SMALL)
            with lock:
                together += 1
                most[0] = max(most[0], together)
            go.wait(30)
            with lock:
                together -= 1

    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask, who) for who in "aaaabbbb"]
        wait_until(lambda: together == 2)
        go.set()
        for each in asked:
            each.result()
    assert most == [2]


def test_there_are_so_many_places_for_all() -> None:
    large, reached, go = Large(ROOM), threading.Semaphore(0), threading.Event()

    def ask(who: int) -> None:
        with large.question(str(who)) as held:
            held(2 * SMALL)
            reached.release()
            go.wait(30)

    with ThreadPoolExecutor(PLACES + 1) as pool:
        asked = [pool.submit(ask, who) for who in range(PLACES + 1)]
        assert all(reached.acquire(timeout=30) for _ in range(PLACES))
        assert not reached.acquire(timeout=0.2)
        go.set()
        for each in asked:
            each.result()
    assert reached.acquire(timeout=1)


def test_one_who_waits_ends_with_the_request() -> None:
    large = Large(ROOM)
    with large.question("a") as first, large.question("a") as second:
        first(2 * SMALL)
        deadline = Deadline(60)
        threading.Timer(0.1, deadline.cancel).start()
        with until(deadline), pytest.raises(TimeLimit, match="has gone"):
            second(2 * SMALL)
    with large.question("a") as third:
        third(2 * SMALL)


def test_a_token_puts_so_much_on_record_a_day() -> None:
    allowances = Allowances(10)
    allowances.take("mallory", 10, now=100.0)
    with pytest.raises(Problem, match="10 are there: ask without a key") as refusal:
        allowances.take("mallory", 1, now=100.5)
    assert refusal.value.status_code == 429
    assert refusal.value.code == "too_many_keys"
    assert refusal.value.headers is not None
    assert refusal.value.headers["Retry-After"] == "86400"
    allowances.take("ada", 10, now=101.0)
    allowances.take("mallory", 10, now=100.0 + DAY)


def test_what_is_refused_is_not_counted() -> None:
    allowances = Allowances(10)
    allowances.take("mallory", 4)
    with pytest.raises(Problem):
        allowances.take("mallory", 7)
    allowances.take("mallory", 6)
