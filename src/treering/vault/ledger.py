"""The ledger: every line that was ever written, in SQLite, chained by hashes; and the secrets, in a table of their own.

A commit is durable when it returns: write-ahead logging with a full sync. What a commit holds becomes durable together
or not at all. After a commit that failed nobody knows what is on disk, so nothing more is written or released: the
vault must be opened again, and goes on from what is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from treering.errors import DamagedVault, NewerVault, NotAVault, TreeringError, VaultError
from treering.trusted.sealed import Sealed
from treering.vault.lines import ROOT, Entry, Line, chained, check
from treering.vault.steps import Step, reached

FORMAT: Final = 1
"""The version of the folder and of its tables."""

APPLICATION: Final = 0x74726565
"""SQLite's mark of whose file it is: "tree"."""

_TABLES: Final = """
create table ledger (
    seq integer primary key, time integer not null, kind text not null, mechanism integer not null,
    body text not null, key text not null, commitment text not null, hash blob not null
) strict;
create table secrets (name text primary key, salt blob not null, value text not null) strict, without rowid;
"""

_COLUMNS: Final = "seq, time, kind, mechanism, body, key, commitment, hash"


class SecretValue(Sealed):
    """A private value that a line's commitment is about."""

    __slots__ = ("name", "salt", "value")

    def __init__(self, name: str, salt: bytes, value: str) -> None:
        self.name, self.salt, self.value = name, salt, value


class Ledger(Sealed):
    """The writer's ledger. One thread at a time: the vault's lock is held around every use."""

    __slots__ = ("_connection", "_depth", "_dropped", "_failed", "_head", "_lines", "_put", "_seq", "_time")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._depth = 0
        self._failed = ""
        self._lines: list[Line] = []
        self._put: list[SecretValue] = []
        self._dropped: list[str] = []
        self._seq, self._time, self._head = 0, 0, ROOT

    @property
    def head(self) -> bytes:
        """The hash of the last durable line."""
        return self._head

    @property
    def seq(self) -> int:
        """How many lines are durable."""
        return self._seq

    def read(self) -> Iterator[Entry]:
        """Every line, each checked against the chain. Afterwards the ledger can be written to."""
        for entry in check(rows_of(self._connection)):
            self._seq, self._time, self._head = entry.seq, entry.time, entry.hash
            yield entry

    def secrets(self) -> dict[str, SecretValue]:
        """PRIVATE: all secrets."""
        found = _asked(self._connection, "select name, salt, value from secrets")
        return {name: SecretValue(name, salt, value) for name, salt, value in found}

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, line: Line, *, put: SecretValue | None = None, drop: str | None = None) -> None:
        """Add a line, and put a secret in its place or drop one: now, or at the end of the transaction."""
        self.check_usable()
        self._lines.append(line)
        if put is not None:
            self._put.append(put)
        if drop is not None:
            self._dropped.append(drop)
        if not self._depth:
            self._commit()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written within becomes durable together, at the end, even if that is an error."""
        self.check_usable()
        self._depth += 1
        try:
            yield
        except BaseException as error:
            self._leave(error)
            raise
        else:
            self._leave(None)

    def _leave(self, error: BaseException | None) -> None:
        self._depth -= 1
        if self._depth or not self._lines:
            return
        try:
            self._commit()
        except VaultError:
            if isinstance(error, TreeringError):
                error.answers = ()  # They are not on record, so they do not leave.
            raise
        if error is not None and not isinstance(error, Exception):
            self.fail("it was interrupted in the middle of an operation")

    def _commit(self) -> None:
        reached(Step.COMMIT_BEGUN)
        entries = self._chain()
        try:
            self._connection.execute("begin immediate")
            self._connection.executemany(
                f"insert into ledger ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)", map(_row, entries)
            )
            if self._put:
                given = [(secret.name, secret.salt, secret.value) for secret in self._put]
                self._connection.executemany("insert into secrets values (?, ?, ?)", given)
            if self._dropped:
                self._connection.executemany("delete from secrets where name = ?", [(name,) for name in self._dropped])
            reached(Step.COMMIT_READY)
            self._connection.execute("commit")
        except apsw.Error as error:
            self.fail(f"its ledger could not be written ({describe(error)})")
            self.check_usable()
        reached(Step.COMMITTED)
        last = entries[-1]
        self._seq, self._time, self._head = last.seq, last.time, last.hash
        self._lines, self._put, self._dropped = [], [], []

    def _chain(self) -> list[Entry]:
        # A clock that moves backwards does not move the ledger's.
        now = max(self._time, time.time_ns() // 1000)
        entries: list[Entry] = []
        previous = self._head
        for number, line in enumerate(self._lines, self._seq + 1):
            entries.append(chained(previous, number, now, line))
            previous = entries[-1].hash
        return entries

    # -- its end ------------------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Write and release nothing more: what is in memory may be ahead of what is durable."""
        self._failed = self._failed or reason

    def check_usable(self) -> None:
        """Refuse after a failure."""
        if self._failed:
            raise VaultError(
                f"the vault stopped because {self._failed}. Nothing was released that is not on record, and nothing on "
                "record is lost: see to the disk, then open the vault again"
            )

    def backup(self, path: Path) -> None:
        """Copy the database as it is to a new file."""
        target = apsw.Connection(str(path))
        try:
            with target.backup("main", self._connection, "main") as backup:
                backup.step()
        finally:
            target.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


