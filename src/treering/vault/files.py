"""The folder of a vault: what lies where, and how a file comes into being whole or not at all.

One writer at a time: a lock that dies with its process.

The named steps of the vault's protocol: where a crash could fall, and where the tests make one fall.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final
from weakref import WeakSet

from treering.errors import DamagedVault, NotAVault, VaultBusy, VaultError

_TEMPORARY: Final = ".new"
_CELLS: Final = "{:08d}.parquet"
_PERSONS: Final = "{:08d}-persons.parquet"


class Folder:
    """One vault's folder: 0700, and every file in it 0600.

    ledger.sqlite   every line ever written, and the secrets
    parts/          the batches, each an immutable file
    bases/          many batches together, to open from; can be deleted
    checkpoints/    public state to replay from; can be deleted
    lock            who writes
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.ledger = self.path / "ledger.sqlite"
        self.parts = self.path / "parts"
        self.bases = self.path / "bases"
        self.checkpoints = self.path / "checkpoints"
        self.lock = self.path / "lock"

    def create(self) -> None:
        """Make it, empty. A folder that exists must have nothing in it."""
        try:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise VaultError(f"{self.path} exists already: create a vault in a new place, or open this one")
            for each in (self.path, self.parts, self.bases, self.checkpoints):
                each.mkdir(mode=0o700, parents=each is self.path, exist_ok=True)
                each.chmod(0o700)
        except OSError as error:
            raise VaultError(f"cannot create a vault at {self.path}: {error.strerror}") from None

    def check(self) -> None:
        """Refuse a folder that is no vault, or that others may read."""
        try:
            if not self.path.is_dir():
                raise NotAVault(f"{self.path} is no vault: there is no such folder")
            if not self.ledger.is_file() or not self.parts.is_dir():
                raise NotAVault(f"{self.path} is no vault: it has no ledger.sqlite, or no parts")
            private = [(self.path, 0o700), (self.ledger, 0o600), (self.parts, 0o700)]
            if self.bases.is_dir():  # A vault of an earlier version has none, nor has one that somebody tidied up.
                private.append((self.bases, 0o700))
            for each, right in private:
                if stat.S_IMODE(each.stat().st_mode) & 0o077:
                    raise VaultError(f"others can read {each}, which holds private data: run chmod {right:o} {each}")
        except OSError as error:
            raise VaultError(f"cannot read the vault at {self.path}: {error.strerror}") from None

    def clean(self, last: int, bases: Collection[str], checkpoints: Collection[str]) -> None:
        """Remove files that the ledger does not name: what a crash left. It names the parts up to the ``last``.

        A crash leaves the files of one part, the one after that. If there are later ones, it is the ledger that is not
        what it was; and if one is missing, it is the parts.
        """
        try:
            found, known = _names(self.parts), set(map(_CELLS.format, range(1, last + 1)))
            others, missing = found - known, known - found
            if any(_number(name) > last + 1 for name in others):
                raise DamagedVault(
                    "there are parts of rows that the ledger does not know: it was set back to an earlier state, and "
                    "not the whole folder with it; restore a backup of the whole"
                )
            if missing:
                raise DamagedVault(f"part {min(missing)} is missing, or not what was written; restore a backup")
            for name in others:
                if not (name == persons_name(_number(name)) and cells_name(_number(name)) in known):
                    (self.parts / name).unlink()
            for place, named in ((self.bases, bases), (self.checkpoints, checkpoints)):
                place.mkdir(mode=0o700, exist_ok=True)
                for name in _names(place).difference(named):
                    (place / name).unlink()
        except OSError as error:
            raise VaultError(f"cannot remove what a crash has left in the vault: {error.strerror}") from None


def cells_name(number: int) -> str:
    """The file of the cells of a part, or of a base."""
    return _CELLS.format(number)


def persons_name(number: int) -> str:
    """The file of its persons."""
    return _PERSONS.format(number)


def _names(place: Path) -> set[str]:
    """The names in a folder. (Not paths, which take three times as long: there are as many parts as appends.)"""
    with os.scandir(place) as found:
        return {each.name for each in found}


def _number(name: str) -> int:
    """The number of the part that a file belongs to; 0 for one of no part."""
    digits = name.partition(".")[0].partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def write_file(path: Path, content: bytes, steps: tuple[Stage, Stage, Stage, Stage]) -> None:
    """Write a file under a temporary name, sync it, give it its name, sync the folder: whole or not at all.

    ``steps`` are those reached when it is opened, written, synced and named.
    """
    temporary = path.with_name(path.name + _TEMPORARY)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            reached(steps[0])
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            reached(steps[1])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        reached(steps[2])
        temporary.rename(path)
        sync_folder(path.parent)
        reached(steps[3])
    except OSError as error:
        for each in (temporary, path):
            with suppress(OSError):
                each.unlink()
        raise VaultError(f"cannot write to the vault: {error.strerror}; nothing was taken in") from None


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- lock --------------------------------------------------------------------------------------------------------------


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


# -- steps -------------------------------------------------------------------------------------------------------------


class Stage(Enum):
    """A moment between two things that a vault does. A crash at any of them loses nothing that was released."""

    PART_OPENED = "a part has a temporary name and nothing in it"
    PART_WRITTEN = "a part is written under its temporary name, not yet synced"
    PART_SYNCED = "a part is on disk under its temporary name"
    PART_NAMED = "a part has its name, and the ledger does not know it"
    COMMIT_BEGUN = "the lines are not yet given to the ledger's database"
    COMMIT_READY = "the lines are with the ledger's database, not yet committed"
    COMMITTED = "the lines are durable, and nothing of them has left"
    ROWS_COUNTED = "new rows are durable and counted; mechanisms are not yet told"
    ANSWERED = "an answer is durable, and has not left"
    CHECKPOINT_OPENED = "a checkpoint has a temporary name"
    CHECKPOINT_WRITTEN = "a checkpoint is written under its temporary name, not yet synced"
    CHECKPOINT_SYNCED = "a checkpoint is on disk under its temporary name"
    CHECKPOINT_NAMED = "a checkpoint has its name, and the ledger does not know it"
    BASE_OPENED = "a base has a temporary name"
    BASE_WRITTEN = "a base is written under its temporary name, not yet synced"
    BASE_SYNCED = "a base is on disk under its temporary name"
    BASE_NAMED = "a base has its name, and the ledger does not know it"


Observer = Callable[[Stage], None]


def _unobserved(step: Stage) -> None:
    """Nobody watches."""


_observer: list[Observer] = [_unobserved]


def reached(step: Stage) -> None:
    """Say that this step of the protocol is reached."""
    _observer[0](step)


def observe(observer: Observer | None) -> None:
    """Have each step of the protocol, in this process, told to an observer; None ends that. For fault injection."""
    _observer[0] = observer or _unobserved
