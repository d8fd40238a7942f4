"""A disk that fails when it is told to: a file system for SQLite whose next writes or syncs are refused."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw


class FaultyDisk:
    """Armed, it lets so many writes and syncs pass, and refuses the rest."""

    def __init__(self) -> None:
        self._error: Callable[[str], apsw.Error] | None = None
        self._passing = 0
        self.refused = 0

    def arm(self, error: Callable[[str], apsw.Error], passing: int) -> None:
        """Refuse after this many; or, where the error is `killed`, end the process there."""
        self._error, self._passing, self.refused = error, passing, 0

    def disarm(self) -> None:
        """Work again."""
        self._error = None

    def attempt(self) -> None:
        """Write or sync, or fail."""
        if self._error is not None:
            self._passing -= 1
            if self._passing < 0:
                self.refused += 1
                raise self._error("the tests say so")


def killed(_: str) -> apsw.Error:
    """No error, but the end."""
    os.kill(os.getpid(), signal.SIGKILL)
    return apsw.Error("never")


def attempt_files(disk: FaultyDisk) -> None:
    """From now on, until this process ends, files that come, go or get another name count as writes, too."""

    def heard(event: str, given: tuple[Any, ...]) -> None:
        made = event == "open" and given[2] & os.O_CREAT
        if made or event in ("os.rename", "os.remove"):
            disk.attempt()

    sys.addaudithook(heard)


@contextmanager
def faulty_disk() -> Iterator[FaultyDisk]:
    """The disk under all that SQLite opens within."""
    disk = FaultyDisk()

    def write(file: apsw.VFSFile, data: bytes, offset: int) -> None:
        disk.attempt()
        apsw.VFSFile.xWrite(file, data, offset)

    def sync(file: apsw.VFSFile, flags: int) -> None:
        disk.attempt()
        apsw.VFSFile.xSync(file, flags)

    # The names are SQLite's, which is why these classes are made and not written.
    kind: Any = type("File", (apsw.VFSFile,), {"xWrite": write, "xSync": sync})

    def opening(_: apsw.VFS, name: Any, flags: list[int]) -> apsw.VFSFile:
        file: apsw.VFSFile = kind("unix", name, flags)
        return file

    made: Any = type("Disk", (apsw.VFS,), {"xOpen": opening})
    system = made("faulty", "unix", makedefault=True)
    try:
        yield disk
    finally:
        disk.disarm()
        system.unregister()
