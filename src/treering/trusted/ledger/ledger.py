"""The ledger: every line ever written, in SQLite, chained by hashes; and in tables of their own the secrets, and the
*tail*, the batches of rows that lie in no part yet.

A commit is durable when it returns: write-ahead logging with a full sync. What a commit holds becomes durable together
or not at all. After a commit that failed it is unknown what is on disk, so nothing more is written or released: the
vault must be opened again, and continues from what is on disk.

There is one format of folder, tables and lines. A vault of any other is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from treering.errors import DamagedVault, NotAVault, TreeringError, UnknownFormat, VaultError
from treering.trusted.ledger.disk import Stage, reached
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.lines import ROOT, Entry, Line, SecretValue, chained, check
from treering.trusted.sealed import Sealed
from treering.words import DISK_FULL, reason

FORMAT: Final = 5
"""The format of the vault's folder, of the ledger's tables and of its lines."""

TORN: Final = "it was interrupted in the middle of an operation"
"""A mechanism's state in memory may be behind what is on record, or ahead of it: only replay gives its state."""

_COLUMNS: Final = "seq, time, kind, mechanism, body, key, commitment, hash"


class Secrets(Sealed, Mapping[str, SecretValue]):
    """PRIVATE: the secrets of a ledger by name, each read when needed: every batch has one, and few are needed."""

    __slots__ = ("_connection",)

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __getitem__(self, name: str) -> SecretValue:
        found = list(asked(self._connection, "select salt, value from secrets where name = ?", (name,)))
        if not found:
            raise KeyError(name)
        return SecretValue(name, *found[0])

    def __iter__(self) -> Iterator[str]:
        return (name for (name,) in asked(self._connection, "select name from secrets"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, repr=False, eq=False)
class Write(Sealed):
    """PRIVATE: a line to commit, and what is stored and deleted with it: an interrupt cannot separate them."""

    line: Line
    put: SecretValue | None = None
    drop: tuple[str, ...] = ()
    tail: tuple[int, bytes] | None = None
    sealed: int = 0


class Ledger(Sealed):
    """The ledger of a vault that is open for writing. Callers hold the vault's lock."""

    __slots__ = ("_connection", "_failed", "_head", "_open", "_seq", "_time", "_waiting", "ahead")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._open = False
        """Whether a transaction is in progress."""
        self._failed = ""
        self._waiting: list[Write] = []
        """What is to be committed next."""
        self.ahead = False
        """Whether memory is ahead of the record: of what happened, a line is still to be written."""
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
        """Every line, each checked against the chain. To be called before the first `write`."""
        entries = list(check(rows_of(self._connection)))
        if entries:
            last = entries[-1]
            self._seq, self._time, self._head = last.seq, last.time, last.hash
        return entries

    def secrets(self) -> Secrets:
        """PRIVATE: all secrets; each is read when it is asked for."""
        return Secrets(self._connection)

    def tail(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """PRIVATE: the batches in the tail whose number is above ``after``, in order: their numbers and contents."""
        return tail_of(self._connection, after)

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(
        self,
        *lines: Line,
        put: SecretValue | None = None,
        drop: tuple[str, ...] = (),
        tail: tuple[int, bytes] | None = None,
        sealed: int = 0,
    ) -> None:
        """Add lines, which no interrupt can separate; with them store the secret ``put`` and the batch ``tail`` (its
        number and content), and delete the secrets named in ``drop`` and the batches of the tail up to number
        ``sealed``. Durable when this returns or, in a transaction, at its end."""
        self.write_all([*map(Write, lines[:-1]), Write(lines[-1], put, drop, tail, sealed)])

    def write_all(self, writes: Sequence[Write]) -> None:
        """Add lines, each with what is stored and deleted with it; no interrupt can separate them."""
        self.check_usable()
        self._waiting.extend(writes)
        if not self._open:
            self._commit()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """A transaction of which nothing becomes durable unless the block comes to its end. If it does not, the vault
        stops: memory may be ahead of the record."""
        with self.transaction():
            before = len(self._waiting)
            try:
                yield
            except BaseException:
                del self._waiting[before:]
                self.fail(TORN)
                raise

    @property
    def waiting(self) -> int:
        """How many lines will become durable at the end of the transaction in progress."""
        return len(self._waiting)

    def transaction(self) -> AbstractContextManager[None]:
        """Make the lines written in the block durable together, at its end, even if it ends in an error. (A transaction
        within another is part of it.)

        If the commit fails, the answers that such an error carries are withheld.
        """
        self.check_usable()
        return nullcontext() if self._open else self

    def __enter__(self) -> None:
        self._open = True

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._open = False
        if not self._waiting:
            return
        if error is not None and not isinstance(error, TreeringError):
            self.fail(TORN)
        try:
            self._commit()
        except VaultError:
            if isinstance(error, TreeringError):
                error.answers = ()
            raise

    # -- commits ------------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Make all waiting lines durable. (None of them was written after a failure: see `check_usable`.)"""
        before, self._failed = self._failed, "it was interrupted in the middle of a commit"  # until it ends
        waiting, self._waiting = self._waiting, []
        put: dict[str, SecretValue] = {}
        dropped: list[str] = []
        for each in waiting:
            if each.put is not None:
                put[each.put.name] = each.put
            # A secret stored and deleted between two commits need never be on disk.
            dropped.extend(name for name in each.drop if put.pop(name, None) is None)
        try:
            self._write_lines(waiting, put, dropped)
        except apsw.Error as error:
            self._failed = before or f"its ledger could not be written ({describe(error)})"
            self.check_usable()
        self._failed = before

    def _write_lines(self, waiting: list[Write], put: dict[str, SecretValue], dropped: list[str]) -> None:
        reached(Stage.COMMIT_BEGUN)
        entries = self._chain([each.line for each in waiting])
        self._connection.execute("begin immediate")
        self._connection.executemany(f"insert into ledger ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)", entries)
        if put:
            given = [(secret.name, secret.salt, secret.value) for secret in put.values()]
            self._connection.executemany("insert into secrets values (?, ?, ?)", given)
        if dropped:
            self._connection.executemany("delete from secrets where name = ?", [(name,) for name in dropped])
        for each in waiting:
            if each.tail is not None:
                self._connection.execute("insert into tail values (?, ?)", each.tail)
            if each.sealed:
                self._connection.execute("delete from tail where number <= ?", (each.sealed,))
        reached(Stage.COMMIT_READY)
        self._connection.execute("commit")
        reached(Stage.COMMITTED)
        last = entries[-1]
        self._time, self._head, self._seq = last.time, last.hash, last.seq

    def _chain(self, lines: Sequence[Line]) -> list[Entry]:
        # Times in the ledger never go back, even if the clock does.
        now = max(self._time, time.time_ns() // 1000)
        entries: list[Entry] = []
        previous = self._head
        for number, line in enumerate(lines, self._seq + 1):
            entries.append(chained(previous, number, now, line))
            previous = entries[-1].hash
        return entries

    # -- failure, backup, closing -------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Refuse all further use, for this reason: the state in memory may be ahead of what is durable."""
        self._failed = self._failed or reason

    @contextmanager
    def remembered(self, reason: str) -> Iterator[None]:
        """What the block makes durable it also takes up in memory. If it ends in an error after the first of the two,
        memory is behind the record: the vault stops, for this reason, and the next opening reads the record."""
        before = self.seq
        try:
            yield
        except BaseException:
            if self.seq != before:
                self.fail(reason)
            raise

    def check_entry(self) -> None:
        """To be called by every thread that enters the vault: refuses if an interrupt left something unfinished.
        (An interrupt can come between any two steps, also at the end of a transaction.)"""
        self._open = False
        if self._waiting or self.ahead:
            self.fail(TORN)
        self.check_usable()

    def check_usable(self) -> None:
        """Raise `VaultError` after a failure."""
        if self._failed:
            raise VaultError(
                f"the vault stopped because {self._failed}. Every answer that left is on record, and nothing on record "
                "is lost: see to the disk, then open the vault again. A sparse-vector run in progress ends then, since "
                "this error may have shown one crossing of its threshold"
            )

    def backup(self, path: Path) -> None:
        """Copy the ledger, as it is now, to the new file ``path``."""
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

    def wipe(self) -> None:
        """Empty the write-ahead log, which still has what was overwritten or deleted in the file. (If a reader keeps it
        from being emptied, the next opening or closing does it.)"""
        with suppress(apsw.Error):
            self._connection.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        """Close the file."""
        with suppress(apsw.Error):  # What a failing disk cannot take now, the next opening finds in the log.
            self._connection.close()


# -- creating, opening, reading ----------------------------------------------------------------------------------------


def create(path: Path) -> Ledger:
    """A new ledger without lines, in the new file ``path``."""
    new_file(path)
    connection = connect(path)
    try:
        connection.execute(WRITE_AHEAD)
        marks = f"pragma application_id = {APPLICATION}; pragma user_version = {FORMAT}"
        connection.execute(f"begin; {marks}; {TABLES}; commit")
    except apsw.Error as error:
        connection.close()
        raise VaultError(f"cannot write a ledger: {describe(error)}") from None
    return Ledger(connection)


def open_writer(path: Path) -> Ledger:
    """The ledger of an existing vault. The caller holds the writer's lock."""
    connection = connect(path)
    try:
        check_format(connection)
        connection.execute(WRITE_AHEAD)
    except apsw.Error as error:
        connection.close()
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None
    except BaseException:
        connection.close()
        raise
    return Ledger(connection)


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A read-only connection to one snapshot of the ledger, whatever a writer does meanwhile."""
    connection = connect(path) if os.access(path.parent, os.W_OK) else frozen(path)
    try:
        try:
            connection.execute("pragma query_only = true; begin")
            check_format(connection)
        except apsw.Error as error:
            raise VaultError(f"cannot read the ledger: {describe(error)}") from None
        yield connection
    finally:
        connection.close()


def rows_of(connection: apsw.Connection, after: int = 0) -> Iterator[Entry]:
    """The lines whose number is above ``after``, in order."""
    sql = f"select {_COLUMNS} from ledger where seq > ? order by seq"
    return map(Entry._make, asked(connection, sql, (after,)))


def tail_of(connection: apsw.Connection, after: int = 0) -> Iterator[tuple[int, bytes]]:
    """PRIVATE: the batches in the tail whose number is above ``after``, in order: their numbers and contents."""
    return asked(connection, "select number, content from tail where number > ? order by number", (after,))


def check_format(connection: apsw.Connection) -> None:
    """Refuse a file that is no ledger, and a ledger of another format."""
    try:
        application, version, pages = (
            _pragma(connection, name) for name in ("application_id", "user_version", "schema_version")
        )
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise damaged(error) from None
    if application == version == pages == 0:
        raise Folder(Path(connection.filename).parent).unfinished()
    if application != APPLICATION or version < 1:
        raise NotAVault("the folder has a ledger.sqlite that is no ledger of treering's, or a damaged one")
    if version != FORMAT:
        raise UnknownFormat(
            f"the vault has format {version}, and this version of treering reads format {FORMAT} only: use the version "
            "that wrote it"
        )


def _pragma(connection: apsw.Connection, name: str) -> int:
    ((value,),) = connection.execute(f"pragma {name}").fetchall()
    assert isinstance(value, int)
    return value


# -- the SQLite file, and its errors -----------------------------------------------------------------------------------


APPLICATION: Final = 0x74726565
"""SQLite's application id of a ledger: "tree" in ASCII."""

TABLES: Final = """
create table ledger (
    seq integer primary key, time integer not null, kind text not null, mechanism integer not null,
    body text not null, key text not null, commitment text not null, hash blob not null
) strict;
create table secrets (name text primary key, salt blob not null, value text not null) strict, without rowid;
create table tail (number integer primary key, content blob not null) strict;
"""

WRITE_AHEAD: Final = "pragma journal_mode = wal"
"""Lets readers see the last commit while the next one is written. The file keeps this setting."""


def new_file(path: Path) -> None:
    """Make an empty file that only its owner may read: SQLite gives its other files the same mode."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise VaultError(f"cannot write {path}: {reason(error)}") from None


def connect(path: Path) -> apsw.Connection:
    """A connection whose commits are durable when they return, and which overwrites what it deletes."""
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
    """A connection on a read-only file system: nobody writes there, so the file can be read without locks."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise VaultError("the vault was not closed, and cannot be read on a read-only file system: copy it, or open it")
    address = f"file:{quote(str(path.resolve()))}?immutable=1"
    try:
        return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise VaultError(f"cannot open the ledger: {describe(error)}") from None


def asked(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Iterator[Any]:
    """The rows that a statement gives; errors of SQLite become errors of the vault."""
    try:
        yield from connection.execute(sql, bindings)
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, UnicodeDecodeError) as error:
        raise damaged(error) from None
    except apsw.Error as error:
        raise VaultError(f"cannot read the ledger: {describe(error)}") from None


def damaged(error: Exception) -> DamagedVault:
    """The error for a file that is no longer a valid ledger."""
    said = describe(error) if isinstance(error, apsw.Error) else "a text is not UTF-8"
    return DamagedVault(f"the ledger is damaged: {said}; restore a backup")


def describe(error: apsw.Error) -> str:
    """An error of SQLite in words, without the values it was given."""
    known = {apsw.FullError: DISK_FULL, apsw.IOError: "the disk failed", apsw.ReadOnlyError: "it is read-only"}
    return next((text for kind, text in known.items() if isinstance(error, kind)), str(error) or type(error).__name__)
