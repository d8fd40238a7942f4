"""Processes for statements, shared among tokens: one who asks for much makes only itself wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from treering.deadline import Deadline, until
from treering.errors import QueryError, TimeLimit
from treering.service.shares import Shares
from treering.sql.engine.limits import Limits
from treering.sql.engine.workers import Workers

NUMBERS = {"a": pa.table({"v": np.arange(4000)})}
SLOW = 'SELECT SUM("x"."v" * "y"."v" + "z"."v") AS "s" FROM "a" AS "x", "a" AS "y", "a" AS "z"'
"""Takes longer than any test."""


@pytest.fixture
def shares() -> Iterator[Shares]:
    made = Shares(Workers(Limits(seconds=6.0, processes=2)))
    yield made
    made.close()


def test_a_token_has_one_share_and_others_have_theirs(shares: Shares) -> None:
    assert shares.of("one") is shares.of("one")
    assert shares.of("one") is not shares.of("other")


def test_others_are_answered_while_one_token_has_its_processes(shares: Shares) -> None:
    with ThreadPoolExecutor(3) as pool:
        heavy = [pool.submit(shares.of("heavy").run, SLOW, NUMBERS) for _ in range(2)]
        light = [shares.of("light").run('SELECT 1 AS "one"', {}).to_pylist() for _ in range(5)]
        assert not heavy[1].done()  # It waits for the first, which has the one process of this token.
        assert light == [[{"one": 1}]] * 5
        for each in heavy:
            with pytest.raises(TimeLimit):
                each.result()


def test_one_who_waits_for_a_process_stops_waiting_when_the_caller_has_gone(shares: Shares) -> None:
    share = shares.of("one")
    with ThreadPoolExecutor(1) as pool, share._turn():
        deadline = Deadline(60.0)

        def waiting() -> None:
            with until(deadline):
                share.run('SELECT 1 AS "one"', {})

        asked = pool.submit(waiting)
        deadline.cancel()
        with pytest.raises(TimeLimit, match="has gone"):
            asked.result()


def test_a_share_is_given_back_after_an_error(shares: Shares) -> None:
    share = shares.of("one")
    for _ in range(3):
        with pytest.raises(QueryError):
            share.run('SELECT "nothing" FROM "nowhere"', {})
    assert share.run('SELECT 2 AS "two"', {}).to_pylist() == [{"two": 2}]
