"""Fenced code blocks and links of a Markdown page."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A fenced code block: its info string, its text, and the page's line on which the text starts."""

    info: str
    code: str
    line: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order. A fence that is never closed is an error."""
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.lstrip().startswith("```"):
            continue
        if opened is None:
            opened = line.strip().removeprefix("```").strip(), number
        else:
            info, start = opened
            found.append(Block(info, "\n".join(lines[start : number - 1]) + "\n", start + 1))
            opened = None
    if opened is not None:
        raise ValueError(f"the code block opened on line {opened[1]} is never closed")
    return found


def prose(text: str) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """The targets of the page's links and pictures."""
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(text))


def anchors(text: str) -> set[str]:
    """What a link to a heading of the page may end in."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {each.strip().replace(" ", "-") for each in kept}
