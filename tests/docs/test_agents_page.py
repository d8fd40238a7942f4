"""The conversation of docs/agents.md is what an agent and a vault say, but for the numbers; and the page names each
tool."""

from __future__ import annotations

import re
import subprocess
import sys

from support.markdown import blocks
from support.repository import ROOT

PAGE = ROOT / "docs" / "agents.md"


def masked(text: str) -> str:
    """A text without its numbers."""
    return re.sub(r"\d[\d,.]*\d|\d", "#", text)


def test_the_conversation_of_the_page_is_held_like_that() -> None:
    (shown,) = (block.code for block in blocks(PAGE.read_text()) if "agent> " in block.code)
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "conversation.py"], capture_output=True, text=True, check=True
    )
    assert masked(done.stdout).strip() == masked(shown).strip()
    assert shown.count("agent> ") == 7


def test_another_conversation_would_be_seen() -> None:
    assert masked("8,541 rows ± 66, 2.54%") == masked("12 rows ± 1,066, 0.1%") == "# rows ± #, #%"
    assert masked("month = 12") != masked("hour = 12")


def test_every_tool_is_on_the_page() -> None:
    from treering.agents.tools import Tools

    names = [name for name in vars(Tools) if not name.startswith("_")]
    assert len(names) == 6
    assert [name for name in names if f"| `{name}` |" not in PAGE.read_text()] == []
