"""Errors of SQLite and of the disk are errors of the vault, in words, and leave nothing open."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import apsw
import pytest

import treering as tr
from support.parts import flip, make_often
from support.vaults import frame, guarded
from treering.answer import Answer
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.ledger import TORN, asked, check_format, connect, describe, frozen, reading
from treering.trusted.ledger.lines import Line, body
from treering.vault.vault import Vault

LINE = Line("rows", body(size=1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ledger = ledgers.create(tmp_path / "ledger.sqlite")
    ledger.write(LINE)
    ledger.close()
    return tmp_path / "ledger.sqlite"


def is_open(path: Path) -> bool:
    return str(path) in {each.filename for each in apsw.connections()}


# -- opening and reading -----------------------------------------------------------------------------------------------


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    for opened in (connect, frozen, ledgers.open_writer):
        with pytest.raises(tr.VaultError, match="cannot open the ledger: unable to open"):
            opened(tmp_path / "nothing.sqlite")
    assert not (tmp_path / "nothing.sqlite").exists()


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(tr.DamagedVault, match="the ledger is damaged: .*restore a backup"):
        connect(tmp_path / "text")
    assert not is_open(tmp_path / "text")
    connection = apsw.Connection(str(tmp_path / "text"))
    with pytest.raises(tr.DamagedVault, match="the ledger is damaged: .*restore a backup"):
        check_format(connection)
    connection.close()


def test_what_a_reader_cannot_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(_: apsw.Connection) -> int:
        raise apsw.BusyError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "check_format", busy)
        with pytest.raises(tr.VaultError, match="cannot read the ledger: database is locked"), reading(path):
            pytest.fail("nothing is read")
    assert not is_open(path)
    before = ledgers.FORMAT
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "FORMAT", before + 1)
        with pytest.raises(tr.UnknownFormat, match=f"has format {before}, and this version"), reading(path):
            pytest.fail("nothing is read")
    assert not is_open(path)
    with reading(path) as connection:
        with pytest.raises(apsw.ReadOnlyError):
            connection.execute("delete from ledger")
        assert [entry.seq for entry in ledgers.rows_of(connection)] == [1]
        assert list(ledgers.rows_of(connection, after=1)) == []
    assert not is_open(path)


def test_a_statement_that_fails(path: Path) -> None:
    connection = connect(path)
    with pytest.raises(tr.DamagedVault, match="no such table"):
        list(asked(connection, "select * from nowhere"))
    connection.close()
    with pytest.raises(tr.VaultError, match="cannot read the ledger: ") as caught:
        list(asked(connection, "select * from ledger"))
    assert not isinstance(caught.value, tr.DamagedVault)


def test_errors_in_words() -> None:
    assert describe(apsw.FullError("database or disk is full")) == "the disk is full"
    assert describe(apsw.IOError("disk I/O error")) == "the disk failed"
    assert describe(apsw.ReadOnlyError("attempt to write a readonly database")) == "it is read-only"
    assert describe(apsw.BusyError("database is locked")) == "database is locked"
    assert describe(apsw.BusyError()) == "BusyError"


# -- transactions ------------------------------------------------------------------------------------------------------


def refused() -> tr.BudgetExceeded:
    return tr.BudgetExceeded("epsilon", spent=Fraction(1), requested=Fraction(1), total=Fraction(1))


def write_and_fail(ledger: ledgers.Ledger, error: BaseException) -> None:
    with ledger.transaction():
        ledger.write(LINE)
        raise error


def test_an_error_of_ours_in_a_transaction_keeps_what_was_written(path: Path) -> None:
    ledger = ledgers.open_writer(path)
    ledger.read()
    with pytest.raises(tr.BudgetExceeded):
        write_and_fail(ledger, refused())
    assert ledger.seq == 2
    ledger.write(LINE)
    ledger.close()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_any_other_error_stops_the_vault_once_something_was_written(path: Path, error: type[BaseException]) -> None:
    ledger = ledgers.open_writer(path)
    ledger.read()
    with pytest.raises(error), ledger.transaction():
        raise error
    ledger.check_entry()
    with pytest.raises(error):
        write_and_fail(ledger, error())
    assert ledger.seq == 2  # It is on record, whatever became of the rest.
    for use in (ledger.check_usable, ledger.check_entry, ledger.transaction, lambda: ledger.write(LINE)):
        with pytest.raises(tr.VaultError, match=f"the vault stopped because {TORN}"):
            use()
    ledger.close()


def test_lines_that_an_interrupt_left_waiting_stop_the_vault(path: Path) -> None:
    ledger = ledgers.open_writer(path)
    ledger.read()
    ledger.__enter__()
    ledger.write(LINE)
    with pytest.raises(tr.VaultError, match=f"the vault stopped because {TORN}"):
        ledger.check_entry()
    ledger.close()


def test_answers_that_are_not_durable_are_withheld(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise apsw.FullError("database or disk is full")

    ledger = ledgers.open_writer(path)
    ledger.read()
    refusal = refused()
    refusal.answers = (Answer(0.5, 0.1, 10, "measured"),)
    monkeypatch.setattr(ledger.__class__, "_write_lines", full)
    with pytest.raises(tr.VaultError, match="its ledger could not be written .the disk is full"):
        write_and_fail(ledger, refusal)
    assert len(refusal.answers) == 0
    ledger.close()


# -- folders and parts -------------------------------------------------------------------------------------------------


def test_a_vault_whose_folder_cannot_be_synced_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("treering.trusted.creating.sync_folder", failing)
    place = tmp_path / "vault"
    with pytest.raises(tr.VaultError, match=f"cannot create a vault at {re.escape(str(place))}: Input/output error"):
        guarded(place)
    monkeypatch.undo()
    Vault.open(place, wait=0).close()  # Whatever is there, nobody holds its lock.


def test_a_place_that_cannot_be_looked_at(tmp_path: Path) -> None:
    for use in (Vault.open, Vault.read):
        with pytest.raises(tr.VaultError, match="cannot read the vault at .*: File name too long"):
            use(tmp_path / ("x" * 300))


@pytest.mark.parametrize("lost", ["missing", "changed"])
def test_a_backup_of_a_vault_that_lacks_a_part_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    make_often(monkeypatch, large=3)
    with guarded(tmp_path / "vault", rows=0) as vault:
        for _ in range(2):
            vault.append(frame(3))
        if lost == "missing":
            (tmp_path / "vault" / "parts" / "00000002.parquet").unlink()
        else:
            flip(tmp_path / "vault" / "parts" / "00000002.parquet", 0.1)
        with pytest.raises(tr.DamagedVault, match=r"part 00000002\.parquet is missing, or not what was written"):
            vault.backup(tmp_path / "backup")
    with pytest.raises(tr.VaultError, match=r"ledger\.sqlite"):
        Vault.open(tmp_path / "backup")
