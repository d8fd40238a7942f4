"""The server under attack: see `support.attacking`."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import treering as tr
from support.attacking import KNOWN, LIMITS, MONTHS, SECONDS, SLACK, Scene, ended, gone, played
from support.office import API, ROWS, SCHEMA
from support.server_process import started


def crossed(number: int, what: str) -> str:
    """A statement over the free counts of months, multiplied with themselves."""
    return f"SELECT {what} FROM " + ", ".join(f"{MONTHS} AS a{place}" for place in range(number))


HEAVY = {
    "a comment": {"sql": "SELECT COUNT(*) FROM t " + "/**/" * 2000 + "X"},
    "a comment in a predicate": {"query": "/**/" * 2000 + "X"},
    "many tables": {"sql": crossed(6, "a0.n + a5.n AS x")},
    "a long table": {"sql": crossed(5, "a0.n AS x, a1.n AS y, a2.n AS z")},
    "nested REPLACE": {"sql": f"SELECT {'REPLACE(' * 12}CAST(n AS VARCHAR){', CHR(49), a)' * 12} AS x FROM {MONTHS}"},
    "nested texts": {"sql": f"SELECT {'CONCAT(' * 40}n{', n, n)' * 40} AS x FROM {MONTHS}"},
    "many conditions": {"query": " OR ".join(f"month = {n % 12 + 1} AND late = 'no'" for n in range(1500))},
    "a long sum": {"sql": f"SELECT {'1+' * 20_000}n AS x FROM {MONTHS}"},
    "a long predicate": {"query": "month = " + "1+" * 20_000 + "1"},
    "deep parentheses": {"query": "(" * 20_000 + "month = 1" + ")" * 20_000},
    "deep selects": {"sql": "SELECT n FROM (" * 300 + KNOWN + ")" * 300},
    "a huge number": {"sql": f"SELECT n * {'9' * 5000} AS x FROM {MONTHS}"},
    "a huge power": {"sql": f"SELECT POWER(n, POWER(n, n)) AS x FROM {MONTHS}"},
}

TEXTS = (
    "CREATE OR REPLACE MACRO abs(x) AS 42",
    "CREATE OR REPLACE MACRO range(x) AS TABLE SELECT 1",
    "CREATE OR REPLACE MACRO round(x, y) AS 42",
    "BEGIN TRANSACTION; SELECT error('x')",
    "SET VARIABLE n = 42",
    "SET threads = 64",
    "PRAGMA memory_limit='1TB'",
    "INSTALL httpfs; LOAD httpfs",
    "ATTACH ':memory:' AS other",
    "COPY (SELECT 1) TO 'treering-attack'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "CREATE TABLE released_0 AS SELECT 42 AS m0",
    "DROP TABLE released_0",
)
PLACES = (
    "SELECT EXTRACT(\"day FROM DATE '2013-01-01'); {} --\" FROM month) FROM t",
    'SELECT CAST(COUNT(*) AS "INTEGER); {} --") FROM t',
    "SELECT COUNT(*) FROM t; {}",
    'SELECT COUNT(*) AS "x""; {} --" FROM t',
    "SELECT '{}' AS x, COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE late = '\\'; {} --'",
    "SELECT COUNT(*) /* */ {} -- FROM t",
    "SELECT date_trunc('month''); {} --', month) FROM t",
    'SELECT "{}"(COUNT(*)) FROM t',
    "{}",
    'SELECT COUNT(*) FROM "t; {}"',
    'SELECT month AS "{}", COUNT(*) FROM t GROUP BY "{}"',
    'SELECT COUNT(*) FROM t ORDER BY 1 COLLATE "{}"',
    'WITH "{}" AS (SELECT month, COUNT(*) AS n FROM t GROUP BY month) SELECT ABS(n) FROM "{}"',
    "EXPLAIN {}",
    "SELECT COUNT(*) FROM t LIMIT 1; {};",
)
HOSTILE = [
    place.replace("{}", text.replace("'", "''") if "'{}'" in place else text)
    for place, text in itertools.product(PLACES, TEXTS)
]
assert len(HOSTILE) >= 200


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("attacks") / "v", SCHEMA, ROWS) as scene:
        yield scene


@pytest.mark.parametrize("form", ["application/json", "application/vnd.apache.arrow.stream"])
def test_heavy_questions_end_within_their_limits(scene: Scene, form: str) -> None:
    with scene.attacked() as client:
        for name, body in HEAVY.items():
            status, seconds = ended(client, body, Accept=form if "sql" in body else "application/json")
            assert status == 200 or 400 <= status < 500, name
            assert seconds <= SECONDS + SLACK, name


def test_heavy_questions_at_once_do_not_make_others_wait(scene: Scene) -> None:
    heavy = [HEAVY["many tables"], HEAVY["a long table"], HEAVY["many conditions"], HEAVY["a long sum"]] * 3
    with scene.attacked() as client, ThreadPoolExecutor(12) as pool:
        for status, _ in pool.map(lambda body: ended(client, body), heavy):
            assert status == 200 or 400 <= status < 500


def test_keys_keep_what_was_released_and_no_table(scene: Scene) -> None:
    with scene.process.client() as steward, scene.attacked() as client:
        before = steward.get(f"{API}/status").json()["entries"]
        for number in range(3):
            status, _ = ended(
                client, {"sql": crossed(2, "a0.n + a1.n AS x, a1.n AS y")}, **{"Idempotency-Key": f"k{number}"}
            )
            assert status == 200 or 400 <= status < 500
        lines = steward.get(f"{API}/ledger", params={"after": before}).json()["lines"]
        assert len(lines) == 3
        assert sum(len(str(line)) for line in lines) < 20_000


def test_hostile_statements_change_nothing_for_others(scene: Scene) -> None:
    before = scene.probes()
    with scene.attacked() as client:
        for text in HOSTILE:
            for body in ({"sql": text, "dry_run": True}, {"sql": text}):
                status, _ = ended(client, body)
                assert status == 200 or 400 <= status < 500, text
    assert scene.probes() == before
    assert not Path("treering-attack").exists()


ENDLESS = {"sql": crossed(9, "COUNT(*) AS x") + " WHERE " + " + ".join(f"a{place}.n" for place in range(9)) + " > 0"}
"""Five thousand million rows, none of which is kept: it takes all the time that it may, and no memory."""


def test_who_has_gone_is_not_worked_for(scene: Scene) -> None:
    """Six statements that take two seconds each, one after the other, whose callers leave at once: the next does not
    wait for them."""
    with scene.attacked() as client:
        status, seconds = ended(client, ENDLESS)
        assert status == 422
        assert seconds >= 2.0
        for _ in range(6):
            with pytest.raises(httpx.TimeoutException):
                client.post(f"{API}/ask", json=ENDLESS, timeout=0.2)
        assert ended(client, {"sql": KNOWN})[1] <= 2.0


def test_slow_heads_and_idle_connections_are_closed(scene: Scene) -> None:
    address = urlsplit(scene.process.url)
    with scene.attacked():
        held = []
        for _ in range(300):
            connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=5)
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            held.append(connection)
        time.sleep(1.0)
        closed = sum(gone(each) for each in held)
        assert closed >= 300 - 256
        for each in held:
            each.close()


def test_few_file_descriptors_are_enough(tmp_path: Path) -> None:
    """With `ulimit -n 200` and 300 connections: refused or 503, never 500; and the server goes on."""
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9) as vault:
        vault.append(ROWS)
    with started(tmp_path / "v", *LIMITS, files=200) as process:
        address, held = urlsplit(process.url), []
        for _ in range(300):
            try:
                held.append(socket.create_connection((address.hostname or "", address.port or 0), timeout=1))
            except OSError:
                break
        statuses = set()
        for _ in range(20):
            try:
                with process.client() as client:
                    statuses.add(client.post(f"{API}/ask", json={"query": "month = 1"}, timeout=10).status_code)
            except httpx.TransportError:
                continue
        assert statuses <= {200, 503}
        for each in held:
            each.close()
        time.sleep(1.5)
        with process.client() as client:
            assert client.post(f"{API}/ask", json={"sql": KNOWN}).status_code == 200
        assert process.process.poll() is None
