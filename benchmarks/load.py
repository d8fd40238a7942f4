"""The server under load: many analysts at once on loopback, nothing lost, nothing charged twice, also after a kill -9.

    python -m benchmarks.load                 # what `make load` runs: 200 analysts for 60 seconds, then the rest
    python -m benchmarks.load --seconds 5 --analysts 50

Analysts ask questions, each with an idempotency key of its own, and send some of them twice; a steward appends rows all
the while, so that questions are charged again and again. Afterwards the ledger must have every answer that was
received, as it was received, once; what the replies say that was charged must be what the ledger says, and no series of
answers may have been released twice for the same rows. The same after the server was killed in the midst of it and
started again: an answer that was received is on record; one on record that was not received is allowed, and is told for
nothing to who sends the question again.

Then the rate of free answers, in batches of 100 texts, beside that of a vault asked in this process. All traffic is on
loopback, and ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from treering.answer import Answer
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.service.access import Register
from treering.service.auth import Quota
from treering.vault.vault import Vault

SCHEMA: Final = Schema({name: integers(0, 5) for name in "abcdef"})
ROWS: Final = 50_000
APPENDED: Final = 200
"""Rows in one append."""
BATCH: Final = 100
AGAIN: Final = 0.15
"""The share of questions that are sent twice."""
LEAST_RATE: Final = 0.7
"""What is claimed: the rate of free answers over HTTP, as a part of the vault's own."""
START: Final = 60.0
"""Seconds that a server may take to listen."""

PREDICATES: Final = [
    " AND ".join(f"{name} = {value}" for name in names)
    for size in (1, 2)
    for names in itertools.combinations(SCHEMA.names, size)
    for value in range(6)
]
"""The questions of the analysts: about 21 sets of attributes."""


class BrokenPromiseError(Exception):
    """What should hold does not."""


# -- a server ----------------------------------------------------------------------------------------------------------


@dataclass
class Running:
    """A server process."""

    process: subprocess.Popen[str]
    port: int

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        """End it as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        if self._ended() != 0:
            raise BrokenPromiseError(f"the server ended with {self.process.returncode}")

    def _ended(self) -> int:
        code = self.process.wait(START)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


def start(folder: Path) -> Running:
    """A server over the vault in a folder, on loopback, at a port that is free."""
    command = ["-c", "from treering.cli.main import main; main()", "serve", str(folder), "--port", "0"]
    log = ["--access-log", os.devnull]
    process = subprocess.Popen([sys.executable, *command, *log], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"listening at \w+://127\.0\.0\.1:(\d+)", line):
            return Running(process, int(found[1]))
    raise BrokenPromiseError(f"the server did not start: it ended with {process.wait()}")


@contextmanager
def serving(folder: Path) -> Iterator[Running]:
    """A server, which is stopped in the end."""
    running = start(folder)
    try:
        yield running
        running.stop()
    finally:
        if running.process.poll() is None:
            running.kill()


def table(rows: int, seed: int) -> pa.Table:
    """Public rows."""
    generator = np.random.default_rng(seed)
    return pa.table({name: generator.binomial(5, 0.4, rows) for name in SCHEMA.names})


def make(folder: Path, analysts: int) -> tuple[list[tuple[str, str]], str]:
    """A vault, a token for each analyst (id and text) and a steward's."""
    with Vault.create(folder, SCHEMA, 4.0, 1e-6) as vault:
        vault.append(table(ROWS, 0))
    register = Register(folder)
    made = [register.issue(f"analyst {number}", "analyst", quota=Quota(10**9, 1.0)) for number in range(analysts)]
    steward = register.issue("steward", "steward")[1]
    register.close()
    return [(token.id, text) for token, text in made], steward


# -- a connection ------------------------------------------------------------------------------------------------------


