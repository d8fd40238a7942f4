"""Interrupts that fall between two steps of a program, where a user's Ctrl-C can."""

from __future__ import annotations

import linecache
import sys
from types import FrameType


class Interrupt:
    """Within the block, KeyboardInterrupt falls into this thread at one step (call, line, return) of some files.

    Not at the line of a ``with``: it comes again when the block ends, and there no interrupt can fall. Nor at a
    ``try``, nor where a generator yields, for the same reason, and no handler of the function would see it. (CPython
    looks for signals when a function begins, after calls, and when a loop goes round.)
    """

    def __init__(self, step: int, *files: str) -> None:
        self._step, self._files = step, files
        self.passed = 0
        """How many steps there were so far."""
        self.fell = False

    def __enter__(self) -> None:
        sys.settrace(self)

    def __exit__(self, *exception: object) -> None:
        sys.settrace(None)

    def __call__(self, frame: FrameType, event: str, _: object) -> Interrupt | None:
        file = frame.f_code.co_filename
        if not file.endswith(self._files):
            return None
        line = linecache.getline(file, frame.f_lineno).lstrip()
        if event == "exception" or line.startswith(("with ", "try:")) or (event == "return" and line[:5] == "yield"):
            return self
        self.passed += 1
        if self.passed > self._step and not self.fell:
            self.fell = True
            raise KeyboardInterrupt
        return self
