"""The SQLite file of a ledger: how it is opened, and what its errors mean."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from treering.errors import DamagedVault, VaultError

APPLICATION: Final = 0x74726565
"""SQLite's mark of whose file it is: "tree"."""

TABLES: Final = """
create table ledger (
    seq integer primary key, time integer not null, kind text not null, mechanism integer not null,
    body text not null, key text not null, commitment text not null, hash blob not null
) strict;
create table secrets (name text primary key, salt blob not null, value text not null) strict, without rowid;
"""

WRITE_AHEAD: Final = "pragma journal_mode = wal"
"""Readers see the last commit while the next one is written. Kept in the file."""


def new_file(path: Path) -> None:
    """Make an empty file that nobody but its owner may read: SQLite's other files get the same mode."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise VaultError(f"cannot write {path}: {error.strerror}") from None


def connect(path: Path) -> apsw.Connection:
    """A connection whose commits are durable when they return, and which leaves nothing of what it deletes."""
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(5000)
        connection.execute("pragma synchronous = full; pragma secure_delete = on")
    except apsw.Error as error:
        if connection is not None:
            connection.close()
        if isinstance(error, apsw.NotADBError | apsw.CorruptError):
            raise damaged(error) from None
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None
    return connection


def frozen(path: Path) -> apsw.Connection:
    """On a read-only file system nobody writes, so the file can be read as it is."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise VaultError("the vault was not closed, and cannot be read on a read-only file system: copy it, or open it")
    address = f"file:{quote(str(path.resolve()))}?immutable=1"
    try:
        return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None


def asked(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterator[Any]:
    """The rows that a statement gives; what SQLite has to say against that as errors of the vault's."""
    try:
        yield from connection.execute(sql, bindings)
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, UnicodeDecodeError) as error:
        raise damaged(error) from None
    except apsw.Error as error:
        raise VaultError(f"cannot read the ledger: {describe(error)}") from None


def damaged(error: Exception) -> DamagedVault:
    """What is there is no longer a ledger."""
    said = describe(error) if isinstance(error, apsw.Error) else "a text is none"
    return DamagedVault(f"the ledger is damaged: {said}; restore a backup")


def describe(error: apsw.Error) -> str:
    """What SQLite says, without what it was given."""
    known = {apsw.FullError: "the disk is full", apsw.IOError: "the disk failed", apsw.ReadOnlyError: "it is read-only"}
    return next((text for kind, text in known.items() if isinstance(error, kind)), str(error) or type(error).__name__)
