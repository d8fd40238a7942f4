"""Waiting for other threads, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 30.0
"""Seconds."""


def until(condition: Callable[[], bool]) -> None:
    """Return once it holds; fail if it never does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
