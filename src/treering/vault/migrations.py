"""Older formats of the ledger, brought to the present one when a vault is opened for writing.

A migration leads from one format to the next, in one transaction, with the writer's lock held. Before the first one,
the ledger is copied to ledger.sqlite.format1 (or whichever it is), beside it: what the older version of treering can
still open, once the copy is put back. A migration may add tables and columns; the lines stay as they are, for the
chain of hashes is about them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from treering.errors import VaultError

Migration = Callable[[apsw.Connection], None]

MIGRATIONS: Final[dict[int, Migration]] = {}
"""From each format that there was, how to come to the next. There has been one so far."""


def migrate(connection: apsw.Connection, path: Path, version: int, wanted: int) -> None:
    """Bring a ledger from one format to another: all the way, or not at all."""
    missing = [step for step in range(version, wanted) if step not in MIGRATIONS]
    if missing:
        raise VaultError(
            f"the vault has format {version}, which this version of treering no longer reads: use an older"
        )
    _copy(connection, path.with_name(f"{path.name}.format{version}"))
    connection.execute("begin immediate")
    try:
        for step in range(version, wanted):
            MIGRATIONS[step](connection)
        connection.execute(f"pragma user_version = {wanted}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _copy(connection: apsw.Connection, path: Path) -> None:
    """A copy of the ledger as it is, whole under its name; one that an interrupted migration left is replaced."""
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        target = apsw.Connection(str(temporary), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with target.backup("main", connection, "main") as backup:
                backup.step()
            target.execute("pragma journal_mode = delete")
        finally:
            target.close()
        temporary.rename(path)
    except OSError as error:
        raise VaultError(f"cannot copy the ledger before it is brought to a new format: {error.strerror}") from None
