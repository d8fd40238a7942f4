"""A vault's refresh that is interrupted is whole or absent: a retry takes each row of the table once."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import treering as tr
from support.growing_table import GrowingTable
from support.interrupts import Interrupt
from support.table_vaults import check_once, created, in_a_run, opened
from support.vaults import crash

EVERY_STEP = "TORTURE_KILLS" in os.environ

FILES = (
    *(
        "vault/vault.py",
        "trusted/store.py",
        "engines/attached.py",
        "ledger/ledger.py",
        "rows/parts.py",
        "ledger/journal.py",
        "rows/spool.py",
    ),
    *("vault/together.py", "rows/kept.py", "ledger/named.py", "memory/database.py"),
)


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.DroppedRows)
        yield


@pytest.fixture
def table(tmp_path: Path) -> GrowingTable:
    return GrowingTable(tmp_path / "rows.duckdb", 20_000, 21_000)


@pytest.fixture
def original(tmp_path: Path, table: GrowingTable) -> Path:
    created(tmp_path / "original", table)
    return tmp_path / "original"


@pytest.mark.parametrize(
    ("crashes", "stride", "files"),
    [(True, 29, FILES), (False, 29, FILES), (False, 2, ("ledger/journal.py",))],
    ids=["crashes", "goes on", "goes on with its lease"],
)
def test_an_interrupt_at_any_step_of_a_refresh(
    crashes: bool, stride: int, files: tuple[str, ...], original: Path, table: GrowingTable, tmp_path: Path
) -> None:
    """The vault stops, or a retry of the refresh succeeds at once; either way nothing is lost, nor anything twice."""
    step, fell, stopped = 0, True, 0
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        vault = opened(place, table)
        before = in_a_run(vault)
        interrupt = Interrupt(step, *files)
        with suppress(KeyboardInterrupt), interrupt:
            vault.refresh("drop")
        fell, ended = interrupt.fell, False
        if not crashes:
            try:
                assert vault.refresh("drop") == table.after.size
                vault.close()
                ended = True
            except tr.VaultError as refusal:
                stopped += "it was interrupted" in str(refusal)
        if not ended:
            crash(vault)
        with opened(place, table) as vault:
            check_once(vault, table, before, crashed=not ended)
        shutil.rmtree(place)
        step += 1 if EVERY_STEP else stride
    assert step > 30
    assert crashes or stopped
