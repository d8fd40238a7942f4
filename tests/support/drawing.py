"""Noise for groups of rows that a test knows, in place of the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from treering.trusted.operations import combine, segment


def draw_by(patch: pytest.MonkeyPatch, draw: Callable[..., Any]) -> None:
    """Let ``draw`` give the noise of combinations and of leaves."""
    for module in (combine, segment):
        patch.setattr(module, "draw", draw)
