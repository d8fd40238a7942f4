"""The conversation in docs/agents.md: an agent, played by the official client, and a vault of the flights of 2013.

    python docs/conversation.py

prints it, with other noise each time. tests/docs/test_agents_page.py compares it with the page, but for the numbers.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.types import TextContent

import treering as tr
from treering.agents.desk import VaultDesk
from treering.agents.tools import server
from treering.demo.flights import SCHEMA, flights

QUOTA = 0.1
LATE = "SELECT origin, COUNT(*) AS late FROM flights WHERE delay >= 60 GROUP BY origin"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("status", {}),
    ("price", {"sql": LATE}),
    ("sql", {"sql": LATE, "within": 200}),
    ("ask", {"queries": ["origin = 'JFK' AND delays >= 60"]}),
    ("ask", {"queries": ["origin = 'JFK' AND delay >= 60", "delay >= 60"]}),
    ("ask", {"queries": ["month = 12 AND delay >= 60"], "within": 20}),
    ("ask", {"queries": ["month = 12 AND delay >= 60"], "within": 100}),
)


async def held() -> list[str]:
    """The lines of the conversation."""
    with tempfile.TemporaryDirectory() as folder:
        vault = tr.Vault.create(Path(folder) / "flights.treering", SCHEMA, epsilon=1.0, delta=1e-6)
        with vault:
            vault.append(flights().select(list(SCHEMA.names)))
            async with Client(server(VaultDesk(vault, share=QUOTA))) as client:
                return [line for name, given in CALLS for line in await said(client, name, given)]


async def said(client: Client, name: str, given: dict[str, Any]) -> list[str]:
    """A call of the agent's and what it is told."""
    (told,) = (await client.call_tool(name, given)).content
    assert isinstance(told, TextContent)
    return [f"agent> {name} {json.dumps(given)}" if given else f"agent> {name}", *told.text.splitlines(), ""]


if __name__ == "__main__":
    sys.stdout.write("\n".join(anyio.run(held)).rstrip() + "\n")
