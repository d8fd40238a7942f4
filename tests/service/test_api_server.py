"""`treering serve` as a process: where it listens, its first token, live status, an orderly end, kill -9."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import treering as tr
from support.office import API, ROWS, SCHEMA
from support.server_process import PATIENCE, started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9) as vault:
        vault.append(ROWS)
    return tmp_path / "v"


def events(client: httpx.Client, seen: list[dict[str, Any]], ended: threading.Event) -> None:
    """Gather the events of a stream until it ends."""
    with client.stream("GET", f"{API}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        seen.extend(
            json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line.startswith("data: ")
        )
    ended.set()


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_life(folder: Path) -> None:
    """The first token, live status, an orderly end, a restart with the same tokens, and a vault that verifies."""
    with started(folder) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.token.startswith("treering_")
        busy = subprocess.run(
            [sys.executable, "-c", "from treering.cli.main import main; main()", "token", "list", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert busy.returncode == 1
        assert "a server has this vault's tokens open" in busy.stderr
        seen: list[dict[str, Any]] = []
        ended = threading.Event()
        with server.client() as client, server.client() as listening:
            assert client.get("/ready").json() == {"status": "ready"}
            threading.Thread(target=events, args=(listening, seen, ended), daemon=True).start()
            until(lambda: len(seen) == 1)
            assert seen[0]["size"] == len(ROWS)
            client.post(f"{API}/rows", content=b"origin,month,late\nJFK,1,no\n", headers={"Content-Type": "text/csv"})
            until(lambda: seen[-1]["size"] == len(ROWS) + 1)
            first = client.post(f"{API}/ask", json={"query": "late = 'no'"}).json()
            until(lambda: seen[-1]["spent"] == pytest.approx(first["cost"]))
            analyst = client.post(f"{API}/tokens", json={"name": "ada", "quota": {"answers": 1}}).json()["token"]
            with server.client() as busy_client, ThreadPoolExecutor(1) as pool:
                texts = [f"month = {number % 12 + 1}" for number in range(1000)]
                under_way = pool.submit(busy_client.post, f"{API}/ask", json={"queries": texts})
                time.sleep(0.1)
                assert server.stop() == 0
                told = under_way.result()
            assert told.status_code == 200 or (told.status_code, told.headers["retry-after"]) == (503, "5")
            assert ended.wait(PATIENCE), "the stream of events ends, and does not hold the server up"
        log = [json.loads(line) for line in server.lines if line.startswith("{")]
        asked = next(line for line in log if line["action"] == "POST /api/v1/ask")
        assert asked["cost"] == first["cost"]
        assert (asked["name"], asked["role"], asked["status"]) == ("first steward", "steward", 200)
        assert "late" not in "".join(server.lines), "neither questions nor answers are in the log"
        assert str(first["count"]) not in [str(value) for line in log for value in line.values()]
    with tr.Vault.open(folder) as vault:
        assert vault.verify()["size"] == len(ROWS) + 1
    with started(folder) as server:
        assert server.token == "", "only the first start shows a token"
        with server.client(analyst) as client:
            assert client.post(f"{API}/ask", json={"query": "late = 'yes'"}).json()["cost"] == 0
            assert client.get(f"{API}/me").json()["name"] == "ada"
        assert server.stop(signal.SIGINT) == 0


def test_a_kill_loses_no_charge_and_no_quota(folder: Path) -> None:
    with started(folder) as server:
        with server.client() as client:
            text = client.post(f"{API}/tokens", json={"name": "ada", "quota": {"answers": 5}}).json()["token"]
        with server.client(text) as client:
            given = client.post(f"{API}/ask", json={"query": "late = 'no'"}, headers={"Idempotency-Key": "k"}).json()
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(PATIENCE)
    with tr.Vault.open(folder) as vault:
        assert vault.spent == pytest.approx(given["cost"])
    with started(folder) as server, server.client(text) as client:
        assert client.get(f"{API}/me").json()["quota"]["answers_used"] == 1
        again = client.post(f"{API}/ask", json={"query": "late = 'no'"}, headers={"Idempotency-Key": "k"}).json()
        assert (again["value"], again["cost"]) == (given["value"], 0)


def test_tls(folder: Path, tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", key, "-out", cert, *names], check=True, capture_output=True)
    with started(folder, "--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https:")
        context = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=url, verify=context, timeout=PATIENCE, trust_env=False) as client:
            response = client.post("/login", json={"token": server.token}, headers={"Sec-Fetch-Site": "same-origin"})
            assert "secure" in response.headers["set-cookie"].lower()
        assert server.stop() == 0