# -- files ------------------------------------------------------------------------------------------------------------


def create(path: Path, vfs: str | None = None) -> Ledger:
    """A new ledger with no line."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs)
    try:
        connection.execute(f"pragma application_id = {APPLICATION}; pragma user_version = {FORMAT}")
        with connection:
            connection.execute(_TABLES)
    except apsw.Error as error:
        connection.close()
        raise VaultError(f"cannot write a ledger: {describe(error)}") from None
    return Ledger(connection)


def open_writer(path: Path, vfs: str | None = None) -> Ledger:
    """The ledger of an existing vault."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, vfs)
    _check_format(connection)
    return Ledger(connection)


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection that sees the ledger as it is now, whoever writes to it meanwhile."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE) if os.access(path.parent, os.W_OK) else _frozen(path)
    try:
        connection.execute("pragma query_only = true")
        _check_format(connection)
        connection.execute("begin")
        yield connection
    finally:
        connection.close()


def rows_of(connection: apsw.Connection, after: int = 0) -> Iterator[Entry]:
    """The lines after a number, in order."""
    for row in _asked(connection, f"select {_COLUMNS} from ledger where seq > ? order by seq", (after,)):
        seq, stamp, kind, mechanism, text, key, commitment, digest = row
        yield Entry(seq, stamp, Line(kind, text, mechanism, key, commitment), digest)


def _connect(path: Path, flags: int, vfs: str | None = None) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
        connection.set_busy_timeout(5000)
        connection.execute("pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = off")
    except apsw.Error as error:
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None
    return connection


def _frozen(path: Path) -> apsw.Connection:
    """On a read-only file system nobody writes, so the file can be read as it is."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise VaultError("the vault was not closed, and cannot be read on a read-only file system: copy it, or open it")
    address = f"file:{quote(str(path.resolve()))}?immutable=1"
    try:
        return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None


def _check_format(connection: apsw.Connection) -> None:
    """Refuse what is no ledger, or a later version's."""
    try:
        application, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
        problem: VaultError | None = None
        if application != APPLICATION:
            problem = NotAVault("the folder has a ledger.sqlite that is no ledger of treering's")
        elif version > FORMAT:
            problem = NewerVault(
                f"the vault has format {version}, and this version of treering reads up to {FORMAT}: use a later one"
            )
    except apsw.Error as error:
        problem = DamagedVault(f"the ledger is damaged: {describe(error)}; restore a backup")
    if problem is not None:
        connection.close()
        raise problem


def _pragma(connection: apsw.Connection, name: str) -> int:
    ((value,),) = connection.execute(f"pragma {name}").fetchall()
    assert isinstance(value, int)
    return value


def _asked(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterator[Any]:
    try:
        yield from connection.execute(sql, bindings)
    except apsw.Error as error:
        raise DamagedVault(f"the ledger is damaged: {describe(error)}; restore a backup") from None


def _row(entry: Entry) -> tuple[int, int, str, int, str, str, str, bytes]:
    line = entry.line
    return entry.seq, entry.time, line.kind, line.mechanism, line.body, line.key, line.commitment, entry.hash


def describe(error: apsw.Error) -> str:
    """What SQLite says, without what it was given."""
    known = {apsw.FullError: "the disk is full", apsw.IOError: "the disk failed", apsw.ReadOnlyError: "it is read-only"}
    return next((text for kind, text in known.items() if isinstance(error, kind)), str(error) or type(error).__name__)
