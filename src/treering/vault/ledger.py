"""The ledger: every line that was ever written, in SQLite, chained by hashes; and the secrets, in a table of their own.

A commit is durable when it returns: write-ahead logging with a full sync. What a commit holds becomes durable together
or not at all. After a commit that failed nobody knows what is on disk, so nothing more is written or released: the
vault must be opened again, and goes on from what is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from treering.errors import DamagedVault, NewerVault, NotAVault, TreeringError, VaultError
from treering.trusted.sealed import Sealed
from treering.vault.lines import ROOT, Entry, Line, chained, check
from treering.vault.migrations import migrate
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

_WRITE_AHEAD: Final = "pragma journal_mode = wal"
"""Readers see the last commit while the next one is written. Kept in the file."""

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

    def read(self) -> Sequence[Entry]:
        """Every line, each checked against the chain. Afterwards the ledger can be written to."""
        entries = list(check(rows_of(self._connection)))
        for last in entries[-1:]:
            self._seq, self._time, self._head = last.seq, last.time, last.hash
        return entries

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

    def transaction(self) -> AbstractContextManager[None]:
        """What is written within becomes durable together, at the end, even if that is an error."""
        self.check_usable()
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._depth -= 1
        if self._depth or not self._lines:
            return
        try:
            self._commit()
        except VaultError:
            if isinstance(error, TreeringError):
                error.answers = ()  # They are not on record, so they do not leave.
            raise
        if error is not None and not isinstance(error, TreeringError):
            # A mechanism may not have followed what is on record: only those who replay it know its state.
            self.fail("it was interrupted in the middle of an operation")

    def _commit(self) -> None:
        self.check_usable()
        try:
            self._write_lines()
        except apsw.Error as error:
            self.fail(f"its ledger could not be written ({describe(error)})")
        except BaseException:
            self.fail("it was interrupted in the middle of a commit")
            raise
        self.check_usable()

    def _write_lines(self) -> None:
        reached(Step.COMMIT_BEGUN)
        entries = self._chain()
        self._connection.execute("begin immediate")
        self._connection.executemany(f"insert into ledger ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)", entries)
        if self._put:
            given = [(secret.name, secret.salt, secret.value) for secret in self._put]
            self._connection.executemany("insert into secrets values (?, ?, ?)", given)
        if self._dropped:
            self._connection.executemany("delete from secrets where name = ?", [(name,) for name in self._dropped])
        reached(Step.COMMIT_READY)
        self._connection.execute("commit")
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
        try:
            new_file(path)
            target = apsw.Connection(str(path))
            try:
                with target.backup("main", self._connection, "main") as backup:
                    backup.step()
            finally:
                target.close()
        except apsw.Error as error:
            raise VaultError(f"cannot write the backup: {describe(error)}") from None

    def close(self) -> None:
        """Let go of the file."""
        with suppress(apsw.Error):  # What a disk that fails is not told now, the next opening finds in the log.
            self._connection.close()


# -- files ------------------------------------------------------------------------------------------------------------


def create(path: Path) -> Ledger:
    """A new ledger with no line."""
    new_file(path)
    connection = _connect(path)
    try:
        connection.execute(_WRITE_AHEAD)
        marks = f"pragma application_id = {APPLICATION}; pragma user_version = {FORMAT}"
        connection.execute(f"begin; {marks}; {_TABLES}; commit")
    except apsw.Error as error:
        connection.close()
        raise VaultError(f"cannot write a ledger: {describe(error)}") from None
    return Ledger(connection)


def open_writer(path: Path) -> Ledger:
    """The ledger of an existing vault, brought to this version's format. The writer's lock is held."""
    connection = _connect(path)
    try:
        version = format_of(connection)
        connection.execute(_WRITE_AHEAD)
        if version < FORMAT:
            migrate(connection, path, version, FORMAT)
    except apsw.Error as error:
        connection.close()
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None
    except BaseException:
        connection.close()
        raise
    return Ledger(connection)


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection that sees the ledger as it is now, whoever writes to it meanwhile."""
    connection = _connect(path) if os.access(path.parent, os.W_OK) else _frozen(path)
    try:
        try:
            connection.execute("pragma query_only = true; begin")
            version = format_of(connection)
        except apsw.Error as error:
            raise VaultError(f"cannot read the ledger: {describe(error)}") from None
        if version < FORMAT:
            raise VaultError(f"the vault has format {version}, and {FORMAT} is read: open it for writing once")
        yield connection
    finally:
        connection.close()


def rows_of(connection: apsw.Connection, after: int = 0) -> Iterator[Entry]:
    """The lines after a number, in order."""
    sql = f"select {_COLUMNS} from ledger where seq > ? order by seq"
    return map(Entry._make, _asked(connection, sql, (after,)))


def new_file(path: Path) -> None:
    """Make an empty file that nobody but its owner may read: SQLite's other files get the same mode."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise VaultError(f"cannot write {path}: {error.strerror}") from None


def _connect(path: Path) -> apsw.Connection:
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


def format_of(connection: apsw.Connection) -> int:
    """The version of a ledger; refuses what is none, or a later version's."""
    try:
        application, version, pages = (
            _pragma(connection, name) for name in ("application_id", "user_version", "schema_version")
        )
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise damaged(error) from None
    if application == version == pages == 0:
        raise NotAVault("the vault was never finished: its ledger is empty. Delete the folder and create it again")
    if application != APPLICATION or version < 1:
        raise NotAVault("the folder has a ledger.sqlite that is no ledger of treering's, or a damaged one")
    if version > FORMAT:
        raise NewerVault(
            f"the vault has format {version}, and this version of treering reads up to {FORMAT}: use a later one"
        )
    return version


def _pragma(connection: apsw.Connection, name: str) -> int:
    ((value,),) = connection.execute(f"pragma {name}").fetchall()
    assert isinstance(value, int)
    return value


def _asked(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterator[Any]:
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
