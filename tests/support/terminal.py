"""A program at a terminal: what it shows to somebody who types."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

Program: TypeAlias = subprocess.Popen[bytes]

_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
"""What moves the cursor, and colours."""
PATIENCE = 60.0
"""For how many seconds something is waited for that comes at once where the machine is not busy."""


class Terminal:
    """The other side of a pseudo-terminal."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._raw = b""
        self._looked_at = 0

    def type(self, keys: str) -> None:
        """Type some keys."""
        os.write(self._side, keys.encode())

    def read_until(self, words: str) -> str:
        """What was shown since the last call, up to and with some words; it must come."""
        end = time.monotonic() + PATIENCE
        while words not in (shown := self._shown()[self._looked_at :]):
            assert time.monotonic() < end, f"{words!r} was not shown, but:\n{shown}"
            if select.select([self._side], [], [], 0.2)[0]:
                self._raw += self._read()
        place = shown.index(words) + len(words)
        self._looked_at += place
        return shown[:place]

    def _read(self) -> bytes:
        try:
            return os.read(self._side, 65536)
        except OSError:  # The program has ended.
            return b""

    def _shown(self) -> str:
        return _CODES.sub(b"", self._raw).decode(errors="replace")


@contextmanager
def terminal(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[Terminal, Program]]:
    """`treering` at a terminal; it is ended with the block."""
    ours, theirs = pty.openpty()
    flags = termios.tcgetattr(theirs)
    flags[3] &= ~termios.ECHO  # What is typed is shown by the program.
    termios.tcsetattr(theirs, termios.TCSANOW, flags)
    command = [sys.executable, "-c", "from treering.cli.main import main; main()", *arguments]
    program = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **environment}, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(ours), program
    finally:
        program.kill()
        program.wait()
        os.close(ours)
