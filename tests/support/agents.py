"""An agent in a test: the official client of the Model Context Protocol, called step by step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from mcp import Client
from mcp.types import CallToolResult, TextContent

import treering as tr
from support.vaults import SCHEMA, frame

ROWS = 20_000

Call: TypeAlias = tuple[str, dict[str, Any]]


def table(place: Path, rows: int = ROWS, **options: Any) -> tr.Vault:
    """A vault of flights that nobody has asked yet."""
    vault = tr.Vault.create(place, SCHEMA, **{"epsilon": 1.0, "delta": 1e-6, **options})
    vault.append(frame(rows))
    return vault


def conversation(server: Any, calls: Sequence[Call]) -> list[CallToolResult]:
    """What the tools answer, one call after the other."""

    async def talk(client: Client) -> list[CallToolResult]:
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    told: list[CallToolResult] = within(server, talk)
    return told


def within(server: Any, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """What ``work`` gives with a client of the server, a program's or one in this process."""

    async def main() -> Any:
        async with Client(server) as client:
            return await work(client)

    return anyio.run(main)


def text(result: CallToolResult) -> str:
    """What an agent reads."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def plain(result: CallToolResult) -> dict[str, Any]:
    """What a program reads."""
    assert result.structured_content is not None
    return dict(result.structured_content)
