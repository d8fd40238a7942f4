"""Running the server: a socket, a vault, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

from treering.service.access import Register
from treering.service.app import make_app
from treering.service.connections import Connection, Keeper, most_connections
from treering.service.desk import Desk, Limits
from treering.sql.engine.limits import Limits as EngineLimits
from treering.sql.engine.workers import Workers
from treering.vault.vault import Vault

if TYPE_CHECKING:
    from numpy.random import Generator

GRACE: Final = 30
"""Seconds that requests under way have, once the server is told to stop."""

SWITCH: Final = 0.001
"""Seconds after which a thread that works gives way to another: a request waits for that several times."""

FIRST: Final = "first steward"
"""The name of the token that the first start makes."""

Say = Callable[[str], None]


class Server(uvicorn.Server):
    """A server that says where it listens; told to stop, it refuses new work and ends streams at once."""

    def __init__(self, config: uvicorn.Config, desk: Desk, say: Say) -> None:
        super().__init__(config)
        self._desk, self._say = desk, say
        self._keeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        keeper = Keeper(most_connections(self._desk.limits.connections), self._desk.limits.heads)
        self._keeping = asyncio.create_task(keeper.run(self.server_state.connections))
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                self._say(f"listening at {'https' if self.config.is_ssl else 'http'}://{shown}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await self._desk.stop()
        await super().shutdown(sockets)
        if self._keeping is not None:
            self._keeping.cancel()


def _heed(number: int, frame: FrameType | None) -> None:
    """Do nothing more about a signal."""


def _config(desk: Desk, host: str, port: int, tls: tuple[Path, Path] | None) -> uvicorn.Config:
    cert, key = (None, None) if tls is None else map(str, tls)
    return uvicorn.Config(
        make_app(desk),
        host,
        port,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )


def _workers(limits: Limits) -> Workers:
    return Workers(
        EngineLimits(limits.statement, limits.memory, limits.result_rows, limits.result_bytes, limits.processes)
    )


def run(
    path: Path,
    host: str,
    port: int,
    tls: tuple[Path, Path] | None,
    *,
    secure: bool,
    generator: Callable[[int | None], Generator],
    say: Say,
    limits: Limits | None = None,
) -> None:
    """Serve the vault at ``path`` until a signal says to stop.

    ``tls`` are the files of a certificate and its key. ``secure``: browsers reach the page by TLS, so cookies are for
    that only. ``generator`` makes public random numbers from a seed; ``say`` tells the operator something. Statements
    are worked out in processes of their own, within the ``limits``.
    """
    sys.setswitchinterval(SWITCH)
    vault = Vault.open(path)
    try:
        register = Register(path)
    except BaseException:
        vault.close()
        raise
    desk = Desk(vault, register, generator, limits, secure=secure, workers=_workers(limits or Limits()))
    if not register.tokens:
        _, text = register.issue(FIRST, "steward")
        say(f"the first steward's token, shown this once: {text}")
    config = _config(desk, host, port, tls)
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises again what it has heeded.
        signal.signal(each, _heed)
    try:
        Server(config, desk, say).run()
    finally:
        desk.close()
