"""Requests that are no questions: bodies, heads, trailers and keys without end. Some need no token."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.attacking import KNOWN, SLACK, Scene, gone, played
from support.office import API, ROWS, SCHEMA, desk_of, office
from treering.service.connections import LONGEST
from treering.service.desk import Limits

MANY = 2**27
"""Bytes that are sent at most: far more than a server should keep."""

BODIES: dict[str, bytes] = {
    "deep lists": b'{"query":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"query":' * 100_000 + b"1" + b"}" * 100_000,
    "a list that does not end": b"[" * 1_000_000,
    "a long number": b'{"query": "month = 1", "within": ' + b"9" * 500_000 + b"}",
    "a large number": b'{"query": "month = 1", "within": 1e' + b"9" * 500 + b"}",
    "no number": b'{"query": "month = 1", "within": NaN}',
    "digits": b'{"query": "month = ' + b"9" * 5000 + b'"}',
    "digits of a statement": b'{"sql": "SELECT COUNT(*) FROM t WHERE month = ' + b"9" * 5000 + b'"}',
    "an exponent": b'{"query": "month = 1e999999999"}',
    "many names": b"{" + b",".join(b'"k%d": 1' % place for place in range(60_000)) + b"}",
    "one name many times": b"{" + b",".join([b'"query": "month = 1"'] * 40_000) + b"}",
    "many questions that are none": b'{"queries": [' + b",".join([b"1"] * 500_000) + b"]}",
    "many empty questions": b'{"queries": [' + b",".join([b'""'] * 300_000) + b"]}",
    "many questions": b'{"queries": [' + b",".join([b'"a"'] * 200_000) + b"]}",
    "no UTF-8": b'{"query": "\xff\xfe"}',
    "half of a pair": b'{"sql": "SELECT COUNT(*) AS \\"\\ud83d\\" FROM t"}',
    "a null character": b'{"query": "month = \\u0000"}',
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("attacks") / "v", SCHEMA, ROWS) as scene:
        yield scene


def test_bodies_are_refused_at_once(scene: Scene) -> None:
    """At the door that needs no token, too."""
    with scene.attacked() as client:
        for path in (f"{API}/ask", f"{API}/plan", "/login"):
            for name, body in BODIES.items():
                reply = client.post(path, content=body, headers={"Content-Type": "application/json"})
                assert reply.status_code == 200 or 400 <= reply.status_code < 500, name
                assert reply.elapsed.total_seconds() <= SLACK, name


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "a path": (b"GET /", b"a" * 2**16),
    "a header": (b"GET /health HTTP/1.1\r\nHost: x\r\nX: ", b"a" * 2**16),
    "headers": (b"GET /health HTTP/1.1\r\nHost: x\r\n", b"X: a\r\n" * 2**13),
    "trailers": (b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: a\r\n" * 2**13),
    "the name of a part": (
        b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"a" * 2**16,
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_cut_off(scene: Scene, name: str) -> None:
    """After `LONGEST` bytes, and what was on its way."""
    start, more = ENDLESS[name]
    address = urlsplit(scene.process.url)
    with scene.attacked(), socket.create_connection((address.hostname or "", address.port or 0), timeout=5) as sending:
        sent = 0
        with suppress(ConnectionError):
            sending.sendall(start)
            while sent < MANY and not gone(sending):
                sending.setblocking(True)
                sending.sendall(more)
                sent += len(more)
        assert sent < MANY // 4


def test_a_long_head_is_said_to_be_too_long(scene: Scene) -> None:
    with scene.process.client(scene.attacker) as client:
        assert client.get("/health", headers={"X": "a" * (LONGEST // 2)}).status_code == 200
        reply = client.get("/health", headers={"X": "a" * 2 * LONGEST, "Y": "b" * 2 * LONGEST})
    assert reply.status_code == 431
    assert reply.json()["code"] == "head_too_large"


def test_many_at_once_keep_nobody_from_asking(scene: Scene) -> None:
    """Heads of 32 connections, at the same time."""
    address = urlsplit(scene.process.url)

    def send() -> None:
        with (
            suppress(OSError),
            socket.create_connection((address.hostname or "", address.port or 0), timeout=5) as each,
        ):
            each.sendall(ENDLESS["a header"][0])
            for _ in range(2**10):
                each.sendall(ENDLESS["a header"][1])

    threads = [threading.Thread(target=send) for _ in range(32)]
    with scene.attacked():
        for each in threads:
            each.start()
        for each in threads:
            each.join()


KEYED: dict[str, Callable[[int], dict[str, object]]] = {
    "a predicate": lambda _: {"query": "month = 1"},
    "predicates": lambda _: {"queries": ["month = 1"] * 3},
    "a statement": lambda _: {"sql": KNOWN},
}


@pytest.mark.parametrize("name", KEYED)
def test_keys_without_end_are_refused(tmp_path: Path, name: str) -> None:
    """What is on record is there for ever: a token puts so much there, and one that is refused asks without a key."""
    with office(tmp_path / "v", desk_of(tmp_path / "v", limits=Limits(kept=30))) as served:
        served.vault.sql(KNOWN)
        headers = served.bearer(answers=0)
        statuses = [
            served.ask({**headers, "Idempotency-Key": f"k{place}"}, **KEYED[name](place)).status_code
            for place in range(40)
        ]
        allowed = statuses.index(429)
        assert statuses == [200] * allowed + [429] * (40 - allowed)
        assert served.ask({**headers, "Idempotency-Key": "k0"}, **KEYED[name](0)).status_code == 200
        assert served.ask(headers, **KEYED[name](0)).status_code == 200
        assert served.ask({**served.bearer(answers=0), "Idempotency-Key": "x"}, **KEYED[name](0)).status_code == 200