class Connection:
    """One connection of one caller: as little work as HTTP allows, so that the load is the server's."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, kind: str = "application/json", key: str = "") -> tuple[int, bytes]:
        """The status and the body of a reply; a `ConnectionError` if the connection breaks."""
        named = f"Idempotency-Key: {key}\r\n" if key else ""
        head = (
            f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: {kind}\r\n{named}Content-Length: {len(body)}\r\n\r\n"
        )
        return await self.send(head.encode() + body)

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """The same for a request that is written already."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise ConnectionError from None
        return int(head.split(" ", 2)[1]), body

    def close(self) -> None:
        """Close it."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


# -- analysts ----------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What the analysts have received, and what they were refused."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    """By the key on record: the token's id, and the key."""
    cost: float = 0.0
    under_way: dict[str, str] = field(default_factory=dict)
    """Questions that were sent and have no reply, by the key on record."""
    errors: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    size: int = 0

    def take(self, name: str, status: int, body: bytes) -> None:
        """A reply to the question of this key."""
        self.requests += 1
        plain = json.loads(body)
        if status != 200:
            self.errors[f"{status} {plain.get('code')}"] += 1
            return
        told = [
            Answer(*(each[field] for field in ("value", "error", "size", "kind", "margin")))
            for each in plain["answers"]
        ]
        if self.answers.setdefault(name, told) != told:
            self.errors["another answer for the same key"] += 1
        self.cost += plain["cost"]
        self.under_way.pop(name, None)


async def analyst(running: Running, token: tuple[str, str], until: float, seen: Seen, seed: int) -> None:
    """Ask one question after the other, each with its key, some of them twice."""
    chance, connection = random.Random(seed), Connection(running.port, token[1])
    try:
        for number in itertools.count():
            if time.monotonic() >= until:
                return
            key, texts = f"{seed}-{number}", chance.sample(PREDICATES, chance.choice((1, 1, 3)))
            await _ask(connection, f"{token[0]}:{key}", texts, seen)
            if chance.random() < AGAIN:
                await _ask(connection, f"{token[0]}:{key}", texts, seen)
    except ConnectionError:
        return
    finally:
        connection.close()


async def warm(running: Running, token: tuple[str, str], seen: Seen, key: str) -> None:
    """Every question once, so that what comes later finds the code loaded."""
    connection = Connection(running.port, token[1])
    await _ask(connection, f"{token[0]}:{key}", PREDICATES, seen)
    connection.close()


async def _ask(connection: Connection, name: str, texts: Sequence[str], seen: Seen) -> None:
    body = json.dumps({"queries": list(texts)})
    seen.under_way[name] = body
    seen.take(name, *await connection.post("ask", body.encode(), key=name.split(":")[1]))


async def steward(running: Running, token: str, until: float, seen: Seen, seed: int) -> None:
    """Append rows, again and again."""
    connection = Connection(running.port, token)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table(1, 0).schema) as writer:
        writer.write_table(table(APPENDED, seed))
    body = sink.getvalue().to_pybytes()
    try:
        for number in itertools.count():
            await asyncio.sleep(0.5)
            if time.monotonic() >= until:
                return
            kind = "application/vnd.apache.arrow.stream"
            status, reply = await connection.post("rows", body, kind, f"rows-{seed}-{number}")
            if status != 200:
                seen.errors[f"{status} for rows: {reply.decode()}"] += 1
            else:
                seen.size = json.loads(reply)["size"]
    except ConnectionError:
        return
    finally:
        connection.close()


async def load(
    running: Running, tokens: Sequence[tuple[str, str]], steward_token: str, seconds: float, seen: Seen, seed: int
) -> None:
    """All of them at once, for some seconds, or until the server is gone."""
    await warm(running, tokens[0], seen, f"warm-{seed}")
    until = time.monotonic() + seconds
    asking = [analyst(running, each, until, seen, seed + number) for number, each in enumerate(tokens)]
    await asyncio.gather(steward(running, steward_token, until, seen, seed), *asking)


# -- what must hold ----------------------------------------------------------------------------------------------------


