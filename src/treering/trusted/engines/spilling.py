"""The folder for what DuckDB cannot keep in memory, which are values of rows.

By default DuckDB would write them beside its file or into the current folder, for all to read.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

from treering.errors import EngineError
from treering.words import reason


class Spilling:
    """A folder for what DuckDB cannot keep in memory, which are values of rows: mode 0700, made for the first of the
    connections that are open at a time and removed after the last, whatever ended it. (If an interrupt falls into the
    removal, the next connection removes it, or the end of the process.)

    They share it because connections of one process to one file must have equal settings. A forked child makes its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process, self._folder = 0, ""
        self._users: WeakSet[User] = WeakSet()
        """The connections that are open. Weak, because an interrupt can end one without a word."""
        atexit.register(self._leave, User())

    @contextmanager
    def folder(self) -> Iterator[str]:
        """The folder's path, for as long as the block lasts."""
        user = User()
        try:
            yield self._enter(user)
        finally:
            self._leave(user)

    def _enter(self, user: User) -> str:
        with self._lock:
            self._tidy()
            if not self._folder or self._process != os.getpid():
                try:
                    self._folder = tempfile.mkdtemp(prefix="treering-")  # its mode is 0700, by contract
                except OSError as error:
                    raise EngineError(f"there is no place for DuckDB's temporary files: {reason(error)}") from None
                self._process, self._users = os.getpid(), WeakSet()
            self._users.add(user)
            return self._folder

    def _leave(self, user: User) -> None:
        with self._lock:
            self._users.discard(user)
            self._tidy()

    def _tidy(self) -> None:
        """Remove the folder, unless it is in use, or a parent's."""
        if self._folder and not self._users and self._process == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


class User:
    """A connection that is open."""


SPILLING: Final = Spilling()
