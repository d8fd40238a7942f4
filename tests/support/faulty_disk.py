"""A disk that fails when it is told to: a file system for SQLite whose next writes or syncs are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw


class FaultyDisk:
    """Armed, it lets so many writes and syncs pass, and refuses the rest."""

    def __init__(self) -> None:
        self._error: type[apsw.Error] | None = None
        self._passing = 0
        self.refused = 0

    def arm(self, error: type[apsw.Error], passing: int) -> None:
        """Refuse after this many."""
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
