"""The box that docs/boxes.md writes keeps the contract of all boxes: the page's own suite, run."""

from __future__ import annotations

from typing import Any

from support.markdown import blocks
from support.repository import ROOT

PAGE = ROOT / "docs" / "boxes.md"


def _defined() -> dict[str, Any]:
    """What the two blocks with the box and its suite define."""
    namespace: dict[str, Any] = {"__name__": __name__}
    for block in blocks(PAGE.read_text()):
        if "class OneAttribute(" in block.code or "class TestOneAttribute(" in block.code:
            exec(compile("\n" * (block.line - 1) + block.code, str(PAGE), "exec"), namespace)
    return namespace


TestOneAttribute = _defined()["TestOneAttribute"]
