"""A server under attack by an analyst who may spend nothing, while another asks every tenth of a second.

Each attack ends within its limits, with an answer or a refusal; the other never waits for more than a second (where
other programs use the machine, a second of a processor's time, or five times what it waits when nobody attacks); server
and workers together stay below a stated memory; and what others get afterwards is what they got before.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import treering as tr
from support.office import API
from support.server_process import Process, started

SECONDS = 8.0
"""The longest that a request is worked on."""
LIMITS = ("--seconds", f"{SECONDS:g}", "--statement-seconds", "2", "--memory", "256", "--result-size", "8")
SLACK = 4.0
"""Seconds for what is not the request's own work: waiting for a thread or a process, the way there and back."""
MEMORY = 1536 * 2**20
"""Bytes that the server and its workers may have together: 256 MiB for each of two statements, and themselves."""

MONTHS = "(SELECT month, COUNT(*) AS n FROM t GROUP BY month)"
KNOWN = "SELECT month, COUNT(*) AS n FROM t GROUP BY month"
PROBES = (
    "SELECT ABS(COUNT(*)) AS n FROM t",
    "SELECT month, ABS(COUNT(*)) AS n, ROUND(COUNT(*) * 1.5, 2) AS r FROM t GROUP BY month ORDER BY month",
    "SELECT MAX(n) AS n, SUM(n) AS s FROM (SELECT month, COUNT(*) AS n FROM t GROUP BY month)",
)
"""What another analyst asks, before and after."""


@dataclass
class Watch:
    """Another analyst, who asks every tenth of a second, and looks at the memory of the server."""

    process: Process
    token: str
    waits: list[float] = field(default_factory=list)
    wrong: list[Any] = field(default_factory=list)
    memory: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until told to stop: a predicate, one's own quota, a statement."""
        with self.process.client(self.token) as client:
            for number in itertools.count():
                began = time.monotonic()
                if number % 3 == 0:
                    reply = client.get(f"{API}/me")
                else:
                    asked = {"query": "month = 1"} if number % 3 == 1 else {"sql": KNOWN}
                    reply = client.post(f"{API}/ask", json=asked)
                self.waits.append(time.monotonic() - began)
                if reply.status_code != 200:
                    self.wrong.append((reply.status_code, reply.text[:200]))
                self.memory = max(self.memory, resident(self.process.process.pid))
                if self._stop.wait(0.1):
                    return

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(60)


def strain() -> float:
    """How long a second of a processor's time takes now: more than one where others use the machine."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < 0.2:
        pass
    return (time.monotonic() - began) / 0.2


def resident(process: int) -> int:
    """The resident memory of a process and of those that it has started."""
    total = 0
    for number in [process, *children(process)]:
        try:
            pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def children(process: int) -> list[int]:
    try:
        lists = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return []
    return [int(each) for listed in lists for each in listed.split()]


@dataclass
class Scene:
    """A server, an attacker's token, another's, and how long the other waits when nobody attacks."""

    process: Process
    attacker: str
    other: str
    usual: float

    @contextmanager
    def attacked(self) -> Iterator[httpx.Client]:
        """A client of the attacker, while the other asks; in the end the other must have been answered all the time."""
        watch, before = Watch(self.process, self.other), strain()
        with self.process.client(self.attacker) as client, watch.watching():
            yield client
        assert watch.wrong == []
        assert max(watch.waits) <= max(1.0, 5 * self.usual, before, strain()), sorted(watch.waits)[-3:]
        assert watch.memory <= MEMORY
        assert self.process.process.poll() is None

    def probes(self) -> list[Any]:
        """What the other analyst gets."""
        with self.process.client(self.other) as client:
            told = [client.post(f"{API}/ask", json={"sql": text}).json() for text in PROBES]
        return [(each["columns"], each["rows"]) for each in told]


@contextmanager
def played(folder: Path, schema: tr.Schema, rows: Any) -> Iterator[Scene]:
    """The scene, over some rows, with what the other asks known before."""
    with tr.Vault.create(folder, schema, epsilon=1.0, delta=1e-9) as vault:
        vault.append(rows)
        for text in (KNOWN, *PROBES):
            vault.sql(text)
    with started(folder, *LIMITS) as process:
        with process.client() as steward:
            tokens = [
                steward.post(f"{API}/tokens", json={"name": name, "quota": {"answers": 0}}).json()["token"]
                for name in ("mallory", "ada")
            ]
        quiet = Watch(process, tokens[1])
        with quiet.watching():
            while len(quiet.waits) < 15:
                time.sleep(0.1)
        assert quiet.wrong == []
        yield Scene(process, tokens[0], tokens[1], max(quiet.waits[3:]))  # The first statement loads what reads it.


def ended(client: httpx.Client, body: dict[str, Any], **headers: str) -> tuple[int, float]:
    """The status of an answer, and how long it took."""
    began = time.monotonic()
    reply = client.post(f"{API}/ask", json=body, headers=headers)
    return reply.status_code, time.monotonic() - began


def gone(connection: socket.socket) -> bool:
    """Whether the other end has closed a connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
