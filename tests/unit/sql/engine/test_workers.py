"""Workers: what hostile statements do in them ends within the limits, and the next statement is answered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from treering.deadline import Deadline, until
from treering.errors import ParameterError, QueryError, TimeLimit
from treering.sql.engine.current import current, using
from treering.sql.engine.limits import Limits
from treering.sql.engine.local import Local
from treering.sql.engine.workers import Workers

ENDLESS = "SELECT COUNT(*) FROM range(10000000) AS a, range(10000000) AS b WHERE (a.range * b.range) % 7 = 3"
LIMITS = Limits(seconds=20, memory=2**28, rows=10_000, bytes=2**22, processes=2)


def nested(depth: int) -> str:
    """A text that grows by a factor of eight at each step, in one vector: DuckDB cannot be interrupted meanwhile."""
    text = "'aaaaaaaa'"
    for _ in range(depth):
        text = f"replace({text}, 'a', 'aaaaaaaa')"
    return f"SELECT length({text} || range) AS n FROM range(1000)"


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(LIMITS) as pool:
        yield pool


def answers(pool: Workers) -> bool:
    return bool(pool.run("SELECT SUM(x) AS s FROM t", {"t": pa.table({"x": [1, 2, 3]})})["s"].to_pylist() == [6])


def gone(pid: int) -> bool:
    """Whether a process has ended, and nobody has to wait for it any more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_result_is_that_of_the_local_engine(workers: Workers) -> None:
    table = pa.table({"x": [1, None, 3], "name": ["é", "🛫", None]})
    for text in ("SELECT * FROM t", "SELECT name, x / 2 AS half FROM t ORDER BY x", "SELECT * FROM t WHERE FALSE"):
        assert workers.run(text, {"t": table}).equals(Local().run(text, {"t": table}))


def test_the_engine_in_use_is_that_of_the_block(workers: Workers) -> None:
    here = current()
    with using(workers), current().together():
        assert current() is workers
    assert current() is here


def test_errors_are_those_of_the_statement(workers: Workers) -> None:
    before = workers.pids
    with pytest.raises(QueryError, match="nothing_here"):
        workers.run("SELECT nothing_here FROM t", {"t": pa.table({"x": [1]})})
    assert workers.pids == before


def test_a_statement_leaves_nothing_for_the_next(workers: Workers) -> None:
    for text in ("CREATE OR REPLACE MACRO abs(x) AS 42", "SELECT 1; CREATE MACRO abs(x) AS 42", "SET VARIABLE x = 1"):
        with pytest.raises(QueryError, match="single SELECT"):
            workers.run(text, {})
    for _ in range(LIMITS.processes):
        assert workers.run("SELECT abs(-1) AS x, getvariable('x') AS y", {}).to_pylist() == [{"x": 1, "y": None}]
    with pytest.raises(QueryError, match="exist"):
        workers.run("SELECT * FROM t", {})


@pytest.mark.parametrize("text", [ENDLESS, nested(8)])
def test_a_worker_is_killed_at_the_deadline(workers: Workers, text: str) -> None:
    start = time.monotonic()
    with until(Deadline(0.5)), pytest.raises(QueryError, match=r"0\.5 seconds|memory"):
        workers.run(text, {})
    assert time.monotonic() - start < 3
    assert answers(workers)


def test_a_worker_is_killed_when_its_own_time_is_up() -> None:
    with Workers(Limits(seconds=2, processes=1)) as pool:
        assert answers(pool)
        with pytest.raises(TimeLimit, match="2 seconds"):
            pool.run(ENDLESS, {})
        assert answers(pool)


def test_a_worker_is_killed_when_the_caller_has_gone(workers: Workers) -> None:
    deadline = Deadline(60)
    threading.Timer(0.3, deadline.cancel).start()
    start = time.monotonic()
    with until(deadline), pytest.raises(TimeLimit, match="the caller has gone"):
        workers.run(ENDLESS, {})
    assert time.monotonic() - start < 3
    assert answers(workers)


