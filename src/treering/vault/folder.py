"""The folder of a vault: what lies where, and how a file comes into being whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from treering.errors import NotAVault, VaultError
from treering.vault.steps import Step, reached

_TEMPORARY: Final = ".new"


class Folder:
    """One vault's folder: 0700, and every file in it 0600.

    ledger.sqlite   every line ever written, and the secrets
    parts/          the batches, each an immutable file
    checkpoints/    public state to replay from; can be deleted
    lock            who writes
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.ledger = self.path / "ledger.sqlite"
        self.parts = self.path / "parts"
        self.checkpoints = self.path / "checkpoints"
        self.lock = self.path / "lock"

    def create(self) -> None:
        """Make it, empty. A folder that exists must have nothing in it."""
        try:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise VaultError(f"{self.path} exists already: create a vault in a new place, or open this one")
            for each in (self.path, self.parts, self.checkpoints):
                each.mkdir(mode=0o700, parents=each is self.path, exist_ok=True)
                each.chmod(0o700)
        except OSError as error:
            raise VaultError(f"cannot create a vault at {self.path}: {error.strerror}") from None

    def check(self) -> None:
        """Refuse a folder that is no vault, or that others may read."""
        if not self.path.is_dir():
            raise NotAVault(f"{self.path} is no vault: there is no such folder")
        try:
            mode = self.path.stat().st_mode
            present = self.ledger.exists()
        except OSError as error:
            raise VaultError(f"cannot read the vault at {self.path}: {error.strerror}") from None
        if not present or not self.parts.is_dir():
            raise NotAVault(f"{self.path} is no vault: it has no ledger.sqlite, or no parts")
        for each in (self.path, self.ledger):
            if stat.S_IMODE(each.stat().st_mode) & 0o077:
                right = "700" if each is self.path else "600"
                raise VaultError(f"others can read {each}, which holds private data: run chmod {right} {each}")
        del mode

    def clean(self, parts: Collection[str], checkpoints: Collection[str]) -> None:
        """Remove files that the ledger does not name: what a crash left."""
        for place, named in ((self.parts, parts), (self.checkpoints, checkpoints)):
            if place.is_dir():
                for file in place.iterdir():
                    if file.name not in named:
                        file.unlink()


def write_file(path: Path, content: bytes, steps: tuple[Step, Step, Step, Step]) -> None:
    """Write a file under a temporary name, sync it, give it its name, sync the folder: whole or not at all.

    ``steps`` are those reached when it is opened, written, synced and named.
    """
    temporary = path.with_name(path.name + _TEMPORARY)
    try:
        with private():
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


@contextmanager
def private() -> Iterator[None]:
    """Files made within are for their owner only, whatever the user's umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