def reconcile(folder: Path, seen: Seen, *, killed: bool) -> dict[str, Any]:
    """Compare what was received with the ledger; a `BrokenPromiseError` says what does not agree."""
    lines = list(Vault.read(folder).ledger())
    keys = [line["key"] for line in lines if line["kind"] == "answers"]
    recorded = {
        line["key"]: [Answer(*each) for each in line["body"]["answers"]] for line in lines if line["kind"] == "answers"
    }
    charged = paid_by_newest(lines)
    lost = [name for name, answers in seen.answers.items() if recorded.get(name) != answers]
    released = Counter((line["body"]["segment"], line["size"]) for line in lines if line["kind"] == "Advanced")
    opened = Counter(json.dumps(line["body"]["note"]["Opened"]["groups"]) for line in lines if line["kind"] == "Opened")
    size = max(line["size"] or 0 for line in lines)
    wrong = {
        "errors": dict(seen.errors),
        "answers that are not on record": len(lost),
        "keys that are on record twice": len(keys) - len(set(keys)),
        "releases made twice": sum(times > 1 for times in released.values()),
        "series opened twice": sum(times > 1 for times in opened.values()),
        "rows that were lost": max(0, seen.size - size),
        "answers on record that nobody received": 0 if killed else len(set(recorded) - set(seen.answers)),
        "charged but not told": 0.0 if killed else _off(charged, seen.cost),
        "told but not charged": _off(min(charged, seen.cost), seen.cost),
    }
    if any(wrong.values()):
        raise BrokenPromiseError(json.dumps({name: found for name, found in wrong.items() if found}))
    with Vault.open(folder) as vault:
        vault.verify()
    return {"answers": len(seen.answers), "requests": seen.requests, "charges": len(released), "charged": charged}


def paid_by_newest(lines: Sequence[dict[str, Any]]) -> float:
    """What the newest rows have paid, summed over all charges: what replies call their cost.

    The last leaf of a segment is charged like the others, and gets back what it did not need when the segment ends.
    """
    leaves = {(each["body"]["segment"], each["size"]): each["cost"] for each in lines if each["kind"] == "Advanced"}
    costs = [each["cost"] for each in lines]
    for line in lines:
        leaf = leaves.get((line["body"].get("segment"), line["size"])) if line["kind"] == "SegmentEnded" else None
        if leaf is not None:
            last = max(line["body"]["charges"], key=lambda each: int(each["end"]))
            costs.append(float(Fraction(last["amount"])) - leaf)
    return math.fsum(costs)


def _off(one: float, other: float) -> float:
    """By how much two sums of charges differ, but for rounding."""
    return 0.0 if math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-15) else abs(one - other)


def under_load(folder: Path, analysts: int, seconds: float) -> dict[str, Any]:
    """Load, and nothing else happens."""
    tokens, steward_token = make(folder, analysts)
    seen = Seen()
    with serving(folder) as running:
        asyncio.run(load(running, tokens, steward_token, seconds, seen, seed=0))
    return {**reconcile(folder, seen, killed=False), "a second": round(seen.requests / seconds)}


def killed_under_load(folder: Path, analysts: int, seconds: float) -> dict[str, Any]:
    """Load, a kill in the midst of it, and load again; questions without a reply are sent again with their keys."""
    tokens, steward_token = make(folder, analysts)
    seen = Seen()
    asyncio.run(_killed(folder, tokens, steward_token, seconds, seen))
    open_questions = dict(seen.under_way)
    before = reconcile(folder, seen, killed=True)
    texts = dict(tokens)
    with serving(folder) as running:
        asyncio.run(_again(running, texts, open_questions, seen))
        asyncio.run(load(running, tokens, steward_token, seconds, seen, seed=10**6))
    after = reconcile(folder, seen, killed=True)
    unanswered = len(open_questions)
    return {"answers before": before["answers"], "without a reply": unanswered, "answers after": after["answers"]}


