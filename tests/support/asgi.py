"""An application called within the test's process, without a network and without a client's cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TOGETHER = 16
"""How many requests are under way at the same time."""


@dataclass(frozen=True)
class Request:
    """A request to be made."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] | None = None

    @classmethod
    def ask(cls, token: str, plain: Mapping[str, Any], **headers: str) -> Request:
        """A question."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(
            "POST",
            "/api/v1/ask",
            json.dumps(plain).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **named},
        )


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """A header, or nothing."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), "")


def call(app: Any, requests: Iterable[Request]) -> list[Reply]:
    """The replies to some requests, in their order."""

    async def main() -> list[Reply]:
        turns = asyncio.Semaphore(TOGETHER)

        async def one(request: Request) -> Reply:
            async with turns:
                return await _reply(app, request)

        return await asyncio.gather(*(one(each) for each in requests))

    return asyncio.run(main())


async def _reply(app: Any, request: Request) -> Reply:
    path, _, query = request.path.partition("?")
    given = {"Host": "127.0.0.1", "Content-Length": str(len(request.body)), **(request.headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[dict[str, Any]] = []
    bodies = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if bodies:
            return bodies.pop()
        await asyncio.Event().wait()  # The caller stays until it is cancelled.
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    (start,) = (each for each in sent if each["type"] == "http.response.start")
    content = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"])
    return Reply(start["status"], headers, content)
