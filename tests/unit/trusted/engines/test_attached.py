"""Whose table it is: one vault's, noted where only this user looks; void when that vault is gone or was never made."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.vaults import SCHEMA, guarded
from treering.budget.promise import Promise
from treering.trusted.engines import attached as attaching
from treering.trusted.engines.attached import Attached, claim, source_of
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.named import Batch
from treering.trusted.ledger.record import Origin
from treering.trusted.rows.kept import Rows
from treering.vault.vault import Vault

ORIGIN = Origin("1" * 32, SCHEMA, Promise(1.0), source={"identity": "rows", "address": "", "order": "id"})
OTHER = replace(ORIGIN, identity="2" * 32)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "treering" / "tables"


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Vault]:
    """A vault that could have claimed the table."""
    with guarded(tmp_path / "holder", rows=0) as vault:
        yield vault


def held_by(state: Path) -> list[dict[str, str]]:
    return [json.loads(file.read_text()) for file in state.iterdir()]


def test_a_claim_is_noted_for_this_user_alone(tmp_path: Path, state: Path) -> None:
    before = os.umask(0)
    try:
        claim(ORIGIN, Folder(tmp_path / "vault"))
    finally:
        os.umask(before)
    assert held_by(state) == [{"path": str(tmp_path / "vault"), "identity": ORIGIN.identity}]
    (file,) = state.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (state, file)] == [0o700, 0o600]


def test_a_table_belongs_to_one_vault(tmp_path: Path, state: Path, holder: Vault) -> None:
    first = replace(ORIGIN, identity=holder._store._record.origin.identity)
    claim(first, Folder(tmp_path / "holder"))
    with pytest.raises(tr.VaultError, match=f"the vault at {tmp_path / 'holder'} has this table already"):
        claim(OTHER, Folder(tmp_path / "another"))
    claim(first, Folder(tmp_path / "holder"))  # its own
    claim(replace(OTHER, source={**(OTHER.source or {}), "identity": "other rows"}), Folder(tmp_path / "another"))
    assert len(held_by(state)) == 2


def test_the_claim_of_a_vault_that_is_gone_is_void(tmp_path: Path, state: Path, holder: Vault) -> None:
    claim(ORIGIN, Folder(tmp_path / "never made"))
    # Another vault is there now than the one that claims the table.
    assert OTHER.identity != holder._store._record.origin.identity
    claim(OTHER, Folder(tmp_path / "holder"))
    claim(ORIGIN, Folder(tmp_path / "last"))
    assert [each["path"] for each in held_by(state)] == [str(tmp_path / "last")]
    (file,) = state.iterdir()
    for broken in ("", "{", "[]", '{"path": "x"}'):
        file.write_text(broken)
        claim(OTHER, Folder(tmp_path / "after a crash"))
        assert [each["path"] for each in held_by(state)] == [str(tmp_path / "after a crash")]


def test_where_nothing_can_be_noted_no_vault_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        tr.VaultError, match=f"cannot note whose table this is in {tmp_path / 'file'}.*: Not a directory"
    ):
        claim(ORIGIN, Folder(tmp_path / "vault"))


def test_a_table_without_an_address_must_be_handed_over() -> None:
    with pytest.raises(tr.VaultError, match="has no address to find it by: open the vault with table="):
        Attached(ORIGIN).increment("refuse")


# -- the table itself --------------------------------------------------------------------------------------------------


class Table:
    """A table in an engine, and what it was asked."""

    def __init__(self, identity: str = "rows", address: str | None = None) -> None:
        self.identity, self.address = identity, address
        self.asked: list[tuple[Any, str]] = []

    def increment(self, watermark: Any, on_invalid: str) -> str:
        """The rows past a watermark."""
        self.asked.append((watermark, on_invalid))
        return "the rows"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is connected to: tables stand for themselves."""
    found: list[tuple[Any, ...]] = []

    def source(table: Any, schema: tr.Schema, order: str) -> Any:
        found.append((table, schema, order))
        return Table("rows") if isinstance(table, str) else table

    monkeypatch.setattr(attaching, "_source", source)
    return found


def test_what_the_ledger_keeps_of_a_table(connected: list[tuple[Any, ...]]) -> None:
    for address in (None, "duckdb:///x"):
        kept = source_of(Table("rows", address), SCHEMA, "id", None)
        assert kept == {"identity": "rows", "address": address or "", "order": "id"}
    assert [each[1:] for each in connected] == [(SCHEMA, "id")] * 2


def test_a_table_is_connected_to_when_it_is_read_and_once(connected: list[tuple[Any, ...]]) -> None:
    kept = {"identity": "rows", "address": "somewhere", "order": "number"}
    attached = Attached(replace(ORIGIN, source=kept))
    assert connected == []
    mark = {"value": 7, "rows": 3, "dropped": 0, "columns": []}
    rows = Rows(SCHEMA)
    for size in (0, 3):
        increment: Any = attached.increment("drop")
        assert (increment, rows.size) == ("the rows", size)
        attached.take_up(rows, Batch(1, 3, 3, 0, "", mark))
    assert connected == [("somewhere", SCHEMA, "number")]
    table: Any = attached._source
    assert [on_invalid for _, on_invalid in table.asked] == ["drop", "drop"]
    assert table.asked[0][0] is None
    assert table.asked[1][0].value == 7


def test_a_table_that_is_handed_over_must_be_the_vaults_own(connected: list[tuple[Any, ...]]) -> None:
    mine = Table("rows")
    attached = Attached(ORIGIN, mine)
    assert connected == [(mine, SCHEMA, "id")]
    attached.increment("refuse")
    assert mine.asked == [(None, "refuse")]
    with pytest.raises(tr.VaultError, match="this is another table than the one that the vault was made for"):
        Attached(ORIGIN, Table("other rows"))


def test_a_claim_is_noted_in_the_home_of_whoever_has_no_other_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    claim(ORIGIN, Folder(tmp_path / "vault"))
    assert len(held_by(tmp_path / ".local" / "state" / "treering" / "tables")) == 1


def test_a_ledger_without_lines_holds_no_table(tmp_path: Path, state: Path) -> None:
    folder = Folder(tmp_path / "unfinished")
    folder.create()
    ledgers.create(folder.ledger).close()
    claim(ORIGIN, folder)
    claim(OTHER, Folder(tmp_path / "another"))
    assert [each["path"] for each in held_by(state)] == [str(tmp_path / "another")]