async def _killed(
    folder: Path, tokens: Sequence[tuple[str, str]], steward_token: str, seconds: float, seen: Seen
) -> None:
    running = start(folder)
    loaded = asyncio.create_task(load(running, tokens, steward_token, math.inf, seen, seed=0))
    until = math.inf
    while time.monotonic() < until or len(seen.answers) < len(tokens):
        until = until if until < math.inf or not seen.answers else time.monotonic() + seconds
        await asyncio.sleep(0.01)
    running.kill()
    await loaded


async def _again(running: Running, texts: dict[str, str], questions: dict[str, str], seen: Seen) -> None:
    for name, body in questions.items():
        connection = Connection(running.port, texts[name.split(":")[0]])
        seen.take(name, *await connection.post("ask", body.encode(), key=name.split(":")[1]))
        connection.close()


# -- the rate of free answers ------------------------------------------------------------------------------------------


def free_rate(folder: Path, seconds: float, rounds: int = 5, connections: int = 3) -> list[tuple[float, float]]:
    """Free answers a second, over HTTP and from a vault in this process, in turn."""
    tokens, _ = make(folder / "served", 1)
    make(folder / "here", 0)
    texts = PREDICATES[-BATCH:]
    with Vault.open(folder / "here") as vault, serving(folder / "served") as running:
        own = _own_rate(vault, texts)
        over = _served_rate(running, tokens[0][1], texts, connections)
        asyncio.run(warm(running, tokens[0], Seen(), "warm"))
        vault.ask_many(PREDICATES)
        return [(over(seconds), own(seconds)) for _ in range(rounds)]


def _own_rate(vault: Vault, texts: Sequence[str]) -> Callable[[float], float]:
    def rate(seconds: float) -> float:
        began, batches = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            vault.ask_many(texts)
            batches += 1
        return batches * len(texts) / (time.perf_counter() - began)

    return rate


def _served_rate(running: Running, token: str, texts: Sequence[str], connections: int) -> Callable[[float], float]:
    body = json.dumps({"queries": list(texts)}).encode()

    async def one(until: float) -> int:
        connection, batches = Connection(running.port, token), 0
        while time.perf_counter() < until:
            status, reply = await connection.post("ask", body)
            if status != 200 or reply.count(b'"count"') != len(texts):
                raise BrokenPromiseError(f"a free batch was refused: {reply[:200]!r}")
            batches += 1
        connection.close()
        return batches

    async def several(seconds: float) -> float:
        began = time.perf_counter()
        batches = await asyncio.gather(*(one(began + seconds) for _ in range(connections)))
        return sum(batches) * len(texts) / (time.perf_counter() - began)

    return lambda seconds: asyncio.run(several(seconds))


# -- all of it ---------------------------------------------------------------------------------------------------------


def main() -> int:
    """Run it, and say what was found."""
    parser = argparse.ArgumentParser(description="The server under load, on loopback.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--analysts", type=int, default=200)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treering-load-"))
    try:
        print(f"{given.analysts} analysts for {given.seconds:g} seconds: ", end="", flush=True)
        print(under_load(folder / "load", given.analysts, given.seconds))
        print("killed under that load, started again: ", end="", flush=True)
        print(killed_under_load(folder / "killed", given.analysts, min(15.0, given.seconds)))
        rates = free_rate(folder, min(3.0, given.seconds))
        part = statistics.median(ours / own for ours, own in rates)
        ours, own = (statistics.median(each) for each in zip(*rates, strict=True))
        print(
            f"free answers in batches of {BATCH}: {ours:,.0f} a second over HTTP, {own:,.0f} in one process: {part:.0%}"
        )
        if part < LEAST_RATE:
            raise BrokenPromiseError(f"the rate over HTTP is below {LEAST_RATE:.0%} of the vault's own")
    except BrokenPromiseError as broken:
        print(f"BROKEN: {broken}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