@pytest.mark.parametrize(
    "text",
    [
        nested(8),
        "SELECT string_agg(repeat('x', 1000000), '') AS s FROM range(10000)",
        "SELECT length(repeat('x', 4000000000)) AS n",
        "SELECT list(a.range) AS l FROM range(100000) AS a, range(100000) AS b",
        "SELECT COUNT(DISTINCT a.range * 100000 + b.range) AS n FROM range(100000) AS a, range(100000) AS b",
    ],
)
def test_a_statement_that_needs_too_much_memory_is_refused(workers: Workers, text: str) -> None:
    start = time.monotonic()
    with pytest.raises(QueryError, match="256 MiB of memory|more than 4,194,304 bytes|more than 4GB|out of range"):
        workers.run(text, {})
    assert time.monotonic() - start < 20
    assert answers(workers)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT * FROM range(100000000)", "more than 10,000 rows"),
        ("SELECT repeat('x', 10000) AS s FROM range(5000)", "more than 4,194,304 bytes"),
        ("SELECT * FROM range(100000) AS a, range(100000) AS b", "more than 10,000 rows"),
    ],
)
def test_a_result_that_is_too_large_is_refused_with_the_limit(workers: Workers, text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        workers.run(text, {})
    assert answers(workers)


def test_a_worker_that_was_killed_is_replaced(workers: Workers) -> None:
    for pid in workers.pids:
        os.kill(pid, signal.SIGKILL)
    for _ in range(2 * LIMITS.processes):
        assert answers(workers)


def test_a_worker_that_dies_in_the_middle_is_replaced(workers: Workers) -> None:
    with ThreadPoolExecutor(1) as threads:
        statement = threads.submit(workers.run, ENDLESS, {})
        time.sleep(0.5)
        for pid in workers.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(QueryError):
            statement.result(10)
    assert answers(workers)


def test_more_callers_than_workers_wait_their_turn(workers: Workers) -> None:
    def ask(number: int) -> list[int]:
        return list(workers.run("SELECT x FROM t", {"t": pa.table({"x": [number]})})["x"].to_pylist())

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(64))) == [[number] for number in range(64)]
    assert len(workers.pids) == LIMITS.processes


def test_who_waits_for_a_worker_waits_no_longer_than_the_deadline() -> None:
    def occupy(pool: Workers) -> None:
        with until(Deadline(4)), pytest.raises(TimeLimit):
            pool.run(ENDLESS, {})

    with Workers(Limits(processes=1)) as pool, ThreadPoolExecutor(1) as threads:
        assert answers(pool)
        busy = threads.submit(occupy, pool)
        time.sleep(0.3)
        start = time.monotonic()
        with until(Deadline(0.3)), pytest.raises(TimeLimit):
            answers(pool)
        assert time.monotonic() - start < 2
        busy.result(20)
        assert answers(pool)


def test_closing_ends_all_processes_and_refuses_what_is_running() -> None:
    pool = Workers(Limits(processes=2))
    pids = pool.pids
    with ThreadPoolExecutor(1) as threads:
        statement = threads.submit(pool.run, ENDLESS, {})
        time.sleep(0.5)
        pool.close()
        with pytest.raises(QueryError, match="closing"):
            statement.result(10)
    assert all(map(gone, pids))
    with pytest.raises(QueryError, match="closing"):
        answers(pool)


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    program = (
        "import os, sys, threading, time\n"
        "from treering.sql.engine.workers import Workers\n"
        "pool = Workers()\n"
        f"threading.Thread(target=pool.run, args=({ENDLESS!r}, {{}}), daemon=True).start()\n"
        "time.sleep(2)\n"
        "print(*pool.pids, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    pids = [int(each) for each in run.stdout.split()]
    assert len(pids) == 2
    until_then = time.monotonic() + 10
    while not all(map(_ended, pids)) and time.monotonic() < until_then:
        time.sleep(0.05)
    assert all(map(_ended, pids))


def _ended(pid: int) -> bool:
    """Whether a process has ended; whoever has adopted it may not have waited for it yet."""
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_worker_gets_nothing_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERING_TOKEN", "secret")
    with Workers(Limits(processes=1)) as pool:
        assert answers(pool)
        (pid,) = pool.pids
        assert "TREERING" not in Path(f"/proc/{pid}/environ").read_text()


@pytest.mark.parametrize(
    "limits",
    [
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": "3"},
        {"memory": 1},
        {"rows": 1.5},
        {"bytes": -1},
        {"processes": True},
    ],
)
def test_rejects_limits_that_are_none(limits: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match=next(iter(limits))):
        Limits(**limits)
