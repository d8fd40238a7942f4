"""Files that are written whole or not at all, and the steps at which a crash could come.

`Stage` names the steps of a vault's protocol: the moments at which a crash could come, and at which tests make one
come.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias

from treering.errors import VaultError
from treering.words import reason

TEMPORARY: Final = ".new"
"""How the temporary name of a file ends."""


class Stage(Enum):
    """A moment between two steps of the vault's protocol. A crash at any of them loses nothing that was released."""

    PART_OPENED = "a part has a temporary name and nothing in it"
    PART_WRITTEN = "a part is written under its temporary name, not yet synced"
    PART_SYNCED = "a part is on disk under its temporary name"
    PART_NAMED = "a part has its name, and the ledger does not know it"
    PARTS_REPLACED = "a part stands for others, whose files are still there"
    COMMIT_BEGUN = "the lines are not yet given to the ledger's database"
    COMMIT_READY = "the lines are with the ledger's database, not yet committed"
    COMMITTED = "the lines are durable, and nothing of them has left"
    ROWS_DURABLE = "new rows are durable, and not yet counted"
    MECHANISM_DURABLE = "a new mechanism is on record, and not yet made"
    SCHEMA_DURABLE = "a version of the schema is on record, and not yet taken up"
    ROWS_COUNTED = "new rows are durable and counted; mechanisms are not yet told"
    ANSWERED = "an answer is durable, and has not left"
    CHECKPOINT_OPENED = "a checkpoint has a temporary name"
    CHECKPOINT_WRITTEN = "a checkpoint is written under its temporary name, not yet synced"
    CHECKPOINT_SYNCED = "a checkpoint is on disk under its temporary name"
    CHECKPOINT_NAMED = "a checkpoint has its name, and the ledger does not know it"


Observer = Callable[[Stage], None]


def _unobserved(step: Stage) -> None:
    """The observer when there is none."""


_observer: list[Observer] = [_unobserved]


def reached(step: Stage) -> None:
    """Tell the observer that this stage is reached."""
    _observer[0](step)


def observe(observer: Observer | None) -> None:
    """Call ``observer`` at each stage reached in this process; None stops that. For fault injection."""
    _observer[0] = observer or _unobserved


# -- files -------------------------------------------------------------------------------------------------------------


Steps: TypeAlias = tuple[Stage, Stage, Stage, Stage]
"""The stages at which a file is opened, written, synced and named."""


class NewFile(io.RawIOBase):
    """A new file, of mode 600, under a temporary name until `name` gives it its own. It is hashed as it is written.

    After an error, `discard` removes it; so does the next opening of the vault.
    """

    def __init__(self, temporary: Path, steps: Steps) -> None:
        super().__init__()
        self.path, self._steps = temporary, steps
        self.length = 0
        self._hash = hashlib.sha256()
        self._descriptor: int | None = None
        self._descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with self._closing():
                reached(steps[0])
        except OSError:
            self.discard()
            raise

    @property
    def sha256(self) -> str:
        """The hash of what is written."""
        return self._hash.hexdigest()

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, content: Any) -> int:
        """Add some bytes, all of them."""
        assert self._descriptor is not None
        left = memoryview(content).cast("B")
        self.length += len(left)
        self._hash.update(left)
        while left:
            left = left[os.write(self._descriptor, left) :]
        return len(memoryview(content).cast("B"))

    def sync(self) -> None:
        """Nothing more is written: bring all of it to the disk, and close the file."""
        assert self._descriptor is not None
        with self._closing():
            reached(self._steps[1])
            os.fsync(self._descriptor)
        self._forget()
        reached(self._steps[2])

    def name(self, path: Path) -> None:
        """Give a file that is synced its name, durably."""
        self.path.rename(path)
        self.path = path
        sync_folder(path.parent)
        reached(self._steps[3])

    def discard(self) -> None:
        """Remove the file, whatever its name is."""
        self._forget()
        with suppress(OSError):
            self.path.unlink()

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self._forget()


@contextmanager
def writing() -> Iterator[None]:
    """A file of the vault is written in the block: errors of the disk become `VaultError`."""
    try:
        yield
    except OSError as error:
        raise VaultError(f"cannot write to the vault: {reason(error)}; nothing was taken in") from None


def write_file(path: Path, content: bytes, steps: Steps) -> None:
    """Write a file under a temporary name, sync it, give it its name, sync the folder: whole or not at all."""
    with writing():
        file = NewFile(path.with_name(path.name + TEMPORARY), steps)
        try:
            file.write(content)
            file.sync()
            file.name(path)
        except OSError:
            file.discard()
            raise


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
