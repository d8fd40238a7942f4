"""Vaults with bases after every few appends, and what is found when they are opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treering as tr
from support.vaults import BETA, SCHEMA, crash, frame
from treering.trusted.rows import batches
from treering.vault import bases, parts
from treering.vault.vault import Vault

EVERY = tuple(range(len(SCHEMA.shape)))
TO_A_BASE = 4
"""Parts to a base, in these tests."""


def make_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base after every four appends; at the end of a session, too, for no less."""
    monkeypatch.setattr(bases, "_TIMES", 0.0)
    monkeypatch.setattr(bases, "_DUE", TO_A_BASE * bases._FILE)
    monkeypatch.setattr(bases, "_WORTHWHILE", 1.0)


def rows_of(number: int) -> Any:
    return frame(3 + number, seed=number)


def lived(place: Path, appends: int, kind: str | None = None, **options: Any) -> Vault:
    """A vault with so many appends. A tree is begun with the first question about some rows."""
    vault = Vault.create(place, SCHEMA, 1000.0, 1e-6, 0.2, BETA, kind, **options)
    for number in range(appends):
        vault.append(rows_of(number))
        if number == 0 and kind == "continual":
            vault.ask("late = 'yes'")
    return vault


def cells(vault: Vault) -> npt.NDArray[np.int64]:
    return vault._counts.marginal(EVERY).copy()


def expected(appends: int) -> npt.NDArray[np.int64]:
    db = tr.GrowingDatabase(SCHEMA)
    for number in range(appends):
        db.append(rows_of(number))
    return db._counts.marginal(EVERY)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(bytes(content))


def base_lines(vault: Vault) -> list[dict[str, Any]]:
    return [line["body"] for line in vault.ledger() if line["kind"] == "base"]


def names(vault: Vault) -> set[str]:
    return {name for name in vault._ledger.secrets() if name.startswith("base")}


def opened_from(place: Path, appends: int) -> int:
    """Open a vault as a killed process leaves it: how many parts were not read, with the counts right."""
    read = batches.read_batch
    found: list[str] = []

    def noting(content: bytes, name: str, sums: int) -> batches.Batch:
        found.append(name)
        return read(content, name, sums)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "read_batch", noting)
        vault = Vault.open(place)
    assert (cells(vault) == expected(appends)).all()
    assert found == [part.cells for part in vault._record.parts][appends - len(found) :]
    crash(vault)
    return appends - len(found)
