"""The folder of a vault: which file is where; and the writer's lock."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final
from weakref import WeakSet

from treering.errors import DamagedVault, NotAVault, VaultBusy, VaultError
from treering.words import reason


class Folder:
    """One vault's folder: 0700, and every file in it 0600.

    ledger.sqlite   every line ever written, the secrets, and the tail: the batches that lie in no part yet
    parts/          the rows, in immutable files
    checkpoints/    public state of mechanisms, to open a vault faster; can be deleted
    spills/         what does not fit into memory while rows are counted; emptied at every opening
    lock            locked by the process that has the vault open for writing, and its number
    service/        the server's: its tokens, and files of rows on their way. The vault does not look at it
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.ledger = self.path / "ledger.sqlite"
        self.parts = self.path / "parts"
        self.spills = self.path / "spills"
        self.checkpoints = self.path / "checkpoints"
        self.lock = self.path / "lock"

    def create(self) -> None:
        """Make the folder, with nothing in it but subfolders. If it exists, it must be empty."""
        try:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise VaultError(f"{self.path} exists already: create a vault in a new place, or open this one")
            for each in (self.path, self.parts, self.spills, self.checkpoints):
                each.mkdir(mode=0o700, parents=each is self.path, exist_ok=True)
                each.chmod(0o700)
        except OSError as error:
            raise VaultError(f"cannot create a vault at {self.path}: {reason(error)}") from None

    def check(self) -> None:
        """Refuse a folder that is no vault, or that others may read."""
        try:
            if not self.path.is_dir():
                raise NotAVault(f"{self.path} is no vault: there is no such folder")
            if not self.ledger.is_file() and self._holds_rows():
                raise DamagedVault(f"{self.path} is damaged: its ledger.sqlite is missing; restore a backup")
            if not self.ledger.is_file() or not self.parts.is_dir():
                raise NotAVault(f"{self.path} is no vault: it has no ledger.sqlite, or no parts")
            for each, right in ((self.path, 0o700), (self.ledger, 0o600), (self.parts, 0o700)):
                if stat.S_IMODE(each.stat().st_mode) & 0o077:
                    raise VaultError(f"others can read {each}, which holds private data: run chmod {right:o} {each}")
        except OSError as error:
            raise VaultError(f"cannot read the vault at {self.path}: {reason(error)}") from None

    def unfinished(self) -> VaultError:
        """The error for a vault whose ledger has no lines: it was never finished, unless it has taken in rows."""
        if self._holds_rows():
            return DamagedVault("the ledger is damaged: it is empty, and there are rows beside it; restore a backup")
        return NotAVault("the vault was never finished: its ledger is empty. Delete the folder and create it again")

    def _holds_rows(self) -> bool:
        return self.parts.is_dir() and any(self.parts.iterdir())

    def clean(self, parts: Collection[str], last: int, checkpoints: Collection[str]) -> None:
        """Remove files that the ledger does not name, which a crash left: parts other than these, of which the last to
        be named had number ``last``; checkpoints other than these; and all that was spilled.

        A crash leaves files on their way, files that were replaced, and the file of part ``last`` + 1. `DamagedVault`
        if there are later ones, because the ledger was then set back; or if a part that the ledger names is missing.
        """
        try:
            found = _names(self.parts)
            if any(_number(name) > last + 1 for name in found):
                raise DamagedVault(
                    "there are parts of rows that the ledger does not know: it was set back to an earlier state, and "
                    "not the whole folder with it; restore a backup of the whole"
                )
            if missing := set(parts) - found:
                raise DamagedVault(f"part {min(missing)} is missing, or not what was written; restore a backup")
            for place, named in ((self.parts, parts), (self.checkpoints, checkpoints), (self.spills, ())):
                place.mkdir(mode=0o700, exist_ok=True)
                for name in _names(place).difference(named):
                    (place / name).unlink()
        except OSError as error:
            raise VaultError(f"cannot remove what a crash has left in the vault: {reason(error)}") from None


def _names(place: Path) -> set[str]:
    """The names in a folder."""
    with os.scandir(place) as found:
        return {each.name for each in found}


def _number(name: str) -> int:
    """The number of the part whose file has this name; 0 for any other file."""
    digits = name.removesuffix(".parquet")
    return int(digits) if digits.isdecimal() and name != digits else 0


# -- the writer's lock -------------------------------------------------------------------------------------------------


_LOOKING: Final = "(`Vault.read`, `treering status`) needs no lock"

_PAUSE: Final = 0.02
"""Seconds between two attempts to take the lock."""


class _LockFile(FileIO):
    """A file that closes without a warning when nobody has it any more: a lost vault loses its lock, no data."""

    def __del__(self) -> None:
        self.close()


class WriterLock:
    """An exclusive lock on a file, for one writer at a time. The operating system releases it when the process ends,
    however it ends; and a lock that an interrupt kept from being released goes with this object."""

    def __init__(self, path: Path) -> None:
        """Not taken yet: who takes it within the block that releases it cannot be interrupted between the two."""
        self._path = path
        self._file: _LockFile | None = None

    def take(self, wait: float) -> None:
        """Take the lock, waiting up to ``wait`` seconds; `VaultBusy` names the process that holds it. After an error,
        `release` closes the file."""
        _HELD.add(self)
        try:
            file = self._file = _LockFile(self._path, "r+", opener=_open_private)
        except OSError as error:
            raise VaultError(f"cannot open the vault for writing: {reason(error)}; looking at it {_LOOKING}") from None
        self._wait(file.fileno(), time.monotonic() + wait, wait)
        with suppress(OSError):  # A full disk must not keep a vault closed: the number is for the message only.
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), str(os.getpid()).encode(), 0)

    def _wait(self, file: int, until: float, wait: float) -> None:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= until:
                    break
            time.sleep(_PAUSE)
        holder = os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
        raise VaultBusy(
            f"another process (number {holder}) has the vault open for writing, and did not finish within {wait:g} s; "
            f"there is one writer at a time: try again when it has ended; looking at the vault {_LOOKING}"
        )

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._file is not None

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also for a child that was just forked
            self.forget()

    def forget(self) -> None:
        """Close the file without unlocking it."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)


_HELD: Final[WeakSet[WriterLock]] = WeakSet()


def _forget() -> None:
    """In a forked child, close the parent's lock files: open, they would hold the lock as long as the child lives."""
    for lock in tuple(_HELD):
        lock.forget()


os.register_at_fork(after_in_child=_forget)
