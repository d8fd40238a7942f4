"""A ledger by itself: which lines and secrets are on record after each call, and who has its files open."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import treering as tr
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.ledger.ledger import Ledger, Write
from treering.trusted.ledger.lines import Line, SecretValue, body, check


def line(size: int) -> Line:
    return Line("rows", body(size=size))


def secret(name: str) -> SecretValue:
    return SecretValue(name, bytes(32), f"the value of {name}")


def sizes(ledger: Ledger) -> list[int]:
    """What the lines on record say, read anew."""
    with ledgers.reading(Path(ledger._connection.filename)) as connection:
        return [entry.line.plain()["size"] for entry in check(ledgers.rows_of(connection))]


def is_open(path: Path) -> bool:
    return str(path) in {each.filename for each in apsw.connections()}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = ledgers.create(tmp_path / "ledger.sqlite")
    yield made
    made.close()


# -- lines -------------------------------------------------------------------------------------------------------------


def test_lines_are_on_record_in_their_order_when_write_returns(ledger: Ledger) -> None:
    ledger.write(line(1))
    assert sizes(ledger) == [1]
    ledger.write(line(2), line(3), line(4), put=secret("a"))
    assert sizes(ledger) == [1, 2, 3, 4]
    assert (ledger.seq, ledger.waiting) == (4, 0)
    assert [ledger.secrets()[name].value for name in ledger.secrets()] == ["the value of a"]


def test_a_transaction_is_durable_at_its_end_and_what_follows_at_once(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.write(line(1))
        with ledger.transaction():
            ledger.write(line(2))
        assert (ledger.waiting, ledger.seq, sizes(ledger)) == (2, 0, [])
    assert (ledger.waiting, ledger.seq, sizes(ledger)) == (0, 2, [1, 2])
    ledger.write(line(3))
    assert sizes(ledger) == [1, 2, 3]
    with ledger.transaction():
        pass
    ledger.write(line(4))
    assert (ledger.waiting, sizes(ledger)) == (0, [1, 2, 3, 4])


def test_who_enters_is_in_no_transaction(ledger: Ledger) -> None:
    """An interrupt may have left one open before anything was written in it."""
    ledger.__enter__()
    ledger.check_entry()
    ledger.write(line(1))
    assert (ledger.waiting, sizes(ledger)) == (0, [1])


@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_ledger_that_was_read_goes_on_where_it_ends(ledger: Ledger, tmp_path: Path, before: int) -> None:
    for size in range(before):
        ledger.write(line(size))
    ledger.close()
    again = ledgers.open_writer(tmp_path / "ledger.sqlite")
    entries = again.read()
    assert (again.seq, again.head, again._time) == (before, entries[-1].hash, entries[-1].time)
    again.write(line(9))
    assert sizes(again) == [*range(before), 9]
    again.close()


@pytest.mark.parametrize(("clock", "kept"), [(-5000, 0), (0, 0), (2000, 2)])
def test_no_line_is_older_than_the_chain(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, clock: int, kept: int
) -> None:
    """A clock that stands before 1970 must not make a ledger that nobody can read."""
    monkeypatch.setattr(time, "time_ns", lambda: clock)
    ledger.write(line(1))
    assert sizes(ledger) == [1]
    assert [entry.time for entry in ledgers.rows_of(ledger._connection)] == [kept]


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_are_found_by_name_and_counted(ledger: Ledger) -> None:
    secrets = ledger.secrets()
    assert len(secrets) == 0
    for name in ("a", "b", "c"):
        ledger.write(line(1), put=secret(name))
    assert (len(secrets), sorted(secrets)) == (3, ["a", "b", "c"])
    assert [(secrets[name].name, secrets[name].value) for name in "ca"] == [
        ("c", "the value of c"),
        ("a", "the value of a"),
    ]
    assert secrets["a"].salt == bytes(32)
    ledger.write(line(2), drop=("b",))
    assert (len(secrets), sorted(secrets), secrets.get("b")) == (2, ["a", "c"], None)


def test_only_secrets_that_outlive_a_commit_reach_the_database(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, list[str], list[str]]] = []
    write = Ledger._write_lines

    def noting(own: Ledger, waiting: list[Write], put: dict[str, SecretValue], dropped: list[str]) -> None:
        given.append((len(waiting), list(put), dropped))
        write(own, waiting, put, dropped)

    ledger.write(line(0), put=secret("old"))
    monkeypatch.setattr(Ledger, "_write_lines", noting)
    with ledger.transaction():
        ledger.write(line(1), put=secret("short"))
        ledger.write(line(2), put=secret("long"))
        ledger.write(line(3), drop=("short",))
        ledger.write(line(4), drop=("old",))
    ledger.write(line(5))
    assert given == [(4, ["long"], ["old"]), (1, [], [])]
    assert list(ledger.secrets()) == ["long"]


# -- the tail ----------------------------------------------------------------------------------------------------------


def test_the_tail_comes_and_goes_with_lines(ledger: Ledger) -> None:
    for number in range(1, 6):
        ledger.write(line(number), put=secret(f"rows {number}"), tail=(number, bytes([number]) * number))
    assert list(ledger.tail()) == [(number, bytes([number]) * number) for number in range(1, 6)]
    assert [number for number, _ in ledger.tail(after=3)] == [4, 5]
    ledger.write(line(6), put=secret("part 1"), drop=("rows 1", "rows 2"), sealed=3)
    assert [number for number, _ in ledger.tail()] == [4, 5]
    assert sorted(ledger.secrets()) == ["part 1", "rows 3", "rows 4", "rows 5"]
    with ledger.transaction():
        ledger.write(line(7), tail=(6, b"x"))
        assert [number for number, _ in ledger.tail()] == [4, 5]
        ledger.write(line(8), sealed=5)
    assert list(ledger.tail()) == [(6, b"x")]


def test_a_line_whose_commit_fails_leaves_the_tail_as_it_was(
    ledger: Ledger,
) -> None:
    ledger.write(line(1), tail=(1, b"one"))

    def full(stage: Stage) -> None:
        if stage is Stage.COMMIT_READY:
            raise apsw.FullError("x")

    observe(full)
    try:
        with pytest.raises(tr.VaultError, match="its ledger could not be written .the disk is full"):
            ledger.write(line(2), tail=(2, b"two"), sealed=1)
    finally:
        observe(None)
    ledger._connection.execute("rollback")
    assert list(ledger.tail()) == [(1, b"one")]


def test_what_is_to_be_committed_shows_nothing() -> None:
    assert repr(Write(line(1), tail=(1, b"a row"))) == "<Write>"


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [(apsw.FullError("x"), "cannot open the ledger: the disk is full"), (tr.NotAVault("no ledger"), "no ledger")],
)
def test_a_ledger_that_cannot_be_opened_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(_: apsw.Connection) -> None:
        raise error

    path = tmp_path / "ledger.sqlite"
    ledgers.create(path).close()
    monkeypatch.setattr(ledgers, "check_format", fail)
    # The error knows the connection: it was closed, not only forgotten.
    with pytest.raises(tr.VaultError, match=said) as refusal:
        ledgers.open_writer(path)
    assert not is_open(path), refusal


def test_a_ledger_that_cannot_be_made_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "TABLES", "create nonsense")
    with pytest.raises(tr.VaultError, match="cannot write a ledger: .*syntax error") as refusal:
        ledgers.create(tmp_path / "ledger.sqlite")
    assert not is_open(tmp_path / "ledger.sqlite"), refusal


def test_a_connection_that_cannot_be_set_up_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 20)
    with pytest.raises(tr.DamagedVault, match="the ledger is damaged") as refusal:
        ledgers.connect(path)
    assert not is_open(path), refusal


def test_what_is_no_ledger_is_named(tmp_path: Path) -> None:
    def refused(marks: str) -> str:
        path = tmp_path / "ledger.sqlite"
        path.unlink(missing_ok=True)
        connection = apsw.Connection(str(path))
        connection.execute(marks)
        with pytest.raises(tr.VaultError) as refusal:
            ledgers.check_format(connection)
        connection.close()
        return f"{type(refusal.value).__name__}: {refusal.value}"

    named = f"pragma application_id = {ledgers.APPLICATION}"
    assert "NotAVault: the vault was never finished" in refused("select 1")
    assert "NotAVault: the folder has a ledger.sqlite that is no ledger" in refused("create table a (b)")
    assert "NotAVault: the folder has a ledger.sqlite that is no ledger" in refused("pragma user_version = 1")
    assert "NotAVault: the folder has a ledger.sqlite that is no ledger" in refused(named)
    assert "NotAVault: the folder has a ledger.sqlite that is no ledger" in refused(
        f"{named}; pragma user_version = -1"
    )
    for other in (ledgers.FORMAT - 1, ledgers.FORMAT + 1):
        refusal = refused(f"{named}; pragma user_version = {other}")
        assert (
            f"UnknownFormat: the vault has format {other}, and this version of treering reads format {ledgers.FORMAT}"
            in refusal
        )
    ledger = ledgers.create(tmp_path / "good.sqlite")
    ledgers.check_format(ledger._connection)
    ledger.close()


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"something")
    for make in (ledgers.new_file, ledgers.create):
        with pytest.raises(tr.VaultError, match=f"cannot write {tmp_path / 'file'}: File exists"):
            make(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"something"


def test_a_backup_has_all_lines_and_secrets_for_its_owner_alone(ledger: Ledger, tmp_path: Path) -> None:
    ledger.write(line(1), line(2), put=secret("a"))
    target = tmp_path / "backup.sqlite"
    before = os.umask(0)
    try:
        ledger.backup(target)
    finally:
        os.umask(before)
    assert (stat.S_IMODE(target.stat().st_mode), is_open(target)) == (0o600, False)
    copy = ledgers.open_writer(target)
    assert [entry.line.plain()["size"] for entry in copy.read()] == [1, 2]
    assert copy.secrets()["a"].value == "the value of a"
    copy.close()
    with pytest.raises(tr.VaultError, match=f"cannot write {target}: File exists"):
        ledger.backup(target)


def test_a_backup_that_fails_is_an_error_of_the_vault_and_let_go(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"no database, but long enough to be taken for one" * 100)
    damaged = Ledger(apsw.Connection(str(tmp_path / "damaged")))
    with pytest.raises(tr.VaultError, match="cannot write the backup: ") as refusal:
        damaged.backup(tmp_path / "backup.sqlite")
    assert not is_open(tmp_path / "backup.sqlite"), refusal
    damaged.close()


def test_on_a_read_only_disk_a_log_with_nothing_in_it_does_no_harm(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger.write(line(1))
    ledger.close()
    for log in (False, True):
        if log:
            (tmp_path / "ledger.sqlite-wal").touch()
        connection = ledgers.frozen(path)
        assert [entry.seq for entry in ledgers.rows_of(connection)] == [1]
        with pytest.raises(apsw.ReadOnlyError):
            connection.execute("delete from ledger")
        connection.close()
    (tmp_path / "ledger.sqlite-wal").write_bytes(b"x")
    with pytest.raises(tr.VaultError, match="was not closed, and cannot be read on a read-only file system"):
        ledgers.frozen(path)


def test_a_ledger_is_marked_as_one() -> None:
    assert ledgers.APPLICATION.to_bytes(4, "big") == b"tree"
