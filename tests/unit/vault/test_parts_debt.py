"""A base that cannot be written is tried again when one is due again, not at every append."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treering as tr
from treering.errors import VaultError
from treering.vault.bases import Bases
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"a": tr.integers(0, 9)})


def test_on_a_full_disk_a_base_is_not_tried_at_every_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def full(*_: Any) -> None:
        tried.append(1)
        raise VaultError("no space left")

    with Vault.create(tmp_path / "v", SCHEMA, 1.0, mechanism=None) as vault:
        monkeypatch.setattr(Bases, "save", full)
        vault._parts._debt = 1e9
        for key in ("one", "two", "three"):
            vault.append([{"a": 1}], key=key)
        assert len(tried) == 1
        assert vault._parts._debt < 1
