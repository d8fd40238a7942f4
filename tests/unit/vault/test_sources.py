"""Whose table it is: one vault's, noted where only this user looks; void when that vault is gone or was never made."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import treering as tr
from support.vaults import SCHEMA, guarded
from treering.budget.promise import Promise
from treering.vault.files import Folder
from treering.vault.record import Origin
from treering.vault.sources import Attached, claim
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
    first = replace(ORIGIN, identity=holder._record.origin.identity)
    claim(first, Folder(tmp_path / "holder"))
    with pytest.raises(tr.VaultError, match=f"the vault at {tmp_path / 'holder'} has this table already"):
        claim(OTHER, Folder(tmp_path / "another"))
    claim(first, Folder(tmp_path / "holder"))  # its own
    claim(replace(OTHER, source={**(OTHER.source or {}), "identity": "other rows"}), Folder(tmp_path / "another"))
    assert len(held_by(state)) == 2


def test_the_claim_of_a_vault_that_is_gone_is_void(tmp_path: Path, state: Path, holder: Vault) -> None:
    claim(ORIGIN, Folder(tmp_path / "never made"))
    # Another vault is there now than the one that claims the table.
    assert OTHER.identity != holder._record.origin.identity
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
        Attached(ORIGIN).increment(None, "refuse")
