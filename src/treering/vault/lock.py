"""One writer at a time: a lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

from treering.errors import VaultBusy, VaultError

_PAUSE: Final = 0.02
"""Seconds between two attempts."""


class WriterLock:
    """An exclusive lock on a file. The kernel of the operating system lets go of it when the process ends, however."""

    def __init__(self, path: Path, wait: float) -> None:
        """Take the lock, waiting up to ``wait`` seconds; `VaultBusy` names the process that holds it."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise VaultError(f"cannot open the vault for writing: {error.strerror}; Vault.read needs no lock") from None
        try:
            self._take(path, time.monotonic() + wait, wait)
        except BaseException:
            os.close(self._file)
            raise
        with suppress(OSError):  # A full disk must not keep anybody from a vault: the number is for the message below.
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)
        _HELD.add(self)

    def _take(self, path: Path, until: float, wait: float) -> None:
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= until:
                    break
            time.sleep(_PAUSE)
        holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
        raise VaultBusy(
            f"another process (number {holder}) has the vault open for writing, and did not finish within {wait:g} s; "
            "there is one writer at a time: wait longer (wait=), use that process, or look with Vault.read"
        )

    @property
    def held(self) -> bool:
        """Whether it is held."""
        return self._file >= 0

    def release(self) -> None:
        """Let go."""
        if self._file >= 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # for a child, too, that was forked a moment ago
            self.forget()

    def forget(self) -> None:
        """Close the file, without a word about the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_HELD: Final[WeakSet[WriterLock]] = WeakSet()


def _forget() -> None:
    """A forked child has its parent's open files, and with them the lock, for as long as it lives: close them."""
    for lock in tuple(_HELD):
        lock.forget()


os.register_at_fork(after_in_child=_forget)
