"""A server in a test: uvicorn on loopback, in a thread of this process, over a vault that the test can look into."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

import treering as tr
from treering.client import Client
from treering.service.access import Register
from treering.service.app import make_app
from treering.service.auth import Quota
from treering.service.desk import Desk

PATIENCE = 20.0
"""Seconds to wait for a server to start or to stop."""


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    vault: tr.Vault
    desk: Desk

    def token(self, role: str = "analyst", answers: int | None = None, budget: float | None = None, **more: Any) -> str:
        """A new token's text."""
        return self.desk.register.issue("somebody", role, quota=Quota(answers, budget), **more)[1]

    def client(self, role: str = "steward", **options: Any) -> Client:
        """A client with a new token."""
        return tr.connect(self.url, self.token(role, **options))


@contextmanager
def serving(vault: tr.Vault, folder: Path, **options: Any) -> Iterator[Served]:
    """A server over this vault, which it closes in the end."""
    desk = Desk(vault, Register(folder), np.random.default_rng, **options)
    config = uvicorn.Config(make_app(desk), log_level="critical", access_log=False, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if server.started:
            break
        waited.wait(0.02)
    try:
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", vault, desk)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        vault.close()


class Breaking:
    """A connection that breaks: passes requests on to a server, and loses the first ``replies`` replies."""

    def __init__(self, url: str, replies: int) -> None:
        host, port = url.rpartition("/")[2].split(":")
        self._server = host, int(port)
        self._left = replies
        self.requests = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(caller,), daemon=True).start()

    def _pass_on(self, caller: socket.socket) -> None:
        """One request and its reply on each connection."""
        with caller, socket.create_connection(self._server) as server:
            server.sendall(_whole(caller))
            self.requests += 1
            reply = _whole(server)
            if self._left > 0:
                self._left -= 1
            else:
                # Said aloud, so that a client does not send its next request into a connection that is being closed.
                caller.sendall(reply.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))

    def lose(self, replies: int) -> None:
        """Lose the next replies."""
        self._left = replies
        self.requests = 0

    def close(self) -> None:
        """Accept no more."""
        self._listening.close()


def _whole(connection: socket.socket) -> bytes:
    """One message of HTTP, by its Content-Length."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += _more(connection)
    head, _, body = found.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0]):
        block = _more(connection)
        found, body = found + block, body + block
    return found


def _more(connection: socket.socket) -> bytes:
    block = connection.recv(2**16)
    if not block:
        raise ConnectionError
    return block
